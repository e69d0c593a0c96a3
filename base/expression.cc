// Expressions: a parser by precedence climbing, which emits the flat form, and the arithmetic.

#include "coppice/base/expression.h"

#include <algorithm>
#include <charconv>
#include <string_view>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "fmt/format.h"

#include "coppice/base/check.h"
#include "coppice/base/status.h"

namespace coppice {
namespace {

// How tightly operators bind; see the header's table.
enum Level { kLevelOr, kLevelAnd, kLevelNot, kLevelCompare, kLevelAdd, kLevelMultiply, kLevelSign };

struct BinaryOperator {
  std::string_view token;
  Level level = kLevelOr;
  Operator op = Operator::kOr;
  bool swapped = false;
};

constexpr BinaryOperator kBinaryOperators[] = {
    {"or", kLevelOr, Operator::kOr},
    {"and", kLevelAnd, Operator::kAnd},
    {"==", kLevelCompare, Operator::kEqual},
    {"!=", kLevelCompare, Operator::kNotEqual},
    {"<", kLevelCompare, Operator::kLess},
    {"<=", kLevelCompare, Operator::kLessEqual},
    {">", kLevelCompare, Operator::kLess, true},
    {">=", kLevelCompare, Operator::kLessEqual, true},
    {"+", kLevelAdd, Operator::kAdd},
    {"-", kLevelAdd, Operator::kSubtract},
    {"*", kLevelMultiply, Operator::kMultiply},
    {"//", kLevelMultiply, Operator::kDivide},
    {"%", kLevelMultiply, Operator::kModulo},
};

struct Function {
  std::string_view name;
  Operator op;
  int arity;
};

constexpr Function kFunctions[] = {
    {"ceildiv", Operator::kCeilDivide, 2},
    {"align", Operator::kAlign, 2},
    {"min", Operator::kMin, 2},
    {"max", Operator::kMax, 2},
    {"select", Operator::kSelect, 3},
};
constexpr const char* kFunctionNames = "ceildiv, align, min, max or select";

constexpr const char* kOperand = "an integer, a name, a function, '(', '-' or 'not'";

// The entry of `table` whose `member` is `text`, or nullptr.
template <typename Entry, size_t size>
const Entry* Find(const Entry (&table)[size],
                  std::string_view Entry::*member,
                  std::string_view text) {
  if (text.empty()) return nullptr;
  const Entry* entry = std::find_if(table, table + size, [&](const Entry& each) {
    return (each.*member)[0] == text[0] && each.*member == text;
  });
  return entry == table + size ? nullptr : entry;
}

bool IsDigit(char c) {
  return c >= '0' && c <= '9';
}

bool IsWordStart(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

// The token at the start of `text`: a number, a word, an operator, or one character that is none.
std::string_view TokenOf(std::string_view text) {
  if (text.empty()) return text;
  size_t length = 1;
  const auto extend = [&](auto belongs) {
    while (length < text.size() && belongs(text[length]))
      ++length;
  };
  if (IsDigit(text[0])) {
    extend(IsDigit);
  } else if (IsWordStart(text[0])) {
    extend([](char c) { return IsWordStart(c) || IsDigit(c); });
  } else if (Find(kBinaryOperators, &BinaryOperator::token, text.substr(0, 2)) != nullptr) {
    length = std::min<size_t>(2, text.size());
  }
  return text.substr(0, length);
}

// Whether a token is a word and none of the three that are operators.
bool IsName(std::string_view token) {
  return !token.empty() && IsWordStart(token[0]) && token != "not" &&
         Find(kBinaryOperators, &BinaryOperator::token, token) == nullptr;
}

class Parser {
 public:
  Parser(std::string_view text, std::span<const std::string> names) : text_(text), names_(names) {
    Advance();
  }

  absl::StatusOr<std::vector<Operation>> Run() {
    COPPICE_RETURN_IF_ERROR(ParseFrom(kLevelOr).status());
    if (!token_.empty()) return Unexpected("an operator or the end");
    if (operations_.size() > Expression::kOperationsMax)
      return Fail(absl::StatusCode::kOutOfRange,
                  fmt::format("at most {} names, numbers, operators and calls, not {}",
                              Expression::kOperationsMax, operations_.size()));
    return std::move(operations_);
  }

 private:
  using Slot = absl::StatusOr<int16_t>;

  // Operands joined by operators that bind at least as tightly as `level`.
  Slot ParseFrom(int level) {
    COPPICE_ASSIGN_OR_RETURN(int16_t left, ParseOperand(level));
    for (;;) {
      const BinaryOperator* const binary = binary_;
      if (binary == nullptr || binary->level < level) return left;
      Advance();
      COPPICE_ASSIGN_OR_RETURN(const int16_t right, ParseFrom(binary->level + 1));
      left = binary->swapped ? Emit(binary->op, {right, left, left})
                             : Emit(binary->op, {left, right, right});
      if (binary->level != kLevelCompare) continue;
      if (binary_ != nullptr && binary_->level == kLevelCompare)
        return Unexpected("no second comparison (write 'a < b and b < c')");
    }
  }

  // An operand with the signs and `not` in front of it, which is allowed where `level` lets it.
  Slot ParseOperand(int level) {
    if (depth_ > Expression::kDepthMax)
      return Fail(absl::StatusCode::kOutOfRange,
                  fmt::format("at most {} levels of nesting", Expression::kDepthMax));
    ++depth_;
    Slot slot = ParseNested(level);
    --depth_;
    return slot;
  }

  Slot ParseNested(int level) {
    if (token_ == "not" && level <= kLevelNot) return ParsePrefixed(Operator::kNot, kLevelNot);
    if (token_ == "-") return ParsePrefixed(Operator::kNegate, kLevelSign);
    if (token_ == "(") return ParseParenthesis();
    if (!token_.empty() && IsDigit(token_[0])) return ParseInteger();
    if (IsName(token_)) return ParseWord();
    return Unexpected(kOperand);
  }

  Slot ParsePrefixed(Operator op, Level level) {
    Advance();
    COPPICE_ASSIGN_OR_RETURN(const int16_t slot, ParseFrom(level));
    return Emit(op, {slot, slot, slot});
  }

  Slot ParseParenthesis() {
    Advance();
    COPPICE_ASSIGN_OR_RETURN(const int16_t slot, ParseFrom(kLevelOr));
    COPPICE_RETURN_IF_ERROR(Take(")", "an operator or ')'"));
    return slot;
  }

  Slot ParseInteger() {
    Operation constant{.op = Operator::kConstant};
    const char* end = token_.data() + token_.size();
    if (std::from_chars(token_.data(), end, constant.immediate).ec != std::errc())
      return Unexpected(fmt::format("an integer of at most {}", INT64_MAX));
    Advance();
    return Emit(constant);
  }

  // A call if a parenthesis follows, else a name.
  Slot ParseWord() {
    if (TokenOf(Rest(column_ + token_.size())) == "(") {
      const Function* function = Find(kFunctions, &Function::name, token_);
      if (function == nullptr) return Unexpected(kFunctionNames);
      return ParseCall(*function);
    }
    const auto found = std::find(names_.begin(), names_.end(), token_);
    if (found == names_.end())
      return Unexpected(names_.empty() ? std::string("no name (no names are known here)")
                                       : fmt::format("one of {}", fmt::join(names_, ", ")));
    if (std::find(found + 1, names_.end(), token_) != names_.end())
      return Unexpected("a name with one value, but this name has several");
    Advance();
    return Emit({.op = Operator::kName, .immediate = found - names_.begin()});
  }

  Slot ParseCall(const Function& function) {
    Advance();
    Advance();
    std::array<int16_t, 3> operands{};
    for (int i = 0; i < function.arity; ++i) {
      if (i > 0)
        COPPICE_RETURN_IF_ERROR(Take(",", fmt::format("an operator or ',' ({} takes {} arguments)",
                                                      function.name, function.arity)));
      COPPICE_ASSIGN_OR_RETURN(operands[static_cast<size_t>(i)], ParseFrom(kLevelOr));
    }
    if (function.arity == 2) operands[2] = operands[1];
    COPPICE_RETURN_IF_ERROR(Take(")", fmt::format("an operator or ')' ({} takes {} arguments)",
                                                  function.name, function.arity)));
    return Emit(function.op, operands);
  }

  int16_t Emit(Operator op, const std::array<int16_t, 3>& operands) {
    return Emit({.op = op, .operands = operands});
  }

  int16_t Emit(const Operation& operation) {
    operations_.push_back(operation);
    return static_cast<int16_t>(operations_.size() - 1);
  }

  // The text from `at` on, without the spaces there.
  std::string_view Rest(size_t at) const {
    return text_.substr(std::min(text_.find_first_not_of(" \t", at), text_.size()));
  }

  void Advance() {
    const std::string_view rest = Rest(column_ + token_.size());
    column_ = text_.size() - rest.size();
    token_ = TokenOf(rest);
    binary_ = Find(kBinaryOperators, &BinaryOperator::token, token_);
  }

  absl::Status Take(std::string_view token, const std::string& expected) {
    if (token_ != token) return Unexpected(expected);
    Advance();
    return absl::OkStatus();
  }

  absl::Status Unexpected(const std::string& expected) const {
    return Fail(absl::StatusCode::kInvalidArgument, expected);
  }

  absl::Status Fail(absl::StatusCode code, const std::string& expected) const {
    return MakeError(code, "Expression::Parse: \"{}\" {} at column {}; expected {}", text_,
                     token_.empty() ? std::string("ends") : fmt::format("has '{}'", token_),
                     column_ + 1, expected);
  }

  const std::string_view text_;
  const std::span<const std::string> names_;
  std::vector<Operation> operations_;
  std::string_view token_;                  // Empty at the end.
  const BinaryOperator* binary_ = nullptr;  // What it is, if it is one.
  size_t column_ = 0;                       // Where token_ starts, from 0.
  int depth_ = 0;
};

// By reference, because the other argument's evaluation writes the value.
Computed Checked(bool overflow, const int64_t& value) {
  if (overflow) [[unlikely]]
    return {0, ArithmeticFault::kOverflow};
  return {value, ArithmeticFault::kNone};
}

// a // b or a / b rounded up, for b other than 0.
Computed Quotient(int64_t a, int64_t b, bool up) {
  if (a == INT64_MIN && b == -1) return {0, ArithmeticFault::kOverflow};
  const bool inexact = a % b != 0;
  const bool negative = (a < 0) != (b < 0);
  const int64_t step = !inexact || negative == up ? 0 : up ? 1 : -1;
  return {a / b + step, ArithmeticFault::kNone};
}

// a % b for b other than 0. -1 is apart because INT64_MIN % -1 is undefined in C++.
int64_t Remainder(int64_t a, int64_t b) {
  const int64_t remainder = b == -1 ? 0 : a % b;
  return remainder != 0 && (remainder < 0) != (b < 0) ? remainder + b : remainder;
}

// The least multiple of b that is >= a, for b other than 0: a plus what -a exceeds a multiple by.
Computed Align(int64_t a, int64_t b) {
  const int64_t beyond = b == -1 ? 0 : a % b;  // Has the sign of a.
  int64_t aligned = a - beyond;
  if (beyond <= 0) return {aligned, ArithmeticFault::kNone};
  const bool overflow = b < 0 ? __builtin_sub_overflow(aligned, b, &aligned)
                              : __builtin_add_overflow(aligned, b, &aligned);
  return Checked(overflow, aligned);
}

// The operators whose operands all matter.
Computed Arithmetic(Operator op, int64_t a, int64_t b) {
  int64_t value = 0;
  switch (op) {
    case Operator::kNegate:
      return Checked(__builtin_sub_overflow(int64_t{0}, a, &value), value);
    case Operator::kNot:
      return {a == 0, ArithmeticFault::kNone};
    case Operator::kAdd:
      return Checked(__builtin_add_overflow(a, b, &value), value);
    case Operator::kSubtract:
      return Checked(__builtin_sub_overflow(a, b, &value), value);
    case Operator::kMultiply:
      return Checked(__builtin_mul_overflow(a, b, &value), value);
    case Operator::kMin:
      return {std::min(a, b), ArithmeticFault::kNone};
    case Operator::kMax:
      return {std::max(a, b), ArithmeticFault::kNone};
    case Operator::kEqual:
      return {a == b, ArithmeticFault::kNone};
    case Operator::kNotEqual:
      return {a != b, ArithmeticFault::kNone};
    case Operator::kLess:
      return {a < b, ArithmeticFault::kNone};
    case Operator::kLessEqual:
      return {a <= b, ArithmeticFault::kNone};
    default:
      break;
  }
  if (b == 0) return {0, ArithmeticFault::kDivisionByZero};
  switch (op) {
    case Operator::kDivide:
      return Quotient(a, b, false);
    case Operator::kCeilDivide:
      return Quotient(a, b, true);
    case Operator::kModulo:
      return {Remainder(a, b), ArithmeticFault::kNone};
    default:
      return Align(a, b);
  }
}

Computed Truth(const Computed& operand) {
  return operand.ok() ? Computed{operand.value != 0, ArithmeticFault::kNone} : operand;
}

Computed Step(const Operation& operation,
              std::span<const int64_t> values,
              std::span<const Computed> slots) {
  const auto operand = [&](size_t i) { return slots[static_cast<size_t>(operation.operands[i])]; };
  switch (operation.op) {
    case Operator::kConstant:
      return {operation.immediate, ArithmeticFault::kNone};
    case Operator::kName:
      COPPICE_CHECK(static_cast<size_t>(operation.immediate) < values.size(), "a value is missing");
      return {values[static_cast<size_t>(operation.immediate)], ArithmeticFault::kNone};
    case Operator::kAnd:
      return operand(0).is_true() ? Truth(operand(1)) : Truth(operand(0));
    case Operator::kOr:
      return operand(0).ok() && operand(0).value == 0 ? Truth(operand(1)) : Truth(operand(0));
    case Operator::kSelect:
      if (!operand(0).ok()) return operand(0);
      return operand(0).value != 0 ? operand(1) : operand(2);
    default:
      break;
  }
  const Computed a = operand(0);
  const Computed b = operand(1);
  const ArithmeticFault fault = std::max(a.fault, b.fault);
  if (fault != ArithmeticFault::kNone) [[unlikely]]
    return {0, fault};
  return Arithmetic(operation.op, a.value, b.value);
}

}  // namespace

const char* NameOf(ArithmeticFault fault) {
  switch (fault) {
    case ArithmeticFault::kNone:
      return "none";
    case ArithmeticFault::kOverflow:
      return "overflow";
    case ArithmeticFault::kDivisionByZero:
      return "division by zero";
  }
  return "?";
}

bool IsExpressionName(const std::string& name) {
  return TokenOf(name).size() == name.size() && IsName(name);
}

void Compute(std::span<const Operation> operations,
             size_t first,
             std::span<const int64_t> values,
             std::span<Computed> slots) {
  COPPICE_CHECK(operations.size() <= slots.size(), "slots are missing");
  for (size_t i = first; i < operations.size(); ++i)
    slots[i] = Step(operations[i], values, slots);
}

Expression::Expression(std::string text, std::vector<Operation> operations, size_t name_count)
    : text_(std::move(text)), operations_(std::move(operations)), name_count_(name_count) {}

absl::StatusOr<Expression> Expression::Parse(const std::string& text,
                                             std::span<const std::string> names) {
  if (text.size() > static_cast<size_t>(kTextMax))
    return MakeError(absl::StatusCode::kOutOfRange,
                     "Expression::Parse: \"{}...\" has {} characters; it must end before column "
                     "{}, since at most {} characters are allowed",
                     text.substr(0, 40), text.size(), kTextMax + 1, kTextMax);
  COPPICE_ASSIGN_OR_RETURN(std::vector<Operation> operations, Parser(text, names).Run());
  return Expression(text, std::move(operations), names.size());
}

Computed Expression::Evaluate(std::span<const int64_t> values) const {
  COPPICE_CHECK(values.size() == name_count_, "there must be as many values as names");
  std::array<Computed, kOperationsMax> slots;  // NOLINT: filled before it is read.
  Compute(operations_, 0, values, slots);
  return slots[operations_.size() - 1];
}

std::vector<size_t> Expression::Reads() const {
  std::vector<size_t> reads;
  for (const Operation& operation : operations_) {
    const auto name = static_cast<size_t>(operation.immediate);
    if (operation.op == Operator::kName &&
        std::find(reads.begin(), reads.end(), name) == reads.end())
      reads.push_back(name);
  }
  return reads;
}

std::string Expression::Describe(std::span<const std::string> names,
                                 std::span<const int64_t> values) const {
  COPPICE_CHECK(names.size() == values.size(), "there must be as many values as names");
  const Computed outcome = Evaluate(values);
  std::string text;
  for (const size_t name : Reads())
    text += fmt::format("{}{} = {}", text.empty() ? "" : ", ", names[name], values[name]);
  if (outcome.ok()) return text;
  return fmt::format("{}{}({})", text, text.empty() ? "" : " ", NameOf(outcome.fault));
}

}  // namespace coppice
