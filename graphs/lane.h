// A lane: one window of the pool and everything that must not overlap in it. Private to graphs/.
//
// The lane keeps a slot for every call whose outputs somebody may read. Slots of outputs in the
// node window that nobody wrote over are in `window`; those of a path are what a child is planned
// around.
//
// Physical memory under the lane's windows comes and goes. A node runs only if `usable` covers it,
// which one comparison of a replay finds out; whoever takes memory away lowers it.
//
// Threads: everything below `mutex` is guarded by it.

#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "coppice/allocator/pool.h"
#include "coppice/graphs/session.h"
#include "coppice/runtime/stream.h"

#include "graphs/gate_timer.h"
#include "graphs/nvtx_heap.h"
#include "graphs/rehearsal.h"
#include "graphs/slot.h"
#include "graphs/surroundings.h"

namespace coppice::internal {

class Tracer;

struct Lane {
  Lane(const Driver& lane_driver,
       Pool& lane_pool,
       int lane_index,
       Stream stream,
       Event handoff_event,
       Event progress_event)
      : driver(lane_driver),
        pool(lane_pool),
        index(lane_index),
        own_stream(std::move(stream)),
        handoff(std::move(handoff_event)),
        progress(std::move(progress_event)),
        heap("coppice: node window of lane " + std::to_string(lane_index),
             node_base(),
             lane_pool.window_bytes()) {}
  // Lets go of every slot. Leases that are left become empty.
  ~Lane();
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  // An event recorded on a stream that the caller captures on pulls whoever waits for it into that
  // capture; to wait on one breaks it. What would do so fails with kFailedPrecondition instead.
  absl::Status RefuseCapture(CuStream stream) const;
  absl::StatusOr<bool> LastStreamCaptures() const;
  absl::Status MarkLastStream() const;  // With `handoff`. Requires: there is a last stream.

  // Orders the lane's next work, on `stream`, after its last. No driver call on the same stream.
  absl::Status Enter(CuStream stream) {
    if (stream == last_stream) [[likely]]
      return absl::OkStatus();
    return SwitchTo(stream);
  }
  absl::Status SwitchTo(CuStream stream);

  // Orders the last stream's later work after that of `stream` so far: on the device, or by waiting
  // on the host if the last stream captures or the driver refuses that.
  absl::Status Join(CuStream stream);

  // Waits on the host for the lane's last work; Drain also notes that it has run; for everything
  // queued on `stream`.
  absl::Status Wait() const;
  absl::Status Drain();
  absl::Status WaitForStream(CuStream stream) const;

  // Whether all work in the lane's order has run, that of readers and borrowers included.
  absl::StatusOr<bool> IsIdle() const;

  // The last call known to have run, with all before it. Makes up to three driver calls.
  absl::StatusOr<uint64_t> FindCompletedCall();

  // Makes sure that TakeSlot has one to give, from the ones that were dropped if possible.
  void ReserveSlot() {
    if (free.empty()) [[unlikely]]
      FindFreeSlot();
  }
  void FindFreeSlot();
  // The only slot of the window, if it shows this node's outputs and was dropped; null else.
  Slot* FindDropped(const Node& node) const {
    if (window.size() != 1) return nullptr;
    Slot* slot = window.front();
    return slot->node == &node && !slot->leased() && slot->open_scopes == 0 ? slot : nullptr;
  }
  // A slot held by a lease too. Requires: ReserveSlot. Puts it where its kind belongs.
  Slot& TakeSlot(Slot::Kind kind);

  // Pool::Reserve and Pool::AllocateEager for this lane; where the budget refuses, after room was
  // made. Errors: as theirs.
  absl::Status Reserve(WindowKind kind, int64_t bytes);
  absl::StatusOr<DeviceAddress> AllocateEager(int64_t bytes);
  // Pool::Charge, likewise.
  absl::Status Charge(MemoryKind kind, int64_t bytes);

  absl::StatusOr<DeviceAddress> AllocateConstant(int64_t bytes);

  // Unmaps the node window above `top` and above what slots show. Waits for the lane's work. Does
  // nothing while the window is lent, suspended or recorded into.
  absl::Status UnmapAbove(int64_t top);

  // Makes what is mapped of the node window usable, and tells the tools that watch memory.
  void FindUsable();

