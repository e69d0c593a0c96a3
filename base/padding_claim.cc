// Claims in words, and elements compared under them.

#include "coppice/base/padding_claim.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <iterator>
#include <system_error>
#include <vector>

#include "fmt/format.h"

#include "coppice/base/check.h"
#include "coppice/base/float_format.h"
#include "coppice/base/status.h"

namespace coppice {
namespace {

// Whether two numbers are as near as `equal` asks for.
bool IsNear(const Equality& equal, double expected, double actual) {
  if (std::isnan(expected) || std::isnan(actual)) return std::isnan(expected) && std::isnan(actual);
  if (expected == actual) return true;
  if (std::isinf(expected) || std::isinf(actual)) return false;
  return std::fabs(expected - actual) <= equal.absolute + equal.relative * std::fabs(expected);
}

bool IsSigned(DType dtype) {
  return dtype == DType::kInt8 || dtype == DType::kInt16 || dtype == DType::kInt32 ||
         dtype == DType::kInt64;
}

// The difference is exact where doubles would round it away.
bool IsNearInteger(const Equality& equal, DType dtype, uint64_t expected, uint64_t actual) {
  if (IsSigned(dtype)) {
    const int unused = 64 - 8 * static_cast<int>(SizeOf(dtype));
    const auto extended = [unused](uint64_t bits) {
      return static_cast<int64_t>(bits << unused) >> unused;
    };
    const int64_t wanted = extended(expected);
    const int64_t got = extended(actual);
    const uint64_t distance = wanted < got
                                  ? static_cast<uint64_t>(got) - static_cast<uint64_t>(wanted)
                                  : static_cast<uint64_t>(wanted) - static_cast<uint64_t>(got);
    return static_cast<double>(distance) <=
           equal.absolute + equal.relative * std::fabs(static_cast<double>(wanted));
  }
  const uint64_t distance = expected < actual ? actual - expected : expected - actual;
  return static_cast<double>(distance) <=
         equal.absolute + equal.relative * static_cast<double>(expected);
}

std::vector<std::string_view> SplitAtColons(std::string_view text) {
  std::vector<std::string_view> parts;
  for (size_t colon = text.find(':'); colon != text.npos; colon = text.find(':')) {
    parts.push_back(text.substr(0, colon));
    text.remove_prefix(colon + 1);
  }
  parts.push_back(text);
  return parts;
}

std::optional<double> ToleranceIn(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  return whole && value >= 0 && std::isfinite(value) ? std::optional(value) : std::nullopt;
}

std::string_view InWords(PaddingContents contents) {
  switch (contents) {
    case PaddingContents::kAny:
      return "any bits";
    case PaddingContents::kFinite:
      return "finite values";
    case PaddingContents::kFill:
      return "exactly its fill";
    case PaddingContents::kRowIndependent:
      return "any bits in floats and the fill in integers";
  }
  return "?";
}

}  // namespace

const char* NameOf(PaddingContents contents) {
  switch (contents) {
    case PaddingContents::kAny:
      return "any";
    case PaddingContents::kFinite:
      return "finite";
    case PaddingContents::kFill:
      return "fill";
    case PaddingContents::kRowIndependent:
      return "row_independent";
  }
  return "?";
}

absl::StatusOr<std::optional<PaddingClaim>> ParseClaim(std::string_view text) {
  const auto no_claim = [&] {
    return InvalidArgument(
        "'{}' is not a claim about padding; give exact, any, masked, row_independent, finite or "
        "fill; all but exact take a tolerance, such as finite:1e-5 (absolute) or finite:1e-5:1e-4 "
        "(absolute, then relative)",
        text);
  };
  const std::vector<std::string_view> parts = SplitAtColons(text);
  if (parts.size() > 3) return no_claim();
  PaddingClaim claim;
  claim.equal.bits = parts.size() == 1;
  double* const tolerances[] = {&claim.equal.absolute, &claim.equal.relative};
  for (size_t i = 1; i < parts.size(); ++i) {
    const std::optional<double> tolerance = ToleranceIn(parts[i]);
    if (!tolerance) return no_claim();
    *tolerances[i - 1] = *tolerance;
  }
  if (parts[0] == "exact" && claim.equal.bits) return std::nullopt;
  constexpr PaddingContents kContents[] = {PaddingContents::kAny, PaddingContents::kFinite,
                                           PaddingContents::kFill,
                                           PaddingContents::kRowIndependent};
  const std::string_view word = parts[0] == "masked" ? "any" : parts[0];
  const auto* const found = std::ranges::find(
      kContents, word, [](PaddingContents contents) { return std::string_view(NameOf(contents)); });
  if (found == std::end(kContents)) return no_claim();
  claim.padding = *found;
  return claim;
}

std::string DescribeClaim(const PaddingClaim& claim) {
  const std::string_view contents = InWords(claim.padding);
  if (claim.equal.bits) return fmt::format("{}, live outputs equal bit for bit", contents);
  return fmt::format("{}, live outputs within {:g} + {:g} x |value|", contents,
                     claim.equal.absolute, claim.equal.relative);
}

Equality Joined(const Equality& a, const Equality& b) {
  if (a.bits) return b;
  if (b.bits) return a;
  return {.bits = false, .absolute = a.absolute + b.absolute, .relative = a.relative + b.relative};
}

bool Agree(const Equality& equal, DType dtype, uint64_t expected, uint64_t actual) {
  if (expected == actual) return true;
  if (equal.bits || dtype == DType::kBool) return false;
  const std::optional<FloatFormat> format = FloatFormat::Of(dtype);
  if (!format) return IsNearInteger(equal, dtype, expected, actual);
  const auto near = [&](uint64_t wanted, uint64_t got) {
    return IsNear(equal, format->NumberOf(wanted), format->NumberOf(got));
  };
  if (dtype != DType::kComplex64) return near(expected, actual);
  constexpr uint64_t kPart = 0xFFFF'FFFF;
  return near(expected & kPart, actual & kPart) && near(expected >> 32, actual >> 32);
}

std::optional<int64_t> FindDisagreement(const Equality& equal,
                                        DType dtype,
                                        std::span<const std::byte> expected,
                                        std::span<const std::byte> actual) {
  const auto width = static_cast<size_t>(SizeOf(dtype));
  COPPICE_CHECK(expected.size() == actual.size() && width > 0 && expected.size() % width == 0,
                "both tensors must have the same number of bytes, in whole elements");
  if (expected.empty() || std::memcmp(expected.data(), actual.data(), expected.size()) == 0)
    return std::nullopt;
  for (size_t at = 0; at < expected.size(); at += width) {
    uint64_t wanted = 0;
    uint64_t got = 0;
    std::memcpy(&wanted, expected.data() + at, width);
    std::memcpy(&got, actual.data() + at, width);
    if (!Agree(equal, dtype, wanted, got)) return static_cast<int64_t>(at / width);
  }
  return std::nullopt;
}

}  // namespace coppice
