// Finds the buffers that a step of a package reads and writes, the real sizes that it reads, and
// all amounts of a program.
//
// Threads: pure functions. Cost: allocates.

#pragma once

#include <functional>
#include <vector>

#include "coppice/runtime/manifest.h"

namespace coppice::package {

// The buffers and sizes that a step uses, by index, in the order and as often as the manifest names
// them.
struct StepUses {
  std::vector<int> reads;  // Buffers; one that is read and written is in both lists.
  std::vector<int> writes;
  std::vector<int> real_symbols;
  std::vector<int> real_scalars;
  std::vector<int> scratches;
};

// A child program reads its inputs, writes its outputs, and does both to inputs that it mutates.
// Requires: a step of a program of `manifest`.
StepUses UsesOf(const Manifest& manifest, const Step& step);

// `program` and the programs that run inside it, each once, in no particular order. Requires: an
// index of `manifest`. Cost: O(steps of these programs), however often one is inside another.
std::vector<int> ProgramsWithin(const Manifest& manifest, int program);

// The buffer whose bytes `buffer` uses: itself, unless it is an alias.
int RootOf(const Program& program, int buffer);

// The steps that need a buffer or an alias of it, from the first to the last. {-1, -1}: none.
struct Lifetime {
  int first = -1;
  int last = -1;
};

// The lifetime of each buffer of `program`.
std::vector<Lifetime> LifetimesOf(const Manifest& manifest, const Program& program);

// Calls `see` with every amount of a program: sizes, strides, grids, arguments, offsets, counts.
// Conditions of steps and of kernels' specialisations are passed as amounts, too.
void ForEachAmount(const Program& program, const std::function<void(const Amount&)>& see);

}  // namespace coppice::package
