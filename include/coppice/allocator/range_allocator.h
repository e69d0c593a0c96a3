// Offsets in [0, capacity): allocate, free, coalesce. Touches no memory.
//
// This online allocator is for warm-up and eager runs, whose lifetimes are not known in advance. It
// takes the best fit, and the lowest offset among equal fits. Freed ranges are reused before the
// top grows, so the peak stays near the live bytes.
//
// Units: bytes. Threads: one at a time; no device.

#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "absl/status/status.h"

namespace coppice {

class RangeAllocator {
 public:
  // Requires: capacity >= 0; alignment a power of two (checked). Every size is rounded up to it.
  RangeAllocator(int64_t capacity, int64_t alignment);

  // Allocates from the tightest free range that holds `bytes`, the lowest if several are equal.
  // nullopt if no range does; that is not an error. Requires: bytes >= 1 (checked). Cost: O(log
  // ranges); allocates, and changes nothing if that throws.
  std::optional<int64_t> Allocate(int64_t bytes);

  // Frees a range and joins it with its free neighbours. Requires: `offset` came from Allocate and
  // is not free (checked). Returns the rounded size. Cost: O(log ranges); allocates nothing.
  int64_t Free(int64_t offset);

  int64_t capacity() const { return capacity_; }
  int64_t live_bytes() const { return live_bytes_; }  // Sum of rounded live sizes.
  int64_t live_count() const { return live_count_; }
  int64_t top() const;                    // End of the highest live range; 0 if none.
  int64_t peak() const { return peak_; }  // The highest top() so far.

  // For tests: checks that ranges tile [0, capacity), that no two free ones touch, and that the
  // counters are right. Errors: kInternal naming the first violation. Cost: O(ranges).
  absl::Status Validate() const;

 private:
  struct Range {
    int64_t bytes = 0;
    bool live = false;
  };
  using Ranges = std::map<int64_t, Range>;         // By offset; they tile [0, capacity).
  using Key = std::tuple<bool, int64_t, int64_t>;  // (live, bytes, offset): free ones first.

  static Key KeyOf(Ranges::const_iterator range);
  // These change ranges in place, so that only Split allocates.
  void Set(Ranges::iterator range, const Range& value);
  void Split(Ranges::iterator range, int64_t bytes);
  void Absorb(Ranges::iterator lower, Ranges::iterator upper);

  int64_t capacity_;
  int64_t alignment_;
  int64_t live_bytes_ = 0;
  int64_t live_count_ = 0;
  int64_t peak_ = 0;
  Ranges ranges_;
  std::set<Key> keys_;  // Of the same ranges.
};

}  // namespace coppice
