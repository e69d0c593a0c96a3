// Vector clocks and the history of accesses.

#include "runtime/emulator/access_order.h"

#include <algorithm>

namespace coppice::emulator {

void VectorClock::Advance(uint64_t stream, uint64_t position) {
  uint64_t& known = positions_[stream];
  known = std::max(known, position);
}

void VectorClock::Join(const VectorClock& other) {
  for (const auto& [stream, position] : other.positions_)
    Advance(stream, position);
}

bool VectorClock::Covers(const VectorClock& other) const {
  return std::all_of(other.positions_.begin(), other.positions_.end(),
                     [this](const auto& known) { return Of(known.first) >= known.second; });
}

void AccessHistory::SplitAt(uint64_t at) {
  auto found = ranges_.upper_bound(at);
  if (found == ranges_.begin()) return;
  --found;
  if (found->first == at || found->second.end <= at) return;
  Range upper = found->second;
  found->second.end = at;
  ranges_.emplace(at, std::move(upper));
}

}  // namespace coppice::emulator
