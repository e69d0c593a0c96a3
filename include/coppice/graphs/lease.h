// A lease: the right to read the outputs of one call.
//
// Borrowed outputs of a graph lie in the lane's window. As long as their lease is held, calls that
// build on them (see session.h, Paths) leave them alone; any other call on the lane may write over
// them. The lane notes which call did, so that a read that comes too late is an error and not
// somebody else's data. Reading happens inside a scope, and a call that would write over outputs
// under an open one is refused:
//
//   COPPICE_ASSIGN_OR_RETURN(Lease lease, session->Run(call));
//   {
//     COPPICE_ASSIGN_OR_RETURN(ReadScope scope, lease.Read(stream));
//     ... enqueue work on `stream` that reads scope.output(0) ...
//   }
//
// Outputs of warm-up and eager runs, outputs that were copied out, and those written into the
// caller's buffers have bytes of their own: they are never written over while their lease is held.
//
// Units: elements. Threads: a lease or scope belongs to one thread at a time; any thread may drop a
// lease, at any time. Lifetime: a lease may outlive its session, but not be read any more (Detach
// makes of it what may); a scope may not. A lease with an open scope may be moved, neither released
// nor assigned to.

#pragma once

#include <atomic>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "coppice/base/tensor.h"
#include "coppice/graphs/detached_outputs.h"
#include "coppice/graphs/reason.h"
#include "coppice/runtime/driver.h"

namespace coppice {

struct OutputSpec;

namespace internal {
struct LeaseAccess;  // A lease's slot, for graphs/.
struct Slot;         // What the lane and the lease know of one call's outputs.
// The hold on it ends of a lease, or of the part of one that was split.
void DropLease(Slot* slot);
void DropPart(Slot* slot, int output);
}  // namespace internal

class ReadScope;

class [[nodiscard]] Lease {
 public:
  Lease() = default;  // Of no call: no outputs.
  // Of a session's call. Takes over the lease's hold on the slot.
  Lease(internal::Slot* slot, RunKind kind, Reason reason)
      : slot_(slot), facts_{.kind = kind, .reason = reason} {}
  Lease(Lease&& other) noexcept
      : slot_(std::exchange(other.slot_, nullptr)), facts_(other.facts_) {}
  Lease& operator=(Lease&& other) noexcept;
  ~Lease() { Release(); }

  // How the call ran.
  RunKind kind() const { return facts_.kind; }
  Reason reason() const { return facts_.reason; }

  // Outputs of the program; 0 once the lease is empty or its session gone.
  int output_count() const;

  // The call's number on its lane, from 1; what messages name. 0 if the lease is empty.
  uint64_t call_number() const;

  // Opens a scope for reading on `stream`. Work queued on `stream` afterwards sees the outputs; if
  // the lane ran on another stream last, that costs four driver calls: whether either captures, one
  // event record and one wait.
  //
  // Requires: the context is current, and `stream` lives until the scope ends.
  // Errors: kFailedPrecondition  a later call wrote over an output (names the output, the call that
  //                              made it and the call that wrote over it), the lease is empty,
  //                              its session gone or suspended, or its lane lent; either stream
  //                              captures, if they differ;
  //         kInvalidArgument     the legacy stream.
  absl::StatusOr<ReadScope> Read(CuStream stream) const;

  // Splits the lease into one per output, in their order, each of which is kept, moved or dropped
  // by itself: the lane's next calls use the bytes of an output whose part is dropped again, unless
  // they are another's as well; of outputs that were copied out, once all are dropped. A call that
  // writes over one output of a graph expires all parts. What an open scope shows stays until it
  // ends, and a count until every output that it counts is dropped. This lease is empty afterwards.
  // Errors: kFailedPrecondition  the lease is empty or a part, or its session gone. Cost:
  // allocates.
  absl::StatusOr<std::vector<Lease>> Split();

