// The parts of a planned buffer that nodes use. Private to graphs/.
//
// Edges come from the bytes that nodes touch, and a node may touch some of a buffer only: a copy, a
// fill, a child. So plan and edges are checked against each other part by part:
//
//   buffer   |..........|####|######|....|     # touched by some node
//   parts               |  1 |  2   |          each touched as a whole by its nodes
//
// Units: bytes; nodes by number. Threads: pure functions and plain values.

#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "coppice/allocator/plan.h"

namespace coppice::internal {

// That a node touches bytes [begin, end) of a buffer.
struct Use {
  int64_t buffer = 0;
  int64_t node = 0;
  int64_t begin = 0;  // >= 0.
  int64_t end = 0;    // > begin.
  friend auto operator<=>(const Use&, const Use&) = default;
};

// Bytes [begin, end) of a buffer, and the steps that use them.
struct UsedPart {
  int64_t begin = 0;
  int64_t end = 0;
  absl::InlinedVector<Interval, 1> steps;  // As Buffer::lifetime.
};

// Of one buffer of `bytes` bytes the parts that its nodes use, ascending; neighbours have other
// steps. `uses` are in order. With `last_step`, which is behind all nodes, all of the buffer is
// used at that step as well. Cost: O(uses^2) at worst, O(uses) where each node touches all of it.
std::vector<UsedPart> UsedPartsOf(int64_t bytes,
                                  std::span<const Use> uses,
                                  std::optional<int64_t> last_step);

}  // namespace coppice::internal
