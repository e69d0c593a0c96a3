// Which buffers a step of a package names, and what it does with them.
//
// Threads: pure functions. Cost: allocates.

#pragma once

#include <vector>

#include "coppice/runtime/manifest.h"

namespace coppice::package {

// One place of a step that names a buffer.
struct Use {
  int buffer = 0;
  bool reads = false;
  bool writes = false;
};

// All uses of a step, in the order in which the manifest has them; a child uses its inputs, and
// writes its outputs and those inputs that it mutates. Requires: a step of a program of `manifest`.
std::vector<Use> BufferUsesOf(const Manifest& manifest, const Step& step);

// The steps that need a temporary: from the first that names it to the last. {-1, -1}: none does.
struct Lifetime {
  int first = -1;
  int last = -1;
};

// Per buffer of `program`.
std::vector<Lifetime> LifetimesOf(const Manifest& manifest, const Program& program);

}  // namespace coppice::package
