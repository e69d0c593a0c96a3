// Ranges that grow together.

#include "runtime/emulator/written_bytes.h"

#include <algorithm>
#include <iterator>

namespace coppice::emulator {

void WrittenBytes::Add(uint64_t begin, uint64_t end) {
  if (Covers(begin, end)) return;
  auto next = ranges_.lower_bound(begin);
  if (next != ranges_.begin() && std::prev(next)->second >= begin) {
    --next;
    begin = next->first;
  }
  while (next != ranges_.end() && next->first <= end) {
    end = std::max(end, next->second);
    next = ranges_.erase(next);
  }
  ranges_.emplace_hint(next, begin, end);
}

bool WrittenBytes::Covers(uint64_t begin, uint64_t end) const {
  const auto after = ranges_.upper_bound(begin);
  return after != ranges_.begin() && std::prev(after)->second >= end;
}

}  // namespace coppice::emulator
