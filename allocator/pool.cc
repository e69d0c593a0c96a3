// Windows by lane and kind over one arena, and the books of what lies in them.

#include "coppice/allocator/pool.h"

#include <algorithm>
#include <charconv>
#include <climits>
#include <string>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/cord.h"

#include "coppice/base/check.h"
#include "coppice/base/status.h"

namespace coppice {
namespace {

constexpr const char* kShortagePayload = "coppice/budget_shortage";

int WindowOf(int lane, WindowKind kind) {
  return lane * kWindowKindCount + static_cast<int>(kind);
}

MemoryKind MemoryKindOf(WindowKind kind) {
  return static_cast<MemoryKind>(kind);
}

static_assert(static_cast<int>(WindowKind::kWorkspace) == static_cast<int>(MemoryKind::kWorkspace));

}  // namespace

std::optional<int64_t> BudgetShortage(const absl::Status& status) {
  const absl::optional<absl::Cord> payload = status.GetPayload(kShortagePayload);
  if (!payload) return std::nullopt;
  const std::string text(*payload);
  int64_t bytes = 0;
  std::from_chars(text.data(), text.data() + text.size(), bytes);
  return bytes;
}

absl::StatusOr<std::unique_ptr<Pool>> Pool::Create(const Driver& driver,
                                                   CuDevice device,
                                                   const Options& options) {
  constexpr int kLanesMax = INT_MAX / kWindowKindCount - 1;
  if (options.lanes < 1 || options.lanes > kLanesMax || options.budget_bytes < 0) {
    return InvalidArgument(
        "Pool::Create: {} lanes, a budget of {} bytes; use 1 to {}, and 0 or "
        "more",
        options.lanes, options.budget_bytes, kLanesMax);
  }
  Arena::Options arena_options{.window_count = options.lanes * kWindowKindCount + 1,
                               .window_bytes = options.window_bytes};
  if (options.window_bytes == 0) {
    size_t total_bytes = 0;
    COPPICE_RETURN_IF_ERROR(driver.Call<&DriverTable::DeviceTotalMem>(&total_bytes, device));
    arena_options.window_bytes = static_cast<int64_t>(total_bytes);
  }
  COPPICE_ASSIGN_OR_RETURN(std::unique_ptr<Arena> arena,
                           Arena::Create(driver, device, arena_options));
  return std::unique_ptr<Pool>(new Pool(driver, std::move(arena), options));
}

Pool::Pool(const Driver& driver, std::unique_ptr<Arena> arena, const Options& options)
    : driver_(driver),
      on_change_(options.on_change),
      arena_(std::move(arena)),
      start_(arena_->base(0)),
      size_(static_cast<DeviceAddress>(arena_->window_bytes()) *
            static_cast<DeviceAddress>(options.lanes * kWindowKindCount)),
      eager_(static_cast<size_t>(options.lanes),
             RangeAllocator(arena_->window_bytes(), kBufferAlignment)),
      constants_(arena_->window_bytes(), kBufferAlignment) {
  usage_.budget = options.budget_bytes;
}

void Pool::Book(MemoryKind kind, int64_t change) {
  if (change == 0) return;
  const auto i = static_cast<size_t>(kind);
  usage_.bytes[i] += change;
  usage_.peak[i] = std::max(usage_.peak[i], usage_.bytes[i]);
  usage_.total += change;
  usage_.total_peak = std::max(usage_.total_peak, usage_.total);
  if (on_change_) on_change_(kind, usage_.bytes[i], usage_.total);
}

void Pool::BookSpares() {
  Book(MemoryKind::kSpare, arena_->spare_bytes() - usage_.of(MemoryKind::kSpare));
}

absl::Status Pool::Admit(int64_t bytes) const {
  if (bytes > INT64_MAX - usage_.total) {
    return MakeError(absl::StatusCode::kResourceExhausted,
                     "Pool: {} bytes beside the {} in use are more than an int64 holds", bytes,
                     usage_.total);
  }
  const int64_t shortage = usage_.total - usage_.budget + bytes;
  if (usage_.budget == 0 || bytes <= 0 || shortage <= 0) return absl::OkStatus();
  absl::Status status = MakeError(
      absl::StatusCode::kResourceExhausted,
      "Pool: would need {} bytes, {} are in use, budget {}; evict graphs, drop leases or raise the "
      "budget",
      bytes, usage_.total, usage_.budget);
  status.SetPayload(kShortagePayload, absl::Cord(std::to_string(shortage)));
  return status;
}

absl::Status Pool::Grow(int window, MemoryKind kind, int64_t bytes) {
  const int64_t before = arena_->mapped_bytes(window);
  // Beyond the window no budget helps, and the arena says so.
  if (bytes <= arena_->window_bytes() && !Admit(arena_->CreatedBytes(window, bytes)).ok()) {
    COPPICE_RETURN_IF_ERROR(DropSpares());
    COPPICE_RETURN_IF_ERROR(Admit(arena_->CreatedBytes(window, bytes)));
  }
  absl::Status grown = arena_->Grow(window, bytes);
  BookSpares();  // First, so that nobody sees twice what was spare.
  Book(kind, arena_->mapped_bytes(window) - before);
  return grown;
}

absl::StatusOr<int64_t> Pool::Shrink(int window, MemoryKind kind, int64_t bytes) {
  const int64_t before = arena_->mapped_bytes(window);
  absl::StatusOr<int64_t> trimmed = arena_->Trim(window, bytes);
  Book(kind, arena_->mapped_bytes(window) - before);
  BookSpares();
  return trimmed;
}

absl::Status Pool::Reserve(int lane, WindowKind kind, int64_t bytes) {
  const std::lock_guard lock(mutex_);
  COPPICE_RETURN_IF_ERROR(Grow(WindowOf(lane, kind), MemoryKindOf(kind), bytes));
  if (kind == WindowKind::kNodes) usage_.height = std::max(usage_.height, bytes);
  return absl::OkStatus();
}

absl::StatusOr<int64_t> Pool::Trim(int lane, WindowKind kind, int64_t bytes) {
  const std::lock_guard lock(mutex_);
  return Shrink(WindowOf(lane, kind), MemoryKindOf(kind), bytes);
}

absl::StatusOr<DeviceAddress> Pool::Allocate(int window,
                                             MemoryKind kind,
                                             RangeAllocator& ranges,
                                             int64_t bytes) {
  const DeviceAddress start = arena_->base(window);
  const std::optional<int64_t> offset = ranges.Allocate(bytes);
  if (!offset) {
    return MakeError(absl::StatusCode::kResourceExhausted,
                     "Pool: no room for {} bytes in a window of {} with {} live; release outputs "
                     "or raise window_bytes",
                     bytes, arena_->window_bytes(), ranges.live_bytes());
  }
  absl::Cleanup undo = [&] { ranges.Free(*offset); };
  COPPICE_RETURN_IF_ERROR(Grow(window, kind, *offset + bytes));
  std::move(undo).Cancel();
  return start + static_cast<DeviceAddress>(*offset);
}

absl::StatusOr<DeviceAddress> Pool::AllocateEager(int lane, int64_t bytes) {
  const int window = WindowOf(lane, WindowKind::kEager);
  COPPICE_CHECK(lane >= 0 && lane < lanes(), "no such window");
  const std::lock_guard lock(mutex_);
  RangeAllocator& eager = eager_[static_cast<size_t>(lane)];
  const int64_t before = eager.live_bytes();
  COPPICE_ASSIGN_OR_RETURN(const DeviceAddress address,
                           Allocate(window, MemoryKind::kEager, eager, bytes));
  usage_.eager_live += eager.live_bytes() - before;
  usage_.eager_peak = std::max(usage_.eager_peak, eager.top());
  return address;
}

void Pool::FreeEager(int lane, DeviceAddress address) {
  const DeviceAddress start = base(lane, WindowKind::kEager);
  COPPICE_CHECK(address >= start, "the address is not in the lane's eager window");
  const std::lock_guard lock(mutex_);
  usage_.eager_live -=
      eager_[static_cast<size_t>(lane)].Free(static_cast<int64_t>(address - start));
}

absl::StatusOr<int64_t> Pool::TrimEager(int lane) {
  const std::lock_guard lock(mutex_);
  return Shrink(WindowOf(lane, WindowKind::kEager), MemoryKind::kEager,
                eager_[static_cast<size_t>(lane)].top());
}

absl::Status Pool::DropSpares() {
  const absl::Status released = arena_->ReleaseSpares();
  BookSpares();
  return released;
}

absl::Status Pool::ReleaseSpares() {
  const std::lock_guard lock(mutex_);
  return DropSpares();
}

absl::StatusOr<DeviceAddress> Pool::AllocateConstant(int64_t bytes) {
  const std::lock_guard lock(mutex_);
  return Allocate(constants_window(), MemoryKind::kConstants, constants_, bytes);
}

void Pool::FreeConstant(DeviceAddress address) {
  const DeviceAddress start = arena_->base(constants_window());
  COPPICE_CHECK(address >= start, "the address is not in the constants window");
  const std::lock_guard lock(mutex_);
  constants_.Free(static_cast<int64_t>(address - start));
}

absl::Status Pool::Charge(MemoryKind kind, int64_t bytes) {
  COPPICE_CHECK(kind >= MemoryKind::kIncluded && bytes >= 0, "the pool maps this kind itself");
  const std::lock_guard lock(mutex_);
  if (!Admit(bytes).ok()) COPPICE_RETURN_IF_ERROR(DropSpares());
  COPPICE_RETURN_IF_ERROR(Admit(bytes));
  Book(kind, bytes);
  return absl::OkStatus();
}

void Pool::Discharge(MemoryKind kind, int64_t bytes) {
  const std::lock_guard lock(mutex_);
  COPPICE_CHECK(kind >= MemoryKind::kIncluded && bytes >= 0 && bytes <= usage_.of(kind),
                "more than was charged");
  Book(kind, -bytes);
}

absl::Status Pool::Suspend(bool keep_constants) {
  const std::lock_guard lock(mutex_);
  COPPICE_CHECK(released_.empty(), "the pool is suspended already");
  const int windows = constants_window() + 1;
  std::vector<int64_t> released(static_cast<size_t>(windows));
  for (int window = 0; window < windows; ++window) {
    const bool kept = keep_constants && window == constants_window();
    released[static_cast<size_t>(window)] = kept ? 0 : arena_->mapped_bytes(window);
  }
  released_ = std::move(released);
  absl::Status status;
  for (int window = 0; window < windows && status.ok(); ++window) {
    if (released_[static_cast<size_t>(window)] == 0) continue;
    status = Shrink(window, KindOfWindow(window), 0).status();
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
  for (int window = 0; window <= constants_window(); ++window) {
    absl::Status grown = Grow(window, KindOfWindow(window), released_[static_cast<size_t>(window)]);
    if (grown.ok()) continue;
    for (int undone = 0; undone < window; ++undone) {
      if (released_[static_cast<size_t>(undone)] == 0) continue;
      // What cannot be unmapped stays, and the next attempt finds it there.
      (void)Shrink(undone, KindOfWindow(undone), 0).ok();
    }
    (void)DropSpares().ok();
    return grown;
  }
  return absl::OkStatus();
}

bool Pool::suspended() const {
  const std::lock_guard lock(mutex_);
  return !released_.empty();
}

absl::Status Pool::Scrub(int lane, CuStream stream) const {
  for (int kind = 0; kind < kWindowKindCount; ++kind) {
    const int64_t mapped = mapped_bytes(lane, static_cast<WindowKind>(kind));
    if (mapped == 0) continue;
    COPPICE_RETURN_IF_ERROR(driver_.Call<&DriverTable::MemsetD8Async>(
        base(lane, static_cast<WindowKind>(kind)), static_cast<unsigned char>(0),
        static_cast<size_t>(mapped), stream));
  }
  return absl::OkStatus();
}

MemoryKind Pool::KindOfWindow(int window) const {
  return window == constants_window() ? MemoryKind::kConstants
                                      : static_cast<MemoryKind>(window % kWindowKindCount);
}

DeviceAddress Pool::base(int lane, WindowKind kind) const {
  return arena_->base(WindowOf(lane, kind));
}

int64_t Pool::mapped_bytes(int lane, WindowKind kind) const {
  const std::lock_guard lock(mutex_);
  return arena_->mapped_bytes(WindowOf(lane, kind));
}

std::optional<Pool::Place> Pool::Locate(DeviceAddress address) const {
  if (!Contains(address, 1)) return std::nullopt;
  const auto window =
      static_cast<int>((address - start_) / static_cast<DeviceAddress>(arena_->window_bytes()));
  return Place{.lane = window / kWindowKindCount,
               .kind = static_cast<WindowKind>(window % kWindowKindCount)};
}

MemoryUsage Pool::usage() const {
  const std::lock_guard lock(mutex_);
  return usage_;
}

}  // namespace coppice
