// Integer arithmetic, with and without the carry flag.

#include <map>
#include <string>

#include "tests/ptx/oracle.h"

namespace coppice::ptx {
namespace {

using Words = std::function<Integer(const std::array<Integer, 6>&)>;

Integer Low24(IntegerType type, const Integer& value) {
  const uint64_t low = Wrapped(value, 24);
  return type.is_signed && (low >> 23 & 1) != 0 ? Integer(low) - (Integer(1) << 24) : Integer(low);
}

// floor(value / 2^bits)
Integer Floor(const Integer& value, int bits) {
  const Integer modulus = Integer(1) << bits;
  Integer rest = value % modulus;
  if (rest < 0) rest += modulus;
  return (value - rest) / modulus;
}

Integer ProductOf(const Opcode& opcode, IntegerType type, const Integer& a, const Integer& b) {
  const bool of24 = opcode.base().ends_with("24");
  const Integer product = of24 ? Integer(Low24(type, a) * Low24(type, b)) : Integer(a * b);
  if (!opcode.Has("hi")) return product;
  return Value(type, Wrapped(Floor(product, of24 ? 16 : type.bits), type.bits));
}

Oracle Arithmetic(const Opcode& opcode, IntegerType type, const Words& of) {
  IntegerType result = type;
  if (opcode.Has("wide")) result.bits *= 2;
  const bool saturates = opcode.Has("sat");
  const bool adds = opcode.base().starts_with("mad") && opcode.Has("wide");
  return {.of = [=](const Inputs& in) -> Outputs {
    std::array<Integer, 6> values;
    for (size_t i = 0; i < in.size(); ++i)
      values[i] = Value(adds && i == 2 ? result : type, in[i]);
    const Integer value = of(values);
    return {saturates ? Saturated(value, result) : Wrapped(value, result.bits)};
  }};
}

// The flag is the last input, and the second output.
Oracle Carrying(const Opcode& opcode, IntegerType type) {
  const bool reads = opcode.base().ends_with("c");
  const bool writes = opcode.Has("cc");
  const bool borrows = opcode.base().starts_with("sub");
  const bool multiplies = opcode.base().starts_with("mad");
  return {.of = [=](const Inputs& in) -> Outputs {
    const uint64_t flag = in[multiplies ? 3 : 2];
    const Integer carry = reads ? flag : 0;
    Integer a = in[0];
    if (multiplies)
      a = Wrapped(ProductOf(opcode, type, Value(type, in[0]), Value(type, in[1])), type.bits);
    const Integer b = multiplies ? in[2] : in[1];
    const Integer value = borrows ? Integer(a - b - carry) : Integer(a + b + carry);
    const bool out = value < 0 || value >= Integer(1) << type.bits;
    return {Wrapped(value, type.bits), writes ? uint64_t{out} : flag};
  }};
}

// dp4a.a.b and dp2a.lo.a.b
Oracle Dot(const Opcode& opcode) {
  const bool four = opcode.base() == "dp4a";
  const IntegerType a = {opcode.before_type()[0] == 's', four ? 8 : 16};
  const IntegerType b = {opcode.type()[0] == 's', 8};
  const int first = opcode.Has("hi") ? 2 : 0;
  return {.of = [=](const Inputs& in) -> Outputs {
    Integer sum = in[2];
    for (int i = 0; i < (four ? 4 : 2); ++i)
      sum += Value(a, in[0] >> (a.bits * i)) * Value(b, in[1] >> (8 * (first + i)));
    return {Wrapped(sum, 32)};
  }};
}

const std::map<std::string, Words>& Plain() {
  using In = const std::array<Integer, 6>&;
  static const std::map<std::string, Words> words = {
      {"add", [](In v) { return Integer(v[0] + v[1]); }},
      {"sub", [](In v) { return Integer(v[0] - v[1]); }},
      {"sad", [](In v) { return Integer(v[2] + abs(Integer(v[0] - v[1]))); }},
      {"div", [](In v) { return v[1] == 0 ? Integer(-1) : Integer(v[0] / v[1]); }},
      {"rem", [](In v) { return v[1] == 0 ? Integer(-1) : Integer(v[0] % v[1]); }},
      {"abs", [](In v) { return Integer(abs(v[0])); }},
      {"neg", [](In v) { return Integer(-v[0]); }},
      {"min", [](In v) { return v[0] < v[1] ? v[0] : v[1]; }},
      {"max", [](In v) { return v[0] > v[1] ? v[0] : v[1]; }},
  };
  return words;
}

// Of both halves of a word: "min.relu.s16x2".
Oracle Pairs(const Opcode& opcode) {
  const IntegerType half = {opcode.type()[0] == 's', 16};
  const Words of = Plain().at(opcode.base());
  const bool relu = opcode.Has("relu");
  return {.of = [=](const Inputs& in) -> Outputs {
    uint64_t both = 0;
    for (int shift = 0; shift < 32; shift += 16) {
      Integer value = of({Value(half, in[0] >> shift), Value(half, in[1] >> shift)});
      if (relu && value < 0) value = 0;
      both |= Wrapped(value, 16) << shift;
    }
    return {both};
  }};
}

}  // namespace

std::optional<Oracle> IntegerOracle(const Opcode& opcode) {
  const std::string& base = opcode.base();
  if (opcode.type() == "u16x2" || opcode.type() == "s16x2") return Pairs(opcode);
  if (base == "dp4a" || base == "dp2a") return Dot(opcode);
  const std::optional<IntegerType> type = IntegerTypeOf(opcode.type());
  if (!type.has_value()) return std::nullopt;
  if (opcode.Has("cc") || base == "addc" || base == "subc" || base == "madc")
    return Carrying(opcode, *type);
  if (base == "mul" || base == "mul24")
    return Arithmetic(opcode, *type,
                      [=, t = *type](const auto& v) { return ProductOf(opcode, t, v[0], v[1]); });
  if (base == "mad" || base == "mad24")
    return Arithmetic(opcode, *type, [=, t = *type](const auto& v) {
      // Without .hi and .sat, what is above the result does not matter.
      return Integer(ProductOf(opcode, t, v[0], v[1]) + v[2]);
    });
  const auto found = Plain().find(base);
  if (found == Plain().end()) return std::nullopt;
  if (opcode.Has("relu"))
    return Arithmetic(opcode, *type,
                      [of = found->second](const auto& v) { return std::max(of(v), Integer(0)); });
  return Arithmetic(opcode, *type, found->second);
}

}  // namespace coppice::ptx
