// A set of bytes of one buffer, as ranges.
//
// Units: bytes. Threads: one at a time.

#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>

namespace coppice::package {

class ByteSet {
 public:
  // Adds [begin, end); joins what touches.
  void Add(int64_t begin, int64_t end) {
    if (begin >= end) return;
    auto next = ranges_.upper_bound(begin);
    if (next != ranges_.begin() && std::prev(next)->second >= begin) {
      --next;
      begin = next->first;
    }
    while (next != ranges_.end() && next->first <= end) {
      end = std::max(end, next->second);
      next = ranges_.erase(next);
    }
    ranges_[begin] = end;
  }

  // The first byte of [begin, end) that is not in the set; `end` if all are.
  int64_t FirstMissing(int64_t begin, int64_t end) const {
    const auto next = ranges_.upper_bound(begin);
    if (next == ranges_.begin() || std::prev(next)->second <= begin) return begin;
    return std::min(end, std::prev(next)->second);
  }

  // Whether a byte of [begin, end) is in the set.
  bool Meets(int64_t begin, int64_t end) const {
    const auto next = ranges_.lower_bound(end);
    return begin < end && next != ranges_.begin() && std::prev(next)->second > begin;
  }

 private:
  std::map<int64_t, int64_t> ranges_;  // Ends by begins; none touches another.
};

}  // namespace coppice::package
