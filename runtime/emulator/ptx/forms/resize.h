// Operands of cvt: a register may be wider than the type that it is read or written as.
//
// A wider source gives its low bits; a wider destination gets the value extended as its type is
// signed. Rows of 8 bits always are of this kind, as there are no registers of 8 bits here.
//
// Threads: as decoder.h.

#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "runtime/emulator/ptx/decoder.h"
#include "runtime/emulator/ptx/forms/rounding.h"
#include "runtime/emulator/ptx/forms/table.h"

namespace coppice::ptx {

// The flags of such an instruction: the rounding mode, and the bytes of its registers.
struct Resizing {
  static constexpr int kToShift = 2;
  static constexpr int kFromShift = 4;

  static constexpr unsigned Code(int bytes) { return bytes == 2 ? 1 : bytes == 4 ? 2 : 3; }
  static constexpr unsigned To(const Instr& instr) { return instr.flags >> kToShift & 3; }
  static constexpr unsigned From(const Instr& instr) { return instr.flags >> kFromShift & 3; }
  static constexpr Rounding Mode(const Instr& instr) {
    return static_cast<Rounding>(instr.flags & 3);
  }
};

template <typename T>
using Values = std::array<T, kLanes>;

template <typename T, typename Register>
void Shrink(const Register* from, Values<T>& values) {
  for (size_t i = 0; i < kLanes; ++i)
    values[i] = static_cast<T>(from[i]);
}

// The lanes of a register of 2, 4 or 8 bytes as values of a type that is not wider.
template <typename T>
[[gnu::noinline]] void ReadResized(const Warp& warp, Slot slot, unsigned width, Values<T>& values) {
  if constexpr (std::is_floating_point_v<T>) {
    std::copy_n(warp.From<T>(slot), kLanes, values.begin());
  } else {
    if (width == Resizing::Code(2)) Shrink(warp.From<uint16_t>(slot), values);
    if (width == Resizing::Code(4)) Shrink(warp.From<uint32_t>(slot), values);
    if (width == Resizing::Code(8)) Shrink(warp.From<uint64_t>(slot), values);
  }
}

template <typename T, typename Register>
void Extend(Warp& warp, Slot slot, const Values<T>& values) {
  KeepLanes(warp.mask(), warp.To<Register>(slot),
            [&](int i) { return static_cast<Register>(values[static_cast<size_t>(i)]); });
}

template <typename T>
[[gnu::noinline]] void WriteResized(Warp& warp,
                                    Slot slot,
                                    unsigned width,
                                    const Values<T>& values) {
  if constexpr (std::is_floating_point_v<T>) {
    Extend<T, T>(warp, slot, values);
  } else {
    if (width == Resizing::Code(2)) Extend<T, uint16_t>(warp, slot, values);
    if (width == Resizing::Code(4)) Extend<T, uint32_t>(warp, slot, values);
    if (width == Resizing::Code(8)) Extend<T, uint64_t>(warp, slot, values);
  }
}

// Rows that round in some mode have another handler; others do not compile it.
template <auto of, bool rounds>
struct Resized;

template <typename D, typename S, D (*of)(S), bool rounds>
struct Resized<of, rounds> {
  static Step Run(Warp& warp, const Instr& instr) {
    Values<S> from;
    Values<D> to;
    ReadResized(warp, instr.a, Resizing::From(instr), from);
    {
      const RoundingScope scope(rounds ? Resizing::Mode(instr) : Rounding::kNearest);
      for (size_t i = 0; i < kLanes; ++i)
        to[i] = of(from[i]);
    }
    WriteResized(warp, instr.d, Resizing::To(instr), to);
    return Step::kNext;
  }

  static bool Decode(FunctionDecoder& decoder, const Instruction& from, Instr& to) {
    if (from.operands.size() != 2) return decoder.Fail("cvt takes two operands");
    const int written = Bytes<D>(decoder, from.operands[0]);
    const int read = Bytes<S>(decoder, from.operands[1]);
    if (written < static_cast<int>(sizeof(D)) || read < static_cast<int>(sizeof(S)))
      return decoder.Fail("a register is narrower than the type that cvt gives it");
    const std::optional<Slot> d = decoder.Write(from.operands[0], written);
    const std::optional<Slot> a = decoder.Read(from.operands[1], read);
    if (!d.has_value() || !a.has_value()) return false;
    to.d = *d;
    to.a = *a;
    to.flags = static_cast<uint8_t>(to.flags | Resizing::Code(written) << Resizing::kToShift |
                                    Resizing::Code(read) << Resizing::kFromShift);
    to.handler = Run;
    if constexpr (sizeof(D) > 1 && sizeof(S) > 1) {
      // As wide as the types: without a detour.
      if (written == sizeof(D) && read == sizeof(S)) to.handler = EachLane<of>::Run;
      if constexpr (rounds) {
        if (to.handler == EachLane<of>::Run && Resizing::Mode(to) != Rounding::kNearest)
          to.handler = InMode<of>;
      }
    }
    return true;
  }

 private:
  template <typename T>
  static int Bytes(FunctionDecoder& decoder, const Operand& operand) {
    const int width = decoder.WidthOf(operand);
    return width > 0 ? width : std::max(2, static_cast<int>(sizeof(T)));
  }
};

// A row whose operands are decoded so.
template <auto of>
void AddResized(FormTable& table, std::string name) {
  table.Decoded(std::move(name), Resized<of, false>::Decode);
}
template <auto of>
void AddResized(FormTable& table, std::string name, Rounding rounding) {
  table.Decoded(std::move(name), Resized<of, true>::Decode, static_cast<uint8_t>(rounding));
}

}  // namespace coppice::ptx
