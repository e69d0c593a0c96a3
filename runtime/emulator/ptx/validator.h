// Whether a module says what ptxas takes: names, prototypes, types of operands, spaces of
// addresses, and no instruction that its architecture lacks.
//
// The rest of the executor could do without: it takes bits as they are. But nobody shall find out
// on a GPU. What the decoder finds by itself is not looked at here.
//
// Threads: pure functions.

#pragma once

#include "absl/status/status.h"

#include "runtime/emulator/ptx/syntax.h"

namespace coppice::ptx {

// `capability` is that of .target: 90 of sm_90a. Errors: InvalidArgument, "line 12: ...".
absl::Status Validate(const Module& module, int capability);

// Whether two declarations say the same of a function.
bool AreSame(const Prototype& a, const Prototype& b);

}  // namespace coppice::ptx
