// Memory that comes and goes: room in the budget, suspension, loans, constants.

#include <algorithm>
#include <cstring>
#include <mutex>
#include <utility>

#include "absl/cleanup/cleanup.h"

#include "coppice/base/check.h"
#include "coppice/base/status.h"

#include "graphs/session_state.h"
#include "graphs/staging_layout.h"

namespace coppice {

using internal::Constant;
using internal::Lane;
using internal::SavedBytes;
using internal::Slot;

namespace {

// Calls `visit` with every slot whose outputs somebody leases and nobody overwrote.
template <typename Visit>
absl::Status ForEachLeased(const Lane& lane, const Visit& visit) {
  for (const auto* slots : {&lane.window, &lane.parked, &lane.ring}) {
    for (const Slot* slot : *slots) {
      if (!slot->leased() || slot->expired()) continue;
      COPPICE_RETURN_IF_ERROR(visit(*slot));
    }
  }
  return absl::OkStatus();
}

// Refuses outputs in the session's memory that somebody leases.
absl::Status RefuseLeases(const Lane& lane, const char* where) {
  return ForEachLeased(lane, [&](const Slot& slot) -> absl::Status {
    for (const Tensor& tensor : slot.outputs->tensors) {
      if (!lane.pool.Contains(tensor.data, 1)) continue;
      return FailedPrecondition(
          "{}: the outputs of program '{}' (call {} on lane {}) are leased; drop the lease before",
          where, slot.program->spec.name, slot.call, lane.index);
    }
    return absl::OkStatus();
  });
}

}  // namespace

absl::Status Session::State::FreeIdle(Lane& lane, bool nodes) const {
  if (!lane.CheckPresent("").ok()) return absl::OkStatus();
  // Waiting would break the capture.
  COPPICE_ASSIGN_OR_RETURN(const bool captures, lane.LastStreamCaptures());
  if (captures) return absl::OkStatus();
  COPPICE_RETURN_IF_ERROR(lane.Drain());
  COPPICE_RETURN_IF_ERROR(pool->TrimEager(lane.index).status());
  return nodes ? lane.UnmapAbove(0) : absl::OkStatus();
}

absl::Status Session::State::MakeRoom(Lane& lane, int64_t bytes, MemoryKind need) {
  const auto occupied = [this] {
    const MemoryUsage usage = pool->usage();
    return usage.total - usage.of(MemoryKind::kSpare);
  };
  // What cannot help at all is not begun.
  const MemoryUsage before = pool->usage();
  const bool evicts = options.on_budget == OnLimit::kEvict;
  const int64_t reclaimable = before.of(MemoryKind::kNodes) + before.of(MemoryKind::kEager) +
                              before.of(MemoryKind::kSpare) +
                              (evicts ? before.of(MemoryKind::kGraphs) : 0);
  if (bytes > reclaimable) {
    return MakeError(absl::StatusCode::kResourceExhausted,
                     "Session: {} bytes are lacking in the budget, and at most {} can be freed",
                     bytes, reclaimable);
  }
  const int64_t target = occupied() - bytes;
  std::vector<Lane*> reachable = {&lane};
  std::vector<std::unique_lock<std::mutex>> locks;
  for (const std::unique_ptr<Lane>& other : lanes) {
    if (other.get() == &lane) continue;
    std::unique_lock<std::mutex> lock(other->mutex, std::try_to_lock);
    if (!lock.owns_lock()) continue;
    reachable.push_back(other.get());
    locks.push_back(std::move(lock));
  }
  // A run under way may still read outputs whose leases were dropped since it began.
  if (need != MemoryKind::kEager) lane.Sweep();
  for (Lane* each : reachable) {
    if (occupied() <= target) return absl::OkStatus();
    if (each != &lane) each->Sweep();
    // The lane's own nodes are what a recording or a replay needs the room for.
    const bool nodes = each != &lane || (need != MemoryKind::kNodes && need != MemoryKind::kGraphs);
    COPPICE_RETURN_IF_ERROR(Remember(FreeIdle(*each, nodes)));
  }
  for (size_t i = 0; evicts && i < reachable.size(); ++i) {
    while (occupied() > target) {
      COPPICE_ASSIGN_OR_RETURN(const bool evicted, EvictOne(nullptr, *reachable[i]));
      if (!evicted) break;
    }
  }
  if (occupied() <= target) return absl::OkStatus();
  return MakeError(absl::StatusCode::kResourceExhausted,
                   "Session: {} bytes of the budget cannot be freed; everything is in use",
                   occupied() - target);
}

std::vector<std::unique_lock<std::mutex>> Session::State::LockIdle() const {
  while (true) {
    if (background != nullptr) background->Wait();
    std::vector<std::unique_lock<std::mutex>> locks;
    bool recording = false;
    for (const std::unique_ptr<Lane>& lane : lanes) {
      locks.emplace_back(lane->mutex);
      recording |= lane->recordings > 0;
    }
    if (!recording) return locks;
  }
}

absl::Status Session::State::CheckSuspendable(const SuspendOptions& suspend) const {
  for (const std::unique_ptr<Lane>& lane : lanes) {
    COPPICE_RETURN_IF_ERROR(lane->CheckPresent("Session::Suspend"));
    COPPICE_RETURN_IF_ERROR(ForEachLeased(*lane, [&](const Slot& slot) -> absl::Status {
      if (slot.open_scopes == 0) return absl::OkStatus();
      return FailedPrecondition(
          "Session::Suspend: {} read scopes are open on the outputs of program '{}' (call {}); end "
          "them before",
          slot.open_scopes, slot.program->spec.name, slot.call);
    }));
    if (suspend.refuse_leases) COPPICE_RETURN_IF_ERROR(RefuseLeases(*lane, "Session::Suspend"));
  }
  return absl::OkStatus();
}

// Copies between the host and the device, one at a time, on the first lane's own stream. After a
// failure the copy may be under way still, so its host memory has to stay.
absl::Status Session::State::Transfer(Direction direction, SavedBytes& copy) {
  Lane& lane = *lanes.front();
  const CuStream stream = lane.own_stream.handle();
  COPPICE_RETURN_IF_ERROR(lane.Enter(stream));
  if (direction == Direction::kToHost) {
    COPPICE_RETURN_IF_ERROR(driver.Call<&DriverTable::MemcpyDtoHAsync>(
        static_cast<void*>(copy.bytes.data()), copy.address, copy.bytes.size(), stream));
  } else {
    COPPICE_RETURN_IF_ERROR(driver.Call<&DriverTable::MemcpyHtoDAsync>(
        copy.address, static_cast<const void*>(copy.bytes.data()), copy.bytes.size(), stream));
  }
  if (lane.Wait().ok()) return absl::OkStatus();
  return lane.WaitForStream(stream);
}

// Transfer of bytes that nobody else keeps.
absl::Status Session::State::TransferOrStrand(Direction direction, SavedBytes& copy) {
  stranded.reserve(stranded.size() + 1);
  absl::Status copied = Transfer(direction, copy);
  if (!copied.ok()) stranded.push_back(std::move(copy.bytes));
  return copied;
}

absl::Status Session::State::Save(const SuspendOptions& suspend) {
  std::vector<SavedBytes> copies;
  const auto add = [&copies](DeviceAddress address, int64_t bytes) {
    copies.push_back(
        {.address = address, .bytes = std::vector<std::byte>(static_cast<size_t>(bytes))});
  };
  for (const std::unique_ptr<Lane>& lane : lanes) {
    COPPICE_RETURN_IF_ERROR(ForEachLeased(*lane, [&](const Slot& slot) {
      for (const Tensor& tensor : slot.outputs->tensors) {
        const int64_t bytes = tensor.element_count() * SizeOf(tensor.dtype);
        if (bytes > 0 && pool->Contains(tensor.data, 1)) add(tensor.data, bytes);
      }
      return absl::OkStatus();
    }));
  }
  if (suspend.constants == SuspendedConstants::kSave) {
    for (const Constant& constant : constants)
      add(constant.address, constant.bytes);
  }
  for (SavedBytes& copy : copies)
    COPPICE_RETURN_IF_ERROR(TransferOrStrand(Direction::kToHost, copy));
  saved = std::move(copies);
  suspended_constants = suspend.constants;
  return absl::OkStatus();
}

absl::Status Session::State::Fill(const Constant& constant) {
  SavedBytes filled{.address = constant.address,
                    .bytes = std::vector<std::byte>(static_cast<size_t>(constant.bytes))};
  COPPICE_RETURN_IF_ERROR(constant.source(filled.bytes));
  return TransferOrStrand(Direction::kToDevice, filled);
}

absl::Status Session::State::Restore() {
  for (SavedBytes& copy : saved)
    COPPICE_RETURN_IF_ERROR(Transfer(Direction::kToDevice, copy));
  const bool reload = suspended_constants == SuspendedConstants::kReload;
  for (size_t i = 0; reload && i < constants.size(); ++i)
    COPPICE_RETURN_IF_ERROR(Fill(constants[i]));
  saved.clear();
  return absl::OkStatus();
}

void Session::State::MarkSuspended(bool suspended) {
  for (const std::unique_ptr<Lane>& lane : lanes) {
    lane->suspended = suspended;
    lane->FindUsable();
    if (suspended) lane->usable = Lane::kAbsent;
  }
}

absl::Status Session::Suspend(const SuspendOptions& options) {
  State& state = *state_;
  COPPICE_RETURN_IF_ERROR(state.Poison());
  const std::vector<std::unique_lock<std::mutex>> locks = state.LockIdle();
  COPPICE_RETURN_IF_ERROR(state.CheckSuspendable(options));
  for (const std::unique_ptr<Lane>& lane : state.lanes) {
    lane->Sweep();
    COPPICE_RETURN_IF_ERROR(state.Remember(lane->Drain()));
  }
  COPPICE_RETURN_IF_ERROR(state.Remember(state.Save(options)));
  const absl::Status released = state.pool->Suspend(options.constants == SuspendedConstants::kKeep);
  if (!released.ok() && !state.pool->suspended() && state.Restore().ok())
    return state.Remember(released);
  state.MarkSuspended(true);
  if (state.tracer != nullptr) state.tracer->Suspend();
  for (size_t i = 0; options.drop_graphs && i < state.lanes.size(); ++i) {
    for (const Program* program : state.Programs())
      State::EvictIdle(*program, *state.lanes[i], /*version=*/nullptr);
  }
  return state.Remember(released);
}

absl::Status Session::Resume() {
  State& state = *state_;
  COPPICE_RETURN_IF_ERROR(state.Poison());
  const std::vector<std::unique_lock<std::mutex>> locks = state.LockIdle();
  if (!state.lanes.front()->suspended)
    return FailedPrecondition("Session::Resume: the session is not suspended");
  // A suspension that failed half way has its memory still.
  if (state.pool->suspended()) COPPICE_RETURN_IF_ERROR(state.Remember(state.pool->Resume()));
  if (absl::Status restored = state.Remember(state.Restore()); !restored.ok()) {
    (void)state.pool->Suspend(state.suspended_constants == SuspendedConstants::kKeep).ok();
    return restored;
  }
  state.MarkSuspended(false);
  if (state.tracer != nullptr) state.tracer->Resume();
  return absl::OkStatus();
}

absl::StatusOr<Tensor> Session::AddConstant(DType dtype,
                                            std::span<const int64_t> sizes,
                                            ConstantSource source) {
  State& state = *state_;
  COPPICE_RETURN_IF_ERROR(state.Poison());
  Tensor tensor{.dtype = dtype, .rank = static_cast<int8_t>(sizes.size())};
  if (!source || sizes.size() > kRankMax) {
    return InvalidArgument("Session::AddConstant: rank {}{}; use up to {} and a source",
                           sizes.size(), source ? "" : " without a source", kRankMax);
  }
  int64_t elements = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    if (sizes[i] < 1 || elements > INT64_MAX / SizeOf(dtype) / sizes[i]) {
      return InvalidArgument(
          "Session::AddConstant: size {} is {}; use sizes >= 1 whose bytes an "
          "int64 holds",
          i, sizes[i]);
    }
    tensor.sizes[i] = sizes[i];
    tensor.strides[i] = elements;
    elements *= sizes[i];
  }
  const int64_t bytes = elements * SizeOf(dtype);
  Lane& lane = *state.lanes.front();
  const std::lock_guard<std::mutex> lock(lane.mutex);
  if (lane.suspended) return lane.CheckPresent("Session::AddConstant");
  absl::StatusOr<DeviceAddress> address = lane.AllocateConstant(bytes);
  COPPICE_RETURN_IF_ERROR(state.Remember(address.status()));
  tensor.data = *address;
  absl::Cleanup undo = [&] { state.pool->FreeConstant(tensor.data); };
  Constant constant{.address = tensor.data, .bytes = bytes, .source = std::move(source)};
  COPPICE_RETURN_IF_ERROR(state.Remember(state.Fill(constant)));
  state.constants.push_back(std::move(constant));
  std::move(undo).Cancel();
  return tensor;
}

