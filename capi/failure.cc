// Status numbers, and the message that a thread was told last.

#include "capi/failure.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <utility>

#include "coppice/base/status.h"
#include "coppice/runtime/driver.h"

namespace coppice::capi {
namespace {

struct Numbered {
  absl::StatusCode code;
  coppice_status number;
  const char* name;
};

constexpr std::array<Numbered, 13> kStatuses = {{
    {absl::StatusCode::kOk, COPPICE_OK, "ok"},
    {absl::StatusCode::kInvalidArgument, COPPICE_INVALID_ARGUMENT, "invalid argument"},
    {absl::StatusCode::kOutOfRange, COPPICE_OUT_OF_RANGE, "out of range"},
    {absl::StatusCode::kFailedPrecondition, COPPICE_FAILED_PRECONDITION, "failed precondition"},
    {absl::StatusCode::kResourceExhausted, COPPICE_RESOURCE_EXHAUSTED, "resource exhausted"},
    {absl::StatusCode::kNotFound, COPPICE_NOT_FOUND, "not found"},
    {absl::StatusCode::kUnavailable, COPPICE_UNAVAILABLE, "unavailable"},
    {absl::StatusCode::kUnimplemented, COPPICE_UNIMPLEMENTED, "unimplemented"},
    {absl::StatusCode::kAborted, COPPICE_ABORTED, "aborted"},
    {absl::StatusCode::kPermissionDenied, COPPICE_PERMISSION_DENIED, "permission denied"},
    {absl::StatusCode::kAlreadyExists, COPPICE_ALREADY_EXISTS, "already exists"},
    {absl::StatusCode::kInternal, COPPICE_INTERNAL, "internal"},
    {absl::StatusCode::kUnknown, COPPICE_UNKNOWN, "unknown"},
}};

coppice_status NumberOf(absl::StatusCode code) {
  for (const Numbered& status : kStatuses) {
    if (status.code == code) return status.number;
  }
  return COPPICE_INTERNAL;
}

const Numbered* Find(coppice_status number) {
  const auto found = std::find_if(kStatuses.begin(), kStatuses.end(),
                                  [&](const Numbered& status) { return status.number == number; });
  return found == kStatuses.end() ? nullptr : &*found;
}

// What a thread was told last.
struct Told {
  std::string text;
  const char* fixed = "";  // In place of `text` where memory is short; null: `text` counts.
  int32_t driver_result = 0;
};

Told& ToldHere() {
  thread_local Told told;
  return told;
}

std::string& CallbackMessage() {
  thread_local std::string message;
  return message;
}

}  // namespace

coppice_status Tell(const absl::Status& status) {
  std::string text = MessageOf(status);
  const std::optional<CuResult> result = CuResultOf(status);
  const bool no_context = result == CuResult::kInvalidContext;
  if (no_context)
    text +=
        "; the context of the device is not current: the device was closed or reset, or a callback "
        "made another context current";
  if (result == CuResult::kNotPermitted)
    text +=
        "; a host function in a stream made this call, and would wait for itself: make the call "
        "after the function returns";
  Told& told = ToldHere();
  told = {.text = std::move(text),
          .fixed = nullptr,
          .driver_result = result ? static_cast<int32_t>(*result) : 0};
  return no_context ? COPPICE_FAILED_PRECONDITION : NumberOf(status.code());
}

coppice_status TellOutOfMemory() {
  ToldHere().fixed = "the host has no memory left; free some and call again";
  ToldHere().driver_result = 0;
  return COPPICE_RESOURCE_EXHAUSTED;
}

coppice_status TellException() {
  ToldHere().fixed =
      "coppice or a callback threw an exception; callbacks must return a status instead";
  ToldHere().driver_result = 0;
  return COPPICE_INTERNAL;
}

size_t CopyText(std::string_view text, char* buffer, size_t buffer_bytes) {
  if (buffer != nullptr && buffer_bytes > 0) {
    const size_t copied = std::min(text.size(), buffer_bytes - 1);
    std::memcpy(buffer, text.data(), copied);
    buffer[copied] = '\0';
  }
  return text.size();
}

void ForgetCallbackMessage() {
  CallbackMessage().clear();
}

absl::Status StatusOfCallback(coppice_status returned, const std::string& callback) {
  if (returned == COPPICE_OK) return absl::OkStatus();
  const Numbered* const known = Find(returned);
  const std::string& said = CallbackMessage();
  return MakeError(
      known != nullptr ? known->code : absl::StatusCode::kUnknown, "{} failed with {} ({}){}{}",
      callback, returned, known != nullptr ? known->name : "not a value of coppice_status",
      said.empty() ? "; call coppice_set_error in the callback to say why" : ": ", said);
}

extern "C" {

const char* coppice_status_name(coppice_status status) {
  const Numbered* const found = Find(status);
  return found == nullptr ? "unknown" : found->name;
}

size_t coppice_last_error(char* buffer, size_t buffer_bytes) {
  const Told& told = ToldHere();
  return CopyText(told.fixed == nullptr ? std::string_view(told.text) : told.fixed, buffer,
                  buffer_bytes);
}

int32_t coppice_last_driver_result(void) {
  return ToldHere().driver_result;
}

void coppice_set_error(const char* message) {
  (void)Answer([&] { CallbackMessage() = message == nullptr ? "" : message; });
}

}  // extern "C"
}  // namespace coppice::capi
