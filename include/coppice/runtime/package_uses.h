// Which buffers a step of a package names and what it does with them, and which real sizes it
// reads.
//
// Threads: pure functions. Cost: allocates.

#pragma once

#include <vector>

#include "coppice/runtime/manifest.h"

namespace coppice::package {

// What a step uses, by index, in the order in which the manifest names it and as often.
struct StepUses {
  std::vector<int> reads;  // Buffers; those that are also written are in both.
  std::vector<int> writes;
  std::vector<int> real_symbols;
  std::vector<int> real_scalars;
  std::vector<int> scratches;
};

// Of a child, its inputs are read, its outputs written, and the inputs that it mutates both.
// Requires: a step of a program of `manifest`.
StepUses UsesOf(const Manifest& manifest, const Step& step);

// `program` and the programs that run inside it, each once, in no particular order. Requires: an
// index of `manifest`. Cost: of their steps, however often a program is inside another.
std::vector<int> ProgramsWithin(const Manifest& manifest, int program);

// The buffer whose bytes `buffer` has: itself, unless it is an alias.
int RootOf(const Program& program, int buffer);

// The steps that need a buffer, or an alias of it: from the first that names it to the last. {-1,
// -1}: none does.
struct Lifetime {
  int first = -1;
  int last = -1;
};

// Per buffer of `program`.
std::vector<Lifetime> LifetimesOf(const Manifest& manifest, const Program& program);

}  // namespace coppice::package
