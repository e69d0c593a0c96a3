// Best fit over two indexes of the same free ranges: by offset to coalesce, by size to choose.

#include "coppice/allocator/range_allocator.h"

#include <algorithm>
#include <iterator>

#include "coppice/base/check.h"
#include "coppice/base/status.h"
#include "coppice/base/units.h"

namespace coppice {

RangeAllocator::RangeAllocator(int64_t capacity, int64_t alignment)
    : capacity_(capacity), alignment_(alignment) {
  COPPICE_CHECK(capacity >= 0, "a capacity is not negative");
  COPPICE_CHECK(IsPowerOfTwo(alignment), "an alignment is a power of two");
  if (capacity > 0) InsertFree(0, capacity);
}

std::optional<int64_t> RangeAllocator::Allocate(int64_t bytes) {
  COPPICE_CHECK(bytes >= 1, "an allocation has at least one byte");
  if (bytes > capacity_ / alignment_ * alignment_) return std::nullopt;
  const int64_t size = CeilDivide(bytes, alignment_) * alignment_;
  const auto tightest = by_size_.lower_bound({size, 0});
  if (tightest == by_size_.end()) return std::nullopt;
  const auto [free_bytes, offset] = *tightest;
  EraseFree(offset, free_bytes);
  if (free_bytes > size) InsertFree(offset + size, free_bytes - size);
  live_.emplace(offset, size);
  live_bytes_ += size;
  peak_ = std::max(peak_, offset + size);
  return offset;
}

int64_t RangeAllocator::Free(int64_t offset) {
  const auto live = live_.find(offset);
  COPPICE_CHECK(live != live_.end(), "the offset is not live");
  const int64_t size = live->second;
  live_.erase(live);
  live_bytes_ -= size;

  int64_t lower = offset;
  int64_t upper = offset + size;
  const auto above = free_.lower_bound(offset);
  if (above != free_.begin()) {
    const auto [below_offset, below_bytes] = *std::prev(above);
    if (below_offset + below_bytes == lower) {
      EraseFree(below_offset, below_bytes);
      lower = below_offset;
    }
  }
  if (above != free_.end() && above->first == upper) {
    const auto [above_offset, above_bytes] = *above;
    EraseFree(above_offset, above_bytes);
    upper = above_offset + above_bytes;
  }
  InsertFree(lower, upper - lower);
  return size;
}

int64_t RangeAllocator::top() const {
  return live_.empty() ? 0 : live_.rbegin()->first + live_.rbegin()->second;
}

absl::Status RangeAllocator::Validate() const {
  const auto violation = [](const char* what, int64_t offset) {
    return MakeError(absl::StatusCode::kInternal,
                     "RangeAllocator: {} at offset {}; this is a defect of the allocator", what,
                     offset);
  };
  int64_t offset = 0;
  int64_t live_bytes = 0;
  bool after_free = false;
  auto free = free_.begin();
  auto live = live_.begin();
  while (offset < capacity_) {
    const bool is_free = free != free_.end() && free->first == offset;
    const bool is_live = live != live_.end() && live->first == offset;
    if (is_free == is_live) return violation("ranges do not tile", offset);
    const int64_t size = is_free ? free->second : live->second;
    if (size < 1) return violation("an empty range", offset);
    if (is_free && after_free) return violation("two free ranges touch", offset);
    if (is_free && !by_size_.contains({size, offset})) return violation("no size entry", offset);
    if (is_live && size % alignment_ != 0) return violation("an unrounded size", offset);
    live_bytes += is_live ? size : 0;
    is_free ? ++free : ++live;
    after_free = is_free;
    offset += size;
  }
  if (offset != capacity_ || free != free_.end() || live != live_.end())
    return violation("ranges beyond the capacity", offset);
  if (by_size_.size() != free_.size()) return violation("stale size entries", offset);
  if (live_bytes != live_bytes_) return violation("a wrong live count", offset);
  if (peak_ < top() || peak_ > capacity_) return violation("a wrong peak", peak_);
  return absl::OkStatus();
}

void RangeAllocator::InsertFree(int64_t offset, int64_t bytes) {
  free_.emplace(offset, bytes);
  by_size_.emplace(bytes, offset);
}

void RangeAllocator::EraseFree(int64_t offset, int64_t bytes) {
  free_.erase(offset);
  by_size_.erase({bytes, offset});
}

}  // namespace coppice
