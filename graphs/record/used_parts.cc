// Cuts where a use begins or ends.

#include "graphs/record/used_parts.h"

#include <algorithm>

namespace coppice::internal {
namespace {

void Add(int64_t step, absl::InlinedVector<Interval, 1>& steps) {
  if (!steps.empty() && steps.back().upper >= step) {
    steps.back().upper = std::max(steps.back().upper, step + 1);
  } else {
    steps.push_back({.lower = step, .upper = step + 1});
  }
}

}  // namespace

std::vector<UsedPart> UsedPartsOf(int64_t bytes,
                                  std::span<const Use> uses,
                                  std::optional<int64_t> last_step) {
  std::vector<int64_t> cuts;
  if (last_step) cuts = {0, bytes};
  for (const Use& use : uses) {
    cuts.push_back(use.begin);
    cuts.push_back(use.end);
  }
  std::ranges::sort(cuts);
  cuts.erase(std::ranges::unique(cuts).begin(), cuts.end());
  std::vector<UsedPart> pieces;
  for (size_t i = 1; i < cuts.size(); ++i)
    pieces.push_back({.begin = cuts[i - 1], .end = cuts[i], .steps = {}});
  for (const Use& use : uses) {
    auto piece = std::ranges::lower_bound(pieces, use.begin, {}, &UsedPart::begin);
    for (; piece != pieces.end() && piece->begin < use.end; ++piece)
      Add(use.node, piece->steps);
  }
  std::vector<UsedPart> parts;
  for (UsedPart& piece : pieces) {
    if (last_step) Add(*last_step, piece.steps);
    if (piece.steps.empty()) continue;
    if (!parts.empty() && parts.back().end == piece.begin && parts.back().steps == piece.steps) {
      parts.back().end = piece.end;
    } else {
      parts.push_back(std::move(piece));
    }
  }
  return parts;
}

}  // namespace coppice::internal
