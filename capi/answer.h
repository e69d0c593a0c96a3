// What a function of C does: checks its handle and where its result goes, lets a body compute, and
// answers with a status. Private to capi/.
//
//   coppice_status coppice_trim(coppice_session* session) {
//     return AnswerOn(session, [&] { return session->session->memory().Trim(); });
//   }
//
// A body without `out` returns a status or nothing; with one, what goes there or a StatusOr of it.
//
// Threads: of the calling thread alone.

#pragma once

#include <string>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "coppice/base/status.h"

#include "capi/failure.h"
#include "capi/handles.h"
#include "capi/on_device.h"
#include "capi/structs.h"
#include "capi/tensors.h"

namespace coppice::capi {

// Where a text goes; each may be null or 0.
struct TextOut {
  char* buffer;
  size_t buffer_bytes;
  size_t* text_bytes;
};

// Checks where a result goes, which is null beforehand, so that it is so after an error.
template <typename Value>
absl::Status Clear(Value* out) {
  if constexpr (requires { out->struct_size; }) {
    return CheckStruct(out);
  } else {
    if (out == nullptr) return InvalidArgument("out: null; pass a pointer for the result");
    *out = Value{};
    return absl::OkStatus();
  }
}
inline absl::Status Clear(coppice_view* out) {
  return CheckStruct(out, sizeof(coppice_view));
}
inline absl::Status Clear(const TextOut& /*out*/) {
  return absl::OkStatus();
}

// Puts a result there.
template <typename Value, typename Out>
void Put(Value value, Out* out) {
  if constexpr (requires { out->struct_size; })
    WriteStruct(value, out);
  else
    *out = value;
}
template <typename Object>
void Put(Held<Object> made, Object** out) {
  *out = made.Leak();
}
inline void Put(const ShownTensor& shown, coppice_view* out) {
  WriteView(shown, out);
}
inline void Put(const std::string& text, const TextOut& out) {
  const size_t bytes = CopyText(text, out.buffer, out.buffer_bytes);
  if (out.text_bytes != nullptr) *out.text_bytes = bytes;
}

template <typename Value, typename Out>
absl::Status Deliver(Value value, Out out) {
  Put(std::move(value), out);
  return absl::OkStatus();
}
template <typename Value, typename Out>
absl::Status Deliver(absl::StatusOr<Value> value, Out out) {
  COPPICE_RETURN_IF_ERROR(value.status());
  return Deliver(*std::move(value), out);
}

// What `body` returns goes to `out`.
template <typename Out, typename Body>
coppice_status AnswerTo(Out out, Body&& body) noexcept {
  return Answer([&]() -> absl::Status {
    COPPICE_RETURN_IF_ERROR(Clear(out));
    return Deliver(body(), out);
  });
}

// The same of a handle that is checked before.
template <typename Handle, typename Out, typename Body>
coppice_status AnswerTo(const Handle* handle, Out out, Body&& body) noexcept {
  return Answer([&]() -> absl::Status {
    COPPICE_RETURN_IF_ERROR(Clear(out));
    COPPICE_RETURN_IF_ERROR(CheckUsable(handle));
    return Deliver(body(), out);
  });
}

template <typename Handle, typename Body>
coppice_status AnswerOf(const Handle* handle, Body&& body) noexcept {
  return Answer([&]() -> absl::Status {
    COPPICE_RETURN_IF_ERROR(CheckUsable(handle));
    if constexpr (std::is_void_v<decltype(body())>) {
      body();
      return absl::OkStatus();
    } else {
      return body();
    }
  });
}

// Both, of calls that reach the handle's device.
template <typename Handle, typename Body>
coppice_status AnswerOn(const Handle* handle, Body&& body) noexcept {
  const CurrentScope current(DeviceOf(handle));
  return AnswerOf(handle, std::forward<Body>(body));
}
template <typename Handle, typename Out, typename Body>
coppice_status AnswerOn(const Handle* handle, Out out, Body&& body) noexcept {
  const CurrentScope current(DeviceOf(handle));
  return AnswerTo(handle, out, std::forward<Body>(body));
}

}  // namespace coppice::capi
