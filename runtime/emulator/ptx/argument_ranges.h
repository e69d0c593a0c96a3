// What is left of device memory for a launch that is held to its arguments.
//
// Threads: pure functions.

#pragma once

#include <span>
#include <vector>

#include "runtime/emulator/ptx/launch.h"

namespace coppice::ptx {

// The parts of `memory` that arguments stand for: ascending and disjoint; where arguments overlap,
// writable if one is. Both are as Environment has them.
std::vector<MemoryRange> Within(std::span<const MemoryRange> memory,
                                std::span<const ArgumentRange> arguments);

}  // namespace coppice::ptx
