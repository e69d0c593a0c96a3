// Frames: the calls that lanes of a warp are in.
//
// Lanes of one frame may part and join again. A frame is kept until the last of them has returned
// or exited.
//
// Units: bytes. Threads: one thread runs a launch.

#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "runtime/emulator/ptx/code.h"

namespace coppice::ptx {

struct Frame {
  const Code* code = nullptr;
  Frame* caller = nullptr;         // Null: the kernel's.
  const CallSite* site = nullptr;  // In the caller.
  uint32_t return_pc = 0;          // In the caller.
  uint32_t lanes = 0;              // In it, or in a call that it made.
  int depth = 0;
  int64_t memory = 0;              // Where its part of each lane's thread memory begins.
  std::byte* registers = nullptr;  // Of 64-byte alignment.
};

// Frames that are taken and returned many times, so that calls and blocks allocate nothing.
class FramePool {
 public:
  // A frame for calls of `code`; what is in its registers is of no meaning.
  Frame* Take(const Code& code);
  void Return(Frame* frame) { free_.push_back(static_cast<Owned*>(frame)); }
  // Of the registers of all frames there have been.
  size_t bytes() const { return bytes_; }

 private:
  struct alignas(64) Line {
    std::byte bytes[64];
  };
  struct Owned : Frame {
    std::vector<Line> lines;
  };

  std::deque<Owned> frames_;
  std::vector<Owned*> free_;
  size_t bytes_ = 0;
};

}  // namespace coppice::ptx
