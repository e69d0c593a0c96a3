// Work out of the arguments of a call, which become a node of a graph or an operation of a stream.
//
// Each function checks arguments, and copies what CUDA copies at the call; it leaves `work` alone
// unless it succeeds.
//
// Threads: under the emulator's mutex.

#pragma once

#include "runtime/emulator/state.h"

namespace coppice::emulator {

CuResult MakeKernelWork(State& state,
                        const CuKernelNodeParams& params,
                        const LaunchAttributes& attributes,
                        Work* work);
// Gives a launch other attributes.
CuResult ChangeAttributes(State& state, const LaunchAttributes& attributes, KernelWork& work);
// What a list of launch attributes says.
CuResult ReadLaunchAttributes(const CuLaunchAttribute* list,
                              unsigned count,
                              LaunchAttributes* attributes);
CuResult MakeCopyWork(State& state, const CuMemcpyParams& params, Work* work);
CuResult MakeFillWork(State& state, const CuMemsetNodeParams& params, Work* work);
CuResult MakeHostWork(const CuHostNodeParams& params, Work* work);

}  // namespace coppice::emulator
