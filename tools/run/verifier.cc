// Compares bits, or values within a bound.

#include "tools/run/verifier.h"

#include <algorithm>
#include <bit>
#include <optional>

#include "fmt/format.h"

#include "coppice/base/check.h"

namespace coppice {
namespace {

bool AgreeFloats(const Equality& equal, float expected, float actual) {
  return Agree(equal, DType::kFloat32, std::bit_cast<uint32_t>(expected),
               std::bit_cast<uint32_t>(actual));
}

}  // namespace

Equality Verifier::EqualityIn(const Comparison& comparison) const {
  if (comparison.exact || bound_ == 0) return comparison.claimed;
  return Joined(comparison.claimed, {.bits = false, .absolute = bound_, .relative = bound_});
}

void Verifier::CompareFloats(const Comparison& comparison,
                             std::span<const float> expected,
                             std::span<const float> actual) {
  COPPICE_CHECK(expected.size() == actual.size(), "spans of different lengths");
  ++comparisons_;
  const std::optional<int64_t> index = FindDisagreement(
      EqualityIn(comparison), DType::kFloat32, std::as_bytes(expected), std::as_bytes(actual));
  if (!index) return;
  const float wanted = expected[static_cast<size_t>(*index)];
  const float got = actual[static_cast<size_t>(*index)];
  AddMismatch(comparison,
              fmt::format("index {}: {} (0x{:08x}) for {} (0x{:08x})", *index, got,
                          std::bit_cast<uint32_t>(got), wanted, std::bit_cast<uint32_t>(wanted)));
}

void Verifier::CompareToken(const Comparison& comparison,
                            std::span<const float> logits,
                            int32_t expected,
                            int32_t actual) {
  ++comparisons_;
  if (expected == actual) return;
  const bool known = actual >= 0 && static_cast<size_t>(actual) < logits.size();
  const Equality equal = EqualityIn(comparison);
  if (!equal.bits && known) {
    const float best = *std::max_element(logits.begin(), logits.end());
    if (AgreeFloats(equal, best, logits[static_cast<size_t>(actual)])) return;
  }
  AddMismatch(comparison, fmt::format("{} for {}", actual, expected));
}

void Verifier::AddMismatch(const Comparison& comparison, const std::string& difference) {
  ++mismatches_;
  if (descriptions_.size() >= kDescriptionsMax) return;
  descriptions_.push_back(fmt::format("step {}, request {}, {} bucket {}, {}: {}", comparison.step,
                                      comparison.request, comparison.program, comparison.bucket,
                                      comparison.what, difference));
}

}  // namespace coppice
