// A planning problem as the search wants it: small integers, and who lives with whom.
//
// Sizes and offsets count units, the largest number of bytes that every offset worth trying is a
// multiple of. Time counts sections, the moments at which no further buffer can be added to those
// alive: two buffers live together exactly if they share a section.
//
// Units: as said at each field. Threads: plain values.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "coppice/allocator/plan.h"

namespace coppice::internal {

// Rows of unequal length in one array.
template <typename T>
class Rows {
 public:
  void Add(const T& value) { values_.push_back(value); }
  void EndRow() { ends_.push_back(static_cast<int32_t>(values_.size())); }

  std::span<const T> operator[](int32_t row) const {
    const int32_t begin = row == 0 ? 0 : ends_[static_cast<size_t>(row - 1)];
    return {values_.data() + begin, values_.data() + ends_[static_cast<size_t>(row)]};
  }

 private:
  std::vector<T> values_;
  std::vector<int32_t> ends_;
};

// Sections [lower, upper).
struct SectionSpan {
  int32_t lower = 0;
  int32_t upper = 0;
  friend bool operator==(const SectionSpan&, const SectionSpan&) = default;
};

struct SearchItem {
  int32_t size = 0;       // Units, rounded up.
  int32_t alignment = 1;  // Units.
  int32_t fixed = -1;     // Units; -1 if it may move.
  int64_t bytes = 0;
  int64_t steps = 0;  // Length of the lifetime.
  int64_t total = 0;  // Most units alive at once during the lifetime.
};

struct SearchProblem {
  int64_t unit_bytes = 1;
  int64_t rounding_bytes = 1;  // Sizes are rounded up to multiples: the least alignment.
  int32_t section_count = 0;
  int64_t peak = 0;               // Most units alive at once.
  int64_t stack = 0;              // Units that are enough for any plan: one item on the other.
  std::vector<SearchItem> items;  // One per buffer, same order.
  Rows<SectionSpan> spans;        // Per item; sorted, disjoint, not touching.
  Rows<int32_t> neighbors;        // Per item: those that it shares a section with.
  Rows<int32_t> obstacles;        // Per item: its fixed neighbors, by offset.
  Rows<int32_t> members;          // Per section: the items alive.

  int32_t count() const { return static_cast<int32_t>(items.size()); }

  // First section of the lifetime to the last.
  SectionSpan HullOf(int32_t item) const {
    return {spans[item].front().lower, spans[item].back().upper};
  }

  // The least height above `height`, both in bytes, at which an item may end.
  int64_t NextHeight(int64_t height) const;
};

// Nothing if the numbers are beyond the search: a stack of over 2^29 units, or lifetimes of over
// 2^24 sections in all.
// Requires: well-formed buffers. Cost: O(n log n + pairs that live together); allocates.
std::optional<SearchProblem> MakeSearchProblem(std::span<const Buffer> buffers);

}  // namespace coppice::internal
