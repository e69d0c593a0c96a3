// The graphs of a session as drawings, one file per node, for Graphviz's `dot`.
//
// Threads: as the session.

#pragma once

#include <string>

#include "absl/status/status.h"

#include "coppice/graphs/session.h"

namespace coppice {

// "decode-8x128-lane0-3.dot": program, variant, bucket, lane and number of a recording. No two
// recordings of a session have the same name, and none leaves its folder: what is no letter, digit,
// dot, dash or underscore of ASCII is an underscore.
std::string GraphFileName(const NodeInfo& node);

// Writes the drawing of every node that the session has into `folder`, which is there, over what
// was there before. Errors: as WriteTextFile and Session::Dump; kInvalidArgument if a file would be
// written over `input`, which may be empty.
absl::Status WriteGraphFiles(const Session& session,
                             const std::string& folder,
                             const std::string& input);

}  // namespace coppice
