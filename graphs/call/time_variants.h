// Kernels of a package that have several variants, timed before their bucket is recorded. Private
// to graphs/.
//
// Threads: under the lane's lock.

#pragma once

#include <vector>

#include "absl/status/status.h"

#include "coppice/graphs/session_stats.h"

#include "graphs/call/request.h"
#include "graphs/lane/lane.h"
#include "graphs/parts/session_parts.h"

namespace coppice::internal {

// Chooses the variants of the call's bucket, unless that was done, the program has no steps or
// nothing to choose, its script is known, ranks vote, or the session's options say otherwise.
//
// Runs the steps at the bucket on the call's stream, on inputs of zeros and on memory that is
// nobody's: for static inputs that the program writes stands a copy of what is bound. Variants take
// turns, each once for nothing and five times timed, and of each kernel the one with the lowest
// median is chosen, of equal ones the first. Where that cannot be, as for want of memory, the first
// variants are, and the session's log says why. Waits for the stream; the eager window takes what
// those runs need.
//
// Errors: what the device is to blame for.
absl::Status TimeVariants(const SessionParts& parts, const Request& request, Lane& lane);

// Appends what was chosen for the buckets of a program with steps, whose lane's lock nobody needs.
void AppendVariants(const Program& program, std::vector<KernelVariant>& variants);

}  // namespace coppice::internal
