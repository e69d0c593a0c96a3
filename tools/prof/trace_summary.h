// The figures of a whole trace.
//
// Units: bytes, elements. Threads: plain values.

#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

#include "coppice/graphs/memory_usage.h"
#include "coppice/graphs/reason.h"

#include "tools/prof/bucket_figures.h"
#include "tools/prof/pool_trace.h"

namespace coppice {

// Bytes of one kind of memory, or of all, over time.
struct BytesOverTime {
  int64_t peak = 0;
  int64_t at_service_end = 0;  // At the last call.
  int64_t at_end = 0;          // Behind it the session is torn down.
};

struct TraceSummary {
  PoolTrace trace;
  std::array<BytesOverTime, kMemoryKindCount> kinds{};
  BytesOverTime total;
  BucketFigures calls;                 // Of all buckets and of none.
  std::vector<BucketFigures> buckets;  // One per bucket of the trace, in its order.
  std::vector<int64_t> program_calls;  // One per program.
  // Calls that did not replay, by program, -1 where an older trace does not say it, and reason.
  std::map<std::pair<int, Reason>, int64_t> reasons;
  int64_t suspends = 0;
};

// What a kind of memory holds, in a few words.
const char* MeaningOf(MemoryKind kind);

// Reads the trace at `path`. Errors and cost: as ReadPoolTrace.
absl::StatusOr<TraceSummary> SummarizeTrace(const std::string& path);

}  // namespace coppice
