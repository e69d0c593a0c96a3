// What can be said of symbols by themselves.

#include <algorithm>
#include <string>

#include "fmt/format.h"

#include "runtime/package/lint/program_lint.h"

namespace coppice::package {
namespace {

// Whether an axis of an input says the symbol's size: its size is the bare name.
bool HasAxis(const ProgramLint& lint, size_t symbol) {
  const std::string& name = lint.program.symbols[symbol].name;
  return std::any_of(lint.program.inputs.begin(), lint.program.inputs.end(), [&](int input) {
    const std::vector<Amount>& shape = lint.buffer(input).shape;
    return std::any_of(shape.begin(), shape.end(), [&](const Amount& size) {
      return size.expression && size.expression->text() == name;
    });
  });
}

void LintRange(ProgramLint& lint, size_t index, const Place& place) {
  const Symbol& symbol = lint.program.symbols[index];
  const SizeRange range = RangeOf(symbol);
  if (symbol.min < 0 || range.least > range.greatest)
    lint.report.Error(
        "symbol-range", place, fmt::format("[{}, {}]", symbol.min, symbol.max),
        fmt::format("no multiple of {} that is 0 or greater lies in it", symbol.multiple_of),
        "correct min, max or multiple_of");
  else if (symbol.hint >= 0 && (symbol.hint < range.least || symbol.hint > range.greatest))
    lint.report.Add(
        Severity::kWarning, "symbol-hint", place / "hint", std::to_string(symbol.hint),
        fmt::format("{} is at least {} and at most {}", symbol.name, range.least, range.greatest),
        "give a hint that a call can have");
  if (symbol.scalar < 0 && !HasAxis(lint, index))
    lint.report.Error("symbol-source", place, symbol.name,
                      "no axis of an input has this name as its size, so no call says it",
                      "name the symbol in the shape of an input, or give it \"from\"");
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
  for (size_t i = 0; i < symbol.buckets.size(); ++i) {
    const int64_t bucket = symbol.buckets[i];
    if (bucket < range.least || bucket > range.greatest)
      lint.report.Error(
          "bucket-range", place / i, std::to_string(bucket),
          fmt::format("{} is at least {} and at most {}", symbol.name, range.least, range.greatest),
          "list sizes in the range of the symbol");
    else if (bucket % StepOf(symbol) != 0)
      lint.report.Error("bucket-multiple", place / i, std::to_string(bucket),
                        fmt::format("not a multiple of {}", symbol.multiple_of),
                        "list multiples of multiple_of");
  }
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
                    "a tolerance of nothing means equal bits but for the sign of zeros",
                    "write \"bits\", or the tolerance");
  if (claim.padding != PaddingContents::kFill) return;
  for (const int input : lint.program.inputs) {
    const Buffer& buffer = lint.buffer(input);
    if (HasSymbol(buffer, index) && buffer.fill == FillKind::kUndefined && !buffer.is_static)
      lint.report.Error("claim-fill", lint.PlaceOf(buffer) / "fill", "undefined",
                        fmt::format("the claim of symbol {} rests on what fills this input's "
                                    "padding, and nothing does",
                                    lint.program.symbols[index].name),
                        "give the input a fill, or prove that any padding does");
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
  for (const int input : lint.program.inputs) {
    const Buffer& buffer = lint.buffer(input);
    for (size_t i = 0; i < lint.program.symbols.size(); ++i)
      if (buffer.is_static && HasSymbol(buffer, i))
        lint.report.Error("static-shape", lint.PlaceOf(buffer) / "shape",
                          lint.program.symbols[i].name,
                          "a static input lies where it always lies, and has one size",
                          "write its size as a number, or do not call it static");
  }
}

}  // namespace coppice::package
