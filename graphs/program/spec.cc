// Program specs: what their texts say, and the layout of the parameter block.

#include <algorithm>
#include <utility>

#include "fmt/format.h"

#include "coppice/base/check.h"
#include "coppice/base/status.h"
#include "coppice/graphs/dynamic_axes.h"
#include "coppice/graphs/program.h"

namespace coppice {
namespace {

constexpr int kRandomWords = 2;  // Seed and offset.

int64_t CountDeviceResident(const ProgramSpec& spec, int end) {
  return std::count_if(spec.scalars.begin(), spec.scalars.begin() + end,
                       [](const ScalarSpec& scalar) { return scalar.device_resident; });
}

}  // namespace

absl::StatusOr<std::vector<Expression>> CompileExtents(const ProgramSpec& spec) {
  const std::vector<std::string> names = spec.value_names();
  std::vector<Expression> extents;
  for (const std::string& text : spec.extents) {
    absl::StatusOr<Expression> extent = Expression::Parse(text, names);
    if (!extent.ok())
      return InvalidArgument("ValidateSpec: program {}: extents[{}]: {}", spec.name, extents.size(),
                             MessageOf(extent.status()));
    for (const size_t name : extent->Reads()) {
      if (name < spec.symbols.size()) continue;
      const auto scalar = static_cast<int>(name - spec.symbols.size());
      const auto symbol = std::ranges::find(spec.symbols, scalar, &SymbolSpec::scalar);
      const bool bound = symbol != spec.symbols.end();
      if (!bound && !spec.scalars[static_cast<size_t>(scalar)].device_resident) continue;
      return InvalidArgument(
          "ValidateSpec: program {}: extents[{}] '{}' reads scalar {}, which is not part of the "
          "key; {}",
          spec.name, extents.size(), text, names[name],
          bound ? fmt::format("read symbol {} instead, which is bound to the scalar", symbol->name)
                : "do not make the scalar device-resident");
    }
    extents.push_back(*std::move(extent));
  }
  return extents;
}

absl::StatusOr<GuardProgram> CompileGuards(const ProgramSpec& spec) {
  std::vector<GuardSpec> guards;
  for (const SymbolSpec& symbol : spec.symbols) {
    const ExtentBounds bounds{
        .min = symbol.min, .max = symbol.max, .multiple_of = symbol.multiple_of};
    if (bounds == ExtentBounds{}) continue;
    if (!IsExpressionName(symbol.name))
      return InvalidArgument(
          "ValidateSpec: program {}: symbol {} has bounds, so its name must consist of letters, "
          "digits and _",
          spec.name, symbol.name);
    AppendBoundGuards(symbol.name, bounds, guards);
  }
  for (const std::string& text : spec.guards)
    guards.push_back({.text = text});
  if (guards.empty()) return GuardProgram();
  absl::StatusOr<GuardProgram> program = GuardProgram::Compile(guards, spec.value_names());
  if (program.ok()) return program;
  return InvalidArgument("ValidateSpec: program {}: {}", spec.name, MessageOf(program.status()));
}

int ProgramSpec::parameter_words() const {
  return static_cast<int>(symbols.size()) +
         static_cast<int>(CountDeviceResident(*this, static_cast<int>(scalars.size()))) +
         (random_numbers_per_call > 0 ? kRandomWords : 0);
}

std::vector<std::string> ProgramSpec::value_names() const {
  std::vector<std::string> names;
  for (const SymbolSpec& symbol : symbols)
    names.push_back(symbol.name);
  for (const ScalarSpec& scalar : scalars)
    names.push_back(scalar.name);
  return names;
}

std::pair<int, int> ProgramSpec::AddJoint(std::string a_name,
                                          std::string b_name,
                                          JointPolicy policy) {
  const int a = AddSymbol(std::move(a_name), *PaddingPolicy::Exact(policy.limit().a));
  const int b = AddSymbol(std::move(b_name), *PaddingPolicy::Exact(policy.limit().b));
  joint.push_back({.a = a, .b = b, .policy = std::move(policy)});
  return {a, b};
}

const JointSpec* ProgramSpec::JointOf(int symbol) const {
  const auto found = std::ranges::find_if(
      joint, [symbol](const JointSpec& each) { return each.a == symbol || each.b == symbol; });
  return found == joint.end() ? nullptr : &*found;
}

Dim ProgramSpec::AddExtent(std::string expression) {
  const auto found = std::ranges::find(extents, expression);
  const auto index = static_cast<int>(found - extents.begin());
  if (found == extents.end()) extents.push_back(std::move(expression));
  return Dim::Extent(index);
}

absl::Status ProgramSpec::AddDynamicAxes(const std::string& text,
                                         const PaddingPolicy& policy,
                                         SymbolKind kind) {
  COPPICE_ASSIGN_OR_RETURN(const std::vector<DynamicAxis> axes, ParseDynamicAxes(text));
  for (const DynamicAxis& axis : axes) {
    const Dim dynamic = Dim::Symbol(static_cast<int>(symbols.size()));
    bool found = false;
    for (InputSpec& input : inputs) {
      if (input.role != InputRole::kCopy || !axis.Matches(input.name)) continue;
      if (axis.axis >= static_cast<int>(input.dims.size()) ||
          !input.dims[static_cast<size_t>(axis.axis)].is_fixed()) {
        return InvalidArgument(
            "AddDynamicAxes: program {}: '{}:{}' names axis {} of input {}, but the rank of the "
            "input is {}, or this axis is already dynamic",
            name, axis.pattern, axis.axis, axis.axis, input.name, input.dims.size());
      }
      input.dims[static_cast<size_t>(axis.axis)] = dynamic;
      found = true;
    }
    if (!found) {
      return InvalidArgument("AddDynamicAxes: program {}: '{}:{}' does not name a copied input",
                             name, axis.pattern, axis.axis);
    }
    AddSymbol(fmt::format("{}:{}", axis.pattern, axis.axis), policy, kind);
  }
  return absl::OkStatus();
}

int ExtentWord(const ProgramSpec& spec, int symbol) {
  COPPICE_CHECK(symbol >= 0 && symbol < static_cast<int>(spec.symbols.size()),
                "the program has no such symbol");
  return symbol;
}

int ScalarWord(const ProgramSpec& spec, int scalar) {
  COPPICE_CHECK(scalar >= 0 && scalar < static_cast<int>(spec.scalars.size()),
                "the program has no such scalar");
  COPPICE_CHECK(spec.scalars[static_cast<size_t>(scalar)].device_resident,
                "the scalar is not device-resident, so it has no word");
  return static_cast<int>(spec.symbols.size()) +
         static_cast<int>(CountDeviceResident(spec, scalar));
}

int RandomWord(const ProgramSpec& spec) {
  COPPICE_CHECK(spec.random_numbers_per_call > 0, "the program has no random state");
  return spec.parameter_words() - kRandomWords;
}

}  // namespace coppice
