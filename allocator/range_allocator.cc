// Best fit over two indexes of the same ranges: by offset to coalesce, by size to choose.

#include "coppice/allocator/range_allocator.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "coppice/base/check.h"
#include "coppice/base/status.h"
#include "coppice/base/units.h"

namespace coppice {

RangeAllocator::RangeAllocator(int64_t capacity, int64_t alignment)
    : capacity_(capacity), alignment_(alignment) {
  COPPICE_CHECK(capacity >= 0, "the capacity must not be negative");
  COPPICE_CHECK(IsPowerOfTwo(alignment), "the alignment must be a power of two");
  if (capacity == 0) return;
  keys_.insert(KeyOf(ranges_.emplace(0, Range{.bytes = capacity}).first));
}

std::optional<int64_t> RangeAllocator::Allocate(int64_t bytes) {
  COPPICE_CHECK(bytes >= 1, "an allocation must have at least one byte");
  if (bytes > capacity_ / alignment_ * alignment_) return std::nullopt;
  const int64_t size = CeilDivide(bytes, alignment_) * alignment_;
  const auto tightest = keys_.lower_bound({false, size, 0});
  if (tightest == keys_.end()) return std::nullopt;
  const auto [live, free_bytes, offset] = *tightest;
  if (live) return std::nullopt;
  const auto range = ranges_.find(offset);
  if (free_bytes > size) Split(range, size);
  Set(range, {.bytes = size, .live = true});
  ++live_count_;
  live_bytes_ += size;
  peak_ = std::max(peak_, offset + size);
  return offset;
}

int64_t RangeAllocator::Free(int64_t offset) {
  const auto range = ranges_.find(offset);
  COPPICE_CHECK(range != ranges_.end() && range->second.live,
                "no live range begins at this offset");
  const int64_t size = range->second.bytes;
  Set(range, {.bytes = size, .live = false});
  --live_count_;
  live_bytes_ -= size;
  const auto above = std::next(range);
  if (above != ranges_.end() && !above->second.live) Absorb(range, above);
  if (range != ranges_.begin() && !std::prev(range)->second.live) Absorb(std::prev(range), range);
  return size;
}

int64_t RangeAllocator::top() const {
  if (ranges_.empty()) return 0;
  const auto& [offset, last] = *ranges_.rbegin();
  return last.live ? offset + last.bytes : offset;  // No two free ranges touch.
}

absl::Status RangeAllocator::Validate() const {
  const auto violation = [](const char* what, int64_t offset) {
    return MakeError(absl::StatusCode::kInternal,
                     "RangeAllocator: {} at offset {}; this is a defect of the allocator", what,
                     offset);
  };
  int64_t end = 0;
  int64_t live_bytes = 0;
  int64_t live_count = 0;
  bool after_free = false;
  for (auto range = ranges_.begin(); range != ranges_.end(); ++range) {
    const auto& [offset, value] = *range;
    if (offset != end) return violation("ranges do not tile", offset);
    if (value.bytes < 1) return violation("an empty range", offset);
    if (after_free && !value.live) return violation("two free ranges touch", offset);
    if (value.live && value.bytes % alignment_ != 0) return violation("an unrounded size", offset);
    if (!keys_.contains(KeyOf(range))) return violation("no key", offset);
    live_bytes += value.live ? value.bytes : 0;
    live_count += value.live ? 1 : 0;
    after_free = !value.live;
    end = offset + value.bytes;
  }
  if (end != capacity_) return violation("the ranges end before the capacity", end);
  if (keys_.size() != ranges_.size()) return violation("stale keys", end);
  if (live_bytes != live_bytes_ || live_count != live_count_)
    return violation("a wrong live count", end);
  if (peak_ < top() || peak_ > capacity_) return violation("a wrong peak", peak_);
  return absl::OkStatus();
}

RangeAllocator::Key RangeAllocator::KeyOf(Ranges::const_iterator range) {
  return {range->second.live, range->second.bytes, range->first};
}

void RangeAllocator::Set(Ranges::iterator range, const Range& value) {
  auto key = keys_.extract(KeyOf(range));
  range->second = value;
  key.value() = KeyOf(range);
  keys_.insert(std::move(key));
}

// Leaves `bytes` of a free range in it and makes the rest another one.
void RangeAllocator::Split(Ranges::iterator range, int64_t bytes) {
  const int64_t rest_bytes = range->second.bytes - bytes;
  // Host memory first: after this nothing can fail.
  Ranges rest = {{range->first + bytes, Range{.bytes = rest_bytes}}};
  std::set<Key> rest_key = {KeyOf(rest.begin())};
  Set(range, {.bytes = bytes});
  ranges_.merge(rest);
  keys_.merge(rest_key);
}

// Joins two free ranges that touch.
void RangeAllocator::Absorb(Ranges::iterator lower, Ranges::iterator upper) {
  Set(lower, {.bytes = lower->second.bytes + upper->second.bytes});
  keys_.erase(KeyOf(upper));
  ranges_.erase(upper);
}

}  // namespace coppice
