// The address map of a session: which bytes the plan of each bucket uses, one row per bucket.
//
//   address, MiB  0          1          2      one axis of addresses for all rows of a lane
//   decode 4      [==c==|..)                   a row: the highest plan of the bucket, its steps
//   decode 8      [##a##|==b==......)          top to bottom; bytes of several buckets are hatched
//
// Rows are sorted by program, then by extents and key scalars, as numbers. What the session held
// beside plans has a band below: bytes by kind when all kinds together were most, and what static
// tensors of programs had at most, which is the application's.
//
// Units: bytes and steps. Threads: pure functions; equal traces give equal text.

#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "tools/prof/address_use.h"
#include "tools/prof/pool_trace.h"
#include "tools/prof/trace_summary.h"

namespace coppice {

struct AddressMap {
  PoolTrace trace;
  std::vector<AddressUse> uses;  // By bucket.
  std::vector<int> nodes;        // By bucket: the one with the highest plan, or -1 without a graph.
  int64_t mapped_peak = 0;       // Bytes that were mapped for graphs at most, on all lanes.
  int64_t total_peak = 0;        // Bytes of all kinds at most ...
  std::array<int64_t, kMemoryKindCount> kinds_then{};   // ... and of each kind at that time.
  std::array<int64_t, kMemoryKindCount> kinds_peaks{};  // The most of each kind at any time.
  StaticsPeaks statics;                                 // Of the application.

  // The node with the highest plan. Requires: the bucket has one.
  const TracedNode& HighestOf(int bucket) const {
    return trace.nodes[static_cast<size_t>(nodes[static_cast<size_t>(bucket)])];
  }
  // Buckets of a lane that have a graph, in the order of rows.
  std::vector<int> RowsOf(int lane) const;
  // What all plans need in one pool, and what the highest of each bucket would need in pools of
  // their own.
  int64_t together_bytes() const;
  int64_t apart_bytes() const;
  // The highest plan, and the highest bound, of a lane.
  int64_t HeightOf(int lane) const;
  int64_t BoundOf(int lane) const;
  // What to call a bucket: "decode 8".
  std::string NameOfBucket(int bucket) const;
};

// Where its last buffer ends, at least 1.
int64_t LastStep(const TracedNode& node);

// Errors: as ReadPoolTrace.
absl::StatusOr<AddressMap> ReadAddressMap(const std::string& path);

// "26 buckets need 2.31 MiB in one pool; apart they would need 9.89 MiB".
std::string HeadlineOf(const AddressMap& map);

// All buckets with a graph, as SVG. A block says what it is when the pointer rests on it. Bytes
// that plans of several buckets use are hatched; outputs have a black rim; dashed are the live
// bytes that a plan goes around; red lines show bounds, blue ones what was mapped. The legend has
// what is drawn and nothing else.
std::string DrawAddressMap(const AddressMap& map);

// One bucket's highest plan as SVG, time across and address up.
// Requires: the bucket has a graph with at least one buffer (checked).
std::string DrawBucketMap(const AddressMap& map, int bucket);

// The same two for a terminal. A cell is # where only this bucket's plans use bytes, = where
// those of others do too; of one bucket, a letter per buffer, and ~ where it is planned around.
std::string PrintAddressMap(const AddressMap& map);
std::string PrintBucketMap(const AddressMap& map, int bucket);

}  // namespace coppice
