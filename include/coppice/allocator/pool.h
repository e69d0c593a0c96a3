// The pool: the device memory that all nodes of a session share, and its accounting.
//
// Each lane has five windows of one arena. In the node window the plans of all nodes lie on top of
// each other from offset 0, because nodes of one lane never run at once: its height is the maximum
// over nodes, never the sum. The eager window serves warm-up and eager runs from an online
// allocator. The staging window holds the parameter block and the padded copies of a call's inputs,
// the copy-out window outputs that were copied out of the node window, the workspace window what
// libraries scribble in. One window more, of all lanes, holds constants.
//
// Physical memory under a window is there when it is needed: whoever uses a window reserves it
// first, and what nobody uses can be released, and mapped again later at the same addresses, whose
// contents are undefined then.
//
// The budget bounds the sum of all kinds of memory_usage.h. Whatever would pass it is refused, with
// nothing changed; making room is the caller's business.
//
// Units: bytes. Threads: every method from any thread; one lock guards the books and is held while
// memory is mapped. Nothing here waits for the device.

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "coppice/allocator/arena.h"
#include "coppice/allocator/memory_usage.h"
#include "coppice/allocator/range_allocator.h"
#include "coppice/base/units.h"
#include "coppice/runtime/driver.h"

namespace coppice {

enum class WindowKind : uint8_t { kNodes, kEager, kStaging, kCopyOut, kWorkspace };
inline constexpr int kWindowKindCount = 5;  // Per lane. Each is the MemoryKind of its number.

// How many bytes the budget lacked for what `status` refused; nullopt for any other status.
std::optional<int64_t> BudgetShortage(const absl::Status& status);

class Pool {
 public:
  struct Options {
    int lanes = 1;             // >= 1.
    int64_t window_bytes = 0;  // Virtual size of every window; 0: the device's total memory.
    int64_t budget_bytes = 0;  // What all kinds together may reach; 0: no budget.
    // Hears of every change in the books: a kind, its bytes and the total from here on. Called
    // under the pool's lock, so it must not call the pool; null: nobody.
    std::function<void(MemoryKind kind, int64_t bytes, int64_t total)> on_change{};
  };

  // `driver` must outlive the pool. Errors: as Arena::Create.
  static absl::StatusOr<std::unique_ptr<Pool>> Create(const Driver& driver,
                                                      CuDevice device,
                                                      const Options& options);

  // Makes [0, bytes) of a lane's window usable and, for node windows, raises the height. No driver
  // call if it is mapped already. Requires: not during a capture of the calling thread.
  // Errors: as Arena::Grow; kResourceExhausted over the budget. On failure nothing changed.
  absl::Status Reserve(int lane, WindowKind kind, int64_t bytes);

  // Takes physical memory from a window above its first `bytes` bytes, in whole handles: it becomes
  // spare. Requires: no work in flight uses it. Returns the bytes taken. Errors: as Arena::Trim.
  absl::StatusOr<int64_t> Trim(int lane, WindowKind kind, int64_t bytes);

  // Allocates from the lane's eager window, mapping more of it if needed. Sizes are rounded up to
  // kBufferAlignment. Requires: bytes >= 1 (checked); not during a capture of the calling thread.
  // Errors: kResourceExhausted if the window or the device has no room; nothing changed then.
  absl::StatusOr<DeviceAddress> AllocateEager(int lane, int64_t bytes);
  // Requires: `address` came from AllocateEager on this lane and is live (checked).
  void FreeEager(int lane, DeviceAddress address);

  // Trim of the lane's eager window to its highest live byte.
  absl::StatusOr<int64_t> TrimEager(int lane);

  // Gives spare handles back to the device. Errors: the driver's; what was released stays so.
  absl::Status ReleaseSpares();

  // A place for a constant in the constants window, mapped, until FreeConstant.
  // Errors: as AllocateEager.
  absl::StatusOr<DeviceAddress> AllocateConstant(int64_t bytes);
  // Requires: `address` came from AllocateConstant and is live (checked), no work uses it.
  void FreeConstant(DeviceAddress address);

