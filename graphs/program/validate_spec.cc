// What makes a spec valid.

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "coppice/base/status.h"
#include "coppice/base/units.h"
#include "coppice/graphs/program.h"

#include "graphs/program/claims.h"
#include "graphs/program/ladder.h"
#include "graphs/program/ragged.h"

namespace coppice {
namespace {

// Checks that every name of one list is present and differs from the others.
template <typename Item>
absl::Status CheckNames(const ProgramSpec& spec, const char* list, const std::vector<Item>& items) {
  std::set<std::string> names;
  for (size_t i = 0; i < items.size(); ++i) {
    if (items[i].name.empty())
      return InvalidArgument("ValidateSpec: program {}: {}[{}] has no name", spec.name, list, i);
    if (!names.insert(items[i].name).second)
      return InvalidArgument("ValidateSpec: program {}: {}[{}] repeats the name {}", spec.name,
                             list, i, items[i].name);
  }
  return absl::OkStatus();
}

absl::Status CheckCount(const ProgramSpec& spec, const char* list, size_t count, int count_max) {
  if (count <= static_cast<size_t>(count_max)) return absl::OkStatus();
  return InvalidArgument("ValidateSpec: program {}: {} {}, but at most {} are allowed", spec.name,
                         count, list, count_max);
}

bool IsComputed(const Dim& dim) {
  return dim.kind == Dim::Kind::kExtent;
}

// What a dim is at the largest extents; 1 if each call computes it.
int64_t LargestOf(const ProgramSpec& spec, const Dim& dim) {
  if (IsComputed(dim)) return 1;
  return dim.is_fixed() ? dim.size : spec.symbols[static_cast<size_t>(dim.index)].policy.maximum();
}

// Checks that each of some dims or strides exists; `field` names them ("input x").
absl::Status CheckDims(const ProgramSpec& spec,
                       const std::string& field,
                       const char* what,
                       const Dims& dims) {
  for (size_t axis = 0; axis < dims.size(); ++axis) {
    const Dim& dim = dims[axis];
    const bool computed = IsComputed(dim);
    const size_t count = computed ? spec.extents.size() : spec.symbols.size();
    if (!dim.is_fixed() && (dim.index < 0 || dim.index >= static_cast<int>(count)))
      return InvalidArgument(
          "ValidateSpec: program {}: {} axis {} names {} {}, but the program has only {}",
          spec.name, field, axis, computed ? "extent" : "symbol", dim.index, count);
    if (dim.is_fixed() && dim.size < 0)
      return InvalidArgument("ValidateSpec: program {}: {} axis {} has {} {}", spec.name, field,
                             axis, what, dim.size);
  }
  return absl::OkStatus();
}

// Checks what strides make of a tensor at its largest extents. Some of it may overlap if nothing
// writes it.
absl::Status CheckStrides(const ProgramSpec& spec,
                          const std::string& field,
                          const Dims& dims,
                          const Dims& strides,
                          int64_t element,
                          bool written) {
  if (strides.empty()) return absl::OkStatus();
  if (strides.size() != dims.size())
    return InvalidArgument(
        "ValidateSpec: program {}: {} must have one stride per axis, but has {} for rank {}",
        spec.name, field, strides.size(), dims.size());
  COPPICE_RETURN_IF_ERROR(CheckDims(spec, field, "stride", strides));
  if (std::ranges::any_of(dims, IsComputed) || std::ranges::any_of(strides, IsComputed))
    return absl::OkStatus();
  Tensor largest{.rank = static_cast<int8_t>(dims.size())};
  int64_t bytes = element;
  bool fits = true;
  for (size_t axis = 0; axis < dims.size(); ++axis) {
    largest.sizes[axis] = LargestOf(spec, dims[axis]);
    largest.strides[axis] = LargestOf(spec, strides[axis]);
    int64_t reach = 0;
    fits = fits &&
           !__builtin_mul_overflow(std::max<int64_t>(largest.sizes[axis] - 1, 0),
                                   largest.strides[axis], &reach) &&
           !__builtin_mul_overflow(reach, element, &reach) &&
           !__builtin_add_overflow(bytes, reach, &bytes);
  }
  if (!fits)
    return InvalidArgument(
        "ValidateSpec: program {}: {} reaches over 2^63 bytes at its largest extents", spec.name,
        field);
  if (written && !largest.keeps_apart())
    return InvalidArgument(
        "ValidateSpec: program {}: {} has strides that make its elements overlap; make each stride "
        "larger than the span of all axes with smaller strides",
        spec.name, field);
  return absl::OkStatus();
}

// Checks an input or an output; `kind` is which of them.
template <typename Spec>
absl::Status CheckTensor(
    const ProgramSpec& spec, const char* kind, const Spec& tensor, bool is_static, bool written) {
  const std::string field = fmt::format("{} {}", kind, tensor.name);
  const Dims& dims = tensor.dims;
  if (dims.size() > static_cast<size_t>(kRankMax))
    return InvalidArgument("ValidateSpec: program {}: {} has rank {}, but at most {} is allowed",
                           spec.name, field, dims.size(), kRankMax);
  const int64_t element = SizeOf(tensor.dtype);
  if (element == 0)
    return InvalidArgument("ValidateSpec: program {}: {} has dtype {}, which does not exist",
                           spec.name, field, static_cast<int>(tensor.dtype));
  COPPICE_RETURN_IF_ERROR(CheckDims(spec, field, "size", dims));
  int64_t bytes_max = element;
  for (const Dim& dim : dims) {
    // An empty axis counts as one, so that the product of the others is still checked.
    if (__builtin_mul_overflow(bytes_max, std::max<int64_t>(LargestOf(spec, dim), 1), &bytes_max))
      return InvalidArgument(
          "ValidateSpec: program {}: {} is larger than 2^63 bytes at its "
          "largest extents",
          spec.name, field);
  }
  COPPICE_RETURN_IF_ERROR(CheckStrides(spec, field, dims, tensor.strides, element, written));
  const auto dynamic = [](const Dim& dim) { return !dim.is_fixed(); };
  if (is_static && (std::any_of(dims.begin(), dims.end(), dynamic) ||
                    std::any_of(tensor.strides.begin(), tensor.strides.end(), dynamic)))
    return InvalidArgument(
        "ValidateSpec: program {}: static {} has a symbol or an expression in its dims or strides; "
        "give it fixed sizes{}",
        spec.name, field, kind == std::string("input") ? " or copy it" : "");
  return absl::OkStatus();
}

absl::Status CheckInput(const ProgramSpec& spec, const InputSpec& input) {
  const bool is_static = input.role == InputRole::kStatic;
  COPPICE_RETURN_IF_ERROR(
      CheckTensor(spec, "input", input, is_static, /*written=*/!is_static || input.mutated));
  if (!IsPowerOfTwo(input.alignment))
    return InvalidArgument(
        "ValidateSpec: program {}: input {} has alignment {}; give a power of two, in bytes",
        spec.name, input.name, input.alignment);
  return absl::OkStatus();
}

absl::Status CheckOutput(const ProgramSpec& spec, const OutputSpec& output) {
  return CheckTensor(spec, "output", output, output.role == OutputRole::kStatic, /*written=*/true);
}

// Checks that a symbol's bounds make sense, and that what it pads to lies within them.
absl::Status CheckBounds(const ProgramSpec& spec, int index) {
  const SymbolSpec& symbol = spec.symbols[static_cast<size_t>(index)];
  if (symbol.min < 0 || symbol.max < symbol.min || symbol.multiple_of < 1)
    return InvalidArgument(
        "ValidateSpec: program {}: symbol {} has min {}, max {}, multiple_of {}; give 0 <= min <= "
        "max and multiple_of >= 1",
        spec.name, symbol.name, symbol.min, symbol.max, symbol.multiple_of);
  if (!(symbol.observe_half_life >= 0))
    return InvalidArgument(
        "ValidateSpec: program {}: symbol {} is observed with a half-life of {} calls; give a "
        "number above 0, or 0 for none",
        spec.name, symbol.name, symbol.observe_half_life);
  if (const JointSpec* const joint = spec.JointOf(index))
    return internal::CheckJointBuckets(spec, index, *joint);
  if (!MayPad(spec, index)) return absl::OkStatus();
  return internal::CheckBuckets("ValidateSpec", spec, symbol, symbol.policy);
}

// Whether an axis of what callers bring has the symbol's extent.
bool Binds(const ProgramSpec& spec, const InputSpec& input, int symbol) {
  const Dims dims = internal::CallersDims(spec, input.dims);
  return input.role == InputRole::kCopy &&
         std::ranges::any_of(dims, [symbol](const Dim& dim) { return dim == Dim::Symbol(symbol); });
}

// Checks that something of a call gives a symbol its extent.
absl::Status CheckSource(const ProgramSpec& spec, int index) {
  const SymbolSpec& symbol = spec.symbols[static_cast<size_t>(index)];
  if (symbol.scalar < -1 || symbol.scalar >= static_cast<int>(spec.scalars.size()))
    return InvalidArgument(
        "ValidateSpec: program {}: symbol {} is bound to scalar {}, but the number of scalars is "
        "{}",
        spec.name, symbol.name, symbol.scalar, spec.scalars.size());
  if (symbol.given && symbol.scalar >= 0)
    return InvalidArgument(
        "ValidateSpec: program {}: symbol {} is both `given` and bound to scalar {}; choose one of "
        "the two",
        spec.name, symbol.name, spec.scalars[static_cast<size_t>(symbol.scalar)].name);
  const bool bound = std::ranges::any_of(
      spec.inputs, [&](const InputSpec& input) { return Binds(spec, input, index); });
  const bool by_offsets = std::ranges::any_of(spec.ragged, [&](const RaggedSpec& sequences) {
    return sequences.by == RaggedBy::kOffsets && sequences.count == index;
  });
  if (bound || by_offsets || symbol.given || symbol.scalar >= 0) return absl::OkStatus();
  return InvalidArgument(
      "ValidateSpec: program {}: no copied input has symbol {} in its dims, so no call gives it an "
      "extent; set `given` or bind it to a scalar",
      spec.name, symbol.name);
}

absl::Status CheckSymbol(const ProgramSpec& spec, int index) {
  COPPICE_RETURN_IF_ERROR(CheckSource(spec, index));
  COPPICE_RETURN_IF_ERROR(internal::CheckClaim(spec, index));
  return CheckBounds(spec, index);
}

// Checks that a symbol has nothing of its own that its joint policy would not heed.
absl::Status CheckJointSymbol(const ProgramSpec& spec, int index, const JointSpec& joint) {
  const SymbolSpec& symbol = spec.symbols[static_cast<size_t>(index)];
  const auto refuse = [&](const std::string& what) {
    return InvalidArgument("ValidateSpec: program {}: symbol {} is in a joint policy, but {}",
                           spec.name, symbol.name, what);
  };
  const JointSize limit = joint.policy.limit();
  const int64_t maximum = index == joint.a ? limit.a : limit.b;
  if (!symbol.policy.is_exact() || symbol.policy.maximum() != maximum)
    return refuse(fmt::format("has its own policy {} up to {}; give it exact up to {}",
                              symbol.policy.name(), symbol.policy.maximum(), maximum));
  if (symbol.kind != SymbolKind::kDynamic && symbol.kind != SymbolKind::kMaybeDynamic)
    return refuse("is static, or fixed at its first extent; make it dynamic or maybe dynamic");
  if (!ClaimOf(spec, index))
    return refuse(
        "has no claim, and the program claims to be exact; say what its padding may hold, or claim "
        "row independence or masking for all symbols");
  if (symbol.counted)
    return refuse("is counted, so no call would know its bucket; give it its own ladder");
  if (symbol.exclude_01)
    return refuse("excludes 0 and 1 from padding; give the joint policy buckets of 1 instead");
  if (symbol.observe_half_life != 0)
    return refuse(
        "is observed, but Rebucket does not learn joint policies; set its observe_half_life to 0");
  return absl::OkStatus();
}

absl::Status CheckJoint(const ProgramSpec& spec) {
  const auto symbols = static_cast<int>(spec.symbols.size());
  uint32_t seen = 0;
  for (size_t i = 0; i < spec.joint.size(); ++i) {
    const JointSpec& joint = spec.joint[i];
    const bool exist = joint.a >= 0 && joint.b >= 0 && joint.a < symbols && joint.b < symbols;
    if (!exist || joint.a == joint.b)
      return InvalidArgument(
          "ValidateSpec: program {}: joint[{}] pads symbols {} and {}, but the program has {}; "
          "name two different symbols",
          spec.name, i, joint.a, joint.b, symbols);
    for (const int symbol : {joint.a, joint.b}) {
      if ((seen >> symbol & 1) != 0)
        return InvalidArgument(
            "ValidateSpec: program {}: symbol {} is in two joint policies; leave it in one",
            spec.name, spec.symbols[static_cast<size_t>(symbol)].name);
      seen |= uint32_t{1} << symbol;
      COPPICE_RETURN_IF_ERROR(CheckJointSymbol(spec, symbol, joint));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckOutputCount(const ProgramSpec& spec, const OutputSpec& output) {
  const Count& count = output.count;
  if (count.output < 0) return absl::OkStatus();
  if (count.output >= static_cast<int>(spec.outputs.size()) || count.axis < 0 ||
      count.axis >= static_cast<int>(output.dims.size())) {
    return InvalidArgument(
        "ValidateSpec: program {}: output {} has output {} as its count (number of outputs: {}) "
        "along axis {} (rank: {}); name an output and an axis that exist",
        spec.name, output.name, count.output, spec.outputs.size(), count.axis, output.dims.size());
  }
  const OutputSpec& counter = spec.outputs[static_cast<size_t>(count.output)];
  const bool one =
      std::ranges::all_of(counter.dims, [](const Dim& dim) { return dim == Dim::Fixed(1); });
  if (!one || !Count::Takes(counter.dtype) || counter.count.output >= 0)
    return InvalidArgument(
        "ValidateSpec: program {}: output {}, which counts output {}, must be a single i32 or i64 "
        "that no output counts",
        spec.name, counter.name, output.name);
  return absl::OkStatus();
}

absl::Status CheckCountedSymbol(const ProgramSpec& spec, int index) {
  const SymbolSpec& symbol = spec.symbols[static_cast<size_t>(index)];
  const auto refuse = [&](const std::string& what) {
    return InvalidArgument("ValidateSpec: program {}: symbol {} is counted, but {}", spec.name,
                           symbol.name, what);
  };
  if (!ClaimOf(spec, index) || symbol.kind == SymbolKind::kStatic)
    return refuse("is never padded; claim what its padding may hold, and make it dynamic");
  if (symbol.min > 0 || symbol.multiple_of > 1 || symbol.exclude_01)
    return refuse("no call can check its min, multiple_of or exclude_01; remove them");
  const auto reads = [index](const Expression& expression) {
    return std::ranges::count(expression.Reads(), static_cast<size_t>(index)) > 0;
  };
  COPPICE_ASSIGN_OR_RETURN(const GuardProgram guards, CompileGuards(spec));
  const int own = guards.guard_count() - static_cast<int>(spec.guards.size());
  for (int i = own; i < guards.guard_count(); ++i)
    if (reads(guards.expression(i)))
      return refuse("guard '" + guards.source(i) + "' reads it, which no call can check");
  COPPICE_ASSIGN_OR_RETURN(const std::vector<Expression> extents, CompileExtents(spec));
  for (const InputSpec& input : spec.inputs) {
    for (const Dim& dim : input.dims) {
      if (dim.kind != Dim::Kind::kExtent || input.role == InputRole::kStatic) continue;
      const Expression& extent = extents[static_cast<size_t>(dim.index)];
      if (reads(extent))
        return refuse("'" + extent.text() + "' of input " + input.name +
                      " reads it; give that axis the symbol itself");
    }
  }
  return absl::OkStatus();
}

// A call is checked on the host, so nothing that is checked may be the device's to decide.
absl::Status CheckCounts(const ProgramSpec& spec) {
  for (const OutputSpec& output : spec.outputs)
    COPPICE_RETURN_IF_ERROR(CheckOutputCount(spec, output));
  for (int symbol = 0; symbol < static_cast<int>(spec.symbols.size()); ++symbol)
    if (spec.symbols[static_cast<size_t>(symbol)].counted)
      COPPICE_RETURN_IF_ERROR(CheckCountedSymbol(spec, symbol));
  return absl::OkStatus();
}

}  // namespace

absl::Status ValidateSpec(const ProgramSpec& spec) {
  if (spec.name.empty()) return InvalidArgument("ValidateSpec: the program has no name");
  COPPICE_RETURN_IF_ERROR(CheckCount(spec, "symbols", spec.symbols.size(), kSymbolsMax));
  COPPICE_RETURN_IF_ERROR(CheckCount(spec, "extents", spec.extents.size(), kExtentsMax));
  COPPICE_RETURN_IF_ERROR(CheckCount(spec, "scalars", spec.scalars.size(), kScalarsMax));
  COPPICE_RETURN_IF_ERROR(CheckNames(spec, "symbols", spec.symbols));
  COPPICE_RETURN_IF_ERROR(CheckNames(spec, "inputs", spec.inputs));
  COPPICE_RETURN_IF_ERROR(CheckNames(spec, "outputs", spec.outputs));
  COPPICE_RETURN_IF_ERROR(CheckNames(spec, "scalars", spec.scalars));
  COPPICE_RETURN_IF_ERROR(internal::CheckRagged(spec));
  COPPICE_RETURN_IF_ERROR(CheckJoint(spec));
  const ProgramSpec plain = internal::WithoutRagged(spec);
  for (const InputSpec& input : plain.inputs)
    COPPICE_RETURN_IF_ERROR(CheckInput(plain, input));
  for (const OutputSpec& output : plain.outputs)
    COPPICE_RETURN_IF_ERROR(CheckOutput(plain, output));
  for (const OutputSpec& rectangle : internal::RectanglesOf(spec))
    COPPICE_RETURN_IF_ERROR(CheckOutput(plain, rectangle));
  for (int symbol = 0; symbol < static_cast<int>(spec.symbols.size()); ++symbol)
    COPPICE_RETURN_IF_ERROR(CheckSymbol(spec, symbol));
  if (spec.random_numbers_per_call < 0)
    return InvalidArgument(
        "ValidateSpec: program {}: random_numbers_per_call is {}; give 0 or more", spec.name,
        spec.random_numbers_per_call);
  COPPICE_ASSIGN_OR_RETURN(const std::vector<Expression> extents, CompileExtents(spec));
  COPPICE_RETURN_IF_ERROR(internal::CheckFills(plain, extents));
  COPPICE_RETURN_IF_ERROR(CompileGuards(spec).status());
  return CheckCounts(plain);
}

}  // namespace coppice
