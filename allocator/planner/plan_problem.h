// The planner's common form of a problem: time cut into sections in which nothing begins or ends,
// sizes rounded up to the alignment that all buffers share, and one item for each group of buffers
// that must begin at the same place.
//
// An item is a list of parts: during the sections of a part it needs the part's extent above its
// offset. A buffer is an item of one part per interval; a group needs its largest live member.
//
// Units: bytes and sections. Threads: plain values.

#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "coppice/allocator/plan.h"

namespace coppice::internal {

// Sections [lower, upper), in which an item takes up `extent` bytes above its offset.
struct PlanPart {
  int32_t lower = 0;
  int32_t upper = 0;
  int64_t extent = 0;
};

struct PlanItem {
  int32_t parts_begin = 0;  // Into PlanProblem::parts.
  int32_t parts_end = 0;
  int64_t extent = 0;    // Of its largest part.
  int64_t overhang = 0;  // Bytes of rounding in the extent, which do not count for a plan's height.
  int64_t alignment = 1;
  std::optional<int64_t> fixed_offset;
  bool low = false;   // A member wants to lie at the bottom.
  int64_t steps = 0;  // Length of the lifetime.
  double area = 0;    // Extent x steps, of all parts.
};

// How full it is around an item.
struct Contention {
  int64_t live = 0;     // Most bytes live at once during the item's lifetime.
  int32_t fullest = 0;  // The first section with so many.
};

struct PlanProblem {
  std::vector<PlanPart> parts;   // By item; sorted and disjoint within an item.
  std::vector<PlanItem> items;   // In the order of their first buffers.
  std::vector<int32_t> item_of;  // Per buffer.
  std::vector<int64_t> live;     // Bytes per section, rounded sizes.
  int64_t peak = 0;              // Most bytes live at once, rounded sizes.
  int64_t bound = 0;             // The same with sizes as they are: MaxLiveBytes.

  std::span<const PlanPart> PartsOf(const PlanItem& item) const {
    return std::span(parts).subspan(static_cast<size_t>(item.parts_begin),
                                    static_cast<size_t>(item.parts_end - item.parts_begin));
  }
};

// Requires: well-formed buffers, at least one. Cost: O(n log n), O(n) where steps are numbered
// without large gaps.
PlanProblem MakePlanProblem(std::span<const Buffer> buffers);

// One per item. Cost: O(parts * log(sections)).
std::vector<Contention> ContentionOf(const PlanProblem& problem);

}  // namespace coppice::internal
