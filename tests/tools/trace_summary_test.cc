// Goal: the figures of a trace do not depend on the order in which pieces of it lie in the file,
// nor on when they are asked for. Method: drawn events, against all of them sorted by time.

#include "tools/prof/trace_summary.h"

#include <algorithm>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

#include "tests/support/test_device.h"

namespace coppice {
namespace {

struct Happened {
  int64_t time_ns = 0;
  int64_t bytes = -1;  // -1: a call.
};

BytesOverTime SortedBytes(std::vector<Happened> events) {
  std::ranges::stable_sort(events, {}, &Happened::time_ns);
  int64_t service_end_ns = 0;
  for (const Happened& event : events)
    if (event.bytes < 0) service_end_ns = event.time_ns;
  BytesOverTime over;
  for (const Happened& event : events) {
    if (event.bytes < 0) continue;
    over.peak = std::max(over.peak, event.bytes);
    over.at_end = event.bytes;
    if (event.time_ns <= service_end_ns) over.at_service_end = event.bytes;
  }
  return over;
}

TEST(TraceSummaryTest, BytesAreThoseOfTheLatestEventAtEveryMoment) {
  std::mt19937_64 random(TestSeed());
  const auto draw = [&](int64_t end) {
    return std::uniform_int_distribution<int64_t>(0, end - 1)(random);
  };
  for (int round = 0; round < 200; ++round) {
    SummaryTally tally;
    std::vector<Happened> events;
    const int64_t times = 1 + draw(40);  // Few, so that many are equal.
    for (int i = 0; i < 30; ++i) {
      const bool call = draw(3) == 0;
      events.push_back({draw(times), call ? -1 : draw(1000)});
      const int64_t bytes = events.back().bytes;
      TracedEvent event{.time_ns = events.back().time_ns, .what = CallEvent{.program = 0}};
      if (!call)
        event.what = BytesEvent{.kind = MemoryKind::kEager, .bytes = bytes, .total_bytes = bytes};
      tally.Add(event);
      const TraceSums sums = tally.Sums(PoolTrace());
      const BytesOverTime wanted = SortedBytes(events);
      for (const BytesOverTime& got :
           {sums.kinds[static_cast<size_t>(MemoryKind::kEager)], sums.total}) {
        ASSERT_EQ(got.peak, wanted.peak);
        ASSERT_EQ(got.at_end, wanted.at_end);
        ASSERT_EQ(got.at_service_end, wanted.at_service_end);
      }
    }
  }
}

}  // namespace
}  // namespace coppice
