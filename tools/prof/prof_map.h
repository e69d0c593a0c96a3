// The address map of a session: which bytes the plan of each bucket uses, one row per bucket.
//
//   lane 0      0        1 MiB      2 MiB      one axis of addresses for all rows
//   decode 8    [##a##|==b==......)            a row: the highest plan of the bucket, its steps
//   from decode 4    [==c==|..)                     top to bottom; bytes of several buckets are
//   hatched
//
// Units: bytes and steps. Threads: pure functions; equal traces give equal text.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "tools/prof/address_use.h"
#include "tools/prof/pool_trace.h"

namespace coppice {

struct AddressMap {
  PoolTrace trace;
  std::vector<AddressUse> uses;  // By bucket.
  std::vector<int> nodes;        // By bucket: the one with the highest plan, or -1 without a graph.
  int64_t mapped_peak = 0;       // Bytes that were mapped for graphs at most, on all lanes.

  // The highest plan, and the highest bound, of a lane.
  int64_t HeightOf(int lane) const;
  int64_t BoundOf(int lane) const;
  // What to call a bucket: "decode 8".
  std::string NameOfBucket(int bucket) const;
};

// Errors: as ReadPoolTrace.
absl::StatusOr<AddressMap> ReadAddressMap(const std::string& path);

// All buckets with a graph, as SVG. A block says what it is when the pointer rests on it. Bytes
// that plans of several buckets use are hatched; outputs have a black rim; dashed are the live
// bytes that a plan goes around; red lines show bounds, blue ones what was mapped.
std::string DrawAddressMap(const AddressMap& map);

// One bucket's highest plan as SVG, time across and address up.
// Requires: the bucket has a graph with at least one buffer (checked).
std::string DrawBucketMap(const AddressMap& map, int bucket);

// The same two for a terminal. A cell is # where only this bucket's plans use bytes, = where
// those of others do too; of one bucket, a letter per buffer, and ~ where it is planned around.
std::string PrintAddressMap(const AddressMap& map);
std::string PrintBucketMap(const AddressMap& map, int bucket);

}  // namespace coppice
