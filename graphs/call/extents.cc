// Values for expressions, what they compute, and where each extent comes from.

#include "graphs/call/extents.h"

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "fmt/format.h"

#include "coppice/base/status.h"

#include "graphs/node/input_layout.h"

namespace coppice::internal {
namespace {

// What guards and expressions read; see ProgramSpec::value_names.
class Values {
 public:
  // NOLINTNEXTLINE(*-member-init): values are filled up to their count.
  Values(const Program& program, std::span<const int64_t> scalars, const ExtentArray& extents)
      : count_(program.spec.symbols.size() + scalars.size()) {
    const auto end = std::copy_n(extents.begin(), program.spec.symbols.size(), values_.begin());
    std::copy(scalars.begin(), scalars.end(), end);
  }
  std::span<const int64_t> all() const { return std::span(values_).first(count_); }

 private:
  const size_t count_;
  std::array<int64_t, kSymbolsMax + kScalarsMax> values_;
};

// An axis of a copied input.
struct Axis {
  size_t copy = 0;
  size_t axis = 0;
};

std::optional<Axis> FindAxis(const Program& program, size_t extent) {
  for (size_t copy = 0; copy < program.layout.copies.size(); ++copy) {
    const CopyShape& shape = program.layout.copy_shapes[copy];
    for (size_t axis = 0; axis < static_cast<size_t>(shape.rank); ++axis)
      if (shape.axes[axis].extent == static_cast<int>(extent)) return Axis{copy, axis};
  }
  return std::nullopt;
}

// Where a call has a symbol's extent from.
std::string SourceOf(const Program& program, size_t symbol) {
  const SymbolSpec& spec = program.spec.symbols[symbol];
  if (spec.given) return "given with the call";
  if (spec.scalar >= 0)
    return fmt::format("scalar '{}'", program.spec.scalars[static_cast<size_t>(spec.scalar)].name);
  const std::optional<Axis> axis = FindAxis(program, symbol);
  if (!axis) return "one less than the number of offsets";
  return fmt::format("axis {} of input '{}'", axis->axis, program.copied_input(axis->copy).name);
}

bool IsOfAxis(const Program& program, size_t extent) {
  return (program.layout.axis_extents >> extent & 1) != 0;
}

// An axis has another extent than it must, for the reason `why`.
absl::Status WrongAxis(
    const Program& program, size_t extent, int64_t has, int64_t wants, const std::string& why) {
  const std::optional<Axis> axis = FindAxis(program, extent);
  return InvalidArgument(
      "Session::Run: axis {} of input '{}' of program '{}' has size {}, but {} is {} ({})",
      axis->axis, program.copied_input(axis->copy).name, program.spec.name, has,
      NameOf(program.spec, DimOf(static_cast<int>(extent))), wants, why);
}

// Reads how many sequences there are where offsets, which are one more, are all that says it.
absl::Status ReadCounts(const Call& call, CallShape& shape) {
  const Program& program = *call.program;
  for (const RaggedSpec& sequences : program.spec.ragged) {
    const auto count = static_cast<size_t>(sequences.count);
    if (sequences.by != RaggedBy::kOffsets || IsOfAxis(program, count)) continue;
    const size_t copy = program.CopyOf(sequences.lengths);
    shape.real[count] = call.inputs[copy].sizes[0] - 1;
    if (shape.real[count] >= 0) continue;
    return InvalidArgument(
        "Session::Run: input '{}' of program '{}' is empty; give one offset per sequence and one "
        "for the end, or a single 0 if there are no sequences",
        program.copied_input(copy).name, program.spec.name);
  }
  return absl::OkStatus();
}

// Reads the symbols that are given, or bound to scalars.
absl::Status ReadSymbols(const Call& call, CallShape& shape) {
  const Program& program = *call.program;
  size_t given = 0;
  for (size_t i = 0; i < program.spec.symbols.size(); ++i) {
    const SymbolSpec& symbol = program.spec.symbols[i];
    if (!symbol.given && symbol.scalar < 0) continue;
    const int64_t extent =
        symbol.given ? call.extents[given++] : call.scalars[static_cast<size_t>(symbol.scalar)];
    if (extent < 0)
      return InvalidArgument(
          "Session::Run: symbol {} of program '{}' ({}) is {}; give an extent of 0 or more",
          symbol.name, program.spec.name, SourceOf(program, i), extent);
    if (IsOfAxis(program, i) && shape.real[i] != extent)
      return WrongAxis(program, i, shape.real[i], extent, SourceOf(program, i));
    shape.real[i] = extent;
  }
  return absl::OkStatus();
}

// Whether a tensor has, or reaches over, more bytes at these extents than any device.
template <typename Spec>
bool IsAstronomical(const Spec& tensor, const ExtentArray& extents) {
  const auto at = [&](const Dim& dim) {
    return dim.is_fixed() ? dim.size : extents[static_cast<size_t>(ExtentOf(dim))];
  };
  if (std::any_of(tensor.dims.begin(), tensor.dims.end(),
                  [&](const Dim& dim) { return at(dim) == 0; })) {
    return false;
  }
  int64_t bytes = SizeOf(tensor.dtype);
  for (const Dim& dim : tensor.dims)
    if (__builtin_mul_overflow(bytes, at(dim), &bytes) || bytes > kAstronomicalBytes) return true;
  int64_t reach = SizeOf(tensor.dtype);  // From the first element to the last one's end.
  for (size_t axis = 0; axis < tensor.strides.size(); ++axis) {
    int64_t far = std::max<int64_t>(at(tensor.dims[axis]) - 1, 0);
    if (__builtin_mul_overflow(far, at(tensor.strides[axis]), &far) ||
        __builtin_mul_overflow(far, SizeOf(tensor.dtype), &far) ||
        __builtin_add_overflow(reach, far, &reach) || reach > kAstronomicalBytes)
      return true;
  }
  return false;
}

// The tensor that is; null if none is.
const std::string* FindAstronomical(const Program& program, const ExtentArray& extents) {
  for (const InputSpec& input : program.spec.inputs)
    if (IsAstronomical(input, extents)) return &input.name;
  for (int i = 0; i < static_cast<int>(program.spec.outputs.size()); ++i) {
    const OutputSpec& output = program.spec.outputs[static_cast<size_t>(i)];
    if (IsAstronomical(output, extents)) return &output.name;
    const RaggedSpec* const sequences = program.RectangleOfOutput(i);
    if (sequences == nullptr) continue;
    OutputSpec rectangle = output;
    rectangle.dims = RectangleOf(*sequences, output.dims);
    if (IsAstronomical(rectangle, extents)) return &output.name;
  }
  return nullptr;
}

// Symbols that there are not are no sizes either.
void ClearGap(const Program& program, ExtentArray& extents) {
  std::fill(extents.begin() + static_cast<ptrdiff_t>(program.spec.symbols.size()),
            extents.begin() + kSymbolsMax, 0);
}

// What to do if an extent is beyond the bounds that its symbol has.
std::string RemedyFor(const Program& program, const CallShape& shape) {
  for (size_t i = 0; i < program.spec.symbols.size(); ++i)
    if (shape.real[i] > program.spec.symbols[i].max)
      return fmt::format("; declare a larger max for {}, or split the call into smaller calls",
                         program.spec.symbols[i].name);
  return "";
}

absl::Status CheckGuards(const Call& call, const CallShape& shape) {
  const Program& program = *call.program;
  const Values values(program, call.scalars, shape.real);
  const std::optional<int> failed = program.guards.FirstFailing(values.all());
  if (!failed) [[likely]]
    return absl::OkStatus();
  std::string sources;
  for (const size_t name : program.guards.expression(*failed).Reads()) {
    if (name >= program.spec.symbols.size()) continue;
    sources += fmt::format("{}{} is {}", sources.empty() ? "; " : ", ",
                           program.spec.symbols[name].name, SourceOf(program, name));
  }
  return InvalidArgument("Session::Run: guard '{}' of program '{}' failed: {}{}{}",
                         program.guards.source(*failed), program.spec.name,
                         program.guards.DescribeValues(*failed, values.all()), sources,
                         RemedyFor(program, shape));
}

// Computes the extents of expressions, which axes may have said already.
absl::Status ReadExpressions(const Call& call, CallShape& shape) {
  const Program& program = *call.program;
  if (program.extents.empty()) return absl::OkStatus();
  const ExtentArray of_axes = shape.real;
  COPPICE_RETURN_IF_ERROR(ComputeExtents(program, call.scalars, "Session::Run", shape.real));
  for (size_t i = 0; i < program.extents.size(); ++i) {
    const size_t extent = kSymbolsMax + i;
    if (!IsOfAxis(program, extent) || of_axes[extent] == shape.real[extent]) continue;
    const Values values(program, call.scalars, shape.real);
    return WrongAxis(program, extent, of_axes[extent], shape.real[extent],
                     program.extents[i].Describe(program.spec.value_names(), values.all()));
  }
  return absl::OkStatus();
}

}  // namespace

std::string NameOf(const ProgramSpec& spec, const Dim& dim) {
  const auto index = static_cast<size_t>(dim.index);
  if (dim.is_fixed()) return fmt::format("{}", dim.size);
  if (dim.kind == Dim::Kind::kSymbol) return spec.symbols[index].name;
  return fmt::format("'{}'", spec.extents[index]);
}

std::string NameOfCount(const Program& program, size_t index) {
  return fmt::format("the count of symbol '{}'", program.counted_symbol(index).name);
}

std::string DescribeNoBucket(const ProgramSpec& spec, const JointSpec& joint, JointSize size) {
  constexpr size_t kNameMax = 80;  // A list may have thousands.
  const JointPolicy& policy = joint.policy;
  const std::string buckets =
      policy.name().size() <= kNameMax
          ? policy.name()
          : fmt::format("the {} up to {}x{}", policy.count(), policy.limit().a, policy.limit().b);
  return fmt::format("{} = {}, {} = {} fit no bucket of {}", NameOf(spec, Dim::Symbol(joint.a)),
                     size.a, NameOf(spec, Dim::Symbol(joint.b)), size.b, buckets);
}

absl::Status ReadOtherExtents(const Call& call, CallShape& shape) {
  COPPICE_RETURN_IF_ERROR(ReadCounts(call, shape));
  COPPICE_RETURN_IF_ERROR(ReadSymbols(call, shape));
  COPPICE_RETURN_IF_ERROR(ReadExpressions(call, shape));
  return CheckGuards(call, shape);
}

absl::Status ComputeExtents(const Program& program,
                            std::span<const int64_t> scalars,
                            const char* where,
                            ExtentArray& extents) {
  if (program.extents.empty()) return absl::OkStatus();
  ClearGap(program, extents);
  const Values values(program, scalars, extents);
  for (size_t i = 0; i < program.extents.size(); ++i) {
    const Expression& expression = program.extents[i];
    const Computed computed = expression.Evaluate(values.all());
    if (!computed.ok() || computed.value < 0)
      return InvalidArgument("{}: '{}' of program '{}' is {}, which is not a valid extent: {}",
                             where, expression.text(), program.spec.name,
                             computed.ok() ? fmt::format("{}", computed.value) : "undefined",
                             expression.Describe(program.spec.value_names(), values.all()));
    extents[kSymbolsMax + i] = computed.value;
  }
  return absl::OkStatus();
}

bool PadExpressions(const Program& program, std::span<const int64_t> scalars, CallShape& shape) {
  ClearGap(program, shape.padded);
  const Values values(program, scalars, shape.padded);
  for (size_t i = 0; i < program.extents.size(); ++i) {
    const Computed computed = program.extents[i].Evaluate(values.all());
    if (!computed.ok() || computed.value < shape.real[kSymbolsMax + i]) return false;
    shape.padded[kSymbolsMax + i] = computed.value;
  }
  return FindAstronomical(program, shape.padded) == nullptr;
}

absl::Status PadExpressions(const Call& call, CallShape& shape) {
  const Program& program = *call.program;
  if (!shape.unbucketed) shape.unbucketed = !PadExpressions(program, call.scalars, shape);
  if (!shape.unbucketed) return absl::OkStatus();
  // Beyond the largest buckets, which the spec was checked at, sizes may be too large to count.
  const std::string* const tensor = FindAstronomical(program, shape.real);
  if (tensor == nullptr) return absl::OkStatus();
  return MakeError(absl::StatusCode::kResourceExhausted,
                   "Session::Run: '{}' of program '{}' is larger than the memory of any device at "
                   "this call's extents; make the call smaller",
                   *tensor, program.spec.name);
}

std::string DescribeUnpadded(const Program& program,
                             std::span<const int64_t> scalars,
                             const CallShape& shape) {
  const Values values(program, scalars, shape.padded);
  for (size_t i = 0; i < program.extents.size(); ++i) {
    const Expression& expression = program.extents[i];
    const Computed computed = expression.Evaluate(values.all());
    const int64_t real = shape.real[kSymbolsMax + i];
    if (computed.ok() && computed.value >= real) continue;
    return fmt::format("'{}' is {}, but {} in the bucket ({})", expression.text(), real,
                       computed.ok() ? fmt::format("{}", computed.value) : "undefined",
                       expression.Describe(program.spec.value_names(), values.all()));
  }
  const std::string* const tensor = FindAstronomical(program, shape.padded);
  return tensor == nullptr
             ? ""
             : fmt::format("in the bucket, '{}' is larger than the memory of any device", *tensor);
}

absl::Status CheckStrides(const Program& program, const CallShape& shape, const char* where) {
  const auto check = [&](const auto& tensors, const char* what) -> absl::Status {
    for (const auto& tensor : tensors) {
      if (tensor.strides.empty() || tensor.role == decltype(tensor.role)::kStatic) continue;
      for (const ExtentArray* extents : {&shape.real, &shape.padded}) {
        const bool in_bucket = extents == &shape.padded;
        if (in_bucket && shape.unbucketed) continue;
        const Tensor placed = PlacedTensor(0, tensor, *extents);
        if (placed.keeps_apart()) continue;
        const size_t rank = tensor.dims.size();
        return InvalidArgument(
            "{}: {} '{}' of program '{}' has strides [{}] for sizes [{}]{}, which make elements "
            "overlap; make each stride larger than the span of all axes with smaller strides",
            where, what, tensor.name, program.spec.name,
            fmt::join(std::span(placed.strides).first(rank), ", "),
            fmt::join(std::span(placed.sizes).first(rank), ", "),
            in_bucket ? " in the bucket" : "");
      }
    }
    return absl::OkStatus();
  };
  COPPICE_RETURN_IF_ERROR(check(program.spec.inputs, "input"));
  return check(program.spec.outputs, "output");
}

}  // namespace coppice::internal
