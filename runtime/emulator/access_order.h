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
  // Calls `visit(stream, position)` for each.
  template <typename Visit>
  void ForEach(Visit visit) const {
    for (const auto& [stream, position] : positions_)
      visit(stream, position);
  }
  void Clear() { positions_.clear(); }

 private:
  absl::flat_hash_map<uint64_t, uint64_t> positions_;
};

// An operation: a position in a stream, and among all that were submitted.
struct OperationId {
  uint64_t order = 0;
  uint64_t stream = 0;
  uint64_t position = 0;

  friend auto operator<=>(const OperationId&, const OperationId&) = default;
};

// One access, of an operation; of its node, if it launches a graph.
struct Access {
  OperationId operation;
  int node = 0;
  const char* name = "";  // Of the kernel, or "memcpy" or "memset". Not owned.
  bool writes = false;
};

// What an access that was noted is to one that is being noted.
enum class Order : uint8_t { kNone, kBefore, kAfter };

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
  // `order_of(access)` does not order, and one of the two writes. Of what comes after the added
  // access, a write stays the last write.
  // Cost: O(log ranges + ranges met x readers of each).
  template <typename OrderOf>
  std::optional<Conflict> Add(ByteRange bytes, const Access& access, OrderOf order_of);

  void Clear() { ranges_.clear(); }

 private:
  struct Range {
    uint64_t end = 0;
    std::optional<Access> write;
    std::vector<Access> reads;  // Since the write.
  };

  // Makes `at` a boundary, if it lies inside a range.
  void SplitAt(uint64_t at);

  std::map<uint64_t, Range> ranges_;  // By begin; disjoint.
};

template <typename OrderOf>
std::optional<Conflict> AccessHistory::Add(ByteRange bytes,
                                           const Access& access,
                                           OrderOf order_of) {
  std::optional<Conflict> conflict;
  const auto check = [&](const Access& earlier, ByteRange where) {
    const Order order = order_of(earlier);
    if (!conflict.has_value() && order == Order::kNone) conflict = {earlier, access, where};
    return order;
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
    const bool is_last = !range.write.has_value() || check(*range.write, where) != Order::kAfter;
    if (access.writes) {
      std::erase_if(range.reads,
                    [&](const Access& read) { return check(read, where) != Order::kAfter; });
      if (is_last) range.write = access;
    } else {
      std::erase_if(range.reads,
                    [&](const Access& read) { return order_of(read) == Order::kBefore; });
      range.reads.push_back(access);
    }
    at = range.end;
    ++next;
  }
  return conflict;
}

}  // namespace coppice::emulator
