// How much time per call the copies of a flight recorder may take. Private to graphs/.
//
// Each call that has copies earns the limit, and pays what its copies cost. A call that finds debt
// is not kept. So over any number of calls the mean is at most the limit, but for the cost of one
// call, and large calls are kept less often than small ones.
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

  // Whether a call may make these copies, which are paid then.
  bool Take(int64_t copies, int64_t bytes) {
    if (!has_limit() || copies == 0) return true;
    credit_ns_ = std::min(credit_ns_, 0.0) + limit_ns_;
    if (credit_ns_ <= 0) {
      ++skipped_;
      return false;
    }
    credit_ns_ -= cost_.Of(copies, bytes);
    return true;
  }

  int64_t skipped() const { return skipped_; }  // Calls that found debt.

 private:
  double limit_ns_ = 0;
  CopyCost cost_;
  double credit_ns_ = 0;
  int64_t skipped_ = 0;
};

}  // namespace coppice::internal
