// A depth-first search for a plan within a capacity: it finds one, or proves that there is none.
//
// A plan is canonical if no buffer can move to a lower free offset; every plan can be pushed down
// into a canonical one that is no higher. So only canonical plans are tried, each once: buffers are
// placed by increasing offset, each on top of what lies below it, as MiniMalloc does (Moffitt and
// others, ASPLOS 2024). Of that tree is cut
//
//   floors      what remains of each section must fit above the lowest offset at which any of it
//               can go on; if only one buffer can go on there, the others lie above it
//   dominance   no buffer is placed where another fits completely below it
//   support     a buffer that was passed over must be kept from dropping by one still to come, and
//               will lie no lower than on top of it
//   parts       what no lifetime joins any more is searched one after the other: if one part has no
//               solution, the others are not tried again
//   twins       buffers alike in all but name are placed in one order
//   failures    what has failed once, with the same buffers at the same lowest offsets, is not
//               searched again
//
// Fixed buffers are placed in turn like others, and never passed.
//
// Candidates are tried by offset, and at one offset in the order that the caller gives. A solution
// is met early or hardly ever, so many short searches in different orders beat a long one.
//
// Units: those of SearchProblem, except for the capacity. Threads: one caller.

#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "allocator/planner/search_problem.h"

namespace coppice::internal {

// What searches may still cost. A try places one buffer: 0.5 to 5 us at some hundred buffers.
struct SearchAllowance {
  int64_t tries = 0;
  std::optional<std::chrono::steady_clock::time_point> deadline;
  bool late = false;  // The deadline has passed; looked at once in 16 tries.

  bool IsSpent() const { return tries <= 0 || late; }
};

enum class SearchOutcome : uint8_t {
  kFound,
  kImpossible,  // There is no plan within the capacity.
  kUndecided,   // The allowance was spent first.
};

class PlanSearch {
 public:
  // Remembers so many failures; `problem` must outlive the search.
  explicit PlanSearch(const SearchProblem& problem, size_t failures = size_t{1} << 15);

  // Looks for a plan no higher than `capacity` bytes. Candidates at one offset are tried in
  // `order`, a permutation of the items in which fixed ones come first. Takes the tries off
  // `allowance`. Cost: no allocation per try; memory O(n + pairs that live together), kept between
  // runs.
  SearchOutcome Run(int64_t capacity, std::span<const int32_t> order, SearchAllowance& allowance);

  // After kFound: the offset of each item.
  std::span<const int32_t> offsets() const { return offsets_; }

 private:
  // Items to be placed without regard to others: a range of list_, and the sections they live in.
  struct Part {
    int32_t begin = 0;
    int32_t end = 0;
    SectionSpan sections;
  };

  // Placements come by (offset, rank); the next one must be beyond.
  struct Position {
    int32_t offset = 0;
    int32_t rank = -1;
    friend auto operator<=>(const Position&, const Position&) = default;
  };

  // A part has no solution beyond a position.
  struct Failure {
    uint64_t key = 0;  // Hash of the part's items and their lowest offsets.
    Position beyond;
  };

  // A part being searched. Its candidate, once placed, is list_[part.begin].
  struct Frame {
    Part part;
    Position last;       // The candidate, or what the first one must be beyond.
    int32_t limit = 0;   // No candidate lies higher.
    int32_t home = 0;    // Where in list_ the candidate goes back to.
    bool split = false;  // The rest fell apart, so that its range of list_ is out of order.
    Failure failure;     // If all candidates fail.
    size_t raises = 0;   // Sizes of the stacks without the candidate.
    size_t placed = 0;
    size_t pending = 0;
  };

  // What low_ and bound_ were.
  struct Raise {
    int32_t item = 0;
    int32_t low = 0;
    int32_t bound = 0;
  };

  bool Begin(int64_t capacity, std::span<const int32_t> order);
  void FindTwins(std::span<const int32_t> order);
  void Enter(const Part& part, Position last);
  bool Advance(Frame& frame) const;
  bool PlaceNext(Frame& frame, SearchAllowance& allowance);
  void Place(int32_t item);
  void Unplace(Frame& frame);
  bool RaiseNeighbors(int32_t item);
  bool RaiseBound(int32_t item, int32_t bound);
  bool RaiseUnsupported(const Part& rest, Position last);
  bool SectionFits(int32_t section, int32_t floor);
  bool SectionsFit(size_t raises, int32_t floor);
  bool AddPending(const Part& rest);

  const SearchProblem& problem_;
  int32_t capacity_ = 0;
  std::vector<int32_t> rank_;       // Of an item in the order.
  std::vector<int32_t> twin_;       // The item alike that goes before, or -1.
  std::vector<int32_t> highest_;    // No plan within the capacity has the item higher.
  std::vector<int32_t> low_;        // Where the item drops to; kPlaced if it lies there.
  std::vector<int32_t> bound_;      // No solution has the item lower; at least low_.
  std::vector<int32_t> offsets_;    // Of the items placed.
  std::vector<int32_t> remaining_;  // Units to be placed in a section.
  std::vector<int32_t> bridges_;    // Items to be placed that join a section to the next.
  std::vector<std::pair<int32_t, int32_t>> witnesses_;  // Two items that kept a floor low, maybe.
  std::vector<int32_t> list_;  // By part, the candidate first, then by rank.
  std::vector<int32_t> scratch_;
  std::vector<Frame> frames_;  // The first one has no candidates; its parts are the whole.
  std::vector<Part> pending_;  // To be searched when the last frame's part is solved.
  std::vector<Raise> raises_;
  std::vector<int32_t> placed_;
  std::vector<Failure> failures_;  // By the low bits of the key; the last one stays.
  uint64_t run_ = 0;               // Part of the key: ranks differ from run to run.
};

}  // namespace coppice::internal
