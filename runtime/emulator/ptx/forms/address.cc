// Addresses of state spaces and generic ones, and hints about them.

#include <array>
#include <bit>
#include <cstdint>
#include <span>

#include "fmt/format.h"

#include "runtime/emulator/ptx/form.h"
#include "runtime/emulator/ptx/forms/access.h"
#include "runtime/emulator/ptx/forms/operands.h"
#include "runtime/emulator/ptx/lanes.h"
#include "runtime/emulator/ptx/memory.h"
#include "runtime/emulator/ptx/resident_warp.h"
#include "runtime/emulator/ptx/windows.h"

namespace coppice::ptx {
namespace {

// Addresses of global memory are generic ones; those of .local and of a thread's .param too, unless
// they were kept in 32 bits.
template <uint64_t window>
struct ToGeneric {
  static uint64_t Of(uint64_t address) {
    return (address & kWindowMask) == 0 ? address + window : address;
  }
};
template <uint64_t window>
struct FromGeneric {
  static uint64_t Of(uint64_t address) {
    return (address & kWindowMask) == window ? address - window : address;
  }
};
template <uint64_t window>
struct IsIn {
  static bool Of(uint64_t address) { return (address & kWindowMask) == window; }
};

template <template <uint64_t> typename Op, uint64_t window>
constexpr Handler kMove = LaneForm<uint64_t, uint64_t>::Run<Op<window>>;

template <uint64_t window>
Step TestWindow(Warp& warp, const Instr& instr) {
  const uint64_t* const a = warp.From<uint64_t>(instr.a);
  uint32_t bits = 0;
  for (int lane = 0; lane < kLanes; ++lane)
    bits |= static_cast<uint32_t>(IsIn<window>::Of(a[lane])) << lane;
  warp.SetPredicate(instr.d, bits);
  return Step::kNext;
}

// Whether addresses are of the shared memory of the warp's own block.
Step TestOwnShared(Warp& on, const Instr& instr) {
  ResidentWarp& warp = static_cast<ResidentWarp&>(on);
  const uint64_t* const a = warp.From<uint64_t>(instr.a);
  uint32_t bits = 0;
  for (int lane = 0; lane < kLanes; ++lane) {
    const uint64_t rank = (a[lane] & ~kWindowMask) >> kRankShift;
    const bool own =
        (a[lane] & kWindowMask) == kSharedWindow && (rank == 0 || rank == warp.block().rank + 1);
    bits |= static_cast<uint32_t>(own) << lane;
  }
  warp.SetPredicate(instr.d, bits);
  return Step::kNext;
}

// d, a, rank: the address of block `rank` of the cluster that corresponds to one of this block.
template <typename T, uint64_t window>
Step MapToBlock(Warp& on, const Instr& instr) {
  ResidentWarp& warp = static_cast<ResidentWarp&>(on);
  const T* const a = warp.From<T>(instr.a);
  const uint32_t* const ranks = warp.From<uint32_t>(instr.b);
  T* const d = warp.To<T>(instr.d);
  const size_t blocks = warp.block().cluster->members.size();
  for (uint32_t lanes = warp.mask(); lanes != 0; lanes &= lanes - 1) {
    const int lane = std::countr_zero(lanes);
    if (ranks[lane] >= blocks) {
      warp.Fault(
          Finding::Kind::kIllegalInstruction, lane,
          fmt::format("asks for an address in the block of rank {}, but the cluster size is {}",
                      ranks[lane], blocks));
      return Step::kStop;
    }
    d[lane] = static_cast<T>(RankedAddress(a[lane], ranks[lane]) | window);
  }
  return Step::kNext;
}

template <typename T>
Step RankOfAddress(Warp& on, const Instr& instr) {
  ResidentWarp& warp = static_cast<ResidentWarp&>(on);
  const T* const a = warp.From<T>(instr.a);
  const uint32_t own = warp.block().rank;
  KeepLanes(warp.mask(), warp.To<uint32_t>(instr.d), [a, own](int lane) {
    const uint64_t rank = a[lane] >> kRankShift & 0xff;
    return rank == 0 ? own : static_cast<uint32_t>(rank - 1);
  });
  return Step::kNext;
}

constexpr Form kAddressRows[] = {
    {"cvta.global.u64", "Dd", kMove<ToGeneric, 0>},
    {"cvta.const.u64", "Dd", kMove<ToGeneric, 0>},
    {"cvta.local.u64", "Dd", kMove<ToGeneric, kThreadWindow>},
    {"cvta.shared.u64", "Dd", kMove<ToGeneric, kSharedWindow>},
    {"cvta.param.u64", "Dd", kMove<ToGeneric, kBankWindow>},
    {"cvta.to.global.u64", "Dd", kMove<FromGeneric, 0>},
    {"cvta.to.const.u64", "Dd", kMove<FromGeneric, 0>},
    {"cvta.to.local.u64", "Dd", kMove<FromGeneric, 0>},
    {"cvta.to.shared.u64", "Dd", kMove<FromGeneric, kSharedWindow>},
    {"cvta.to.param.u64", "Dd", kMove<FromGeneric, kBankWindow>},
    {"isspacep.global", "Pd", TestWindow<0>},
    {"isspacep.local", "Pd", TestWindow<kThreadWindow>},
    {"isspacep.shared", "Pd", TestOwnShared},
    {"isspacep.shared::cta", "Pd", TestOwnShared},
    {"isspacep.shared::cluster", "Pd", TestWindow<kSharedWindow>},
    {"isspacep.param", "Pd", TestWindow<kBankWindow>},
    {"mapa.u64", "Ddw", MapToBlock<uint64_t, kSharedWindow>},
    {"mapa.shared.u32", "Www", MapToBlock<uint32_t, 0>},
    {"mapa.shared.u64", "Ddw", MapToBlock<uint64_t, 0>},
    {"getctarank.u64", "Wd", RankOfAddress<uint64_t>},
    {"getctarank.shared.u32", "Ww", RankOfAddress<uint32_t>},
    {"getctarank.shared.u64", "Wd", RankOfAddress<uint64_t>},
    {"prefetch.L1", "", RunNothing, DecodeAnything},
    {"prefetch.L2", "", RunNothing, DecodeAnything},
    {"prefetch.global.L1", "", RunNothing, DecodeAnything},
    {"prefetch.global.L2", "", RunNothing, DecodeAnything},
    {"prefetch.global", "", RunNothing, DecodeAnything},
    {"prefetch.local.L1", "", RunNothing, DecodeAnything},
    {"prefetch.local.L2", "", RunNothing, DecodeAnything},
    {"prefetchu.L1", "", RunNothing, DecodeAnything},
};

}  // namespace

std::span<const Form> AddressForms() {
  return kAddressRows;
}

}  // namespace coppice::ptx
