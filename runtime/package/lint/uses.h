// Which buffers a step names, and which real sizes it reads.
//
// Threads: stateless. Cost: allocates.

#pragma once

#include <functional>
#include <vector>

#include "coppice/runtime/manifest.h"

namespace coppice::package {

struct StepUses {
  std::vector<int> reads;  // Buffers; those that are also written are in both.
  std::vector<int> writes;
  std::vector<int> real_symbols;
  std::vector<int> real_scalars;
  std::vector<int> scratches;
};

StepUses UsesOf(const Manifest& manifest, const Step& step);

// Calls `see` with every amount of a program: sizes, strides, grids, arguments, offsets, counts.
// Conditions of steps and of kernels' specialisations are passed as amounts, too.
void ForEachAmount(const Program& program, const std::function<void(const Amount&)>& see);

}  // namespace coppice::package
