// atom and red: one thread after the other reads, changes and writes a place in memory.
//
// Lanes go in their order. Device work runs one piece at a time, so that nothing comes between.

#include <bit>
#include <cstring>
#include <string>
#include <type_traits>

#include "runtime/emulator/ptx/form.h"
#include "runtime/emulator/ptx/forms/atomic_operations.h"
#include "runtime/emulator/ptx/forms/operands.h"
#include "runtime/emulator/ptx/forms/table.h"
#include "runtime/emulator/ptx/lanes.h"

namespace coppice::ptx {
namespace {

struct Bits128 {
  uint64_t low = 0;
  uint64_t high = 0;
  bool operator==(const Bits128&) const = default;
};

// Without arithmetic.
struct AtomicExch {
  template <typename T>
  static T Of(T, T b) {
    return b;
  }
};
struct AtomicCas {
  template <typename T>
  static T Of(T old, T compare, T value) {
    return old == compare ? value : old;
  }
};

constexpr uint8_t kReduction = kFormFlag;  // Gives nothing back.

template <typename T, typename Op>
Step Atomic(Warp& warp, const Instr& instr) {
  const Space space = SpaceOf(instr);
  const LaneAddresses addresses(warp, instr);
  const T* const b = warp.From<T>(instr.b);
  const T* const c = warp.From<T>(instr.c);
  T* const d = (instr.flags & kReduction) != 0 ? nullptr : warp.To<T>(instr.d);
  LaneSum given(warp.mask());
  for (uint32_t lanes = warp.mask(); lanes != 0; lanes &= lanes - 1) {
    const int lane = std::countr_zero(lanes);
    std::byte* const memory = warp.At(space, addresses[lane], sizeof(T), AccessKind::kAtomic, lane);
    if (memory == nullptr) return Step::kStop;
    T old;
    std::memcpy(&old, memory, sizeof(T));
    T value;
    if constexpr (std::is_same_v<Op, AtomicCas>)
      value = Op::Of(old, b[lane], c[lane]);
    else
      value = Op::Of(old, b[lane]);
    if constexpr (std::is_same_v<Op, AtomicCas> && sizeof(T) == sizeof(uint32_t))
      if (!warp.MayChange(memory, old ^ value, lane)) return Step::kStop;
    std::memcpy(memory, &value, sizeof(T));
    if (d == nullptr) continue;
    d[lane] = old;
    given.Add(addresses[lane], old);
  }
  return d == nullptr ? Step::kNext : warp.Poll(instr, space, given.sum());
}

template <int bytes, int sources>
bool DecodeAtomic(FunctionDecoder& decoder, const Instruction& from, Instr& to) {
  const bool reduction = (to.flags & kReduction) != 0;
  const bool hint = from.opcode.find("cache_hint") != std::string_view::npos;
  const size_t count = 1 + sources + (reduction ? 0 : 1) + (hint ? 1 : 0);
  OperandReader operands(decoder, from, count, count);
  if (!reduction) to.d = operands.Write(bytes);
  operands.Address(to);
  to.b = operands.Read(bytes);
  if (sources == 2) to.c = operands.Read(bytes);
  return operands.ok();
}

bool DecodeWordSwap(FunctionDecoder& decoder, const Instruction& from, Instr& to) {
  decoder.code().swaps_words = true;
  return DecodeAtomic<sizeof(uint32_t), 2>(decoder, from, to);
}

enum class Reduces : bool { kNo, kYes };

struct AtomicOperation {
  const char* name;
  Handler handler;
  DecodeHook decode;
  Reduces reduces = Reduces::kYes;  // red has it too.
  Handler shared = nullptr;         // Of .shared and generic addresses, if it differs there.
};

template <typename T, typename Op>
constexpr AtomicOperation Of(const char* name) {
  return {name, Atomic<T, Op>, DecodeAtomic<sizeof(T), 1>};
}
template <typename T>
constexpr AtomicOperation Exch(const char* name) {
  return {name, Atomic<T, AtomicExch>, DecodeAtomic<sizeof(T), 1>, Reduces::kNo};
}
template <typename T>
constexpr AtomicOperation Cas(const char* name) {
  return {name, Atomic<T, AtomicCas>, DecodeAtomic<sizeof(T), 2>, Reduces::kNo};
}

constexpr AtomicOperation kAtomicOperations[] = {
    Of<uint32_t, AtomicAdd>("add.u32"),
    Of<uint32_t, AtomicAdd>("add.s32"),
    Of<uint64_t, AtomicAdd>("add.u64"),
    {"add.f32", Atomic<float, AtomicAddFlushed>, DecodeAtomic<4, 1>, Reduces::kYes,
     Atomic<float, AtomicAdd>},
    Of<double, AtomicAdd>("add.f64"),
    Of<uint16_t, AtomicAddHalves<uint16_t, F16>>("add.noftz.f16"),
    Of<uint32_t, AtomicAddHalves<uint32_t, F16>>("add.noftz.f16x2"),
    Of<uint16_t, AtomicAddHalves<uint16_t, BF16>>("add.noftz.bf16"),
    Of<uint32_t, AtomicAddHalves<uint32_t, BF16>>("add.noftz.bf16x2"),
    Of<uint32_t, AtomicMin>("min.u32"),
    Of<int32_t, AtomicMin>("min.s32"),
    Of<uint64_t, AtomicMin>("min.u64"),
    Of<int64_t, AtomicMin>("min.s64"),
    Of<uint32_t, AtomicMax>("max.u32"),
    Of<int32_t, AtomicMax>("max.s32"),
    Of<uint64_t, AtomicMax>("max.u64"),
    Of<int64_t, AtomicMax>("max.s64"),
    Of<uint32_t, AtomicInc>("inc.u32"),
    Of<uint32_t, AtomicDec>("dec.u32"),
    Of<uint32_t, AtomicAnd>("and.b32"),
    Of<uint64_t, AtomicAnd>("and.b64"),
    Of<uint32_t, AtomicOr>("or.b32"),
    Of<uint64_t, AtomicOr>("or.b64"),
    Of<uint32_t, AtomicXor>("xor.b32"),
    Of<uint64_t, AtomicXor>("xor.b64"),
    Exch<uint32_t>("exch.b32"),
    Exch<uint64_t>("exch.b64"),
    Exch<Bits128>("exch.b128"),
    Cas<uint16_t>("cas.b16"),
    {"cas.b32", Atomic<uint32_t, AtomicCas>, DecodeWordSwap, Reduces::kNo},
    Cas<uint64_t>("cas.b64"),
    Cas<Bits128>("cas.b128"),
};

struct AtomicSpace {
  const char* name;
  Space space;
};

constexpr AtomicSpace kAtomicSpaces[] = {
    {"global.", Space::kGlobal}, {"shared.", Space::kShared}, {"", Space::kGeneric}};

}  // namespace

std::span<const Form> AtomicForms() {
  static const FormTable rows = [] {
    FormTable made;
    for (const AtomicSpace& in : kAtomicSpaces) {
      const uint8_t flags = SpaceFlags(in.space);
      for (const AtomicOperation& operation : kAtomicOperations) {
        const bool differs = operation.shared != nullptr && in.space != Space::kGlobal;
        const Handler handler = differs ? operation.shared : operation.handler;
        const std::string name = std::string(in.name) + operation.name;
        made.Decoded("atom." + name, operation.decode, handler, flags);
        if (operation.reduces == Reduces::kYes)
          made.Decoded("red." + name, operation.decode, handler, flags | kReduction);
      }
    }
    return made;
  }();
  return rows.rows();
}

}  // namespace coppice::ptx
