// What steps brought, and what it was padded to.
//
// Units: padding in points, 100 x (padded - real) / real. Threads: plain values.

#pragma once

#include <cstdint>
#include <optional>

#include "coppice/padding/padding_policy.h"

namespace coppice {

// A step without a bucket, as a guard refuses it, has no graph and no part in the sums.
struct PaddedSum {
  int64_t real = 0;
  int64_t padded = 0;
  int64_t without = 0;  // Steps that had no bucket.

  void Add(int64_t extent, const PaddingPolicy& policy) {
    const std::optional<int64_t> bucket = policy.Find(extent);
    real += bucket ? extent : 0;
    padded += bucket.value_or(0);
    without += bucket ? 0 : 1;
  }

  double waste_pct() const {
    return real > 0 ? 100 * static_cast<double>(padded - real) / static_cast<double>(real) : 0;
  }
};

}  // namespace coppice
