// The order of a lane's work: its calls one after another, on whatever streams they come. Private
// to graphs/.
//
// The lane's work follows one stream at a time; a call on another one makes that wait. Readers and
// borrowers join the order without being calls. Calls are numbered from 1.
//
// An event recorded on a stream that somebody captures pulls whoever waits for it into that
// capture; to wait on one breaks it. What would do so fails with kFailedPrecondition instead.
//
// Behind the work of a stream that its owner has destroyed no event can be recorded. Whoever is the
// first to need one waits for the whole context, leaves the stream and fails with
// kFailedPrecondition; what follows goes on without it.
//
// Threads: under the lane's lock.

#pragma once

#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "coppice/runtime/driver.h"
#include "coppice/runtime/stream.h"

namespace coppice::internal {

// Whether a lane may follow `stream`. Null names none, and the per-thread stream, 2, is another one
// on each thread; 1 is the legacy stream.
inline bool NamesAStream(CuStream stream) {
  return (reinterpret_cast<uintptr_t>(stream) & ~uintptr_t{2}) != 0;  // One test: each call asks.
}

class StreamOrder {
 public:
  // Errors: the driver's. `driver` outlives it; `lane` is for messages.
  static absl::StatusOr<StreamOrder> Create(const Driver& driver, int lane);

  // Orders the lane's next work, on `stream`, after its last. No driver call on the same stream.
  absl::Status Enter(CuStream stream) {
    if (stream == last_stream_) [[likely]]
      return absl::OkStatus();
    return SwitchTo(stream);
  }
  // The call that enters last runs from here on. Cost: none.
  uint64_t BeginCall() { return ++calls_; }
  uint64_t calls() const { return calls_; }  // Number of the last call that ran.
  // Hand-overs from one stream to another.
  int64_t switches() const { return switches_; }

  // Orders what is queued on `stream` from here on after the lane's work. Errors: the driver's; a
  // capture; a last stream that was destroyed.
  absl::Status MakeWait(CuStream stream);
  // Orders the lane's later work after that of `stream` so far: on the device, or by waiting on the
  // host if the last stream captures, `stream` was destroyed or the driver refuses that. Errors:
  // the driver's; a capture.
  absl::Status Join(CuStream stream);
  bool IsLast(CuStream stream) const { return stream == last_stream_; }

  // Fails if `stream` captures, or the lane's last one for which there is the question alone.
  absl::Status RefuseCapture(CuStream stream) const;
  absl::StatusOr<bool> LastStreamCaptures();

  // Waits on the host for the lane's last work; Drain also notes that it has run. WaitAtEnd then
  // tries to wait for its stream, because a dead context refuses one of them.
  absl::Status Wait();
  absl::Status Drain();
  void WaitAtEnd();

  // Whether all work in the lane's order has run, that of readers and borrowers included.
  absl::StatusOr<bool> IsIdle();
  // The last call known to have run, with all before it. Makes up to five driver calls.
  absl::StatusOr<uint64_t> FindCompletedCall();

  const Stream& own_stream() const { return own_stream_; }  // For recordings and Warm.

 private:
  StreamOrder(const Driver& driver, int lane, Stream own_stream, Event handoff, Event progress)
      : driver_(&driver),
        lane_(lane),
        own_stream_(std::move(own_stream)),
        handoff_(std::move(handoff)),
        progress_(std::move(progress)) {}

  absl::Status SwitchTo(CuStream stream);
  absl::Status MarkLastStream();  // With `handoff_`. Requires: there is a last stream.
  absl::Status LeaveLastStream();
  absl::Status WaitForContext() const;
  absl::Status Capturing() const;  // The error.

  const Driver* driver_;
  int lane_;
  CuStream last_stream_ = nullptr;  // Of the lane's last work; null if none may be under way.
  uint64_t calls_ = 0;
  int64_t switches_ = 0;
  uint64_t completed_call_ = 0;
  uint64_t progress_call_ = 0;  // What `progress_` marks; 0: nothing.
  Stream own_stream_;
  Event handoff_;   // Re-recorded at every hand-over; a wait keeps what it saw.
  Event progress_;  // Behind call `progress_call_`.
};

}  // namespace coppice::internal
