// Programs that are hard to plan, each with a plan: rectangles of time and address that fill a
// window nearly or wholly, without the offsets at which they did.
//
//   cut      the window cut in two, over and over, across time or address
//   thinned  the same, without 2 to 10 % of the pieces
//   woven    some pieces are cut in five instead that no straight cut parts
//   mixed    buffers that live through several phases, the rest cut up phase by phase
//   even     the largest piece is always cut near its middle; up to 25 % of them are left out
//
// The published instances are of such kinds too (MiniMalloc, ASPLOS 2024): by their lifetimes and
// sizes, A to E are cut and thinned, and F is even.
//
// Units: bytes and steps. Threads: pure functions.

#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "coppice/allocator/plan.h"
#include "coppice/base/units.h"

namespace coppice {

enum class TightKind : uint8_t { kCut, kThinned, kWoven, kMixed, kEven };

inline constexpr std::array kTightKinds = {TightKind::kCut, TightKind::kThinned, TightKind::kWoven,
                                           TightKind::kMixed, TightKind::kEven};

const char* NameOf(TightKind kind);

inline constexpr int64_t kTightHeight = kMiB;  // That every instance can be planned within.

struct TightInstance {
  std::vector<Buffer> buffers;  // 150 to 450, in an order that says nothing of the plan.
  Plan plan;                    // Valid, no higher than kTightHeight.
};

// Deterministic, on every machine. Cost: O(n^2); allocates.
TightInstance DrawTightInstance(TightKind kind, uint64_t seed);

}  // namespace coppice
