// The budget: how many bytes each account has, and how many all accounts may have together.
//
// It knows nothing about devices and clients: accounts are numbers, and the owner of the budget
// gives them a meaning. Bytes are admitted first, and booked afterwards. Bytes that would exceed
// the limit are refused. That is not an error; the caller makes room. A caller that does not know
// yet which account its bytes will belong to *holds* as many as it may need, so that no other
// caller gets them. It settles the hold when it knows.
//
//   limit   |-------------------------------------------|
//           | account 0 | account 1 | held |    room    |
//             booked: total()
//
// Units: bytes. Threads: every method from any thread; one lock guards the numbers. It is held for
// a few additions and during `on_change`.

#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <span>
#include <vector>

namespace coppice {

// Whether bytes were admitted, and if not, how many were missing.
struct [[nodiscard]] Admission {
  int64_t missing = 0;  // 0: admitted.

  bool admitted() const { return missing == 0; }
  friend bool operator==(const Admission&, const Admission&) = default;
};

// The numbers of a budget at one moment.
struct BudgetUsage {
  std::vector<int64_t> bytes;  // By account.
  std::vector<int64_t> peaks;  // The most that each account ever had.
  int64_t total = 0;           // Sum of `bytes`.
  int64_t total_peak = 0;
  int64_t limit = 0;  // The most that the total may be; 0: no limit.

  friend bool operator==(const BudgetUsage&, const BudgetUsage&) = default;
};

class Budget {
 public:
  struct Options {
    int accounts = 1;   // >= 1.
    int64_t limit = 0;  // The most that all accounts together may have; 0: no limit.
    // Called after every change, in order, with the account, its new bytes and the new total; may
    // be null. Called under the budget's lock, so it must not call the budget, nor anything that
    // uses it.
    std::function<void(int account, int64_t bytes, int64_t total)> on_change{};
  };
  struct Change {
    int account = 0;
    int64_t bytes = 0;  // Added to the account; may be negative.
  };

  // Requires: options in range (checked).
  explicit Budget(Options options);
  Budget(const Budget&) = delete;
  Budget& operator=(const Budget&) = delete;

  // Books bytes to an account, or changes nothing and says how many are missing. A total that
  // overflows an int64 is refused, too, with or without a limit. Requires: an account, bytes >= 0
  // (checked).
  Admission Charge(int account, int64_t bytes);
  // Removes bytes from an account. Requires: it has them (checked).
  void Discharge(int account, int64_t bytes);

  // Like Charge, but without an account: if admitted, no other caller gets these bytes until
  // Settle. No account and no total includes them. Requires: bytes >= 0 (checked).
  Admission Hold(int64_t bytes);
  // Ends a hold of `held` bytes, and makes these changes one after another. Requires: the bytes
  // were held; after each change, the sum of the changes so far is at most `held`, and no account
  // is below 0 (all checked). So to move bytes, first take them from one account.
  void Settle(int64_t held, std::span<const Change> changes);

  int64_t bytes(int account) const;
  int64_t total() const;
  int64_t limit() const { return limit_; }
  int accounts() const { return static_cast<int>(usage_.bytes.size()); }
  BudgetUsage usage() const;  // Cost: O(accounts); allocates.

 private:
  // Under the lock.
  Admission Admit(int64_t bytes) const;
  void Book(int account, int64_t change);
  size_t IndexOf(int account) const;  // Checks it; needs no lock.

  const int64_t limit_;
  const std::function<void(int, int64_t, int64_t)> on_change_;
  mutable std::mutex mutex_;
  BudgetUsage usage_;  // The sizes of its vectors never change.
  int64_t held_ = 0;
};

}  // namespace coppice
