// Oracles: what each form that computes gives, derived from the words of its opcode as the PTX ISA
// defines them, on integers of any length. Slow, and independent of the handlers.
//
// Threads: pure functions.

#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tests/ptx/exact.h"

namespace coppice::ptx {

// The bits of what a lane reads, in the order of the operands; a predicate and a carry are 0 or 1,
// an operand of fewer bits has zeros above.
using Inputs = std::array<uint64_t, 6>;
// What it writes: a register or predicate, and the second predicate of a pair, or the carry.
using Outputs = std::array<uint64_t, 2>;

struct Oracle {
  std::function<Outputs(const Inputs&)> of;
  // How far the first result may be from this one: 0: these bits.
  int ulps = 0;
  // Its format, if it is one float: any NaN will do for f64, and ulps are counted in it.
  std::optional<BinaryFormat> format = {};
  int halves = 1;  // Results in the register.
};

// The words between dots.
struct Opcode {
  explicit Opcode(std::string_view text);
  bool Has(std::string_view word) const {
    return std::find(words.begin(), words.end(), word) != words.end();
  }
  const std::string& base() const { return words.front(); }
  const std::string& type() const { return words.back(); }
  const std::string& before_type() const { return words[words.size() - 2]; }

  std::vector<std::string> words;
};

// "u2" to "s64", and "b16" to "b64", which have no sign.
struct IntegerType {
  bool is_signed = false;
  int bits = 0;
};
std::optional<IntegerType> IntegerTypeOf(std::string_view name);
Integer Value(IntegerType type, uint64_t bits);
uint64_t Wrapped(const Integer& value, int bits);
// The nearest value of the type.
uint64_t Saturated(const Integer& value, IntegerType type);

// "f16", "bf16", "f32", "f64", and what packs two of them.
struct FloatType {
  BinaryFormat format;
  int halves = 1;
};
std::optional<FloatType> FloatTypeOf(std::string_view name);

// .rn, .rni and so on; to nearest if there is none.
Direction DirectionOf(const Opcode& opcode);
uint64_t Flushed(const BinaryFormat& format, uint64_t bits);
// Into [0, 1], NaN to 0.
Exact Clamped(const Exact& value);

// Each nothing if the form is of another family.
std::optional<Oracle> IntegerOracle(const Opcode& opcode);
std::optional<Oracle> BitOracle(const Opcode& opcode);
std::optional<Oracle> FloatOracle(const Opcode& opcode);
std::optional<Oracle> CompareOracle(const Opcode& opcode);
std::optional<Oracle> ConvertOracle(const Opcode& opcode);

std::optional<Oracle> FindOracle(std::string_view opcode);

}  // namespace coppice::ptx
