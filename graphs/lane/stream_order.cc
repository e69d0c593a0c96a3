// Handing a lane from one stream to another.

#include "graphs/lane/stream_order.h"

#include "coppice/base/status.h"

namespace coppice::internal {

absl::StatusOr<StreamOrder> StreamOrder::Create(const Driver& driver, int lane) {
  COPPICE_ASSIGN_OR_RETURN(Stream stream, Stream::Create(driver));
  COPPICE_ASSIGN_OR_RETURN(Event handoff, Event::Create(driver));
  COPPICE_ASSIGN_OR_RETURN(Event progress, Event::Create(driver));
  return StreamOrder(driver, lane, std::move(stream), std::move(handoff), std::move(progress));
}

// A handle that the driver does not know is that of a stream which is gone.
absl::StatusOr<bool> StreamOrder::LastStreamCaptures() {
  if (last_stream_ == nullptr) return false;
  absl::StatusOr<bool> captures = IsCapturing(*driver_, last_stream_);
  if (captures.ok() || CuResultOf(captures.status()) != CuResult::kInvalidHandle) return captures;
  return LeaveLastStream();
}

absl::Status StreamOrder::LeaveLastStream() {
  const absl::Status waited = WaitForContext();
  if (waited.code() == absl::StatusCode::kAborted) {
    return FailedPrecondition(
        "Session: lane {} last ran on a stream that was destroyed since, and its work cannot be "
        "waited for while a stream captures; end the capture and call again",
        lane_);
  }
  COPPICE_RETURN_IF_ERROR(waited);
  last_stream_ = nullptr;
  completed_call_ = calls_;
  progress_call_ = 0;
  return FailedPrecondition(
      "Session: lane {} last ran on a stream that was destroyed since; the work on that stream has "
      "finished, so call again, and in future keep a stream alive until the lane's next call",
      lane_);
}

absl::Status StreamOrder::Capturing() const {
  return FailedPrecondition(
      "Session: a stream that lane {} uses is capturing; end its capture first, use another lane, "
      "or add the program to the capture with Include",
      lane_);
}

absl::Status StreamOrder::RefuseCapture(CuStream stream) const {
  COPPICE_ASSIGN_OR_RETURN(const bool captures, IsCapturing(*driver_, stream));
  return captures ? Capturing() : absl::OkStatus();
}

absl::Status StreamOrder::MarkLastStream() {
  COPPICE_ASSIGN_OR_RETURN(const bool captures, LastStreamCaptures());
  return captures ? Capturing() : handoff_.Record(last_stream_);
}

absl::Status StreamOrder::SwitchTo(CuStream stream) {
  COPPICE_RETURN_IF_ERROR(MakeWait(stream));
  if (last_stream_ != nullptr) ++switches_;
  last_stream_ = stream;
  return absl::OkStatus();
}

absl::Status StreamOrder::MakeWait(CuStream stream) {
  COPPICE_RETURN_IF_ERROR(RefuseCapture(stream));
  if (last_stream_ == nullptr) return absl::OkStatus();
  COPPICE_RETURN_IF_ERROR(MarkLastStream());
  return handoff_.MakeWait(stream);
}

absl::Status StreamOrder::Join(CuStream stream) {
  if (last_stream_ == nullptr) last_stream_ = own_stream_.handle();
  const absl::Status refused = RefuseCapture(stream);
  if (refused.code() == absl::StatusCode::kFailedPrecondition) return refused;
  if (refused.ok() && RefuseCapture(last_stream_).ok() && handoff_.Record(stream).ok() &&
      handoff_.MakeWait(last_stream_).ok())
    return absl::OkStatus();
  const absl::Status waited = SynchronizeStream(*driver_, stream);
  return CuResultOf(waited) == CuResult::kInvalidHandle ? WaitForContext() : waited;
}

absl::Status StreamOrder::Wait() {
  if (last_stream_ == nullptr) return absl::OkStatus();
  COPPICE_RETURN_IF_ERROR(MarkLastStream());
  return handoff_.Synchronize();
}

absl::Status StreamOrder::Drain() {
  COPPICE_RETURN_IF_ERROR(Wait());
  completed_call_ = calls_;
  progress_call_ = 0;
  return absl::OkStatus();
}

absl::Status StreamOrder::WaitForContext() const {
  const RelaxedCaptureScope relaxed(*driver_);
  return driver_->Call<&DriverTable::CtxSynchronize>();
}

void StreamOrder::WaitAtEnd() {
  if (!Wait().ok() && last_stream_ != nullptr) (void)SynchronizeStream(*driver_, last_stream_).ok();
}

absl::StatusOr<bool> StreamOrder::IsIdle() {
  if (last_stream_ == nullptr) return true;
  COPPICE_RETURN_IF_ERROR(MarkLastStream());
  return handoff_.Complete();
}

absl::StatusOr<uint64_t> StreamOrder::FindCompletedCall() {
  if (last_stream_ == nullptr || completed_call_ == calls_) return completed_call_;
  COPPICE_ASSIGN_OR_RETURN(const bool captures, LastStreamCaptures());
  if (captures) return completed_call_;
  if (progress_call_ == 0) {
    COPPICE_RETURN_IF_ERROR(progress_.Record(last_stream_));
    progress_call_ = calls_;
  }
  COPPICE_ASSIGN_OR_RETURN(const bool complete, progress_.Complete());
  if (complete) completed_call_ = std::exchange(progress_call_, 0);
  return completed_call_;
}

}  // namespace coppice::internal
