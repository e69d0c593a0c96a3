// A count per stretch between two cuts.

#include "graphs/parts/covered_bytes.h"

#include <iterator>

namespace coppice::internal {

CoveredBytes::Cuts::iterator CoveredBytes::CutAt(DeviceAddress address) {
  const auto next = cuts_.lower_bound(address);
  if (next != cuts_.end() && next->first == address) return next;
  const int64_t around = next == cuts_.begin() ? 0 : std::prev(next)->second.covers;
  return cuts_.emplace_hint(next, address, Cut{.covers = around});
}

void CoveredBytes::Count(Cuts::iterator begin, Cuts::iterator end, int64_t by) {
  begin->second.ends += by;
  end->second.ends += by;
  for (auto cut = begin; cut != end; ++cut) {
    const auto bytes = static_cast<int64_t>(std::next(cut)->first - cut->first);
    if (cut->second.covers == 0) bytes_ += bytes;
    cut->second.covers += by;
    if (cut->second.covers == 0) bytes_ -= bytes;
  }
}

void CoveredBytes::Drop(Cuts::iterator cut) {
  if (cut->second.ends == 0) cuts_.erase(cut);
}

void CoveredBytes::Cover(DeviceAddress begin, DeviceAddress end) {
  if (begin == end) return;
  const auto first = CutAt(begin);
  Count(first, CutAt(end), 1);
}

void CoveredBytes::Uncover(DeviceAddress begin, DeviceAddress end) {
  if (begin == end) return;
  const auto first = cuts_.find(begin);
  const auto last = cuts_.find(end);
  Count(first, last, -1);
  Drop(first);
  Drop(last);
}

}  // namespace coppice::internal