  // Enters bytes into the books that the pool does not map itself: kIncluded, kGraphs, kExternal.
  // Errors: kResourceExhausted over the budget; nothing changed then.
  absl::Status Charge(MemoryKind kind, int64_t bytes);
  // Takes them out again. Requires: they were charged (checked).
  void Discharge(MemoryKind kind, int64_t bytes);

  // Releases all physical memory, but with `keep_constants` that of the constants window. Requires:
  // no work in flight uses the pool, not suspended (checked). On an error of the driver everything
  // is mapped again, with contents undefined, and the error returned; if that fails too, the pool
  // is suspended all the same.
  absl::Status Suspend(bool keep_constants);
  // Maps again what Suspend released, at the same addresses, with contents undefined. Requires:
  // suspended (checked). Errors: as Reserve; still suspended then, without physical memory.
  absl::Status Resume();
  bool suspended() const;

  // Zeroes all that is mapped of the lane's windows, in the order of `stream`. Errors: the
  // driver's.
  absl::Status Scrub(int lane, CuStream stream) const;

  // Usable bytes from the window's start.
  int64_t mapped_bytes(int lane, WindowKind kind) const;
  DeviceAddress base(int lane, WindowKind kind) const;
  int64_t window_bytes() const { return arena_->window_bytes(); }
  int64_t granularity() const { return arena_->granularity(); }  // Of what is mapped.
  int lanes() const { return static_cast<int>(eager_.size()); }

  // True if [address, address + bytes) meets any window of a lane; an empty range meets none.
  // Constants lie in no lane, so programs may bind them.
  bool Contains(DeviceAddress address, int64_t bytes) const {
    if (bytes <= 0) return false;
    return address < start_ ? start_ - address < static_cast<DeviceAddress>(bytes)
                            : address - start_ < size_;
  }

  // True if `address` lies in the window of constants, whose memory may be another after Resume.
  bool HoldsConstants(DeviceAddress address) const {
    return address >= start_ + size_ &&
           address - start_ - size_ < static_cast<DeviceAddress>(arena_->window_bytes());
  }

  // The window that holds `address`; nullopt outside the lanes.
  struct Place {
    int lane = 0;
    WindowKind kind = WindowKind::kNodes;
  };
  std::optional<Place> Locate(DeviceAddress address) const;

  MemoryUsage usage() const;  // Cost: O(1).

 private:
  Pool(const Driver& driver, std::unique_ptr<Arena> arena, const Options& options);

  // Under the lock.
  absl::Status Admit(int64_t bytes) const;
  absl::Status Grow(int window, MemoryKind kind, int64_t bytes);
  absl::StatusOr<int64_t> Shrink(int window, MemoryKind kind, int64_t bytes);
  absl::StatusOr<DeviceAddress> Allocate(int window,
                                         MemoryKind kind,
                                         RangeAllocator& ranges,
                                         int64_t bytes);
  absl::Status DropSpares();
  absl::Status MapAgain();
  void Book(MemoryKind kind, int64_t change);
  void BookSpares();
  int constants_window() const { return lanes() * kWindowKindCount; }

  MemoryKind KindOfWindow(int window) const;

  const Driver& driver_;
  const std::function<void(MemoryKind, int64_t, int64_t)> on_change_;
  const std::unique_ptr<Arena> arena_;  // Its addresses never change; the lock guards the rest.
  const DeviceAddress start_;           // Of the first window, which the other lanes' follow.
  const DeviceAddress size_;
  mutable std::mutex mutex_;           // Guards the arena's mappings and the fields below.
  std::vector<RangeAllocator> eager_;  // One per lane; its size never changes.
  RangeAllocator constants_;
  MemoryUsage usage_;
  std::vector<int64_t> released_;  // Per window, while suspended: what Resume maps.
};

}  // namespace coppice
