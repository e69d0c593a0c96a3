// The budget: how many bytes whoever shares it has, by account, and how many all may have together.
//
// It knows no device and no client: accounts are numbers, and whoever makes the budget says what
// they mean. Bytes are admitted first and booked afterwards; what would pass the limit is refused,
// which is an answer and no error, and making room is the caller's business. Who does not know
// beforehand where bytes will go *holds* as many as it may need, which nobody else is admitted to,
// and settles the hold once it knows.
//
//   limit   |-------------------------------------------|
//           | account 0 | account 1 | held |    room    |
//             booked: total()
//
// Units: bytes. Threads: every method from any thread; one lock guards the books and is held for a
// few additions and the hook.

#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <span>
#include <vector>

namespace coppice {

// Whether bytes were admitted, and how many were lacking.
struct [[nodiscard]] Admission {
  int64_t missing = 0;  // 0: admitted.

  bool admitted() const { return missing == 0; }
  friend bool operator==(const Admission&, const Admission&) = default;
};

// The books of a budget at one moment.
struct BudgetUsage {
  std::vector<int64_t> bytes;  // By account.
  std::vector<int64_t> peaks;  // The most each account ever had.
  int64_t total = 0;           // Sum of `bytes`.
  int64_t total_peak = 0;
  int64_t limit = 0;  // What the total may reach; 0: no limit.

  friend bool operator==(const BudgetUsage&, const BudgetUsage&) = default;
};

class Budget {
 public:
  struct Options {
    int accounts = 1;   // >= 1.
    int64_t limit = 0;  // What all accounts together may reach; 0: no limit.
    // Hears of every change in the books, in their order: an account, its bytes and the total from
    // here on. Called under the budget's lock, so it must call neither the budget nor who uses it;
    // null: nobody.
    std::function<void(int account, int64_t bytes, int64_t total)> on_change{};
  };
  struct Change {
    int account = 0;
    int64_t bytes = 0;  // Negative: the account has less.
  };

  // Requires: options in range (checked).
  explicit Budget(Options options);
  Budget(const Budget&) = delete;
  Budget& operator=(const Budget&) = delete;

  // Books bytes to an account, or says how many are lacking; nothing changed then. What an int64
  // cannot count is lacking too, limit or not. Requires: an account, bytes >= 0 (checked).
  Admission Charge(int account, int64_t bytes);
  // Takes bytes off an account. Requires: it has them (checked).
  void Discharge(int account, int64_t bytes);

  // Charge without an account: if admitted, no other may have these bytes until Settle. They are in
  // no books. Requires: bytes >= 0 (checked).
  Admission Hold(int64_t bytes);
  // Gives up `held` bytes that were held and makes these changes, one after another. Requires: they
  // were held, the changes never add up to more, from the first one on, and no account falls below
  // 0 (all checked); so whoever moves bytes takes them off first.
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
