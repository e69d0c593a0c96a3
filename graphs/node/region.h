// Regions: stretches of a lane's plan window, and sets of them. Private to graphs/.
//
// Units: bytes from the window's start. Threads: pure functions.

#pragma once

#include <cstdint>
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

// Sorts, and joins those that overlap, but not those that touch.
void JoinOverlapping(std::vector<Region>& regions);

// The bytes of `regions` that are not in `without`; both disjoint and sorted. Allocates.
std::vector<Region> Subtract(const std::vector<Region>& regions,
                             const std::vector<Region>& without);

// Whether any of `regions` shares a byte with `region`.
bool Meets(const Region& region, const std::vector<Region>& regions);

// Whether any of `a` shares a byte with any of `b`; both normalised. Cost: O(a + b).
bool Overlap(const std::vector<Region>& a, const std::vector<Region>& b);

}  // namespace coppice::internal
