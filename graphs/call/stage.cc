// The arguments of the staging kernel.

#include "graphs/call/stage.h"

#include <utility>

#include "graphs/call/place.h"

namespace coppice::internal {
namespace {

// Compiled into the usual call: FillStaging for everybody else.
[[gnu::always_inline]] inline void FillArguments(const Call& call,
                                                 const CallShape& shape,
                                                 const Generator::State& random,
                                                 InputLayout& layout) {
  const Program& program = *call.program;
  int64_t* const words = layout.staging->header().words;
  size_t word = 0;
  for (; word < program.spec.symbols.size(); ++word)
    words[word] = shape.real[word];
  for (const int scalar : program.layout.device_scalars)
    words[word++] = call.scalars[static_cast<size_t>(scalar)];
  if (program.layout.random_word >= 0) {
    words[word++] = static_cast<int64_t>(random.seed);
    words[word++] = random.offset;
  }
  int64_t elements = 0;
  int copy = 0;
  for (const InputLayout::Source& source : layout.sources) {
    const Tensor& tensor = source.bound ? call.binding->tensors[static_cast<size_t>(source.index)]
                                        : call.inputs[static_cast<size_t>(source.index)];
    elements += layout.staging->SetSource(copy++, tensor);
  }
  layout.real_elements = elements;
}

constexpr Generator::State kNoRandom;

// Has the device read what it decides: the words of these symbols, and the sizes of their axes.
void FillCounts(const Call& call, InputLayout& layout) {
  const Program& program = *call.program;
  StagingArguments& staging = *layout.staging;
  for (size_t i = 0; i < program.layout.counted.size(); ++i) {
    const int symbol = program.layout.counted[i];
    const Tensor count = call.counts.empty() ? Tensor{} : call.counts[i];
    staging.SetCount(symbol, count);
    if (count.data == 0) continue;
    for (size_t copy = 0; copy < layout.sources.size(); ++copy) {
      const auto input = static_cast<size_t>(layout.sources[copy].input);
      staging.CountSizes(static_cast<int>(copy), program.spec.inputs[input].dims, symbol);
    }
  }
}

// Has the device read how long sequences are, and where their rows lie.
void FillSequences(const Call& call, const CallShape& shape, InputLayout& layout) {
  const Program& program = *call.program;
  const auto at = [&](int symbol) { return shape.real[static_cast<size_t>(symbol)]; };
  for (size_t i = 0; i < program.spec.ragged.size(); ++i) {
    const RaggedSpec& sequences = program.spec.ragged[i];
    layout.staging->SetLengths(static_cast<int>(i), call.inputs[program.CopyOf(sequences.lengths)],
                               at(sequences.count), at(sequences.total));
  }
  for (size_t copy = 0; copy < layout.sources.size(); ++copy) {
    const InputLayout::Source& source = layout.sources[copy];
    const RaggedSpec* const rectangle = program.RectangleOfInput(source.input);
    if (rectangle == nullptr) continue;
    layout.staging->SetPackedSource(static_cast<int>(copy),
                                    call.inputs[static_cast<size_t>(source.index)],
                                    at(rectangle->count), at(rectangle->length));
  }
}

// Apart, so that the usual call needs no frame for it.
[[gnu::noinline]] absl::Status StageUnusual(const SessionParts& parts,
                                            const Request& request,
                                            Lane& lane,
                                            InputLayout& layout) {
  Generator::State random;
  if (request.call.program->layout.random_word >= 0) {
    const ProgramSpec& spec = request.call.program->spec;
    const int64_t numbers = spec.random_numbers_per_call;
    random = spec.generator->Take(numbers);
    lane.taken_numbers() = {spec.generator, random, numbers, lane.order().calls()};
  }
  FillStaging(request.call, request.shape, random, layout);
  if (request.call.poison == Poison::kOff)
    return parts.staging->Launch(request.call.stream, *layout.staging);
  StagingArguments poisoned = *layout.staging;
  ApplyPoison(request.call, lane.order().calls(), layout, poisoned);
  return parts.staging->Launch(request.call.stream, poisoned);
}

}  // namespace

absl::Status Stage(const SessionParts& parts,
                   const Request& request,
                   Lane& lane,
                   InputLayout& layout) {
  if (!request.call.program->layout.plain_words || request.call.poison != Poison::kOff) [[unlikely]]
    return StageUnusual(parts, request, lane, layout);
  FillArguments(request.call, request.shape, kNoRandom, layout);
  return parts.staging->Launch(request.call.stream, *layout.staging);
}

void GiveBackRandomNumbers(Lane& lane) {
  const TakenNumbers taken = std::exchange(lane.taken_numbers(), {});
  if (taken.generator != nullptr && taken.call == lane.order().calls())
    taken.generator->GiveBack(taken.state, taken.numbers);
}

void FillStaging(const Call& call,
                 const CallShape& shape,
                 const Generator::State& random,
                 InputLayout& layout) {
  FillArguments(call, shape, random, layout);
  FillSequences(call, shape, layout);
  FillCounts(call, layout);
}

void ApplyPoison(const Call& call,
                 uint64_t seed,
                 const InputLayout& layout,
                 StagingArguments& arguments) {
  const Program& program = *call.program;
  const uint32_t counted = CountedOf(call);
  for (size_t i = 0; i < layout.sources.size(); ++i) {
    const InputLayout::Source& source = layout.sources[i];
    if (source.bound) continue;  // All of its sizes are fixed.
    const auto index = static_cast<size_t>(source.input);
    const InputSpec& input = program.spec.inputs[index];
    const uint32_t padded_extents = PaddedExtents(
        input, call.inputs[static_cast<size_t>(source.index)], layout.inputs[index], counted);
    const PaddingContents contents = program.ContentsOf(input, padded_extents);
    if (padded_extents == 0 || !MayPoison(contents, input.dtype)) continue;
    const auto copy = static_cast<int>(i);
    if (call.poison == Poison::kNoise)
      arguments.SetNoise(copy, input.dtype, contents, seed << 32 | index);
    else
      arguments.SetFill(copy, PoisonPattern(call.poison, input.dtype, contents));
  }
}

void ApplyZeros(const Binding* binding,
                std::span<const InputLayout::Source> sources,
                StagingArguments& arguments) {
  for (size_t i = 0; i < sources.size(); ++i) {
    const int copy = static_cast<int>(i);
    if (sources[i].bound) {
      arguments.SetSource(copy, binding->tensors[static_cast<size_t>(sources[i].index)]);
      continue;
    }
    arguments.DropSource(copy);
    arguments.SetFill(copy, 0);
  }
  constexpr int64_t kNone[] = {0};
  for (int i = 0; i < arguments.header().ragged_count; ++i)
    arguments.SetLengths(i, Tensor::Dense(0, DType::kInt64, kNone), 0, 0);
}

}  // namespace coppice::internal
