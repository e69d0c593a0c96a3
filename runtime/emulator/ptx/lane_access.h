// Accesses of all lanes to memory, as vector code.
//
// Functions are there once per instruction set of the host, as those of forms/families.h. They work
// on 32 bytes at a time also because handlers that follow load as much: a load waits long for
// smaller stores to the same bytes.
//
// Units: bytes. Threads: pure functions.

#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/emulator/ptx/warp.h"

namespace coppice::ptx {

struct LaneAccess {
  // Where addresses shall be, and where they are moved to.
  struct Window {
    uint64_t begin = 0;
    uint64_t limit = 0;   // The last offset at which an access may begin.
    uint64_t moved = 0;   // Added to the address of lane i ...
    uint64_t stride = 0;  // ... with i times this.
  };

  // to[i] = base[i] + offset.
  void (*add_wide)(const uint64_t* base, uint64_t offset, LaneWords& to);
  void (*add_narrow)(const uint32_t* base, uint64_t offset, LaneWords& to);
  // Lanes that are not in `mask` get `other`.
  void (*keep)(LaneWords& addresses, uint32_t mask, uint64_t other);
  // Moves addresses that are in the window, multiples of `bytes`, a power of two. Returns false,
  // having done nothing, if one is not. `in_row`: whether each is `bytes` behind that before.
  bool (*move)(LaneWords& addresses, const Window& window, uint64_t bytes, bool& in_row);
  // What is at the addresses of the host: 32 values, of any alignment.
  void (*gather32)(const LaneWords& hosts, uint32_t* to);
  void (*gather64)(const LaneWords& hosts, uint64_t* to);
  // Copies a multiple of 32 bytes.
  void (*copy)(const std::byte* from, std::byte* to, size_t bytes);
};

namespace baseline {
const LaneAccess& LaneAccessFunctions();
}
#if defined(__x86_64__)
namespace avx2 {
const LaneAccess& LaneAccessFunctions();
}
#else
namespace avx2 = baseline;
#endif

// Those of the host's instruction set.
const LaneAccess& HostLaneAccess();

}  // namespace coppice::ptx
