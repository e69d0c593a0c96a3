// Memory that comes and goes: room in the budget, suspension, loans, constants.

#include "coppice/graphs/session_memory.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "absl/cleanup/cleanup.h"

#include "coppice/base/check.h"
#include "coppice/base/status.h"

#include "graphs/parts/reach.h"
#include "graphs/parts/session_parts.h"

namespace coppice {

using internal::Lane;
using internal::SessionParts;
using internal::Slot;

namespace {

// Calls `visit` with every slot whose outputs somebody leases and nobody overwrote.
template <typename Visit>
absl::Status ForEachLeased(Lane& lane, const Visit& visit) {
  lane.slots().Sweep();  // So that dropped parts count no more.
  return lane.slots().ForEach([&](const Slot& slot) -> absl::Status {
    return slot.leased() && !slot.expired() ? visit(slot) : absl::OkStatus();
  });
}

// Refuses outputs in the session's memory that somebody leases.
absl::Status RefuseLeases(Lane& lane, const char* where) {
  return ForEachLeased(lane, [&](const Slot& slot) -> absl::Status {
    for (size_t i = 0; i < slot.outputs->tensors.size(); ++i) {
      if (!slot.keeps(i) || !lane.memory().windows().Contains(slot.outputs->tensors[i].data))
        continue;
      return FailedPrecondition(
          "{}: the outputs of program '{}' (call {} on lane {}) are leased; drop the lease first",
          where, slot.program->spec.name, slot.call, lane.index);
    }
    return absl::OkStatus();
  });
}

// What comes of asking a lane to give memory up. What another lane than the `needy` one fails with
// denies nobody room, unless it is sticky. It is asked again, because it fails once for a stream
// that was destroyed, and has waited for that and left it by then.
template <typename Ask>
absl::Status AskForMemory(SessionParts& parts,
                          const Lane& asked,
                          const Lane& needy,
                          const Ask& ask) {
  absl::Status answer = parts.sticky.Note(ask());
  if (answer.ok() || &asked == &needy) return answer;
  COPPICE_RETURN_IF_ERROR(parts.sticky.Get());
  (void)parts.sticky.Note(ask()).ok();
  return parts.sticky.Get();
}

// Under the first lane's lock: a suspension is of all lanes.
bool IsSuspended(const SessionParts& parts) {
  return parts.lane(0).memory().absence() == internal::LaneMemory::Absence::kSuspended;
}

// The dense tensor of these sizes, without an address.
absl::StatusOr<Tensor> ConstantOf(DType dtype, std::span<const int64_t> sizes, bool has_source) {
  Tensor tensor{.dtype = dtype, .rank = static_cast<int8_t>(sizes.size())};
  if (!has_source || sizes.size() > kRankMax) {
    return InvalidArgument(
        "Session::AddConstant: the rank is {}{}; use a rank of at most {}, and give a source",
        sizes.size(), has_source ? "" : " and there is no source", kRankMax);
  }
  if (SizeOf(dtype) == 0) {
    return InvalidArgument("Session::AddConstant: dtype {} does not exist",
                           static_cast<int>(dtype));
  }
  int64_t elements = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    if (sizes[i] < 1 || elements > INT64_MAX / SizeOf(dtype) / sizes[i]) {
      return InvalidArgument(
          "Session::AddConstant: size {} is {}; use sizes >= 1 whose total bytes fit in an int64",
          i, sizes[i]);
    }
    tensor.sizes[i] = sizes[i];
    tensor.strides[i] = elements;
    elements *= sizes[i];
  }
  return tensor;
}

}  // namespace

SessionMemory::SessionMemory(SessionParts& parts) : parts_(parts) {
  if (parts.options.memory.budget_bytes == 0) return;
  for (const std::unique_ptr<Lane>& lane : parts.lanes) {
    lane->memory().room().SetMaker([this, raw = lane.get()](int64_t bytes, MemoryKind need) {
      return MakeRoom(*raw, bytes, need);
    });
  }
}

SessionMemory::~SessionMemory() = default;

MemoryUsage SessionMemory::usage() const {
  for (const std::unique_ptr<Lane>& lane : parts_.lanes) {
    const std::lock_guard lock(lane->mutex);
    lane->slots().Sweep();
  }
  return books();
}

