// Streams and events, as other clients ask for them.

#include <algorithm>
#include <cstdint>

#include "runtime/emulated_cuda/client_entries.h"
#include "runtime/emulator/capture.h"
#include "runtime/emulator/client_abi.h"
#include "runtime/emulator/entries.h"
#include "runtime/emulator/state.h"

namespace coppice::emulated_cuda {

using emulator::State;
using emulator::StreamState;
using emulator::TheState;

CuResult StreamCreateWithPriority(CuStream* stream, unsigned flags, int priority) {
  if (stream == nullptr || flags > kStreamNonBlocking) return CuResult::kInvalidValue;
  State& state = TheState();
  *stream = state.scheduler.Add(state.Context(), state.Device(), flags,
                                std::clamp(priority, emulator::kPriorityGreatest, 0));
  return CuResult::kSuccess;
}

CuResult StreamGetPriority(CuStream stream, int* priority) {
  const StreamState* const found = TheState().FindStream(stream);
  if (found == nullptr) return CuResult::kInvalidHandle;
  if (priority == nullptr) return CuResult::kInvalidValue;
  *priority = found->priority;
  return CuResult::kSuccess;
}

CuResult StreamGetFlags(CuStream stream, unsigned* flags) {
  const StreamState* const found = TheState().FindStream(stream);
  if (found == nullptr) return CuResult::kInvalidHandle;
  if (flags == nullptr) return CuResult::kInvalidValue;
  *flags = found->flags;
  return CuResult::kSuccess;
}

CuResult StreamGetCtx(CuStream stream, CuContext* context) {
  const StreamState* const found = TheState().FindStream(stream);
  if (found == nullptr) return CuResult::kInvalidHandle;
  if (context == nullptr) return CuResult::kInvalidValue;
  *context = found->context;
  return CuResult::kSuccess;
}

CuResult StreamGetCtxOrGreen(CuStream stream, CuContext* context, void** green) {
  if (green == nullptr) return CuResult::kInvalidValue;
  const CuResult result = StreamGetCtx(stream, context);
  if (result == CuResult::kSuccess) *green = nullptr;
  return result;
}

CuResult StreamGetDevice(CuStream stream, CuDevice* device) {
  const StreamState* const found = TheState().FindStream(stream);
  if (found == nullptr) return CuResult::kInvalidHandle;
  if (device == nullptr) return CuResult::kInvalidValue;
  *device = found->device;
  return CuResult::kSuccess;
}

CuResult StreamGetId(CuStream stream, uint64_t* id) {
  const StreamState* const found = TheState().FindStream(stream);
  if (found == nullptr) return CuResult::kInvalidHandle;
  if (id == nullptr) return CuResult::kInvalidValue;
  *id = reinterpret_cast<uintptr_t>(found->handle);  // No other stream ever has it.
  return CuResult::kSuccess;
}

CuResult EventRecordWithFlags(CuEvent event, CuStream stream, unsigned flags) {
  constexpr unsigned kExternal = 1;  // A node of its own in a capture.
  if (flags > kExternal) return CuResult::kInvalidValue;
  return flags == kExternal ? CuResult::kNotSupported : emulator::EventRecord(event, stream);
}

CuResult StreamBeginCaptureToGraph(CuStream stream,
                                   CuGraph graph,
                                   const CuGraphNode* dependencies,
                                   const CuGraphEdgeData* edge_data,
                                   size_t count,
                                   CuCaptureMode mode) {
  if (graph == nullptr) return CuResult::kInvalidValue;
  if (edge_data != nullptr) return CuResult::kNotSupported;
  return emulator::BeginCapture(stream, graph, dependencies, count, mode);
}

}  // namespace coppice::emulated_cuda
