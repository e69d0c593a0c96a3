// What a trace says of how its session was made: options and programs, read back from their JSON
// (coppice/graphs/trace_events.h).
//
// Units: as SessionOptions and ProgramSpec. Threads: pure functions.

#pragma once

#include <string>

#include "absl/status/statusor.h"

#include "coppice/graphs/program.h"
#include "coppice/graphs/session_options.h"
#include "coppice/padding/padding_policy.h"

#include "tools/prof/pool_trace.h"

namespace coppice {

// The options of the session, as far as calls depend on them: without checks, drawings and times of
// variants. Recordings in the background and gates are kept: whoever repeats calls has no use for
// either.
//
// Errors: kInvalidArgument  they cannot be read back.
absl::StatusOr<SessionOptions> OptionsOf(const PoolTrace& trace);

// The program as it was registered. Errors: as OptionsOf.
absl::StatusOr<ProgramSpec> SpecOf(const TracedProgram& program);

// The policy that a symbol was registered with, and one that it got later on, by its place in
// PoolTrace::policies.
absl::StatusOr<PaddingPolicy> PolicyOf(const TracedProgram& program, int symbol);
absl::StatusOr<PaddingPolicy> PolicyOf(const PoolTrace& trace, int policy);

}  // namespace coppice
