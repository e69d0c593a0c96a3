// setp and set.

#include <string>

#include "tests/ptx/oracle.h"

namespace coppice::ptx {
namespace {

bool Holds(const std::string& compare, int order) {
  const bool unordered = order == 2;
  if (compare == "num") return !unordered;
  if (compare == "nan") return unordered;
  if (compare == "lo") return order == -1;
  if (compare == "ls") return order == -1 || order == 0;
  if (compare == "hi") return order == 1;
  if (compare == "hs") return order == 1 || order == 0;
  if (unordered) return compare.size() == 3;  // equ, neu, ltu ...
  const std::string ordered = compare.substr(0, 2);
  if (ordered == "eq") return order == 0;
  if (ordered == "ne") return order != 0;
  if (ordered == "lt") return order < 0;
  if (ordered == "le") return order <= 0;
  if (ordered == "gt") return order > 0;
  return order >= 0;
}

bool CombinedWith(const Opcode& opcode, bool value, bool other) {
  if (opcode.Has("and")) return value && other;
  if (opcode.Has("or")) return value || other;
  if (opcode.Has("xor")) return value != other;
  return value;
}

// What a register shows for true.
uint64_t Truth(const std::string& type, bool packed) {
  if (type == "f32") return 0x3f800000;
  if (type == "f16" || type == "f16x2") return 0x3c00;
  if (type == "bf16" || type == "bf16x2") return 0x3f80;
  return packed || type == "u16" || type == "s16" ? 0xffff : 0xffffffff;
}

}  // namespace

std::optional<Oracle> CompareOracle(const Opcode& opcode) {
  const bool shows = opcode.base() == "set";
  if (!shows && opcode.base() != "setp") return std::nullopt;
  const std::optional<FloatType> floats = FloatTypeOf(opcode.type());
  const std::optional<IntegerType> integers = IntegerTypeOf(opcode.type());
  if (!floats.has_value() && !integers.has_value()) return std::nullopt;
  const int halves = floats.has_value() ? floats->halves : 1;
  const int bits = floats.has_value() ? floats->format.bits() : integers->bits;
  const bool ftz = opcode.Has("ftz");

  const auto compared = [=](const Inputs& in, int half) {
    const uint64_t a = Wrapped(Integer(in[0] >> (half * bits)), bits);
    const uint64_t b = Wrapped(Integer(in[1] >> (half * bits)), bits);
    int order = 0;
    if (integers.has_value()) {
      const Integer x = Value(*integers, a);
      const Integer y = Value(*integers, b);
      order = x < y ? -1 : x > y ? 1 : 0;
    } else {
      const BinaryFormat& format = floats->format;
      order = Order(FromFormat(format, ftz ? Flushed(format, a) : a),
                    FromFormat(format, ftz ? Flushed(format, b) : b));
    }
    return Holds(opcode.words[1], order);
  };
  if (!shows)
    return Oracle{.of = [=](const Inputs& in) -> Outputs {
      const bool first = compared(in, 0);
      const bool second = halves == 2 ? compared(in, 1) : !first;
      return {CombinedWith(opcode, first, in[2] != 0), CombinedWith(opcode, second, in[2] != 0)};
    }};
  return Oracle{.of = [=](const Inputs& in) -> Outputs {
    uint64_t result = 0;
    for (int half = 0; half < halves; ++half) {
      if (CombinedWith(opcode, compared(in, half), in[2] != 0))
        result |= Truth(opcode.before_type(), halves == 2) << (16 * half);
    }
    return {result};
  }};
}

}  // namespace coppice::ptx
