// What ptxas refuses of the instructions of sm_90 that copy, multiply and wait asynchronously.
//
// Threads: pure functions.

#pragma once

#include <string>
#include <string_view>

#include "runtime/emulator/ptx/syntax.h"

namespace coppice::ptx {

// Whether only an architecture with an `a` has the instruction, as sm_90a.
bool NeedsSpecificTarget(std::string_view opcode);

// Whether it is an arrival of several, or one that expects bytes, which sm_90 is the first to have.
bool IsArrivalOfSm90(const Instruction& instruction);

// What is wrong with it, for a message behind its opcode; empty: nothing that is known.
std::string WhatIsWrong(const Instruction& instruction);

}  // namespace coppice::ptx