MemoryUsage SessionMemory::books() const {
  MemoryUsage usage;
  for (const std::unique_ptr<Lane>& lane : parts_.lanes) {
    const WindowHeap& eager = lane->memory().eager();
    usage.height = std::max(usage.height, lane->nodes().height());
    usage.eager_live += eager.live_bytes();
    usage.eager_peak = std::max(usage.eager_peak, eager.top_peak());
  }
  const BudgetUsage books = parts_.budget->usage();
  std::copy(books.bytes.begin(), books.bytes.end(), usage.bytes.begin());
  std::copy(books.peaks.begin(), books.peaks.end(), usage.peak.begin());
  usage.total = books.total;
  usage.total_peak = books.total_peak;
  usage.budget = books.limit;
  return usage;
}

WindowInfo SessionMemory::window(int lane, MemoryKind kind) const {
  COPPICE_CHECK(lane >= 0 && lane < static_cast<int>(parts_.lanes.size()), "no such lane");
  COPPICE_CHECK(static_cast<int>(kind) < internal::kLaneWindowCount, "no window of a lane");
  const internal::LaneMemory& memory = parts_.lane(lane).memory();
  return {.lane = lane,
          .kind = kind,
          .base = memory.base(kind),
          .window_bytes = parts_.pool->window_bytes(),
          .mapped_bytes = memory.mapped_bytes(kind),
          .granularity = parts_.pool->granularity()};
}

std::optional<WindowInfo> SessionMemory::Locate(DeviceAddress address) const {
  const std::optional<internal::WindowMap::Place> place = parts_.windows->Locate(address);
  if (!place) return std::nullopt;
  return window(place->lane, place->kind);
}

absl::Status SessionMemory::FreeIdle(Lane& lane, bool plans) const {
  if (!lane.memory().CheckPresent("").ok()) return absl::OkStatus();
  // Waiting would break the capture.
  COPPICE_ASSIGN_OR_RETURN(const bool captures, lane.order().LastStreamCaptures());
  if (captures) return absl::OkStatus();
  COPPICE_RETURN_IF_ERROR(lane.order().Drain());
  COPPICE_RETURN_IF_ERROR(lane.memory().TrimEager());
  return plans ? lane.UnmapAbove(0) : absl::OkStatus();
}

absl::Status SessionMemory::MakeRoom(Lane& lane, int64_t bytes, MemoryKind need) {
  const Budget& budget = *parts_.budget;
  // Of one moment: spare handles of other lanes may go while this looks.
  const auto occupied = [&budget] {
    const BudgetUsage books = budget.usage();
    return books.total - books.bytes[static_cast<size_t>(MemoryKind::kSpare)];
  };
  // A run under way may still read outputs whose leases were dropped since it began.
  if (need != MemoryKind::kEager) lane.slots().Sweep();
  const internal::Reach reach(parts_, lane);
  // What cannot help at all is not begun.
  const int64_t reclaimable =
      reach.ReclaimableBytes(need) + budget.bytes(static_cast<int>(MemoryKind::kSpare));
  if (bytes > reclaimable) {
    return MakeError(absl::StatusCode::kResourceExhausted,
                     "drop leases, or raise the budget of {} bytes to at least {}", budget.limit(),
                     budget.limit() + bytes - reclaimable);
  }
  const int64_t target = occupied() - bytes;
  for (Lane* each : reach.lanes()) {
    if (occupied() <= target) return absl::OkStatus();
    COPPICE_RETURN_IF_ERROR(AskForMemory(
        parts_, *each, lane, [&] { return FreeIdle(*each, reach.TakesPlans(*each, need)); }));
  }
  const bool evicts = parts_.options.memory.on_budget == OnLimit::kEvict;
  for (size_t i = 0; evicts && i < reach.lanes().size(); ++i) {
    Lane& each = *reach.lanes()[i];
    for (bool evicted = true; evicted && occupied() > target;) {
      evicted = false;
      COPPICE_RETURN_IF_ERROR(AskForMemory(parts_, each, lane, [&]() -> absl::Status {
        COPPICE_ASSIGN_OR_RETURN(evicted, each.EvictOne(nullptr));
        return absl::OkStatus();
      }));
    }
  }
  if (occupied() <= target) return absl::OkStatus();
  return MakeError(absl::StatusCode::kResourceExhausted,
                   "drop leases, or raise the budget of {} bytes to at least {}, because "
                   "everything else is in use",
                   budget.limit(), budget.limit() + occupied() - target);
}

