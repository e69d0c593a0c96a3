// How much of a package's program is live at once, for its buckets.
//
// Units: bytes; sizes in elements. Threads: any; pure.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "coppice/runtime/manifest.h"

namespace coppice {

struct BucketMemory {
  std::string sizes;  // "batch 64, n 1024".
  // The most bytes of temporaries and outputs that live at one step; nothing: arithmetic faults.
  std::optional<int64_t> live_bytes_max;
};

// The buckets in which all symbols have their smallest or their largest size, and those of each
// symbol with the others at their largest; a symbol without buckets has its min and max, and one
// without a max its hint. Cost: O(steps) per bucket.
std::vector<BucketMemory> MemoryOfBuckets(const package::Manifest& manifest,
                                          const package::Program& program);

}  // namespace coppice
