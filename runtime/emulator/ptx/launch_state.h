// What the parts of a launch share while it runs.
//
// Units: bytes. Threads: one thread runs a launch.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/emulator/ptx/findings.h"
#include "runtime/emulator/ptx/frame.h"
#include "runtime/emulator/ptx/launch.h"
#include "runtime/emulator/ptx/program.h"
#include "runtime/emulator/ptx/taint_observer.h"

namespace coppice::ptx {

// Numbers drawn from a seed.
class Draw {
 public:
  explicit Draw(uint64_t seed) : state_(seed) {}
  // In [0, bound).
  uint64_t Below(uint64_t bound);

 private:
  uint64_t state_;
};

// In which the warps of a block run, until each waits; kInterleaved: a few instructions at a time.
enum class WarpOrder : uint8_t { kDrawn, kAscending, kDescending, kInterleaved };

struct LaunchState {
  LaunchState(const Launch& of, const Environment& in, WarpOrder order);
  LaunchState(const LaunchState&) = delete;
  LaunchState& operator=(const LaunchState&) = delete;

  // Whether host bytes are of the bank or the workspace.
  bool IsOwn(const std::byte* host) const;

  const Launch& launch;
  const Environment& environment;
  const Kernel& kernel;
  const WarpOrder warp_order;
  const int block_threads;
  const std::array<unsigned, 3> cluster;  // In blocks.
  const uint64_t block_count;
  const uint64_t cluster_count;

  // The parameters of the kernel: as many bytes as its bank has, at least.
  std::vector<std::byte> bank;
  // What the driver gives a grid whose blocks meet at barriers.
  alignas(64) std::array<std::byte, 64> workspace = {};

  Counts counts;
  Findings findings;
  Draw draw;
  FramePool frames;
  TaintObserver* taint = nullptr;  // Null: taint is not followed.
};

}  // namespace coppice::ptx
