// Random expressions with their meaning: a tree that is written as text with as few or as many
// parentheses as chance wants, and evaluated by definition, in integers of 128 bits.
//
// Shares no code with coppice/base/expression.h.
//
// Threads: one at a time.

#pragma once

#include <array>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <ostream>
#include <random>
#include <string>

#include "coppice/base/expression.h"

namespace coppice {

// How GoogleTest prints an outcome.
inline void PrintTo(const Computed& computed, std::ostream* out) {
  *out << computed.value << " (fault: " << NameOf(computed.fault) << ")";
}

class RandomExpression {
 public:
  static constexpr std::array<const char*, 3> kNames = {"n", "m_1", "Order"};
  using Values = std::array<int64_t, kNames.size()>;

  // A tree of at most `depth` operators from root to leaf.
  RandomExpression(std::mt19937_64& random, int depth) { Grow(random, depth); }

  // Text in which every operator that must be in parentheses is, and one in eight others.
  std::string Render(std::mt19937_64& random) const { return RenderAt(random, 0); }

  Computed Evaluate(const Values& values) const {
    const Outcome outcome = Meaning(values);
    return {static_cast<int64_t>(outcome.value), outcome.fault};
  }

  // A leaf's number or a value to evaluate at: mostly small, sometimes at an end of the range.
  static int64_t DrawNumber(std::mt19937_64& random) {
    constexpr int64_t kEnds[] = {INT64_MIN, INT64_MIN + 1, INT64_MAX, INT64_MAX - 1,
                                 int64_t{1} << 32};
    if (random() % 8 == 0) return kEnds[random() % std::size(kEnds)];
    return static_cast<int64_t>(random() % 25) - 12;
  }

 private:
  __extension__ using Wide = __int128;

  struct Outcome {
    Wide value = 0;
    ArithmeticFault fault = ArithmeticFault::kNone;
  };

  // How an operator is written: a symbol between its operands, before its only one, or a function.
  struct Form {
    const char* text;
    int level;  // 9: binds like a leaf.
    int operand_count;
  };
  static constexpr Form kForms[] = {
      {"or", 1, 2},      {"and", 2, 2},   {"not ", 3, 1}, {"==", 4, 2},  {"!=", 4, 2},
      {"<", 4, 2},       {"<=", 4, 2},    {">", 4, 2},    {">=", 4, 2},  {"+", 5, 2},
      {"-", 5, 2},       {"*", 6, 2},     {"//", 6, 2},   {"%", 6, 2},   {"-", 7, 1},
      {"ceildiv", 9, 2}, {"align", 9, 2}, {"min", 9, 2},  {"max", 9, 2}, {"select", 9, 3}};

  void Grow(std::mt19937_64& random, int depth) {
    if (depth == 0 || random() % 6 == 0) {
      name_ = static_cast<int>(random() % (2 * kNames.size())) - static_cast<int>(kNames.size());
      number_ = DrawNumber(random) & INT64_MAX;  // Integers have no sign.
      if (random() % 2 == 0) number_ &= 15;
      return;
    }
    form_ = &kForms[random() % std::size(kForms)];
    for (int i = 0; i < form_->operand_count; ++i)
      operands_[static_cast<size_t>(i)] = std::make_unique<RandomExpression>(random, depth - 1);
  }

  std::string RenderAt(std::mt19937_64& random, int level_min) const {
    if (form_ == nullptr)
      return name_ >= 0 ? kNames[static_cast<size_t>(name_)] : std::to_string(number_);
    const bool parentheses = form_->level < level_min || random() % 8 == 0;
    const auto operand = [&](size_t i, int level) { return operands_[i]->RenderAt(random, level); };
    const std::string space = random() % 2 == 0 || form_->level < 3 ? " " : "";
    std::string text;
    if (form_->level == 9) {
      for (int i = 0; i < form_->operand_count; ++i)
        text += (i > 0 ? "," + space : "") + operand(static_cast<size_t>(i), 0);
      text = form_->text + ("(" + text + ")");
    } else if (form_->operand_count == 1) {
      text = form_->text + operand(0, form_->level);
    } else {
      const int left_min = form_->level + (form_->level == 4 ? 1 : 0);  // They do not chain.
      text = operand(0, left_min) + space + form_->text + space + operand(1, form_->level + 1);
    }
    return parentheses ? "(" + text + ")" : text;
  }

  Outcome Meaning(const Values& values) const {
    if (form_ == nullptr) return {name_ >= 0 ? values[static_cast<size_t>(name_)] : number_};
    const std::string op = form_->text;
    const Outcome a = operands_[0]->Meaning(values);
    if (op == "and" || op == "or" || op == "select") {
      if (a.fault != ArithmeticFault::kNone) return a;
      if (op == "select") return operands_[a.value != 0 ? 1 : 2]->Meaning(values);
      if ((a.value != 0) == (op == "or")) return {op == "or"};
      const Outcome b = operands_[1]->Meaning(values);
      return b.fault != ArithmeticFault::kNone ? b : Outcome{b.value != 0};
    }
    const Outcome b = operands_[1] ? operands_[1]->Meaning(values) : Outcome{};
    for (const ArithmeticFault fault :
         {ArithmeticFault::kDivisionByZero, ArithmeticFault::kOverflow}) {
      if (a.fault == fault || b.fault == fault) return {0, fault};
    }
    const std::optional<Wide> value = Exact(op, a.value, b.value);
    if (!value) return {0, ArithmeticFault::kDivisionByZero};
    if (*value < INT64_MIN || *value > INT64_MAX) return {0, ArithmeticFault::kOverflow};
    return {*value};
  }

  // The integer by definition; nothing for a division by 0.
  std::optional<Wide> Exact(const std::string& op, Wide a, Wide b) const {
    if (op == "not ") return a == 0;
    if (op == "==") return a == b;
    if (op == "!=") return a != b;
    if (op == "<") return a < b;
    if (op == "<=") return a <= b;
    if (op == ">") return a > b;
    if (op == ">=") return a >= b;
    if (op == "+") return a + b;
    if (op == "-") return form_->operand_count == 1 ? -a : a - b;
    if (op == "*") return a * b;
    if (op == "min") return a < b ? a : b;
    if (op == "max") return a < b ? b : a;
    if (b == 0) return std::nullopt;
    const Wide width = b < 0 ? -b : b;
    const Wide beyond = (a % width + width) % width;  // What a exceeds a multiple of b by, >= 0.
    const Wide above = beyond == 0 ? a : a - beyond + width;
    const Wide below = a - beyond;
    if (op == "align") return above;
    if (op == "//") return (b > 0 ? below : above) / b;
    if (op == "ceildiv") return (b > 0 ? above : below) / b;
    return a - (b > 0 ? below : above);  // %
  }

  const Form* form_ = nullptr;  // Null for a leaf.
  int name_ = -1;               // Of a leaf; negative if it is a number.
  int64_t number_ = 0;
  std::array<std::unique_ptr<RandomExpression>, 3> operands_;
};

}  // namespace coppice
