// What a profile knows a program by. Private to graphs/.
//
// Threads: pure functions.

#pragma once

#include <string>

#include "graphs/program/program.h"

namespace coppice::internal {

// "package:" and the identity of known steps, or "spec:" and the SHA-256 of the spec: all of it
// that says what the program takes, gives and promises, but its name, variant, policies and
// generator. Allocates.
std::string DigestOf(const Program& program);

}  // namespace coppice::internal
