// The pool: physical memory under the windows of one arena, charged to a budget.
//
// Windows are numbered, lie one after another and have the same size. Their users decide their
// purpose. A user grows a window before it uses it. Physical memory that nobody uses can be
// trimmed, and mapped again later at the same addresses, with undefined contents.
//
//   window     |---- 0 ----|---- 1 ----|---- 2 ----|
//   physical   |####       |           |########   |     + spare handles, that no window has mapped
//   charged to  accounts[0] accounts[1] accounts[2]        spare_account
//
// Trimmed memory is kept as spare handles, which the next growth takes. Spare handles are charged,
// too. They are released before any request is refused.
//
// Units: bytes. Threads: every method from any thread; one lock guards the windows and is held
// while memory is mapped. Nothing here waits for the device.

#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "coppice/allocator/arena.h"
#include "coppice/allocator/budget.h"
#include "coppice/base/units.h"
#include "coppice/runtime/driver.h"

namespace coppice {

// Consecutive addresses.
struct AddressSpan {
  DeviceAddress start = 0;
  DeviceAddress size = 0;  // Bytes.

  // True if [address, address + bytes) shares a byte with it; an empty range shares none. Cost:
  // three or four instructions, so it can be called for every input of every call.
  bool Meets(DeviceAddress address, int64_t bytes) const {
    if (bytes <= 0) return false;
    return address < start ? start - address < static_cast<DeviceAddress>(bytes)
                           : address - start < size;
  }
};

class Pool {
 public:
  struct Options {
    std::vector<int> accounts;  // The account of each window, to which its mapped bytes are
                                // charged; at least one window.
    int spare_account = 0;      // The account of spare handles.
    int64_t window_bytes = 0;   // Virtual size of every window; 0: the device's total memory.
  };

  // `driver` and `budget` must outlive the pool. Maps nothing. Errors: kInvalidArgument there is no
  // window, or the budget lacks an account; as Arena::Create.
  static absl::StatusOr<std::unique_ptr<Pool>> Create(const Driver& driver,
                                                      CuDevice device,
                                                      Budget& budget,
                                                      Options options);
  // Releases everything. Requires: no work that uses the pool is in flight. The budget keeps the
  // last charges of the pool.
  ~Pool() = default;

  // Makes [0, bytes) of a window usable. If it already is, makes no driver call. Refused if the
  // budget lacks room for the handles that must be created, even after spare handles are released.
  // After a refusal or an error, mappings and charges are as before. Requires: a window (checked);
  // not during a capture of the calling thread. Errors: as Arena::Grow; the driver's for spare
  // handles.
  absl::StatusOr<Admission> Grow(int window, int64_t bytes);

  // Takes physical memory from a window above its first `bytes` bytes, in whole handles, which
  // become spare. Returns the bytes taken. Requires: a window (checked); no work in flight uses
  // them. Errors: as Arena::Trim.
  absl::StatusOr<int64_t> Trim(int window, int64_t bytes);
  int64_t TrimmableBytes(int window, int64_t bytes) const;  // What Trim would take.

  // Gives spare handles back to the device. Errors: the driver's; handles that were already
  // released stay released.
  absl::Status ReleaseSpares();

  // Budget::Charge for bytes that the pool does not map. Spare handles are released before it is
  // refused. Budget::Discharge removes the bytes. Requires: an account of the budget that belongs
  // neither to a window nor to spare handles (checked). Errors: as ReleaseSpares.
  absl::StatusOr<Admission> Charge(int account, int64_t bytes);

  // Releases all physical memory except that of `kept` windows. Requires: no work in flight uses
  // the pool; it is not suspended, and `kept` are windows (both checked). After a driver error
  // everything is mapped again, with undefined contents, and the error is returned; if that fails,
  // too, the pool is suspended.
  absl::Status Suspend(std::span<const int> kept = {});
  // Maps again what Suspend released, at the same addresses, with undefined contents. Requires:
  // suspended (checked). Errors: as Grow; kResourceExhausted if the budget refuses. After an error
  // it is still suspended, and only kept windows have physical memory.
  absl::Status Resume();
  bool suspended() const;

  int windows() const { return static_cast<int>(options_.accounts.size()); }
  int64_t window_bytes() const { return window_bytes_; }
  int64_t granularity() const { return arena_->granularity(); }  // Of mapped memory.
  DeviceAddress base(int window) const { return arena_->base(window); }
  int64_t mapped_bytes(int window) const;  // Usable bytes from the window's start.
  Budget& budget() const { return budget_; }

  // All addresses of `count` windows from `first` on. Requires: they are windows (checked).
  AddressSpan Range(int first, int count) const;
  // The window that holds `address`; nullopt outside the pool.
  std::optional<int> FindWindow(DeviceAddress address) const;

 private:
  Pool(std::unique_ptr<Arena> arena, Budget& budget, Options options);

  // Under the lock.
  absl::StatusOr<Admission> GrowLocked(int window, int64_t bytes);
  absl::StatusOr<int64_t> TrimLocked(int window, int64_t bytes);
  absl::Status DropSpares();
  absl::Status MapAgain();
  int AccountOf(int window) const { return options_.accounts[static_cast<size_t>(window)]; }

  Budget& budget_;
  const Options options_;
  const std::unique_ptr<Arena> arena_;  // Its addresses never change; the lock guards the rest.
  const int64_t window_bytes_;
  mutable std::mutex mutex_;       // Guards the arena's mappings; taken before the budget's.
  std::vector<int64_t> released_;  // Per window, while suspended: the bytes that Resume maps.
};

}  // namespace coppice
