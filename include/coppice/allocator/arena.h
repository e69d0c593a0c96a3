// The arena: one reserved virtual range, cut into windows, each backed from its start.
//
// Virtual addresses cost nothing, so every window is as large as it may ever have to be; physical
// memory is mapped only up to the highest offset in use. Addresses never move, so recorded graphs
// stay valid when a window grows.
//
//   reservation  |------- window 0 -------|------- window 1 -------| ...
//   physical     |#### ## |               |###|
//                 64M 6M   (handles of at most Options::handle_bytes, the last one exact)
//
// Units: bytes. Threads: one at a time per arena. Methods do not break a capture that the
// application has open; growth never waits for the device.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "coppice/base/units.h"
#include "coppice/runtime/driver.h"

namespace coppice {

class Arena {
 public:
  struct Options {
    int window_count = 1;              // >= 1.
    int64_t window_bytes = 0;          // Virtual size of each; rounded up to the granularity. >= 1.
    int64_t handle_bytes = 64 * kMiB;  // Largest physical handle; multiple of the granularity.
  };

  // Reserves the range on `device`; maps nothing. `driver` must outlive the arena.
  // Errors: kInvalidArgument an option; otherwise the driver's.
  static absl::StatusOr<std::unique_ptr<Arena>> Create(const Driver& driver,
                                                       CuDevice device,
                                                       const Options& options);
  // Unmaps, releases and frees everything. Requires: no work that uses the arena is in flight.
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // Maps physical memory so that at least `bytes` from the start of `window` are usable. If they
  // already are, it makes no driver call. On failure the window is unchanged.
  //
  // Errors: kOutOfRange          bytes exceed window_bytes();
  //         kResourceExhausted   the device has no memory left.
  // Cost: per handle, one map and one create (unless a spare handle fits); one set-access for all.
  absl::Status Grow(int window, int64_t bytes);

  // Unmaps the handles that lie wholly above `bytes`, from the top down, and keeps them for the
  // next Grow of any window. Returns the bytes unmapped. Requires: nothing in flight uses them.
  // Errors: the driver's. After an error, handles unmapped before stay unmapped; the handle that
  // failed can no longer be used, and the next Grow or Trim, or the arena's end, releases it.
  // Allocates no host memory.
  absl::StatusOr<int64_t> Trim(int window, int64_t bytes);
  int64_t TrimmableBytes(int window, int64_t bytes) const;  // What Trim would unmap.

  // Releases the handles that Trim kept. Errors: the driver's; handles that were already released
  // stay released.
  absl::Status ReleaseSpares();
  int64_t spare_bytes() const { return spare_bytes_; }  // Of handles that Trim kept.

  // MissingBytes: the bytes by which Grow to `bytes` would lengthen the window. CreatedBytes: the
  // part of these that it would have to create, because no spare handle fits.
  int64_t MissingBytes(int window, int64_t bytes) const;
  int64_t CreatedBytes(int window, int64_t bytes) const;

  DeviceAddress base(int window) const;    // Requires: a window of this arena (checked).
  int64_t mapped_bytes(int window) const;  // Usable bytes from base; multiple of granularity().
  int64_t window_bytes() const { return window_bytes_; }
  int64_t granularity() const { return granularity_; }

 private:
  struct Handle {
    CuMemoryHandle handle = 0;
    int64_t bytes = 0;
  };
  struct Window {
    std::vector<Handle> handles;     // In address order, without gaps from the window's start.
    int64_t mapped_bytes = 0;        // Sum of the handles.
    std::optional<Handle> doubtful;  // The handle above them, whose unmapping failed or may have
                                     // failed.
  };

  Arena(const Driver& driver, CuDevice device) : driver_(driver), device_(device) {}

  // A handle of at most `bytes`: the largest spare one that fits, or a new one.
  absl::StatusOr<Handle> TakeHandle(int64_t bytes);
  // Maps handles one after another from `address` on. After an error, `handles` has those that
  // succeeded.
  absl::Status MapHandles(DeviceAddress address, int64_t bytes, std::vector<Handle>& handles);
  // Unmaps and releases handles that lie one after another from `address` on. It is called only
  // after an error or at the end, so further errors are ignored.
  void ReleaseAll(DeviceAddress address, std::span<const Handle> handles);
  // Releases the doubtful handle of `window`, if there is one.
  void ReleaseDoubtful(int window);

  const Driver& driver_;
  const CuDevice device_;
  DeviceAddress base_ = 0;
  int64_t granularity_ = 0;
  int64_t handle_bytes_ = 0;
  int64_t window_bytes_ = 0;
  std::vector<Window> windows_;
  std::vector<Handle> spares_;  // Sorted by bytes.
  int64_t spare_bytes_ = 0;
  size_t handle_count_ = 0;  // Including spare ones.
};

}  // namespace coppice
