// A window heap: bytes of one window of a pool, allocated and freed one by one.
//
// It is for buffers whose lifetimes are not known in advance. The window is mapped up to the
// highest live byte, and stays mapped until Trim. Freed bytes are reused before the window grows.
//
//   window   |## ###  #      |                         |
//             0        top()  mapped                    window_bytes()
//
// Units: bytes. Threads: every method from any thread; one lock, held while memory is mapped and
// taken before the pool's.

#pragma once

#include <cstdint>
#include <mutex>

#include "absl/status/statusor.h"

#include "coppice/allocator/pool.h"
#include "coppice/allocator/range_allocator.h"
#include "coppice/base/units.h"

namespace coppice {

// An address, or the number of bytes that the budget lacks.
struct [[nodiscard]] Grant {
  DeviceAddress address = 0;
  int64_t missing = 0;  // 0: granted.

  bool granted() const { return missing == 0; }
};

class WindowHeap {
 public:
  // Takes over the window. Requires: a window of the pool (checked); the pool outlives the heap.
  WindowHeap(Pool& pool, int window);
  WindowHeap(const WindowHeap&) = delete;
  WindowHeap& operator=(const WindowHeap&) = delete;

  // Allocates, and maps more of the window if needed. Sizes are rounded up to multiples of
  // kBufferAlignment, and addresses are such multiples. Refused if the budget refuses the growth.
  // Requires: bytes >= 1 (checked); not during a capture of the calling thread. Errors:
  // kResourceExhausted if the window or the device has no room. Unless granted, nothing changes.
  // Cost: O(log ranges) if nothing is mapped; allocates host memory.
  absl::StatusOr<Grant> Allocate(int64_t bytes);
  // Requires: `address` came from Allocate and is live (checked), no work in flight uses it.
  void Free(DeviceAddress address);

  // Pool::Trim to the highest live byte.
  absl::StatusOr<int64_t> Trim();

  int64_t live_bytes() const;  // Sum of rounded live sizes.
  int64_t top() const;         // End of the highest live byte; 0 if none is live.
  int64_t top_peak() const;    // The highest top() so far.
  int window() const { return window_; }

 private:
  Pool& pool_;
  const int window_;
  mutable std::mutex mutex_;  // Guards the fields below.
  RangeAllocator ranges_;
  int64_t top_peak_ = 0;
};

}  // namespace coppice
