// A session's options and a program's spec as JSON: what a trace says of how its session was made.
//
//   {"stance": "record", "warmup_runs": 1, "graphs_per_program_max": 1024, ...}
//   {"claim": "masked", "gate": "session", "inputs": [{"name": "x", "dtype": "f32",
//    "dims": [{"symbol": 0}, 64], "fill": {"kind": "zero", "value": "0"}, ...}], ...}
//
// A field has the name that the header gives it, an option of a group the one that C has. An
// enumerator is its word, a number that may have a fraction a text with all of its bits. A dim is a
// size, or what it names: {"symbol": i}, {"extent": i} or {"ragged": i}.
//
// Units: as SessionOptions and ProgramSpec. Threads: pure functions.

#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

#include "coppice/graphs/program.h"
#include "coppice/graphs/session_options.h"

namespace coppice {

// All options but functions and the trace. Allocates, as all of these.
std::string WriteOptionsDocument(const SessionOptions& options);
// What was written; `where` names the document in errors. Errors: kInvalidArgument with the place.
absl::StatusOr<SessionOptions> ReadOptionsDocument(std::string_view text, const std::string& where);

// What a program takes, gives and promises: all of its spec but its name, variant, policies and
// generator. No two such specs have one text.
std::string WriteSpecDocument(const ProgramSpec& spec);
// What was written, with a policy of `exact` for each symbol; errors as ReadOptionsDocument.
absl::StatusOr<ProgramSpec> ReadSpecDocument(std::string_view text, const std::string& where);

}  // namespace coppice
