// Guards: conditions on a call's extents and scalars under which a program may run.
//
// A guard is an expression (coppice/base/expression.h) that holds if its value is not 0. The guards
// of a program are compiled to one flat list of operations, which computes common parts of several
// guards once:
//
//   n % 8 == 0               n, 8, n % 8, 0, n % 8 == 0    5 operations
//   n % 8 == 0 or m > n      m, n < m, or                  3 more: the left side is already there
//
// Guards run in order of cost, which is the number of operations that a guard adds to those before
// it, so that a failure is found early. A caller can name the guard that failed:
//
//   if (const std::optional<int> guard = guards.FirstFailing(values))
//     fmt::print("guard '{}' failed: {}\n", guards.source(*guard),
//                guards.DescribeValues(*guard, values));        // guard 'n % 8 == 0' failed: n =
//                12
//
// Units: values are those of the names, extents in elements. Threads: immutable once compiled;
// every const method may be called from any thread.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "coppice/base/expression.h"

namespace coppice {

struct GuardSpec {
  std::string text;  // An expression over the names that are given to GuardProgram::Compile.

  friend bool operator==(const GuardSpec&, const GuardSpec&) = default;
};

// Bounds on the extents of a symbol. The defaults allow all extents.
struct ExtentBounds {
  int64_t min = 0;          // >= 0.
  int64_t max = INT64_MAX;  // >= min.
  int64_t multiple_of = 1;  // >= 1.

  friend bool operator==(const ExtentBounds&, const ExtentBounds&) = default;
};

// Appends `name >= min`, `name <= max` and `name % multiple_of == 0`, except for bounds that have
// their default. Requires: the ranges above, and IsExpressionName(name) (checked). Cost: allocates.
void AppendBoundGuards(const std::string& name,
                       const ExtentBounds& bounds,
                       std::vector<GuardSpec>& guards);

class GuardProgram {
 public:
  static constexpr int kOperationsMax = 1024;  // Different operations in one program.

  // A program without guards, which every call passes.
  GuardProgram() = default;

  // Compiles `guards`. In them, names[i] is the name of values[i]. Errors: those of
  // Expression::Parse, with the number of the guard; kOutOfRange above kOperationsMax.
  static absl::StatusOr<GuardProgram> Compile(std::span<const GuardSpec> guards,
                                              std::span<const std::string> names);

  // The first guard in running order that does not hold at these values, as its index in the list
  // given to Compile; nullopt if all hold. A guard with an arithmetic fault does not hold.
  // Requires: as many values as names, unless there are no guards (checked). Cost: O(op_count()),
  // one branch without guards; never allocates, takes no lock.
  std::optional<int> FirstFailing(std::span<const int64_t> values) const {
    if (checks_.empty()) return std::nullopt;
    return FindFailing(values);
  }

  // For messages. Requires: 0 <= guard < guard_count() (checked).
  const Expression& expression(int guard) const;
  const std::string& source(int guard) const { return expression(guard).text(); }
  // Expression::Describe of a guard. Requires: values as in FirstFailing (checked). Cost:
  // allocates.
  std::string DescribeValues(int guard, std::span<const int64_t> values) const {
    return expression(guard).Describe(names_, values);
  }

  int guard_count() const { return static_cast<int>(expressions_.size()); }
  // Operations for a call that passes every guard.
  int op_count() const { return static_cast<int>(operations_.size()); }

 private:
  // A guard holds if slot `result` is true once slots [0, end) are filled.
  struct Check {
    int guard = 0;
    size_t end = 0;
    size_t result = 0;
  };

  std::optional<int> FindFailing(std::span<const int64_t> values) const;

  std::vector<Expression> expressions_;  // As given.
  std::vector<std::string> names_;
  std::vector<Operation> operations_;
  std::vector<Check> checks_;  // In the order in which they run; one per guard.
};

}  // namespace coppice