  // The output that this is the part of; -1: the lease is whole.
  int part() const { return facts_.part; }

  // Takes the outputs out of the session: copies them on `stream`, behind the call, into memory
  // that the result owns, but for those that lie in the caller's own buffers; the result says
  // which. The copies have the extents that ReadScope::output shows, and whatever lies between
  // elements. Calls on the lane wait for them, on the device. Of a part, its output alone, without
  // what counts it. The lease is empty afterwards; after an error it is as it was.
  //
  // The copies lie in `memory`, unless it is empty.
  //
  // Requires: the context is current. Errors: as Read, and kFailedPrecondition whenever `stream`
  // captures; kResourceExhausted the device has no room; kInvalidArgument the caller's memory is at
  // no multiple of kBufferAlignment; otherwise the driver's. Cost: allocates, on the device as well
  // if anything is copied; waits for nothing but the lane's lock.
  absl::StatusOr<DetachedOutputs> Detach(CuStream stream, DetachMemory memory = {});

  // Gives the outputs up early. The lease is empty afterwards. Cost: one atomic operation, three
  // for a part.
  void Release() {
    if (slot_ == nullptr) return;
    internal::Slot* const slot = std::exchange(slot_, nullptr);
    if (facts_.part >= 0) [[unlikely]]
      internal::DropPart(slot, facts_.part);
    else
      internal::DropLease(slot);
  }

  // The same, after the work queued on `stream` so far, which may still read the outputs: the
  // lane's next use waits for it on the device. For raw pointers that were handed on; a scope does
  // it by itself. Requires: the context is current. Errors: as Read for an empty lease, a session
  // that is gone, the legacy stream and one that captures; the driver's. The lease is empty in
  // every case.
  absl::Status Release(CuStream stream);

 private:
  friend struct internal::LeaseAccess;

  struct Facts {
    RunKind kind = RunKind::kReplay;
    Reason reason = Reason::kNone;
    int part = -1;
  };

  internal::Slot* slot_ = nullptr;
  Facts facts_;
};

// While it lives, the outputs keep their bytes: a call that would write over them is refused with
// kFailedPrecondition. Ending the scope orders the lane's next use after the work queued on its
// stream so far, on the host if the lane's stream captures by then. Requires: ends before its lease
// and its session, and while its own stream does not capture.
class [[nodiscard]] ReadScope {
 public:
  ReadScope(ReadScope&& other) noexcept
      : slot_(std::exchange(other.slot_, nullptr)), stream_(other.stream_), part_(other.part_) {}
  ReadScope& operator=(ReadScope&&) = delete;
  ~ReadScope();

  // Output `index` at the call's real extents, its capacity if it has a Count; strides are those of
  // the padded tensor, or dense if the outputs were copied. Requires: 0 <= index < output_count,
  // the output of the lease if that is a part, not moved from (all checked).
  Tensor output(int index) const;

  // Where the device writes how much of output `index` there is: what Call::counts takes, so that
  // nobody waits for it. It stays as long as the output does. At address 0 if that has no Count.
  // Requires: as output.
  Tensor count(int index) const;

  // Output `index` with as many elements along its count's axis as the device decided; as output if
  // it has no Count. Requires: as output. Errors: kFailedPrecondition  the stream captures;
  // kOutOfRange  the count is negative or over the capacity; the driver's. Cost: waits until the
  // scope's stream has come so far; calls of the lane may run meanwhile.
  absl::StatusOr<Tensor> ReadSized(int index) const;

 private:
  friend class Lease;
  ReadScope(internal::Slot* slot, CuStream stream, int part)
      : slot_(slot), stream_(stream), part_(part) {}

  const OutputSpec& SpecOf(int index) const;  // Checks the index.
  Tensor OutputAt(int index) const;

  internal::Slot* slot_;  // Null once moved from.
  CuStream stream_;
  int part_;  // As Lease::part.
};

}  // namespace coppice
