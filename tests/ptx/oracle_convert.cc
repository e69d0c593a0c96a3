// cvt.

#include <string>

#include "tests/ptx/oracle.h"

namespace coppice::ptx {
namespace {

// Formats that only cvt knows, and how many of them are in a register.
std::optional<FloatType> AnyFloatTypeOf(const std::string& name) {
  if (name == "tf32") return FloatType{kFormatTF32};
  if (name == "e4m3x2") return FloatType{kFormatE4M3, 2};
  if (name == "e5m2x2") return FloatType{kFormatE5M2, 2};
  return FloatTypeOf(name);
}

Oracle IntegerToInteger(const Opcode& opcode, IntegerType to, IntegerType from) {
  const bool saturates = opcode.Has("sat");
  return {.of = [=](const Inputs& in) -> Outputs {
    const Integer value = Value(from, in[0]);
    return {saturates ? Saturated(value, to) : Wrapped(value, to.bits)};
  }};
}

Oracle FloatToInteger(const Opcode& opcode, IntegerType to, FloatType from) {
  const bool ftz = opcode.Has("ftz") && from.format.bits() == 32;
  const bool wide = from.format.bits() == 64 || to.bits == 64;
  const Direction direction = DirectionOf(opcode);
  return {.of = [=](const Inputs& in) -> Outputs {
    const uint64_t bits = Wrapped(Integer(in[0]), from.format.bits());
    const Exact value = FromFormat(from.format, ftz ? Flushed(from.format, bits) : bits);
    if (value.is_nan()) return {wide ? uint64_t{1} << (to.bits - 1) : 0};
    const Integer beyond = Integer(value.negative ? -1 : 1) << 80;
    return {Saturated(value.is_infinite() ? beyond : ToInteger(Integral(value, direction)), to)};
  }};
}

Oracle IntegerToFloat(const Opcode& opcode, FloatType to, IntegerType from) {
  const bool sat = opcode.Has("sat");
  const Direction direction = DirectionOf(opcode);
  return {.of = [=](const Inputs& in) -> Outputs {
    const Exact value = Exact::Of(Value(from, in[0]));
    return {ToFormat(to.format, sat ? Clamped(value) : value, direction)};
  }};
}

// One float, by all the modifiers.
class FloatToFloat {
 public:
  FloatToFloat(const Opcode& opcode, BinaryFormat to, BinaryFormat from)
      : to_(to),
        from_(from),
        ftz_(opcode.Has("ftz")),
        sat_(opcode.Has("sat")),
        relu_(opcode.Has("relu")),
        finite_(opcode.Has("satfinite")),
        integral_(opcode.Has("rni") || opcode.Has("rzi") || opcode.Has("rmi") || opcode.Has("rpi")),
        direction_(DirectionOf(opcode)) {}

  uint64_t Of(uint64_t bits) const {
    const bool flush = ftz_ && from_.bits() == 32;
    Exact value = FromFormat(from_, flush ? Flushed(from_, bits) : bits);
    if (integral_) value = Integral(value, direction_);
    if (sat_) value = Clamped(value);
    if (relu_ && !value.is_nan() && (value.negative || value.is_zero())) value = {};
    uint64_t result = ToFormat(to_, value, direction_, finite_);
    if (ftz_ && to_.bits() == 32) result = Flushed(to_, result);
    return result;
  }

 private:
  BinaryFormat to_;
  BinaryFormat from_;
  bool ftz_;
  bool sat_;
  bool relu_;
  bool finite_;
  bool integral_;
  Direction direction_;
};

// cvt.ftz.f32.f32 and the like, which keep the bits of a NaN.
bool Copies(const Opcode& opcode) {
  if (opcode.type() != opcode.before_type()) return false;
  for (const char* const word : {"rni", "rzi", "rmi", "rpi", "sat"}) {
    if (opcode.Has(word)) return false;
  }
  return true;
}

Oracle FloatsToFloats(const Opcode& opcode, FloatType to, FloatType from) {
  const FloatToFloat one(opcode, to.format, from.format);
  const int to_bits = to.format.bits();
  const int from_bits = from.format.bits();
  const bool copies = Copies(opcode) && from_bits == 32;
  if (opcode.before_type() == "tf32")  // The upper bits of 32.
    return {.of = [=](const Inputs& in) -> Outputs {
      const uint64_t bits = one.Of(in[0]);
      return {bits == kFormatTF32.nan() ? kFormatF32.nan() : bits << 13};
    }};
  if (opcode.type() == "bf16" && to_bits == 32)  // Its bits above zeros, also of a NaN.
    return {.of = [](const Inputs& in) -> Outputs { return {in[0] << 16}; }};
  if (to.halves == 2 && from.halves == 1)  // a is the upper one.
    return {.of = [=](const Inputs& in) -> Outputs {
      return {one.Of(in[0]) << to_bits | one.Of(in[1])};
    }};
  return {.of = [=](const Inputs& in) -> Outputs {
            if (copies && FromFormat(from.format, in[0]).is_nan()) return {in[0]};
            uint64_t result = 0;
            for (int half = 0; half < to.halves; ++half) {
              const uint64_t part = Wrapped(Integer(in[0] >> (half * from_bits)), from_bits);
              result |= one.Of(part) << (half * to_bits);
            }
            return {result};
          },
          .format = to.format,
          .halves = to.halves};
}

// cvt.pack.sat.u8.s32.b32: two values above one another, and below a third.
Oracle Packing(const Opcode& opcode) {
  const bool below = opcode.type() == "b32";
  const IntegerType field = *IntegerTypeOf(opcode.words[3]);
  return {.of = [=](const Inputs& in) -> Outputs {
    const IntegerType word = {.is_signed = true, .bits = 32};
    const uint64_t high = Saturated(Value(word, in[0]), field);
    const uint64_t low = Saturated(Value(word, in[1]), field);
    const uint64_t pair = high << field.bits | low;
    return {below ? Wrapped(Integer(in[2]) << (2 * field.bits), 32) | pair : pair};
  }};
}

}  // namespace

std::optional<Oracle> ConvertOracle(const Opcode& opcode) {
  if (opcode.base() != "cvt" || opcode.words.size() < 3) return std::nullopt;
  if (opcode.Has("pack")) return Packing(opcode);
  const std::optional<IntegerType> to = IntegerTypeOf(opcode.before_type());
  const std::optional<IntegerType> from = IntegerTypeOf(opcode.type());
  const std::optional<FloatType> to_float = AnyFloatTypeOf(opcode.before_type());
  const std::optional<FloatType> from_float = AnyFloatTypeOf(opcode.type());
  if (to.has_value() && from.has_value()) return IntegerToInteger(opcode, *to, *from);
  if (to.has_value() && from_float.has_value()) return FloatToInteger(opcode, *to, *from_float);
  if (to_float.has_value() && from.has_value()) return IntegerToFloat(opcode, *to_float, *from);
  if (to_float.has_value() && from_float.has_value())
    return FloatsToFloats(opcode, *to_float, *from_float);
  return std::nullopt;
}

}  // namespace coppice::ptx
