// Policies as Python says them: their buckets, policies learned from sizes, and those of running
// programs.
//
// Threads: the GIL is held; it is released while buckets are learned.

#pragma once

#include "python/core/nanobind.h"

namespace coppice::python {

// Adds policy_buckets, learn_policy, and Program.rebucket, policy, set_policy, observed and
// set_observed. Behind BindPrograms.
void BindPadding(nanobind::module_& module);

}  // namespace coppice::python
