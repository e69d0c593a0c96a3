// Bytes by account under one lock; a hold counts against the limit but is in no books.

#include "coppice/allocator/budget.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "coppice/base/check.h"

namespace coppice {

Budget::Budget(Options options) : limit_(options.limit), on_change_(std::move(options.on_change)) {
  COPPICE_CHECK(options.accounts >= 1 && options.limit >= 0,
                "a budget needs at least 1 account, and its limit must not be negative");
  usage_.bytes.resize(static_cast<size_t>(options.accounts));
  usage_.peaks.resize(static_cast<size_t>(options.accounts));
  usage_.limit = limit_;
}

size_t Budget::IndexOf(int account) const {
  COPPICE_CHECK(account >= 0 && account < accounts(), "no such account");
  return static_cast<size_t>(account);
}

Admission Budget::Admit(int64_t bytes) const {
  COPPICE_CHECK(bytes >= 0, "the number of bytes must not be negative; use Discharge");
  const int64_t most = limit_ == 0 ? INT64_MAX : limit_;
  return {.missing = std::max<int64_t>(bytes - (most - usage_.total - held_), 0)};
}

void Budget::Book(int account, int64_t change) {
  if (change == 0) return;
  const size_t i = IndexOf(account);
  COPPICE_CHECK(usage_.bytes[i] >= -change, "more bytes are discharged than were charged");
  usage_.bytes[i] += change;
  usage_.peaks[i] = std::max(usage_.peaks[i], usage_.bytes[i]);
  usage_.total += change;
  usage_.total_peak = std::max(usage_.total_peak, usage_.total);
  if (on_change_) on_change_(account, usage_.bytes[i], usage_.total);
}

Admission Budget::Charge(int account, int64_t bytes) {
  IndexOf(account);
  const std::lock_guard lock(mutex_);
  const Admission admission = Admit(bytes);
  if (admission.admitted()) Book(account, bytes);
  return admission;
}

void Budget::Discharge(int account, int64_t bytes) {
  COPPICE_CHECK(bytes >= 0, "the number of bytes must not be negative; use Charge");
  IndexOf(account);
  const std::lock_guard lock(mutex_);
  Book(account, -bytes);
}

Admission Budget::Hold(int64_t bytes) {
  const std::lock_guard lock(mutex_);
  const Admission admission = Admit(bytes);
  if (admission.admitted()) held_ += bytes;
  return admission;
}

void Budget::Settle(int64_t held, std::span<const Change> changes) {
  const std::lock_guard lock(mutex_);
  COPPICE_CHECK(held >= 0 && held <= held_, "more bytes are settled than are held");
  held_ -= held;
  int64_t added = 0;
  for (const Change& change : changes) {
    added += change.bytes;
    COPPICE_CHECK(added <= held, "more bytes are booked than were held");
    Book(change.account, change.bytes);
  }
}

int64_t Budget::bytes(int account) const {
  const size_t i = IndexOf(account);
  const std::lock_guard lock(mutex_);
  return usage_.bytes[i];
}

int64_t Budget::total() const {
  const std::lock_guard lock(mutex_);
  return usage_.total;
}

BudgetUsage Budget::usage() const {
  const std::lock_guard lock(mutex_);
  return usage_;
}

}  // namespace coppice
