// A slot: what the lane and the lease know of one call's outputs. Private to graphs/.
//
// Two hold it: the lease and the lane. Whoever lets go last deletes it, so that a lease may be
// dropped on any thread at any time, be its session alive or gone, for one atomic operation. The
// lane finds out at its next sweep and uses the slot again.
//
// Threads: `holders` is atomic; everything else is guarded by the lane's lock, but for what no lane
// changes while a lease holds the slot: lane, program, call, outputs, extents.

#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <vector>

#include "coppice/graphs/program.h"

#include "graphs/node.h"

namespace coppice::internal {

struct Lane;

struct Slot {
  static constexpr int kLeaseHolds = 1;
  static constexpr int kLaneHolds = 2;

  // Where the outputs lie, which says how they end.
  enum class Kind : uint8_t {
    kWindow,    // In the node window, where graphs write.
    kEager,     // In the eager window; `allocations` are freed when the lease is dropped.
    kCopyOut,   // In the lane's ring.
    kForeign,   // Not in the lane's memory.
    kIncluded,  // Written by a graph of the caller's, when he launches it: in no order of the lane.
  };

  bool leased() const { return (holders.load(std::memory_order_acquire) & kLeaseHolds) != 0; }
  bool expired() const { return overwritten_by != 0; }

  std::atomic<int> holders = kLaneHolds;
  Kind kind = Kind::kForeign;
  bool in_path = false;  // A child leaves it alone. kWindow only.
  Lane* lane = nullptr;
  const Program* program = nullptr;
  uint64_t call = 0;                           // Number of the call that made the outputs.
  const OutputTable* outputs = nullptr;        // The node's, or `owned`.
  std::array<int64_t, kSymbolsMax> extents{};  // Real ones, for the views.
  Node* node = nullptr;                        // Whose outputs they are; kWindow until it expires.
  OutputTable owned;                           // Of the other kinds; keeps its capacity.
  std::vector<DeviceAddress> allocations;
  Region ring;  // kCopyOut.
  int open_scopes = 0;
  bool traced = false;  // The trace knows of the lease.
  // Who wrote over the outputs, and over which first; 0: nobody.
  uint64_t overwritten_by = 0;
  const Program* overwriter = nullptr;
  int overwritten_output = 0;
  std::vector<Region> overwritten_regions;  // Where the outputs were.
};

}  // namespace coppice::internal
