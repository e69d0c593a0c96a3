// Launches of the kernels in step_kernels.cu.

#include "graphs/package/step_kernels.h"

#include <algorithm>
#include <array>
#include <optional>

#include "absl/strings/numbers.h"

#include "coppice/base/status.h"
#include "coppice/base/tensor.h"
#include "coppice/runtime/kernel_image.h"
#include "coppice/runtime/launch.h"

#include "graphs/package/step_kernel_params.h"

namespace coppice {

extern const KernelImage step_kernels_image;  // step_kernels.cu.

namespace internal {
namespace {

std::optional<GemmElement> ElementOf(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return GemmElement::kFloat32;
    case DType::kFloat16:
      return GemmElement::kFloat16;
    case DType::kBFloat16:
      return GemmElement::kBFloat16;
    case DType::kFloat64:
      return GemmElement::kFloat64;
    default:
      return std::nullopt;
  }
}

absl::StatusOr<double> FractionOf(const FunctionOptions& options, const char* name) {
  const auto option = options.find(name);
  if (option == options.end()) return 1;
  const auto* const text = std::get_if<std::string>(&option->second);
  double value = 0;
  if (text != nullptr && absl::SimpleAtod(*text, &value)) return value;
  return InvalidArgument("gemm: option '{}' is not a fraction; write text such as \"0.5\"", name);
}

// Sizes or strides of a tensor of rank 2 or 3, with a batch in front.
std::array<int64_t, 3> Batched(const Tensor& tensor,
                               const std::array<int64_t, kRankMax>& of,
                               int64_t batch) {
  if (tensor.rank == 3) return {of[0], of[1], of[2]};
  return {batch, of[0], of[1]};
}

// A batch of one repeats.
MatrixProduct::Operand OperandOf(const Tensor& tensor) {
  MatrixProduct::Operand operand{tensor.data, Batched(tensor, tensor.strides, 0)};
  if (tensor.rank == 3 && tensor.sizes[0] == 1) operand.strides[0] = 0;
  return operand;
}

void* PointerTo(DeviceAddress address) {
  return reinterpret_cast<void*>(address);  // NOLINT(performance-no-int-to-ptr)
}

// How much a launch does, and how much a block of it.
struct Extent {
  int64_t all = 0;
  int64_t per_block = 1;
};

template <typename Params>
absl::Status LaunchOver(StepSink& sink,
                        const Kernel& kernel,
                        Params& params,
                        const Extent& extent,
                        std::span<const Touch> touched) {
  void* pointers[] = {&params};
  const int64_t blocks = (extent.all - 1) / extent.per_block + 1;
  if (blocks > INT32_MAX)
    return InvalidArgument(
        "one launch cannot write {} x {} elements: a grid has at most 2^31 - 1 blocks", blocks,
        extent.per_block);
  return sink.Launch({.kernel = kernel,
                      .shape = {.grid = {static_cast<unsigned>(blocks), 1, 1}},
                      .arguments = pointers,
                      .bytes = std::as_bytes(std::span(&params, 1))},
                     touched);
}

}  // namespace

absl::StatusOr<StepKernels> StepKernels::Load(const Driver& driver) {
  COPPICE_ASSIGN_OR_RETURN(KernelLibrary library, KernelLibrary::Load(driver, step_kernels_image));
  StepKernels kernels(std::move(library));
  COPPICE_ASSIGN_OR_RETURN(kernels.seed_words_, kernels.library_.Get("SeedWords"));
  COPPICE_ASSIGN_OR_RETURN(kernels.gemm_, kernels.library_.Get("Gemm"));
  COPPICE_ASSIGN_OR_RETURN(kernels.fill_, kernels.library_.Get("FillElements"));
  COPPICE_ASSIGN_OR_RETURN(kernels.copy_, kernels.library_.Get("CopyBytes"));
  return kernels;
}

absl::Status StepKernels::DrawSeeds(StepSink& sink,
                                    SeedWordsParams params,
                                    std::span<const Touch> touched) const {
  return LaunchOver(sink, seed_words_, params, {params.count, seed_words_.block_threads}, touched);
}

absl::Status StepKernels::Fill(StepSink& sink,
                               const MemoryFill& fill,
                               std::span<const Touch> touched) const {
  FillElementsParams params{.target = PointerTo(fill.target),
                            .count = fill.count,
                            .value = fill.value,
                            .width = fill.width};
  return LaunchOver(sink, fill_, params, {fill.count, kMoveElementsPerBlock}, touched);
}

absl::Status StepKernels::Copy(StepSink& sink,
                               const MemoryCopy& copy,
                               std::span<const Touch> touched) const {
  constexpr uint64_t kUnitMax = 16;
  const uint64_t bits = copy.source | copy.target | static_cast<uint64_t>(copy.bytes) | kUnitMax;
  CopyBytesParams params{.source = PointerTo(copy.source),
                         .target = PointerTo(copy.target),
                         .bytes = copy.bytes,
                         .unit = static_cast<int64_t>(bits & (~bits + 1))};
  return LaunchOver(sink, copy_, params, {copy.bytes, kMoveBytesPerBlock}, touched);
}

absl::StatusOr<MatrixProduct> StepKernels::ProductOf(std::span<const Tensor> inputs,
                                                     std::span<const Tensor> outputs,
                                                     const FunctionOptions& options) {
  const bool counts = (inputs.size() == 2 || inputs.size() == 3) && outputs.size() == 1;
  const auto fits = [&](const Tensor& tensor) {
    return (tensor.rank == 2 || tensor.rank == 3) && tensor.dtype == outputs[0].dtype;
  };
  if (!counts)
    return InvalidArgument(
        "gemm: {} inputs and {} outputs; give it a, b and optionally c, and one output",
        inputs.size(), outputs.size());
  if (!std::ranges::all_of(inputs, fits) || !fits(outputs[0]) || !ElementOf(outputs[0].dtype))
    return InvalidArgument(
        "gemm: a tensor has another rank than 2 or 3, or another dtype than the output's, {}, "
        "which must be f32, f16, bf16 or f64",
        NameOf(outputs[0].dtype));
  const auto y_sizes = Batched(outputs[0], outputs[0].sizes, 1);
  const auto a_sizes = Batched(inputs[0], inputs[0].sizes, 1);
  const auto b_sizes = Batched(inputs[1], inputs[1].sizes, 1);
  MatrixProduct product{.dtype = outputs[0].dtype,
                        .batch = y_sizes[0],
                        .m = y_sizes[1],
                        .n = y_sizes[2],
                        .k = a_sizes[2],
                        .a = OperandOf(inputs[0]),
                        .b = OperandOf(inputs[1]),
                        .y = OperandOf(outputs[0])};
  const auto batches = [&](const std::array<int64_t, 3>& sizes) {
    return sizes[0] == product.batch || sizes[0] == 1;
  };
  bool agrees = a_sizes[1] == product.m && b_sizes[1] == product.k && b_sizes[2] == product.n &&
                batches(a_sizes) && batches(b_sizes);
  COPPICE_ASSIGN_OR_RETURN(product.alpha, FractionOf(options, "alpha"));
  if (inputs.size() == 3) {
    const auto c_sizes = Batched(inputs[2], inputs[2].sizes, 1);
    agrees = agrees && c_sizes[1] == product.m && c_sizes[2] == product.n && batches(c_sizes);
    product.c = OperandOf(inputs[2]);
    COPPICE_ASSIGN_OR_RETURN(product.beta, FractionOf(options, "beta"));
  }
  if (agrees) return product;
  return InvalidArgument(
      "gemm: the sizes do not match: a is {} x {} x {}, b is {} x {} x {}, and the output is {} x "
      "{} x {}",
      a_sizes[0], a_sizes[1], a_sizes[2], b_sizes[0], b_sizes[1], b_sizes[2], y_sizes[0],
      y_sizes[1], y_sizes[2]);
}

const MatmulLibrary::Algorithm* StepKernels::Choose(const Driver& driver,
                                                    const MatrixProduct& product) const {
  std::call_once(matmul_->looked, [&] { matmul_->library = MatmulLibrary::Find(driver); });
  return matmul_->library == nullptr ? nullptr : matmul_->library->Choose(product);
}

absl::Status StepKernels::Multiply(const Driver& driver,
                                   const MatrixProduct& product,
                                   const MatmulLibrary::Algorithm* algorithm,
                                   DeviceAddress workspace,
                                   CuStream stream) const {
  if (algorithm != nullptr && MatmulLibrary::TakesAddresses(product))
    return matmul_->library->Multiply(product, *algorithm, workspace, stream);
  const MatrixProduct::Operand none;
  const MatrixProduct::Operand& c = product.c ? *product.c : none;
  GemmParams params{.a = PointerTo(product.a.data),
                    .b = PointerTo(product.b.data),
                    .c = PointerTo(c.data),
                    .y = PointerTo(product.y.data),
                    .batch = product.batch,
                    .m = product.m,
                    .n = product.n,
                    .k = product.k,
                    .alpha = product.alpha,
                    .beta = product.beta,
                    .element = *ElementOf(product.dtype)};
  std::ranges::copy(product.a.strides, params.a_strides);
  std::ranges::copy(product.b.strides, params.b_strides);
  std::ranges::copy(c.strides, params.c_strides);
  std::ranges::copy(product.y.strides, params.y_strides);
  const int64_t elements = product.batch * product.m * product.n;
  if (elements == 0) return absl::OkStatus();
  const int64_t blocks = (elements - 1) / gemm_.block_threads + 1;
  if (blocks > INT32_MAX)
    return InvalidArgument(
        "gemm: one launch cannot write an output of {} elements: a grid has at most 2^31 - 1 "
        "blocks",
        elements);
  return Launch(driver, gemm_, stream, params,
                LaunchShape{.grid = {static_cast<unsigned>(blocks), 1, 1}});
}

}  // namespace internal
}  // namespace coppice
