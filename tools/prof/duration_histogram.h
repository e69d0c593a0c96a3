// Percentiles of many durations in little memory, each within 1/64 of what it is.
//
// Units: nanoseconds. Threads: plain values.

#pragma once

#include <cstdint>
#include <vector>

namespace coppice {

class DurationHistogram {
 public:
  // Requires: ns >= 0.
  void Add(int64_t ns);

  int64_t count() const { return count_; }
  int64_t most() const { return most_; }

  // The least duration that `percent` of all are not above; 0 of none. The last of them is exact.
  // Requires: 0 < percent <= 100.
  int64_t Percentile(double percent) const;

 private:
  std::vector<int64_t> counts_;  // Of cells: single numbers, then 64 for each power of two.
  int64_t count_ = 0;
  int64_t most_ = 0;
};

}  // namespace coppice
