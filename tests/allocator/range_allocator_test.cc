// Goal: the range allocator keeps its books and picks the range that its contract names.
// Method: its limits by hand, and 10,000 seeded operations against a map of single units.

#include "coppice/allocator/range_allocator.h"

#include "tests/support/test.h"
#include "tests/support/test_device.h"

namespace coppice {
namespace {

TEST(RangeAllocatorTest, StartsEmpty) {
  const RangeAllocator ranges(1024, 256);
  EXPECT_EQ(ranges.capacity(), 1024);
  EXPECT_EQ(ranges.live_bytes(), 0);
  EXPECT_EQ(ranges.live_count(), 0);
  EXPECT_EQ(ranges.top(), 0);
  EXPECT_EQ(ranges.peak(), 0);
  EXPECT_OK(ranges.Validate());
}

TEST(RangeAllocatorTest, RefusesWhatNoCapacityHolds) {
  RangeAllocator none(0, 256);
  EXPECT_EQ(none.Allocate(1), std::nullopt);
  RangeAllocator partial(300, 256);  // The last 44 bytes hold no aligned size.
  EXPECT_EQ(partial.Allocate(257), std::nullopt);
  EXPECT_EQ(partial.Allocate(INT64_MAX), std::nullopt);
  EXPECT_EQ(partial.Allocate(256), 0);
  EXPECT_EQ(partial.Allocate(1), std::nullopt);
  EXPECT_OK(partial.Validate());
  RangeAllocator whole(INT64_MAX, 256);
  EXPECT_EQ(whole.Allocate(INT64_MAX), std::nullopt);
  EXPECT_EQ(whole.Allocate(INT64_MAX - 255), 0);
}

TEST(RangeAllocatorDeathTest, ChecksWhatItRequires) {
  EXPECT_DEATH(RangeAllocator(-1, 256), "capacity");
  EXPECT_DEATH(RangeAllocator(1024, 0), "alignment");
  EXPECT_DEATH(RangeAllocator(1024, 96), "alignment");
  RangeAllocator ranges(1024, 256);
  EXPECT_DEATH(ranges.Allocate(0), "at least one byte");
  ASSERT_EQ(ranges.Allocate(512), 0);
  EXPECT_DEATH(ranges.Free(256), "no live range begins");
  ranges.Free(0);
  EXPECT_DEATH(ranges.Free(0), "no live range begins");
}

// What the allocator promises, over a map with one entry per unit of the alignment.
class UnitMap {
 public:
  explicit UnitMap(size_t units) : used_(units) {}

  // The start of the tightest, lowest run of free units; nullopt if none is long enough.
  std::optional<size_t> Allocate(size_t units) {
    std::optional<size_t> best;
    size_t best_run = used_.size() + 1;
    for (size_t start = 0; start < used_.size();) {
      size_t end = start;
      while (end < used_.size() && !used_[end])
        ++end;
      if (end - start >= units && end - start < best_run) {
        best = start;
        best_run = end - start;
      }
      start = end + 1;
    }
    if (best) Set(*best, units, true);
    return best;
  }
  void Free(size_t start, size_t units) { Set(start, units, false); }

  int64_t top() const {
    size_t top = used_.size();
    while (top > 0 && !used_[top - 1])
      --top;
    return static_cast<int64_t>(top);
  }

 private:
  void Set(size_t start, size_t units, bool used) {
    for (size_t i = start; i < start + units; ++i)
      used_[i] = used;
  }

  std::vector<bool> used_;
};

TEST(RangeAllocatorTest, AgreesWithAMapOfUnits) {
  SCOPED_TRACE(testing::Message() << "seed " << TestSeed());
  constexpr size_t kUnits = 150;
  constexpr int64_t kUnitBytes = 256;
  struct Live {
    int64_t offset;
    size_t units;
  };
  std::mt19937_64 random(TestSeed());
  RangeAllocator ranges(kUnits * kUnitBytes, kUnitBytes);
  UnitMap model(kUnits);
  std::vector<Live> live;
  int64_t live_units = 0;
  int64_t peak = 0;
  int refused = 0;
  for (int step = 0; step < 10'000; ++step) {
    if (live.empty() || random() % 100 < 55) {
      const int64_t bytes = static_cast<int64_t>(1 + random() % (16 * kUnitBytes));
      const size_t units = static_cast<size_t>(CeilDivide(bytes, kUnitBytes));
      const std::optional<int64_t> offset = ranges.Allocate(bytes);
      const std::optional<size_t> start = model.Allocate(units);
      ASSERT_EQ(offset.has_value(), start.has_value()) << "step " << step;
      refused += offset ? 0 : 1;
      if (!offset) continue;
      ASSERT_EQ(*offset, static_cast<int64_t>(*start) * kUnitBytes) << "step " << step;
      live.push_back({*offset, units});
      live_units += static_cast<int64_t>(units);
    } else {
      std::swap(live[random() % live.size()], live.back());
      const Live freed = live.back();
      live.pop_back();
      ASSERT_EQ(ranges.Free(freed.offset), static_cast<int64_t>(freed.units) * kUnitBytes);
      model.Free(static_cast<size_t>(freed.offset / kUnitBytes), freed.units);
      live_units -= static_cast<int64_t>(freed.units);
    }
    ASSERT_OK(ranges.Validate()) << "step " << step;
    ASSERT_EQ(ranges.live_bytes(), live_units * kUnitBytes);
    ASSERT_EQ(ranges.live_count(), static_cast<int64_t>(live.size()));
    ASSERT_EQ(ranges.top(), model.top() * kUnitBytes);
    peak = std::max(peak, ranges.top());
    ASSERT_EQ(ranges.peak(), peak);
  }
  EXPECT_GT(refused, 0);
}

}  // namespace
}  // namespace coppice
