// Bytes that somebody has been charged for. Private to graphs/.
//
// Units: bytes. Threads: as the budget, which outlives it.

#pragma once

#include <cstdint>
#include <utility>

#include "coppice/allocator/budget.h"

namespace coppice::internal {

// Bytes of an account of the pool's budget, given back when this goes.
class BudgetCharge {
 public:
  BudgetCharge() = default;
  // Of bytes that were charged.
  BudgetCharge(Budget& budget, int account, int64_t bytes)
      : budget_(&budget), account_(account), bytes_(bytes) {}
  BudgetCharge(BudgetCharge&& other) noexcept
      : budget_(std::exchange(other.budget_, nullptr)),
        account_(other.account_),
        bytes_(std::exchange(other.bytes_, 0)) {}
  BudgetCharge& operator=(BudgetCharge&&) = delete;
  ~BudgetCharge() {
    if (budget_ != nullptr) budget_->Discharge(account_, bytes_);
  }

  int64_t bytes() const { return bytes_; }
  // Whoever asked for the charge gives it back by himself.
  void Keep() { budget_ = nullptr; }

 private:
  Budget* budget_ = nullptr;
  int account_ = 0;
  int64_t bytes_ = 0;
};

}  // namespace coppice::internal
