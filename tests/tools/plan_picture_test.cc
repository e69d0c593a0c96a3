// Goal: a picture shows each buffer once, to scale, with gaps as gaps, and the levels that matter.
// Method: plans small enough to say where each block belongs; the text of the picture.

#include "tools/plan/plan_picture.h"

#include <cmath>
#include <cstdlib>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "coppice/allocator/planner.h"
#include "coppice/base/units.h"

#include "tests/support/status_matchers.h"
#include "tests/support/text_count.h"
#include "tests/tools/built_in_programs.h"
#include "tools/plan/lifetime_csv.h"
#include "tools/support/byte_text.h"

namespace coppice {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

LifetimeTable LifetimesOf(const std::string& rows) {
  auto table = ParseLifetimes("id,lower,upper,size,gaps,offset\n" + rows, "t.csv");
  EXPECT_THAT(table, IsOk());
  return table.ok() ? *std::move(table) : LifetimeTable();
}

struct Block {
  double x = 0;
  double y = 0;
  double width = 0;
  double height = 0;
};

// The blocks whose tip starts with `id`, in order.
std::vector<Block> BlocksOf(const std::string& text, const std::string& id) {
  std::vector<Block> blocks;
  for (size_t at = text.find("<rect x"); at != std::string::npos;
       at = text.find("<rect x", at + 1)) {
    const std::string element = text.substr(at, text.find('\n', at) - at);
    if (element.find("<title>" + id + ":") == std::string::npos) continue;
    const auto number = [&](const std::string& name) {
      const size_t value = element.find(" " + name + "=\"") + name.size() + 3;
      return std::strtod(element.c_str() + value, nullptr);
    };
    blocks.push_back({number("x"), number("y"), number("width"), number("height")});
  }
  return blocks;
}

TEST(PlanPictureTest, BlocksAreToScale) {
  const LifetimeTable table = LifetimesOf("a,0,10,100,,\nb,10,20,50,,\nc,0,20,100,,\n");
  const std::string text =
      DrawPlan(table, {.offsets = {0, 0, 100}, .height = 200}, {.name = "t.csv", .bound = 200});
  const Block a = BlocksOf(text, "a").at(0);
  const Block b = BlocksOf(text, "b").at(0);
  const Block c = BlocksOf(text, "c").at(0);
  EXPECT_NEAR(b.x, a.x + a.width, 0.02);
  EXPECT_NEAR(b.width, a.width, 0.02);
  EXPECT_NEAR(c.width, 2 * a.width, 0.02);
  EXPECT_NEAR(a.height, 2 * b.height, 0.02);
  EXPECT_NEAR(a.y + a.height, b.y + b.height, 0.02);  // Both lie on the ground,
  EXPECT_NEAR(c.y + c.height, a.y, 0.02);             // and c on a: address goes up.
}

TEST(PlanPictureTest, ATipSaysIdBytesOffsetAndLifetime) {
  const std::string text =
      DrawPlan(LifetimesOf("w<1>,3,10,100,,\n"), {.offsets = {7}, .height = 107},
               {.name = "t.csv", .bound = 100});
  EXPECT_THAT(text, HasSubstr("<title>w&lt;1&gt;: 100 bytes at offset 7, steps [3, 10)</title>"));
}

TEST(PlanPictureTest, ABufferWithGapsIsSeveralBlocksJoinedByADashedLine) {
  const LifetimeTable table = LifetimesOf("a,0,20,100,5-10 12-15,\nb,5,10,100,,\n");
  const std::string text =
      DrawPlan(table, {.offsets = {0, 0}, .height = 100}, {.name = "t.csv", .bound = 100});
  const std::vector<Block> blocks = BlocksOf(text, "a");
  ASSERT_EQ(blocks.size(), 3U);
  EXPECT_NEAR(blocks[1].x - (blocks[0].x + blocks[0].width), BlocksOf(text, "b").at(0).width, 0.05);
  EXPECT_EQ(CountOf(text, "stroke-dasharray:2 3"), 2);
}

TEST(PlanPictureTest, AFixedBufferIsHatchedAndSaysSo) {
  const LifetimeTable table = LifetimesOf("a,0,20,100,,0\nb,0,20,100,,\n");
  const std::string text =
      DrawPlan(table, {.offsets = {0, 100}, .height = 200}, {.name = "t.csv", .bound = 200});
  EXPECT_EQ(CountOf(text, "url(#hatch)"), 1);
  EXPECT_THAT(text, HasSubstr("a: 100 bytes at offset 0 (fixed)"));
}

TEST(PlanPictureTest, LinesShowHeightBoundAndCapacityAndEqualOnesShareALabel) {
  const LifetimeTable table = LifetimesOf("a,0,20,1024,,\n");
  const Plan plan = {.offsets = {1024}, .height = 2048};
  const std::string apart =
      DrawPlan(table, plan, {.name = "t.csv", .bound = 1024, .capacity = 2560});
  EXPECT_THAT(apart, AllOf(HasSubstr(">height<"), HasSubstr(">2.00 KiB<")));
  EXPECT_THAT(apart, AllOf(HasSubstr(">bound<"), HasSubstr(">1.00 KiB<")));
  EXPECT_THAT(apart, AllOf(HasSubstr(">capacity<"), HasSubstr(">2.50 KiB<")));
  const std::string equal =
      DrawPlan(table, plan, {.name = "t.csv", .bound = 2048, .capacity = 2048});
  EXPECT_THAT(equal, AllOf(HasSubstr(">height = bound = capacity<"), HasSubstr(">2.00 KiB<")));
}

TEST(PlanPictureTest, ACapacityFarAboveThePlanIsNotDrawn) {
  const std::string text =
      DrawPlan(LifetimesOf("a,0,20,1024,,\n"), {.offsets = {0}, .height = 1024},
               {.name = "t.csv", .bound = 1024, .capacity = int64_t{1} << 40});
  EXPECT_THAT(text, Not(HasSubstr(">capacity")));
}

TEST(PlanPictureTest, TitleAndAxesSayWhatIsShown) {
  const std::string text =
      DrawPlan(LifetimesOf("a,0,20,3145728,,\n"), {.offsets = {0}, .height = 3145728},
               {.name = "model.csv", .bound = 3145728});
  EXPECT_THAT(text, HasSubstr("<title>model.csv: 1 buffer, height 3145728 bytes (3.00 MiB), "
                              "0.00 % above the bound of 3145728 bytes</title>"));
  EXPECT_THAT(text, HasSubstr(">address, KiB<"));  // Ticks of 512 KiB.
  EXPECT_THAT(text, HasSubstr(">2560<"));
  EXPECT_THAT(text, HasSubstr(">time, steps<"));
  EXPECT_THAT(text, HasSubstr(">18<"));
}

TEST(PlanPictureTest, HugeNumbersAreDrawnToo) {
  const std::string size = std::to_string(INT64_MAX - 1);
  const std::string text =
      DrawPlan(LifetimesOf("a,0," + size + "," + size + ",,\n"),
               {.offsets = {0}, .height = INT64_MAX - 1}, {.name = "t", .bound = INT64_MAX - 1});
  EXPECT_EQ(BlocksOf(text, "a").size(), 1U);
}

TEST(PlanPictureTest, TwentyThousandBuffersAreAllThereAndEqualPlansGiveEqualText) {
  LifetimeTable table;
  table.buffers = UnpackBuiltIn("short_20000").at(0);
  for (size_t i = 0; i < table.buffers.size(); ++i)
    table.ids.push_back(std::to_string(i));
  COPPICE_ASSERT_OK_AND_ASSIGN(const PlannerResult result, PlanBuffers(table.buffers));
  const PlanPicture picture = {.name = "t.csv", .bound = result.bound};
  const std::string text = DrawPlan(table, result.plan, picture);
  EXPECT_EQ(CountOf(text, "</title></rect>"), 20'000);
  EXPECT_LT(text.size(), 8U << 20);
  EXPECT_EQ(DrawPlan(table, result.plan, picture), text);
}

TEST(ByteTextTest, TakesTheLargestUnitThatFits) {
  EXPECT_EQ(FormatBytes(0), "0 B");
  EXPECT_EQ(FormatBytes(1023), "1023 B");
  EXPECT_EQ(FormatBytes(1536), "1.50 KiB");
  EXPECT_EQ(FormatBytes(kMiB), "1.00 MiB");
  EXPECT_EQ(FormatBytes(1500 * kGiB), "1500.00 GiB");
}

}  // namespace
}  // namespace coppice
