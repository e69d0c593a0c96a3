// When the buffers of a package's program are needed. Private to graphs/.
//
// Threads: a pure function.

#pragma once

#include <vector>

#include "coppice/runtime/manifest.h"

namespace coppice::internal {

// Which buffers a program's steps are the first and the last to name.
struct StepSchedule {
  std::vector<std::vector<int>> begins;  // Per step.
  std::vector<std::vector<int>> ends;
  std::vector<bool> named;  // Per buffer: any step does.
};
StepSchedule ScheduleOf(const package::Manifest& manifest, const package::Program& program);

}  // namespace coppice::internal
