// Asks of a trace whether its memory was ever used twice at once, too late, or without account.
//
// Each finding has a kind out of this list, the line of the trace that shows it, and its numbers:
//
//   overlap       two buffers of a plan share bytes and a step, or lie above its height
//   around        a plan covers bytes that it was planned around
//   no_node       a call launches a graph that is evicted, not recorded, or of another bucket; or a
//                 graph is recorded twice, or evicted without being there
//   stale         a call reads outputs that were overwritten
//   not_leased    a call reads, or somebody gives up, outputs that nobody leases
//   overwritten   a call's plan covers leased outputs of another, and nothing says they expired
//   leak          the session ended, and outputs were still leased
//   conservation  the total is not the sum of the kinds of memory
//   over_budget   the total is above the budget
//   unmapped      a call launches a graph whose plan is higher than what is mapped
//   suspended     a call ran while the session had given its memory back
//   time          time runs backwards on a lane
//   calls         call numbers of a lane do not grow
//   incomplete    with `strict` only: events were dropped, the trace has no end, or a call number
//   is
//                 left out, because its launch failed or because the event is lost
//
// A lease of which a part was given up is judged as `overwritten` no more.
//
// After dropped events, what depends on them is not judged: outputs made before, graphs of that
// lane, and, if they were about bytes, the sum.
//
// Units: bytes. Threads: pure function and plain values.

#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tools/prof/pool_trace.h"

namespace coppice {

struct TraceFinding {
  const char* kind = "";
  int64_t line = 0;
  std::string what;  // One sentence for people, with the numbers.
  std::vector<std::pair<const char*, int64_t>> numbers;
};

inline constexpr size_t kTraceFindingsMax = 1000;

struct TraceFindings {
  std::vector<TraceFinding> findings;     // By line; the first kTraceFindingsMax that were found.
  std::map<std::string, int64_t> counts;  // By kind, of all.
  int64_t count = 0;                      // Of all.
};

// Checks `trace` and all its events, in the order of the file. Lanes are merged by time.
// Cost: O(events log events + buffers log buffers).
TraceFindings CheckTrace(const PoolTrace& trace, std::vector<TracedEvent> events, bool strict);

}  // namespace coppice
