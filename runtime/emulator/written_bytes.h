// Which bytes of physical memory something has written.
//
// Units: bytes, by their offset in device memory, which fresh memory shares with none before.
// Threads: guarded by their owner.

#pragma once

#include <cstdint>
#include <map>

namespace coppice::emulator {

class WrittenBytes {
 public:
  void Add(uint64_t begin, uint64_t end);
  // Whether all of [begin, end) is written.
  bool Covers(uint64_t begin, uint64_t end) const;

 private:
  std::map<uint64_t, uint64_t> ranges_;  // Begin to end; disjoint, and not even touching.
};

}  // namespace coppice::emulator
