// Compares bits, or values within a bound.

#include "tools/run/verifier.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "fmt/format.h"

#include "coppice/base/check.h"

namespace coppice {
namespace {

bool Agree(float expected, float actual, double bound) {
  if (std::bit_cast<uint32_t>(expected) == std::bit_cast<uint32_t>(actual)) return true;
  // A NaN fails the comparison, whatever the bound.
  return bound > 0 && std::abs(double{expected} - actual) <= bound * (1 + std::abs(expected));
}

}  // namespace

void Verifier::CompareFloats(const Comparison& comparison,
                             std::span<const float> expected,
                             std::span<const float> actual) {
  COPPICE_CHECK(expected.size() == actual.size(), "spans of different lengths");
  ++comparisons_;
  if (std::memcmp(expected.data(), actual.data(), expected.size_bytes()) == 0) return;
  for (size_t i = 0; i < expected.size(); ++i) {
    if (Agree(expected[i], actual[i], BoundOf(comparison))) continue;
    AddMismatch(comparison, fmt::format("index {}: {} (0x{:08x}) for {} (0x{:08x})", i, actual[i],
                                        std::bit_cast<uint32_t>(actual[i]), expected[i],
                                        std::bit_cast<uint32_t>(expected[i])));
    return;
  }
}

void Verifier::CompareToken(const Comparison& comparison,
                            std::span<const float> logits,
                            int32_t expected,
                            int32_t actual) {
  ++comparisons_;
  if (expected == actual) return;
  const bool known = actual >= 0 && static_cast<size_t>(actual) < logits.size();
  if (BoundOf(comparison) > 0 && known) {
    const float best = *std::max_element(logits.begin(), logits.end());
    if (Agree(best, logits[static_cast<size_t>(actual)], bound_)) return;
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
