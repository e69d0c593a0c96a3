// A plan as a picture: time across, address up, one block per buffer.
//
// A block says its id, bytes, offset and lifetime when the pointer rests on it; a buffer with gaps
// is several blocks joined by a dashed line, and a fixed one is hatched. Lines show the height, the
// bound and the capacity. Blocks are true to scale, apart from those too thin to be seen at all.
//
// Units: bytes and steps. Threads: pure function; equal plans give equal text.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "coppice/allocator/plan.h"

#include "tools/plan/lifetime_csv.h"

namespace coppice {

struct PlanPicture {
  std::string_view name;            // What was planned, for the title.
  int64_t bound = 0;                // MaxLiveBytes.
  std::optional<int64_t> capacity;  // A line of its own, if the picture reaches up to it.
};

// The picture as SVG. Requires: the plan is of the table (checked); at least one buffer.
std::string DrawPlan(const LifetimeTable& table, const Plan& plan, const PlanPicture& picture);

}  // namespace coppice
