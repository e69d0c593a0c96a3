// What wgmma.mma_async multiplies, as a warp reads it: rows of A and all of B, out of shared memory
// or registers. Each warp of a warpgroup computes 16 of its 64 rows.
//
// Slots of an instruction: a and b are the descriptors of A and B, c is whether the sums are added
// to; accumulators and registers that A is in follow from Instr::more on.
//
// Threads: as Warp.

#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/emulator/ptx/form.h"
#include "runtime/emulator/ptx/forms/table.h"
#include "runtime/emulator/ptx/warp.h"

namespace coppice::ptx {

inline constexpr int kWarpgroupColumnsMax = 256;

// Tiles of 8 rows of 16 bytes, one after the other: of A for 16 rows, the first 16 bytes of the
// upper 8, of the lower 8, then the second; of B for each 8 columns the first and the second.
class WarpgroupOperands {
 public:
  static constexpr int kTileWords = 32;

  // Reads them. False: not yet, or never; the handler returns `step`.
  bool Read(Warp& warp, const Instr& instr, Step& step);
  // Behind the multiplication: they belong to it.
  void Start(Warp& warp);

  const uint32_t* a(int tile) const { return &a_[static_cast<size_t>(tile * kTileWords)]; }
  const uint32_t* b(int tile) const { return &b_[static_cast<size_t>(tile * kTileWords)]; }
  int columns() const { return columns_; }
  bool negated() const { return negated_; }
  bool adds() const { return adds_; }
  const Slot* accumulators() const { return accumulators_.data(); }
  size_t accumulator_count() const { return accumulators_.size(); }

 private:
  bool Gather(Warp& warp, std::span<uint64_t> rows, uint32_t* tiles);

  int columns_ = 0;
  bool negated_ = false;
  bool adds_ = false;
  std::vector<Slot> accumulators_;
  std::vector<Slot> fragments_;
  std::vector<uint64_t> rows_;
  alignas(32) std::array<uint32_t, 4 * kTileWords> a_;
  alignas(32) std::array<uint32_t, kWarpgroupColumnsMax / 4 * kTileWords> b_;
};

// Decodes an instruction whose accumulators are so many registers for 8 columns.
template <int registers>
bool DecodeWarpgroupMultiply(FunctionDecoder& decoder, const Instruction& from, Instr& to);
extern template bool DecodeWarpgroupMultiply<2>(FunctionDecoder&, const Instruction&, Instr&);
extern template bool DecodeWarpgroupMultiply<4>(FunctionDecoder&, const Instruction&, Instr&);

// Instead of an instruction that names registers of products: tells of them, and executes it.
Step RunWatched(Warp& warp, const Instr& instr);

// wgmma.fence, commit_group and wait_group.
void AddWarpgroupForms(FormTable& table);

}  // namespace coppice::ptx
