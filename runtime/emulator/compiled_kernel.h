// A launch of a kernel that is executed as PTX.
//
// Threads: any thread; several at once.

#pragma once

#include "runtime/emulator/outcome.h"
#include "runtime/emulator/work.h"

namespace coppice::emulator {

// Requires: the kernel has PTX.
Outcome RunCompiled(const KernelWork& work, const Surroundings& surroundings);

}  // namespace coppice::emulator
