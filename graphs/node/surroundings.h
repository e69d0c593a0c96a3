// What a child's graph is planned around: the bytes of the path's leased outputs, which of them are
// its inputs, and which of those it may write over once it has read them. Private to graphs/.
//
// Surroundings are interned, so that a key compares them by address.
//
// Units: bytes from the start of a lane's plan window. Threads: under the lane's lock.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "graphs/node/region.h"

namespace coppice::internal {

struct Surroundings {
  std::vector<Region> live;       // Normalised.
  std::vector<int64_t> in_place;  // Per copied input: its offset in the window, or -1 if staged.
  std::vector<Region> donated;  // Of outputs that the call gives away and reads; disjoint, sorted.

  bool empty() const;  // Nothing live, nothing in place: a root's.
  friend bool operator==(const Surroundings&, const Surroundings&) = default;
};

class SurroundingsTable {
 public:
  // The interned equal of `surroundings`, or null if there is none.
  const Surroundings* Find(const Surroundings& surroundings) const;
  // The same, made if there is none.
  const Surroundings* Intern(const Surroundings& surroundings);

  // Whether it has grown so much that those should go of which nobody has the address.
  bool crowded() const { return by_hash_.size() >= crowd_; }
  // Drops those for which `used` is false.
  template <typename Used>
  void Forget(const Used& used) {
    std::erase_if(by_hash_, [&used](const auto& entry) { return !used(entry.second.get()); });
    crowd_ = std::max(kCrowdMin, 2 * by_hash_.size());
  }

 private:
  static constexpr size_t kCrowdMin = 1024;

  std::unordered_multimap<uint64_t, std::unique_ptr<const Surroundings>> by_hash_;
  size_t crowd_ = kCrowdMin;
};

}  // namespace coppice::internal
