// What a launch has written to global memory, to undo it and to compare it with what another wrote.
//
// Addresses are those of the host, so memory is read and written where it is.
//
// Units: bytes. Threads: one thread runs a launch.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>

namespace coppice::ptx {

class LaunchWrites {
 public:
  static constexpr uint64_t kPageBytes = 4096;

  using Bits = std::array<uint64_t, kPageBytes / 64>;  // One per byte.
  using Bytes = std::array<std::byte, kPageBytes>;

  // Of the page at `address`: which bytes are written, and what these were before.
  void Add(uint64_t address, const Bits& written, const Bytes& before);
  // Memory gets what this has of the bytes that are written, and this gets what memory had.
  void Exchange();
  // Whether both have the same bytes, with the same values.
  bool operator==(const LaunchWrites&) const;

 private:
  struct Page {
    Bits written;
    Bytes bytes;

    bool operator==(const Page&) const;
  };

  std::map<uint64_t, Page> pages_;  // By address.
};

}  // namespace coppice::ptx
