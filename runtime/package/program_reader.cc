// Programs of a manifest but for their steps and buffers: symbols, scalars, guards, inputs,
// outputs.

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/json_fields.h"
#include "runtime/package/manifest_reader.h"

namespace coppice::package {
namespace {

constexpr int64_t kSymbolsMax = 8;
constexpr int64_t kScalarsMax = 16;
constexpr int64_t kGuardsMax = 256;
constexpr int64_t kBuffersMax = 65'536;
constexpr const char* kBindings[] = {"key", "parameter"};
constexpr const char* kPaddings[] = {"any", "finite", "fill", "row_independent"};

absl::Status CheckExpressionName(Json value) {
  const std::string name(value.key());
  if (name.size() <= kNameMax && IsExpressionName(name)) return absl::OkStatus();
  return value.Error(
      "this name cannot be used in an expression; use letters, digits and _, and do not start with "
      "a digit");
}

absl::StatusOr<double> ToleranceOf(Json value) {
  COPPICE_ASSIGN_OR_RETURN(const double tolerance, FractionOr(value, 0));
  if (!std::isfinite(tolerance) || tolerance < 0)
    return value.Error("{}; write a finite tolerance, 0 or more", value.Show());
  return tolerance;
}

absl::StatusOr<PaddingClaim> ReadClaim(Json value) {
  COPPICE_RETURN_IF_ERROR(CheckFields(value, {"equal", "padding"}));
  PaddingClaim claim;
  COPPICE_ASSIGN_OR_RETURN(const int padding, WordOf(value["padding"], kPaddings));
  claim.padding = static_cast<PaddingContents>(padding);
  const Json equal = value["equal"];
  if (equal.is(JsonKind::kText) && equal.text() == "bits") return claim;
  if (!equal.is(JsonKind::kObject))
    return equal.Error("{}; write \"bits\", or an object of tolerances", equal.Show());
  COPPICE_RETURN_IF_ERROR(CheckFields(equal, {"absolute?", "relative?"}));
  claim.equal.bits = false;
  COPPICE_ASSIGN_OR_RETURN(claim.equal.absolute, ToleranceOf(equal["absolute"]));
  COPPICE_ASSIGN_OR_RETURN(claim.equal.relative, ToleranceOf(equal["relative"]));
  return claim;
}

absl::Status ReadBuckets(Json value, Symbol& symbol) {
  if (!value.present()) return absl::OkStatus();
  if (value.is(JsonKind::kText) && value.text() == "pow2") {
    symbol.buckets_pow2 = true;
    return absl::OkStatus();
  }
  if (!value.is(JsonKind::kList))
    return value.Error("{}; write a list of sizes, or \"pow2\"", value.Show());
  for (const Json each : value) {
    COPPICE_ASSIGN_OR_RETURN(const int64_t size, IntegerOf(each, symbol.min, symbol.max));
    if (size % symbol.multiple_of != 0)
      return each.Error("{} is not a multiple of {}, the \"multiple_of\" of the symbol", size,
                        symbol.multiple_of);
    if (!symbol.buckets.empty() && symbol.buckets.back() >= size)
      return each.Error("{} comes after {}; sort the buckets, and write each size only once", size,
                        symbol.buckets.back());
    symbol.buckets.push_back(size);
  }
  return absl::OkStatus();
}

absl::StatusOr<Symbol> ReadSymbol(Json value, const Program& program) {
  COPPICE_RETURN_IF_ERROR(CheckExpressionName(value));
  COPPICE_RETURN_IF_ERROR(CheckFields(value, {"buckets?", "claim?", "exclude_01?", "from?", "hint?",
                                              "max?", "min?", "multiple_of?"}));
  Symbol symbol{.name = std::string(value.key())};
  COPPICE_ASSIGN_OR_RETURN(symbol.min, IntegerOr(value["min"], 0, 0, INT64_MAX));
  COPPICE_ASSIGN_OR_RETURN(symbol.max, IntegerOr(value["max"], INT64_MAX, symbol.min, INT64_MAX));
  COPPICE_ASSIGN_OR_RETURN(symbol.multiple_of, IntegerOr(value["multiple_of"], 1, 1, INT64_MAX));
  COPPICE_ASSIGN_OR_RETURN(symbol.exclude_01, BoolOr(value["exclude_01"], false));
  COPPICE_ASSIGN_OR_RETURN(symbol.hint, IntegerOr(value["hint"], -1, symbol.min, symbol.max));
  if (const Json from = value["from"]; from.present()) {
    COPPICE_RETURN_IF_ERROR(CheckFields(from, {"scalar"}));
    COPPICE_ASSIGN_OR_RETURN(symbol.scalar,
                             ReferenceOf(from["scalar"], program.scalars, "scalars"));
  }
  if (const Json claim = value["claim"]; claim.present()) {
    COPPICE_ASSIGN_OR_RETURN(symbol.claim, ReadClaim(claim));
  }
  COPPICE_RETURN_IF_ERROR(ReadBuckets(value["buckets"], symbol));
  return symbol;
}

absl::Status ReadScalars(Json scalars, Program& program) {
  if (!scalars.present()) return absl::OkStatus();
  COPPICE_RETURN_IF_ERROR(CheckObject(scalars, 0, kScalarsMax));
  for (const Json value : scalars) {
    COPPICE_RETURN_IF_ERROR(CheckExpressionName(value));
    COPPICE_RETURN_IF_ERROR(CheckFields(value, {"bind"}));
    COPPICE_ASSIGN_OR_RETURN(const int binding, WordOf(value["bind"], kBindings));
    program.scalars.push_back({.name = std::string(value.key()), .parameter = binding == 1});
  }
  return absl::OkStatus();
}

absl::Status ReadSymbols(Json symbols, Program& program) {
  COPPICE_RETURN_IF_ERROR(CheckObject(symbols, 0, kSymbolsMax));
  for (const Json value : symbols) {
    COPPICE_ASSIGN_OR_RETURN(Symbol symbol, ReadSymbol(value, program));
    if (IndexOf(program.scalars, symbol.name) >= 0)
      return value.Error("a scalar has this name too; rename one");
    program.symbols.push_back(std::move(symbol));
  }
  return absl::OkStatus();
}

absl::Status ReadGuards(Json guards, ExpressionBudget& budget, Program& program) {
  if (!guards.present()) return absl::OkStatus();
  COPPICE_RETURN_IF_ERROR(CheckList(guards, 0, kGuardsMax));
  const Scope scope(program, budget, {});
  for (const Json value : guards) {
    COPPICE_ASSIGN_OR_RETURN(std::string guard, scope.GuardOf(value));
    program.guards.push_back(std::move(guard));
  }
  return absl::OkStatus();
}

// The buffers of one role, in the order of `list`, which names each of them once.
absl::StatusOr<std::vector<int>> ReadOrder(Json list, const Program& program, Role role) {
  const char* const what = role == Role::kInput ? "input" : "output";
  COPPICE_RETURN_IF_ERROR(CheckList(list, 0, kBuffersMax));
  std::vector<int> order;
  std::vector<bool> named(program.buffers.size());
  for (const Json value : list) {
    COPPICE_ASSIGN_OR_RETURN(const int buffer, ReferenceOf(value, program.buffers, "buffers"));
    const auto index = static_cast<size_t>(buffer);
    if (program.buffers[index].role != role)
      return value.Error("{} does not have the role \"{}\"; list only buffers with this role",
                         value.Show(), what);
    if (named[index]) return value.Error("{} is listed twice; list it once", value.Show());
    named[index] = true;
    order.push_back(buffer);
  }
  for (size_t index = 0; index < named.size(); ++index) {
    if (program.buffers[index].role == role && !named[index])
      return list.Error("does not list {}, whose role is \"{}\"; add it",
                        QuoteText(program.buffers[index].name, kNameMax), what);
  }
  return order;
}

// That calls say how large each symbol is: by a scalar, or an axis of an input of that name.
absl::Status CheckSymbolsAreGiven(Json symbols, const Program& program) {
  std::vector<bool> given(program.symbols.size());
  for (const int input : program.inputs) {
    for (const Amount& size : program.buffers[static_cast<size_t>(input)].shape) {
      if (!size.expression) continue;
      const int symbol = IndexOf(program.symbols, size.expression->text());
      if (symbol >= 0) given[static_cast<size_t>(symbol)] = true;
    }
  }
  size_t index = 0;
  for (const Json value : symbols) {
    if (!given[index] && program.symbols[index].scalar < 0)
      return value.Error(
          "no axis of an input has this size; write the symbol's name as the size of an axis, or "
          "name a scalar in \"from\"");
    ++index;
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Program> ReadProgram(Json value,
                                    const Manifest& manifest,
                                    ExpressionBudget& budget) {
  COPPICE_RETURN_IF_ERROR(CheckFields(
      value, {"buffers", "guards?", "inputs", "outputs", "scalars?", "steps", "symbols"}));
  Program program{.name = std::string(value.key())};
  COPPICE_RETURN_IF_ERROR(ReadScalars(value["scalars"], program));
  COPPICE_RETURN_IF_ERROR(ReadSymbols(value["symbols"], program));
  COPPICE_RETURN_IF_ERROR(ReadGuards(value["guards"], budget, program));
  COPPICE_RETURN_IF_ERROR(CheckObject(value["buffers"], 0, kBuffersMax));
  COPPICE_RETURN_IF_ERROR(ReadBuffers(value["buffers"], manifest, budget, program));
  COPPICE_ASSIGN_OR_RETURN(program.inputs, ReadOrder(value["inputs"], program, Role::kInput));
  COPPICE_ASSIGN_OR_RETURN(program.outputs, ReadOrder(value["outputs"], program, Role::kOutput));
  COPPICE_RETURN_IF_ERROR(CheckSymbolsAreGiven(value["symbols"], program));
  return program;
}

}  // namespace coppice::package
