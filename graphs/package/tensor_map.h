// TMA descriptors of a launch's arguments. Private to graphs/.
//
// Units: bytes. Threads: any.

#pragma once

#include <cstdint>
#include <span>

#include "absl/status/statusor.h"

#include "coppice/runtime/driver.h"
#include "coppice/runtime/manifest.h"

#include "graphs/package/frame.h"

namespace coppice::internal {

// The descriptor of `map` at the address that its operand has in `frame`. `values` are those that
// the step's expressions read.
//
// Errors: kInvalidArgument  a size, a stride, or an end outside of the buffer; what
//                           cuTensorMapEncodeTiled refuses: what it was asked for;
//         kUnimplemented    the device has no such descriptors.
absl::StatusOr<CuTensorMap> EncodeTensorMap(const Driver& driver,
                                            const Frame& frame,
                                            std::span<const int64_t> values,
                                            const package::TensorMapArgument& map);

}  // namespace coppice::internal
