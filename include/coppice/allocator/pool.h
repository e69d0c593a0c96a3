// The pool: the device memory that all nodes of a session share, and its accounting.
//
// Each lane has four windows of one arena. In the node window the plans of all nodes lie on top of
// each other from offset 0, because nodes of one lane never run at once: its height is the maximum
// over nodes, never the sum. The eager window serves warm-up and eager runs from an online
// allocator. The staging window holds the parameter block and the padded copies of a call's inputs,
// the copy-out window outputs that were copied out of the node window.
//
// Units: bytes. Threads: every method from any thread; one lock guards the books and is held while
// memory is mapped. Nothing here waits for the device.

#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "coppice/allocator/arena.h"
#include "coppice/allocator/range_allocator.h"
#include "coppice/base/units.h"
#include "coppice/runtime/driver.h"

namespace coppice {

enum class WindowKind : uint8_t { kNodes, kEager, kStaging, kCopyOut };

class Pool {
 public:
  struct Options {
    int lanes = 1;             // >= 1.
    int64_t window_bytes = 0;  // Virtual size of every window; 0: the device's total memory.
  };

  // Bytes by kind, over all lanes.
  struct Usage {
    int64_t height = 0;        // Highest end of any plan reserved so far; max over lanes.
    int64_t nodes_mapped = 0;  // Physical bytes under the node windows.
    int64_t eager_live = 0;    // Live in the eager windows.
    int64_t eager_peak = 0;    // Highest top of any eager window so far.
    int64_t eager_mapped = 0;
    int64_t staging_mapped = 0;
    int64_t copy_out_mapped = 0;
    friend bool operator==(const Usage&, const Usage&) = default;
  };

  // `driver` must outlive the pool. Errors: as Arena::Create.
  static absl::StatusOr<std::unique_ptr<Pool>> Create(const Driver& driver,
                                                      CuDevice device,
                                                      const Options& options);

  // Makes [0, bytes) of a lane's window usable and, for node windows, raises the height. No driver
  // call if it is mapped already. Requires: not during a capture of the calling thread.
  // Errors: as Arena::Grow; on failure nothing changed.
  absl::Status Reserve(int lane, WindowKind kind, int64_t bytes);

  // Allocates from the lane's eager window, mapping more of it if needed. Sizes are rounded up to
  // kBufferAlignment. Requires: bytes >= 1 (checked); not during a capture of the calling thread.
  // Errors: kResourceExhausted if the window or the device has no room; nothing changed then.
  absl::StatusOr<DeviceAddress> AllocateEager(int lane, int64_t bytes);
  // Requires: `address` came from AllocateEager on this lane and is live (checked).
  void FreeEager(int lane, DeviceAddress address);

  // Releases the physical memory of the lane's eager window above its highest live byte, in whole
  // handles. Requires: no work in flight uses it. Returns the bytes released.
  absl::StatusOr<int64_t> TrimEager(int lane);

  DeviceAddress base(int lane, WindowKind kind) const;
  int64_t window_bytes() const { return arena_->window_bytes(); }
  int lanes() const { return static_cast<int>(eager_.size()); }

  // True if [address, address + bytes) meets any window of the pool; an empty range meets none.
  bool Contains(DeviceAddress address, int64_t bytes) const {
    if (bytes <= 0) return false;
    return address < start_ ? start_ - address < static_cast<DeviceAddress>(bytes)
                            : address - start_ < size_;
  }

  // The window that holds `address`; nullopt outside the pool.
  struct Place {
    int lane = 0;
    WindowKind kind = WindowKind::kNodes;
  };
  std::optional<Place> Locate(DeviceAddress address) const;

  Usage usage() const;  // Cost: O(lanes).

 private:
  Pool(std::unique_ptr<Arena> arena, int lanes);

  const std::unique_ptr<Arena> arena_;  // Its addresses never change; the lock guards the rest.
  const DeviceAddress start_;           // Of the first window, which the others follow.
  const DeviceAddress size_;
  mutable std::mutex mutex_;           // Guards the arena's mappings and the fields below.
  std::vector<RangeAllocator> eager_;  // One per lane; its size never changes.
  int64_t height_ = 0;
  int64_t eager_peak_ = 0;
};

}  // namespace coppice
