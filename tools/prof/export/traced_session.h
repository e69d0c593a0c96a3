// A trace as exports need it: all of its events in order of time, and the totals that each of them
// repeats.
//
// Units: bytes, nanoseconds. Threads: plain values.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "nlohmann/json_fwd.hpp"

#include "tools/prof/pool_trace.h"
#include "tools/prof/trace_summary.h"

namespace coppice {

struct TracedSession {
  PoolTrace trace;
  std::vector<TracedEvent> events;  // In order of time, those of one time as in the file.
};

// Errors: as ReadPoolTrace. Cost: 136 bytes of memory per event.
absl::StatusOr<TracedSession> ReadTracedSession(const std::string& path);

// What `coppice prof summary` says of the same trace.
TraceSummary SummaryOf(const TracedSession& session);

// What every export says of where it comes from: schema, device, gaps of the trace, totals.
nlohmann::ordered_json OriginOf(const TracedSession& session);

}  // namespace coppice
