// Ranges of addresses, and who touched them last.

#include "graphs/steps/touch_order.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <utility>

namespace coppice::internal {
namespace {

constexpr size_t kWordBits = 64;

bool HasBit(const std::vector<uint64_t>& bits, int index) {
  const auto bit = static_cast<size_t>(index);
  return bit / kWordBits < bits.size() && (bits[bit / kWordBits] >> (bit % kWordBits) & 1) != 0;
}

}  // namespace

void TouchOrder::SplitAt(DeviceAddress address) {
  Ranges::iterator next = ranges_.upper_bound(address);
  if (next == ranges_.begin()) return;
  const Ranges::iterator range = std::prev(next);
  if (range->first == address || range->second.end <= address) return;
  Range upper = range->second;
  range->second.end = address;
  ranges_.emplace_hint(next, address, std::move(upper));
}

void TouchOrder::Cover(DeviceAddress begin, DeviceAddress end) {
  SplitAt(begin);
  SplitAt(end);
  for (DeviceAddress at = begin; at < end;) {
    const Ranges::iterator next = ranges_.lower_bound(at);
    if (next != ranges_.end() && next->first == at) {
      at = next->second.end;
      continue;
    }
    const DeviceAddress stop = next == ranges_.end() ? end : std::min(end, next->first);
    ranges_.emplace_hint(next, at, Range{.end = stop});
    at = stop;
  }
}

std::vector<int> TouchOrder::WithoutImplied(std::vector<int> after) const {
  std::sort(after.begin(), after.end(), std::greater<>());
  after.erase(std::unique(after.begin(), after.end()), after.end());
  std::vector<int> kept;
  for (const int step : after) {
    const bool implied = std::ranges::any_of(
        kept, [&](int later) { return HasBit(ancestors_[static_cast<size_t>(later)], step); });
    if (!implied) kept.push_back(step);
  }
  std::reverse(kept.begin(), kept.end());
  return kept;
}

std::vector<int> TouchOrder::Add(std::span<const Touch> touched) {
  const int step = steps();
  std::vector<int> after;
  for (const Touch& touch : touched) {
    if (touch.bytes <= 0) continue;
    const DeviceAddress end = touch.begin + static_cast<DeviceAddress>(touch.bytes);
    Cover(touch.begin, end);
    for (auto it = ranges_.find(touch.begin); it != ranges_.end() && it->first < end; ++it) {
      if (it->second.writer >= 0) after.push_back(it->second.writer);
      if (touch.writes)
        after.insert(after.end(), it->second.readers.begin(), it->second.readers.end());
    }
  }
  after = WithoutImplied(std::move(after));
  // Noted once all are known, since a step does not wait for itself; writes last, which end what
  // the step itself read.
  for (const bool writes : {false, true}) {
    for (const Touch& touch : touched) {
      if (touch.bytes <= 0 || touch.writes != writes) continue;
      const DeviceAddress end = touch.begin + static_cast<DeviceAddress>(touch.bytes);
      Cover(touch.begin, end);
      const Ranges::iterator first = ranges_.find(touch.begin);
      if (writes) {
        ranges_.erase(std::next(first), ranges_.lower_bound(end));
        first->second = {.end = end, .writer = step};
        continue;
      }
      for (auto it = first; it != ranges_.end() && it->first < end; ++it) {
        if (it->second.readers.empty() || it->second.readers.back() != step)
          it->second.readers.push_back(step);
      }
    }
  }
  std::vector<uint64_t>& bits = ancestors_.emplace_back(static_cast<size_t>(step) / kWordBits + 1);
  for (const int before : after) {
    const std::vector<uint64_t>& theirs = ancestors_[static_cast<size_t>(before)];
    std::ranges::transform(theirs, bits, bits.begin(), std::bit_or<>());
    bits[static_cast<size_t>(before) / kWordBits] |= uint64_t{1}
                                                     << (static_cast<size_t>(before) % kWordBits);
  }
  return after;
}

}  // namespace coppice::internal
