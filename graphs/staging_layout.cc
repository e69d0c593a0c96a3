// The layout of a staging window and the arguments of its kernel.

#include "graphs/staging_layout.h"

#include <algorithm>

namespace coppice::internal {
namespace {

// Where the bytes of a staged input begin, after the parameter block.
constexpr int64_t kParameterBlockBytes =
    AlignUp(kParameterWordsMax * static_cast<int64_t>(sizeof(int64_t)), kBufferAlignment);

// Points a staged copy at this call's tensor. Returns its elements.
int64_t SetSource(const Tensor& source, StagedCopy& copy) {
  copy.source = source.data;
  int64_t elements = 1;
  int64_t* sizes = copy.sizes + (kStagingRank - source.rank);
  int64_t* strides = copy.strides + (kStagingRank - source.rank);
  for (size_t axis = 0; axis < static_cast<size_t>(source.rank); ++axis) {
    elements *= sizes[axis] = source.sizes[axis];
    strides[axis] = source.strides[axis];
  }
  return elements;
}

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
      layout.inputs.push_back(DenseTensor(bases.nodes + static_cast<DeviceAddress>(offset),
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

void FillStaging(const Call& call,
                 const CallShape& shape,
                 const RandomState& random,
                 InputLayout& layout) {
  const Program& program = *call.program;
  StagingParams& params = layout.staging;
  size_t word = 0;
  for (; word < program.spec.symbols.size(); ++word)
    params.header.words[word] = shape.real[word];
  for (const int scalar : program.device_scalars) {
    params.header.words[word++] = call.scalars[static_cast<size_t>(scalar)];
  }
  if (program.random_word >= 0) {
    params.header.words[word++] = static_cast<int64_t>(random.seed);
    params.header.words[word++] = random.offset;
  }
  int64_t elements = 0;
  StagedCopy* copy = params.copies;
  for (const InputLayout::Source& source : layout.sources) {
    const Tensor& tensor = source.bound ? call.binding->tensors[static_cast<size_t>(source.index)]
                                        : call.inputs[static_cast<size_t>(source.index)];
    elements += SetSource(tensor, *copy++);
  }
  layout.real_elements = elements;
}

bool PaddingIsFree(const Program& program, const InputSpec& input) {
  const bool floating = input.dtype == DType::kFloat32 || input.dtype == DType::kFloat16 ||
                        input.dtype == DType::kBFloat16;
  return program.spec.claim == Claim::kMasked || floating;
}

void ApplyPoison(const Program& program,
                 Poison poison,
                 std::span<const InputLayout::Source> sources,
                 StagingParams& params) {
  for (size_t i = 0; i < sources.size(); ++i) {
    const InputSpec& input = program.spec.inputs[static_cast<size_t>(sources[i].input)];
    if (!PaddingIsFree(program, input)) continue;
    params.copies[i].fill = PoisonPattern(poison, input.dtype);
    params.copies[i].padding = StagedCopy::kFill;
  }
}

void ApplyZeros(const Binding* binding,
                std::span<const InputLayout::Source> sources,
                StagingParams& params) {
  for (size_t i = 0; i < sources.size(); ++i) {
    StagedCopy& copy = params.copies[i];
    if (sources[i].bound) {
      SetSource(binding->tensors[static_cast<size_t>(sources[i].index)], copy);
      continue;
    }
    copy.source = 0;
    std::fill_n(copy.sizes, kStagingRank, 0);
    copy.fill = 0;
    copy.padding = StagedCopy::kFill;
  }
}

}  // namespace coppice::internal
