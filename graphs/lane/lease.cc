// Leases and read scopes: who still has its bytes, and the order between the lane's work and its
// readers.

#include "coppice/graphs/lease.h"

#include <mutex>

#include "coppice/base/check.h"
#include "coppice/base/status.h"

#include "graphs/lane/lane.h"
#include "graphs/lane/lease.h"
#include "graphs/lane/slot.h"
#include "graphs/lane/stream_order.h"
#include "graphs/node/input_layout.h"
#include "graphs/program/program.h"

namespace coppice {

using internal::Lane;
using internal::Slot;

void internal::DropLease(Slot* slot) {
  const int before = slot->holders.fetch_and(~Slot::kLeaseHolds, std::memory_order_acq_rel);
  if ((before & Slot::kLaneHolds) == 0) delete slot;
}

void internal::DropPart(Slot* slot, int output) {
  Slot::Parts& parts = *slot->parts;
  parts.dropped[static_cast<size_t>(output)].store(true, std::memory_order_release);
  if (parts.left.fetch_sub(1, std::memory_order_acq_rel) == 1) DropLease(slot);
}

namespace {

absl::Status CheckThere(const Slot* slot) {
  if (slot == nullptr) {
    return FailedPrecondition("Lease: the lease is empty; use it before you release or move it");
  }
  if (!slot->in_lane()) {
    return FailedPrecondition(
        "Lease: the session that made the outputs (call {}) is gone; read them before the session "
        "ends",
        slot->call);
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status internal::CheckReader(const Slot* slot, CuStream stream) {
  COPPICE_RETURN_IF_ERROR(CheckThere(slot));
  if (!NamesAStream(stream)) {
    return InvalidArgument(
        "Lease: the lease is used on stream {}; pass a stream of your own, or 1 for the legacy "
        "stream",
        reinterpret_cast<uintptr_t>(stream));
  }
  return absl::OkStatus();
}

absl::Status internal::CheckReadable(const char* where, const Slot& slot) {
  COPPICE_RETURN_IF_ERROR(slot.lane->memory().CheckPresent(where));
  if (!slot.expired()) return absl::OkStatus();
  return FailedPrecondition(
      "{}: output '{}' of program '{}' (call {} on lane {}) was overwritten by call {} (program "
      "'{}'); read or copy it earlier, or keep it alive in a chain",
      where, slot.program->spec.outputs[static_cast<size_t>(slot.overwritten_output)].name,
      slot.program->spec.name, slot.call, slot.lane->index, slot.overwritten_by,
      slot.overwriter->spec.name);
}

Tensor internal::OutputOf(const Slot& slot, size_t index) {
  const OutputTable& outputs = *slot.outputs;
  return AtExtents(outputs.tensors[index], outputs.spec->outputs[index].dims, slot.extents);
}

Lease& Lease::operator=(Lease&& other) noexcept {
  if (this == &other) return *this;
  Release();
  slot_ = std::exchange(other.slot_, nullptr);
  facts_ = other.facts_;
  return *this;
}

int Lease::output_count() const {
  if (slot_ == nullptr || !slot_->in_lane()) return 0;
  return static_cast<int>(slot_->program->spec.outputs.size());
}

uint64_t Lease::call_number() const {
  return slot_ == nullptr ? 0 : slot_->call;
}

absl::StatusOr<ReadScope> Lease::Read(CuStream stream) const {
  COPPICE_RETURN_IF_ERROR(internal::CheckReader(slot_, stream));
  Lane& lane = *slot_->lane;
  const std::lock_guard lock(lane.mutex);
  COPPICE_RETURN_IF_ERROR(internal::CheckReadable("Lease::Read", *slot_));
  if (!lane.order().IsLast(stream) && slot_->kind != Slot::Kind::kIncluded)
    COPPICE_RETURN_IF_ERROR(lane.order().MakeWait(stream));
  slot_->OpenScope(stream, part());
  return ReadScope(slot_, stream, facts_.part);
}

absl::StatusOr<std::vector<Lease>> Lease::Split() {
  COPPICE_RETURN_IF_ERROR(CheckThere(slot_));
  if (part() >= 0) {
    return FailedPrecondition("Lease::Split: this lease already holds only output '{}'",
                              slot_->program->spec.outputs[static_cast<size_t>(part())].name);
  }
  std::vector<Lease> split(slot_->program->spec.outputs.size());
  if (split.empty()) {
    Release();
    return split;
  }
  Lane& lane = *slot_->lane;
  const std::lock_guard lock(lane.mutex);
  lane.slots().Split(*slot_);
  for (size_t i = 0; i < split.size(); ++i) {
    split[i].slot_ = slot_;
    split[i].facts_ = {.kind = kind(), .reason = reason(), .part = static_cast<int>(i)};
  }
  slot_ = nullptr;
  return split;
}

absl::Status Lease::Release(CuStream stream) {
  absl::Status status = internal::CheckReader(slot_, stream);
  if (status.ok()) {
    Lane& lane = *slot_->lane;
    const std::lock_guard lock(lane.mutex);
    if (!lane.order().IsLast(stream) && slot_->kind != Slot::Kind::kIncluded)
      status = lane.order().Join(stream);
  }
  Release();
  return status;
}

ReadScope::~ReadScope() {
  if (slot_ == nullptr) return;
  Lane& lane = *slot_->lane;
  const std::lock_guard lock(lane.mutex);
  slot_->CloseScope(stream_, part_);
  if (lane.order().IsLast(stream_) || slot_->kind == Slot::Kind::kIncluded) return;
  // The reader's work joins the order of the lane's last stream, which the next call follows. Only
  // a dead context refuses that, and the next call reports it.
  (void)lane.order().Join(stream_).ok();
}

const OutputSpec& ReadScope::SpecOf(int index) const {
  COPPICE_CHECK(slot_ != nullptr, "the read scope was moved from");
  COPPICE_CHECK(index >= 0 && index < static_cast<int>(slot_->outputs->tensors.size()),
                "no such output");
  COPPICE_CHECK(part_ < 0 || index == part_, "the lease does not hold this output");
  return slot_->program->spec.outputs[static_cast<size_t>(index)];
}

Tensor ReadScope::OutputAt(int index) const {
  Tensor tensor = internal::OutputOf(*slot_, static_cast<size_t>(index));
  tensor.made_by = slot_->call;
  return tensor;
}

Tensor ReadScope::output(int index) const {
  (void)SpecOf(index);
  return OutputAt(index);
}

Tensor ReadScope::count(int index) const {
  const Count& count = SpecOf(index).count;
  return count.output < 0 ? Tensor{} : OutputAt(count.output);
}

absl::StatusOr<Tensor> ReadScope::ReadSized(int index) const {
  const OutputSpec& spec = SpecOf(index);
  Tensor sized = output(index);
  const Tensor counter = count(index);
  if (counter.data == 0) return sized;
  Lane& lane = *slot_->lane;
  {
    const std::lock_guard lock(lane.mutex);
    COPPICE_RETURN_IF_ERROR(lane.order().RefuseCapture(stream_));
  }
  // Without the lock, for which others would wait as long: the scope keeps the bytes.
  const RelaxedCaptureScope relaxed(lane.driver);
  int64_t counted = 0;
  int32_t narrow = 0;
  const bool is_narrow = counter.dtype == DType::kInt32;
  void* const target = is_narrow ? static_cast<void*>(&narrow) : &counted;
  COPPICE_RETURN_IF_ERROR(lane.driver.Call<&DriverTable::MemcpyDtoHAsync>(
      target, counter.data, static_cast<size_t>(SizeOf(counter.dtype)), stream_));
  if (absl::Status failed = lane.driver.Call<&DriverTable::StreamSynchronize>(stream_);
      !failed.ok()) {
    // The copy may still come, and its target ends with this call.
    lane.driver.Call<&DriverTable::StreamSynchronize>(stream_).IgnoreError();
    return failed;
  }
  if (is_narrow) counted = narrow;
  int64_t& size = sized.sizes[static_cast<size_t>(spec.count.axis)];
  if (counted < 0 || counted > size) {
    const ProgramSpec& program = slot_->program->spec;
    return MakeError(absl::StatusCode::kOutOfRange,
                     "ReadScope: the count of output '{}' of program '{}' (call {} on lane {}) is "
                     "{}, but the output has room for {} along axis {}; correct the count '{}', or "
                     "give the output more capacity",
                     spec.name, program.name, slot_->call, lane.index, counted, size,
                     spec.count.axis, program.outputs[static_cast<size_t>(spec.count.output)].name);
  }
  size = counted;
  return sized;
}

}  // namespace coppice
