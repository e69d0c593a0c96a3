// Words of opcodes, and types.

#include "tests/ptx/oracle.h"

namespace coppice::ptx {

Opcode::Opcode(std::string_view text) {
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find('.', begin), text.size());
    words.emplace_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
}

std::optional<IntegerType> IntegerTypeOf(std::string_view name) {
  if (name.size() < 2 || std::string_view("usb").find(name[0]) == std::string_view::npos)
    return std::nullopt;
  for (const int bits : {2, 4, 8, 16, 32, 64}) {
    if (name.substr(1) == std::to_string(bits))
      return IntegerType{.is_signed = name[0] == 's', .bits = bits};
  }
  return std::nullopt;
}

Integer Value(IntegerType type, uint64_t bits) {
  Integer value = Wrapped(Integer(bits), type.bits);
  if (type.is_signed && (bits >> (type.bits - 1) & 1) != 0) value -= Integer(1) << type.bits;
  return value;
}

uint64_t Wrapped(const Integer& value, int bits) {
  const Integer modulus = Integer(1) << bits;
  Integer rest = value % modulus;
  if (rest < 0) rest += modulus;
  return static_cast<uint64_t>(rest);
}

uint64_t Saturated(const Integer& value, IntegerType type) {
  const Integer count = Integer(1) << type.bits;
  const Integer least = type.is_signed ? Integer(-(count / 2)) : Integer(0);
  const Integer most = least + count - 1;
  return Wrapped(value < least ? least : value > most ? most : value, type.bits);
}

std::optional<FloatType> FloatTypeOf(std::string_view name) {
  if (name == "f16") return FloatType{kFormatF16};
  if (name == "bf16") return FloatType{kFormatBF16};
  if (name == "f16x2") return FloatType{kFormatF16, 2};
  if (name == "bf16x2") return FloatType{kFormatBF16, 2};
  if (name == "f32") return FloatType{kFormatF32};
  if (name == "f64") return FloatType{kFormatF64};
  return std::nullopt;
}

Direction DirectionOf(const Opcode& opcode) {
  for (const std::string& word : opcode.words) {
    if (word == "rz" || word == "rzi") return Direction::kZero;
    if (word == "rm" || word == "rmi") return Direction::kDown;
    if (word == "rp" || word == "rpi") return Direction::kUp;
    if (word == "rna") return Direction::kAway;
  }
  return Direction::kNearest;
}

uint64_t Flushed(const BinaryFormat& format, uint64_t bits) {
  return (bits & format.infinity()) == 0 ? bits & format.sign() : bits;
}

Exact Clamped(const Exact& value) {
  const Exact one = Exact::Of(1);
  if (value.is_nan() || value.negative || value.is_zero()) return {};
  return Order(value, one) > 0 ? one : value;
}

std::optional<Oracle> FindOracle(std::string_view text) {
  const Opcode opcode(text);
  for (const auto find : {ConvertOracle, CompareOracle, FloatOracle, BitOracle, IntegerOracle}) {
    if (std::optional<Oracle> oracle = find(opcode); oracle.has_value()) return oracle;
  }
  return std::nullopt;
}

}  // namespace coppice::ptx
