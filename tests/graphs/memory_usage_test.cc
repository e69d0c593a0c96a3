// Goal: every kind of memory has a name of its own, and is read by its number.
// Method: all enumerators.

#include "coppice/graphs/memory_usage.h"

#include "tests/support/test.h"

namespace coppice {
namespace {

TEST(MemoryUsageTest, NamesAreThoseOfTheHeaderInItsOrder) {
  std::string names;
  for (int i = 0; i < kMemoryKindCount; ++i)
    names += std::string(NameOf(static_cast<MemoryKind>(i))) + " ";
  EXPECT_EQ(names,
            "nodes eager staging copy_out workspace constants spare included graphs external ");
}

TEST(MemoryUsageTest, ReadsBytesAndPeakByKind) {
  MemoryUsage usage;
  usage.bytes[static_cast<size_t>(MemoryKind::kStaging)] = 7;
  usage.peak[static_cast<size_t>(MemoryKind::kStaging)] = 9;
  EXPECT_EQ(usage.of(MemoryKind::kStaging), 7);
  EXPECT_EQ(usage.peak_of(MemoryKind::kStaging), 9);
  EXPECT_EQ(usage.of(MemoryKind::kPlan), 0);
}

}  // namespace
}  // namespace coppice
