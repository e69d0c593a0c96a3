// Arithmetic of floats of every width.

#include <cmath>
#include <map>
#include <string>

#include "tests/ptx/oracle.h"

namespace coppice::ptx {
namespace {

using Operation = std::function<Exact(const std::array<Exact, 3>&, Direction)>;

// What the modifiers do to operands and result of one float.
struct Modifiers {
  explicit Modifiers(const Opcode& opcode)
      : ftz(opcode.Has("ftz")),
        sat(opcode.Has("sat")),
        relu(opcode.Has("relu")),
        direction(DirectionOf(opcode)) {}

  uint64_t Of(const BinaryFormat& format,
              const Operation& operation,
              const std::array<uint64_t, 3>& bits) const {
    std::array<Exact, 3> values;
    for (size_t i = 0; i < bits.size(); ++i)
      values[i] = FromFormat(format, ftz ? Flushed(format, bits[i]) : bits[i]);
    uint64_t result = ToFormat(format, operation(values, direction), direction);
    if (ftz) result = Flushed(format, result);
    const Exact value = FromFormat(format, result);
    if (sat) result = ToFormat(format, Clamped(value), direction);
    if (relu && !value.is_nan() && value.negative) result = 0;
    return result;
  }

  bool ftz;
  bool sat;
  bool relu;
  Direction direction;
};

// Each half of a register by itself.
template <typename One>
Oracle OfHalves(FloatType type, const One& one) {
  const int bits = type.format.bits();
  return {.of = [=](const Inputs& in) -> Outputs {
            uint64_t result = 0;
            for (int half = 0; half < type.halves; ++half) {
              std::array<uint64_t, 3> parts;
              for (size_t i = 0; i < parts.size(); ++i)
                parts[i] = Wrapped(Integer(in[i] >> (half * bits)), bits);
              result |= one(parts) << (half * bits);
            }
            return {result};
          },
          .format = type.format,
          .halves = type.halves};
}

Oracle Rounded(const Opcode& opcode, FloatType type, const Operation& operation) {
  return OfHalves(type, [=, modifiers = Modifiers(opcode)](const auto& bits) {
    return modifiers.Of(type.format, operation, bits);
  });
}

// -0 is below +0.
Exact SmallerOrLarger(const Exact& a, const Exact& b, bool larger) {
  const int order = Order(a, b);
  if (order == 0 && a.is_zero() && b.is_zero()) return a.negative != larger ? a : b;
  return (order < 0) != larger ? a : b;
}

Operation Extreme(const Opcode& opcode) {
  const bool larger = opcode.base() == "max";
  const bool nan = opcode.Has("NaN");
  const bool magnitudes = opcode.Has("xorsign");
  return [=](const std::array<Exact, 3>& v, Direction) {
    const Exact a = magnitudes ? Magnitude(v[0]) : v[0];
    const Exact b = magnitudes ? Magnitude(v[1]) : v[1];
    Exact result;
    if (a.is_nan() || b.is_nan()) {
      result = nan ? Exact::NaN() : a.is_nan() ? b : a;
    } else {
      result = SmallerOrLarger(a, b, larger);
    }
    if (magnitudes && !result.is_nan()) result.negative = v[0].negative != v[1].negative;
    return result;
  };
}

std::optional<Operation> OperationOf(const Opcode& opcode) {
  using In = const std::array<Exact, 3>&;
  const std::string& base = opcode.base();
  if (base == "add") return [](In v, Direction to) { return Sum(v[0], v[1], to); };
  if (base == "sub") return [](In v, Direction to) { return Sum(v[0], Negated(v[1]), to); };
  if (base == "mul") return [](In v, Direction) { return Product(v[0], v[1]); };
  if (base == "fma" || base == "mad")
    return [](In v, Direction to) { return Sum(Product(v[0], v[1]), v[2], to); };
  if (base == "div" && opcode.Has("approx"))
    return [](In v, Direction) {  // 0 beyond 2^126, and so NaN of an infinity.
      const Exact bound = {.magnitude = 1, .exponent = 126};
      if (v[1].is_nan() || v[1].is_infinite() || Order(Magnitude(v[1]), bound) <= 0)
        return Quotient(v[0], v[1]);
      return Product(v[0], {.negative = v[1].negative});
    };
  if (base == "div") return [](In v, Direction) { return Quotient(v[0], v[1]); };
  if (base == "rcp") return [](In v, Direction) { return Quotient(Exact::Of(1), v[0]); };
  if (base == "sqrt") return [](In v, Direction) { return SquareRoot(v[0]); };
  if (base == "min" || base == "max") return Extreme(opcode);
  return std::nullopt;
}

using LongDouble = long double (*)(long double);

const std::map<std::string, LongDouble>& Functions() {
  static const std::map<std::string, LongDouble> functions = {
      {"ex2", [](long double x) { return std::exp2(x); }},
      {"lg2", [](long double x) { return std::log2(x); }},
      {"sin",
       [](long double x) {
         return std::fabs(x) < 0x1p-126L ? std::copysign(0.0L, x) : std::sin(x);
       }},
      {"cos", [](long double x) { return std::cos(x); }},
      {"tanh", [](long double x) { return std::tanh(x); }},
      {"rsqrt", [](long double x) { return 1 / std::sqrt(x); }},
  };
  return functions;
}

long double ToLongDouble(const Exact& value) {
  if (value.is_nan()) return std::nanl("");
  const long double magnitude =
      value.is_infinite() ? HUGE_VALL
                          : std::ldexp(static_cast<long double>(value.magnitude), value.exponent);
  return value.negative ? -magnitude : magnitude;
}

Exact FromLongDouble(long double value) {
  if (std::isnan(value)) return Exact::NaN();
  if (std::isinf(value)) return Exact::Infinity(value < 0);
  int exponent = 0;
  const long double fraction = std::frexp(std::fabs(value), &exponent);
  const auto mantissa = static_cast<uint64_t>(std::ldexp(fraction, 64));
  return {.negative = std::signbit(value), .magnitude = mantissa, .exponent = exponent - 64};
}

// By long double, within a unit of the last place.
Oracle Approximate(const Opcode& opcode, FloatType type, LongDouble function) {
  Oracle oracle = Rounded(opcode, type, [=](const std::array<Exact, 3>& v, Direction) {
    return FromLongDouble(function(ToLongDouble(v[0])));
  });
  oracle.ulps = 1;
  return oracle;
}

// The gross approximations see and give the upper 32 bits of f64: 20 of its mantissa.
Oracle Gross(const Opcode& opcode) {
  const bool root = opcode.base() == "rsqrt";
  return {.of = [=](const Inputs& in) -> Outputs {
            constexpr uint64_t kUpper = 0xffffffff00000000;
            const Exact given = FromFormat(kFormatF64, in[0]);
            const uint64_t upper = given.is_nan() ? in[0] : in[0] & kUpper;
            const Exact a = FromFormat(kFormatF64, Flushed(kFormatF64, upper));
            const Exact result = Quotient(Exact::Of(1), root ? SquareRoot(a) : a);
            const uint64_t bits = ToFormat(kFormatF64, result, Direction::kNearest);
            return {result.is_nan() ? bits : Flushed(kFormatF64, bits) & kUpper};
          },
          .format = kFormatF64};
}

std::optional<Oracle> SignOracle(const Opcode& opcode, FloatType type) {
  const std::string& base = opcode.base();
  const bool ftz = opcode.Has("ftz");
  const BinaryFormat& format = type.format;
  if (base == "neg" || base == "abs") {
    Oracle oracle = OfHalves(type, [=](const auto& bits) {
      const uint64_t a = ftz ? Flushed(format, bits[0]) : bits[0];
      return base == "neg" ? a ^ format.sign() : a & ~format.sign();
    });
    oracle.format.reset();  // Bits, also of NaN.
    return oracle;
  }
  if (base == "copysign")
    return Oracle{.of = [=](const Inputs& in) -> Outputs {
      return {(in[0] & format.sign()) | (in[1] & ~format.sign())};
    }};
  if (base != "testp") return std::nullopt;
  const std::string& property = opcode.words[1];
  return Oracle{.of = [=](const Inputs& in) -> Outputs {
    const Exact a = FromFormat(format, in[0]);
    const bool below = !a.is_nan() && !a.is_infinite() && Flushed(format, in[0]) != in[0];
    if (property == "finite") return {!a.is_nan() && !a.is_infinite()};
    if (property == "infinite") return {a.is_infinite()};
    if (property == "number") return {!a.is_nan()};
    if (property == "notanumber") return {a.is_nan()};
    if (property == "subnormal") return {below};
    return {!a.is_nan() && !a.is_infinite() && !below};  // Zeros too.
  }};
}

}  // namespace

std::optional<Oracle> FloatOracle(const Opcode& opcode) {
  const std::optional<FloatType> type = FloatTypeOf(opcode.type());
  if (!type.has_value() || opcode.words.size() < 2) return std::nullopt;
  if (std::optional<Oracle> oracle = SignOracle(opcode, *type); oracle.has_value()) return oracle;
  if (opcode.Has("approx") && opcode.Has("ftz") && opcode.type() == "f64") return Gross(opcode);
  const auto function = Functions().find(opcode.base());
  if (opcode.Has("approx") && function != Functions().end())
    return Approximate(opcode, *type, function->second);
  if (const std::optional<Operation> operation = OperationOf(opcode); operation.has_value())
    return Rounded(opcode, *type, *operation);
  return std::nullopt;
}

}  // namespace coppice::ptx