  // Whether calls may use the lane's memory. Errors: kFailedPrecondition  suspended or lent.
  absl::Status CheckPresent(const char* where) const;

  // Takes back the slots whose lease was dropped: of the window; of everything.
  void SweepWindow();
  void Sweep();

  // Tells the trace, which there is: of a slot's lease; of the outputs that the call under way
  // reads where they lie, once.
  void TraceOutputs(Slot& slot);
  void TraceUses(uint64_t number);
  // Of what the session's end lets go.
  void TraceEnd();

  // The first slot that a graph with this footprint would write over, among those that a scope is
  // open on; null if none.
  const Slot* FindHeld(const std::vector<Region>& footprint) const;
  // Marks the slots that call `number` of `program` wrote over.
  void Expire(const std::vector<Region>& footprint, uint64_t number, const Program& program);
  // Ends the path: the slots of the window are nobody's parents any more.
  void EndPath();

  // Bytes of the ring, or nothing if that many are not free in a row.
  std::optional<Region> AllocateRing(int64_t bytes);

  // Notes what a run at its bucket staged.
  void CountStaged(const InputLayout& layout) {
    stats.real_elements += layout.real_elements;
    stats.padded_elements += layout.padded_elements;
  }

  DeviceAddress node_base() const { return pool.base(index, WindowKind::kNodes); }
  // Where `tensor` lies in the node window, in whole units of kBufferAlignment; nothing if it lies
  // elsewhere or has no bytes.
  std::optional<Region> RegionOf(const Tensor& tensor) const;

  const Driver& driver;
  Pool& pool;
  const int index;

  mutable std::mutex mutex;
  Stream own_stream;               // Recordings and Warm run here.
  Event handoff;                   // Re-recorded at every hand-over; a wait keeps what it saw.
  Event progress;                  // Behind call `progress_call`.
  CuStream last_stream = nullptr;  // Of the lane's last work; null before the first.
  uint64_t calls = 0;              // Number of the last call that ran.
  uint64_t completed_call = 0;
  uint64_t progress_call = 0;  // 0: nothing is marked.
  bool chain_open = false;
  // Bytes of the node window that nodes may use: those mapped, or kAbsent.
  static constexpr int64_t kAbsent = -1;
  int64_t usable = 0;
  NvtxHeap heap;  // The node window.
  bool suspended = false;
  bool lent = false;
  int recordings = 0;          // In the background, under way or waiting.
  const Node* busy = nullptr;  // Of the call under way: not to be evicted.
  // Frees bytes of the budget for a need of this kind, this lane's lock being held; null: there is
  // no budget. Set once.
  std::function<absl::Status(Lane& lane, int64_t bytes, MemoryKind need)> make_room;
  std::vector<Slot*> window;  // Unexpired, in the node window, in order of calls.
  std::vector<Slot*> parked;  // Leased otherwise, or expired; but for the ring's.
  std::vector<Slot*> ring;    // In order of allocation.
  std::vector<Slot*> free;
  size_t slot_count = 0;
  size_t swept = 0;  // Where the next look at the parked begins.
  int64_t ring_bytes = 0;
  int64_t ring_head = 0;
  SurroundingsTable surroundings;
  Rehearsal rehearsal;
  Surroundings scratch;  // Of the call under way.
  StagingParams copies;  // Behind the graph, of the call under way.
  GateTimer timer;
  SessionStats stats;
  Tracer* tracer = nullptr;    // Null without a trace.
  std::vector<uint64_t> used;  // With a trace: calls whose outputs the call under way reads.

 private:
  void Recycle(Slot* slot);
};

// Bytes of the lane's eager window that a run left, freed unless somebody takes them.
struct EagerBytes {
  explicit EagerBytes(Lane& of_lane) : lane(of_lane) {}
  ~EagerBytes() {
    for (const DeviceAddress address : addresses)
      lane.pool.FreeEager(lane.index, address);
  }
  EagerBytes(const EagerBytes&) = delete;
  EagerBytes& operator=(const EagerBytes&) = delete;

  std::vector<DeviceAddress> Take() { return std::exchange(addresses, {}); }

  Lane& lane;
  std::vector<DeviceAddress> addresses;
};

}  // namespace coppice::internal
