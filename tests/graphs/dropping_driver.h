// A driver that queues nothing while `work_is_dropped`. The emulator allocates when it queues work
// or sets a node, so what is counted meanwhile is a session's own.
//
// Threads: one, and one such driver at a time, because a driver entry is a plain function.

#pragma once

#include "coppice/runtime/driver.h"

namespace coppice {

inline DriverTable queueing_table;
inline bool work_is_dropped = false;
inline int64_t nodes_set = 0;  // Of executables, dropped or not.

inline Driver DroppingDriver(const Driver& inner) {
  queueing_table = inner.table();
  DriverTable table = queueing_table;
  table.LaunchKernel = [](auto... arguments) {
    return work_is_dropped ? CuResult::kSuccess : queueing_table.LaunchKernel(arguments...);
  };
  table.GraphLaunch = [](auto... arguments) {
    return work_is_dropped ? CuResult::kSuccess : queueing_table.GraphLaunch(arguments...);
  };
  table.GraphExecKernelNodeSetParams = [](auto... arguments) {
    ++nodes_set;
    return work_is_dropped ? CuResult::kSuccess
                           : queueing_table.GraphExecKernelNodeSetParams(arguments...);
  };
  return Driver(table, inner.kind());
}

}  // namespace coppice
