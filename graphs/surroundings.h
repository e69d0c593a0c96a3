// What a child's graph is planned around: the bytes of the path's leased outputs, and which of them
// are its inputs. Private to graphs/.
//
// Surroundings are interned, so that a key compares them by address.
//
// Units: bytes from the start of a lane's node window. Threads: under the lane's lock.

#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

namespace coppice::internal {

struct Region {
  int64_t offset = 0;
  int64_t bytes = 0;
  int64_t end() const { return offset + bytes; }
  friend bool operator==(const Region&, const Region&) = default;
};

// Sorts, and joins those that overlap or touch.
void Normalize(std::vector<Region>& regions);

// Whether any of `regions` shares a byte with `region`.
bool Meets(const Region& region, const std::vector<Region>& regions);

// Whether any of `a` shares a byte with any of `b`; both normalised. Cost: O(a + b).
bool Overlap(const std::vector<Region>& a, const std::vector<Region>& b);

struct Surroundings {
  std::vector<Region> live;       // Normalised.
  std::vector<int64_t> in_place;  // Per copied input: its offset in the window, or -1 if staged.

  bool empty() const;  // Nothing live, nothing in place: a root's.
  friend bool operator==(const Surroundings&, const Surroundings&) = default;
};

class SurroundingsTable {
 public:
  // The interned equal of `surroundings`, or null if there is none.
  const Surroundings* Find(const Surroundings& surroundings) const;
  // The same, made if there is none.
  const Surroundings* Intern(const Surroundings& surroundings);

 private:
  std::unordered_multimap<uint64_t, std::unique_ptr<const Surroundings>> by_hash_;
};

}  // namespace coppice::internal
