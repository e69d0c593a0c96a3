// The layout of a staging window.

#include "graphs/node/input_layout.h"

#include <algorithm>

namespace coppice::internal {
namespace {

// Where the bytes of a staged input begin, after the parameter block.
constexpr int64_t kParameterBlockBytes =
    AlignUp(kParameterWordsMax * static_cast<int64_t>(sizeof(int64_t)), kBufferAlignment);

bool Contains(const std::vector<int>& indices, int index) {
  return std::find(indices.begin(), indices.end(), index) != indices.end();
}

// Appends a staged copy behind those there are, and returns its target.
Tensor AddCopy(const InputSpec& input,
               InputLayout::Source source,
               std::span<const int64_t> extents,
               DeviceAddress base,
               InputLayout& layout) {
  const Tensor target = DenseTensor(base + static_cast<DeviceAddress>(layout.bytes), input.dtype,
                                    input.dims, extents);
  layout.staging.copies[layout.sources.size()] = MakeStagedCopy(target, target, input.fill);
  layout.sources.push_back(source);
  layout.bytes += RoundedBytes(target);
  layout.padded_elements += target.element_count();
  return target;
}

}  // namespace

Tensor DenseTensor(DeviceAddress data,
                   DType dtype,
                   const Dims& dims,
                   std::span<const int64_t> extents) {
  std::array<int64_t, kRankMax> sizes{};
  for (size_t axis = 0; axis < dims.size(); ++axis) {
    const Dim& dim = dims[axis];
    sizes[axis] = dim.symbol >= 0 ? extents[static_cast<size_t>(dim.symbol)] : dim.size;
  }
  return Tensor::Dense(data, dtype, std::span(sizes).first(dims.size()));
}

Tensor AtExtents(Tensor tensor, const Dims& dims, std::span<const int64_t> extents) {
  for (size_t axis = 0; axis < dims.size(); ++axis) {
    if (dims[axis].symbol >= 0)
      tensor.sizes[axis] = extents[static_cast<size_t>(dims[axis].symbol)];
  }
  return tensor;
}

int64_t RoundedBytes(const Tensor& tensor) {
  const int64_t bytes = tensor.element_count() * SizeOf(tensor.dtype);
  return AlignUp(std::max<int64_t>(bytes, 1), kBufferAlignment);
}

InputLayout LayOutInputs(const Program& program,
                         const Binding* binding,
                         const StaticVersion* statics,
                         std::span<const int64_t> in_place,
                         std::span<const int64_t> extents,
                         const LayoutBases& bases) {
  const ProgramSpec& spec = program.spec;
  InputLayout layout;
  layout.staging.header.parameter_block = bases.staging;
  layout.staging.header.word_count = spec.parameter_words();
  layout.bytes = kParameterBlockBytes;
  int copied = 0;
  int bound = 0;
  for (int i = 0; i < static_cast<int>(spec.inputs.size()); ++i) {
    const InputSpec& input = spec.inputs[static_cast<size_t>(i)];
    if (input.role == InputRole::kStatic) {
      const bool copy = Contains(statics->copied, bound);
      layout.inputs.push_back(copy ? AddCopy(input, {.bound = true, .index = bound, .input = i},
                                             extents, bases.staging, layout)
                                   : binding->tensors[static_cast<size_t>(bound)]);
      ++bound;
      continue;
    }
    const int64_t offset = in_place.empty() ? -1 : in_place[static_cast<size_t>(copied)];
    if (offset >= 0) {
      layout.inputs.push_back(DenseTensor(bases.plan + static_cast<DeviceAddress>(offset),
                                          input.dtype, input.dims, extents));
      ++layout.in_place;
    } else {
      layout.inputs.push_back(
          AddCopy(input, {.index = copied, .input = i}, extents, bases.staging, layout));
      if (input.mutated) layout.copy_backs.emplace_back(i, copied);
    }
    ++copied;
  }
  for (const OutputSpec& output : spec.outputs) {
    layout.static_outputs.push_back(output.role == OutputRole::kStatic
                                        ? binding->tensors[static_cast<size_t>(bound++)]
                                        : Tensor{});
  }
  layout.staging.header.copy_count = static_cast<int32_t>(layout.sources.size());
  layout.stages = layout.staging.header.word_count + layout.staging.header.copy_count > 0;
  return layout;
}

}  // namespace coppice::internal
