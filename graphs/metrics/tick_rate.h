// Ticks of a clock in nanoseconds, at a rate that is measured once. Private to graphs/.
//
// A trace measures it over and over, for times that lie hours apart. What goes into the classes of
// a histogram is too short to need that, and must not be measured again when the page is written:
// counts could fall then.
//
// Units: ticks of a TraceClock, nanoseconds. Threads: any.

#pragma once

#include <cstdint>
#include <mutex>

#include "graphs/trace/trace_clock.h"

namespace coppice::internal {

class TickRate {
 public:
  // The clock outlives it.
  explicit TickRate(const TraceClock& clock) : time_(clock) {}

  // Nanoseconds from the one to the other, >= 1. Cost: about a microsecond when it is asked first;
  // the longer after it was made, the better the rate.
  int64_t Between(uint64_t begin, uint64_t end) const {
    std::call_once(measured_, [this] { time_.Advance(); });
    return time_.Between(begin, end);
  }

 private:
  mutable std::once_flag measured_;
  mutable TraceTime time_;
};

}  // namespace coppice::internal
