// What makes the ragged sequences of a spec valid, and the spec without them.

#include "graphs/program/ragged.h"

#include <algorithm>
#include <string>
#include <utility>

#include "coppice/base/status.h"

namespace coppice::internal {
namespace {

int RaggedOf(const Dims& dims) {
  return !dims.empty() && dims[0].kind == Dim::Kind::kRagged ? dims[0].index : -1;
}

// Checks the symbols of sequences `index`.
absl::Status CheckSymbols(const ProgramSpec& spec, size_t index) {
  const RaggedSpec& sequences = spec.ragged[index];
  const auto symbols = static_cast<int>(spec.symbols.size());
  const auto exists = [&](int symbol) { return symbol >= 0 && symbol < symbols; };
  const bool rectangle = sequences.is_rectangle();
  const bool distinct = sequences.count != sequences.total && sequences.count != sequences.length &&
                        sequences.total != sequences.length;
  if (!exists(sequences.count) || !exists(sequences.total) || sequences.length >= symbols ||
      sequences.length < -1 || !distinct)
    return InvalidArgument(
        "ValidateSpec: program {}: ragged[{}] has symbol {} as its count, {} as its total and {} "
        "as its length, but the program has {} symbols; name different symbols, or -1 for no "
        "length",
        spec.name, index, sequences.count, sequences.total, sequences.length, symbols);
  for (const int symbol : {sequences.count, sequences.total, sequences.length}) {
    if (symbol < 0) continue;
    const SymbolSpec& named = spec.symbols[static_cast<size_t>(symbol)];
    if (named.counted)
      return InvalidArgument(
          "ValidateSpec: program {}: symbol {} of ragged[{}] is counted, but its value already "
          "comes from the lengths; do not mark it as counted",
          spec.name, named.name, index);
    const bool padded = symbol == sequences.total || rectangle;
    if (padded && !ClaimOf(spec, symbol))
      return InvalidArgument(
          "ValidateSpec: program {}: symbol {} of ragged[{}] has no claim, but {}; say what its "
          "padding may hold",
          spec.name, named.name, index,
          symbol == sequences.total ? "the device may find fewer rows than a call has"
                                    : "a rectangle pads all sequences to the longest");
  }
  return absl::OkStatus();
}

// Whether `dim` is an extent that says "n + 1" of this symbol.
bool IsOneMore(const ProgramSpec& spec, const Dim& dim, int symbol) {
  const auto extent = static_cast<size_t>(dim.index);
  return dim.kind == Dim::Kind::kExtent && extent < spec.extents.size() &&
         spec.extents[extent] == spec.symbols[static_cast<size_t>(symbol)].name + " + 1";
}

// Checks that the word of a set's total is not another set's to write, nor an extent of it.
absl::Status CheckTotal(const ProgramSpec& spec, size_t index) {
  const RaggedSpec& sequences = spec.ragged[index];
  for (const RaggedSpec& other : spec.ragged) {
    const bool side = other.count == sequences.total || other.length == sequences.total;
    const bool same = other.count == sequences.count && other.lengths == sequences.lengths &&
                      other.by == sequences.by;
    if (!side && (other.total != sequences.total || same)) continue;
    return InvalidArgument(
        "ValidateSpec: program {}: symbol {} is the total of ragged[{}], but also the {} of "
        "another entry; give each its own symbol",
        spec.name, spec.symbols[static_cast<size_t>(sequences.total)].name, index,
        side ? "count or length" : "total");
  }
  return absl::OkStatus();
}

absl::Status CheckLengths(const ProgramSpec& spec, size_t index) {
  const RaggedSpec& sequences = spec.ragged[index];
  if (sequences.lengths < 0 || sequences.lengths >= static_cast<int>(spec.inputs.size()))
    return InvalidArgument(
        "ValidateSpec: program {}: ragged[{}] takes its lengths from input {}, but the number of "
        "inputs is {}",
        spec.name, index, sequences.lengths, spec.inputs.size());
  const InputSpec& input = spec.inputs[static_cast<size_t>(sequences.lengths)];
  const std::string& count = spec.symbols[static_cast<size_t>(sequences.count)].name;
  const bool offsets = sequences.by == RaggedBy::kOffsets;
  const auto fits = [&](const Dim& dim) {
    return offsets ? IsOneMore(spec, dim, sequences.count) : dim == Dim::Symbol(sequences.count);
  };
  if (input.dims.size() != 1 || input.role != InputRole::kCopy || input.mutated ||
      !Count::Takes(input.dtype) || !input.strides.empty() || !fits(input.dims[0]))
    return InvalidArgument(
        "ValidateSpec: program {}: input {} cannot give the sequences of ragged[{}]; make it a "
        "copied i32 or i64 input, not mutated, without strides, and with the single dim {}",
        spec.name, input.name, index, offsets ? "'" + count + " + 1'" : count);
  const Fill wanted = offsets ? Fill::RepeatLast() : Fill::Zero();
  if (input.fill == wanted) return absl::OkStatus();
  return InvalidArgument(
      "ValidateSpec: program {}: input {}, the {} of ragged[{}], would be padded with sequences "
      "that are not empty; give it the fill {}",
      spec.name, input.name, offsets ? "offsets" : "lengths", index,
      offsets ? "RepeatLast" : "Zero");
}

// Checks a tensor's dims; `what` is "input x".
template <typename Spec>
absl::Status CheckTensor(const ProgramSpec& spec, const std::string& what, const Spec& tensor) {
  const auto refuse = [&](const std::string& why) {
    return InvalidArgument("ValidateSpec: program {}: {} {}", spec.name, what, why);
  };
  const auto ragged = static_cast<int>(spec.ragged.size());
  for (size_t axis = 0; axis < tensor.dims.size(); ++axis) {
    const Dim& dim = tensor.dims[axis];
    if (dim.kind != Dim::Kind::kRagged) continue;
    if (dim.index < 0 || dim.index >= ragged)
      return refuse(fmt::format("axis {} names ragged {}, but the program has only {}", axis,
                                dim.index, ragged));
    if (axis > 0) return refuse(fmt::format("has ragged rows along axis {}; put them first", axis));
  }
  for (const Dim& stride : tensor.strides)
    if (stride.kind == Dim::Kind::kRagged) return refuse("has ragged rows as a stride");
  if (RaggedOf(tensor.dims) < 0) return absl::OkStatus();
  if (!tensor.strides.empty()) return refuse("has ragged rows and strides; leave the strides out");
  if (tensor.role == decltype(tensor.role)::kStatic)
    return refuse("has ragged rows, but is static; give it another role");
  return absl::OkStatus();
}

absl::Status CheckInput(const ProgramSpec& spec, const InputSpec& input) {
  COPPICE_RETURN_IF_ERROR(CheckTensor(spec, "input " + input.name, input));
  const int ragged = RaggedOf(input.dims);
  if (ragged < 0) return absl::OkStatus();
  if (input.mutated)
    return InvalidArgument(
        "ValidateSpec: program {}: input {} has ragged rows and is mutated; return its new "
        "contents as an output instead",
        spec.name, input.name);
  const bool rectangle = spec.ragged[static_cast<size_t>(ragged)].is_rectangle();
  if (!rectangle || input.fill != Fill::RepeatLast()) return absl::OkStatus();
  return InvalidArgument(
      "ValidateSpec: program {}: input {} is padded with its last row, but in a rectangle that row "
      "belongs to another sequence; give it another fill",
      spec.name, input.name);
}

}  // namespace

absl::Status CheckRagged(const ProgramSpec& spec) {
  if (spec.ragged.size() > static_cast<size_t>(kRaggedMax))
    return InvalidArgument(
        "ValidateSpec: program {}: {} sets of ragged sequences, but at most {} are allowed",
        spec.name, spec.ragged.size(), kRaggedMax);
  for (size_t i = 0; i < spec.ragged.size(); ++i) {
    COPPICE_RETURN_IF_ERROR(CheckSymbols(spec, i));
    COPPICE_RETURN_IF_ERROR(CheckLengths(spec, i));
    COPPICE_RETURN_IF_ERROR(CheckTotal(spec, i));
  }
  for (const InputSpec& input : spec.inputs)
    COPPICE_RETURN_IF_ERROR(CheckInput(spec, input));
  for (const OutputSpec& output : spec.outputs)
    COPPICE_RETURN_IF_ERROR(CheckTensor(spec, "output " + output.name, output));
  return absl::OkStatus();
}

RaggedTensors RaggedTensorsOf(const ProgramSpec& spec) {
  RaggedTensors tensors;
  if (spec.ragged.empty()) return tensors;
  for (const InputSpec& input : spec.inputs)
    tensors.inputs.push_back(RaggedOf(input.dims));
  for (const OutputSpec& output : spec.outputs)
    tensors.outputs.push_back(RaggedOf(output.dims));
  return tensors;
}

Dims CallersDims(const ProgramSpec& spec, Dims dims) {
  const int ragged = RaggedOf(dims);
  if (ragged >= 0) dims[0] = Dim::Symbol(spec.ragged[static_cast<size_t>(ragged)].total);
  return dims;
}

Dims RectangleOf(const RaggedSpec& sequences, const Dims& shown) {
  Dims dims = shown;
  dims[0] = Dim::Symbol(sequences.length);
  dims.insert(dims.begin(), Dim::Symbol(sequences.count));
  return dims;
}

std::vector<OutputSpec> RectanglesOf(const ProgramSpec& spec) {
  std::vector<OutputSpec> rectangles;
  for (const OutputSpec& output : spec.outputs) {
    const int ragged = RaggedOf(output.dims);
    if (ragged < 0 || !spec.ragged[static_cast<size_t>(ragged)].is_rectangle()) continue;
    rectangles.push_back(output);
    rectangles.back().dims =
        RectangleOf(spec.ragged[static_cast<size_t>(ragged)], CallersDims(spec, output.dims));
  }
  return rectangles;
}

ProgramSpec WithoutRagged(ProgramSpec spec) {
  for (InputSpec& input : spec.inputs) {
    const int ragged = RaggedOf(input.dims);
    if (ragged < 0) continue;
    const RaggedSpec& sequences = spec.ragged[static_cast<size_t>(ragged)];
    input.dims = CallersDims(spec, std::move(input.dims));
    if (sequences.is_rectangle()) input.dims = RectangleOf(sequences, input.dims);
  }
  for (OutputSpec& output : spec.outputs)
    output.dims = CallersDims(spec, std::move(output.dims));
  return spec;
}

}  // namespace coppice::internal
