// How much time per call the copies of a flight recorder may take. Private to graphs/.
//
// Each call that has copies earns the limit, and pays what its copies cost. A call that finds debt
// makes none. So over any number of calls the mean is at most the limit, but for the cost of one
// call, and large calls make copies less often than small ones.
//
// Units: nanoseconds, bytes. Threads: the lane's lock.

#pragma once

#include <algorithm>
#include <cstdint>

#include "absl/status/statusor.h"

#include "coppice/runtime/driver.h"

namespace coppice::internal {

// What copies from the device to the host take on their stream.
struct CopyCost {
  double ns_per_copy = 0;
  double ns_per_byte = 0;

  double Of(int64_t copies, int64_t bytes) const {
    return static_cast<double>(copies) * ns_per_copy + static_cast<double>(bytes) * ns_per_byte;
  }
};

// Times copies of two sizes by the device's clock, on a stream of its own. Errors: the driver's.
absl::StatusOr<CopyCost> MeasureCopies(const Driver& driver);

class CopyBudget {
 public:
  CopyBudget() = default;  // No limit.
  CopyBudget(double limit_ns, CopyCost cost) : limit_ns_(limit_ns), cost_(cost) {}

  bool has_limit() const { return limit_ns_ > 0; }

  // For each call that has copies: whether it may make them.
  bool Earn() {
    if (!has_limit()) return true;
    credit_ns_ = std::min(credit_ns_, 0.0) + limit_ns_;
    skipped_ += credit_ns_ <= 0 ? 1 : 0;
    return credit_ns_ > 0;
  }
  // It makes them.
  void Pay(int64_t copies, int64_t bytes) { credit_ns_ -= cost_.Of(copies, bytes); }

  int64_t skipped() const { return skipped_; }  // Calls that found debt.

 private:
  double limit_ns_ = 0;
  CopyCost cost_;
  double credit_ns_ = 0;
  int64_t skipped_ = 0;
};

}  // namespace coppice::internal
