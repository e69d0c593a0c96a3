// What handles are given to functions that do not fit them.

#include "capi/handles.h"

#include "coppice/base/status.h"

namespace coppice::capi {

absl::Status CheckHandle(const void* handle, const char* what) {
  if (handle != nullptr) return absl::OkStatus();
  return InvalidArgument("{}: null; give a handle", what);
}

absl::Status CheckNotReset(const coppice_device& device, int resets, const char* what) {
  if (device.resets.load() == resets) return absl::OkStatus();
  return FailedPrecondition("{}: loaded before the device was reset; load again", what);
}

absl::StatusOr<const Program*> ProgramOf(const coppice_session& session,
                                         const coppice_program* program) {
  COPPICE_RETURN_IF_ERROR(CheckHandle(program, "program"));
  if (program->session == &session) return program->program;
  return InvalidArgument("program: it belongs to another session");
}

absl::StatusOr<const Binding*> BindingOf(const coppice_session& session,
                                         const coppice_binding* binding) {
  if (binding == nullptr) return nullptr;
  if (binding->session == &session) return binding->binding;
  return InvalidArgument("binding: it belongs to another session");
}

absl::Status CheckLane(const coppice_session& session, int32_t lane) {
  if (lane >= 0 && lane < session.lanes) return absl::OkStatus();
  return InvalidArgument("lane {}: not a lane of the session; give a lane from 0 to {}", lane,
                         session.lanes - 1);
}

absl::Status CheckStream(const void* stream) {
  if (stream != nullptr) return absl::OkStatus();
  return InvalidArgument("stream: null; create a stream, or pass 1, the legacy stream");
}

void ProgramNeeds::Keep(coppice_kernels& launched) {
  const std::lock_guard lock(mutex);
  if (!kernels.contains(&launched))
    kernels.emplace(&launched, Held<coppice_kernels>::Share(&launched));
}

}  // namespace coppice::capi
