// Sizes of dims, and tensors of them.

#include "tools/prof/whatif/call_arguments.h"

#include <algorithm>
#include <array>

namespace coppice {
namespace {

Tensor MakeTensor(DType dtype,
                  const Dims& dims,
                  const Dims& strides,
                  const DimSizes& sizes,
                  DeviceAddress address) {
  std::array<int64_t, kRankMax> extents{};
  for (size_t axis = 0; axis < dims.size(); ++axis)
    extents[axis] = sizes.Of(dims[axis]);
  Tensor tensor = Tensor::Dense(address, dtype, std::span(extents).first(dims.size()));
  for (size_t axis = 0; axis < strides.size(); ++axis)
    tensor.strides[axis] = sizes.Of(strides[axis]);
  return tensor;
}

DimSizes SizesOf(const ProgramSpec& spec,
                 const std::vector<Expression>& expressions,
                 std::span<const int64_t> extents,
                 std::span<const int64_t> scalars) {
  DimSizes sizes{.symbols = {extents.begin(), extents.end()}, .extents = {}, .ragged = {}};
  sizes.symbols.resize(spec.symbols.size());
  std::vector<int64_t> values = sizes.symbols;
  values.insert(values.end(), scalars.begin(), scalars.end());
  for (const Expression& expression : expressions) {
    const Computed computed = expression.Evaluate(values);
    sizes.extents.push_back(computed.ok() ? computed.value : 0);
  }
  for (const RaggedSpec& sequences : spec.ragged)
    sizes.ragged.push_back(sizes.symbols[static_cast<size_t>(sequences.total)]);
  return sizes;
}

}  // namespace

bool IsScalarOfKey(const ProgramSpec& spec, int scalar) {
  return !spec.scalars[static_cast<size_t>(scalar)].device_resident &&
         std::ranges::none_of(spec.symbols,
                              [&](const SymbolSpec& symbol) { return symbol.scalar == scalar; });
}

std::vector<int64_t> ScalarsOf(const ProgramSpec& spec,
                               std::span<const int64_t> extents,
                               std::span<const int64_t> of_key) {
  std::vector<int64_t> scalars(spec.scalars.size());
  size_t next = 0;
  for (size_t i = 0; i < scalars.size(); ++i) {
    if (IsScalarOfKey(spec, static_cast<int>(i)) && next < of_key.size())
      scalars[i] = of_key[next++];
  }
  for (size_t i = 0; i < spec.symbols.size() && i < extents.size(); ++i)
    if (spec.symbols[i].scalar >= 0)
      scalars[static_cast<size_t>(spec.symbols[i].scalar)] = extents[i];
  return scalars;
}

CallArguments ArgumentsOf(const ProgramSpec& spec,
                          const std::vector<Expression>& expressions,
                          std::span<const int32_t> extents,
                          std::span<const int64_t> of_key,
                          std::span<const DeviceAddress> addresses) {
  const std::vector<int64_t> wide(extents.begin(), extents.end());
  CallArguments arguments{
      .inputs = {}, .targets = {}, .scalars = ScalarsOf(spec, wide, of_key), .given = {}};
  const DimSizes sizes = SizesOf(spec, expressions, wide, arguments.scalars);
  for (size_t i = 0; i < spec.symbols.size(); ++i)
    if (spec.symbols[i].given) arguments.given.push_back(sizes.symbols[i]);
  for (size_t i = 0; i < spec.inputs.size(); ++i) {
    if (spec.inputs[i].role != InputRole::kCopy) continue;
    Tensor tensor = DenseLike(TensorOf(spec.inputs[i], sizes, addresses[i]));
    if (!spec.inputs[i].mutated) tensor.strides = {};
    arguments.inputs.push_back(tensor);
  }
  for (size_t i = 0; i < spec.outputs.size(); ++i)
    arguments.targets.push_back(
        DenseLike(TensorOf(spec.outputs[i], sizes, addresses[spec.inputs.size() + i])));
  return arguments;
}

Tensor TensorOf(const InputSpec& spec, const DimSizes& sizes, DeviceAddress address) {
  return MakeTensor(spec.dtype, spec.dims, spec.strides, sizes, address);
}

Tensor TensorOf(const OutputSpec& spec, const DimSizes& sizes, DeviceAddress address) {
  return MakeTensor(spec.dtype, spec.dims, spec.strides, sizes, address);
}

Tensor DenseLike(const Tensor& tensor) {
  return Tensor::Dense(tensor.data, tensor.dtype,
                       std::span(tensor.sizes).first(static_cast<size_t>(tensor.rank)));
}

}  // namespace coppice
