// Which inputs an output of a program depends on, at the sizes of a call.
//
// The program runs at the call's own sizes, and each input is followed as padding is
// (coppice/runtime/padding_reach.h): through loads, arithmetic, branches and addresses. So an
// output may be named although its value happens to be the same whatever the input holds, but none
// that depends on an input is left out, unless something cannot be followed.
//
// Threads: one at a time.

#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "tools/package/call_set.h"
#include "tools/package/package_device.h"

namespace coppice {

struct OutputInputs {
  std::string output;
  std::vector<std::string> inputs;  // Copied inputs, in the program's order; empty: none.
  std::vector<bool> reached;        // Per element, row-major: whether any input reaches it.
};

struct InputReach {
  std::vector<OutputInputs> outputs;  // In the program's order.
  std::vector<std::string> gaps;      // As Emulator::PaddingGaps; each once.
};

// Errors: kUnimplemented the device is no emulator; as ProgramRunner::Run. Cost: a run per six
// inputs, each several times as long as a checked run.
absl::StatusOr<InputReach> FollowInputs(const PackageDevice& device,
                                        int program,
                                        const CallSet& set,
                                        const std::vector<HostArray>& statics);

// "y depends on x, w; z depends on no copied input"
std::string TextOf(const InputReach& reach);

}  // namespace coppice
