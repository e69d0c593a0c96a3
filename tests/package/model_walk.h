// Walks a manifest's model as its reader's users do: every index, every expression.
//
// Threads: stateless.

#pragma once

#include "coppice/runtime/manifest.h"

namespace coppice::package {

// Fails the test where the model names something that is not there, or breaks what manifest.h
// promises. Shares no code with the reader.
void WalkModel(const Manifest& manifest);

}  // namespace coppice::package
