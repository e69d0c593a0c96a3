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

// The callable as C++ sees it, which keeps `user`.
Callable CallableOf(coppice_callable callable, User user, const ProgramSpec& spec, DLDevice device);

// The options of a package's program, and the records of its functions, which the session has to
// keep. Functions whose records were not made are released by the caller's own hand.
struct PackageProgram {
  PackageProgramOptions options;
  std::vector<Held<StepFunctionRecord>> functions;
};
absl::StatusOr<PackageProgram> PackageProgramOf(coppice_device& device,
                                                const coppice_package_program_options* given);

}  // namespace coppice::capi

// One run of a callable.
struct coppice_context {
  coppice::CallContext& context;
  const size_t symbols;
  const size_t scalars;
  const size_t inputs;
  const size_t outputs;
  const DLDevice device;
};
