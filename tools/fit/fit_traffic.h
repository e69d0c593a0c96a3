// Which sizes the programs of a package get called with, by logs and tables of servers.
//
// Units: elements of a symbol. Threads: pure functions, apart from the file system.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "coppice/padding/size_histogram.h"
#include "coppice/runtime/manifest.h"

#include "tools/fit/fit.h"
#include "tools/support/console.h"

namespace coppice {

// One program that traffic calls. Its other symbols stay as they are.
struct ProgramTraffic {
  int program = 0;               // Of the manifest.
  int symbol = 0;                // The one that traffic gives sizes of.
  std::string name;              // "decode.batch".
  std::string column;            // "decode_rows".
  std::vector<int64_t> extents;  // Of each symbol, but for that one: as `at` says, else its hint,
                                 // else the least it may be.
  int64_t limit = 1;             // The last bucket.
  int64_t beyond = 0;            // The largest size above it, which runs without a graph; 0: none.
  bool simulated = false;        // From requests.
  double refused = 0;            // Calls of sizes that the package does not allow.
  int64_t align = 1;             // What sizes are a multiple of.
  SizeHistogram sizes;           // Of those that it allows; one at least is up to the limit.
};

// By FitOptions::sizes. Without any, those of a decoder, if the package is one: decode.batch of
// decode_rows and prefill.length of mixed_tokens. Where files have no such columns but requests,
// the steps of a server are simulated that takes as many sequences and tokens as the programs hold.
//
// Errors: kInvalidArgument  a name of no program or symbol, one that is there twice, a size that no
//                           call may have, no sizes and no decoder, or no call up to a limit: what
//                           there is; otherwise as ReadTraffic and ReadRequests.
absl::StatusOr<std::vector<ProgramTraffic>> ReadFitTraffic(const package::Manifest& manifest,
                                                           const FitOptions& options,
                                                           const Console& console);

}  // namespace coppice
