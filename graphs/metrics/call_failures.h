// How many calls failed, by the code of their error. Private to graphs/.
//
// Threads: any; counts of one moment only where nobody calls.

#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"

namespace coppice::internal {

// absl::StatusCode, from kOk on.
inline constexpr size_t kStatusCodeCount = 17;

class CallFailures {
 public:
  using Counts = std::array<int64_t, kStatusCodeCount>;

  // Passes on what a call fails with.
  absl::Status Note(absl::Status status) {
    const auto code = static_cast<size_t>(status.code());
    if (code < kStatusCodeCount) counts_[code].fetch_add(1, std::memory_order_relaxed);
    return status;
  }
  Counts counts() const {
    Counts read{};
    for (size_t i = 0; i < kStatusCodeCount; ++i)
      read[i] = counts_[i].load(std::memory_order_relaxed);
    return read;
  }

 private:
  std::array<std::atomic<int64_t>, kStatusCodeCount> counts_{};
};

}  // namespace coppice::internal
