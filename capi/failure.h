// What a C function answers: a status, and the thread's message behind it. Private to capi/.
//
// Threads: the message is the thread's own.

#pragma once

#include <new>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"

#include "coppice/coppice.h"

namespace coppice::capi {

// Keeps the message and the driver's result for coppice_last_error, and returns the number.
coppice_status Tell(const absl::Status& status);

// The same of an exception, without allocating.
coppice_status TellOutOfMemory();
coppice_status TellException();

// Copies `text` as coppice_last_error says, and returns its bytes.
size_t CopyText(std::string_view text, char* buffer, size_t buffer_bytes);

// What `body` returns, an absl::Status or nothing, as a number; no exception leaves it.
template <typename Body>
coppice_status Answer(Body&& body) noexcept {
  try {
    if constexpr (std::is_void_v<decltype(body())>) {
      std::forward<Body>(body)();
      return COPPICE_OK;
    } else {
      const absl::Status status = std::forward<Body>(body)();
      return status.ok() ? COPPICE_OK : Tell(status);
    }
  } catch (const std::bad_alloc&) {
    return TellOutOfMemory();
  } catch (...) {
    return TellException();
  }
}

// Before a callback of the caller's is called: forgets what an earlier one said.
void ForgetCallbackMessage();
// What a callback returned, with what it said by coppice_set_error. `callback` names it.
absl::Status StatusOfCallback(coppice_status returned, const std::string& callback);

}  // namespace coppice::capi
