// What stood in the way of a call that did not replay: leases, limits, sizes.
//
// Units: bytes, nanoseconds, elements. Threads: one at a time.

#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tools/prof/pool_trace.h"

namespace coppice {

// Follows what there is while the events of a trace go by.
class CallObstacles {
 public:
  void See(const PoolTrace& trace, const TraceEvent& event);

  // A few words on a call, as far as the trace says more than its reason; else empty. Requires: all
  // events before the call were seen.
  std::string Of(const PoolTrace& trace, const TraceEvent& call) const;

 private:
  std::string Leases(const PoolTrace& trace, const TraceEvent& call) const;
  std::string Graphs(const PoolTrace& trace, const TraceEvent& call) const;
  std::string Bytes(const PoolTrace& trace) const;
  std::string Sizes(const PoolTrace& trace, const TraceEvent& call) const;
  void SeeOverLargest(const PoolTrace& trace, const TraceEvent& call);

  // By lane, then by call: the node whose outputs are leased and not overwritten.
  std::map<int, std::map<int64_t, int>> leased_;
  std::map<std::pair<int, int>, int64_t> graphs_;  // By lane and program.
  std::map<int, int64_t> evicted_ns_;              // By bucket, the last time.
  // By program and symbol, of those that calls were over.
  std::map<std::pair<int, int>, int64_t> largest_buckets_;
  int64_t booked_ = 0;  // Bytes of all kinds.
};

}  // namespace coppice
