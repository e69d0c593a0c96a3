// Handlers of forms that compute each lane by itself.
//
//   Lanes<uint32_t, uint32_t, uint32_t>::Run<Add>    d = Add(a, b) on lanes of 32 bits
//
// All lanes are computed, and those that execute are kept, so that the loops become vector code: an
// operation must be harmless on any values.
//
// Threads: as Warp.

#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "runtime/emulator/ptx/warp.h"

namespace coppice::ptx {

// A sum of what lanes saw somewhere, which tells whether they see the same again.
class LaneSum {
 public:
  explicit LaneSum(uint32_t lanes) : sum_(lanes) {}
  template <typename T>
  void Add(uint64_t place, const T& value) {
    std::array<uint64_t, (sizeof(T) + 7) / 8> words = {};
    std::memcpy(words.data(), &value, sizeof(value));
    for (const uint64_t word : words)
      sum_ = (std::rotl(sum_, 29) ^ place ^ std::rotl(word, 17)) * 0x9e3779b97f4a7c15;
  }
  uint64_t sum() const { return sum_; }

 private:
  uint64_t sum_;
};

// Bit i of a mask, by i.
inline constexpr std::array<uint32_t, kLanes> kLaneBits = [] {
  std::array<uint32_t, kLanes> bits{};
  for (int lane = 0; lane < kLanes; ++lane)
    bits[static_cast<size_t>(lane)] = uint32_t{1} << lane;
  return bits;
}();

// Calls `compute(lane)` for every lane, and keeps in `d` what those that execute give.
template <typename D, typename Compute>
[[gnu::always_inline]] inline void KeepLanes(uint32_t mask, D* d, const Compute& compute) {
  if (mask == kAllLanes) {
#pragma GCC ivdep
    for (int lane = 0; lane < kLanes; ++lane)
      d[lane] = compute(lane);
    return;
  }
#pragma GCC ivdep
  for (int lane = 0; lane < kLanes; ++lane) {
    const D value = compute(lane);
    d[lane] = (mask & kLaneBits[static_cast<size_t>(lane)]) != 0 ? value : d[lane];
  }
}

// Op::Of(S...) gives a D, or a bool where D is a predicate (bool).
template <typename D, typename... S>
struct LaneForm;

template <typename D, typename A>
struct LaneForm<D, A> {
  template <typename Op>
  static Step Run(Warp& warp, const Instr& instr) {
    const A* a = warp.From<A>(instr.a);
    KeepLanes(warp.mask(), warp.To<D>(instr.d), [&](int i) { return Op::Of(a[i]); });
    return Step::kNext;
  }
};

template <typename D, typename A, typename B>
struct LaneForm<D, A, B> {
  template <typename Op>
  static Step Run(Warp& warp, const Instr& instr) {
    const A* a = warp.From<A>(instr.a);
    const B* b = warp.From<B>(instr.b);
    KeepLanes(warp.mask(), warp.To<D>(instr.d), [&](int i) { return Op::Of(a[i], b[i]); });
    return Step::kNext;
  }
};

template <typename D, typename A, typename B, typename C>
struct LaneForm<D, A, B, C> {
  template <typename Op>
  static Step Run(Warp& warp, const Instr& instr) {
    const A* a = warp.From<A>(instr.a);
    const B* b = warp.From<B>(instr.b);
    const C* c = warp.From<C>(instr.c);
    KeepLanes(warp.mask(), warp.To<D>(instr.d), [&](int i) { return Op::Of(a[i], b[i], c[i]); });
    return Step::kNext;
  }
};

// d, a predicate, is where Op::Of(a, b) holds.
template <typename A, typename B = A>
struct TestForm {
  template <typename Op>
  static uint32_t Bits(Warp& warp, const Instr& instr) {
    const A* a = warp.From<A>(instr.a);
    const B* b = warp.From<B>(instr.b);
    uint32_t bits = 0;
    for (int lane = 0; lane < kLanes; ++lane)
      bits |= static_cast<uint32_t>(Op::Of(a[lane], b[lane])) << lane;
    return bits;
  }
  template <typename Op>
  static Step Run(Warp& warp, const Instr& instr) {
    warp.SetPredicate(instr.d, Bits<Op>(warp, instr));
    return Step::kNext;
  }
};

}  // namespace coppice::ptx
