// Goal: every sentence of graphs/parts/covered_bytes.h. Method: random stretches that come and go,
// beside a count per byte.

#include "graphs/parts/covered_bytes.h"

#include "tests/support/test.h"
#include "tests/support/test_device.h"

namespace coppice::internal {
namespace {

TEST(CoveredBytesTest, BytesAreThoseThatAnythingCovers) {
  SCOPED_TRACE(testing::Message() << "seed " << TestSeed());
  std::mt19937_64 random(TestSeed());
  constexpr size_t kBytes = 40;
  for (int round = 0; round < 200; ++round) {
    CoveredBytes covered;
    std::array<int, kBytes> counts{};
    std::vector<std::pair<size_t, size_t>> stretches;
    for (int step = 0; step < 60; ++step) {
      if (!stretches.empty() && random() % 5 < 2) {
        const size_t chosen = random() % stretches.size();
        const auto [begin, end] = stretches[chosen];
        stretches.erase(stretches.begin() + static_cast<std::ptrdiff_t>(chosen));
        covered.Uncover(begin, end);
        for (size_t byte = begin; byte < end; ++byte)
          --counts[byte];
      } else {
        const auto [begin, end] = std::minmax({random() % (kBytes + 1), random() % (kBytes + 1)});
        stretches.emplace_back(begin, end);
        covered.Cover(begin, end);
        for (size_t byte = begin; byte < end; ++byte)
          ++counts[byte];
      }
      ASSERT_EQ(covered.bytes(), std::ranges::count_if(counts, [](int count) { return count > 0; }))
          << "round " << round << ", step " << step;
    }
    for (const auto& [begin, end] : stretches)
      covered.Uncover(begin, end);
    EXPECT_EQ(covered.bytes(), 0);
    EXPECT_EQ(covered.cuts(), 0U);
  }
}

TEST(CoveredBytesTest, StretchesThatTouchAreUncoveredOneByOne) {
  CoveredBytes covered;
  covered.Cover(0, 10);
  covered.Cover(10, 20);
  EXPECT_EQ(covered.cuts(), 3U);
  covered.Uncover(0, 10);
  EXPECT_EQ(covered.bytes(), 10);
  EXPECT_EQ(covered.cuts(), 2U);
}

TEST(CoveredBytesTest, AddressesMayBeAsHighAsADeviceHasThem) {
  constexpr DeviceAddress kHigh = ~DeviceAddress{0} - 100;
  CoveredBytes covered;
  covered.Cover(kHigh, kHigh + 100);
  covered.Cover(kHigh + 50, kHigh + 100);
  EXPECT_EQ(covered.bytes(), 100);
  covered.Uncover(kHigh, kHigh + 100);
  EXPECT_EQ(covered.bytes(), 50);
}

}  // namespace
}  // namespace coppice::internal
