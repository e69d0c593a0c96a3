// A run that hands its steps to a family's check.

#include "graphs/record/sized_run.h"

#include <utility>

#include "coppice/base/status.h"

#include "graphs/record/planned_context.h"

namespace coppice::internal {
namespace {

class SizedContext final : public PlannedContext {
 public:
  SizedContext(const SizedRun& sized, StepSink& sink)
      : PlannedContext(sized.driver,
                       sized.memory,
                       sized.run,
                       sized.planned.script,
                       sized.planned.plan,
                       sized.planned.base,
                       RequestSize::kAtMost),
        sink_(sink) {}

  // Steps have none.
  absl::Status Break(EagerStep /*step*/) override {
    return FailedPrecondition("program '{}' breaks between its steps", spec_.name);
  }

 private:
  absl::Status Reach() override { return absl::OkStatus(); }
  void Note(const ScriptEvent& /*event*/) override {}
  absl::Status CopyBytes(DeviceAddress target, DeviceAddress source, int64_t bytes) override {
    return program_.steps->Copy({.target = target, .source = source, .bytes = bytes}, sink_);
  }

  StepSink& sink_;
};

absl::StatusOr<std::vector<Tensor>> RunInto(const SizedRun& sized, FamilyCheck& sink) {
  SizedContext context(sized, sink);
  absl::Status ran = sized.run.program->steps->RunWith(sized.variants, context, sink);
  absl::StatusOr<std::vector<Tensor>> outputs =
      ran.ok() ? context.TakeOutputs() : absl::StatusOr<std::vector<Tensor>>(ran);
  if (absl::IsOutOfRange(outputs.status())) return outputs.status();
  ran = context.Finish(outputs.status());
  // Requests that the bucket does not make, or not of that size.
  if (IsDeparture(ran)) return absl::OutOfRangeError(MessageOf(ran));
  COPPICE_RETURN_IF_ERROR(ran);
  return outputs;
}

}  // namespace

absl::StatusOr<SizedSteps> StepsOf(const SizedRun& sized, const Family& family) {
  FamilyCheck check(family);
  SizedSteps steps;
  COPPICE_ASSIGN_OR_RETURN(steps.outputs, RunInto(sized, check));
  COPPICE_ASSIGN_OR_RETURN(steps.setting, check.Finish());
  return steps;
}

}  // namespace coppice::internal
