// The steps of a package's program, for a session. Private to graphs/.
//
// Temporaries are requested before the first step that names them and freed behind the last one, so
// that the order of steps is all that a plan needs to know.
//
// Threads: immutable; runs of several threads at once.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "coppice/base/tensor.h"
#include "coppice/graphs/package_program.h"
#include "coppice/graphs/program.h"
#include "coppice/runtime/loaded_package.h"

#include "graphs/package/frame.h"
#include "graphs/package/listed_variants.h"
#include "graphs/package/step_kernels.h"
#include "graphs/package/step_schedule.h"
#include "graphs/program/step_source.h"

namespace coppice::internal {

class PackageSource final : public StepSource {
 public:
  // `spec` is what SpecOf made of program `program` of the package; `constants` are those of the
  // manifest, per index. `kernels` and the package outlive it. Errors: kInvalidArgument a function
  // that nobody gave; kUnimplemented a child that this cannot run: which, and why.
  static absl::StatusOr<std::unique_ptr<const PackageSource>> Create(
      const StepKernels& kernels,
      const package::LoadedPackage& package,
      int program,
      const ProgramSpec& spec,
      std::vector<Tensor> constants,
      std::map<std::string, StepFunction> functions);

  absl::Status Run(CallContext& context, StepSink& sink) const override;
  absl::Status RunWith(const VariantChoice& choice,
                       CallContext& context,
                       StepSink& sink) const override;
  absl::Status Copy(const MemoryCopy& copy, StepSink& sink) const override;
  std::string Identity() const override;
  Origin origin() const override;
  VariantChoices& variants() const override { return *variants_.choices; }

 private:
  class Walk;

  PackageSource(const package::LoadedPackage& package, int program, const StepKernels& kernels);

  const package::Manifest& manifest() const { return package_.manifest(); }

  const package::LoadedPackage& package_;
  const int program_;
  const StepKernels& kernels_;
  std::vector<Tensor> constants_;
  std::map<std::string, StepFunction> functions_;
  std::vector<int> symbol_words_;  // Of the parameter block.
  std::vector<int> scalar_words_;  // -1: not there.
  int random_word_ = -1;
  bool launches_moves_ = false;  // Fills and copies are launches, which an executable lets set.
  std::vector<StepSchedule> schedules_;  // Per program.
  ListedVariants variants_;
};

}  // namespace coppice::internal
