// Every buffer of the calls of a case, as files to look at.
//
//   FOLDER/17/buf3.npy      buffer buf3 of the program, as call 17 left it
//
// The calls run at their own sizes, without graphs, in a package whose temporaries are outputs. A
// play ends at the first call in which something is wrong.
//
// Threads: one at a time per folder.

#pragma once

#include <string>

#include "absl/status/status.h"

#include "coppice/graphs/case_file.h"

#include "tools/replay/case_player.h"

namespace coppice {

// Errors: as PlayCase; kUnimplemented the package does not open so, because a program of the case
// is part of another one of it; kFailedPrecondition a file cannot be written.
absl::Status WriteBuffers(const Case& value, const PlaySource& source, const std::string& folder);

}  // namespace coppice
