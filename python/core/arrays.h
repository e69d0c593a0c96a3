// Tensors of other libraries, as they come in.
//
// Threads: the GIL is held.

#pragma once

#include <array>
#include <cstdint>

#include "python/core/nanobind.h"

namespace coppice::python {

class Device;

inline constexpr int kRankMax = 8;  // As coppice_view.

// One tensor of Python, shown as DLPack shows it for the time of a call: one of this module's own,
// or an object with DLPack's table of C functions (PyTorch from 2.10 on), __dlpack__ or
// __cuda_array_interface__. Nothing is copied.
class Array {
 public:
  // Raises InvalidArgument, with `what` and `index`, for an object that is none of these, and for a
  // tensor of PyTorch that is negated or conjugated lazily. `stream`
  // is told to a producer that orders its work by it. `device` knows where memory lies of which the
  // object does not say it.
  void Read(
      nb::handle object, const char* what, size_t index, uintptr_t stream, const Device& device);

  const DLTensor& tensor() const { return tensor_; }
  // Shows the same tensor at another place.
  void MoveTo(void* data, DLDevice device);
  bool on_host() const { return tensor_.device.device_type == kDLCPU; }

 private:
  void ReadCapsule(nb::handle object, uintptr_t stream);
  void ReadCudaArrayInterface(nb::handle interface,
                              const char* what,
                              size_t index,
                              const Device& device);

  DLTensor tensor_{};
  nb::object kept_;  // What owns what tensor_ points to, besides the object itself.
  std::array<int64_t, kRankMax> shape_{};
  std::array<int64_t, kRankMax> strides_{};
};

// Raises InvalidArgument, with `what`, for more than 8 axes, sizes below 0, strides that go back,
// and more bytes than a number holds.
void CheckShape(const DLTensor& tensor, const char* what);

// The bytes from the first element to the end of the last. Requires: CheckShape.
int64_t SpanBytes(const DLTensor& tensor);

// Whether rows follow each other without gaps.
bool IsDense(const DLTensor& tensor);

}  // namespace coppice::python
