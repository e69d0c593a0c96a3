// Rows of a family, whose operands follow from the functions that compute them.
//
//   template <typename T>
//   T Add(T a, T b);
//   table.Each<Add<uint32_t>>("add.u32");    {"add.u32", "Www", EachLane<Add<uint32_t>>::Run}
//
// Such a function takes and gives the values of one lane: integers and floats of the width of their
// registers, bool for a predicate. All lanes are computed, and those that execute are kept, so that
// the loops become vector code: a function must be harmless on any values.
//
// Threads: a table is built by one, and constant then.

#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "runtime/emulator/ptx/form.h"
#include "runtime/emulator/ptx/lanes.h"
#include "runtime/emulator/ptx/warp.h"

namespace coppice::ptx {

// The lanes of a slot that is read.
template <typename T>
class Source {
 public:
  Source(const Warp& warp, const Instr&, Slot slot) : lanes_(warp.From<T>(slot)) {}
  [[gnu::always_inline]] T operator[](int lane) const { return lanes_[lane]; }

 private:
  const T* lanes_;
};
template <>
class Source<bool> {
 public:
  Source(const Warp& warp, const Instr& instr, Slot slot)
      : bits_(warp.Predicate(slot) ^ ((instr.flags & Instr::kNegated) != 0 ? kAllLanes : 0)) {}
  [[gnu::always_inline]] bool operator[](int lane) const {
    return (bits_ & kLaneBits[static_cast<size_t>(lane)]) != 0;
  }

 private:
  uint32_t bits_;
};

// Slot i of what an instruction reads behind the slot d.
template <size_t i>
Slot SourceSlot(const Warp& warp, const Instr& instr) {
  if constexpr (i == 0) return instr.a;
  if constexpr (i == 1) return instr.b;
  if constexpr (i == 2) return instr.c;
  if constexpr (i > 2) return warp.More(instr, static_cast<uint32_t>(i) - 3);
}

// The lanes for which `test` holds.
template <typename Test>
[[gnu::always_inline]] inline uint32_t LanesThat(const Test& test) {
  uint32_t bits = 0;
  for (int lane = 0; lane < kLanes; ++lane)
    bits |= test(lane) ? kLaneBits[static_cast<size_t>(lane)] : 0;
  return bits;
}

template <auto of>
struct EachLane;

template <typename D, typename... S, D (*of)(S...)>
struct EachLane<of> {
  static Step Run(Warp& warp, const Instr& instr) {
    Read(warp, instr, std::index_sequence_for<S...>());
    return Step::kNext;
  }

  static std::string Operands() {
    std::string letters = {Letter<D>(true)};
    (letters.push_back(Letter<S>(false)), ...);
    return letters;
  }

 private:
  template <size_t... i>
  [[gnu::always_inline]] static void Read(Warp& warp,
                                          const Instr& instr,
                                          std::index_sequence<i...>) {
    Compute(warp, instr.d, Source<S>(warp, instr, SourceSlot<i>(warp, instr))...);
  }

  [[gnu::always_inline]] static void Compute(Warp& warp, Slot d, Source<S>... from) {
    const auto compute = [=](int lane) __attribute__((always_inline)) {
      return of(from[lane]...);
    };
    if constexpr (std::is_same_v<D, bool>) {
      warp.SetPredicate(d, LanesThat(compute));
    } else {
      KeepLanes(warp.mask(), warp.To<D>(d), compute);
    }
  }

  template <typename T>
  static char Letter(bool written) {
    const char letter = std::is_same_v<T, bool> ? 'p'
                        : sizeof(T) == 2        ? 'h'
                        : sizeof(T) == 4        ? 'w'
                                                : 'd';
    return static_cast<char>(written ? letter - 'a' + 'A' : letter);
  }
};

class FormTable {
 public:
  template <auto of>
  void Each(std::string name) {
    Add(std::move(name), EachLane<of>::Operands(), EachLane<of>::Run);
  }

  // A row as form.h describes it.
  void Add(std::string name, std::string operands, Handler handler, uint8_t flags = 0) {
    rows_.push_back({.name = Keep(std::move(name)),
                     .operands = Keep(std::move(operands)),
                     .handler = handler,
                     .flags = flags});
  }
  // A row without letters.
  void Decoded(std::string name, DecodeHook decode, uint8_t flags = 0) {
    rows_.push_back({.name = Keep(std::move(name)), .decode = decode, .flags = flags});
  }
  // The same, if the hook does not choose the handler.
  void Decoded(std::string name, DecodeHook decode, Handler handler, uint8_t flags = 0) {
    Decoded(std::move(name), decode, flags);
    rows_.back().handler = handler;
  }

  std::span<const Form> rows() const { return rows_; }

 private:
  const char* Keep(std::string text) { return texts_.emplace_back(std::move(text)).c_str(); }

  std::deque<std::string> texts_;  // What rows point to.
  std::vector<Form> rows_;
};

}  // namespace coppice::ptx
