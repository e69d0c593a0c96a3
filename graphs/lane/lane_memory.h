// The memory of a lane: five windows of addresses that never move, and what is mapped under them.
// Private to graphs/.
//
//   plan       the plans of all nodes, one over the other from offset 0, because nodes of a lane
//              never run at once: as high as the highest, never their sum
//   eager      warm-up and eager runs, from an online allocator
//   staging    the parameter block and the padded copies of a call's inputs
//   copy_out   outputs that were copied out of the plan window
//   workspace  what libraries scribble in
//
// Whoever uses a window reserves it first. A node runs only if the *present* bytes of the plan
// window cover it, which one comparison of a replay finds out; whoever takes memory away lowers
// them. Where the budget refuses, the lane asks for room to be made, and asks again.
//
// Units: bytes. Threads: under the lane's lock, but for what says otherwise.

#pragma once

#include <cstdint>
#include <list>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "coppice/allocator/pool.h"
#include "coppice/allocator/window_heap.h"
#include "coppice/base/tensor.h"
#include "coppice/graphs/memory_usage.h"
#include "coppice/runtime/driver.h"
#include "coppice/runtime/stream.h"

#include "graphs/lane/nvtx_heap.h"
#include "graphs/lane/room.h"
#include "graphs/lane/window_map.h"
#include "graphs/node/input_layout.h"
#include "graphs/node/node.h"
#include "graphs/node/region.h"

namespace coppice::internal {

// Memory of a program in a capture of the caller's, booked as such.
struct OwnMemory {
  BudgetCharge charge;
  DeviceMemory memory;
};

class LaneMemory {
 public:
  // All outlive it.
  LaneMemory(const Driver& driver, Pool& pool, const WindowMap& windows, int lane);

  // Who makes room for what is asked for under the lane's lock.
  Room& room() { return room_; }

  // Makes [0, bytes) of a window usable. Errors: as Pool::Grow; kResourceExhausted if the budget
  // refuses and no room can be made.
  absl::Status Reserve(MemoryKind window, int64_t bytes);
  absl::StatusOr<DeviceAddress> AllocateEager(int64_t bytes);
  void FreeEager(DeviceAddress address) { eager_.Free(address); }  // Throws nothing.
  // An address of `heap`, a window of the pool whose memory is of this kind.
  absl::StatusOr<DeviceAddress> AllocateIn(WindowHeap& heap, MemoryKind kind, int64_t bytes);
  // Keeps memory outside all windows as long as the lane. Throws nothing.
  void Keep(std::list<OwnMemory>& own) { own_.splice(own_.end(), own); }

  // Reserves the plan window's memory, and books bytes that no window maps. Without the lane's lock
  // if `room` is not the lane's own; the bytes are not present then before FindPresent.
  absl::Status ReservePlan(int64_t bytes, Room& room);
  absl::StatusOr<BudgetCharge> Charge(MemoryKind kind, int64_t bytes, Room& room);

  // Unmaps the plan window above `top`; gives the eager window's idle memory back. Requires: what
  // ran there has run.
  absl::Status UnmapAbove(int64_t top);
  absl::Status TrimEager() { return eager_.Trim().status(); }
  // What unmapping a window above `top` gives back.
  int64_t IdleBytes(MemoryKind window, int64_t top) const {
    return pool_.TrimmableBytes(WindowMap::WindowOf(lane_, window), top);
  }
  // What the budget lacks, spare handles released, for [0, bytes) of the plan window; 0: nothing.
  int64_t LackingPlanBytes(int64_t bytes) const;

  // Bytes of the plan window that nodes may use: those mapped, or kAbsent while the session is
  // suspended or the lane lent.
  static constexpr int64_t kAbsent = -1;
  int64_t present_bytes() const { return present_bytes_; }
  // Looks what is mapped, and tells the tools that watch memory.
  void FindPresent();
  // Whether calls may use the memory. Errors: kFailedPrecondition suspended or lent.
  absl::Status CheckPresent(const char* where) const;
  void SetSuspended(bool suspended);
  // Takes the plan window from the lane, and gives it back. Returns its bytes.
  int64_t Lend();
  void EndLoan();
  // Why it may not.
  enum class Absence : uint8_t { kNone, kSuspended, kLent };
  Absence absence() const { return absence_; }

  // Zeroes all that is mapped, in the order of `stream`. Errors: the driver's.
  absl::Status Scrub(CuStream stream) const;

  // Any thread.
  DeviceAddress base(MemoryKind window) const {
    return pool_.base(WindowMap::WindowOf(lane_, window));
  }
  int64_t mapped_bytes(MemoryKind window) const {
    return pool_.mapped_bytes(WindowMap::WindowOf(lane_, window));
  }
  const WindowMap& windows() const { return windows_; }  // Of the session.
  const WindowHeap& eager() const { return eager_; }
  // Where `tensor` lies in the plan window, in whole units of kBufferAlignment; nothing if it lies
  // elsewhere or has no bytes.
  std::optional<Region> RegionOf(const Tensor& tensor) const;
  // What output `index` keeps there.
  std::optional<Region> RegionOf(const OutputTable& outputs, size_t index) const {
    return outputs.regions.empty() ? RegionOf(outputs.tensors[index]) : outputs.regions[index];
  }

 private:
  const Driver& driver_;
  Pool& pool_;
  const WindowMap& windows_;
  const int lane_;
  WindowHeap eager_;
  const DeviceAddress plan_base_;
  int64_t present_bytes_ = 0;
  Absence absence_ = Absence::kNone;
  Room room_;
  NvtxHeap heap_;  // The plan window.
  std::list<OwnMemory> own_;
};

}  // namespace coppice::internal
