// Python's functions behind those of C: functions of `call` steps, and callables.
//
// Threads: C calls them on any thread, without the GIL.

#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "python/core/tensor.h"

namespace coppice::python {

// What C holds of a function, by UserOf, for the session of a SessionHold.
nb::object MakeCallback(nb::object device, nb::object hold, nb::object fn);
// A reference to one that C holds as `user` and gives back with ReleaseUser.
void* UserOf(nb::object callback);
void ReleaseUser(void* user);

// Runs one of `call` steps, `fn(inputs, outputs, options, stream)`.
coppice_status RunStepFunction(void* user, const coppice_function_call* call);
// Runs host code of a break, `fn(stream)`.
coppice_status RunEagerStep(void* user, void* stream);
// Runs a callable, `fn(context)`.
coppice_status RunCallable(void* user, coppice_context* context);

// What a callable is told; valid during its run only.
class Context {
 public:
  Context(coppice_context* handle, nb::object device, nb::object hold)
      : handle_(handle), device_(std::move(device)), hold_(std::move(hold)) {}

  void End() { handle_ = nullptr; }
  coppice_context* handle() const;  // Raises FailedPrecondition once the run is over.
  const nb::object& hold() const { return hold_; }  // Of the session.
  const nb::object& device() const { return device_; }

 private:
  coppice_context* handle_;
  nb::object device_;
  nb::object hold_;
};

void BindContexts(nb::module_& module);

}  // namespace coppice::python
