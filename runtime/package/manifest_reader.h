// From the JSON of a manifest to its model: what all parts of the reader share.
//
// Each part reads one kind of object and finds in it whatever can be found without a device and
// without an image. Order matters only where one names another: files, modules, kernels and
// constants, then of all programs what they are called with, then steps.
//
// Threads: one at a time.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "coppice/runtime/manifest.h"

#include "base/json_document.h"

namespace coppice::package {

// A sum over a manifest that bounds what its expressions take.
struct ExpressionBudget {
  static constexpr int64_t kCharactersMax = int64_t{8} << 20;
  int64_t characters = 0;
};

// What expressions at one place may read.
class Scope {
 public:
  // The symbols and scalars of `program`, then `values`. Requires: both outlive it.
  Scope(const Program& program, ExpressionBudget& budget, const std::vector<std::string>& values);

  // An expression that reads no scalar of the parameter block. Errors: kInvalidArgument.
  absl::StatusOr<Expression> ExpressionOf(Json value) const;
  // An integer from `min` on, or an expression.
  absl::StatusOr<Amount> AmountOf(Json value, int64_t min) const;
  // What an absent one is: `otherwise`.
  absl::StatusOr<Amount> AmountOr(Json value, int64_t otherwise, int64_t min) const;
  // A list of sizes, at most `rank_max` of them.
  absl::StatusOr<std::vector<Amount>> AmountsOf(Json value, int64_t rank_max) const;
  // A condition, which may read all scalars.
  absl::StatusOr<std::string> GuardOf(Json value) const;

  const Program& program() const { return *program_; }

 private:
  absl::StatusOr<Expression> Parse(Json value) const;

  const Program* program_;
  ExpressionBudget* budget_;
  std::vector<std::string> names_;
};

// Elements and strides of an input, an output, a temporary or a view: `dtype`, `shape` and
// `strides` of `object`.
struct Layout {
  DType dtype = DType::kFloat32;
  std::vector<Amount> shape;
  std::vector<Amount> strides;
};
absl::StatusOr<Layout> LayoutOf(Json object, const Scope& scope);

// The kernels of a manifest whose files and modules are known.
absl::StatusOr<std::vector<Kernel>> ReadKernels(Json kernels, const Manifest& manifest);

// What a program is called with, and its buffers; not its steps.
absl::StatusOr<Program> ReadProgram(Json program,
                                    const Manifest& manifest,
                                    ExpressionBudget& budget);
// The buffers of `object`, into `program`, whose symbols and scalars are known.
absl::Status ReadBuffers(Json object,
                         const Manifest& manifest,
                         ExpressionBudget& budget,
                         Program& program);

// Reads the steps of programs of which everything else is known.
absl::StatusOr<std::vector<Step>> ReadSteps(Json steps,
                                            const Manifest& manifest,
                                            const Program& program,
                                            ExpressionBudget& budget);

// {"buffer", "offset"?} in an object that may have other fields.
absl::StatusOr<Operand> ReadOperand(Json object, const Scope& scope);
// That a step may read, or write, a buffer; `operand` is where the manifest names it.
absl::Status CheckAccess(Json operand, const Program& program, int buffer, Access access);
// One argument of a launch of `kernel`.
absl::StatusOr<Argument> ReadArgument(Json argument, const Scope& scope, const Kernel& kernel);

// The whole manifest, whose digest has been checked and is `sha256`. Errors: kInvalidArgument, or
// kUnimplemented for a version or a requirement that this library does not know.
absl::StatusOr<Manifest> ReadManifest(JsonDocument& document, const std::string& sha256);

// Whether a file of a package may have this name.
bool IsFileName(std::string_view name);

}  // namespace coppice::package