absl::Status Session::SetExternalBytes(int64_t bytes) {
  State& state = *state_;
  if (bytes < 0) return InvalidArgument("Session::SetExternalBytes: {} bytes", bytes);
  Lane& lane = *state.lanes.front();
  const std::lock_guard<std::mutex> lock(lane.mutex);
  const int64_t change = bytes - state.external_bytes;
  if (change < 0) state.pool->Discharge(MemoryKind::kExternal, -change);
  if (change > 0) COPPICE_RETURN_IF_ERROR(lane.Charge(MemoryKind::kExternal, change));
  state.external_bytes = bytes;
  return absl::OkStatus();
}

absl::Status Session::Trim() {
  State& state = *state_;
  COPPICE_RETURN_IF_ERROR(state.Poison());
  for (const std::unique_ptr<Lane>& lane : state.lanes) {
    const std::lock_guard<std::mutex> lock(lane->mutex);
    lane->Sweep();
    COPPICE_RETURN_IF_ERROR(state.Remember(state.FreeIdle(*lane, /*nodes=*/false)));
    int64_t top = 0;
    for (const Program* program : state.Programs()) {
      for (const auto& [key, node] : program->lanes[static_cast<size_t>(lane->index)].nodes)
        top = std::max(top, node->top);
    }
    COPPICE_RETURN_IF_ERROR(state.Remember(lane->UnmapAbove(top)));
  }
  return state.Remember(state.pool->ReleaseSpares());
}

