// Functions of `call` steps that compute on the host, as work of the emulator. Private to capi/.
//
// Each is a launch of one kernel, whose parameters hold the tensors: the emulator runs it in the
// order of its stream or graph, and checks that order by the bytes of the tensors.
//
// Threads: any; the function runs on the thread that makes the emulator's work go on.

#pragma once

#include "absl/status/status.h"

#include "coppice/graphs/package_program.h"

#include "capi/handles.h"

namespace coppice::capi {

// Queues `function` on the call's stream. `device` and `function` outlive every launch and replay
// of it. Errors: kFailedPrecondition a GPU; kInvalidArgument more tensors or options than fit.
absl::Status LaunchHostOperation(coppice_device& device,
                                 StepFunctionRecord& function,
                                 const FunctionCall& call);

}  // namespace coppice::capi
