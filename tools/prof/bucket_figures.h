// What a trace says of each bucket, in numbers.
//
// Units: bytes, nanoseconds, elements. Threads: one at a time per tally.

#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "nlohmann/json_fwd.hpp"

#include "tools/prof/pool_trace.h"
#include "tools/prof/prof.h"

namespace coppice {

struct BucketFigures {
  int bucket = -1;                             // Place in PoolTrace::buckets; -1: calls of none.
  std::array<int64_t, kRunKindCount> paths{};  // Calls, by RunKind.
  int64_t real_elements = 0;
  int64_t padded_elements = 0;
  int64_t exact_replays = 0;    // Of a program that replays at exact sizes, those without padding.
  int64_t recorded = 0;         // Graphs that there ever were ...
  int64_t evicted = 0;          // ... and of them, those that are gone ...
  int64_t executables = 0;      // ... and those that did not take an executable that was there.
  int64_t height = 0;           // Of the highest plan.
  int64_t bound = 0;            // Of the plan with the highest bound.
  int64_t exec_bytes = 0;       // Of graphs that are not gone; an estimate.
  int64_t record_ns = 0;        // Of all graphs together.
  int64_t used_bytes = 0;       // Bytes of the lane's plan window in any plan ...
  int64_t exclusive_bytes = 0;  // ... and of them, those in no other bucket's.

  int64_t on(RunKind path) const { return paths[static_cast<size_t>(path)]; }
  int64_t calls() const;
  int64_t eager() const { return on(RunKind::kEager) + on(RunKind::kWarmUp); }
  int64_t shared_bytes() const { return used_bytes - exclusive_bytes; }
  double padded_share_pct() const;  // Of the staged elements, those that are padding.
};

// Whether its replays may compute at the sizes of their calls. Cost: parses its spec.
bool AsksForExact(const TracedProgram& program);

// Collects them while a trace is read.
class BucketTally {
 public:
  void Add(const TracedEvent& event);

  // One per bucket of `trace`, in its order, without the bytes that its plans use. Cost:
  // O(buckets + nodes).
  std::vector<BucketFigures> Sums(const PoolTrace& trace) const;

  // The same, and those bytes. Cost: sorts the buffers of all plans.
  std::vector<BucketFigures> Finish(const PoolTrace& trace) const;

  // Calls that had no bucket. Valid at any time.
  const BucketFigures& unbucketed() const { return unbucketed_; }

 private:
  BucketFigures unbucketed_;
  std::vector<BucketFigures> buckets_;
  std::vector<int64_t> unpadded_;  // Launches of a graph without padding, per bucket.
  std::vector<char> evicted_;      // By place in PoolTrace::nodes.
};

// a + b, or the largest number.
int64_t AddUpTo(int64_t a, int64_t b);

// Sorts as `order` says; ties by the bucket's place.
void Sort(const PoolTrace& trace, BucketOrder order, std::vector<BucketFigures>& figures);

nlohmann::ordered_json ToJson(const PoolTrace& trace, const BucketFigures& figures);

// Rows for people, one per bucket.
std::string FormatBuckets(const PoolTrace& trace, const std::vector<BucketFigures>& figures);

}  // namespace coppice
