// Staging: one kernel per call that copies and pads every copied input and writes the parameter
// block.
//
// A graph reads its inputs at fixed addresses. The staging kernel fills them in stream order, from
// its own by-value arguments, so the host never writes memory that a queued replay may still read.
//
//   call's tensors (any strides) --+                 +-- staged inputs (dense, padded)
//   real extents, device scalars --+-- one launch -->+-- parameter block
//
// The kernel's arguments are in staging_params.h, which nvcc compiles too.
//
// Units: sizes and strides in elements, addresses in bytes. Threads: plain values; StagingKernels
// is immutable once loaded.

#pragma once

#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "coppice/base/tensor.h"
#include "coppice/graphs/program.h"
#include "coppice/graphs/staging_params.h"
#include "coppice/runtime/driver.h"
#include "coppice/runtime/kernel_library.h"

namespace coppice {

// Bit pattern of one element for `fill` in `dtype`. A value rounds to the nearest that the dtype
// has, ties to even; beyond its range a float becomes infinite (f8e4m3, which has no infinity, NaN)
// and an integer the nearest it can hold, and a NaN makes the integer 0. A complex number gets the
// value as its real part; a bool is 1 for all but 0. kRepeatLast and kUndefined give 0.
uint64_t FillPattern(const Fill& fill, DType dtype);

// What poison mode writes instead of every fill: patterns that no kernel may let into a live
// result.
enum class Poison : uint8_t {
  kOff,
  kNan,      // A quiet NaN for floats and both parts of complex numbers; for integers and bools the
             // top bit alone, the least signed number.
  kPattern,  // 0x5A in every byte: a large finite float, a large positive integer.
};
uint64_t PoisonPattern(Poison poison, DType dtype);  // 0 for kOff.

// Describes how to stage `source` (its real sizes and strides) into a dense padded tensor `target`
// of the same dtype and rank. Axes are right-aligned to kRankMax with leading ones.
// Requires: no size of `source` exceeds that of `target` (checked, like dtype and rank).
StagedCopy MakeStagedCopy(const Tensor& source, const Tensor& target, const Fill& fill);

class StagingKernels {
 public:
  // Loads the kernels and launches each once, with nothing to do, so that none is loaded while it
  // is captured. Errors: as KernelLibrary::Load; the driver's.
  static absl::StatusOr<StagingKernels> Load(const Driver& driver);

  // Launches one staging kernel on `stream`. Makes no call if there is nothing to copy and no word.
  // Requires: copy_count <= kCopyInputsMax. Cost: one driver call; no allocation.
  absl::Status Launch(CuStream stream, const StagingParams& params) const;

 private:
  StagingKernels(const Driver& driver, KernelLibrary library, Kernel small, Kernel large)
      : driver_(&driver), library_(std::move(library)), small_(small), large_(large) {}

  const Driver* driver_;
  KernelLibrary library_;
  Kernel small_;  // Up to kSmallStagingCopies copies: the driver copies every argument byte on each
                  // launch.
  Kernel large_;
};

}  // namespace coppice
