// Ranges of addresses, and who touched them last.

#include "graphs/steps/touch_order.h"

#include <algorithm>
#include <functional>

namespace coppice::internal {
namespace {

constexpr size_t kWordBits = 64;

// Of `bits`, where the row of a step begins, whose rows before it have one word more every 64.
size_t RowOf(size_t step) {
  const size_t words = step / kWordBits + 1;
  return kWordBits * (words - 1) * words / 2 + step % kWordBits * words;
}

}  // namespace

size_t TouchOrder::Cover(DeviceAddress begin, DeviceAddress end) {
  const auto split = [this](size_t at, DeviceAddress address) {
    const auto upper =
        ranges_.insert(ranges_.begin() + static_cast<ptrdiff_t>(at) + 1, ranges_[at]);
    upper->begin = ranges_[at].end = address;
  };
  size_t at = static_cast<size_t>(std::ranges::upper_bound(ranges_, begin, {}, &Range::end) -
                                  ranges_.begin());
  if (at < ranges_.size() && ranges_[at].begin < begin) split(at++, begin);
  const size_t first = at;
  for (DeviceAddress next = begin; next < end; next = ranges_[at++].end) {
    if (at == ranges_.size() || ranges_[at].begin > next) {
      const DeviceAddress stop = at == ranges_.size() ? end : std::min(end, ranges_[at].begin);
      ranges_.insert(ranges_.begin() + static_cast<ptrdiff_t>(at), {.begin = next, .end = stop});
    } else if (ranges_[at].end > end) {
      split(at, end);
    }
  }
  return first;
}

bool TouchOrder::IsBehind(int later, int step) const {
  const auto bit = static_cast<size_t>(step);
  return step < later &&
         (ancestors_[RowOf(static_cast<size_t>(later)) + bit / kWordBits] >> (bit % kWordBits) &
          1) != 0;
}

void TouchOrder::DropImplied() {
  std::ranges::sort(after_, std::greater<>());
  size_t kept = 0;
  for (const int step : after_) {
    const bool implied =
        std::any_of(after_.begin(), after_.begin() + static_cast<ptrdiff_t>(kept),
                    [&](int later) { return later == step || IsBehind(later, step); });
    if (!implied) after_[kept++] = step;
  }
  after_.resize(kept);
  std::ranges::reverse(after_);
}

void TouchOrder::NoteAncestors(int step) {
  const size_t row = RowOf(static_cast<size_t>(step));
  ancestors_.resize(RowOf(static_cast<size_t>(step) + 1));
  for (const int before : after_) {
    const auto bit = static_cast<size_t>(before);
    const size_t theirs = RowOf(bit);
    for (size_t word = 0; word <= bit / kWordBits; ++word)
      ancestors_[row + word] |= ancestors_[theirs + word];
    ancestors_[row + bit / kWordBits] |= uint64_t{1} << (bit % kWordBits);
  }
}

const std::vector<int>& TouchOrder::Add(std::span<const Touch> touched) {
  const int step = steps_++;
  after_.clear();
  for (const Touch& touch : touched) {
    if (touch.bytes <= 0) continue;
    const DeviceAddress end = touch.begin + static_cast<DeviceAddress>(touch.bytes);
    for (size_t i = Cover(touch.begin, end); i < ranges_.size() && ranges_[i].begin < end; ++i) {
      if (ranges_[i].writer >= 0) after_.push_back(ranges_[i].writer);
      for (int at = touch.writes ? ranges_[i].readers : -1; at >= 0;
           at = readers_[static_cast<size_t>(at)].before)
        after_.push_back(readers_[static_cast<size_t>(at)].step);
    }
  }
  DropImplied();
  // Noted once all are known, since a step does not wait for itself; writes last, which end what
  // the step itself read.
  for (const bool writes : {false, true}) {
    for (const Touch& touch : touched) {
      if (touch.bytes <= 0 || touch.writes != writes) continue;
      const DeviceAddress end = touch.begin + static_cast<DeviceAddress>(touch.bytes);
      const size_t first = Cover(touch.begin, end);
      size_t last = first;
      for (; last < ranges_.size() && ranges_[last].begin < end; ++last) {
        int& readers = ranges_[last].readers;
        if (writes || (readers >= 0 && readers_[static_cast<size_t>(readers)].step == step))
          continue;
        readers_.push_back({.step = step, .before = readers});
        readers = static_cast<int>(readers_.size()) - 1;
      }
      if (!writes) continue;
      ranges_[first] = {.begin = touch.begin, .end = end, .writer = step};
      ranges_.erase(ranges_.begin() + static_cast<ptrdiff_t>(first) + 1,
                    ranges_.begin() + static_cast<ptrdiff_t>(last));
    }
  }
  NoteAncestors(step);
  return after_;
}

}  // namespace coppice::internal
