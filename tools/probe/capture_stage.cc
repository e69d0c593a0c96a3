// Sets the stage and clears it.

#include "tools/probe/capture_stage.h"

#include <utility>

#include "coppice/base/status.h"

#include "tools/probe/first_failure.h"
#include "tools/probe/probe_kernels.h"

namespace coppice {
namespace {

template <typename Handle>
CuResult Destroy(Handle& handle, CuResult (*destroy)(Handle)) {
  const CuResult result = handle == nullptr ? CuResult::kSuccess : destroy(handle);
  if (result == CuResult::kSuccess) handle = nullptr;
  return result;
}

}  // namespace

const char* NameOf(CuCaptureMode mode) {
  switch (mode) {
    case CuCaptureMode::kGlobal:
      return "global";
    case CuCaptureMode::kThreadLocal:
      return "thread_local";
    case CuCaptureMode::kRelaxed:
      return "relaxed";
  }
  return "?";
}

absl::StatusOr<CaptureStage> CaptureStage::Create(const Subject& subject) {
  CaptureStage stage(subject);
  const Driver& driver = subject.driver();
  COPPICE_RETURN_IF_ERROR(
      driver.Call<&DriverTable::StreamCreate>(&stage.origin_, kStreamNonBlocking));
  COPPICE_RETURN_IF_ERROR(
      driver.Call<&DriverTable::StreamCreate>(&stage.other_, kStreamNonBlocking));
  COPPICE_RETURN_IF_ERROR(
      driver.Call<&DriverTable::EventCreate>(&stage.event_, kEventDisableTiming));
  return stage;
}

CaptureStage::CaptureStage(CaptureStage&& other) noexcept
    : subject_(other.subject_),
      origin_(std::exchange(other.origin_, nullptr)),
      other_(std::exchange(other.other_, nullptr)),
      event_(std::exchange(other.event_, nullptr)) {}

CaptureStage::~CaptureStage() {
  Close().IgnoreError();  // Whoever wants to know has closed it.
}

absl::Status CaptureStage::Begin(CuCaptureMode mode) const {
  COPPICE_RETURN_IF_ERROR(subject_->driver().Call<&DriverTable::StreamBeginCapture>(origin_, mode));
  return subject_->Check(Work(origin_), "cuLaunchKernel");
}

TouchParams CaptureStage::ParamsFor(CuStream stream) const {
  // Streams are not ordered with each other, so each has a word of its own.
  return {.target = subject_->word_pointer(stream == origin_ ? 0 : 1)};
}

CuResult CaptureStage::Work(CuStream stream) const {
  TouchParams params = ParamsFor(stream);
  void* arguments[] = {&params};
  const Kernel& touch = subject_->touch();
  return cu().LaunchKernel(touch.function, 1, 1, 1, touch.block_threads, 1, 1, 0, stream, arguments,
                           nullptr);
}

CuResult CaptureStage::CooperativeWork(CuStream stream) const {
  TouchParams params = ParamsFor(stream);
  void* arguments[] = {&params};
  const Kernel& touch = subject_->touch();
  CuLaunchAttribute cooperative{.id = CuLaunchAttributeId::kCooperative};
  cooperative.value.cooperative = 1;
  const CuLaunchConfig config{.block_x = touch.block_threads,
                              .stream = stream,
                              .attributes = &cooperative,
                              .attribute_count = 1};
  return cu().LaunchKernelEx(&config, touch.function, arguments, nullptr);
}

CuResult CaptureStage::End(CuStream stream) const {
  CuGraph graph = nullptr;
  const CuResult result = cu().StreamEndCapture(stream, &graph);
  if (result == CuResult::kSuccess && graph != nullptr) return cu().GraphDestroy(graph);
  return result;
}

const char* CaptureStage::StatusOf(CuStream stream) const {
  if (stream == nullptr) return "gone";
  CuCaptureStatus status = CuCaptureStatus::kNone;
  if (cu().StreamIsCapturing(stream, &status) != CuResult::kSuccess) return "unknown";
  switch (status) {
    case CuCaptureStatus::kNone:
      return "none";
    case CuCaptureStatus::kActive:
      return "active";
    case CuCaptureStatus::kInvalidated:
      return "invalidated";
  }
  return "unknown";
}

absl::Status CaptureStage::Close() {
  // An end that fails ends a capture as well, but for one that the other stream has to end.
  for (const CuStream stream : {origin_, other_}) {
    CuCaptureStatus status = CuCaptureStatus::kNone;
    if (stream != nullptr && cu().StreamIsCapturing(stream, &status) == CuResult::kSuccess &&
        status != CuCaptureStatus::kNone)
      End(stream);
  }
  FirstFailure failure;
  // So that what follows meets no work of this stage.
  failure.Note(subject_->driver().Call<&DriverTable::CtxSynchronize>());
  failure.Note(subject_->Check(DestroyOrigin(), "cuStreamDestroy"));
  failure.Note(subject_->Check(DestroyOther(), "cuStreamDestroy"));
  failure.Note(subject_->Check(DestroyEvent(), "cuEventDestroy"));
  // Whatever the answers: a driver that reports an earlier failure has destroyed them all the same.
  origin_ = nullptr;
  other_ = nullptr;
  event_ = nullptr;
  return failure.status();
}

CuResult CaptureStage::DestroyOrigin() {
  return Destroy(origin_, cu().StreamDestroy);
}

CuResult CaptureStage::DestroyOther() {
  return Destroy(other_, cu().StreamDestroy);
}

CuResult CaptureStage::DestroyEvent() {
  return Destroy(event_, cu().EventDestroy);
}

}  // namespace coppice
