// The GIL, given up and taken, where threads may outlive the interpreter.
//
// As of nanobind's scopes, but that a thread which Python ends while it waits for the GIL, as it
// does with daemon threads when the interpreter ends, stays where it is: Python unwinds its stack,
// which destructors and code of C++ turn into the end of the process.

#pragma once

#include <cxxabi.h>
#include <utility>

#include "python/core/nanobind.h"

namespace coppice::python {

// Never returns. The process goes on, and ends without this thread.
[[noreturn]] void StayHere() noexcept;

// Runs `body`, in which Python may end the thread.
template <typename Body>
decltype(auto) Staying(Body&& body) {
  try {
    return std::forward<Body>(body)();
  } catch (const abi::__forced_unwind&) {
    StayHere();
  }
}

class GilRelease {
 public:
  GilRelease() : state_(PyEval_SaveThread()) {}
  ~GilRelease() {
    Staying([this] { PyEval_RestoreThread(state_); });
  }
  GilRelease(const GilRelease&) = delete;
  GilRelease& operator=(const GilRelease&) = delete;

 private:
  PyThreadState* const state_;
};

class GilAcquire {
 public:
  GilAcquire() : state_(Staying([] { return PyGILState_Ensure(); })) {}
  ~GilAcquire() { PyGILState_Release(state_); }
  GilAcquire(const GilAcquire&) = delete;
  GilAcquire& operator=(const GilAcquire&) = delete;

 private:
  const PyGILState_STATE state_;
};

// Counts itself among the callbacks that run functions of Python while it lives.
class CallbackCount {
 public:
  CallbackCount();
  ~CallbackCount();
  CallbackCount(const CallbackCount&) = delete;
  CallbackCount& operator=(const CallbackCount&) = delete;
};

// Calls a function of Python out of a callback.
template <typename Function, typename... Arguments>
nb::object CallBack(const Function& function, Arguments&&... arguments) {
  return Staying([&] { return function(std::forward<Arguments>(arguments)...); });
}

// Whether the interpreter ends while a thread stays in a callback: what would wait for that
// thread's call is left to the process. The GIL is held.
bool IsLeftToProcess() noexcept;

// Ends a handle of C by `End`, if there is one, without the GIL, which a run that has the lane may
// wait for.
template <auto End, typename Handle>
void EndHandle(Handle*& handle) noexcept {
  Handle* const ending = std::exchange(handle, nullptr);
  if (ending == nullptr || IsLeftToProcess()) return;
  const GilRelease release;
  End(ending);
}

}  // namespace coppice::python
