// How long something took, in a few classes. Private to graphs/.
//
// Units: nanoseconds. Threads: plain values.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace coppice::internal {

// The end of a class, which belongs to it, and the same in seconds as a page writes it: the
// shortest digits, as OpenMetrics asks for.
struct TimeBound {
  int64_t ns = 0;
  const char* seconds = "";
};

inline constexpr size_t kTimeBoundCount = 16;
using TimeBounds = std::array<TimeBound, kTimeBoundCount>;  // Ascending; one class lies beyond.

inline constexpr TimeBounds kRecordBounds = {{{100'000, "0.0001"},
                                              {250'000, "0.00025"},
                                              {500'000, "0.0005"},
                                              {1'000'000, "0.001"},
                                              {2'500'000, "0.0025"},
                                              {5'000'000, "0.005"},
                                              {10'000'000, "0.01"},
                                              {25'000'000, "0.025"},
                                              {50'000'000, "0.05"},
                                              {100'000'000, "0.1"},
                                              {250'000'000, "0.25"},
                                              {500'000'000, "0.5"},
                                              {1'000'000'000, "1.0"},
                                              {2'500'000'000, "2.5"},
                                              {5'000'000'000, "5.0"},
                                              {10'000'000'000, "10.0"}}};

inline constexpr TimeBounds kReplayBounds = {{{250, "2.5e-07"},
                                              {500, "5e-07"},
                                              {750, "7.5e-07"},
                                              {1'000, "1e-06"},
                                              {1'500, "1.5e-06"},
                                              {2'000, "2e-06"},
                                              {3'000, "3e-06"},
                                              {5'000, "5e-06"},
                                              {7'500, "7.5e-06"},
                                              {10'000, "1e-05"},
                                              {25'000, "2.5e-05"},
                                              {50'000, "5e-05"},
                                              {100'000, "0.0001"},
                                              {250'000, "0.00025"},
                                              {1'000'000, "0.001"},
                                              {10'000'000, "0.01"}}};

class TimeHistogram {
 public:
  explicit TimeHistogram(const TimeBounds& bounds) : bounds_(&bounds) {}

  void Note(int64_t ns) {
    size_t index = 0;
    while (index < kTimeBoundCount && ns > (*bounds_)[index].ns)
      ++index;
    ++counts_[index];
    sum_ns_ += ns;
  }
  // Requires: the same bounds.
  TimeHistogram& operator+=(const TimeHistogram& other) {
    for (size_t i = 0; i < counts_.size(); ++i)
      counts_[i] += other.counts_[i];
    sum_ns_ += other.sum_ns_;
    return *this;
  }

  const TimeBounds& bounds() const { return *bounds_; }
  // By class, the last one beyond all bounds.
  const std::array<int64_t, kTimeBoundCount + 1>& counts() const { return counts_; }
  int64_t sum_ns() const { return sum_ns_; }

 private:
  const TimeBounds* bounds_;
  std::array<int64_t, kTimeBoundCount + 1> counts_{};
  int64_t sum_ns_ = 0;
};

}  // namespace coppice::internal
