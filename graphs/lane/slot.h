// A slot: what the lane and the lease know of one call's outputs. Private to graphs/.
//
// Two hold it: the lease and the lane. Whoever lets go last deletes it, so that a lease may be
// dropped on any thread at any time, be its session alive or gone, for one atomic operation. The
// lane finds out at its next sweep and uses the slot again.
//
// Threads: `holders`, `left` and `dropped` are atomic; everything else is written by the slot table
// and the reader's scope, under the lane's lock. What no lane changes while a lease holds the slot
// may be read without: lane, program, call, outputs, extents.

#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/container/inlined_vector.h"

#include "coppice/graphs/program.h"
#include "coppice/runtime/driver.h"

#include "graphs/node/input_layout.h"
#include "graphs/node/region.h"
#include "graphs/program/program.h"

namespace coppice::internal {

class Lane;
class Node;

struct Slot {
  static constexpr int kLeaseHolds = 1;
  static constexpr int kLaneHolds = 2;

  // Where the outputs lie, which says how they end.
  enum class Kind : uint8_t {
    kWindow,    // In the plan window, where graphs write.
    kEager,     // In the eager window; `allocations` are freed when the lease is dropped.
    kCopyOut,   // In the lane's ring.
    kForeign,   // Not in the lane's memory.
    kIncluded,  // Written by a graph of the caller's, when he launches it: in no order of the lane.
  };

  // Of the call that makes the outputs.
  struct Owner {
    const Program* program = nullptr;
    uint64_t call = 0;
    const int64_t* extents = nullptr;  // Real ones.
  };

  void SetOwner(const Owner& owner) {
    program = owner.program;
    call = owner.call;
    for (size_t i = 0; i < owner.program->layout.extent_count; ++i)
      extents[i] = owner.extents[i];
  }
  bool leased() const { return (holders.load(std::memory_order_acquire) & kLeaseHolds) != 0; }
  // False: the session is gone.
  bool in_lane() const { return (holders.load(std::memory_order_acquire) & kLaneHolds) != 0; }
  bool expired() const { return overwritten_by != 0; }

  // A read scope, of all outputs or of one.
  struct Scope {
    CuStream stream = nullptr;
    int part = -1;

    bool Shows(size_t output) const { return part < 0 || static_cast<size_t>(part) == output; }
    friend bool operator==(const Scope&, const Scope&) = default;
  };

  // What becomes of a lease that is split: one part per output, each dropped by itself.
  struct Parts {
    explicit Parts(size_t outputs)
        : left(static_cast<int>(outputs)),
          dropped(std::make_unique<std::atomic<bool>[]>(outputs)),
          kept(outputs, true) {}

    std::atomic<int> left;
    const std::unique_ptr<std::atomic<bool>[]> dropped;
    // As the lane found it at its last sweep: a part that is dropped later still counts.
    std::vector<bool> kept;
    std::vector<Region> regions;  // Of the window, of the kept ones; normalised.
  };
  // Whether `is` says so of all outputs that output `index` counts.
  template <typename Is>
  bool AllCountedBy(size_t index, const Is& is) const {
    const std::vector<OutputSpec>& specs = program->spec.outputs;
    for (size_t i = 0; i < specs.size(); ++i)
      if (specs[i].count.output == static_cast<int>(index) && !is(i)) return false;
    return true;
  }
  // Whether a scope shows output `index`, or what that counts.
  bool Shows(const Scope& scope, size_t index) const {
    return scope.Shows(index) ||
           !AllCountedBy(index, [&scope](size_t counted) { return !scope.Shows(counted); });
  }
  // Whether its part was dropped, and no scope shows it any more, nor what it counts. Requires:
  // parts.
  bool IsDropped(size_t index) const {
    const auto gone = [this](size_t output) {
      return parts->dropped[output].load(std::memory_order_acquire) &&
             std::none_of(scopes.begin(), scopes.end(),
                          [output](const Scope& scope) { return scope.Shows(output); });
    };
    return gone(index) && AllCountedBy(index, gone);
  }
  // Whether output `index` is leased still; in the window, where plans go around it, whether it was
  // at the lane's last sweep.
  bool keeps(size_t index) const {
    if (parts == nullptr) return true;
    return kind == Kind::kWindow ? parts->kept[index] : !IsDropped(index);
  }

  // One more output, of a slot that was taken for copies.
  void AddOutput(const Tensor& tensor) { owned.tensors.push_back(tensor); }
  // A reader on this stream, of a lease or of its part, comes, and goes.
  void OpenScope(CuStream stream, int part = -1) { scopes.push_back({stream, part}); }
  void CloseScope(CuStream stream, int part = -1) {
    scopes.erase(std::find(scopes.begin(), scopes.end(), Scope{stream, part}));
  }
  size_t open_scopes() const { return scopes.size(); }

  std::atomic<int> holders = kLaneHolds;
  Kind kind = Kind::kForeign;
  bool in_path = false;  // A child leaves it alone. kWindow only.
  Lane* lane = nullptr;
  const Program* program = nullptr;
  uint64_t call = 0;                     // Number of the call that made the outputs.
  const OutputTable* outputs = nullptr;  // The node's, or `owned`.
  ExtentArray extents{};                 // Real ones, for the views.
  std::unique_ptr<Parts> parts;          // Null: the lease is whole.
  Node* node = nullptr;                  // Whose outputs they are; kWindow until it expires.
  OutputTable owned;                     // Of the other kinds; keeps its capacity.
  std::vector<DeviceAddress> allocations;
  Region ring;                           // kCopyOut.
  absl::InlinedVector<Scope, 4> scopes;  // Those that are open.
  bool traced = false;                   // The trace knows of the lease.
  // Who wrote over the outputs, and over which first; 0: nobody.
  uint64_t overwritten_by = 0;
  const Program* overwriter = nullptr;
  int overwritten_output = 0;
  std::vector<Region> overwritten_regions;  // Where the outputs were.
};

}  // namespace coppice::internal