SessionMemory::LaneLocks SessionMemory::LockIdle() const {
  return parts_.LockIdleLanes();
}

absl::Status SessionMemory::CheckSuspendable(const SuspendOptions& suspend) const {
  for (const std::unique_ptr<Lane>& lane : parts_.lanes) {
    COPPICE_RETURN_IF_ERROR(lane->memory().CheckPresent("Session::Suspend"));
    COPPICE_RETURN_IF_ERROR(ForEachLeased(*lane, [&](const Slot& slot) -> absl::Status {
      if (slot.open_scopes() == 0) return absl::OkStatus();
      return FailedPrecondition(
          "Session::Suspend: read scopes are open ({}) on the outputs of program '{}' (call {}); "
          "end them first",
          slot.open_scopes(), slot.program->spec.name, slot.call);
    }));
    if (suspend.refuse_leases) COPPICE_RETURN_IF_ERROR(RefuseLeases(*lane, "Session::Suspend"));
  }
  return absl::OkStatus();
}

// Copies between the host and the device, one at a time, on the first lane's own stream. After a
// failure the copy may be under way still, so its host memory has to stay.
absl::Status SessionMemory::Transfer(Direction direction, SavedBytes& copy) {
  Lane& lane = parts_.lane(0);
  const CuStream stream = lane.order().own_stream().handle();
  COPPICE_RETURN_IF_ERROR(lane.order().Enter(stream));
  if (direction == Direction::kToHost) {
    COPPICE_RETURN_IF_ERROR(parts_.driver.Call<&DriverTable::MemcpyDtoHAsync>(
        static_cast<void*>(copy.bytes.data()), copy.address, copy.bytes.size(), stream));
  } else {
    COPPICE_RETURN_IF_ERROR(parts_.driver.Call<&DriverTable::MemcpyHtoDAsync>(
        copy.address, static_cast<const void*>(copy.bytes.data()), copy.bytes.size(), stream));
  }
  if (lane.order().Wait().ok()) return absl::OkStatus();
  return SynchronizeStream(lane.driver, stream);
}

// Transfer of bytes that nobody else keeps.
absl::Status SessionMemory::TransferOrStrand(Direction direction, SavedBytes& copy) {
  stranded_.reserve(stranded_.size() + 1);
  absl::Status copied = Transfer(direction, copy);
  if (!copied.ok()) stranded_.push_back(std::move(copy.bytes));
  return copied;
}

absl::Status SessionMemory::Save(const SuspendOptions& suspend) {
  std::vector<SavedBytes> copies;
  const auto add = [&copies](DeviceAddress address, int64_t bytes) {
    copies.push_back(
        {.address = address, .bytes = std::vector<std::byte>(static_cast<size_t>(bytes))});
  };
  for (const std::unique_ptr<Lane>& lane : parts_.lanes) {
    COPPICE_RETURN_IF_ERROR(ForEachLeased(*lane, [&](const Slot& slot) {
      for (size_t i = 0; i < slot.outputs->tensors.size(); ++i) {
        const Tensor& tensor = slot.outputs->tensors[i];
        const int64_t bytes = slot.keeps(i) ? tensor.span() * SizeOf(tensor.dtype) : 0;
        if (bytes > 0 && parts_.windows->Contains(tensor.data)) add(tensor.data, bytes);
      }
      return absl::OkStatus();
    }));
  }
  if (suspend.constants == SuspendedConstants::kSave) {
    for (const Constant& constant : constants_)
      add(constant.address, constant.bytes);
  }
  for (SavedBytes& copy : copies)
    COPPICE_RETURN_IF_ERROR(TransferOrStrand(Direction::kToHost, copy));
  saved_ = std::move(copies);
  suspended_constants_ = suspend.constants;
  return absl::OkStatus();
}

absl::Status SessionMemory::Fill(const Constant& constant) {
  SavedBytes filled{.address = constant.address,
                    .bytes = std::vector<std::byte>(static_cast<size_t>(constant.bytes))};
  COPPICE_RETURN_IF_ERROR(constant.source(filled.bytes));
  return TransferOrStrand(Direction::kToDevice, filled);
}

absl::Status SessionMemory::Restore() {
  for (SavedBytes& copy : saved_)
    COPPICE_RETURN_IF_ERROR(Transfer(Direction::kToDevice, copy));
  const bool reload = suspended_constants_ == SuspendedConstants::kReload;
  for (size_t i = 0; reload && i < constants_.size(); ++i)
    COPPICE_RETURN_IF_ERROR(Fill(constants_[i]));
  saved_.clear();
  return absl::OkStatus();
}

