// Runs of a program whose steps are known at other sizes than those that it was planned at, for a
// family of executables. Private to graphs/.
//
// Threads: as the family.

#pragma once

#include "absl/status/statusor.h"

#include "coppice/runtime/driver.h"

#include "graphs/lane/lane_memory.h"
#include "graphs/node/exact_sizes.h"
#include "graphs/program/variant_choices.h"
#include "graphs/record/run_context.h"
#include "graphs/steps/family.h"

namespace coppice::internal {

// A run, and where its bytes are planned.
struct SizedRun {
  const Driver& driver;
  LaneMemory& memory;
  const RunRequest& run;  // Of the exact layout and sizes.
  const VariantChoice& variants;
  const BucketPlan& planned;
};

// What the family has to be set to for these steps, if it has them and the plan has room for them.
// Errors: kOutOfRange it has not; otherwise as the program's steps.
absl::StatusOr<SizedSteps> StepsOf(const SizedRun& sized, const Family& family);

}  // namespace coppice::internal
