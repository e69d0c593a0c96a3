// Compares what a replayed step gave with what the reference gave, and keeps the differences.
//
// On the host the two must agree bit for bit. On CUDA a float may differ from its reference r by
// bound x (1 + |r|), and a token counts as right if its reference logit is within that of the best.
//
// Threads: one at a time.

#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace coppice {

// What is compared, for the description of a mismatch.
struct Comparison {
  int64_t step = 0;
  int64_t request = 0;
  const char* program = "";
  int64_t bucket = 0;     // Padded extent; 0 if the step ran unpadded.
  const char* what = "";  // "logits", "next token", "keys", "values".
  bool exact = false;     // Asks for equal bits, whatever the bound.
};

class Verifier {
 public:
  static constexpr int kDescriptionsMax = 5;

  // `bound` >= 0; 0 asks for equal bits.
  explicit Verifier(double bound) : bound_(bound) {}

  // Both spans have the same length (checked). Counts at most one mismatch.
  void CompareFloats(const Comparison& comparison,
                     std::span<const float> expected,
                     std::span<const float> actual);

  // `logits` are the reference's, one per token of the vocabulary.
  void CompareToken(const Comparison& comparison,
                    std::span<const float> logits,
                    int32_t expected,
                    int32_t actual);

  double bound() const { return bound_; }
  int64_t comparisons() const { return comparisons_; }
  int64_t mismatches() const { return mismatches_; }

  // One line for each of the first mismatches.
  const std::vector<std::string>& descriptions() const { return descriptions_; }

 private:
  double BoundOf(const Comparison& comparison) const { return comparison.exact ? 0 : bound_; }
  void AddMismatch(const Comparison& comparison, const std::string& difference);

  const double bound_;
  int64_t comparisons_ = 0;
  int64_t mismatches_ = 0;
  std::vector<std::string> descriptions_;
};

}  // namespace coppice
