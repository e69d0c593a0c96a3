// Stretches of a lane's plan window.
//
// Units: bytes from the start of the window. Threads: pure functions and plain values.

#pragma once

#include <cstdint>
#include <vector>

namespace coppice {

// Bytes [begin, end).
struct AddressRange {
  int64_t begin = 0;
  int64_t end = 0;  // > begin.
  int64_t bytes() const { return end - begin; }
  friend bool operator==(const AddressRange&, const AddressRange&) = default;
};

// Sorts, and joins ranges that overlap or touch.
void Normalize(std::vector<AddressRange>& ranges);

// True if a byte is in both. Requires: each sorted and disjoint. Cost: O(a + b).
bool Meet(const std::vector<AddressRange>& a, const std::vector<AddressRange>& b);

}  // namespace coppice
