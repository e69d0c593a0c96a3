// Padding policy: maps a call's dynamic extent to one of a few buckets.
//
// A bucket is a static extent that one CUDA graph is recorded for. A call of extent n runs in the
// smallest bucket b >= n; the b - n trailing elements are padding, and kernels must not let them
// reach a visible result. Few buckets waste work on padding; many waste memory on graphs.
//
//   pow2, maximum 48       1 2 4 8 16 32 48               the maximum is always a bucket
//   linear:16              16 32 48
//   geometric:1.5:8        8 16 24 40 48                  each >= 1.5 x the last, multiples of 8
//   ramp:4:16              4 8 16 32 48                   doubling up to the step, then by the step
//   1,2,4,48               as written; 48 is added if it is missing
//   exact                  every extent is its own bucket
//   vllm, tpu:256, ...     the buckets of other systems (padding_presets.h)
//
// A guard keeps calls out of buckets that would be mostly padding. These calls run without a graph,
// as do calls above the maximum.
//
// Units: extents count elements along the dynamic axis; nothing in this file is in bytes.
// Threads: immutable once created; every const method may be called from any thread.

#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "coppice/base/check.h"

namespace coppice {

// Limits on padding: a policy refuses these calls although a bucket holds them.
struct PaddingGuard {
  // A call is refused if its bucket is larger than this number times its extent; 0: no limit.
  double max_ratio = 0;  // 0, or >= 1 and finite.
  // The ratio does not apply to extents below this.
  int64_t min_replay_size = 0;  // >= 0.
  // Per bucket, the smallest extent that it serves; empty: no limit. The ratio applies, too.
  std::vector<int64_t> lower_bounds;  // Each in [0, its bucket].

  friend bool operator==(const PaddingGuard&, const PaddingGuard&) = default;
};

// Why an extent has no bucket.
enum class NoBucket : uint8_t {
  kBeyondMaximum,  // It is above the maximum.
  kPaddedTooMuch,  // The guard refuses its bucket.
};

class PaddingPolicy {
 public:
  // Largest maximum a policy may have: the dense table below takes 4 bytes per extent.
  static constexpr int64_t kExtentMax = int64_t{1} << 24;

  // Each factory makes a ladder whose last bucket is `maximum`.
  // Errors: kInvalidArgument if `maximum` is outside [1, kExtentMax] or an argument is outside the
  // range that is given here.
  static absl::StatusOr<PaddingPolicy> Exact(int64_t maximum);
  static absl::StatusOr<PaddingPolicy> Linear(int64_t step, int64_t maximum);  // step >= 1.
  static absl::StatusOr<PaddingPolicy> Pow2(int64_t maximum);
  // Buckets grow by at least `ratio` (in (1, 16]). All except the last are multiples of `align` (>=
  // 1).
  static absl::StatusOr<PaddingPolicy> Geometric(double ratio, int64_t align, int64_t maximum);
  // Doubles from `minimum` (>= 1) up to `step` (>= minimum), which is a bucket, then grows by
  // `step`.
  static absl::StatusOr<PaddingPolicy> Ramp(int64_t minimum, int64_t step, int64_t maximum);
  // Any positive extents in any order, at least one. Repeats are dropped; extents above `maximum`
  // are an error.
  static absl::StatusOr<PaddingPolicy> List(std::span<const int64_t> buckets, int64_t maximum);

  // Parses the spellings in the table above: a name with all its arguments after colons
  // (`geometric` alone means 1.25:1, `linear` 16, `ramp` 4:16, `tpu` 256), the name of a preset, or
  // a comma-separated list. The whole text must match; numbers have no sign and no exponent.
  // Errors: kInvalidArgument; the message quotes the text and lists the spellings.
  static absl::StatusOr<PaddingPolicy> Parse(const std::string& text, int64_t maximum);

  // The same ladder with this guard instead of its own. Errors: kInvalidArgument a field of the
  // guard is outside its range, the number of lower bounds is not that of buckets, or the policy is
  // `exact`.
  // Cost: O(maximum); allocates.
  absl::StatusOr<PaddingPolicy> WithGuard(const PaddingGuard& guard) const;

  // Returns the smallest bucket that holds `extent`, or nullopt if it is above the maximum or the
  // guard refuses it. nullopt is an ordinary outcome: the caller runs that call eagerly, without a
  // graph. Extent 0 has bucket `buckets().front()`. Requires: extent >= 0 (checked). Cost: O(1),
  // one table read; never allocates.
  std::optional<int64_t> Find(int64_t extent) const {
    COPPICE_CHECK(extent >= 0, "an extent is negative");
    if (extent > maximum_) return std::nullopt;
    if (table_.empty()) return extent > 0 ? extent : 1;
    const int32_t bucket = table_[static_cast<size_t>(extent)];
    if (bucket < 0) return std::nullopt;
    return bucket;
  }

  // Why Find returns nullopt. Requires: it does (checked). Cost: O(1).
  NoBucket WhyNone(int64_t extent) const;

  // The ladder, strictly increasing and never empty; for `exact`, every extent from 1 to the
  // maximum. Cost: allocates for `exact`.
  std::vector<int64_t> buckets() const;

  int64_t maximum() const { return maximum_; }
  bool is_exact() const { return table_.empty(); }
  // The spelling that Parse reads back, without the guard.
  const std::string& name() const { return name_; }
  const PaddingGuard& guard() const { return guard_; }

 private:
  PaddingPolicy(std::string name, std::vector<int64_t> ladder, int64_t maximum);

  std::string name_;
  std::vector<int64_t> ladder_;  // Empty for `exact`; else increasing, and its last is maximum_.
  std::vector<int32_t> table_;   // Extent to bucket, negative if refused; empty for `exact`.
  int64_t maximum_ = 0;
  PaddingGuard guard_;
};

}  // namespace coppice
