// Devices and contexts, as other clients ask for them.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "fmt/format.h"

#include "runtime/emulated_cuda/client_entries.h"
#include "runtime/emulator/client_abi.h"
#include "runtime/emulator/entries.h"
#include "runtime/emulator/result_texts.h"
#include "runtime/emulator/state.h"
#include "runtime/emulator/thread.h"

namespace coppice::emulated_cuda {

using emulator::ContextState;
using emulator::DeviceState;
using emulator::State;
using emulator::TheState;
using emulator::ThisThread;

namespace {

// Flags of a context: how to wait (at most one of three), and three of no effect here.
constexpr unsigned kContextFlags = 0x1F;

bool AreContextFlags(unsigned flags) {
  constexpr unsigned kScheduling = 0x7;
  const unsigned scheduling = flags & kScheduling;
  return (flags & ~kContextFlags) == 0 && (scheduling & (scheduling - 1)) == 0;
}

CuResult Make(CuContext* context, unsigned flags, CuDevice device) {
  State& state = TheState();
  if (context == nullptr || !AreContextFlags(flags)) return CuResult::kInvalidValue;
  if (!state.IsDevice(device)) return CuResult::kInvalidDevice;
  *context = state.MakeContext({.device = device, .flags = flags});
  ThisThread().contexts.push_back(*context);
  return CuResult::kSuccess;
}

}  // namespace

CuResult GetErrorString(CuResult error, const char** text) {
  if (text == nullptr) return CuResult::kInvalidValue;
  const emulator::ResultText* const found = emulator::FindResultText(error);
  *text = found == nullptr ? nullptr : found->text;
  return found == nullptr ? CuResult::kInvalidValue : CuResult::kSuccess;
}

CuResult DeviceGetUuid(Uuid* uuid, CuDevice device) {
  constexpr std::string_view kName = "coppice-emulato";  // And the ordinal.
  if (uuid == nullptr) return CuResult::kInvalidValue;
  if (!TheState().IsDevice(device)) return CuResult::kInvalidDevice;
  std::copy(kName.begin(), kName.end(), uuid->bytes);
  uuid->bytes[kName.size()] = static_cast<unsigned char>(device);
  return CuResult::kSuccess;
}

CuResult DeviceComputeCapability(int* major, int* minor, CuDevice device) {
  if (major == nullptr || minor == nullptr) return CuResult::kInvalidValue;
  if (!TheState().IsDevice(device)) return CuResult::kInvalidDevice;
  *major = TheState().options.limits.capability / 10;
  *minor = TheState().options.limits.capability % 10;
  return CuResult::kSuccess;
}

CuResult DeviceGetPCIBusId(char* text, int capacity, CuDevice device) {
  if (text == nullptr || capacity < 1) return CuResult::kInvalidValue;
  if (!TheState().IsDevice(device)) return CuResult::kInvalidDevice;
  const std::string id = fmt::format("0000:{:02X}:00.0", device + 1);
  const size_t length = std::min(static_cast<size_t>(capacity) - 1, id.size());
  std::memcpy(text, id.data(), length);
  text[length] = '\0';
  return CuResult::kSuccess;
}

CuResult DeviceCanAccessPeer(int* can, CuDevice device, CuDevice peer) {
  if (can == nullptr) return CuResult::kInvalidValue;
  if (!TheState().IsDevice(device) || !TheState().IsDevice(peer)) return CuResult::kInvalidDevice;
  *can = 0;
  return CuResult::kSuccess;
}

CuResult DevicePrimaryCtxGetState(CuDevice device, unsigned* flags, int* active) {
  if (flags == nullptr || active == nullptr) return CuResult::kInvalidValue;
  if (!TheState().IsDevice(device)) return CuResult::kInvalidDevice;
  const DeviceState& asked = TheState().devices[device];
  *flags = asked.primary_flags;
  *active = asked.retains > 0 ? 1 : 0;
  return CuResult::kSuccess;
}

CuResult DevicePrimaryCtxSetFlags(CuDevice device, unsigned flags) {
  if (!AreContextFlags(flags)) return CuResult::kInvalidValue;
  if (!TheState().IsDevice(device)) return CuResult::kInvalidDevice;
  DeviceState& changed = TheState().devices[device];
  changed.primary_flags = flags;
  if (changed.retains > 0) TheState().contexts.Find(changed.primary)->flags = flags;
  return CuResult::kSuccess;
}

// As of a driver whose process no profiler watches.
CuResult ProfilerStart() {
  return CuResult::kSuccess;
}

CuResult ProfilerStop() {
  return CuResult::kSuccess;
}

CuResult CtxCreate(CuContext* context, unsigned flags, CuDevice device) {
  return Make(context, flags, device);
}

CuResult CtxCreateAffine(
    CuContext* context, void* affinities, int count, unsigned flags, CuDevice device) {
  if (affinities != nullptr || count != 0) return CuResult::kNotSupported;
  return Make(context, flags, device);
}

CuResult CtxCreateWithParams(CuContext* context,
                             const void* params,
                             unsigned flags,
                             CuDevice device) {
  // Affinities and their number, then what is shared with a graphics context.
  struct Params {
    const void* affinities;
    int count;
    const void* graphics;
  };
  const auto* const given = static_cast<const Params*>(params);
  if (given != nullptr && (given->count != 0 || given->graphics != nullptr))
    return CuResult::kNotSupported;
  return Make(context, flags, device);
}

CuResult CtxDestroy(CuContext context) {
  State& state = TheState();
  const ContextState* const found = state.contexts.Find(context);
  if (context == nullptr) return CuResult::kInvalidValue;
  if (found == nullptr || found->is_primary) return CuResult::kInvalidContext;
  state.scheduler.WaitForContext(context);
  std::vector<CuContext>& contexts = ThisThread().contexts;
  if (ThisThread().context() == context) contexts.pop_back();
  state.EndContext(context);
  return CuResult::kSuccess;
}

CuResult CtxPushCurrent(CuContext context) {
  if (TheState().contexts.Find(context) == nullptr) return CuResult::kInvalidContext;
  ThisThread().contexts.push_back(context);
  return CuResult::kSuccess;
}

CuResult CtxPopCurrent(CuContext* context) {
  std::vector<CuContext>& contexts = ThisThread().contexts;
  if (contexts.empty()) return CuResult::kInvalidContext;
  if (context != nullptr) *context = contexts.back();
  contexts.pop_back();
  return CuResult::kSuccess;
}

CuResult CtxGetDevice(CuDevice* device) {
  if (device == nullptr) return CuResult::kInvalidValue;
  *device = TheState().Device();
  return CuResult::kSuccess;
}

CuResult CtxGetDeviceOf(CuDevice* device, CuContext context) {
  const ContextState* const found =
      TheState().contexts.Find(context != nullptr ? context : ThisThread().context());
  if (device == nullptr) return CuResult::kInvalidValue;
  if (found == nullptr) return CuResult::kInvalidContext;
  *device = found->device;
  return CuResult::kSuccess;
}

CuResult CtxGetFlags(unsigned* flags) {
  if (flags == nullptr) return CuResult::kInvalidValue;
  *flags = TheState().contexts.Find(TheState().Context())->flags;
  return CuResult::kSuccess;
}

CuResult CtxGetId(CuContext context, uint64_t* id) {
  const ContextState* const found =
      TheState().contexts.Find(context != nullptr ? context : ThisThread().context());
  if (id == nullptr) return CuResult::kInvalidValue;
  if (found == nullptr) return CuResult::kInvalidContext;
  *id = found->id;
  return CuResult::kSuccess;
}

CuResult CtxGetApiVersion(CuContext context, unsigned* version) {
  constexpr unsigned kVersion = 3020;
  if (version == nullptr) return CuResult::kInvalidValue;
  if (context != nullptr && TheState().contexts.Find(context) == nullptr)
    return CuResult::kInvalidContext;
  *version = kVersion;
  return CuResult::kSuccess;
}

CuResult CtxGetStreamPriorityRange(int* least, int* greatest) {
  if (least != nullptr) *least = 0;
  if (greatest != nullptr) *greatest = emulator::kPriorityGreatest;
  return CuResult::kSuccess;
}

CuResult CtxSynchronizeOf(CuContext context) {
  State& state = TheState();
  if (context == nullptr || context == state.Context()) return emulator::CtxSynchronize();
  if (state.contexts.Find(context) == nullptr) return CuResult::kInvalidContext;
  return state.scheduler.WaitForContext(context);
}

CuResult CtxEnablePeerAccess(CuContext peer, unsigned flags) {
  if (flags != 0) return CuResult::kInvalidValue;
  const ContextState* const found = TheState().contexts.Find(peer);
  if (found == nullptr) return CuResult::kInvalidContext;
  return emulator::kPeerAccessUnsupported;
}

}  // namespace coppice::emulated_cuda