// Releases the physical memory of all windows, but for constants that stay.
absl::Status SessionMemory::ReleaseAll() {
  const int constants = parts_.constants->window();
  const bool kept = suspended_constants_ == SuspendedConstants::kKeep;
  return parts_.pool->Suspend(std::span(&constants, kept ? 1 : 0));
}

absl::Status SessionMemory::Suspend(const SuspendOptions& options) {
  COPPICE_RETURN_IF_ERROR(parts_.sticky.Get());
  const LaneLocks locks = LockIdle();
  COPPICE_RETURN_IF_ERROR(CheckSuspendable(options));
  for (const std::unique_ptr<Lane>& lane : parts_.lanes) {
    lane->slots().Sweep();
    COPPICE_RETURN_IF_ERROR(parts_.sticky.Note(lane->order().Drain()));
  }
  COPPICE_RETURN_IF_ERROR(parts_.sticky.Note(Save(options)));
  const absl::Status released = ReleaseAll();
  if (!released.ok() && !parts_.pool->suspended() && Restore().ok())
    return parts_.sticky.Note(released);
  for (const std::unique_ptr<Lane>& lane : parts_.lanes)
    lane->memory().SetSuspended(true);
  parts_.suspensions.fetch_add(1, std::memory_order_relaxed);
  if (parts_.tracer != nullptr) parts_.tracer->Suspend();
  for (size_t i = 0; options.drop_graphs && i < parts_.lanes.size(); ++i)
    parts_.lanes[i]->nodes().EvictIdle({});
  return parts_.sticky.Note(released);
}

absl::Status SessionMemory::Resume() {
  COPPICE_RETURN_IF_ERROR(parts_.sticky.Get());
  const LaneLocks locks = LockIdle();
  if (!IsSuspended(parts_))
    return FailedPrecondition("Session::Resume: the session is not suspended");
  // A suspension that failed half way has its memory still.
  if (parts_.pool->suspended()) COPPICE_RETURN_IF_ERROR(parts_.sticky.Note(parts_.pool->Resume()));
  if (absl::Status restored = parts_.sticky.Note(Restore()); !restored.ok()) {
    (void)ReleaseAll().ok();
    return restored;
  }
  for (const std::unique_ptr<Lane>& lane : parts_.lanes)
    lane->memory().SetSuspended(false);
  if (parts_.tracer != nullptr) parts_.tracer->Resume();
  return absl::OkStatus();
}

absl::StatusOr<Tensor> SessionMemory::AddConstant(DType dtype,
                                                  std::span<const int64_t> sizes,
                                                  ConstantSource source) {
  COPPICE_RETURN_IF_ERROR(parts_.sticky.Get());
  COPPICE_ASSIGN_OR_RETURN(Tensor tensor, ConstantOf(dtype, sizes, source != nullptr));
  const int64_t bytes = tensor.element_count() * SizeOf(dtype);
  Lane& lane = parts_.lane(0);
  const std::lock_guard lock(lane.mutex);
  if (IsSuspended(parts_)) return lane.memory().CheckPresent("Session::AddConstant");
  const absl::StatusOr<DeviceAddress> address =
      lane.memory().AllocateIn(*parts_.constants, MemoryKind::kConstants, bytes);
  COPPICE_RETURN_IF_ERROR(parts_.sticky.Note(address.status()));
  tensor.data = *address;
  absl::Cleanup undo = [&] { parts_.constants->Free(tensor.data); };
  Constant constant{.address = tensor.data, .bytes = bytes, .source = std::move(source)};
  COPPICE_RETURN_IF_ERROR(parts_.sticky.Note(Fill(constant)));
  constants_.push_back(std::move(constant));
  std::move(undo).Cancel();
  return tensor;
}

absl::Status SessionMemory::SetExternalBytes(int64_t bytes) {
  if (bytes < 0)
    return InvalidArgument("Session::SetExternalBytes: {} bytes; give 0 or more", bytes);
  Lane& lane = parts_.lane(0);
  const std::lock_guard lock(lane.mutex);
  const int64_t change = bytes - external_bytes_;
  if (change < 0) parts_.budget->Discharge(static_cast<int>(MemoryKind::kExternal), -change);
  if (change > 0) {
    COPPICE_ASSIGN_OR_RETURN(
        internal::BudgetCharge charge,
        lane.memory().Charge(MemoryKind::kExternal, change, lane.memory().room()));
    charge.Keep();
  }
  external_bytes_ = bytes;
  return absl::OkStatus();
}

