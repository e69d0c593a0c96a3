// Goal: columns line up, and numbers read as people write them. Method: texts, letter for letter.

#include "tools/support/text_table.h"

#include <cstdint>

#include "gtest/gtest.h"

namespace coppice {
namespace {

TEST(TextTableTest, ColumnsAreAsWideAsTheirWidestCell) {
  TextTable table("lr", {"name", "bytes"});
  table.Add({"a", "1000000"});
  table.Add({"longer", ""});
  EXPECT_EQ(table.Format(),
            "  name      bytes\n"
            "  a       1000000\n"
            "  longer\n");
  EXPECT_EQ(TextTable("l", {}).Format(), "");
}

TEST(TextTableTest, OfNothingTheShareIsNothing) {
  EXPECT_EQ(Percent(0, 0), 0);
  EXPECT_EQ(Percent(1, 4), 25);
}

TEST(TextTableTest, NumbersHaveACommaForEachThousand) {
  EXPECT_EQ(Grouped(0), "0");
  EXPECT_EQ(Grouped(999), "999");
  EXPECT_EQ(Grouped(1000), "1,000");
  EXPECT_EQ(Grouped(-999), "-999");
  EXPECT_EQ(Grouped(-1234567), "-1,234,567");
  EXPECT_EQ(Grouped(INT64_MIN), "-9,223,372,036,854,775,808");
}

TEST(TextTableTest, OneIsOneAndAllElseAreMany) {
  EXPECT_EQ(Counted(0, "lane"), "0 lanes");
  EXPECT_EQ(Counted(1, "lane"), "1 lane");
  EXPECT_EQ(Counted(2000, "lane"), "2,000 lanes");
}

}  // namespace
}  // namespace coppice
