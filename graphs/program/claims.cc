// What a spec claims about padding, symbol by symbol.

#include "graphs/program/claims.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "coppice/base/check.h"
#include "coppice/base/float_format.h"
#include "coppice/base/status.h"

namespace coppice {
namespace {

const SymbolSpec& SymbolAt(const ProgramSpec& spec, int symbol) {
  COPPICE_CHECK(symbol >= 0 && symbol < static_cast<int>(spec.symbols.size()),
                "the program has no such symbol");
  return spec.symbols[static_cast<size_t>(symbol)];
}

}  // namespace

std::optional<PaddingClaim> ClaimOf(const ProgramSpec& spec, int symbol) {
  const SymbolSpec& named = SymbolAt(spec, symbol);
  if (named.claim) return named.claim;
  if (!spec.claim) return std::nullopt;
  return PaddingClaim{.padding = *spec.claim};
}

bool MayPad(const ProgramSpec& spec, int symbol) {
  const SymbolSpec& named = SymbolAt(spec, symbol);
  return ClaimOf(spec, symbol).has_value() && named.kind != SymbolKind::kStatic &&
         (!named.policy.is_exact() || spec.JointOf(symbol) != nullptr);
}

PaddingContents ContentsOf(const ProgramSpec& spec, const InputSpec& input, int symbol) {
  const std::optional<PaddingClaim> claim = ClaimOf(spec, symbol);
  if (!claim) return PaddingContents::kFill;
  if (claim->padding != PaddingContents::kRowIndependent) return claim->padding;
  return FloatFormat::Of(input.dtype) ? PaddingContents::kAny : PaddingContents::kFill;
}

Equality EqualityOf(const ProgramSpec& spec) {
  Equality equal;
  for (int symbol = 0; symbol < static_cast<int>(spec.symbols.size()); ++symbol)
    if (internal::HasPadding(spec, symbol)) equal = Joined(equal, ClaimOf(spec, symbol)->equal);
  return equal;
}

bool internal::HasPadding(const ProgramSpec& spec, int symbol) {
  const auto pads = [symbol](const RaggedSpec& sequences) {
    return symbol == sequences.total ||
           (sequences.is_rectangle() && (symbol == sequences.count || symbol == sequences.length));
  };
  return MayPad(spec, symbol) || std::ranges::any_of(spec.ragged, pads);
}

uint32_t internal::SymbolsOf(const ProgramSpec& spec,
                             const std::vector<Expression>& extents,
                             const Dim& dim) {
  if (dim.is_fixed()) return 0;
  if (dim.kind != Dim::Kind::kExtent) return uint32_t{1} << dim.index;
  uint32_t symbols = 0;
  for (const size_t name : extents[static_cast<size_t>(dim.index)].Reads())
    if (name < spec.symbols.size()) symbols |= uint32_t{1} << name;
  return symbols;
}

absl::Status internal::CheckClaim(const ProgramSpec& spec, int index) {
  const SymbolSpec& symbol = SymbolAt(spec, index);
  if (!ClaimOf(spec, index) && symbol.kind == SymbolKind::kDynamic && !symbol.policy.is_exact())
    return InvalidArgument(
        "ValidateSpec: program {}: symbol {} is padded by {}, but has no claim, and the program "
        "claims to be exact; say what its padding may hold, claim row independence or masking for "
        "all symbols, or use an exact policy",
        spec.name, symbol.name, symbol.policy.name());
  if (!symbol.claim) return absl::OkStatus();
  const Equality& equal = symbol.claim->equal;
  const auto is_bound = [](double bound) { return std::isfinite(bound) && bound >= 0; };
  if (!is_bound(equal.absolute) || !is_bound(equal.relative))
    return InvalidArgument(
        "ValidateSpec: program {}: symbol {} claims live outputs within {} + {} x |value|; give "
        "finite numbers that are not negative",
        spec.name, symbol.name, equal.absolute, equal.relative);
  if (equal.bits && (equal.absolute != 0 || equal.relative != 0))
    return InvalidArgument(
        "ValidateSpec: program {}: symbol {} claims both equal bits and a tolerance of {} + "
        "{} x |value|; choose one of the two",
        spec.name, symbol.name, equal.absolute, equal.relative);
  return absl::OkStatus();
}

absl::Status internal::CheckFills(const ProgramSpec& spec, const std::vector<Expression>& extents) {
  for (const InputSpec& input : spec.inputs) {
    if (input.role == InputRole::kStatic || input.fill != Fill::Undefined()) continue;
    uint32_t symbols = 0;
    for (const Dim& dim : input.dims)
      symbols |= SymbolsOf(spec, extents, dim);
    for (int symbol = 0; symbol < static_cast<int>(spec.symbols.size()); ++symbol) {
      const std::optional<PaddingClaim> claim = ClaimOf(spec, symbol);
      if ((symbols >> symbol & 1) == 0 || !HasPadding(spec, symbol)) continue;
      if (!claim || claim->padding == PaddingContents::kAny ||
          claim->padding == PaddingContents::kRowIndependent)
        continue;
      return InvalidArgument(
          "ValidateSpec: program {}: input {} leaves its padding unfilled, but symbol {} claims "
          "{}; give the input a fill, or claim any bits",
          spec.name, input.name, SymbolAt(spec, symbol).name, DescribeClaim(*claim));
    }
  }
  return absl::OkStatus();
}

}  // namespace coppice
