// The products that wgmma starts, until they are waited for.
//
// A product is computed when it starts. On a device it may be computed at any time until the warp
// waits for its group, so until then these are its own, and who touches them is found:
//
//   accumulators, and registers that A is in    nobody may touch them
//   A and B in shared memory                    nobody may write them
//
// What was touched before is the product's once the warp has executed wgmma.fence, as it must
// before its first. Products that add to the same accumulators, one after the other, need neither.
//
// Nothing is kept of a launch that nobody checks. Threads: as Warp; one of these per block.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/emulator/ptx/code.h"
#include "runtime/emulator/ptx/warp.h"

namespace coppice::ptx {

class WarpgroupProducts {
 public:
  // The registers of a product, and the host's addresses of the rows of 16 bytes that it reads: a
  // multiple of 32 of them.
  void Start(Warp& warp,
             std::span<const Slot> accumulators,
             std::span<const Slot> fragments,
             std::vector<uint64_t> rows);
  // The group of what the warp has started is complete.
  void Commit(Warp& warp);
  // The warp waits for all groups, but the newest `pending`.
  void Wait(Warp& warp, uint32_t pending);
  void Fence(Warp& warp);
  // The warp is about to execute something else that names these registers. A move needs no fence
  // behind it: compilers put those of accumulators wherever they like.
  void Touch(Warp& warp, std::span<const Slot> registers, bool moves);
  void Drop() { queues_.clear(); }

 private:
  // A register of a call: its frame and its place there.
  struct Register {
    const void* frame = nullptr;
    uint32_t offset = 0;
    bool operator==(const Register&) const = default;
  };
  using Registers = std::vector<Register>;
  struct Product {
    const Instr* instr = nullptr;
    Registers accumulators;
    Registers fragments;
    std::vector<uint64_t> rows;
    uint64_t digest = 0;  // Of what was read.
    uint32_t group = 0;
  };
  struct Queue {
    const Warp* warp = nullptr;
    std::vector<Product> products;
    bool fenced = false;  // It has executed a fence.
    Registers touched;    // Since the last.
    uint32_t closed = 0;
  };

  static Registers Of(const Warp& warp, std::span<const Slot> slots);
  static bool Meet(const Registers& some, const Registers& others);
  Queue& QueueOf(const Warp& warp);

  std::vector<Queue> queues_;
};

}  // namespace coppice::ptx
