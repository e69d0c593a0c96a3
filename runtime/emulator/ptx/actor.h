// The warp, and the lane, whose access is checked.
//
// Threads: one thread runs a launch.

#pragma once

#include <cstdint>

#include "runtime/emulator/ptx/code.h"
#include "runtime/emulator/ptx/findings.h"
#include "runtime/emulator/ptx/order.h"
#include "runtime/emulator/ptx/resident_warp.h"
#include "runtime/emulator/ptx/shadow.h"

namespace coppice::ptx {

struct Actor {
  ResidentWarp& warp;
  BlockShadow& shadow;
  uint64_t block = 0;  // Its index.
  uint32_t index = 0;  // Of the warp.
  uint32_t now = 0;    // In the time of the block.
  const Code& code;    // What it executes.
  const Instr& instr;
  bool together = false;  // With all lanes of its warp.
  int lane = 0;

  uint32_t thread() const { return index * kLanes + static_cast<uint32_t>(lane); }
  // Of an access to shared memory, where lanes that nothing synchronises race.
  Stamp stamp() const { return {now, thread()}; }
  // Of one to global memory.
  Visitor visitor() const {
    return {block, Stamp(now, thread() | (together ? Stamp::kTogether : 0))};
  }
  Whereabouts where() const { return warp.WhereIs(lane, code, instr); }
};

}  // namespace coppice::ptx
