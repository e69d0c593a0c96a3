// Asking for memory, with room made where the budget refuses, and what is present of it.

#include "graphs/lane/lane_memory.h"

#include <algorithm>
#include <string>

#include "coppice/base/status.h"

namespace coppice::internal {

LaneMemory::LaneMemory(const Driver& driver, Pool& pool, const WindowMap& windows, int lane)
    : driver_(driver),
      pool_(pool),
      windows_(windows),
      lane_(lane),
      eager_(pool, WindowMap::WindowOf(lane, MemoryKind::kEager)),
      plan_base_(base(MemoryKind::kPlan)),
      heap_(
          "coppice: plan window of lane " + std::to_string(lane), plan_base_, pool.window_bytes()) {
}

absl::Status LaneMemory::Reserve(MemoryKind window, int64_t bytes) {
  if (window == MemoryKind::kPlan) return ReservePlan(bytes, room_);
  return room_.Find(window, [&]() -> absl::StatusOr<int64_t> {
    COPPICE_ASSIGN_OR_RETURN(const Admission grown,
                             pool_.Grow(WindowMap::WindowOf(lane_, window), bytes));
    return grown.missing;
  });
}

absl::Status LaneMemory::ReservePlan(int64_t bytes, Room& room) {
  const int window = WindowMap::WindowOf(lane_, MemoryKind::kPlan);
  const absl::Status reserved = room.Find(MemoryKind::kPlan, [&]() -> absl::StatusOr<int64_t> {
    COPPICE_ASSIGN_OR_RETURN(const Admission grown, pool_.Grow(window, bytes));
    return grown.missing;
  });
  if (&room == &room_) FindPresent();
  return reserved;
}

absl::StatusOr<DeviceAddress> LaneMemory::AllocateIn(WindowHeap& heap,
                                                     MemoryKind kind,
                                                     int64_t bytes) {
  DeviceAddress address = 0;
  COPPICE_RETURN_IF_ERROR(room_.Find(kind, [&]() -> absl::StatusOr<int64_t> {
    COPPICE_ASSIGN_OR_RETURN(const Grant grant, heap.Allocate(bytes));
    address = grant.address;
    return grant.missing;
  }));
  return address;
}

absl::StatusOr<DeviceAddress> LaneMemory::AllocateEager(int64_t bytes) {
  return AllocateIn(eager_, MemoryKind::kEager, bytes);
}

absl::StatusOr<BudgetCharge> LaneMemory::Charge(MemoryKind kind, int64_t bytes, Room& room) {
  const int account = static_cast<int>(kind);
  COPPICE_RETURN_IF_ERROR(room.Find(kind, [&]() -> absl::StatusOr<int64_t> {
    COPPICE_ASSIGN_OR_RETURN(const Admission charged, pool_.Charge(account, bytes));
    return charged.missing;
  }));
  return BudgetCharge(pool_.budget(), account, bytes);
}

absl::Status LaneMemory::UnmapAbove(int64_t top) {
  const absl::Status unmapped =
      pool_.Trim(WindowMap::WindowOf(lane_, MemoryKind::kPlan), top).status();
  FindPresent();
  return unmapped;
}

int64_t LaneMemory::LackingPlanBytes(int64_t bytes) const {
  const BudgetUsage books = pool_.budget().usage();
  if (books.limit == 0) return 0;
  const int64_t growth = AlignUp(bytes, pool_.granularity()) - mapped_bytes(MemoryKind::kPlan);
  const int64_t spare = books.bytes[static_cast<size_t>(MemoryKind::kSpare)];
  return growth <= 0 ? 0 : std::max<int64_t>(growth - (books.limit - books.total + spare), 0);
}

void LaneMemory::FindPresent() {
  const int64_t mapped = mapped_bytes(MemoryKind::kPlan);
  heap_.Resize(mapped);
  present_bytes_ = absence_ == Absence::kNone ? mapped : kAbsent;
}

absl::Status LaneMemory::CheckPresent(const char* where) const {
  if (absence_ == Absence::kSuspended)
    return FailedPrecondition("{}: the session is suspended; call Resume first", where);
  if (absence_ == Absence::kLent) {
    return FailedPrecondition("{}: the memory of lane {} is lent; end the loan first", where,
                              lane_);
  }
  return absl::OkStatus();
}

void LaneMemory::SetSuspended(bool suspended) {
  absence_ = suspended ? Absence::kSuspended : Absence::kNone;
  FindPresent();
}

int64_t LaneMemory::Lend() {
  absence_ = Absence::kLent;
  return std::exchange(present_bytes_, kAbsent);
}

void LaneMemory::EndLoan() {
  absence_ = Absence::kNone;
  FindPresent();
}

absl::Status LaneMemory::Scrub(CuStream stream) const {
  for (int kind = 0; kind < kLaneWindowCount; ++kind) {
    const auto window = static_cast<MemoryKind>(kind);
    const int64_t mapped = mapped_bytes(window);
    if (mapped == 0) continue;
    COPPICE_RETURN_IF_ERROR(driver_.Call<&DriverTable::MemsetD8Async>(
        base(window), static_cast<unsigned char>(0), static_cast<size_t>(mapped), stream));
  }
  return absl::OkStatus();
}

std::optional<Region> LaneMemory::RegionOf(const Tensor& tensor) const {
  if (tensor.data < plan_base_ ||
      tensor.data - plan_base_ >= static_cast<DeviceAddress>(pool_.window_bytes()) ||
      tensor.element_count() == 0) {
    return std::nullopt;
  }
  // A view may begin anywhere; plans know whole units.
  const auto offset = static_cast<int64_t>(tensor.data - plan_base_);
  const int64_t begin = offset / kBufferAlignment * kBufferAlignment;
  const int64_t end = offset + tensor.span() * SizeOf(tensor.dtype);
  return Region{.offset = begin, .bytes = AlignUp(end - begin, kBufferAlignment)};
}

}  // namespace coppice::internal
