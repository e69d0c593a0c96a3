// The arguments of the staging kernel.

#include "graphs/call/stage.h"

#include <algorithm>
#include <utility>

namespace coppice::internal {
namespace {

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

// Whether the program's claim lets this input's padding be poisoned.
bool MayBePoisoned(const Program& program, const InputSpec& input) {
  const bool floating = input.dtype == DType::kFloat32 || input.dtype == DType::kFloat16 ||
                        input.dtype == DType::kBFloat16;
  return program.spec.claim == Claim::kMasked || floating;
}

// Apart, because its copy of the parameters would weigh on every call.
[[gnu::noinline]] absl::Status StagePoisoned(const StagingKernels& kernels,
                                             const Request& request,
                                             const InputLayout& layout) {
  StagingParams params = layout.staging;
  ApplyPoison(*request.call.program, request.call.poison, layout.sources, params);
  return kernels.Launch(request.call.stream, params);
}

}  // namespace

absl::Status Stage(const SessionParts& parts,
                   const Request& request,
                   Lane& lane,
                   InputLayout& layout) {
  Generator::State random;
  if (request.call.program->random_word >= 0) [[unlikely]] {
    const ProgramSpec& spec = request.call.program->spec;
    const int64_t numbers = spec.random_numbers_per_call;
    random = spec.generator->Take(numbers);
    lane.scratch().random = {spec.generator, random, numbers, lane.order().calls()};
  }
  FillStaging(request.call, request.shape, random, layout);
  if (request.call.poison == Poison::kOff) [[likely]]
    return parts.staging->Launch(request.call.stream, layout.staging);
  return StagePoisoned(*parts.staging, request, layout);
}

void GiveBackRandomNumbers(Lane& lane) {
  const TakenNumbers taken = std::exchange(lane.scratch().random, {});
  if (taken.generator != nullptr && taken.call == lane.order().calls())
    taken.generator->GiveBack(taken.state, taken.numbers);
}

void FillStaging(const Call& call,
                 const CallShape& shape,
                 const Generator::State& random,
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

void ApplyPoison(const Program& program,
                 Poison poison,
                 std::span<const InputLayout::Source> sources,
                 StagingParams& params) {
  for (size_t i = 0; i < sources.size(); ++i) {
    const InputSpec& input = program.spec.inputs[static_cast<size_t>(sources[i].input)];
    if (!MayBePoisoned(program, input)) continue;
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
