// Guesses which buffers lie beside each other, so that a search has fewer of them to place.
//
// Where a program fills its memory, buffers fit together like the pieces of a sheet that was cut
// up. A join undoes a cut: what it joins moves as one block from then on, and may be joined again.
//
//   stacked     two that live during the same steps lie one on the other
//   following   one that begins when another of its size ends lies where that one lay
//   wound       four lie round a fifth, the smallest pattern that no straight cut parts:
//
//                 ┌────┬──────┐
//                 │    │  c   │
//                 │  d ├────┬─┤
//                 │    │ e  │b│
//                 ├────┴────┤ │
//                 │    a    │ │
//                 └─────────┴─┘ time
//
// Every plan of the blocks is a plan of the buffers, but there may be no low plan of the blocks: a
// join may be wrong. It is the more doubtful the more other buffers begin or end at the same
// moment; joins are made from the least doubtful on, and draws of luck change which and in what
// order. A caller searches for a plan of several draws.
//
// Fixed buffers and those with several intervals stay alone.
//
// Units: bytes and steps. Threads: pure functions.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "coppice/allocator/plan.h"

namespace coppice::internal {

struct JoinOptions {
  double noise = 0;     // Added to a guess's doubt: up to so much. A sure guess has a doubt of 1.
  double left_out = 0;  // The share of guesses of two that are passed over, in [0, 1].
  uint64_t seed = 0;    // Of the draws.

  // Joins the room that is free below that height too, cut into rectangles.
  std::optional<int64_t> fill_below;
};

struct JoinedBuffers {
  struct Place {
    size_t block = 0;
    int64_t offset = 0;  // Inside the block.
  };
  std::vector<Buffer> blocks;
  std::vector<Place> places;  // Of each buffer.
};

// Requires: well-formed buffers, none in place with another. Deterministic. Cost: O(n): joins no
// more after 4,000 looks a buffer at what may fit; about 1 ms at some hundred buffers. Allocates.
JoinedBuffers JoinBuffers(std::span<const Buffer> buffers, const JoinOptions& options);

// The plan of `buffers` that a plan of their blocks is. Requires: `joined` is of `buffers`, `plan`
// a valid plan of its blocks.
Plan PlanOfJoined(std::span<const Buffer> buffers, const JoinedBuffers& joined, const Plan& plan);

}  // namespace coppice::internal
