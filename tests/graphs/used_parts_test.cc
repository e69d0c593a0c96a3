// Goal: a buffer's parts are those that the same nodes touch. Method: small cases by hand; random
// uses against a model that keeps the nodes of each byte.

#include "graphs/record/used_parts.h"

#include "tests/support/test.h"
#include "tests/support/test_device.h"

namespace coppice::internal {
namespace {

constexpr int64_t kBufferBytes = 24;

std::set<int64_t> StepsOf(const UsedPart& part) {
  std::set<int64_t> steps;
  for (const Interval& interval : part.steps) {
    for (int64_t step = interval.lower; step < interval.upper; ++step)
      steps.insert(step);
  }
  return steps;
}

TEST(UsedPartsTest, WhatNoNodeTouchesIsNoPart) {
  EXPECT_THAT(UsedPartsOf(kBufferBytes, {}, std::nullopt), IsEmpty());
  const Use uses[] = {{.node = 3, .begin = 8, .end = 16}};
  const std::vector<UsedPart> parts = UsedPartsOf(kBufferBytes, uses, std::nullopt);
  ASSERT_EQ(parts.size(), 1U);
  EXPECT_EQ(parts[0].begin, 8);
  EXPECT_EQ(parts[0].end, 16);
  EXPECT_EQ(StepsOf(parts[0]), (std::set<int64_t>{3}));
}

TEST(UsedPartsTest, AtTheLastStepAllOfItIsUsed) {
  const std::vector<UsedPart> parts = UsedPartsOf(kBufferBytes, {}, 7);
  ASSERT_EQ(parts.size(), 1U);
  EXPECT_EQ(parts[0].begin, 0);
  EXPECT_EQ(parts[0].end, kBufferBytes);
  EXPECT_EQ(StepsOf(parts[0]), (std::set<int64_t>{7}));
}

TEST(UsedPartsTest, EachByteIsInThePartOfItsNodes) {
  std::mt19937_64 random(TestSeed());
  for (int i = 0; i < 2000; ++i) {
    std::vector<Use> uses;
    std::vector<std::set<int64_t>> nodes(kBufferBytes);
    for (uint64_t count = random() % 8; count > 0; --count) {
      const auto begin = static_cast<int64_t>(random() % kBufferBytes);
      const int64_t end = begin + 1 + static_cast<int64_t>(random()) % (kBufferBytes - begin) / 2;
      uses.push_back({.node = static_cast<int64_t>(random() % 6),
                      .begin = begin,
                      .end = std::clamp(end, begin + 1, kBufferBytes)});
      for (int64_t byte = begin; byte < uses.back().end; ++byte)
        nodes[static_cast<size_t>(byte)].insert(uses.back().node);
    }
    std::ranges::sort(uses);
    std::optional<int64_t> last;
    if (random() % 2 == 0) {
      last = 6;
      for (std::set<int64_t>& steps : nodes)
        steps.insert(*last);
    }
    int64_t before = -1;
    std::set<int64_t> steps_before;
    for (const UsedPart& part : UsedPartsOf(kBufferBytes, uses, last)) {
      ASSERT_LT(part.begin, part.end);
      ASSERT_GE(part.begin, before);
      EXPECT_TRUE(part.begin > before || StepsOf(part) != steps_before) << "neighbours differ";
      before = part.end;
      steps_before = StepsOf(part);
      for (int64_t byte = part.begin; byte < part.end; ++byte)
        EXPECT_EQ(std::exchange(nodes[static_cast<size_t>(byte)], {}), steps_before);
    }
    for (const std::set<int64_t>& steps : nodes)
      EXPECT_THAT(steps, IsEmpty()) << "in no part";
  }
}

}  // namespace
}  // namespace coppice::internal
