// Handing a lane from one stream to another, and its slots.

#include "graphs/lane.h"

#include <algorithm>

#include "coppice/base/check.h"
#include "coppice/base/status.h"

#include "graphs/tracer.h"

namespace coppice::internal {
namespace {

// Parked slots that one search for a free one looks at, so that a call's cost does not grow with
// the leases that are held.
constexpr size_t kSweepMax = 8;

const absl::Status& StatusOf(const absl::Status& status) {
  return status;
}
const absl::Status& StatusOf(const absl::StatusOr<DeviceAddress>& answer) {
  return answer.status();
}

// Asks again after room was made, which what others do meanwhile may undo.
template <typename Ask>
auto AskWithRoom(Lane& lane, MemoryKind need, const Ask& ask) {
  constexpr int kAttempts = 3;
  auto answer = ask();
  for (int attempt = 1; attempt < kAttempts && !answer.ok() && lane.make_room; ++attempt) {
    const std::optional<int64_t> shortage = BudgetShortage(StatusOf(answer));
    if (!shortage || !lane.make_room(lane, *shortage, need).ok()) break;
    answer = ask();
  }
  return answer;
}

// The lane's hold ends. Cost: deletes the slot if its lease is gone.
void Abandon(Slot* slot) {
  const int before = slot->holders.fetch_and(~Slot::kLaneHolds, std::memory_order_acq_rel);
  if ((before & Slot::kLeaseHolds) == 0) delete slot;
}

}  // namespace

Lane::~Lane() {
  for (const std::vector<Slot*>* slots : {&window, &parked, &ring, &free}) {
    for (Slot* slot : *slots)
      Abandon(slot);
  }
}

absl::StatusOr<bool> Lane::LastStreamCaptures() const {
  if (last_stream == nullptr) return false;
  return IsCapturing(driver, last_stream);
}

absl::Status Lane::RefuseCapture(CuStream stream) const {
  COPPICE_ASSIGN_OR_RETURN(const bool captures, IsCapturing(driver, stream));
  if (!captures) return absl::OkStatus();
  return FailedPrecondition(
      "Session: a stream that lane {} is used on captures; end its capture before, use another "
      "lane, or take the program into the capture by Include",
      index);
}

absl::Status Lane::MarkLastStream() const {
  COPPICE_RETURN_IF_ERROR(RefuseCapture(last_stream));
  return handoff.Record(last_stream);
}

absl::Status Lane::SwitchTo(CuStream stream) {
  if (last_stream != nullptr) {
    COPPICE_RETURN_IF_ERROR(RefuseCapture(stream));
    COPPICE_RETURN_IF_ERROR(MarkLastStream());
    COPPICE_RETURN_IF_ERROR(handoff.MakeWait(stream));
    ++stats.stream_switches;
  }
  last_stream = stream;
  return absl::OkStatus();
}

absl::Status Lane::Join(CuStream stream) {
  const absl::Status refused = RefuseCapture(stream);
  if (refused.code() == absl::StatusCode::kFailedPrecondition) return refused;
  if (refused.ok() && RefuseCapture(last_stream).ok() && handoff.Record(stream).ok() &&
      handoff.MakeWait(last_stream).ok())
    return absl::OkStatus();
  return WaitForStream(stream);
}

absl::Status Lane::Wait() const {
  if (last_stream == nullptr) return absl::OkStatus();
  COPPICE_RETURN_IF_ERROR(MarkLastStream());
  return handoff.Synchronize();
}

absl::Status Lane::Drain() {
  COPPICE_RETURN_IF_ERROR(Wait());
  completed_call = calls;
  progress_call = 0;
  return absl::OkStatus();
}

absl::Status Lane::WaitForStream(CuStream stream) const {
  const RelaxedCaptureScope relaxed(driver);
  return driver.Call<&DriverTable::StreamSynchronize>(stream);
}

absl::StatusOr<bool> Lane::IsIdle() const {
  if (last_stream == nullptr) return true;
  COPPICE_RETURN_IF_ERROR(MarkLastStream());
  return handoff.Complete();
}

absl::StatusOr<uint64_t> Lane::FindCompletedCall() {
  if (last_stream == nullptr || completed_call == calls) return completed_call;
  COPPICE_ASSIGN_OR_RETURN(const bool captures, LastStreamCaptures());
  if (captures) return completed_call;
  if (progress_call == 0) {
    COPPICE_RETURN_IF_ERROR(progress.Record(last_stream));
    progress_call = calls;
  }
  COPPICE_ASSIGN_OR_RETURN(const bool complete, progress.Complete());
  if (complete) completed_call = std::exchange(progress_call, 0);
  return completed_call;
}

void Lane::FindFreeSlot() {
  for (size_t looked = 0; looked < std::min(kSweepMax, parked.size()); ++looked) {
    if (swept >= parked.size()) swept = 0;
    Slot* slot = parked[swept];
    if (slot->leased()) {
      ++swept;
      continue;
    }
    parked[swept] = parked.back();
    parked.pop_back();
    Recycle(slot);
    return;
  }
  // One more slot than ever; room for it in every list, so that moving it never allocates.
  for (std::vector<Slot*>* slots : {&window, &parked, &ring, &free}) {
    if (slots->capacity() <= slot_count) slots->reserve(2 * slot_count + 8);
  }
  auto slot = std::make_unique<Slot>();
  slot->lane = this;
  free.push_back(slot.release());
  ++slot_count;
}

Slot& Lane::TakeSlot(Slot::Kind kind) {
  Slot* slot = free.back();
  free.pop_back();
  slot->kind = kind;
  slot->in_path = kind == Slot::Kind::kWindow;
  slot->overwritten_by = 0;
  slot->traced = false;
  slot->holders.store(Slot::kLaneHolds | Slot::kLeaseHolds, std::memory_order_relaxed);
  switch (kind) {
    case Slot::Kind::kWindow:
      window.push_back(slot);
      break;
    case Slot::Kind::kCopyOut:
      ring.push_back(slot);
      break;
    case Slot::Kind::kEager:
    case Slot::Kind::kForeign:
    case Slot::Kind::kIncluded:
      parked.push_back(slot);
      break;
  }
  return *slot;
}

void Lane::Recycle(Slot* slot) {
  COPPICE_CHECK(slot->open_scopes == 0, "a lease was dropped under its read scope");
  if (slot->traced) tracer->Release(index, slot->call);
  if (slot->node != nullptr) --slot->node->leases;
  slot->node = nullptr;
  slot->outputs = nullptr;
  for (const DeviceAddress address : slot->allocations)
    pool.FreeEager(index, address);
  slot->allocations.clear();
  free.push_back(slot);
}

void Lane::SweepWindow() {
  size_t kept = 0;
  for (Slot* slot : window) {
    if (slot->leased()) {
      window[kept++] = slot;
      if (tracer != nullptr && !slot->traced) TraceOutputs(*slot);
    } else {
      Recycle(slot);
    }
  }
  window.resize(kept);
}

void Lane::Sweep() {
  SweepWindow();
  const auto dropped = [this](Slot* slot) {
    if (slot->leased()) return false;
    Recycle(slot);
    return true;
  };
  parked.erase(std::remove_if(parked.begin(), parked.end(), dropped), parked.end());
}

absl::Status Lane::Reserve(WindowKind kind, int64_t bytes) {
  const absl::Status reserved = AskWithRoom(*this, static_cast<MemoryKind>(kind),
                                            [&] { return pool.Reserve(index, kind, bytes); });
  if (kind == WindowKind::kNodes && usable != kAbsent) FindUsable();
  return reserved;
}

absl::StatusOr<DeviceAddress> Lane::AllocateEager(int64_t bytes) {
  return AskWithRoom(*this, MemoryKind::kEager, [&] { return pool.AllocateEager(index, bytes); });
}

absl::Status Lane::Charge(MemoryKind kind, int64_t bytes) {
  return AskWithRoom(*this, kind, [&] { return pool.Charge(kind, bytes); });
}

absl::StatusOr<DeviceAddress> Lane::AllocateConstant(int64_t bytes) {
  return AskWithRoom(*this, MemoryKind::kConstants, [&] { return pool.AllocateConstant(bytes); });
}

absl::Status Lane::UnmapAbove(int64_t top) {
  if (usable <= 0 || recordings > 0) return absl::OkStatus();
  int64_t kept = top;
  for (const Slot* slot : window) {
    if (!slot->node->output_regions.empty())
      kept = std::max(kept, slot->node->output_regions.back().end());
  }
  if (kept >= usable) return absl::OkStatus();
  COPPICE_RETURN_IF_ERROR(Drain());
  const absl::Status unmapped = pool.Trim(index, WindowKind::kNodes, kept).status();
  FindUsable();
  return unmapped;
}

void Lane::FindUsable() {
  usable = pool.mapped_bytes(index, WindowKind::kNodes);
  heap.Resize(usable);
}

absl::Status Lane::CheckPresent(const char* where) const {
  if (suspended)
    return FailedPrecondition("{}: the session is suspended; call Resume before", where);
  if (lent) {
    return FailedPrecondition("{}: the memory of lane {} is lent; end the loan before", where,
                              index);
  }
  return absl::OkStatus();
}

void Lane::TraceOutputs(Slot& slot) {
  tracer->Outputs(index, slot.call, slot.node == nullptr ? -1 : slot.node->trace_number);
  slot.traced = true;
}

void Lane::TraceUses(uint64_t number) {
  for (const uint64_t call : used)
    tracer->Use(index, number, call);
  used.clear();
}

void Lane::TraceEnd() {
  Sweep();
  for (const Slot* slot : ring) {
    if (slot->traced && !slot->leased()) tracer->Release(index, slot->call);
  }
}

const Slot* Lane::FindHeld(const std::vector<Region>& footprint) const {
  for (const Slot* slot : window) {
    if (slot->open_scopes > 0 && Overlap(slot->node->output_regions, footprint)) return slot;
  }
  return nullptr;
}

void Lane::Expire(const std::vector<Region>& footprint, uint64_t number, const Program& program) {
  size_t kept = 0;
  for (Slot* slot : window) {
    if (!Overlap(slot->node->output_regions, footprint)) {
      window[kept++] = slot;
      continue;
    }
    if (tracer != nullptr) tracer->Expire(index, slot->call, number);
    slot->overwritten_by = number;
    slot->overwriter = &program;
    slot->in_path = false;
    for (size_t i = 0; i < slot->outputs->tensors.size(); ++i) {
      const std::optional<Region> region = RegionOf(slot->outputs->tensors[i]);
      if (!region || !Meets(*region, footprint)) continue;
      slot->overwritten_output = static_cast<int>(i);
      break;
    }
    slot->overwritten_regions = slot->node->output_regions;
    --slot->node->leases;
    slot->node = nullptr;
    slot->outputs = nullptr;
    parked.push_back(slot);
  }
  window.resize(kept);
}

void Lane::EndPath() {
  for (Slot* slot : window)
    slot->in_path = false;
}

std::optional<Region> Lane::AllocateRing(int64_t bytes) {
  while (!ring.empty() && !ring.front()->leased()) {
    Recycle(ring.front());
    ring.erase(ring.begin());
  }
  if (ring.empty()) ring_head = 0;
  const int64_t tail = ring.empty() ? ring_bytes : ring.front()->ring.offset;
  const bool wrapped = !ring.empty() && ring_head <= tail;
  int64_t offset = ring_head;
  if (!wrapped && offset + bytes > ring_bytes) {
    if (ring.empty() || bytes > tail) return std::nullopt;
    offset = 0;
  } else if (wrapped && offset + bytes > tail) {
    return std::nullopt;
  }
  ring_head = offset + bytes;
  return Region{.offset = offset, .bytes = bytes};
}

std::optional<Region> Lane::RegionOf(const Tensor& tensor) const {
  const DeviceAddress base = node_base();
  if (tensor.data < base || tensor.data - base >= static_cast<DeviceAddress>(pool.window_bytes()) ||
      tensor.element_count() == 0) {
    return std::nullopt;
  }
  // A view may begin anywhere; plans know whole units.
  const auto offset = static_cast<int64_t>(tensor.data - base);
  const int64_t begin = offset / kBufferAlignment * kBufferAlignment;
  const int64_t end = offset + tensor.element_count() * SizeOf(tensor.dtype);
  return Region{.offset = begin, .bytes = AlignUp(end - begin, kBufferAlignment)};
}

}  // namespace coppice::internal
