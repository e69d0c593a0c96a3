// A lease: the right to read the outputs of one call.
//
// Borrowed outputs of a graph lie in the lane's window. While their lease is held, calls that build
// on them (see session.h, Paths) do not write over them; any other call on the lane may. The lane
// notes which call wrote over them, so a read that comes too late is an error, and never returns
// another call's data. Outputs are read inside a scope; a call that would write over outputs under
// an open scope is refused:
//
//   COPPICE_ASSIGN_OR_RETURN(Lease lease, session->Run(call));
//   {
//     COPPICE_ASSIGN_OR_RETURN(ReadScope scope, lease.Read(stream));
//     ... enqueue work on `stream` that reads scope.output(0) ...
//   }
//
// Outputs of warm-up and eager runs, outputs that were copied out, and outputs written into the
// caller's buffers have their own bytes: they are never written over while their lease is held.
//
// Units: elements. Threads: a lease or scope belongs to one thread at a time; any thread may drop a
// lease, at any time. Lifetime: a lease may outlive its session, but can then no longer be read
// (outputs of Detach can); a scope must not outlive it. A lease with an open scope may be moved,
// but neither released nor assigned to.

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
struct Slot;         // What the lane and the lease know about one call's outputs.
// Ends the hold of a lease, or of a part of a split lease, on its slot.
void DropLease(Slot* slot);
void DropPart(Slot* slot, int output);
}  // namespace internal

class ReadScope;

class [[nodiscard]] Lease {
 public:
  Lease() = default;  // The lease of no call: it has no outputs.
  // The lease of a session's call. Takes over the hold on the slot.
  Lease(internal::Slot* slot, RunKind kind, Reason reason)
      : slot_(slot), facts_{.kind = kind, .reason = reason} {}
  Lease(Lease&& other) noexcept
      : slot_(std::exchange(other.slot_, nullptr)), facts_(other.facts_) {}
  Lease& operator=(Lease&& other) noexcept;
  ~Lease() { Release(); }

  // How the call ran.
  RunKind kind() const { return facts_.kind; }
  Reason reason() const { return facts_.reason; }

  // Outputs of the program; 0 if the lease is empty or its session is gone.
  int output_count() const;

  // The call's number on its lane, from 1, as messages name it. 0 if the lease is empty.
  uint64_t call_number() const;

  // Opens a scope for reading on `stream`. Work queued on `stream` afterwards sees the outputs. If
  // the lane ran on another stream last, that takes four driver calls: two ask whether either
  // stream captures, one records an event and one waits for it.
  //
  // Requires: the context is current, and `stream` lives until the scope ends.
  // Errors: kFailedPrecondition  a later call wrote over an output (names the output, the call that
  //                              made it and the call that wrote over it), the lease is empty,
  //                              its session gone or suspended, or its lane lent; either stream
  //                              captures, if they differ;
  //         kInvalidArgument     null, or the per-thread stream.
  absl::StatusOr<ReadScope> Read(CuStream stream) const;

  // Splits the lease into parts, one per output, in their order. Each part is kept, moved or
  // dropped separately. Once a part is dropped, the lane's next calls may use the bytes of its
  // output, unless another output has the same bytes. The bytes of copied-out outputs are reused
  // only when all parts are dropped. A call that writes over one output of a graph makes all parts
  // stale. Outputs under an open scope stay until the scope ends. A count stays until every output
  // that it counts is dropped. This lease is empty afterwards. Errors: kFailedPrecondition the
  // lease is empty or a part, or its session is gone. Cost: allocates.
  absl::StatusOr<std::vector<Lease>> Split();

  // The output that this lease is a part for; -1: the lease is whole.
  int part() const { return facts_.part; }

  // Takes the outputs out of the session: copies them on `stream`, after the call, into memory that
  // the result owns. Outputs that lie in the caller's own buffers are not copied; the result says
  // which. The copies have the extents that ReadScope::output shows, and include the bytes between
  // elements. Later calls on the lane wait for the copies, on the device. For a part, only its
  // output is copied, without its count. The lease is empty afterwards; after an error it is
  // unchanged.
  //
  // The copies are in memory from cuMemAlloc, or from `memory` if its functions are set.
  //
  // Requires: the context is current. Errors: as Read, and kFailedPrecondition whenever `stream`
  // captures; kResourceExhausted the device has no room; kInvalidArgument the address of `memory`
  // is not a multiple of kBufferAlignment; otherwise the driver's. Cost: allocates, on the device
  // as well if anything is copied; waits only for the lane's lock.
  absl::StatusOr<DetachedOutputs> Detach(CuStream stream, DetachMemory memory = {});

  // Gives up the outputs early. The lease is empty afterwards. Cost: one atomic operation, three
  // for a part.
  void Release() {
    if (slot_ == nullptr) return;
    internal::Slot* const slot = std::exchange(slot_, nullptr);
    if (facts_.part >= 0) [[unlikely]]
      internal::DropPart(slot, facts_.part);
    else
      internal::DropLease(slot);
  }

  // Gives up the outputs, but the work queued on `stream` so far may still read them: the lane's
  // next use waits for it on the device. Use this if you passed raw pointers on; a scope does the
  // same by itself. The lease is empty afterwards, even after an error. Requires: the context is
  // current. Errors: as Read, for an empty lease, a session that is gone, an invalid stream and one
  // that captures; the driver's.
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

// A scope for reading. While it lives, the outputs keep their bytes: a call that would write over
// them is refused with kFailedPrecondition. When it ends, the lane's next use is ordered after the
// work queued on the scope's stream so far; if the lane's stream captures by then, the host waits
// for that work. Requires: the scope ends before its lease and its session, and while its own
// stream does not capture.
class [[nodiscard]] ReadScope {
 public:
  ReadScope(ReadScope&& other) noexcept
      : slot_(std::exchange(other.slot_, nullptr)), stream_(other.stream_), part_(other.part_) {}
  ReadScope& operator=(ReadScope&&) = delete;
  ~ReadScope();

  // Output `index` at the call's real extents; if it has a Count, at its capacity. Its strides are
  // those of the padded tensor, or dense if the outputs were copied. Requires: 0 <= index <
  // output_count, `index` is the lease's own output if it is a part, not moved from (all checked).
  Tensor output(int index) const;

  // The tensor where the device writes the count of output `index`. Pass it in Call::counts, and
  // the host does not wait for it. It stays valid as long as the output. Its address is 0 if the
  // output has no Count. Requires: as output.
  Tensor count(int index) const;

  // Output `index`, with the number of elements along its count's axis that the device decided. If
  // it has no Count, this is output(). Requires: as output. Errors: kFailedPrecondition the stream
  // captures; kOutOfRange the count is negative or over the capacity; the driver's. Cost: waits for
  // the work queued on the scope's stream; calls of the lane may run meanwhile.
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
