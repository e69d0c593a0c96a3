// The time of trace events: a counter that costs a few nanoseconds to read, and what it counts in
// nanoseconds. Private to graphs/.
//
// Whoever reads the events takes an anchor now and then, which is the counter and the steady clock
// at one moment; between two anchors time is a straight line. So an error never grows, and no
// frequency has to be measured ahead.
//
// Units: ticks of the counter, nanoseconds. Threads: TraceClock any; TraceTime one at a time.

#pragma once

#include <cstdint>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace coppice::internal {

// The time-stamp counter of an x86-64 that has an invariant one, which is the same on every core;
// elsewhere the nanoseconds of the steady clock, at the cost of that.
class TraceClock {
 public:
  TraceClock();

  uint64_t Now() const {
#if defined(__x86_64__)
    if (counter_) [[likely]]
      return __rdtsc();
#endif
    return Nanoseconds();
  }

  // Of the steady clock.
  static uint64_t Nanoseconds();

 private:
  const bool counter_;
};

class TraceTime {
 public:
  // Time 0 is here. The clock must outlive this object.
  explicit TraceTime(const TraceClock& clock)
      : clock_(clock), start_(TakeAnchor()), before_(start_), after_(start_) {}

  // Takes an anchor. Ticks up to here have a time from then on.
  void Advance();

  // Nanoseconds from the start to `ticks`, >= 0. Exact at the last two anchors.
  int64_t At(uint64_t ticks) const;
  // Nanoseconds from the one to the other, >= 1: by the clock's rate, not by rounded times.
  int64_t Between(uint64_t begin, uint64_t end) const;

 private:
  double NsPerTick() const;

  struct Anchor {
    uint64_t ticks = 0;
    uint64_t ns = 0;
  };

  Anchor TakeAnchor() const;

  const TraceClock& clock_;
  const Anchor start_;
  Anchor before_;
  Anchor after_;
};

}  // namespace coppice::internal
