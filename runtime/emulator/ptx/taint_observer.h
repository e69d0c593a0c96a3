// Who follows padding through what warps execute.
//
// Threads: one thread runs a launch.

#pragma once

#include <cstddef>
#include <span>

#include "runtime/emulator/ptx/code.h"
#include "runtime/emulator/ptx/frame.h"

namespace coppice::ptx {

class ResidentWarp;

class TaintObserver {
 public:
  // The warp begins with another block.
  virtual void Start(const ResidentWarp& warp) = 0;
  // A call begins: nothing is in its registers.
  virtual void Start(const Frame& frame) = 0;
  // Host bytes are made anew, or get what others hold.
  virtual void Clear(std::span<const std::byte> host) = 0;
  virtual void Copy(const std::byte* from, const std::byte* to, size_t bytes) = 0;
  // Executes an instruction for the lanes of warp.mask(); the guard keeps the other active lanes
  // out.
  virtual Step Execute(ResidentWarp& warp, const Instr& instr) = 0;
  // The guard keeps all active lanes out.
  virtual void Skip(ResidentWarp& warp, const Instr& instr) = 0;

 protected:
  ~TaintObserver() = default;
};

}  // namespace coppice::ptx