absl::StatusOr<Loan> Session::Lend(int lane) {
  State& state = *state_;
  COPPICE_RETURN_IF_ERROR(state.Poison());
  if (lane < 0 || lane >= static_cast<int>(state.lanes.size()))
    return InvalidArgument("Session::Lend: lane {} of {}", lane, state.lanes.size());
  Lane& lent = *state.lanes[static_cast<size_t>(lane)];
  const std::lock_guard<std::mutex> lock(lent.mutex);
  COPPICE_RETURN_IF_ERROR(lent.CheckPresent("Session::Lend"));
  lent.SweepWindow();
  if (!lent.window.empty()) {
    return FailedPrecondition(
        "Session::Lend: the outputs of program '{}' (call {} on lane {}) are leased; drop the "
        "lease before",
        lent.window.front()->program->spec.name, lent.window.front()->call, lane);
  }
  // Readers and borrowers join the order of the lane without being calls.
  absl::StatusOr<bool> idle = lent.IsIdle();
  COPPICE_RETURN_IF_ERROR(state.Remember(idle.status()));
  if (lent.recordings > 0 || !*idle) {
    return FailedPrecondition("Session::Lend: lane {} has {} in flight; wait for it before", lane,
                              lent.recordings > 0 ? "a recording" : "work");
  }
  lent.lent = true;
  const int64_t bytes = std::exchange(lent.usable, Lane::kAbsent);
  return Loan(&lent, lent.node_base(), bytes);
}

