// A trace as exports need it: all of its events in order of time, and the totals that each of them
// repeats.
//
// Units: bytes, nanoseconds. Threads: plain values.

#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "nlohmann/json_fwd.hpp"

#include "tools/prof/pool_trace.h"

namespace coppice {

struct TracedSession {
  PoolTrace trace;
  std::vector<TraceEvent> events;  // In order of time, those of one time as in the file.
};

// Errors: as ReadPoolTrace. Cost: 72 bytes of memory per event.
absl::StatusOr<TracedSession> ReadTracedSession(const std::string& path);

// What `coppice prof summary` says of the same trace, to the byte.
struct SessionTotals {
  std::array<int64_t, kMemoryKindCount> end{};   // By MemoryKind.
  std::array<int64_t, kMemoryKindCount> peak{};  // The most each kind ever had.
  int64_t total_end = 0;                         // Of all kinds.
  int64_t total_peak = 0;
  std::array<int64_t, kRunKindCount> paths{};  // Calls, by RunKind.
  int64_t recorded = 0;
  int64_t evicted = 0;
  int64_t exec_bytes = 0;  // Of graphs that are not gone; an estimate.
};

SessionTotals TotalsOf(const TracedSession& session);

// The totals under the names that the summary has for them.
nlohmann::ordered_json ToJson(const SessionTotals& totals);

// What every export says of where it comes from: schema, device, gaps of the trace, totals.
nlohmann::ordered_json OriginOf(const TracedSession& session);

}  // namespace coppice