absl::Status SessionMemory::Trim() {
  COPPICE_RETURN_IF_ERROR(parts_.sticky.Get());
  for (const std::unique_ptr<Lane>& lane : parts_.lanes) {
    const std::lock_guard lock(lane->mutex);
    lane->slots().Sweep();
    COPPICE_RETURN_IF_ERROR(parts_.sticky.Note(FreeIdle(*lane, /*plans=*/false)));
    COPPICE_RETURN_IF_ERROR(parts_.sticky.Note(lane->UnmapAbove(lane->nodes().top())));
  }
  return parts_.sticky.Note(parts_.pool->ReleaseSpares());
}

absl::StatusOr<Lane*> SessionMemory::FindLane(const char* where, int lane) const {
  COPPICE_RETURN_IF_ERROR(parts_.sticky.Get());
  if (lane < 0 || lane >= static_cast<int>(parts_.lanes.size()))
    return InvalidArgument(
        "{}: lane {} does not exist: the number of lanes is {}, and the first is lane 0", where,
        lane, parts_.lanes.size());
  return &parts_.lane(lane);
}

absl::StatusOr<Loan> SessionMemory::Lend(int lane) {
  COPPICE_ASSIGN_OR_RETURN(Lane * lent, FindLane("Session::Lend", lane));
  const std::lock_guard lock(lent->mutex);
  COPPICE_RETURN_IF_ERROR(lent->memory().CheckPresent("Session::Lend"));
  lent->slots().SweepWindow();
  for (const Slot* slot : lent->slots().ListOf(MemoryKind::kPlan)) {
    if (internal::RegionsOf(*slot).empty()) continue;
    return FailedPrecondition(
        "Session::Lend: the outputs of program '{}' (call {} on lane {}) are leased; drop the "
        "lease first",
        slot->program->spec.name, slot->call, lane);
  }
  // Readers and borrowers join the order of the lane without being calls.
  const absl::StatusOr<bool> idle = lent->order().IsIdle();
  COPPICE_RETURN_IF_ERROR(parts_.sticky.Note(idle.status()));
  if (lent->recording() || !*idle) {
    return FailedPrecondition("Session::Lend: lane {} has {} in flight; wait for it first", lane,
                              lent->recording() ? "a recording" : "work");
  }
  const int64_t bytes = lent->memory().Lend();
  return Loan(lent, lent->memory().base(MemoryKind::kPlan), bytes);
}

Loan::~Loan() {
  if (lane_ == nullptr) return;
  const std::lock_guard lock(lane_->mutex);
  lane_->memory().EndLoan();
}

absl::Status Loan::Return(CuStream stream) {
  if (lane_ == nullptr) return FailedPrecondition("Loan::Return: the loan has ended");
  absl::Status joined;
  {
    const std::lock_guard lock(lane_->mutex);
    joined = lane_->order().Join(stream);
  }
  const Loan ended = std::move(*this);
  return joined;
}

absl::Status SessionMemory::Scrub(CuStream stream, int lane) {
  COPPICE_ASSIGN_OR_RETURN(Lane * scrubbed, FindLane("Session::Scrub", lane));
  const std::lock_guard lock(scrubbed->mutex);
  COPPICE_RETURN_IF_ERROR(scrubbed->memory().CheckPresent("Session::Scrub"));
  const absl::StatusOr<bool> captures = IsCapturing(parts_.driver, stream);
  COPPICE_RETURN_IF_ERROR(parts_.sticky.Note(captures.status()));
  if (*captures)
    return FailedPrecondition("Session::Scrub: the stream is capturing; end its capture first");
  scrubbed->slots().Sweep();
  COPPICE_RETURN_IF_ERROR(RefuseLeases(*scrubbed, "Session::Scrub"));
  COPPICE_RETURN_IF_ERROR(parts_.sticky.Note(parts_.pool->ReleaseSpares()));
  COPPICE_RETURN_IF_ERROR(parts_.sticky.Note(scrubbed->order().Enter(stream)));
  return parts_.sticky.Note(scrubbed->memory().Scrub(stream));
}

}  // namespace coppice
