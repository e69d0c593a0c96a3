// The layout of a staging window.

#include "graphs/node/input_layout.h"

#include <algorithm>
#include <array>

namespace coppice::internal {
namespace {

// Where the bytes of a staged input begin, after the parameter block.
constexpr int64_t kParameterBlockBytes =
    AlignUp(kParameterWordsMax * static_cast<int64_t>(sizeof(int64_t)), kBufferAlignment);

bool Contains(const std::vector<int>& indices, int index) {
  return std::find(indices.begin(), indices.end(), index) != indices.end();
}

// What a copy makes of one input of a run.
struct Staged {
  InputLayout::Source source;
  Tensor target;
};

int64_t SizeAt(const Dim& dim, std::span<const int64_t> extents) {
  return dim.is_fixed() ? dim.size : extents[static_cast<size_t>(ExtentOf(dim))];
}

// The offsets of sequences in a run at `extents`.
Tensor OffsetsOf(const ProgramSpec& spec,
                 const RaggedSpec& sequences,
                 std::span<const int64_t> extents,
                 DeviceAddress address) {
  const DType dtype = spec.inputs[static_cast<size_t>(sequences.lengths)].dtype;
  const int64_t entries = extents[static_cast<size_t>(sequences.count)] + 1;
  return Tensor::Dense(address, dtype, {&entries, 1});
}

// Lays out where sequences begin, and has staging write that.
void LayOutOffsets(const ProgramSpec& spec,
                   std::span<const int64_t> extents,
                   DeviceAddress base,
                   InputLayout& layout) {
  for (const RaggedSpec& sequences : spec.ragged) {
    layout.offsets.push_back(
        OffsetsOf(spec, sequences, extents, base + static_cast<DeviceAddress>(layout.bytes)));
    layout.bytes += RoundedBytes(layout.offsets.back());
  }
}

// Describes the copies, now that it is known how many axes they have.
void DescribeCopies(const Program& program, std::span<const Staged> copies, InputLayout& layout) {
  const ProgramSpec& spec = program.spec;
  int rank = 0;
  for (const Staged& copy : copies)
    rank = std::max<int>(rank, copy.target.rank);
  layout.staging.emplace(rank);
  for (const Staged& copy : copies) {
    const InputSpec& input = spec.inputs[static_cast<size_t>(copy.source.input)];
    layout.sources.push_back(copy.source);
    const int ragged = program.ragged.OfInput(copy.source.input);
    if (ragged >= 0)
      layout.staging->AddRows(copy.target, input.fill, ragged,
                              spec.ragged[static_cast<size_t>(ragged)].is_rectangle());
    else
      layout.staging->Add(copy.target, copy.target, input.fill);
  }
  for (size_t i = 0; i < spec.ragged.size(); ++i)
    layout.staging->SetSequences(static_cast<int>(i), layout.offsets[i], spec.ragged[i].by,
                                 ExtentWord(spec, spec.ragged[i].total));
}

}  // namespace

Tensor PlacedTensor(DeviceAddress data,
                    DType dtype,
                    const Dims& dims,
                    const Dims& strides,
                    std::span<const int64_t> extents) {
  std::array<int64_t, kRankMax> sizes{};
  for (size_t axis = 0; axis < dims.size(); ++axis)
    sizes[axis] = SizeAt(dims[axis], extents);
  Tensor tensor = Tensor::Dense(data, dtype, std::span(sizes).first(dims.size()));
  for (size_t axis = 0; axis < strides.size(); ++axis)
    tensor.strides[axis] = SizeAt(strides[axis], extents);
  return tensor;
}

Tensor AtExtents(Tensor tensor, const Dims& dims, std::span<const int64_t> extents) {
  for (size_t axis = 0; axis < dims.size(); ++axis)
    if (!dims[axis].is_fixed()) tensor.sizes[axis] = SizeAt(dims[axis], extents);
  return tensor;
}

int64_t RoundedBytes(const Tensor& tensor) {
  int64_t bytes = 0;
  if (__builtin_mul_overflow(tensor.span(), SizeOf(tensor.dtype), &bytes) ||
      bytes > kAstronomicalBytes) {
    return kAstronomicalBytes;
  }
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
  layout.bytes = kParameterBlockBytes;
  LayOutOffsets(spec, extents, bases.staging, layout);
  std::vector<Staged> copies;
  const auto stage = [&](const InputSpec& input, InputLayout::Source source) {
    const Tensor target =
        PlacedTensor(bases.staging + static_cast<DeviceAddress>(layout.bytes), input, extents);
    copies.push_back({source, target});
    layout.inputs.push_back(target);
    layout.bytes = std::min(layout.bytes + RoundedBytes(target), kAstronomicalBytes);
    layout.padded_elements += target.element_count();
  };
  int copied = 0;
  int bound = 0;
  for (int i = 0; i < static_cast<int>(spec.inputs.size()); ++i) {
    const InputSpec& input = spec.inputs[static_cast<size_t>(i)];
    if (input.role == InputRole::kStatic) {
      if (Contains(statics->copied, bound))
        stage(input, {.bound = true, .index = bound, .input = i});
      else
        layout.inputs.push_back(binding->tensors[static_cast<size_t>(bound)]);
      ++bound;
      continue;
    }
    const int64_t offset = in_place.empty() ? -1 : in_place[static_cast<size_t>(copied)];
    if (offset >= 0) {
      layout.inputs.push_back(
          PlacedTensor(bases.plan + static_cast<DeviceAddress>(offset), input, extents));
      ++layout.in_place;
    } else {
      stage(input, {.index = copied, .input = i});
      if (input.mutated) layout.copy_backs.emplace_back(i, copied);
    }
    ++copied;
  }
  for (const OutputSpec& output : spec.outputs) {
    layout.static_outputs.push_back(output.role == OutputRole::kStatic
                                        ? binding->tensors[static_cast<size_t>(bound++)]
                                        : Tensor{});
  }
  DescribeCopies(program, copies, layout);
  layout.staging->header().parameter_block = bases.staging;
  layout.staging->header().word_count = static_cast<int16_t>(spec.parameter_words());
  layout.stages = spec.parameter_words() > 0 || !copies.empty();
  return layout;
}

void SetExtents(const Program& program, std::span<const int64_t> extents, InputLayout& layout) {
  for (const int index : program.layout.copies) {
    Tensor& place = layout.inputs[static_cast<size_t>(index)];
    place = PlacedTensor(place.data, program.spec.inputs[static_cast<size_t>(index)], extents);
  }
  layout.padded_elements = 0;
  layout.staging->ClearTiles();
  for (size_t copy = 0; copy < layout.sources.size(); ++copy) {
    const Tensor& place = layout.inputs[static_cast<size_t>(layout.sources[copy].input)];
    layout.staging->SetTarget(static_cast<int>(copy), place);
    layout.padded_elements += place.element_count();
  }
}

InputLayout LayOutNowhere(const Program& program,
                          std::span<const int64_t> extents,
                          DeviceAddress base) {
  InputLayout layout;
  layout.staging.emplace(0);
  layout.staging->header().parameter_block = base;
  DeviceAddress next = base + static_cast<DeviceAddress>(kParameterBlockBytes);
  const auto place = [&](const auto& spec) {
    const Tensor tensor = PlacedTensor(next, spec, extents);
    next += static_cast<DeviceAddress>(RoundedBytes(tensor));
    return tensor;
  };
  for (const RaggedSpec& sequences : program.spec.ragged) {
    layout.offsets.push_back(OffsetsOf(program.spec, sequences, extents, next));
    next += static_cast<DeviceAddress>(RoundedBytes(layout.offsets.back()));
  }
  for (int i = 0; i < static_cast<int>(program.spec.inputs.size()); ++i) {
    const InputSpec& input = program.spec.inputs[static_cast<size_t>(i)];
    layout.inputs.push_back(place(input));
    if (input.role == InputRole::kCopy) layout.sources.push_back({.input = i});
  }
  for (const OutputSpec& output : program.spec.outputs)
    layout.static_outputs.push_back(output.role == OutputRole::kStatic ? place(output) : Tensor{});
  return layout;
}

}  // namespace coppice::internal
