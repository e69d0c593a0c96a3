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

// Sums up while a trace is read.
class SummaryTally {
 public:
  void Add(const TraceEvent& event);
  // Of `trace`, all of whose events were added.
  TraceSummary Finish(PoolTrace trace);

 private:
  struct BytesAt {
    int64_t time_ns = 0;
    int64_t bytes = 0;
  };

  // What the events of one kind say, which need not come in order of time.
  static BytesOverTime OverTime(std::vector<BytesAt> events, int64_t service_end_ns);

  TraceSummary summary_;
  BucketTally tally_;
  std::array<std::vector<BytesAt>, kMemoryKindCount> kinds_;
  std::vector<BytesAt> total_;
  int64_t service_end_ns_ = 0;
};

// What a kind of memory holds, in a few words.
const char* MeaningOf(MemoryKind kind);

// Reads the trace at `path`. Errors and cost: as ReadPoolTrace.
absl::StatusOr<TraceSummary> SummarizeTrace(const std::string& path);

}  // namespace coppice
