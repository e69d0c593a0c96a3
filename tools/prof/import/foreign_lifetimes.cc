// Pairs of allocations and frees.

#include "tools/prof/import/foreign_lifetimes.h"

#include <algorithm>
#include <utility>

namespace coppice {

int64_t CountPairs(const std::vector<Buffer>& buffers) {
  std::vector<int64_t> begins;
  std::vector<int64_t> ends;
  for (const Buffer& buffer : buffers) {
    begins.push_back(buffer.lifetime[0].lower);
    ends.push_back(buffer.lifetime[0].upper);
  }
  std::ranges::sort(begins);
  std::ranges::sort(ends);
  int64_t pairs = 0;
  size_t ended = 0;
  for (size_t begun = 0; begun < begins.size(); ++begun) {
    while (ends[ended] <= begins[begun])
      ++ended;
    pairs += static_cast<int64_t>(begun - ended);
  }
  return pairs;
}

bool LifetimeCollector::Close(const Open& open, int64_t end) {
  if (static_cast<int64_t>(lifetimes_.buffers.size()) >= kForeignAllocationsMax) return false;
  Buffer& buffer = lifetimes_.buffers.emplace_back();
  buffer.lifetime.push_back({open.since, std::max(end, open.since + 1)});
  buffer.bytes = open.bytes;
  return true;
}

bool LifetimeCollector::Alloc(int64_t address, int64_t bytes) {
  const auto [at, fresh] = open_.try_emplace(address, Open{bytes, lifetimes_.steps});
  if (fresh) {
    return static_cast<int64_t>(open_.size()) <= kForeignAllocationsMax;
  }
  const bool closed = at->second.bytes == 0 || Close(at->second, lifetimes_.steps);
  at->second = {bytes, lifetimes_.steps};
  return closed;
}

bool LifetimeCollector::Free(int64_t address, int64_t bytes) {
  const auto at = open_.find(address);
  if (at == open_.end()) {
    if (bytes <= 0) return true;
    ++lifetimes_.live_before;
    return Close({.bytes = bytes}, lifetimes_.steps);
  }
  if (at->second.bytes == 0) ++lifetimes_.empty;
  const bool closed = at->second.bytes == 0 || Close(at->second, lifetimes_.steps);
  open_.erase(at);
  return closed;
}

ForeignLifetimes LifetimeCollector::Finish() {
  std::vector<std::pair<int64_t, Open>> open(open_.begin(), open_.end());
  std::ranges::sort(open, {},
                    [](const auto& each) { return std::pair(each.second.since, each.first); });
  for (const auto& [address, each] : open) {
    if (each.bytes == 0) {
      ++lifetimes_.empty;
    } else {
      ++lifetimes_.live_after;
      if (!Close(each, lifetimes_.steps + 1)) break;
    }
  }
  open_.clear();
  return std::move(lifetimes_);
}

}  // namespace coppice
