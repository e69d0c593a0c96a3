// Windows by lane and kind over one arena, and the books of what lies in them.

#include "coppice/allocator/pool.h"

#include <algorithm>
#include <climits>
#include <utility>

#include "absl/cleanup/cleanup.h"

#include "coppice/base/check.h"
#include "coppice/base/status.h"

namespace coppice {
namespace {

constexpr int kWindowsPerLane = 4;  // One for each WindowKind, in that order.

int WindowOf(int lane, WindowKind kind) {
  return lane * kWindowsPerLane + static_cast<int>(kind);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Pool>> Pool::Create(const Driver& driver,
                                                   CuDevice device,
                                                   const Options& options) {
  if (options.lanes < 1 || options.lanes > INT_MAX / kWindowsPerLane) {
    return InvalidArgument("Pool::Create: {} lanes; use 1 to {}", options.lanes,
                           INT_MAX / kWindowsPerLane);
  }
  Arena::Options arena_options{.window_count = options.lanes * kWindowsPerLane,
                               .window_bytes = options.window_bytes};
  if (options.window_bytes == 0) {
    size_t total_bytes = 0;
    COPPICE_RETURN_IF_ERROR(driver.Call<&DriverTable::DeviceTotalMem>(&total_bytes, device));
    arena_options.window_bytes = static_cast<int64_t>(total_bytes);
  }
  COPPICE_ASSIGN_OR_RETURN(std::unique_ptr<Arena> arena,
                           Arena::Create(driver, device, arena_options));
  return std::unique_ptr<Pool>(new Pool(std::move(arena), options.lanes));
}

Pool::Pool(std::unique_ptr<Arena> arena, int lanes)
    : arena_(std::move(arena)),
      start_(arena_->base(0)),
      size_(static_cast<DeviceAddress>(arena_->window_bytes()) *
            static_cast<DeviceAddress>(lanes * kWindowsPerLane)),
      eager_(static_cast<size_t>(lanes), RangeAllocator(arena_->window_bytes(), kBufferAlignment)) {
}

absl::Status Pool::Reserve(int lane, WindowKind kind, int64_t bytes) {
  const std::lock_guard lock(mutex_);
  COPPICE_RETURN_IF_ERROR(arena_->Grow(WindowOf(lane, kind), bytes));
  if (kind == WindowKind::kNodes) height_ = std::max(height_, bytes);
  return absl::OkStatus();
}

absl::StatusOr<DeviceAddress> Pool::AllocateEager(int lane, int64_t bytes) {
  const int window = WindowOf(lane, WindowKind::kEager);
  const DeviceAddress start = arena_->base(window);
  const std::lock_guard lock(mutex_);
  RangeAllocator& eager = eager_[static_cast<size_t>(lane)];
  const std::optional<int64_t> offset = eager.Allocate(bytes);
  if (!offset) {
    return MakeError(absl::StatusCode::kResourceExhausted,
                     "Pool::AllocateEager: no room for {} bytes in a window of {} with {} live; "
                     "release outputs or raise window_bytes",
                     bytes, arena_->window_bytes(), eager.live_bytes());
  }
  absl::Cleanup undo = [&] { eager.Free(*offset); };
  COPPICE_RETURN_IF_ERROR(arena_->Grow(window, *offset + bytes));
  std::move(undo).Cancel();
  eager_peak_ = std::max(eager_peak_, eager.top());
  return start + static_cast<DeviceAddress>(*offset);
}

void Pool::FreeEager(int lane, DeviceAddress address) {
  const DeviceAddress start = base(lane, WindowKind::kEager);
  COPPICE_CHECK(address >= start, "the address is not in the lane's eager window");
  const std::lock_guard lock(mutex_);
  eager_[static_cast<size_t>(lane)].Free(static_cast<int64_t>(address - start));
}

absl::StatusOr<int64_t> Pool::TrimEager(int lane) {
  const int window = WindowOf(lane, WindowKind::kEager);
  const std::lock_guard lock(mutex_);
  return arena_->Trim(window, eager_[static_cast<size_t>(lane)].top());
}

DeviceAddress Pool::base(int lane, WindowKind kind) const {
  return arena_->base(WindowOf(lane, kind));
}

std::optional<Pool::Place> Pool::Locate(DeviceAddress address) const {
  if (!Contains(address, 1)) return std::nullopt;
  const auto window =
      static_cast<int>((address - start_) / static_cast<DeviceAddress>(arena_->window_bytes()));
  return Place{.lane = window / kWindowsPerLane,
               .kind = static_cast<WindowKind>(window % kWindowsPerLane)};
}

Pool::Usage Pool::usage() const {
  const std::lock_guard lock(mutex_);
  Usage usage{.height = height_, .eager_peak = eager_peak_};
  for (int lane = 0; lane < lanes(); ++lane) {
    usage.nodes_mapped += arena_->mapped_bytes(WindowOf(lane, WindowKind::kNodes));
    usage.eager_live += eager_[static_cast<size_t>(lane)].live_bytes();
    usage.eager_mapped += arena_->mapped_bytes(WindowOf(lane, WindowKind::kEager));
    usage.staging_mapped += arena_->mapped_bytes(WindowOf(lane, WindowKind::kStaging));
    usage.copy_out_mapped += arena_->mapped_bytes(WindowOf(lane, WindowKind::kCopyOut));
  }
  return usage;
}

}  // namespace coppice
