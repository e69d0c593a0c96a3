// Arguments that a kernel is given and never reads: what a compiler or a person has put into the
// code in their place.
//
// Threads: pure functions.

#pragma once

#include <vector>

#include "coppice/runtime/package.h"

namespace coppice {

// Of each parameter of `kernel`, whether its PTX names it anywhere behind its declaration; empty if
// the package has no PTX of it.
std::vector<bool> ParametersRead(const package::Package& package, const package::Kernel& kernel);

}  // namespace coppice
