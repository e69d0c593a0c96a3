// The planner's engine: places items one after another, each at the lowest offset, or in the
// tightest hole, that is free of the items placed before it.
//
// Time is cut into windows. A window knows the addresses that are taken in all of its sections,
// those that are taken in any of them, and the pieces of items that begin or end inside it. A
// lifetime is then a few address sets to look through at the same time: what is taken anywhere in
// the windows that it spans, and at its two ends what is taken everywhere in the window, with the
// pieces. Neighbouring addresses fuse, so that the sets stay short where memory is densely packed,
// which is where a search has far to go.
//
// Units: bytes and sections. Threads: plain values.

#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "allocator/planner/plan_problem.h"

namespace coppice::internal {

enum class Fit : uint8_t { kFirst, kBest };

// A set of addresses as sorted disjoint blocks that do not touch.
class AddressSet {
 public:
  struct Block {
    int64_t begin = 0;
    int64_t end = 0;
  };

  void Add(int64_t begin, int64_t end);
  const std::vector<Block>& blocks() const { return blocks_; }

 private:
  std::vector<Block> blocks_;
};

// The items placed so far.
class Layout {
 public:
  // The problem outlives the layout.
  explicit Layout(const PlanProblem& problem);

  void Place(const PlanItem& item, int64_t offset);

  // The lowest offset (kFirst), or the lowest of the tightest holes (kBest), where `item` meets
  // nothing that is placed. Not const: keeps its cursors between calls.
  int64_t FindOffset(const PlanItem& item, Fit fit);

 private:
  // A piece of an item that begins or ends inside a window.
  struct Piece {
    int64_t begin = 0;
    int64_t end = 0;
    int32_t lower = 0;
    int32_t upper = 0;
  };

  struct Window {
    AddressSet covered;  // Taken in every section.
    AddressSet touched;  // Taken in some section.
    std::vector<Piece> pieces;
  };

  // Where the search stands in one list; what lies before `at` ends at or below the candidate.
  struct BlockCursor {
    const AddressSet::Block* at;
    const AddressSet::Block* end;
    int64_t extent;
  };
  struct PieceCursor {
    const Piece* at;
    const Piece* end;
    int64_t extent;
    int32_t lower;
    int32_t upper;
  };

  // Calls `inside(window, part)` or `across(window, part)` for each window that the item lives in,
  // the latter where it lives in all sections.
  template <typename Inside, typename Across>
  void ForWindows(const PlanItem& item, Inside inside, Across across);

  void CollectCursors(const PlanItem& item);
  int64_t RaiseToGap(int64_t offset, int64_t alignment);

  const PlanProblem& problem_;
  int32_t stride_ = 1;  // Sections per window.
  std::vector<Window> windows_;
  std::vector<BlockCursor> block_cursors_;
  std::vector<PieceCursor> piece_cursors_;
};

struct Placement {
  std::vector<int64_t> offsets;  // Per item.
  int64_t height = 0;
};

// What ends a placement before it is complete.
struct PlacementLimit {
  int64_t height = 0;  // In bytes; at this height or above.
  std::optional<std::chrono::steady_clock::time_point> deadline;
};

// Places the fixed items, then the others in `order`. Nothing if that is at a limit.
std::optional<Placement> PlaceInOrder(const PlanProblem& problem,
                                      std::span<const int32_t> order,
                                      Fit fit,
                                      const PlacementLimit& limit);

}  // namespace coppice::internal
