// What other libraries are given and give: memory of ours, and graphs of theirs.
//
// Threads: the GIL is held; it is released while a copy is queued and a graph is added.

#pragma once

#include <cstdint>

#include "python/core/nanobind.h"

namespace coppice::python {

class Device;

// The number of the device that has memory at an address; `device`'s own if the driver knows none.
// Cost: driver calls.
int32_t OrdinalOf(const Device& device, uint64_t address);

// Adds Device.copy, fill, driver_function and lend_memory, Context.add_graph and
// external_stats. Behind BindDevices and BindContexts.
void BindExternals(nanobind::module_& module);

}  // namespace coppice::python
