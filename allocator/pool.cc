// Windows of one arena, and what the budget hears of them.

#include "coppice/allocator/pool.h"

#include <algorithm>
#include <array>
#include <climits>
#include <cstddef>
#include <utility>

#include "absl/cleanup/cleanup.h"

#include "coppice/base/check.h"
#include "coppice/base/status.h"

namespace coppice {

absl::StatusOr<std::unique_ptr<Pool>> Pool::Create(const Driver& driver,
                                                   CuDevice device,
                                                   Budget& budget,
                                                   Options options) {
  const auto unknown = [&](int account) { return account < 0 || account >= budget.accounts(); };
  if (options.accounts.empty() || options.accounts.size() > INT_MAX ||
      std::any_of(options.accounts.begin(), options.accounts.end(), unknown) ||
      unknown(options.spare_account)) {
    return InvalidArgument(
        "Pool::Create: {} windows, and spare handles are charged to account {}; use at least 1 "
        "window, and account numbers >= 0 and < {}",
        options.accounts.size(), options.spare_account, budget.accounts());
  }
  Arena::Options arena_options{.window_count = static_cast<int>(options.accounts.size()),
                               .window_bytes = options.window_bytes};
  if (options.window_bytes == 0) {
    size_t total_bytes = 0;
    COPPICE_RETURN_IF_ERROR(driver.Call<&DriverTable::DeviceTotalMem>(&total_bytes, device));
    arena_options.window_bytes = static_cast<int64_t>(total_bytes);
  }
  COPPICE_ASSIGN_OR_RETURN(std::unique_ptr<Arena> arena,
                           Arena::Create(driver, device, arena_options));
  return std::unique_ptr<Pool>(new Pool(std::move(arena), budget, std::move(options)));
}

Pool::Pool(std::unique_ptr<Arena> arena, Budget& budget, Options options)
    : budget_(budget),
      options_(std::move(options)),
      arena_(std::move(arena)),
      window_bytes_(arena_->window_bytes()) {}

// The bytes are held before they are mapped and booked after, so that nobody else is admitted to
// them meanwhile and a failure was never in the books.
absl::StatusOr<Admission> Pool::GrowLocked(int window, int64_t bytes) {
  const int64_t before = arena_->mapped_bytes(window);
  // Beyond the window no budget helps, and the arena says so.
  int64_t created = 0;
  if (bytes <= window_bytes_) {
    created = arena_->CreatedBytes(window, bytes);
    if (!budget_.Hold(created).admitted()) {
      COPPICE_RETURN_IF_ERROR(DropSpares());
      created = arena_->CreatedBytes(window, bytes);
      if (const Admission again = budget_.Hold(created); !again.admitted()) return again;
    }
  }
  const int64_t spare_before = arena_->spare_bytes();
  // Also where the arena finds no host memory, which it throws.
  const absl::Cleanup settle = [&] {
    const std::array<Budget::Change, 2> changes = {{
        {options_.spare_account, arena_->spare_bytes() - spare_before},
        {AccountOf(window), arena_->mapped_bytes(window) - before},
    }};
    budget_.Settle(created, changes);
  };
  COPPICE_RETURN_IF_ERROR(arena_->Grow(window, bytes));
  return Admission();
}

absl::StatusOr<int64_t> Pool::TrimLocked(int window, int64_t bytes) {
  const int64_t before = arena_->mapped_bytes(window);
  const int64_t spare_before = arena_->spare_bytes();
  absl::StatusOr<int64_t> trimmed = arena_->Trim(window, bytes);
  const std::array<Budget::Change, 2> changes = {{
      {AccountOf(window), arena_->mapped_bytes(window) - before},
      {options_.spare_account, arena_->spare_bytes() - spare_before},
  }};
  budget_.Settle(0, changes);
  return trimmed;
}

absl::Status Pool::DropSpares() {
  const int64_t before = arena_->spare_bytes();
  const absl::Status released = arena_->ReleaseSpares();
  budget_.Discharge(options_.spare_account, before - arena_->spare_bytes());
  return released;
}

absl::StatusOr<Admission> Pool::Grow(int window, int64_t bytes) {
  const std::lock_guard lock(mutex_);
  return GrowLocked(window, bytes);
}

absl::StatusOr<int64_t> Pool::Trim(int window, int64_t bytes) {
  const std::lock_guard lock(mutex_);
  return TrimLocked(window, bytes);
}

int64_t Pool::TrimmableBytes(int window, int64_t bytes) const {
  const std::lock_guard lock(mutex_);
  return arena_->TrimmableBytes(window, bytes);
}

absl::Status Pool::ReleaseSpares() {
  const std::lock_guard lock(mutex_);
  return DropSpares();
}

absl::StatusOr<Admission> Pool::Charge(int account, int64_t bytes) {
  const std::vector<int>& own = options_.accounts;
  COPPICE_CHECK(
      account != options_.spare_account && std::find(own.begin(), own.end(), account) == own.end(),
      "only the pool charges this account; use another account");
  if (const Admission first = budget_.Charge(account, bytes); first.admitted()) return first;
  const std::lock_guard lock(mutex_);
  COPPICE_RETURN_IF_ERROR(DropSpares());
  return budget_.Charge(account, bytes);
}

absl::Status Pool::Suspend(std::span<const int> kept) {
  const std::lock_guard lock(mutex_);
  COPPICE_CHECK(released_.empty(), "the pool is already suspended");
  std::vector<int64_t> released(options_.accounts.size());
  for (int window = 0; window < windows(); ++window)
    released[static_cast<size_t>(window)] = arena_->mapped_bytes(window);
  for (const int window : kept) {
    COPPICE_CHECK(window >= 0 && window < windows(), "no such window");
    released[static_cast<size_t>(window)] = 0;
  }
  released_ = std::move(released);
  absl::Status status;
  for (int window = 0; window < windows() && status.ok(); ++window) {
    if (released_[static_cast<size_t>(window)] == 0) continue;
    status = TrimLocked(window, 0).status();
  }
  if (status.ok()) status = DropSpares();
  if (!status.ok() && MapAgain().ok()) released_.clear();
  return status;
}

absl::Status Pool::Resume() {
  const std::lock_guard lock(mutex_);
  COPPICE_CHECK(!released_.empty(), "the pool is not suspended");
  COPPICE_RETURN_IF_ERROR(MapAgain());
  released_.clear();
  return absl::OkStatus();
}

// Maps what Suspend released, all of it or nothing.
absl::Status Pool::MapAgain() {
  for (int window = 0; window < windows(); ++window) {
    const absl::StatusOr<Admission> grown =
        GrowLocked(window, released_[static_cast<size_t>(window)]);
    if (grown.ok() && grown->admitted()) continue;
    for (int undone = 0; undone < window; ++undone) {
      if (released_[static_cast<size_t>(undone)] == 0) continue;
      // What cannot be unmapped stays, and the next attempt finds it there.
      (void)TrimLocked(undone, 0).ok();
    }
    (void)DropSpares().ok();
    if (!grown.ok()) return grown.status();
    return MakeError(absl::StatusCode::kResourceExhausted,
                     "Pool::Resume: the budget of {} bytes lacks {} bytes for window {}, and {} "
                     "bytes are in use outside the pool; discharge those or raise the budget",
                     budget_.limit(), grown->missing, window, budget_.total());
  }
  return absl::OkStatus();
}

bool Pool::suspended() const {
  const std::lock_guard lock(mutex_);
  return !released_.empty();
}

int64_t Pool::mapped_bytes(int window) const {
  const std::lock_guard lock(mutex_);
  return arena_->mapped_bytes(window);
}

AddressSpan Pool::Range(int first, int count) const {
  COPPICE_CHECK(first >= 0 && count >= 1 && count <= windows() - first, "no such windows");
  return {.start = base(first),
          .size = static_cast<DeviceAddress>(window_bytes_) * static_cast<DeviceAddress>(count)};
}

std::optional<int> Pool::FindWindow(DeviceAddress address) const {
  const AddressSpan all = Range(0, windows());
  if (!all.Meets(address, 1)) return std::nullopt;
  return static_cast<int>((address - all.start) / static_cast<DeviceAddress>(window_bytes_));
}

}  // namespace coppice
