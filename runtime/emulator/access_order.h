// Which operations are ordered, and which touch the same bytes although they are not.
//
// Time is known by vector clocks: per stream, how many of its operations lie before a point. An
// operation precedes another if the other's clock knows of it. Races are found when work is
// submitted, from what it declares to touch, so that they do not depend on the schedule.
//
// Threads: plain values, guarded by their owner.

#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace coppice::emulator {

// By stream, the operations that lie before a point in time.
class VectorClock {
 public:
  // Position in the stream of the last operation known; 0 if none is.
  uint64_t Of(uint64_t stream) const {
    const auto found = positions_.find(stream);
    return found == positions_.end() ? 0 : found->second;
  }
  void Advance(uint64_t stream, uint64_t position);
  void Join(const VectorClock& other);
  bool Covers(const VectorClock& other) const;
  void Clear() { positions_.clear(); }

 private:
  absl::flat_hash_map<uint64_t, uint64_t> positions_;
};

// One access. `stream` and `position` say of which operation; inside a graph, 0 and the node.
struct Access {
  uint64_t stream = 0;
  uint64_t position = 0;
  const char* name = "";  // Of the kernel, or "memcpy" or "memset". Not owned.
  bool writes = false;
};

// Bytes of device or host memory, [begin, end).
struct ByteRange {
  uint64_t begin = 0;
  uint64_t end = 0;
};

struct Conflict {
  Access earlier;
  Access later;
  ByteRange bytes;
};

// What was last read and written, byte range by byte range.
class AccessHistory {
 public:
  // Adds an access to `bytes`. Returns the first access found that touches some of them, that
  // `precedes(access)` does not say to come before, and one of the two writes.
  // Cost: O(log ranges + ranges met x readers of each).
  template <typename Precedes>
  std::optional<Conflict> Add(ByteRange bytes, const Access& access, Precedes precedes);

  void Clear() { ranges_.clear(); }

 private:
  struct Range {
    uint64_t end = 0;
    std::optional<Access> write;
    std::vector<Access> reads;  // Since the write; none of them precedes another.
  };

  // Makes `at` a boundary, if it lies inside a range.
  void SplitAt(uint64_t at);

  std::map<uint64_t, Range> ranges_;  // By begin; disjoint.
};

template <typename Precedes>
std::optional<Conflict> AccessHistory::Add(ByteRange bytes,
                                           const Access& access,
                                           Precedes precedes) {
  std::optional<Conflict> conflict;
  const auto check = [&](const Access& earlier, ByteRange where) {
    if (!conflict.has_value() && !precedes(earlier)) conflict = {earlier, access, where};
  };
  SplitAt(bytes.begin);
  SplitAt(bytes.end);
  auto next = ranges_.lower_bound(bytes.begin);
  for (uint64_t at = bytes.begin; at < bytes.end;) {
    if (next == ranges_.end() || next->first > at) {
      const uint64_t end = next == ranges_.end() ? bytes.end : std::min(next->first, bytes.end);
      next = ranges_.emplace_hint(next, at, Range{.end = end, .write = {}, .reads = {}});
    }
    Range& range = next->second;
    const ByteRange where{at, range.end};
    if (range.write.has_value()) check(*range.write, where);
    if (access.writes) {
      for (const Access& read : range.reads)
        check(read, where);
      range.reads.clear();
      range.write = access;
    } else {
      std::erase_if(range.reads, precedes);
      range.reads.push_back(access);
    }
    at = range.end;
    ++next;
  }
  return conflict;
}

}  // namespace coppice::emulator
