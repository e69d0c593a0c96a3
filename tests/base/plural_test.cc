// Goal: counts in messages read as English. Method: one, none and many of a unit.

#include "coppice/base/plural.h"

#include <cstdint>

#include "tests/support/test.h"

namespace coppice {
namespace {

TEST(PluralTest, OneHasNoEnding) {
  EXPECT_EQ(Plural(1, "byte"), "1 byte");
  EXPECT_EQ(Plural(uint64_t{0}, "byte"), "0 bytes");
  EXPECT_EQ(Plural(size_t{1000}, "graph"), "1000 graphs");
  EXPECT_EQ(PluralEnding(1), "");
  EXPECT_EQ(PluralEnding(-1), "s");
}

}  // namespace
}  // namespace coppice
