// Calls that reach a device: its context is current on the thread while they last, and then the one
// that was before, since other libraries take their device from it. Private to capi/.
//
// Threads: of the calling thread alone.

#pragma once

#include "capi/handles.h"

namespace coppice::capi {

// Makes a device's context current, and at its end the one that was; does nothing for a null
// device. Errors are left to the driver calls that follow, which fail as well. Cost: a driver call,
// three if another context is current. The device may end within, since the end uses nothing of it.
class CurrentScope {
 public:
  explicit CurrentScope(const coppice_device* device) {
    if (device == nullptr || !device->context) return;
    const DriverTable& table = device->driver->table();
    const CuContext own = device->context->handle();
    if (table.CtxGetCurrent(&before_) != CuResult::kSuccess || before_ == own) return;
    if (table.CtxSetCurrent(own) == CuResult::kSuccess) restore_ = table.CtxSetCurrent;
  }
  CurrentScope(const CurrentScope&) = delete;
  CurrentScope& operator=(const CurrentScope&) = delete;
  ~CurrentScope() {
    if (restore_ != nullptr) (void)restore_(before_);
  }

 private:
  CuContext before_ = nullptr;
  decltype(DriverTable::CtxSetCurrent) restore_ = nullptr;  // Null: nothing was changed.
};

// The device of a handle; null of a null one.
inline const coppice_device* DeviceOf(const coppice_device* device) {
  return device;
}
inline const coppice_device* DeviceOf(const coppice_kernel* kernel) {
  return kernel == nullptr ? nullptr : kernel->kernels->device.get();
}
template <typename Handle>
const coppice_device* DeviceOf(const Handle* handle) {
  if (handle == nullptr) return nullptr;
  if constexpr (requires { handle->device; })
    return handle->device.get();
  else if constexpr (requires { handle->session.device; })
    return handle->session.device.get();
  else
    return handle->session->device.get();
}

}  // namespace coppice::capi
