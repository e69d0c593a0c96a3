// The driver entries that submit work to a stream: copies, fills, host functions, kernels.

#include <utility>

#include "fmt/format.h"

#include "runtime/emulator/arguments.h"
#include "runtime/emulator/capture.h"
#include "runtime/emulator/entries.h"
#include "runtime/emulator/state.h"
#include "runtime/emulator/submit.h"

namespace coppice::emulator {
namespace {

CuResult Submit(State& state, CuStream stream, Work work) {
  StreamState* target = nullptr;
  if (const CuResult result = UseStream(state, stream, &target); result != CuResult::kSuccess)
    return result;
  if (target->capture != nullptr) return CaptureWork(state, *target, std::move(work));
  return state.scheduler.Enqueue(*target, Mark{}, Task(std::move(work)));
}

}  // namespace

CuResult SubmitWork(CuStream stream, Work work) {
  return Submit(TheState(), stream, std::move(work));
}

CuResult SubmitCopy(CuStream stream, const CuMemcpyParams& params) {
  State& state = TheState();
  const StreamState* const target = state.FindStream(stream);
  if (target == nullptr) return CuResult::kInvalidHandle;
  if (params.width_bytes == 0 && target->capture == nullptr) return CuResult::kSuccess;
  Work work;
  const CuResult result = MakeCopyWork(state, params, &work);
  return result == CuResult::kSuccess ? Submit(state, stream, std::move(work)) : result;
}

CuResult SubmitFill(CuStream stream, const CuMemsetNodeParams& params) {
  State& state = TheState();
  const StreamState* const target = state.FindStream(stream);
  if (target == nullptr) return CuResult::kInvalidHandle;
  if (params.width == 0 && target->capture == nullptr) return CuResult::kSuccess;
  Work work;
  const CuResult result = MakeFillWork(state, params, &work);
  return result == CuResult::kSuccess ? Submit(state, stream, std::move(work)) : result;
}

namespace {

// Notes the launch of a kernel, or reports it if a capture is the first to have it.
void NoteLaunch(State& state, CuFunction function, CuStream stream) {
  const StreamState* const target = state.FindStream(stream);
  if (target == nullptr) return;
  KernelState& launched = *state.kernels.Find(reinterpret_cast<CuKernel>(function));
  launched.launched |= target->capture == nullptr;
  if (launched.launched || !state.checks.watches_loading()) return;
  state.checks.Report(
      fmt::format("kernel {} is captured before its first launch, so CUDA may load it during the "
                  "capture (lazy loading); launch it once before the capture",
                  launched.code.name));
}

}  // namespace

CuResult SubmitKernel(CuStream stream,
                      const CuKernelNodeParams& params,
                      const LaunchAttributes& attributes) {
  State& state = TheState();
  Work work;
  const CuResult result = MakeKernelWork(state, params, attributes, &work);
  if (result != CuResult::kSuccess) return result;
  NoteLaunch(state, params.function, stream);
  return Submit(state, stream, std::move(work));
}

CuResult MemcpyHtoDAsync(CuDeviceAddress target,
                         const void* source,
                         size_t bytes,
                         CuStream stream) {
  return SubmitCopy(stream, {.source_type = CuMemoryType::kHost,
                             .source_host = source,
                             .target_device = target,
                             .width_bytes = bytes});
}

CuResult MemcpyDtoHAsync(void* target, CuDeviceAddress source, size_t bytes, CuStream stream) {
  return SubmitCopy(stream, {.source_device = source,
                             .target_type = CuMemoryType::kHost,
                             .target_host = target,
                             .width_bytes = bytes});
}

CuResult MemcpyDtoDAsync(CuDeviceAddress target,
                         CuDeviceAddress source,
                         size_t bytes,
                         CuStream stream) {
  return SubmitCopy(stream,
                    {.source_device = source, .target_device = target, .width_bytes = bytes});
}

CuResult MemsetD8Async(CuDeviceAddress target, unsigned char value, size_t count, CuStream stream) {
  return SubmitFill(stream, {.target = target, .value = value, .element_size = 1, .width = count});
}

CuResult MemsetD32Async(CuDeviceAddress target, unsigned value, size_t count, CuStream stream) {
  return SubmitFill(stream, {.target = target, .value = value, .element_size = 4, .width = count});
}

CuResult LaunchHostFunc(CuStream stream, CuHostFunction function, void* user_data) {
  Work work;
  const CuResult result = MakeHostWork({.function = function, .user_data = user_data}, &work);
  return result == CuResult::kSuccess ? Submit(TheState(), stream, std::move(work)) : result;
}

CuResult LaunchKernel(CuFunction function,  // NOLINT(readability-function-size): CUDA's signature.
                      unsigned grid_x,
                      unsigned grid_y,
                      unsigned grid_z,
                      unsigned block_x,
                      unsigned block_y,
                      unsigned block_z,
                      unsigned shared_bytes,
                      CuStream stream,
                      void** kernel_params,
                      void** extra) {
  return SubmitKernel(stream,
                      {.function = function,
                       .grid_x = grid_x,
                       .grid_y = grid_y,
                       .grid_z = grid_z,
                       .block_x = block_x,
                       .block_y = block_y,
                       .block_z = block_z,
                       .shared_bytes = shared_bytes,
                       .kernel_params = kernel_params,
                       .extra = extra},
                      {});
}

CuResult LaunchKernelEx(const CuLaunchConfig* config,
                        CuFunction function,
                        void** kernel_params,
                        void** extra) {
  if (config == nullptr) return CuResult::kInvalidValue;
  LaunchAttributes attributes;
  const CuResult result =
      ReadLaunchAttributes(config->attributes, config->attribute_count, &attributes);
  if (result != CuResult::kSuccess) return result;
  return SubmitKernel(config->stream,
                      {.function = function,
                       .grid_x = config->grid_x,
                       .grid_y = config->grid_y,
                       .grid_z = config->grid_z,
                       .block_x = config->block_x,
                       .block_y = config->block_y,
                       .block_z = config->block_z,
                       .shared_bytes = config->shared_bytes,
                       .kernel_params = kernel_params,
                       .extra = extra},
                      attributes);
}

}  // namespace coppice::emulator
