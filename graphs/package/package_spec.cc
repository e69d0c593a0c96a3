// Words of the manifest as words of a spec.

#include "graphs/package/package_spec.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "coppice/base/status.h"

namespace coppice::internal {
namespace {

using package::Amount;
using package::Role;

// A size that a spec can name: a number, a symbol, or an expression.
Dim DimOf(const package::Program& program, const Amount& amount, ProgramSpec& spec) {
  if (!amount.expression) return Dim::Fixed(amount.value);
  const std::string& text = amount.expression->text();
  const auto symbol = std::ranges::find(program.symbols, text, &package::Symbol::name);
  if (symbol != program.symbols.end())
    return Dim::Symbol(static_cast<int>(symbol - program.symbols.begin()));
  return spec.AddExtent(text);
}

Dims DimsOf(const package::Program& program,
            const std::vector<Amount>& amounts,
            ProgramSpec& spec) {
  Dims dims;
  for (const Amount& amount : amounts)
    dims.push_back(DimOf(program, amount, spec));
  return dims;
}

std::optional<PaddingClaim> ClaimGiven(const package::Symbol& symbol,
                                       const PackageProgramOptions& options) {
  const auto given = options.claims.find(symbol.name);
  return given == options.claims.end() ? symbol.claim : given->second;
}

// The maximum of a symbol that is padded jointly with another one.
std::optional<int64_t> JointMaximum(const package::Symbol& symbol,
                                    const PackageProgramOptions& options) {
  for (const auto& [names, policy] : options.joint) {
    if (names.first == symbol.name) return policy.limit().a;
    if (names.second == symbol.name) return policy.limit().b;
  }
  return std::nullopt;
}

// Its buckets, as far as they hold extents that the symbol may have.
absl::StatusOr<PaddingPolicy> PolicyOf(const package::Symbol& symbol,
                                       const PackageProgramOptions& options,
                                       std::optional<int64_t> joint_maximum) {
  const auto given = options.policies.find(symbol.name);
  if (given != options.policies.end()) return given->second;
  if (joint_maximum) return PaddingPolicy::Exact(*joint_maximum);
  const int64_t maximum = std::min(symbol.max, PaddingPolicy::kExtentMax);
  const bool pads = ClaimGiven(symbol, options).has_value();
  if (pads && symbol.buckets_pow2) return PaddingPolicy::Pow2(maximum);
  if (pads && !symbol.buckets.empty())
    return PaddingPolicy::List(symbol.buckets, symbol.buckets.back());
  return PaddingPolicy::Exact(std::max<int64_t>(maximum, 1));
}

absl::StatusOr<SymbolSpec> SymbolOf(const package::Symbol& symbol,
                                    const PackageProgramOptions& options) {
  const std::optional<int64_t> joint_maximum = JointMaximum(symbol, options);
  absl::StatusOr<PaddingPolicy> policy = PolicyOf(symbol, options, joint_maximum);
  if (!policy.ok())
    return InvalidArgument("symbol '{}': {}", symbol.name, MessageOf(policy.status()));
  const bool pads = joint_maximum || !policy->is_exact();
  const std::optional<PaddingClaim> claim = ClaimGiven(symbol, options);
  if (pads && !claim)
    return InvalidArgument(
        "symbol '{}' has a policy, but the package claims nothing about its padding; find a claim "
        "with `coppice package claim`, or leave the policy out",
        symbol.name);
  const auto observed = options.observe_half_lives.find(symbol.name);
  return SymbolSpec{
      .name = symbol.name,
      .policy = *std::move(policy),
      .kind = pads ? SymbolKind::kDynamic : SymbolKind::kStatic,
      .min = symbol.min,
      .max = symbol.max,
      .multiple_of = symbol.multiple_of,
      .exclude_01 = symbol.exclude_01,
      .scalar = symbol.scalar,
      .claim = claim,
      .observe_half_life = observed == options.observe_half_lives.end() ? 0 : observed->second};
}

// The index of a symbol that a policy is given for. Errors: kInvalidArgument the program has none
// of this name.
absl::StatusOr<int> IndexOf(const package::Program& program,
                            const std::string& symbol,
                            const char* what) {
  const auto found = std::ranges::find(program.symbols, symbol, &package::Symbol::name);
  if (found != program.symbols.end()) return static_cast<int>(found - program.symbols.begin());
  return InvalidArgument("{} is given for '{}', which is not a symbol of program '{}'", what,
                         symbol, program.name);
}

// Errors: kInvalidArgument names that are no two symbols.
absl::Status AddJoint(const package::Program& program,
                      const PackageProgramOptions& options,
                      ProgramSpec& spec) {
  for (const auto& [names, policy] : options.joint) {
    COPPICE_ASSIGN_OR_RETURN(const int a, IndexOf(program, names.first, "a joint policy"));
    COPPICE_ASSIGN_OR_RETURN(const int b, IndexOf(program, names.second, "a joint policy"));
    if (a == b)
      return InvalidArgument(
          "a joint policy is given for '{}' and itself; name two symbols of program '{}'",
          names.first, program.name);
    spec.joint.push_back({.a = a, .b = b, .policy = policy});
  }
  return absl::OkStatus();
}

}  // namespace

int64_t SeedWordsOf(const package::Program& program) {
  int64_t words = 0;
  for (const package::Buffer& buffer : program.buffers)
    if (buffer.role == Role::kSeed) words += buffer.shape[0].value;
  return words;
}

absl::StatusOr<ProgramSpec> SpecOf(const package::Program& program,
                                   const PackageProgramOptions& options) {
  ProgramSpec spec{.name = options.name.empty() ? program.name : options.name,
                   .variant = options.variant,
                   .guards = program.guards,
                   .random_numbers_per_call = 2 * SeedWordsOf(program),
                   .exact = options.exact};
  const auto check_names = [&](const auto& given, const char* what) -> absl::Status {
    for (const auto& [name, value] : given)
      COPPICE_RETURN_IF_ERROR(IndexOf(program, name, what).status());
    return absl::OkStatus();
  };
  COPPICE_RETURN_IF_ERROR(check_names(options.policies, "a policy"));
  COPPICE_RETURN_IF_ERROR(check_names(options.observe_half_lives, "a half-life"));
  COPPICE_RETURN_IF_ERROR(check_names(options.claims, "a claim"));
  COPPICE_RETURN_IF_ERROR(AddJoint(program, options, spec));
  for (const package::Symbol& symbol : program.symbols) {
    COPPICE_ASSIGN_OR_RETURN(SymbolSpec made, SymbolOf(symbol, options));
    spec.symbols.push_back(std::move(made));
  }
  for (const package::Scalar& scalar : program.scalars)
    spec.scalars.push_back({.name = scalar.name, .device_resident = scalar.parameter});
  for (const int index : program.inputs) {
    const package::Buffer& buffer = program.buffers[static_cast<size_t>(index)];
    spec.inputs.push_back({.name = buffer.name,
                           .dtype = buffer.dtype,
                           .dims = DimsOf(program, buffer.shape, spec),
                           .strides = DimsOf(program, buffer.strides, spec),
                           .role = buffer.is_static ? InputRole::kStatic : InputRole::kCopy,
                           .fill = buffer.fill,
                           .mutated = buffer.mutated,
                           .alignment = buffer.align});
  }
  for (const int index : program.outputs) {
    const package::Buffer& buffer = program.buffers[static_cast<size_t>(index)];
    spec.outputs.push_back({.name = buffer.name,
                            .dtype = buffer.dtype,
                            .dims = DimsOf(program, buffer.shape, spec),
                            .strides = DimsOf(program, buffer.strides, spec)});
  }
  return spec;
}

}  // namespace coppice::internal
