// Leases and read scopes: epochs, and the order between the lane's work and its readers.

#include "coppice/graphs/lease.h"

#include <mutex>

#include "coppice/base/status.h"

#include "graphs/lane.h"
#include "graphs/node.h"

namespace coppice {

internal::OwnedOutputs internal::MakeOwnedOutputs(Lane& lane) {
  OwnedOutputs outputs(new OutputTable{.lane = &lane});
  ++lane.owning_leases;
  return outputs;
}

void internal::OutputTableDeleter::operator()(OutputTable* table) const {
  for (const Tensor& tensor : table->tensors)
    table->lane->pool.FreeEager(table->lane->index, tensor.data);
  --table->lane->owning_leases;
  delete table;
}

Lease& Lease::operator=(Lease&& other) noexcept {
  if (this == &other) return *this;
  Release();
  lane_ = std::exchange(other.lane_, nullptr);
  outputs_ = std::exchange(other.outputs_, nullptr);
  owned_ = std::move(other.owned_);
  epoch_ = other.epoch_;
  extents_ = other.extents_;
  path_ = other.path_;
  reason_ = other.reason_;
  return *this;
}

int Lease::output_count() const {
  return outputs_ == nullptr ? 0 : static_cast<int>(outputs_->tensors.size());
}

void Lease::Release() {
  owned_.reset();
  outputs_ = nullptr;
  lane_ = nullptr;
}

absl::StatusOr<ReadScope> Lease::Read(CuStream stream) const {
  if (lane_ == nullptr) {
    return FailedPrecondition(
        "Lease::Read: the lease is empty; read before releasing or moving it");
  }
  if (reinterpret_cast<uintptr_t>(stream) <= 2) {
    return InvalidArgument("Lease::Read: on the legacy stream; pass a stream of your own");
  }
  const std::lock_guard<std::mutex> lock(lane_->mutex);
  if (owned_ == nullptr && lane_->epoch != epoch_) {
    return FailedPrecondition(
        "Lease::Read: outputs of program '{}' (call {} on lane {}) were overwritten by call {}; "
        "read or copy them before the next call on the lane",
        outputs_->spec->name, epoch_, lane_->index, lane_->epoch);
  }
  if (stream != lane_->last_stream) {
    COPPICE_RETURN_IF_ERROR(lane_->handoff.Record(lane_->last_stream));
    COPPICE_RETURN_IF_ERROR(lane_->handoff.MakeWait(stream));
  }
  if (owned_ == nullptr) ++lane_->open_scopes;
  return ReadScope(*this, stream);
}

ReadScope::ReadScope(const Lease& lease, CuStream stream)
    : lane_(lease.lane_),
      outputs_(lease.outputs_),
      extents_(lease.extents_),
      stream_(stream),
      holds_window_(lease.owned_ == nullptr) {}

ReadScope::ReadScope(ReadScope&& other) noexcept
    : lane_(std::exchange(other.lane_, nullptr)),
      outputs_(other.outputs_),
      extents_(other.extents_),
      stream_(other.stream_),
      holds_window_(other.holds_window_) {}

ReadScope::~ReadScope() {
  if (lane_ == nullptr) return;
  const std::lock_guard<std::mutex> lock(lane_->mutex);
  if (holds_window_) --lane_->open_scopes;
  if (stream_ == lane_->last_stream) return;
  // The reader's work joins the order of the lane's last stream, which the next call follows. Only
  // a dead context refuses that, and the next call reports it.
  (void)lane_->Join(stream_).ok();
}

Tensor ReadScope::output(int index) const {
  COPPICE_CHECK(index >= 0 && index < static_cast<int>(outputs_->tensors.size()), "no such output");
  const auto position = static_cast<size_t>(index);
  Tensor tensor = outputs_->tensors[position];
  const Dims& dims = outputs_->spec->outputs[position].dims;
  for (size_t axis = 0; axis < dims.size(); ++axis) {
    if (dims[axis].symbol >= 0) {
      tensor.sizes[axis] = extents_[static_cast<size_t>(dims[axis].symbol)];
    }
  }
  return tensor;
}

}  // namespace coppice
