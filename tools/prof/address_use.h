// Which bytes of a lane's plan window the plans of a bucket use, alone or as others do.
//
//   bucket 8    [====shared====|exclusive)
//   bucket 4    [====shared====)
//               0              height of 4
//
// Counted over all nodes of a trace, whenever they lived: a plan never moves.
//
// Units: bytes. Threads: plain values.

#pragma once

#include <cstdint>
#include <vector>

#include "tools/prof/pool_trace.h"

namespace coppice {

struct AddressUse {
  std::vector<AddressRange> used;       // Sorted, disjoint.
  std::vector<AddressRange> exclusive;  // Of these: no other bucket of the lane uses them.
  int64_t used_bytes = 0;
  int64_t exclusive_bytes = 0;
  int64_t shared_bytes() const { return used_bytes - exclusive_bytes; }
  // The part of `used` that is not exclusive.
  std::vector<AddressRange> Shared() const;
};

// One per bucket of `trace`. Cost: O(buffers log buffers).
std::vector<AddressUse> FindAddressUse(const PoolTrace& trace);

}  // namespace coppice
