// Addresses of state spaces and generic ones, and hints about them.

#include <array>
#include <cstdint>
#include <span>

#include "runtime/emulator/ptx/form.h"
#include "runtime/emulator/ptx/forms/access.h"
#include "runtime/emulator/ptx/lanes.h"
#include "runtime/emulator/ptx/memory.h"

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

Step DoNothing(Warp&, const Instr&) {
  return Step::kNext;
}

bool DecodeHint(FunctionDecoder&, const Instruction&, Instr&) {
  return true;
}

constexpr Form kAddressRows[] = {
    {"cvta.global.u64", "Dd", kMove<ToGeneric, 0>},
    {"cvta.const.u64", "Dd", kMove<ToGeneric, 0>},
    {"cvta.local.u64", "Dd", kMove<ToGeneric, kThreadWindow>},
    {"cvta.shared.u64", "Dd", kMove<ToGeneric, kSharedWindow>},
    {"cvta.shared::cluster.u64", "Dd", kMove<ToGeneric, kSharedWindow>},
    {"cvta.param.u64", "Dd", kMove<ToGeneric, kBankWindow>},
    {"cvta.to.global.u64", "Dd", kMove<FromGeneric, 0>},
    {"cvta.to.const.u64", "Dd", kMove<FromGeneric, 0>},
    {"cvta.to.local.u64", "Dd", kMove<FromGeneric, 0>},
    {"cvta.to.shared.u64", "Dd", kMove<FromGeneric, kSharedWindow>},
    {"cvta.to.shared::cluster.u64", "Dd", kMove<FromGeneric, kSharedWindow>},
    {"cvta.to.param.u64", "Dd", kMove<FromGeneric, kBankWindow>},
    {"isspacep.global", "Pd", TestWindow<0>},
    {"isspacep.local", "Pd", TestWindow<kThreadWindow>},
    {"isspacep.shared", "Pd", TestWindow<kSharedWindow>},
    {"isspacep.shared::cluster", "Pd", TestWindow<kSharedWindow>},
    {"isspacep.param", "Pd", TestWindow<kBankWindow>},
    {"prefetch.L1", "", DoNothing, DecodeHint},
    {"prefetch.L2", "", DoNothing, DecodeHint},
    {"prefetch.global.L1", "", DoNothing, DecodeHint},
    {"prefetch.global.L2", "", DoNothing, DecodeHint},
    {"prefetch.global", "", DoNothing, DecodeHint},
    {"prefetch.local.L1", "", DoNothing, DecodeHint},
    {"prefetch.local.L2", "", DoNothing, DecodeHint},
    {"prefetchu.L1", "", DoNothing, DecodeHint},
};

}  // namespace

std::span<const Form> AddressForms() {
  return kAddressRows;
}

}  // namespace coppice::ptx
