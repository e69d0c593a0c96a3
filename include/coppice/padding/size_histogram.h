// Counts how many calls had each size. Buckets are learned from such a histogram, and scored with
// it.
//
// Counts are real numbers, so that old traffic may weigh less than new.
//
// Units: sizes count elements along one dynamic axis; counts are calls.
// Threads: none of its own; const methods may run at the same time.

#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"

namespace coppice {

struct SizeCount {
  int64_t size = 0;  // >= 0.
  double count = 0;  // Calls. > 0, finite.

  friend bool operator==(const SizeCount&, const SizeCount&) = default;
};

class SizeHistogram {
 public:
  // An empty histogram.
  SizeHistogram() = default;

  // Sizes may be in any order; the counts of a repeated size are added. Errors: kInvalidArgument a
  // size below 0, a count that is not above 0 or not finite, or a sum of counts that is not finite.
  // Cost: sorts; allocates.
  static absl::StatusOr<SizeHistogram> From(std::span<const SizeCount> counts);
  // One call per size. Errors: kInvalidArgument  a size below 0.
  static absl::StatusOr<SizeHistogram> FromSizes(std::span<const int64_t> sizes);

  // Adds calls of one size. Requires: size >= 0, count > 0 and finite (checked). Cost: a binary
  // search; for a new size also O(sizes), so give many sizes to From at once.
  void Add(int64_t size, double count = 1);

  // Sorted by size, each size once.
  const std::vector<SizeCount>& counts() const { return counts_; }
  bool empty() const { return counts_.empty(); }
  // Calls of all sizes.
  double mass() const { return mass_; }
  // The largest size, or 0 if there are no calls.
  int64_t largest() const { return counts_.empty() ? 0 : counts_.back().size; }

 private:
  std::vector<SizeCount> counts_;
  double mass_ = 0;
};

}  // namespace coppice
