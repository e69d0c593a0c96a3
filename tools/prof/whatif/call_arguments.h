// The tensors and numbers that a call of a traced program brings, at the sizes that its trace says.
// Private to tools/prof/whatif/.
//
// Units: elements. Threads: pure functions.

#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "coppice/base/expression.h"
#include "coppice/base/tensor.h"
#include "coppice/graphs/program.h"

namespace coppice {

// Addresses between two tensors, so that none meets another.
inline constexpr int64_t kTensorAddresses = int64_t{1} << 40;

struct CallArguments {
  std::vector<Tensor> inputs;    // Copied ones. All elements of one are the same, unless it is
                                 // written to.
  std::vector<Tensor> targets;   // One per output.
  std::vector<int64_t> scalars;  // All, in the order of the spec.
  std::vector<int64_t> given;    // Extents of the symbols that are given.
};

// Whether a scalar is part of the key by itself.
bool IsScalarOfKey(const ProgramSpec& spec, int scalar);

// All scalars: those of the key, the extents of symbols that are bound to one, and zeros.
std::vector<int64_t> ScalarsOf(const ProgramSpec& spec,
                               std::span<const int64_t> extents,
                               std::span<const int64_t> of_key);

// `addresses` has those of inputs, then of outputs; `expressions` those of spec.extents.
CallArguments ArgumentsOf(const ProgramSpec& spec,
                          const std::vector<Expression>& expressions,
                          std::span<const int32_t> extents,
                          std::span<const int64_t> of_key,
                          std::span<const DeviceAddress> addresses);

// Sizes of a call by kind: extents of symbols, values of expressions, rows of packed sequences.
struct DimSizes {
  std::vector<int64_t> symbols;
  std::vector<int64_t> extents;
  std::vector<int64_t> ragged;

  int64_t Of(const Dim& dim) const {
    if (dim.is_fixed()) return dim.size;
    const std::vector<int64_t>& sizes = dim.kind == Dim::Kind::kSymbol   ? symbols
                                        : dim.kind == Dim::Kind::kExtent ? extents
                                                                         : ragged;
    const auto index = static_cast<size_t>(dim.index);
    return index < sizes.size() ? sizes[index] : 0;
  }
};

// The tensor of an input or output, with the strides of its spec.
Tensor TensorOf(const InputSpec& spec, const DimSizes& sizes, DeviceAddress address);
Tensor TensorOf(const OutputSpec& spec, const DimSizes& sizes, DeviceAddress address);

// The same sizes, row-major.
Tensor DenseLike(const Tensor& tensor);

}  // namespace coppice
