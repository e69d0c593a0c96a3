// Kernels of steps that a package does not bring: random words, products of matrices, and fills and
// copies where these are to be launches, too. Private to graphs/.
//
// Threads: immutable once loaded.

#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "coppice/base/status.h"
#include "coppice/graphs/package_program.h"
#include "coppice/runtime/driver.h"
#include "coppice/runtime/kernel_library.h"
#include "coppice/runtime/matmul_library.h"

#include "graphs/package/step_kernel_params.h"
#include "graphs/program/step_source.h"

namespace coppice::internal {

class StepKernels {
 public:
  static absl::StatusOr<StepKernels> Load(const Driver& driver);

  // Hands the launch that draws words to `sink`.
  absl::Status DrawSeeds(StepSink& sink,
                         SeedWordsParams params,
                         std::span<const Touch> touched) const;

  // Hands the launch that does as the fill, or copy, to `sink`.
  absl::Status Fill(StepSink& sink, const MemoryFill& fill, std::span<const Touch> touched) const;
  absl::Status Copy(StepSink& sink, const MemoryCopy& copy, std::span<const Touch> touched) const;

  // What the function `gemm` computes: inputs a, b and perhaps c, output y, each of rank 2, or 3
  // with a batch, all of one dtype out of f32, f16, bf16, f64; options alpha and beta, fractions, 1
  // by default. A stride of 0 repeats. Errors: kInvalidArgument for others.
  static absl::StatusOr<MatrixProduct> ProductOf(std::span<const Tensor> inputs,
                                                 std::span<const Tensor> outputs,
                                                 const FunctionOptions& options);
  // How cuBLASLt computes it; null: it does not, or is not there. The first call looks for it, so
  // that programs without products do not load it.
  const MatmulLibrary::Algorithm* Choose(const Driver& driver, const MatrixProduct& product) const;
  // Queues the product: by cuBLASLt with the algorithm that was chosen, or by our kernel, which is
  // right for any strides and fast for none.
  absl::Status Multiply(const Driver& driver,
                        const MatrixProduct& product,
                        const MatmulLibrary::Algorithm* algorithm,
                        DeviceAddress workspace,
                        CuStream stream) const;

 private:
  explicit StepKernels(KernelLibrary library) : library_(std::move(library)) {}

  KernelLibrary library_;
  Kernel seed_words_;
  Kernel gemm_;
  Kernel fill_;
  Kernel copy_;
  struct Matmul {
    std::once_flag looked;
    std::unique_ptr<MatmulLibrary> library;  // Null: none is there.
  };
  std::unique_ptr<Matmul> matmul_ = std::make_unique<Matmul>();
};

// Those of a session, whose programs share them. Threads: any.
class SharedStepKernels {
 public:
  // Loads them at the first call. They stay where they are.
  absl::StatusOr<const StepKernels*> Get(const Driver& driver) {
    const std::lock_guard lock(mutex_);
    if (!kernels_) {
      COPPICE_ASSIGN_OR_RETURN(StepKernels kernels, StepKernels::Load(driver));
      kernels_.emplace(std::move(kernels));
    }
    return &*kernels_;
  }

 private:
  std::mutex mutex_;
  std::optional<StepKernels> kernels_;
};

}  // namespace coppice::internal
