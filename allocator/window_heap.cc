// An online range allocator whose ranges are mapped before they are handed out.

#include "coppice/allocator/window_heap.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/cleanup/cleanup.h"

#include "coppice/base/check.h"
#include "coppice/base/status.h"

namespace coppice {

WindowHeap::WindowHeap(Pool& pool, int window)
    : pool_(pool), window_(window), ranges_(pool.window_bytes(), kBufferAlignment) {
  COPPICE_CHECK(window >= 0 && window < pool.windows(), "no such window");
}

absl::StatusOr<Grant> WindowHeap::Allocate(int64_t bytes) {
  const std::lock_guard lock(mutex_);
  const std::optional<int64_t> offset = ranges_.Allocate(bytes);
  if (!offset) {
    return MakeError(absl::StatusCode::kResourceExhausted,
                     "WindowHeap: no room for {} bytes in a window of {} bytes with {} live bytes; "
                     "free some or raise window_bytes",
                     bytes, ranges_.capacity(), ranges_.live_bytes());
  }
  absl::Cleanup undo = [&] { ranges_.Free(*offset); };
  COPPICE_ASSIGN_OR_RETURN(const Admission grown, pool_.Grow(window_, *offset + bytes));
  if (!grown.admitted()) return Grant{.missing = grown.missing};
  std::move(undo).Cancel();
  top_peak_ = std::max(top_peak_, ranges_.top());
  return Grant{.address = pool_.base(window_) + static_cast<DeviceAddress>(*offset)};
}

void WindowHeap::Free(DeviceAddress address) {
  const DeviceAddress start = pool_.base(window_);
  COPPICE_CHECK(address >= start, "the address is not in the heap's window");
  const std::lock_guard lock(mutex_);
  ranges_.Free(static_cast<int64_t>(address - start));
}

absl::StatusOr<int64_t> WindowHeap::Trim() {
  const std::lock_guard lock(mutex_);
  return pool_.Trim(window_, ranges_.top());
}

int64_t WindowHeap::live_bytes() const {
  const std::lock_guard lock(mutex_);
  return ranges_.live_bytes();
}

int64_t WindowHeap::top() const {
  const std::lock_guard lock(mutex_);
  return ranges_.top();
}

int64_t WindowHeap::top_peak() const {
  const std::lock_guard lock(mutex_);
  return top_peak_;
}

}  // namespace coppice
