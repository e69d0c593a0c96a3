// The first sticky error of a session: what a context cannot recover from. Private to graphs/.
//
// Threads: any.

#pragma once

#include <atomic>
#include <mutex>
#include <optional>
#include <utility>

#include "absl/status/status.h"

#include "coppice/base/status.h"
#include "coppice/runtime/driver.h"

namespace coppice::internal {

class StickyError {
 public:
  // Passes `status` on, and keeps it if it is the first sticky one.
  absl::Status Note(absl::Status status) {
    const std::optional<CuResult> result = CuResultOf(status);
    if (result.has_value() && IsSticky(*result)) {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (first_.ok()) first_ = status;
      present_.store(true, std::memory_order_release);
    }
    return status;
  }

  bool present() const { return present_.load(std::memory_order_acquire); }
  // What was kept; OK if there was none.
  absl::Status Get() const {
    if (!present()) return absl::OkStatus();
    const std::lock_guard<std::mutex> lock(mutex_);
    return first_;
  }

 private:
  std::atomic<bool> present_{false};  // Set once, after `first_` is.
  mutable std::mutex mutex_;
  absl::Status first_;
};

}  // namespace coppice::internal
