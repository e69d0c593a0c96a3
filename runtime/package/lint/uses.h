// The amounts of a program.
//
// Threads: stateless. Cost: allocates.

#pragma once

#include <functional>

#include "coppice/runtime/manifest.h"
#include "coppice/runtime/package_uses.h"

namespace coppice::package {

// Calls `see` with every amount of a program: sizes, strides, grids, arguments, offsets, counts.
// Conditions of steps and of kernels' specialisations are passed as amounts, too.
void ForEachAmount(const Program& program, const std::function<void(const Amount&)>& see);

}  // namespace coppice::package
