// The layout of a staging window and the arguments of its kernel.

#include "graphs/staging_layout.h"

#include <algorithm>
#include <array>

namespace coppice::internal {
namespace {

// Where the bytes of a staged input begin, after the parameter block.
constexpr int64_t kParameterBlockBytes =
    AlignUp(kParameterWordsMax * static_cast<int64_t>(sizeof(int64_t)), kBufferAlignment);

// Points a staged copy at this call's tensor.
void SetSource(const Tensor& source, StagedCopy& copy) {
  copy.source = source.data;
  const int lead = kStagingRank - source.rank;
  for (int axis = 0; axis < source.rank; ++axis) {
    copy.sizes[lead + axis] = source.sizes[static_cast<size_t>(axis)];
    copy.strides[lead + axis] = source.strides[static_cast<size_t>(axis)];
  }
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

int64_t RoundedBytes(const Tensor& tensor) {
  const int64_t bytes = tensor.element_count() * SizeOf(tensor.dtype);
  return AlignUp(std::max<int64_t>(bytes, 1), kBufferAlignment);
}

int64_t LayOutStaging(const Program& program,
                      DeviceAddress base,
                      std::span<const int64_t> extents,
                      StagingParams& params) {
  params.header.parameter_block = base;
  params.header.word_count = program.spec.parameter_words();
  params.header.copy_count = static_cast<int32_t>(program.copies.size());
  int64_t offset = kParameterBlockBytes;
  for (size_t i = 0; i < program.copies.size(); ++i) {
    const InputSpec& input = program.spec.inputs[static_cast<size_t>(program.copies[i])];
    const Tensor target =
        DenseTensor(base + static_cast<DeviceAddress>(offset), input.dtype, input.dims, extents);
    params.copies[i] = MakeStagedCopy(target, target, input.fill);
    offset += RoundedBytes(target);
  }
  return offset;
}

int64_t FillStaging(const Call& call, const CallShape& shape, StagingParams& params) {
  const size_t symbols = call.program->spec.symbols.size();
  for (size_t i = 0; i < symbols; ++i)
    params.header.words[i] = shape.real[i];
  size_t word = symbols;
  for (const int scalar : call.program->device_scalars) {
    params.header.words[word++] = call.scalars[static_cast<size_t>(scalar)];
  }
  int64_t elements = 0;
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    SetSource(call.inputs[i], params.copies[i]);
    elements += call.inputs[i].element_count();
  }
  return elements;
}

void ApplyPoison(const Program& program, Poison poison, StagingParams& params) {
  for (size_t i = 0; i < program.copies.size(); ++i) {
    const InputSpec& input = program.spec.inputs[static_cast<size_t>(program.copies[i])];
    const bool floating = input.dtype == DType::kFloat32 || input.dtype == DType::kFloat16 ||
                          input.dtype == DType::kBFloat16;
    if (program.spec.claim != Claim::kMasked && !floating) continue;
    params.copies[i].fill = PoisonPattern(poison, input.dtype);
    params.copies[i].padding = StagedCopy::kFill;
  }
}

void ApplyZeros(StagingParams& params) {
  for (StagedCopy& copy : params.copies) {
    copy.source = 0;
    std::fill_n(copy.sizes, kStagingRank, 0);
    copy.fill = 0;
    copy.padding = StagedCopy::kFill;
  }
}

int64_t PaddedElements(const StagingParams& params) {
  int64_t elements = 0;
  for (int i = 0; i < params.header.copy_count; ++i) {
    int64_t count = 1;
    for (const int64_t size : params.copies[i].padded)
      count *= size;
    elements += count;
  }
  return elements;
}

}  // namespace coppice::internal
