// Searches for a low plan: at the height that would be good enough, and on a ladder of heights
// between it and the lowest plan known.
//
// How long the search takes is luck, and a looser height is often harder: it cuts less of the tree.
// So no height is insisted on. Short searches take turns at several heights and in several orders
// of the buffers, each round longer than the one before and its orders perturbed anew, by 2 % or 20
// %. The target has the first half of the tries, 2^19 at most, then a fifth of the rest. What is
// found becomes the top of a new ladder, what is proven impossible its foot.
//
// At the target, 16 of 17 tries go to draws of joined buffers (joins.h): first all joins that look
// likely, then those with the free room joined too, then at random some fewer in another order,
// half of the draws with the free room. Where a program fills its memory, the first draw often
// leaves so few blocks that the search takes nothing back.
//
//   orders (the first key decides)   sections lived in, area, contention
//                                    contention, area, sections
//                                    contention, sections, area
//                                    contention, neighbours, area
//                                    neighbours, contention, area
//                                    last section, contention, area
//
// Contention, the most units alive at once during the lifetime, is not perturbed: where a program
// is full many buffers share it, and the search lives on keeping them together.
//
// Units: bytes; a try is a placement tried. Threads: pure function. Deterministic for a seed unless
// the deadline cuts in.

#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "coppice/allocator/plan.h"

namespace coppice::internal {

// More are left to other methods: a search would hardly get to the end once.
inline constexpr int64_t kSearchedBuffersMax = 3000;

struct LadderOptions {
  int64_t height_target = 0;  // Good enough.
  int64_t tries_max = 0;      // At most so many tries in all; a height costs one at least.
  std::optional<std::chrono::steady_clock::time_point> deadline;
  uint64_t seed = 1;
};

struct LadderResult {
  std::optional<Plan> plan;  // The lowest found, if lower than what was known.
  int64_t bound = 0;         // No plan is lower: MaxLiveBytes, or what was proven.
  int64_t tries = 0;         // Spent.
};

// Looks for a plan lower than `height`, the lowest one known, until it is at the target, proven
// optimal, or the limits are reached. Fixed buffers stay where they are.
//
// Gives up at once where there are more than kSearchedBuffersMax buffers, a buffer is in place with
// another, or the problem is beyond the search (MakeSearchProblem).
// Requires: well-formed buffers. Cost: tries_max times 0.5 to 5 us at some hundred buffers, growing
// with the pairs that live together.
LadderResult SearchBelow(std::span<const Buffer> buffers,
                         int64_t height,
                         const LadderOptions& options);

}  // namespace coppice::internal
