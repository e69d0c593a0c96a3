// Reads PTX text.
//
// Module scope: .version, .target, .address_size, .file, .section (skipped), .pragma (skipped),
// variables with initialisers, functions, kernels, declarations, .alias. Inside functions: nested
// scopes (names of an inner scope may repeat those of an outer one and are told apart), labels,
// .callprototype, .branchtargets, .loc, inline comments.
//
// Threads: pure functions.

#pragma once

#include <string>

#include "absl/status/statusor.h"

#include "runtime/emulator/ptx/syntax.h"

namespace coppice::ptx {

// Errors: kInvalidArgument  "line 12: ..." with what was found and what was expected. Cost: linear
// in the text; at most a few bytes of memory per byte of text.
absl::StatusOr<Module> Parse(std::string text);

}  // namespace coppice::ptx
