// A session's options and a program's spec as JSON. A trace has both.
//
//   {"stance": "record", "warmup_runs": 1, "graphs_per_program_max": 1024, ...}
//   {"claim": "masked", "gate": "session", "inputs": [{"name": "x", "dtype": "f32",
//    "dims": [{"symbol": 0}, 64], "fill": {"kind": "zero", "value": "0"}, ...}], ...}
//
// Fields have the names of the headers, and options of a group have their names in C. Enumerators
// are written as words. A number that may have a fraction is a string that keeps every bit. A dim
// is a size, or refers to an index: {"symbol": i}, {"extent": i} or {"ragged": i}.
//
// Units: as SessionOptions and ProgramSpec. Threads: pure functions.

#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

#include "coppice/graphs/program.h"
#include "coppice/graphs/session_options.h"

namespace coppice {

// All options except functions and the trace. Allocates, as do all functions here.
std::string WriteOptionsDocument(const SessionOptions& options);
// Reads what WriteOptionsDocument wrote; `where` names the document in errors. Errors:
// kInvalidArgument with the place.
absl::StatusOr<SessionOptions> ReadOptionsDocument(std::string_view text, const std::string& where);

// All of a program's spec except its name, variant, policies and generator. Different specs give
// different texts.
std::string WriteSpecDocument(const ProgramSpec& spec);
// Reads what WriteSpecDocument wrote; each symbol gets the policy `exact`. Errors: as
// ReadOptionsDocument.
absl::StatusOr<ProgramSpec> ReadSpecDocument(std::string_view text, const std::string& where);

}  // namespace coppice
