// Host time, and the median of repeated measurements.
//
// Units: microseconds. Threads: plain values.

#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

#include "coppice/base/status.h"

#include "tools/support/statistics.h"

namespace coppice {

class Stopwatch {
 public:
  // Time since the last lap, or since the stopwatch was made.
  double Lap() {
    const Clock::time_point now = Clock::now();
    const double lap = std::chrono::duration<double, std::micro>(now - start_).count();
    start_ = now;
    return lap;
  }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point start_ = Clock::now();
};

// Calls `measure`, which returns a StatusOr<std::array<double, N>>, `repetitions` times: the median
// of each figure. Errors: the first of `measure`. Requires: repetitions >= 1.
template <typename Measure>
auto MediansOf(int64_t repetitions, Measure measure) -> decltype(measure()) {
  std::vector<typename decltype(measure())::value_type> samples;
  for (int64_t i = 0; i < repetitions; ++i) {
    COPPICE_ASSIGN_OR_RETURN(samples.emplace_back(), measure());
  }
  auto medians = samples.front();
  for (size_t figure = 0; figure < medians.size(); ++figure) {
    std::vector<double> values;
    for (const auto& sample : samples)
      values.push_back(sample[figure]);
    medians[figure] = Median(std::move(values));
  }
  return medians;
}

}  // namespace coppice
