// What stood in the way of a call that did not replay: leases, limits, sizes.
//
// Units: bytes, nanoseconds, elements. Threads: one at a time. Cost: O(log n) per event, and of a
// call that did not replay O(options), or O(policies) the first time.

#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tools/prof/latest_policies.h"
#include "tools/prof/pool_trace.h"

namespace coppice {

// Follows what there is while the events of a trace go by, in order of time.
class CallObstacles {
 public:
  // `trace` is whole, and outlives this.
  explicit CallObstacles(const PoolTrace& trace) : trace_(trace) {}

  void See(const TracedEvent& event);

  // A few words on a call, as far as the trace says more than its reason; else empty. Requires: all
  // events before the call were seen.
  std::string Of(int lane, const CallEvent& call);

 private:
  std::string Leases(int of) const;
  std::string Graphs(int lane, int program) const;
  std::string Bytes() const;
  std::string Sizes(const CallEvent& call);
  int64_t LargestBucketOf(int program, size_t symbol);

  const PoolTrace& trace_;

  // By lane, then by call: the node whose outputs are leased and not overwritten.
  std::map<int, std::map<int64_t, int>> leased_;
  std::map<std::pair<int, int>, int64_t> graphs_;  // By lane and program.
  std::map<int, int64_t> evicted_ns_;              // By bucket, the last time.
  LatestPolicies policies_;
  std::map<const std::string*, int64_t> largest_buckets_;  // By document; 0: not known.
  int64_t booked_ = 0;                                     // Bytes of all kinds.
};

}  // namespace coppice
