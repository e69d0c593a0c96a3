// Where a survey tries what a capture forbids: a stream to capture, a second stream, an event, and
// the certainty that every capture ends.
//
// Calls return the driver's result as it is: the probe is here to learn it.
//
// Threads: the thread that made it; the handles may be used by others.

#pragma once

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "coppice/runtime/driver.h"

#include "tools/probe/probe_kernels.h"
#include "tools/probe/subject.h"

namespace coppice {

// As tables spell a mode: "global", "thread_local", "relaxed".
const char* NameOf(CuCaptureMode mode);

class CaptureStage {
 public:
  // `subject` must outlive the stage. All streams are non-blocking.
  static absl::StatusOr<CaptureStage> Create(const Subject& subject);
  CaptureStage(CaptureStage&& other) noexcept;
  CaptureStage& operator=(CaptureStage&&) = delete;
  ~CaptureStage();

  const Subject& subject() const { return *subject_; }
  const DriverTable& cu() const { return subject_->cu(); }
  CuStream origin() const { return origin_; }
  CuStream other() const { return other_; }
  CuEvent event() const { return event_; }

  // Begins a capture on the origin and records one node.
  absl::Status Begin(CuCaptureMode mode) const;

  // Adds a node to `stream`, or launches there.
  CuResult Work(CuStream stream) const;
  CuResult CooperativeWork(CuStream stream) const;

  // Ends the capture of `stream` and drops the graph that it may have made.
  CuResult End(CuStream stream) const;

  // Destroys a stream or the event; it is null where that succeeds.
  CuResult DestroyOrigin();
  CuResult DestroyOther();
  CuResult DestroyEvent();

  // "none", "active" or "invalidated"; "gone" for a stream that was destroyed, and "unknown" if the
  // driver does not say.
  const char* StatusOf(CuStream stream) const;

  // Ends what captures, waits for the device and gives everything back. Errors: the first refusal.
  absl::Status Close();

 private:
  explicit CaptureStage(const Subject& subject) : subject_(&subject) {}

  TouchParams ParamsFor(CuStream stream) const;

  const Subject* subject_;
  CuStream origin_ = nullptr;
  CuStream other_ = nullptr;
  CuEvent event_ = nullptr;
};

}  // namespace coppice
