// Where the ways of a branch meet again: the first instruction that all of them come to.
//
// Units: indices of Code::instrs. Threads: pure functions.

#pragma once

#include <cstdint>
#include <vector>

#include "runtime/emulator/ptx/code.h"

namespace coppice::ptx {

inline constexpr uint32_t kNoJoin = ~uint32_t{0};  // They meet nowhere in the function.

// By instruction; kNoJoin of those that are no branches. Cost: of a pass or two over the function.
std::vector<uint32_t> JoinPoints(const Code& code);

// What lanes may execute behind the branch at `branch`, or the call or end there, before `join`.
std::vector<uint32_t> InstructionsBetween(const Code& code, uint32_t branch, uint32_t join);

}  // namespace coppice::ptx
