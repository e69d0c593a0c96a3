// Where padding reaches: what Emulator::FollowPadding follows through compiled kernels.
//
//   emulator->FollowPadding();
//   emulator->MarkInput(x, 4 * n, 0, /*padding=*/false);             n live elements of input 0,
//   ... emulator->MarkInput(x + 4 * n, 4 * (m - n), 0, /*padding=*/true);           ... padded to m
//   (run kernels, and wait for them)
//   emulator->FindPadding(y, 4 * n)                 whether padding reached a live element of y
//
// Each value that a kernel computes depends on its operands, lane by lane and for every 16 bits. A
// select depends on what it chooses, an AND on no bits that it clears, a product of integers on
// nothing but a factor of 0. A guard or branch that depends on padding passes it on, to what its
// other way would have written, too. What a lane loads depends on the address. Two bytes of one
// 16-bit part are not told apart.
//
// If Emulator::PaddingGaps lists nothing, a value that no padding reaches is the same whatever the
// padding is, unless it depends on the order of threads. A value that padding reaches may still be
// the same, for example a sum with padding of zeros. Sizes and scalars are no data: they depend on
// nothing.
//
// Units: bytes. Threads: plain values.

#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace coppice {

struct PaddingReach {
  int64_t byte = 0;         // The first byte that padding reached, of those that were asked for.
  std::vector<int> inputs;  // Whose padding. 6 stands for input 6 and all later ones.
  // The instruction that first computed one value from padding and from elements that are not
  // padding. If none did, the one that stored the padding. Block and thread are the first of the
  // launch that did so, maybe for another byte.
  std::string kernel;  // Empty: no instruction stored it; a copy did.
  std::array<unsigned, 3> block = {};
  std::array<unsigned, 3> thread = {};
  int line = 0;         // Of the PTX.
  std::string source;   // "file.py:12", if the PTX says so.
  std::string program;  // As KernelFinding has it.
  int step = -1;
};

}  // namespace coppice