Loan::~Loan() {
  if (lane_ == nullptr) return;
  const std::lock_guard<std::mutex> lock(lane_->mutex);
  lane_->lent = false;
  lane_->usable = bytes_;
}

absl::Status Loan::Return(CuStream stream) {
  if (lane_ == nullptr) return FailedPrecondition("Loan::Return: the loan has ended");
  absl::Status joined;
  {
    const std::lock_guard<std::mutex> lock(lane_->mutex);
    if (lane_->last_stream == nullptr) lane_->last_stream = lane_->own_stream.handle();
    joined = lane_->Join(stream);
  }
  const Loan ended = std::move(*this);
  return joined;
}

absl::Status Session::Scrub(CuStream stream, int lane) {
  State& state = *state_;
  COPPICE_RETURN_IF_ERROR(state.Poison());
  if (lane < 0 || lane >= static_cast<int>(state.lanes.size()))
    return InvalidArgument("Session::Scrub: lane {} of {}", lane, state.lanes.size());
  Lane& scrubbed = *state.lanes[static_cast<size_t>(lane)];
  const std::lock_guard<std::mutex> lock(scrubbed.mutex);
  COPPICE_RETURN_IF_ERROR(scrubbed.CheckPresent("Session::Scrub"));
  const absl::StatusOr<bool> captures = IsCapturing(state.driver, stream);
  COPPICE_RETURN_IF_ERROR(state.Remember(captures.status()));
  if (*captures)
    return FailedPrecondition("Session::Scrub: the stream captures; end its capture before");
  scrubbed.Sweep();
  COPPICE_RETURN_IF_ERROR(RefuseLeases(scrubbed, "Session::Scrub"));
  COPPICE_RETURN_IF_ERROR(state.Remember(state.pool->ReleaseSpares()));
  COPPICE_RETURN_IF_ERROR(state.Remember(scrubbed.Enter(stream)));
  return state.Remember(state.pool->Scrub(lane, stream));
}

}  // namespace coppice
