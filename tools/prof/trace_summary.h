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

// What the events so far add up to.
struct TraceSums {
  std::array<BytesOverTime, kMemoryKindCount> kinds{};
  BytesOverTime total;
  BytesOverTime statics;                       // Of the application, beside the total.
  std::vector<int64_t> program_statics_peaks;  // One per program.
  BucketFigures calls;                         // Of all buckets and of none.
  std::vector<BucketFigures> buckets;          // One per bucket of the trace, in its order.
  std::vector<int64_t> program_calls;          // One per program.
  // Calls that did not replay, by program and reason.
  std::map<std::pair<int, Reason>, int64_t> reasons;
  int64_t suspends = 0;
};

struct TraceSummary : TraceSums {
  PoolTrace trace;
};

// Follows one number whose events need not come in order of time; of equal times the last counts.
// It keeps what is later than the last call so far, as nobody knows yet whether another follows.
class BytesTally {
 public:
  // `service_end_ns` is the time of the last call so far, and never less than before.
  void Add(int64_t time_ns, int64_t bytes, int64_t service_end_ns);
  BytesOverTime At(int64_t service_end_ns) const;

 private:
  struct Latest {
    int64_t time_ns = 0;
    int64_t bytes = 0;

    void See(int64_t time, int64_t value);
  };

  int64_t peak_ = 0;
  Latest end_;
  Latest service_;                         // Of those that are not later than the last call.
  std::multimap<int64_t, int64_t> later_;  // By time.
};

// The most bytes that lay under the static tensors of all programs, and of each.
struct StaticsPeaks {
  int64_t total = 0;
  std::vector<int64_t> programs;  // By place, as far as any had some.

  // Of an event of any kind.
  void Add(const TracedEvent& event);
};

// Sums up while a trace is read.
class SummaryTally {
 public:
  void Add(const TracedEvent& event);
  // Of `trace`, all of whose events were added. Buckets are without the bytes they use, which take
  // long to find. Cost: O(buckets + nodes).
  TraceSums Sums(const PoolTrace& trace) const;
  // The same, with the bytes that buckets use. Ends the tally.
  TraceSummary Finish(PoolTrace trace);

 private:
  TraceSums SumsWith(const PoolTrace& trace, std::vector<BucketFigures> buckets) const;

  BucketTally tally_;
  std::array<BytesTally, kMemoryKindCount> kinds_;
  BytesTally total_;
  BytesTally statics_;
  StaticsPeaks statics_peaks_;
  std::vector<int64_t> program_calls_;
  std::map<std::pair<int, Reason>, int64_t> reasons_;
  int64_t suspends_ = 0;
  int64_t service_end_ns_ = 0;
};

// What a kind of memory holds, in a few words; and what statics are.
const char* MeaningOf(MemoryKind kind);
inline constexpr const char* kStaticsMeaning =
    "held by the application and not part of the total: bound weights and caches";

// Reads the trace at `path`. Errors and cost: as ReadPoolTrace.
absl::StatusOr<TraceSummary> SummarizeTrace(const std::string& path);

}  // namespace coppice
