// Guards: value numbering over the operations of all guards, then the order in which they run.

#include "coppice/graphs/guards.h"

#include <algorithm>
#include <array>
#include <map>
#include <tuple>
#include <utility>

#include "absl/status/status.h"
#include "fmt/format.h"

#include "coppice/base/check.h"
#include "coppice/base/status.h"

namespace coppice {
namespace {

bool IsCommutative(Operator op) {
  switch (op) {
    case Operator::kAdd:
    case Operator::kMultiply:
    case Operator::kMin:
    case Operator::kMax:
    case Operator::kEqual:
    case Operator::kNotEqual:
      return true;
    default:  // `and` and `or` do not mind a fault on the right, so their sides differ.
      return false;
  }
}

// The operations of several expressions, equal ones once.
class ValueNumbering {
 public:
  // Adds an expression and returns the number of its result; nullopt if there are too many
  // operations.
  std::optional<int16_t> Add(std::span<const Operation> operations) {
    std::vector<int16_t> numbers;  // By slot of the expression.
    for (Operation operation : operations) {
      if (!operation.is_leaf()) {
        for (int16_t& operand : operation.operands)
          operand = numbers[static_cast<size_t>(operand)];
        auto& [a, b, c] = operation.operands;
        if (IsCommutative(operation.op) && a > b) {
          std::swap(a, b);
          c = b;
        }
      }
      const auto [entry, is_first] =
          numbers_.emplace(Key(operation.op, operation.operands, operation.immediate),
                           static_cast<int16_t>(operations_.size()));
      if (is_first) operations_.push_back(operation);
      if (operations_.size() > static_cast<size_t>(GuardProgram::kOperationsMax))
        return std::nullopt;
      numbers.push_back(entry->second);
    }
    return numbers.back();
  }

  std::span<const Operation> operations() const { return operations_; }

 private:
  using Key = std::tuple<Operator, std::array<int16_t, 3>, int64_t>;

  std::map<Key, int16_t> numbers_;
  std::vector<Operation> operations_;
};

// Copies numbered operations into the order in which guards run.
class Schedule {
 public:
  explicit Schedule(std::span<const Operation> numbered)
      : numbered_(numbered), slots_(numbered.size(), -1) {}

  // Operations that the result `number` needs and that are not placed yet, operands first.
  std::vector<int16_t> Missing(int16_t number) const {
    std::vector<int16_t> missing;
    std::vector<bool> seen(numbered_.size());
    Visit(number, seen, missing);
    return missing;
  }

  void Place(std::span<const int16_t> numbers) {
    for (const int16_t number : numbers) {
      Operation operation = numbered_[static_cast<size_t>(number)];
      if (!operation.is_leaf()) {
        for (int16_t& operand : operation.operands)
          operand = slots_[static_cast<size_t>(operand)];
      }
      slots_[static_cast<size_t>(number)] = static_cast<int16_t>(operations_.size());
      operations_.push_back(operation);
    }
  }

  size_t slot(int16_t number) const {
    return static_cast<size_t>(slots_[static_cast<size_t>(number)]);
  }
  std::vector<Operation>& operations() { return operations_; }

 private:
  // No deeper than the operations of one expression.
  void Visit(int16_t number, std::vector<bool>& seen, std::vector<int16_t>& missing) const {
    const size_t index = static_cast<size_t>(number);
    if (slots_[index] >= 0 || seen[index]) return;
    seen[index] = true;
    if (!numbered_[index].is_leaf()) {
      for (const int16_t operand : numbered_[index].operands)
        Visit(operand, seen, missing);
    }
    missing.push_back(number);
  }

  const std::span<const Operation> numbered_;
  std::vector<int16_t> slots_;  // By number; -1 where not placed.
  std::vector<Operation> operations_;
};

}  // namespace

void AppendBoundGuards(const std::string& name,
                       const ExtentBounds& bounds,
                       std::vector<GuardSpec>& guards) {
  COPPICE_CHECK(IsExpressionName(name), "no expression can use this name");
  COPPICE_CHECK(0 <= bounds.min && bounds.min <= bounds.max, "bounds of no extent");
  COPPICE_CHECK(bounds.multiple_of >= 1, "an extent is a multiple of a positive number");
  if (bounds.min > 0) guards.push_back({fmt::format("{} >= {}", name, bounds.min)});
  if (bounds.max < INT64_MAX) guards.push_back({fmt::format("{} <= {}", name, bounds.max)});
  if (bounds.multiple_of > 1)
    guards.push_back({fmt::format("{} % {} == 0", name, bounds.multiple_of)});
}

absl::StatusOr<GuardProgram> GuardProgram::Compile(std::span<const GuardSpec> guards,
                                                   std::span<const std::string> names) {
  GuardProgram program;
  program.names_.assign(names.begin(), names.end());
  ValueNumbering numbering;
  struct Waiting {
    int guard;
    int16_t result;
  };
  std::vector<Waiting> waiting;
  for (size_t i = 0; i < guards.size(); ++i) {
    absl::StatusOr<Expression> expression = Expression::Parse(guards[i].text, names);
    if (!expression.ok())
      return MakeError(expression.status().code(), "GuardProgram::Compile: guard {}: {}", i,
                       MessageOf(expression.status()));
    const std::optional<int16_t> result = numbering.Add(expression->operations());
    if (!result)
      return MakeError(absl::StatusCode::kOutOfRange,
                       "GuardProgram::Compile: guard {} of {}, '{}', takes the total above {} "
                       "different operations; write fewer or simpler guards",
                       i, guards.size(), guards[i].text, kOperationsMax);
    program.expressions_.push_back(*std::move(expression));
    waiting.push_back({static_cast<int>(i), *result});
  }
  Schedule schedule(numbering.operations());
  while (!waiting.empty()) {
    size_t cheapest = 0;
    std::vector<int16_t> added = schedule.Missing(waiting[0].result);
    for (size_t i = 1; i < waiting.size(); ++i) {
      std::vector<int16_t> missing = schedule.Missing(waiting[i].result);
      if (missing.size() >= added.size()) continue;
      cheapest = i;
      added = std::move(missing);
    }
    schedule.Place(added);
    const Waiting next = waiting[cheapest];
    program.checks_.push_back({.guard = next.guard,
                               .end = schedule.operations().size(),
                               .result = schedule.slot(next.result)});
    waiting.erase(waiting.begin() + static_cast<std::ptrdiff_t>(cheapest));
  }
  program.operations_ = std::move(schedule.operations());
  return program;
}

std::optional<int> GuardProgram::FindFailing(std::span<const int64_t> values) const {
  COPPICE_CHECK(values.size() == names_.size(), "as many values as names");
  std::array<Computed, kOperationsMax> slots;  // NOLINT: filled before it is read.
  const std::span<const Operation> operations(operations_);
  size_t filled = 0;
  for (const Check& check : checks_) {
    Compute(operations.first(check.end), filled, values, slots);
    if (!slots[check.result].is_true()) return check.guard;
    filled = check.end;
  }
  return std::nullopt;
}

const Expression& GuardProgram::expression(int guard) const {
  COPPICE_CHECK(guard >= 0 && guard < guard_count(), "no such guard");
  return expressions_[static_cast<size_t>(guard)];
}

}  // namespace coppice
