// Reading two clocks at one moment.

#include "graphs/trace/trace_clock.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace coppice::internal {
namespace {

bool HasInvariantCounter() {
#if defined(__x86_64__)
  constexpr unsigned kPowerLeaf = 0x80000007;
  constexpr unsigned kInvariantBit = 1U << 8;
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(kPowerLeaf, &a, &b, &c, &d) != 0 && (d & kInvariantBit) != 0;
#else
  return false;
#endif
}

}  // namespace

TraceClock::TraceClock() : counter_(HasInvariantCounter()) {}

uint64_t TraceClock::Nanoseconds() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
}

// The tightest of a few readings, because a thread may lose its core between the two clocks.
TraceTime::Anchor TraceTime::TakeAnchor() const {
  constexpr int kReadings = 5;
  Anchor best;
  uint64_t width = UINT64_MAX;
  for (int i = 0; i < kReadings; ++i) {
    const uint64_t first = clock_.Now();
    const uint64_t ns = TraceClock::Nanoseconds();
    const uint64_t last = clock_.Now();
    if (last - first >= width) continue;
    width = last - first;
    best = {.ticks = first + width / 2, .ns = ns};
  }
  return best;
}

void TraceTime::Advance() {
  const Anchor anchor = TakeAnchor();
  // Both clocks must have moved, or there is no line.
  if (anchor.ticks <= after_.ticks || anchor.ns <= after_.ns) return;
  before_ = after_;
  after_ = anchor;
}

// Before there is a line, as if both clocks were one.
double TraceTime::NsPerTick() const {
  if (after_.ticks == before_.ticks) return 1;
  return static_cast<double>(after_.ns - before_.ns) /
         static_cast<double>(after_.ticks - before_.ticks);
}

int64_t TraceTime::At(uint64_t ticks) const {
  double ns = static_cast<double>(after_.ns - start_.ns);
  if (after_.ticks != before_.ticks)
    ns += NsPerTick() * static_cast<double>(static_cast<int64_t>(ticks - after_.ticks));
  return std::max<int64_t>(static_cast<int64_t>(ns), 0);
}

int64_t TraceTime::Between(uint64_t begin, uint64_t end) const {
  return std::max<int64_t>(
      std::llround(NsPerTick() * static_cast<double>(static_cast<int64_t>(end - begin))), 1);
}

}  // namespace coppice::internal
