// The spec of a package's program. Private to graphs/.
//
// Threads: pure functions.

#pragma once

#include "absl/status/statusor.h"

#include "coppice/graphs/package_program.h"
#include "coppice/graphs/program.h"
#include "coppice/runtime/manifest.h"

namespace coppice::internal {

// What a session registers `program` as: symbols, scalars, inputs and outputs in the order of the
// manifest, static ones among the inputs. Errors: kInvalidArgument a policy of no symbol, or of one
// without a claim, or a joint one of a symbol and itself; buckets that no policy can have.
absl::StatusOr<ProgramSpec> SpecOf(const package::Program& program,
                                   const PackageProgramOptions& options);

// 64-bit words of random numbers that a run of it takes.
int64_t SeedWordsOf(const package::Program& program);

}  // namespace coppice::internal
