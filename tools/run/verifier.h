// Compares what a replayed step gave with what the reference gave, and keeps the differences.
//
// The two must agree as the program's padding claims say: bit for bit, or within a tolerance. On
// CUDA a float may differ from its reference r by bound x (1 + |r|) more. Where there is any such
// room, a token counts as right if its reference logit is within that of the best.
//
// Threads: one at a time.

#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "coppice/base/padding_claim.h"

namespace coppice {

// What is compared, for the description of a mismatch.
struct Comparison {
  int64_t step = 0;
  int64_t request = 0;
  const char* program = "";
  int64_t bucket = 0;     // Padded extent; 0 if the step ran unpadded.
  const char* what = "";  // "logits", "next token", "keys", "values".
  Equality claimed;       // What the program claims; see EqualityOf.
  bool exact = false;     // Asks for what is claimed, whatever the bound.
};

class Verifier {
 public:
  static constexpr int kDescriptionsMax = 5;

  // `bound` >= 0; 0 asks for what is claimed.
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
  Equality EqualityIn(const Comparison& comparison) const;
  void AddMismatch(const Comparison& comparison, const std::string& difference);

  const double bound_;
  int64_t comparisons_ = 0;
  int64_t mismatches_ = 0;
  std::vector<std::string> descriptions_;
};

}  // namespace coppice
