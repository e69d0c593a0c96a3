// The two replaced entries and their switch.

#include "tools/bench/instant_driver.h"

#include <atomic>

namespace coppice {
namespace {

std::atomic<bool> launches_nothing = false;
DriverTable inner_table;

CuResult GraphLaunchOrNothing(CuGraphExec exec, CuStream stream) {
  if (launches_nothing.load(std::memory_order_relaxed)) [[likely]]
    return CuResult::kSuccess;
  return inner_table.GraphLaunch(exec, stream);
}

// NOLINTNEXTLINE(readability-function-size): CUDA's signature.
CuResult LaunchKernelOrNothing(CuFunction function,
                               unsigned grid_x,
                               unsigned grid_y,
                               unsigned grid_z,
                               unsigned block_x,
                               unsigned block_y,
                               unsigned block_z,
                               unsigned shared_bytes,
                               CuStream stream,
                               void** parameters,
                               void** extra) {
  if (launches_nothing.load(std::memory_order_relaxed)) [[likely]]
    return CuResult::kSuccess;
  return inner_table.LaunchKernel(function, grid_x, grid_y, grid_z, block_x, block_y, block_z,
                                  shared_bytes, stream, parameters, extra);
}

DriverTable Replace(const DriverTable& inner) {
  DriverTable table = inner;
  table.GraphLaunch = &GraphLaunchOrNothing;
  table.LaunchKernel = &LaunchKernelOrNothing;
  return table;
}

}  // namespace

InstantDriver::InstantDriver(const Driver& inner) : driver_(Replace(inner.table()), inner.kind()) {
  inner_table = inner.table();
  Switch(false);
}

void InstantDriver::Switch(bool instant) {
  launches_nothing.store(instant, std::memory_order_relaxed);
}

}  // namespace coppice
