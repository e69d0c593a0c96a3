// Programs as a C caller describes them. Private to capi/.
//
// Threads: pure functions, but for callbacks.

#pragma once

#include "absl/status/statusor.h"

#include "coppice/coppice.h"
#include "coppice/graphs/package_program.h"
#include "coppice/graphs/program.h"

#include "capi/counted.h"
#include "capi/handles.h"

namespace coppice::capi {

// Errors: kInvalidArgument what cannot be read; Session::Register finds the rest.
absl::StatusOr<ProgramSpec> SpecOf(const coppice_program_spec& given);

// The callable as C++ sees it, which keeps `user` and `needs`, of a session that outlives it.
Callable CallableOf(coppice_callable callable,
                    User user,
                    const ProgramSpec& spec,
                    coppice_session& session,
                    Held<ProgramNeeds> needs);

// The options of a package's program, and its functions among what the session has to hold.
// Functions whose records were not made are released by the caller's own hand.
struct PackageProgram {
  PackageProgramOptions options;
  Held<ProgramNeeds> needs;
};
absl::StatusOr<PackageProgram> PackageProgramOf(coppice_session& session,
                                                const coppice_package_program_options* given);

}  // namespace coppice::capi
