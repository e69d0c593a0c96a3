// The ring in which a lane keeps its last calls: entries of any size, in a row, the oldest first.
// Private to graphs/.
//
//   bytes   | 7 | 8 | 9 |  free  | 4 | 5 | 6 | free |      an entry never goes round the end
//           0         head       tail       wrap    end
//
// The end of the staging window in an entry has a *canary*, which the device's copy overwrites. So
// the host sees without a driver call whether the copy has arrived. Until it has, the entry is not
// overwritten: the copy would end up in another one.
//
// Units: bytes. Threads: the lane's lock.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "graphs/flight/flight_entry.h"

namespace coppice::internal {

class FlightRing {
 public:
  // `bytes` are aligned as entries are and outlive the ring. `canary` is drawn for it, so that no
  // bytes of programs are like it.
  FlightRing(std::span<std::byte> bytes, int64_t calls_max, uint64_t canary)
      : bytes_(bytes),
        calls_max_(calls_max),
        canary_(canary),
        left_(calls_max),
        free_end_(size()) {}

  // Room for an entry of so many bytes, a multiple of its alignment, which it is to say. Null: the
  // ring is smaller, or copies are on their way to what would have to go. Cost: on average, as much
  // as entries that go.
  FlightEntry* Append(int64_t bytes) {
    FlightEntry* const entry = Take(bytes);
    return entry != nullptr ? entry : MakeRoom(bytes);
  }
  // The same; null if another entry would have to go.
  FlightEntry* Take(int64_t bytes) {
    if (head_ + bytes > free_end_) [[unlikely]]
      return nullptr;
    if (--left_ < 0) [[unlikely]] {
      left_ = 0;
      return nullptr;
    }
    FlightEntry& entry = EntryAt(head_);
    head_ += bytes;
    return &entry;
  }

  // Puts the canary where a copy of `entry` will come to.
  void SetCanary(FlightEntry& entry) const;
  // Whether the staging window of `entry` has arrived, or was never on its way.
  bool HasArrived(const FlightEntry& entry) const;

  // Calls `visit(entry)` for each, from the oldest on.
  template <typename Visit>
  void ForEach(const Visit& visit) const {
    int64_t at = tail_;
    for (int64_t i = count(); i > 0; --i) {
      if (wrapped_ && at == wrap_) at = 0;
      FlightEntry& entry = EntryAt(at);
      visit(entry);
      at += entry.bytes;
    }
  }

  int64_t size() const { return static_cast<int64_t>(bytes_.size()); }
  int64_t count() const { return calls_max_ - left_; }
  int64_t dropped() const { return dropped_; }  // Older ones, which went for others.
  int64_t refused() const { return refused_; }  // For which there was no room.

 private:
  FlightEntry& EntryAt(int64_t at) const {
    return *reinterpret_cast<FlightEntry*>(bytes_.data() + at);
  }
  [[gnu::noinline]] FlightEntry* MakeRoom(int64_t bytes);
  bool DropOldest();  // False: copies are on their way to it.
  uint64_t* CanaryOf(FlightEntry& entry) const;

  const std::span<std::byte> bytes_;
  const int64_t calls_max_;
  const uint64_t canary_;
  int64_t left_;          // As many more entries there may be.
  int64_t head_ = 0;      // Where the next entry begins.
  int64_t free_end_ = 0;  // Up to where it may lie: the tail, or the end.
  int64_t tail_ = 0;      // Where the oldest begins.
  int64_t wrap_ = 0;      // Where the last one before the end of the ring ends, if it is wrapped.
  bool wrapped_ = false;
  int64_t dropped_ = 0;
  int64_t refused_ = 0;
};

}  // namespace coppice::internal
