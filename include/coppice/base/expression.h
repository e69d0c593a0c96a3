// An expression: integer arithmetic over named values, parsed once and evaluated many times.
//
//   or
//   and                      each line binds tighter than the one above it
//   not x                    these give 0 or 1; every value except 0 is true
//   == != < <= > >=          0 or 1; they do not chain: write a < b and b < c
//   + -
//   * // %                   // rounds down, and % has the sign of its right side
//   -x
//   ceildiv(a, b)            a / b rounded up
//   align(a, b)              the least multiple of b that is >= a
//   min(a, b), max(a, b), select(c, a, b)    select is a if c is true, else b
//
// Operators on the same line are evaluated from left to right. Integers are decimal, at most 2^63 -
// 1. Names are letters, digits and `_`, and do not start with a digit. There are no floats.
//
// Arithmetic that overflows an int64, or that divides by 0, has a fault in place of a value. All
// results that are computed from it have the fault, too; if there are two faults, division by zero
// wins. `and`, `or` and `select` evaluate their first operand first. If it has a fault, the result
// has the same fault. If it makes another operand irrelevant (the right side of a false `and` or a
// true `or`, the other side of a `select`), that operand and its fault are ignored. So `n != 0 and
// 8 // n == 2` never has a fault.
//
// Units: values are plain int64; their names say what they count. Threads: immutable once parsed;
// every const method may be called from any thread.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace coppice {

// Why arithmetic has no value. If there are two faults, the greater enumerator wins.
enum class ArithmeticFault : uint8_t { kNone, kOverflow, kDivisionByZero };

// A name for people: "none", "overflow", "division by zero".
const char* NameOf(ArithmeticFault fault);

// The outcome of arithmetic. It has no default values, so that an array of them costs nothing.
struct Computed {
  int64_t value;  // 0 if there is a fault.
  ArithmeticFault fault;

  bool ok() const { return fault == ArithmeticFault::kNone; }
  bool is_true() const { return ok() && value != 0; }  // False if there is a fault.
  friend bool operator==(const Computed&, const Computed&) = default;
};

enum class Operator : uint8_t {
  kConstant,
  kName,
  kNegate,
  kNot,
  kAdd,
  kSubtract,
  kMultiply,
  kDivide,
  kModulo,
  kCeilDivide,
  kAlign,
  kMin,
  kMax,
  kEqual,
  kNotEqual,
  kLess,
  kLessEqual,
  kAnd,
  kOr,
  kSelect,
};

// One step of the flat form, in which step i fills slot i from earlier slots. A step with one
// operand repeats it in all three places; a step with two repeats the second.
struct Operation {
  Operator op = Operator::kConstant;
  std::array<int16_t, 3> operands{};  // Slots; unused by constants and names.
  int64_t immediate = 0;              // A constant's value, a name's index into the values; else 0.

  bool is_leaf() const { return op == Operator::kConstant || op == Operator::kName; }
};

// Fills slots [first, operations.size()). It is for programs joined from several expressions; for a
// single expression use Evaluate. Requires: slots before `first` are filled, `slots` holds
// operations.size() slots, and `values` holds every value that a name refers to (the last two
// checked). Cost: O(operations); does not allocate.
void Compute(std::span<const Operation> operations,
             size_t first,
             std::span<const int64_t> values,
             std::span<Computed> slots);

// Whether an expression can use `name`: it has the form above and is not `or`, `and` or `not`.
bool IsExpressionName(const std::string& name);

class Expression {
 public:
  static constexpr int kTextMax = 8192;        // Maximum number of characters of a text.
  static constexpr int kOperationsMax = 1024;  // Of names, numbers, operators and calls in it.
  static constexpr int kDepthMax = 32;         // Of nested parentheses, calls, `not` and `-`.

  // Parses all of `text`, in which names[i] is the name of values[i]. Errors: kInvalidArgument the
  // text is not an expression, or uses a name that `names` lacks or has twice; kOutOfRange the text
  // exceeds the limits above. Each error has the text, the column (from 1) and what was expected
  // there.
  static absl::StatusOr<Expression> Parse(const std::string& text,
                                          std::span<const std::string> names);

  // The value of the expression for these values. Requires: as many values as Parse got names
  // (checked).
  // Cost: O(operations); does not allocate.
  Computed Evaluate(std::span<const int64_t> values) const;

  // Each name that occurs, once, with its value, and the fault if there is one: "n = 12, m = 3", "n
  // = 0 (division by zero)"; empty if no name occurs and there is no fault. Requires: as many names
  // and values as Parse got names (checked). Cost: allocates.
  std::string Describe(std::span<const std::string> names, std::span<const int64_t> values) const;

  // The indices of the names that occur, each once. Cost: allocates.
  std::vector<size_t> Reads() const;

  const std::string& text() const { return text_; }
  // The flat form; the last slot is the result. Never empty.
  std::span<const Operation> operations() const { return operations_; }

 private:
  Expression(std::string text, std::vector<Operation> operations, size_t name_count);

  std::string text_;
  std::vector<Operation> operations_;
  size_t name_count_;
};

}  // namespace coppice
