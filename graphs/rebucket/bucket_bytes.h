// What graphs of a ladder's buckets take, and what those of other sizes would. Private to graphs/.
//
// Units: bytes of executable graphs, all lanes together. Threads: plain values; Measure as it says.

#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <utility>

#include "graphs/parts/session_parts.h"

namespace coppice::internal {

class BucketBytes {
 public:
  // Of buckets that have graphs.
  explicit BucketBytes(std::map<int64_t, int64_t> known) : known_(std::move(known)) {}
  // Of the buckets that a symbol has: of graphs that calls find. Without any lane's lock, under
  // that of the ladders.
  static BucketBytes Measure(const SessionParts& parts, const Program& program, size_t symbol);

  bool empty() const { return known_.empty(); }
  // As RebucketOptions::cost_per_byte has it. Requires: not empty.
  double Of(int64_t bucket) const;
  // Of all of them; 0 if this is empty.
  int64_t Of(std::span<const int64_t> buckets) const;

 private:
  std::map<int64_t, int64_t> known_;  // By bucket.
};

}  // namespace coppice::internal
