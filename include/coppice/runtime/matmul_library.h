// Matrix products by NVIDIA's cuBLASLt, if it is installed. Opens libcublasLt.so.13 or .12 at run
// time, like libcuda.
//
//   std::unique_ptr<MatmulLibrary> library = MatmulLibrary::Find(driver);
//   const MatmulLibrary::Algorithm* chosen = library ? library->Choose(product) : nullptr;
//   if (chosen != nullptr) status = library->Multiply(product, *chosen, workspace, stream);
//
// Units: elements, bytes where a name says so. Threads: any.

#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include "absl/status/status.h"

#include "coppice/base/tensor.h"
#include "coppice/runtime/driver.h"

namespace coppice {

// y = alpha * (a @ b) + beta * c for each of `batch` matrices: a is [m, k], b is [k, n], and c and
// y are [m, n]. Sums are in f32; those of f64 are in f64.
struct MatrixProduct {
  struct Operand {
    DeviceAddress data = 0;
    std::array<int64_t, 3> strides{};  // Of the batch, rows and columns; 0 repeats.
  };
  DType dtype = DType::kFloat32;  // Of all operands: f32, f16, bf16 or f64.
  int64_t batch = 1;
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  Operand a;
  Operand b;
  std::optional<Operand> c;
  Operand y;
  double alpha = 1;
  double beta = 0;
};

class MatmulLibrary {
 public:
  // The library, with a handle for the current context. Null if it is not installed, does not
  // support the device, or the driver is the emulator.
  static std::unique_ptr<MatmulLibrary> Find(const Driver& driver);
  ~MatmulLibrary();
  MatmulLibrary(const MatmulLibrary&) = delete;
  MatmulLibrary& operator=(const MatmulLibrary&) = delete;

  struct Algorithm {
    std::array<uint64_t, 8> data{};  // The library's own description.
    int64_t workspace_bytes = 0;     // At an address that is a multiple of 256.
  };

  // The library's first choice for products of these sizes and strides; addresses do not matter.
  // Null if the library cannot compute the product: a matrix has no stride of 1, c repeats, or
  // there are no elements. The result lives as long as this object. Cost: the library is asked once
  // for each shape; then a look-up.
  const Algorithm* Choose(const MatrixProduct& product);

  // Whether Multiply takes the addresses of its operands: multiples of kOperandAlignment bytes.
  static constexpr int64_t kOperandAlignment = 16;
  static bool TakesAddresses(const MatrixProduct& product);

  // Queues the product on `stream`, which may capture. Runs in a RelaxedCaptureScope, because the
  // library may load code. Requires: `algorithm` is the result of Choose for this shape, and
  // TakesAddresses is true.
  // Errors: kInternal with the library's status.
  absl::Status Multiply(const MatrixProduct& product,
                        const Algorithm& algorithm,
                        DeviceAddress workspace,
                        CuStream stream) const;

 private:
  struct Entries;
  struct Call;
  using Key = std::array<int64_t, 19>;

  MatmulLibrary(const Driver& driver, std::unique_ptr<Entries> entries, void* handle);

  std::optional<Algorithm> Ask(const MatrixProduct& product) const;

  const Driver& driver_;
  const std::unique_ptr<const Entries> entries_;
  void* const handle_;
  std::mutex mutex_;
  std::map<Key, std::optional<Algorithm>> chosen_;
};

}  // namespace coppice
