// A walk through a table in an order that no prefetcher guesses.

#include "tools/bench/reference_loop.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <limits>
#include <vector>

namespace coppice {
namespace {

constexpr size_t kWords = size_t{1} << 16;  // 256 KiB.
constexpr int kSteps = 1 << 20;
constexpr int kRuns = 3;

uint32_t Walk(const std::vector<uint32_t>& table) {
  uint32_t position = 0;
  uint32_t sum = 0;
  for (int step = 0; step < kSteps; ++step) {
    const uint32_t value = table[position % kWords];
    if (value > sum) {
      sum += value;
    } else {
      sum ^= value >> 3;
    }
    position = value + static_cast<uint32_t>(step);
  }
  return sum;
}

}  // namespace

double ThreadMs() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return 1e3 * static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_nsec);
}

double ReferenceLoopMs() {
  std::vector<uint32_t> table(kWords);
  uint32_t state = 1;
  for (uint32_t& word : table)
    word = state = state * 1664525 + 1013904223;
  double least_ms = std::numeric_limits<double>::infinity();
  for (int run = 0; run < kRuns; ++run) {
    const double start_ms = ThreadMs();
    table[0] = Walk(table);  // Used, so that the compiler may not leave it out.
    least_ms = std::min(least_ms, ThreadMs() - start_ms);
  }
  return least_ms;
}

}  // namespace coppice
