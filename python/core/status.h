// Statuses of coppice.h as exceptions of Python, and exceptions of callbacks as statuses.
//
// Threads: the GIL is held, unless a function says otherwise.

#pragma once

#include <exception>
#include <utility>

#include <nanobind/nanobind.h>

#include "coppice/coppice.h"

#include "python/core/gil.h"

namespace coppice::python {

namespace nb = nanobind;

// Raises the class of coppice.errors that `status` has, with this thread's last message; an
// exception that a callback of this thread raised meanwhile goes on as it is.
void Check(coppice_status status);

// The same of a read that came too late: StaleOutput in place of FailedPrecondition.
void CheckRead(coppice_status status);

// Raises the exception that Python has set on this thread.
[[noreturn]] void RaisePending();

// Raises one of coppice.errors by its name.
[[noreturn]] void Raise(const char* error, const char* message);

// The same of a driver's entry that returned `result`: Internal.
[[noreturn]] void RaiseDriver(const char* entry, int32_t result);

// While it lives, Check knows nothing of what callbacks of this thread raised before; what they
// raised meanwhile is forgotten with it.
class CallbackScope {
 public:
  CallbackScope();
  ~CallbackScope();
  CallbackScope(const CallbackScope&) = delete;
  CallbackScope& operator=(const CallbackScope&) = delete;

 private:
  PyObject* const outer_;
};

// Runs `call`, which returns a status, without the GIL.
template <typename Call>
coppice_status Unlocked(Call&& call) {
  const GilRelease release;
  return call();
}

// Takes the GIL and runs `call` of a callback, which calls functions of Python by CallBack. An
// exception becomes COPPICE_UNKNOWN and the callback's message; it is kept for Check of this
// thread. Without the GIL.
template <typename Call>
coppice_status AnswerCallback(Call&& call) noexcept;

namespace internal {
coppice_status KeepException(nb::python_error& error) noexcept;
coppice_status TellException(const char* what) noexcept;
}  // namespace internal

// Tells of it as Python tells of exceptions that nobody can catch, and forgets it.
void WriteUnraisable();

template <typename Call>
coppice_status AnswerCallback(Call&& call) noexcept {
  const GilAcquire acquire;
  const CallbackCount counted;
  try {
    const CallbackScope scope;  // What it calls is not told of earlier callbacks.
    call();
    return COPPICE_OK;
  } catch (nb::python_error& error) {
    return internal::KeepException(error);
  } catch (const std::exception& error) {
    return internal::TellException(error.what());
  }
}

}  // namespace coppice::python
