// Special registers: the area kSpecial, as the executor fills it and the decoder finds it.
//
// Clocks are no slots but instructions: "mov.clock",
// "mov.clock_hi", "mov.clock64", "mov.globaltimer", "mov.globaltimer_lo", "mov.globaltimer_hi".
//
// Threads: plain values; pure functions.

#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "runtime/emulator/ptx/code.h"

namespace coppice::ptx {

struct alignas(64) SpecialRegisters {
  using Lanes = std::array<uint32_t, kLanes>;
  using WideLanes = std::array<uint64_t, kLanes>;
  static constexpr int kDimensions = 3;  // x, y, z
  static constexpr int kEnvironmentRegisters = 32;

  // Not of PTX: the address of the thread's memory for the current call, as code sees it. Adding
  // the place of a .local or .param variable gives the variable's address in its state space. What
  // .param addresses say besides is a kernel's parameter, by its offset in the bank: executors tell
  // both by the value.
  WideLanes thread_memory;
  Lanes thread_memory_low;  // Its low half: compilers keep addresses of .local in 32 bits.

  Lanes tid[kDimensions];
  Lanes laneid;
  Lanes lanemask_eq;
  Lanes lanemask_le;
  Lanes lanemask_lt;
  Lanes lanemask_ge;
  Lanes lanemask_gt;

  // Of the warp, the block or the grid: the same in all lanes.
  Lanes warpid;
  Lanes nwarpid;
  Lanes ntid[kDimensions];
  Lanes ctaid[kDimensions];
  Lanes nctaid[kDimensions];
  Lanes clusterid[kDimensions];
  Lanes nclusterid[kDimensions];
  Lanes cluster_ctaid[kDimensions];
  Lanes cluster_nctaid[kDimensions];
  Lanes cluster_ctarank;
  Lanes cluster_nctarank;
  uint32_t is_explicit_cluster;
  Lanes smid;
  Lanes nsmid;
  Lanes total_smem_size;    // Static and dynamic bytes of the block.
  Lanes dynamic_smem_size;  // Dynamic bytes.
  Lanes envreg[kEnvironmentRegisters];
  WideLanes gridid;

  WideLanes wide_zero;  // Of what is absent.
};

// Where a special register lies; `bytes` of a lane, 0: a predicate.
struct SpecialSlot {
  Slot slot;
  int bytes = 0;
};

// Nothing: no special register of this name, or one that is not executed. `component`: 0 if none.
std::optional<SpecialSlot> FindSpecial(std::string_view name, char component);

// The form that reads a clock, "mov.clock64" of "%clock64"; null: `name` is none.
const char* FindClockForm(std::string_view name);

}  // namespace coppice::ptx
