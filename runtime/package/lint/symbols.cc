// What can be said of symbols by themselves.

#include <algorithm>
#include <string>

#include "fmt/format.h"

#include "runtime/package/lint/program_lint.h"

namespace coppice::package {
namespace {

void LintRange(ProgramLint& lint, size_t index, const Place& place) {
  const Symbol& symbol = lint.program.symbols[index];
  const SizeRange range = RangeOf(symbol);
  if (range.least > range.greatest)
    lint.report.Error(
        "symbol-range", place, fmt::format("[{}, {}]", symbol.min, symbol.max),
        fmt::format("this range has no multiple of {} that is 0 or greater", symbol.multiple_of),
        "correct min, max or multiple_of");
}

void LintBuckets(ProgramLint& lint, const Symbol& symbol, const Place& place) {
  const SizeRange range = RangeOf(symbol);
  if ((symbol.buckets_pow2 || !symbol.buckets.empty()) && !symbol.claim)
    lint.report.Add(Severity::kWarning, "bucket-claim", place,
                    symbol.buckets_pow2 ? "pow2" : fmt::format("{} sizes", symbol.buckets.size()),
                    "a symbol without a claim is never padded, so its buckets are not used",
                    "add a claim, or leave the buckets out");
  if (symbol.buckets_pow2 && symbol.claim && BucketsOf(symbol).empty())
    lint.report.Error("bucket-range", place, "pow2",
                      fmt::format("no power of two is a multiple of {} in [{}, {}]",
                                  symbol.multiple_of, range.least, range.greatest),
                      "list the sizes");
}

// Whether `buffer` has an axis whose size reads the symbol.
bool HasSymbol(const Buffer& buffer, size_t symbol) {
  return std::any_of(buffer.shape.begin(), buffer.shape.end(), [&](const Amount& size) {
    if (!size.expression) return false;
    const std::vector<size_t> reads = size.expression->Reads();
    return std::find(reads.begin(), reads.end(), symbol) != reads.end();
  });
}

void LintClaim(ProgramLint& lint, size_t index, const Place& place) {
  const PaddingClaim& claim = *lint.program.symbols[index].claim;
  if (!claim.equal.bits && claim.equal.absolute == 0 && claim.equal.relative == 0)
    lint.report.Add(Severity::kWarning, "claim-tolerance", place / "equal", "0",
                    "a tolerance of 0 means equal bits, except for the sign of zeros",
                    "write \"bits\", or a larger tolerance");
  if (claim.padding != PaddingContents::kFill) return;
  for (const int input : lint.program.inputs) {
    const Buffer& buffer = lint.buffer(input);
    if (HasSymbol(buffer, index) && buffer.fill.kind == FillKind::kUndefined && !buffer.is_static)
      lint.report.Error("claim-fill", lint.PlaceOf(buffer) / "fill", "undefined",
                        fmt::format("the claim of symbol {} depends on the fill of this input's "
                                    "padding, but the input has no fill",
                                    lint.program.symbols[index].name),
                        "give the input a fill, or change the claim if any padding works");
  }
}

}  // namespace

void LintSymbols(ProgramLint& lint) {
  for (size_t i = 0; i < lint.program.symbols.size(); ++i) {
    const Symbol& symbol = lint.program.symbols[i];
    const Place place = lint.place / "symbols" / symbol.name;
    LintRange(lint, i, place);
    LintBuckets(lint, symbol, place / "buckets");
    if (symbol.claim) LintClaim(lint, i, place / "claim");
  }
}

}  // namespace coppice::package
