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
#include "coppice/runtime/package_uses.h"

#include "graphs/package/frame.h"
#include "graphs/package/step_kernels.h"
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
  std::string Identity() const override;
  VariantChoices& variants() const override { return *variants_; }

 private:
  class Walk;

  // Which buffers a program's steps are the first and the last to name.
  struct Schedule {
    std::vector<std::vector<int>> begins;  // Per step.
    std::vector<std::vector<int>> ends;
    std::vector<bool> named;  // Per buffer: any step does.
  };
  static Schedule ScheduleOf(const package::Manifest& manifest, const package::Program& program);

  PackageSource(const package::LoadedPackage& package, int program, const StepKernels& kernels);

  // Finds the kernels that have several variants.
  void ListVariants(const ProgramSpec& spec);

  const package::Manifest& manifest() const { return package_.manifest(); }

  const package::LoadedPackage& package_;
  const int program_;
  const StepKernels& kernels_;
  std::vector<Tensor> constants_;
  std::map<std::string, StepFunction> functions_;
  std::vector<int> symbol_words_;  // Of the parameter block.
  std::vector<int> scalar_words_;  // -1: not there.
  int random_word_ = -1;
  std::vector<Schedule> schedules_;  // Per program.
  std::unique_ptr<VariantChoices> variants_;
  std::vector<int> choice_of_kernel_;  // Per kernel of the manifest; -1: it has one variant.
};

}  // namespace coppice::internal
