// Requests in the order of a script.

#include "graphs/record/planned_context.h"

#include "coppice/base/status.h"

namespace coppice::internal {

bool IsDeparture(const absl::Status& status) {
  return status.code() == absl::StatusCode::kUnavailable && !CuResultOf(status).has_value();
}

absl::Status PlannedContext::Free(DeviceAddress address) {
  COPPICE_RETURN_IF_ERROR(CheckFree(address));
  const bool input = cursor_ < script_.events.size() &&
                     script_.events[cursor_].kind == ScriptEvent::Kind::kFreeInput;
  COPPICE_ASSIGN_OR_RETURN(const ScriptEvent* event,
                           Next(input ? ScriptEvent::Kind::kFreeInput : ScriptEvent::Kind::kFree));
  if (input && TakeInputToFree(address, event->input) != event->input)
    return Depart("frees a different input");
  if (!input && AddressOf(*event) != address) return Depart("frees a different temporary");
  return absl::OkStatus();
}

absl::Status PlannedContext::Finish(const absl::Status& ran) const {
  if (!departure_.ok()) return departure_;
  if (!ran.ok()) {
    return WithFailureOf(ran, FailedPrecondition("program '{}' failed under capture: {}",
                                                 spec_.name, MessageOf(ran)));
  }
  if (cursor_ == script_.events.size()) return absl::OkStatus();
  return MakeError(absl::StatusCode::kUnavailable,
                   "program '{}' made only {} of the {} requests of its warm-up", spec_.name,
                   cursor_, script_.events.size());
}

DeviceAddress PlannedContext::AddressOf(const ScriptEvent& event) const {
  return base_ + static_cast<DeviceAddress>(plan_.offsets[static_cast<size_t>(event.buffer)]);
}

absl::Status PlannedContext::Depart(const char* how) {
  departure_ = MakeError(absl::StatusCode::kUnavailable,
                         "program '{}' {} at request {}, unlike its warm-up; a program must make "
                         "the same requests whenever the extents are the same",
                         spec_.name, how, cursor_);
  return absl::Status(absl::StatusCode::kAborted, departure_.message());
}

absl::StatusOr<const ScriptEvent*> PlannedContext::Next(ScriptEvent::Kind kind) {
  COPPICE_RETURN_IF_ERROR(Reach());
  if (cursor_ == script_.events.size()) return Depart("makes an extra request");
  const ScriptEvent& event = script_.events[cursor_];
  if (event.kind != kind) return Depart("makes a different request");
  ++cursor_;
  Note(event);
  return &event;
}

absl::StatusOr<DeviceAddress> PlannedContext::AllocateBytes(const ScriptEvent& request) {
  COPPICE_ASSIGN_OR_RETURN(
      const ScriptEvent* event,
      Next(request.output < 0 ? ScriptEvent::Kind::kAllocate : ScriptEvent::Kind::kOutput));
  const bool fits = request_size_ == RequestSize::kSame ? request.bytes == event->bytes
                                                        : request.bytes <= event->bytes;
  if (!fits || event->output != request.output) return Depart("asks for a different size");
  return AddressOf(*event);
}

absl::Status CaptureContext::Break(EagerStep step) {
  COPPICE_RETURN_IF_ERROR(CheckStep(step));
  COPPICE_RETURN_IF_ERROR(Next(ScriptEvent::Kind::kBreak).status());
  return capture_.Cut(std::move(step));
}

absl::Status CaptureContext::Reach() {
  if (!with_marks_) return absl::OkStatus();
  COPPICE_ASSIGN_OR_RETURN(std::vector<CuGraphNode> nodes, capture_.Nodes());
  marks_.push_back(std::move(nodes));
  return absl::OkStatus();
}

}  // namespace coppice::internal
