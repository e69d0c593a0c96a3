// First and best fit over address sets per window of time.

#include "allocator/planner/placement.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace coppice::internal {
namespace {

// Sections per window. Short windows mean many sets for a long lifetime, long ones many pieces to
// look through at its ends; the sum is least where a piece costs as much as 1/40 of a set.
int32_t StrideFor(const PlanProblem& problem) {
  constexpr double kPiecesPerSet = 60;
  const auto sections = static_cast<double>(problem.live.size());
  double total = 0;
  for (const PlanPart& part : problem.parts)
    total += part.upper - part.lower;
  const double length = total / static_cast<double>(problem.parts.size());
  const double live = std::max(1.0, total / sections);
  return static_cast<int32_t>(
      std::clamp(length * std::sqrt(kPiecesPerSet / live), 1.0, std::max(1.0, sections)));
}

int64_t AlignUpTo(int64_t value, int64_t power_of_two) {
  return (value + power_of_two - 1) & -power_of_two;
}

// Raises `offset` above everything under the cursor that an extent from there would meet. `skip`
// says which entries do not count.
template <typename Cursor, typename Skip>
bool Raise(Cursor& cursor, int64_t alignment, Skip skip, int64_t& offset) {
  bool raised = false;
  for (; cursor.at != cursor.end; ++cursor.at) {
    if (cursor.at->end <= offset || skip(*cursor.at)) continue;
    if (cursor.at->begin >= offset + cursor.extent) break;
    offset = AlignUpTo(cursor.at->end, alignment);
    raised = true;
  }
  return raised;
}

}  // namespace

void AddressSet::Add(int64_t begin, int64_t end) {
  auto first = std::lower_bound(blocks_.begin(), blocks_.end(), begin,
                                [](const Block& block, int64_t at) { return block.end < at; });
  if (first == blocks_.end() || first->begin > end) {
    blocks_.insert(first, {begin, end});
    return;
  }
  first->begin = std::min(first->begin, begin);
  auto last = first + 1;
  while (last != blocks_.end() && last->begin <= end)
    ++last;
  first->end = std::max(std::prev(last)->end, end);
  if (last != first + 1) blocks_.erase(first + 1, last);
}

Layout::Layout(const PlanProblem& problem)
    : problem_(problem),
      stride_(StrideFor(problem)),
      windows_(problem.live.size() / static_cast<size_t>(stride_) + 1) {}

template <typename Inside, typename Across>
void Layout::ForWindows(const PlanItem& item, Inside inside, Across across) {
  for (const PlanPart& part : problem_.PartsOf(item)) {
    int32_t lower = part.lower / stride_ * stride_;
    for (auto* window = &windows_[static_cast<size_t>(part.lower / stride_)]; lower < part.upper;
         lower += stride_, ++window) {
      if (part.lower <= lower && lower + stride_ <= part.upper) {
        across(*window, part);
      } else {
        inside(*window, part);
      }
    }
  }
}

void Layout::Place(const PlanItem& item, int64_t offset) {
  ForWindows(
      item,
      [offset](Window& window, const PlanPart& part) {
        const int64_t end = offset + part.extent;
        window.touched.Add(offset, end);
        const auto above =
            std::upper_bound(window.pieces.begin(), window.pieces.end(), offset,
                             [](int64_t at, const Piece& piece) { return at < piece.begin; });
        window.pieces.insert(above, {offset, end, part.lower, part.upper});
      },
      [offset](Window& window, const PlanPart& part) {
        window.touched.Add(offset, offset + part.extent);
        window.covered.Add(offset, offset + part.extent);
      });
}

void Layout::CollectCursors(const PlanItem& item) {
  block_cursors_.clear();
  piece_cursors_.clear();
  const auto add_blocks = [this](const AddressSet& set, const PlanPart& part) {
    const auto& blocks = set.blocks();
    if (!blocks.empty())
      block_cursors_.push_back({blocks.data(), blocks.data() + blocks.size(), part.extent});
  };
  ForWindows(
      item,
      [&](Window& window, const PlanPart& part) {
        add_blocks(window.covered, part);
        const std::vector<Piece>& pieces = window.pieces;
        if (pieces.empty()) return;
        piece_cursors_.push_back(
            {pieces.data(), pieces.data() + pieces.size(), part.extent, part.lower, part.upper});
      },
      [&](Window& window, const PlanPart& part) { add_blocks(window.touched, part); });
}

// The lowest offset from `offset` up where nothing under any cursor is in the way.
int64_t Layout::RaiseToGap(int64_t offset, int64_t alignment) {
  bool raised = true;
  while (raised) {
    raised = false;
    for (BlockCursor& cursor : block_cursors_)
      raised |= Raise(
          cursor, alignment, [](const auto&) { return false; }, offset);
    for (PieceCursor& cursor : piece_cursors_) {
      const auto elsewhen = [&cursor](const Piece& piece) {
        return piece.lower >= cursor.upper || piece.upper <= cursor.lower;
      };
      raised |= Raise(cursor, alignment, elsewhen, offset);
    }
  }
  return offset;
}

int64_t Layout::FindOffset(const PlanItem& item, Fit fit) {
  CollectCursors(item);
  int64_t offset = RaiseToGap(0, item.alignment);
  if (fit == Fit::kFirst) return offset;
  int64_t best = -1;
  int64_t best_slack = std::numeric_limits<int64_t>::max();
  while (true) {
    int64_t slack = std::numeric_limits<int64_t>::max();
    int64_t next = 0;
    const auto limit = [&](const auto& cursor) {
      if (cursor.at == cursor.end) return;
      const int64_t room = cursor.at->begin - offset - cursor.extent;
      if (room >= slack) return;
      slack = room;
      next = cursor.at->end;
    };
    std::for_each(block_cursors_.begin(), block_cursors_.end(), limit);
    std::for_each(piece_cursors_.begin(), piece_cursors_.end(), limit);
    if (next == 0) return best >= 0 ? best : offset;
    if (slack < best_slack) {
      best = offset;
      best_slack = slack;
    }
    offset = RaiseToGap(AlignUpTo(next, item.alignment), item.alignment);
  }
}

std::optional<Placement> PlaceInOrder(const PlanProblem& problem,
                                      std::span<const int32_t> order,
                                      Fit fit,
                                      const PlacementLimit& limit) {
  constexpr size_t kItemsPerLookAtClock = 16;
  Placement placement{.offsets = std::vector<int64_t>(problem.items.size())};
  Layout layout(problem);
  const auto place = [&](size_t i, int64_t offset) {
    const PlanItem& item = problem.items[i];
    layout.Place(item, offset);
    placement.offsets[i] = offset;
    placement.height = std::max(placement.height, offset + item.extent - item.overhang);
  };
  for (size_t i = 0; i < problem.items.size(); ++i)
    if (problem.items[i].fixed_offset) place(i, *problem.items[i].fixed_offset);
  for (size_t i = 0; i < order.size(); ++i) {
    if (placement.height >= limit.height) return std::nullopt;
    if (limit.deadline && i % kItemsPerLookAtClock == 0 &&
        std::chrono::steady_clock::now() >= *limit.deadline) {
      return std::nullopt;
    }
    const auto index = static_cast<size_t>(order[i]);
    place(index, layout.FindOffset(problem.items[index], fit));
  }
  if (placement.height >= limit.height) return std::nullopt;
  return placement;
}

}  // namespace coppice::internal
