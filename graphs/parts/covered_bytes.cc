// A count per stretch of addresses.

#include "graphs/parts/covered_bytes.h"

#include <iterator>

namespace coppice::internal {

CoveredBytes::Counts::iterator CoveredBytes::CutAt(DeviceAddress address) {
  const auto next = counts_.lower_bound(address);
  if (next != counts_.end() && next->first == address) return next;
  const int64_t around = next == counts_.begin() ? 0 : std::prev(next)->second;
  return counts_.emplace_hint(next, address, around);
}

void CoveredBytes::Join(Counts::iterator stretch) {
  const int64_t before = stretch == counts_.begin() ? 0 : std::prev(stretch)->second;
  if (stretch->second == before) counts_.erase(stretch);
}

void CoveredBytes::Change(DeviceAddress begin, DeviceAddress end, int64_t by) {
  if (begin == end) return;
  const auto first = CutAt(begin);
  const auto last = CutAt(end);
  for (auto stretch = first; stretch != last; ++stretch) {
    const auto bytes = static_cast<int64_t>(std::next(stretch)->first - stretch->first);
    if (stretch->second == 0) bytes_ += bytes;
    stretch->second += by;
    if (stretch->second == 0) bytes_ -= bytes;
  }
  // Inside of [begin, end) neighbours differ as they did before.
  Join(last);
  Join(first);
}

}  // namespace coppice::internal
