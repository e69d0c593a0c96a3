// Who is told what warps access.
//
// Units: bytes. Threads: one thread runs a launch.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "runtime/emulator/ptx/code.h"
#include "runtime/emulator/ptx/warp.h"

namespace coppice::ptx {

class ResidentWarp;

// Where the lanes of a warp access. Lanes that do not execute have the address of one that does.
struct Reach {
  alignas(64) LaneWords address;  // As code has it, then the host's.
  Space space = Space::kGeneric;  // Of all lanes; kGeneric: of several.
  bool contiguous = false;        // All execute, and lane i follows lane i - 1.

  std::byte* at(int lane) const {
    return reinterpret_cast<std::byte*>(address[static_cast<size_t>(lane)]);
  }
};

class AccessObserver {
 public:
  // A lane is about to read, write or update host bytes of any space.
  virtual void Note(
      ResidentWarp& warp, std::byte* host, int64_t bytes, AccessKind kind, int lane) = 0;
  // The lanes that execute read `bytes` bytes each.
  virtual void Read(ResidentWarp& warp, const Reach& reach, int64_t bytes, bool strong) = 0;
  // They write: does it. `values` has the bytes of lane i at i * bytes.
  virtual void Write(ResidentWarp& warp,
                     const Reach& reach,
                     int64_t bytes,
                     const std::byte* values,
                     bool strong) = 0;
  // Copies of these lanes to shared memory, of `bytes` bytes each, begin or have landed.
  virtual void Copy(ResidentWarp& warp,
                    uint32_t lanes,
                    const LaneWords& hosts,
                    int64_t bytes,
                    AccessKind kind) = 0;
  // The async proxy reads shared memory for these lanes, `bytes` bytes each.
  virtual void ReadByProxy(ResidentWarp& warp,
                           uint32_t lanes,
                           const LaneWords& hosts,
                           int64_t bytes) = 0;
  // What a bulk copy brought to shared memory, the async proxy has written.
  virtual void LandByProxy(ResidentWarp& warp, const std::byte* host, int64_t bytes) = 0;
  // The warp orders what it has done, and what it knows of, before what the async proxy does later.
  virtual void FenceProxy(ResidentWarp& warp) = 0;
  // Lanes of the warp have waited for each other.
  virtual void MeetInWarp(ResidentWarp& warp) = 0;

 protected:
  ~AccessObserver() = default;
};

}  // namespace coppice::ptx
