// A model of a caching allocator for device memory, such as PyTorch's with its default settings:
// what a pool of graphs reserves whose blocks are handed out in the order of requests.
//
// A request is rounded up to 512 bytes and takes the smallest free block that fits, at the lowest
// address of several. Requests of up to 1 MiB come from segments of 2 MiB, those below 10 MiB from
// segments of 20 MiB, larger ones from a segment of their own size rounded up to 2 MiB. What a
// block has too much becomes a free block if it is at least 512 bytes in a segment for small
// requests, or more than 1 MiB in another. Free neighbours in a segment become one block. Segments
// are never given back, because a graph may use them. Small and large requests share no segment.
//
// Units: bytes; addresses count from 0 and never repeat. Threads: one at a time.

#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <utility>

#include "coppice/allocator/plan.h"

namespace coppice {

class CachingAllocator {
 public:
  // Returns the address of a block. Requires: bytes >= 1 (checked).
  int64_t Allocate(int64_t bytes);

  // Requires: `address` is allocated (checked).
  void Free(int64_t address);

  int64_t reserved_bytes() const { return reserved_bytes_; }  // All segments; never shrinks.

 private:
  struct Block {
    int64_t bytes = 0;
    int64_t segment = 0;  // Address of the segment's first block.
    bool small = false;   // Of a segment for small requests.
    bool free = false;
  };
  using Blocks = std::map<int64_t, Block>;  // By address.

  Blocks::iterator Grow(int64_t bytes, bool small);
  void Release(Blocks::iterator block);

  Blocks blocks_;
  std::array<std::set<std::pair<int64_t, int64_t>>, 2> free_;  // (bytes, address), large and small.
  int64_t reserved_bytes_ = 0;
};

// Makes the requests and releases of one program in the order of its steps; a release at a step
// comes before a request. Nothing stays allocated. Requires: well-formed buffers.
void RunProgram(std::span<const Buffer> buffers, CachingAllocator& allocator);

}  // namespace coppice
