// Functions of `call` steps that compute on the host, as work of the emulator.
//
// Each is a launch of one kernel, whose parameters hold the tensors: the emulator runs it in the
// order of its stream or graph, and checks that order by the bytes of the tensors.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "coppice/base/status.h"
#include "coppice/runtime/kernel_image.h"
#include "coppice/runtime/launch.h"

#include "capi/handles.h"

namespace coppice::capi {
namespace {

constexpr size_t kTensorsMax = 24;  // A launch's parameters are at most 4 KiB.

// A tensor without what only a session knows of it.
struct PackedTensor {
  uint64_t data;
  int32_t dtype;
  int32_t rank;
  int64_t sizes[kRankMax];
  int64_t strides[kRankMax];
};

struct HostOperationParams {
  coppice_device* device;
  StepFunctionRecord* function;
  const OptionTexts* options;
  int32_t input_count;
  int32_t output_count;
  PackedTensor tensors[kTensorsMax];  // Inputs, then outputs; zeros behind.
};
static_assert(sizeof(HostOperationParams) <= 4096 &&
              std::has_unique_object_representations_v<HostOperationParams>);

Tensor Unpacked(const PackedTensor& packed) {
  Tensor tensor;
  tensor.data = packed.data;
  tensor.dtype = static_cast<DType>(packed.dtype);
  tensor.rank = static_cast<int8_t>(packed.rank);
  std::copy(std::begin(packed.sizes), std::end(packed.sizes), tensor.sizes.begin());
  std::copy(std::begin(packed.strides), std::end(packed.strides), tensor.strides.begin());
  return tensor;
}

std::vector<Tensor> Unpacked(const PackedTensor* first, int32_t count) {
  std::vector<Tensor> tensors;
  for (int32_t i = 0; i < count; ++i)
    tensors.push_back(Unpacked(first[i]));
  return tensors;
}

void RunHostOperation(const void* parameters, const HostBlock& /*block*/) {
  const auto& params = *static_cast<const HostOperationParams*>(parameters);
  const absl::Status ran =
      params.function->Call(Unpacked(params.tensors, params.input_count),
                            Unpacked(params.tensors + params.input_count, params.output_count),
                            *params.options, nullptr, params.device->dl());
  if (!ran.ok()) params.device->TellHostFailure(ran);
}

void DeclareHostOperation(const void* parameters, KernelAccesses& accesses) {
  const auto& params = *static_cast<const HostOperationParams*>(parameters);
  for (int32_t i = 0; i < params.input_count + params.output_count; ++i) {
    const Tensor tensor = Unpacked(params.tensors[i]);
    auto* const bytes =
        reinterpret_cast<std::byte*>(tensor.data);  // NOLINT(performance-no-int-to-ptr)
    const int64_t count = tensor.span() * SizeOf(tensor.dtype);
    if (i < params.input_count)
      accesses.Reads(bytes, count);
    else
      accesses.Writes(bytes, count);
  }
}

constexpr HostKernel kHostOperation = {.name = "CoppiceHostOperation",
                                       .run = &RunHostOperation,
                                       .parameter_bytes = sizeof(HostOperationParams),
                                       .block_threads = 1,
                                       .declare = &DeclareHostOperation};
constexpr const HostKernel* kKernels[] = {&kHostOperation};
constexpr KernelImage kImage = {.kernel_count = 1, .kernels = kKernels, .fatbin = nullptr};

PackedTensor Packed(const Tensor& tensor) {
  PackedTensor packed = {.data = tensor.data,
                         .dtype = static_cast<int32_t>(tensor.dtype),
                         .rank = tensor.rank,
                         .sizes = {},
                         .strides = {}};
  std::copy(tensor.sizes.begin(), tensor.sizes.end(), packed.sizes);
  std::copy(tensor.strides.begin(), tensor.strides.end(), packed.strides);
  return packed;
}

}  // namespace

absl::Status LaunchHostOperation(coppice_device& device,
                                 StepFunctionRecord& function,
                                 const FunctionCall& call) {
  const size_t count = call.inputs.size() + call.outputs.size();
  if (count > kTensorsMax)
    return InvalidArgument("function {}: {} tensors, but a host function takes at most {}",
                           function.name(), count, kTensorsMax);
  COPPICE_ASSIGN_OR_RETURN(const Kernel kernel, device.HostOperationKernel());
  HostOperationParams params = {.device = &device,
                                .function = &function,
                                .options = function.Keep(OptionTexts(call.options)),
                                .input_count = static_cast<int32_t>(call.inputs.size()),
                                .output_count = static_cast<int32_t>(call.outputs.size()),
                                .tensors = {}};
  size_t next = 0;
  for (const std::span<const Tensor> tensors : {call.inputs, call.outputs}) {
    for (const Tensor& tensor : tensors)
      params.tensors[next++] = Packed(tensor);
  }
  return Launch(call.driver, kernel, call.stream, params, 1U);
}

}  // namespace coppice::capi

absl::StatusOr<coppice::Kernel> coppice_device::HostOperationKernel() {
  if (emulator == nullptr)
    return coppice::FailedPrecondition(
        "COPPICE_ON_HOST: only the emulator runs host functions; launch on the stream");
  const std::lock_guard lock(mutex);
  if (!host_operations) {
    COPPICE_ASSIGN_OR_RETURN(coppice::KernelLibrary library,
                             coppice::KernelLibrary::Load(*driver, coppice::capi::kImage));
    host_operations.emplace(std::move(library));
  }
  return host_operations->Get(coppice::capi::kHostOperation.name);
}
