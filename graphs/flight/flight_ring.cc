// Where the next entry has room.

#include "graphs/flight/flight_ring.h"

namespace coppice::internal {

uint64_t* FlightRing::CanaryOf(FlightEntry& entry) const {
  return reinterpret_cast<uint64_t*>(entry.byte(entry.staging + entry.staging_bytes)) - 1;
}

void FlightRing::SetCanary(FlightEntry& entry) const {
  *CanaryOf(entry) = canary_;
}

bool FlightRing::HasArrived(const FlightEntry& entry) const {
  // Volatile, because a device writes it.
  if (entry.copies) {
    const volatile uint64_t* const canary = CanaryOf(const_cast<FlightEntry&>(entry));
    if (*canary == canary_) return false;
  }
  const volatile uint64_t* const mark = &entry.mark;
  return entry.outputs == 0 || *mark != 0;
}

bool FlightRing::DropOldest() {
  const FlightEntry& oldest = EntryAt(tail_);
  if (!HasArrived(oldest)) return false;
  tail_ += oldest.bytes;
  ++left_;
  ++dropped_;
  if (wrapped_ && tail_ == wrap_) {
    tail_ = 0;
    wrapped_ = false;
  }
  if (count() == 0) {
    head_ = tail_ = 0;
    wrapped_ = false;
  }
  free_end_ = wrapped_ ? tail_ : size();
  return true;
}

FlightEntry* FlightRing::MakeRoom(int64_t bytes) {
  while (bytes <= size()) {
    if (left_ > 0) {
      if (FlightEntry* const entry = Take(bytes); entry != nullptr) return entry;
      if (!wrapped_ && tail_ > 0) {
        wrap_ = head_;
        head_ = 0;
        wrapped_ = true;
        free_end_ = tail_;
        continue;
      }
    }
    if (!DropOldest()) break;
  }
  ++refused_;
  return nullptr;
}

}  // namespace coppice::internal
