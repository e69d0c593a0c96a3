// The driver entries for the driver itself, the device and its context.

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <map>
#include <string>

#include "fmt/format.h"

#include "coppice/runtime/driver.h"

#include "runtime/emulator/device_limits.h"
#include "runtime/emulator/entries.h"
#include "runtime/emulator/handles.h"
#include "runtime/emulator/state.h"
#include "runtime/emulator/thread.h"

namespace coppice::emulator {

CuResult GetErrorName(CuResult error, const char** text) {
  if (text == nullptr) return CuResult::kInvalidValue;
  // Names live as long as the process, as CUDA's do. Guarded by the emulator's mutex.
  static std::map<CuResult, std::string> names;
  const std::string& name = names.try_emplace(error, NameOf(error)).first->second;
  const bool known = name != fmt::format("CUDA_ERROR_{}", static_cast<int>(error));
  *text = known ? name.c_str() : nullptr;
  return known ? CuResult::kSuccess : CuResult::kInvalidValue;
}

CuResult Init(unsigned flags) {
  if (flags != 0) return CuResult::kInvalidValue;
  TheState().initialized = true;
  return CuResult::kSuccess;
}

CuResult DriverGetVersion(int* version) {
  constexpr int kVersion = 13000;
  if (version == nullptr) return CuResult::kInvalidValue;
  *version = kVersion;
  return CuResult::kSuccess;
}

CuResult DeviceGetCount(int* count) {
  if (count == nullptr) return CuResult::kInvalidValue;
  *count = 1;
  return CuResult::kSuccess;
}

CuResult DeviceGet(CuDevice* device, int ordinal) {
  if (device == nullptr) return CuResult::kInvalidValue;
  if (ordinal != 0) return CuResult::kInvalidDevice;
  *device = 0;
  return CuResult::kSuccess;
}

CuResult DeviceGetName(char* name, int capacity, CuDevice device) {
  constexpr char kDeviceName[] = "coppice emulator";
  if (name == nullptr || capacity < 1) return CuResult::kInvalidValue;
  if (device != 0) return CuResult::kInvalidDevice;
  const size_t length = std::min(static_cast<size_t>(capacity), sizeof(kDeviceName)) - 1;
  std::memcpy(name, kDeviceName, length);
  name[length] = '\0';
  return CuResult::kSuccess;
}

CuResult DeviceTotalMem(size_t* bytes, CuDevice device) {
  if (bytes == nullptr) return CuResult::kInvalidValue;
  if (device != 0) return CuResult::kInvalidDevice;
  *bytes = static_cast<size_t>(TheState().memory->physical().capacity_bytes());
  return CuResult::kSuccess;
}

CuResult DeviceGetAttribute(int* value, CuDeviceAttribute attribute, CuDevice device) {
  if (value == nullptr) return CuResult::kInvalidValue;
  if (device != 0) return CuResult::kInvalidDevice;
  switch (attribute) {
    case CuDeviceAttribute::kMaxThreadsPerBlock:
      *value = kBlockThreadsMax;
      return CuResult::kSuccess;
    case CuDeviceAttribute::kMaxSharedMemoryPerBlock:
      *value = kSharedBytesDefault;
      return CuResult::kSuccess;
    case CuDeviceAttribute::kMaxSharedMemoryPerBlockOptin:
      *value = TheState().options.limits.shared_bytes_max;
      return CuResult::kSuccess;
    case CuDeviceAttribute::kMultiprocessorCount:
      *value = kMultiprocessors;
      return CuResult::kSuccess;
    case CuDeviceAttribute::kComputeCapabilityMajor:
      *value = TheState().options.limits.capability / 10;
      return CuResult::kSuccess;
    case CuDeviceAttribute::kComputeCapabilityMinor:
      *value = TheState().options.limits.capability % 10;
      return CuResult::kSuccess;
    case CuDeviceAttribute::kVirtualMemoryManagementSupported:
      *value = 1;
      return CuResult::kSuccess;
  }
  return CuResult::kInvalidValue;
}

CuResult DevicePrimaryCtxRetain(CuContext* context, CuDevice device) {
  if (context == nullptr) return CuResult::kInvalidValue;
  if (device != 0) return CuResult::kInvalidDevice;
  State& state = TheState();
  if (state.context_retains++ == 0) state.context = MakeHandle<CuContext>();
  *context = state.context;
  return CuResult::kSuccess;
}

CuResult DevicePrimaryCtxRelease(CuDevice device) {
  if (device != 0) return CuResult::kInvalidDevice;
  State& state = TheState();
  if (state.context_retains == 0) return CuResult::kInvalidContext;
  if (--state.context_retains > 0) return CuResult::kSuccess;
  state.context = nullptr;
  state.scheduler.Abandon();
  state.events.Abandon();
  state.graphs.Abandon();
  state.nodes.Abandon();
  state.execs.Abandon();
  state.libraries.Abandon();
  state.kernels.Abandon();
  state.captures.clear();
  state.memory->AbandonAllocations();
  return CuResult::kSuccess;
}

CuResult CtxSetCurrent(CuContext context) {
  if (context != nullptr && context != TheState().context) return CuResult::kInvalidContext;
  ThisThread().context = context;
  return CuResult::kSuccess;
}

CuResult CtxGetCurrent(CuContext* context) {
  if (context == nullptr) return CuResult::kInvalidValue;
  // A context that was released is no longer current anywhere.
  *context = ThisThread().context == TheState().context ? ThisThread().context : nullptr;
  return CuResult::kSuccess;
}

}  // namespace coppice::emulator
