// From the lifetimes of buffers to what each step begins and ends.

#include "graphs/package/step_schedule.h"

#include "coppice/runtime/package_uses.h"

namespace coppice::internal {

StepSchedule ScheduleOf(const package::Manifest& manifest, const package::Program& program) {
  const std::vector<package::Lifetime> lifetimes = package::LifetimesOf(manifest, program);
  StepSchedule schedule;
  schedule.begins.resize(program.steps.size());
  schedule.ends.resize(program.steps.size());
  for (int i = 0; i < static_cast<int>(lifetimes.size()); ++i) {
    const package::Lifetime& lifetime = lifetimes[static_cast<size_t>(i)];
    schedule.named.push_back(lifetime.first >= 0);
    if (lifetime.first < 0) continue;
    schedule.begins[static_cast<size_t>(lifetime.first)].push_back(i);
    schedule.ends[static_cast<size_t>(lifetime.last)].push_back(i);
  }
  return schedule;
}

}  // namespace coppice::internal
