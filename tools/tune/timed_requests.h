// Requests of a trace, for the simulator of a server's steps.
//
// Units: tokens, seconds. Threads: pure function, apart from the file system.

#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "tools/support/console.h"
#include "tools/tune/step_simulator.h"

namespace coppice {

// Requests in order of arrival; all at 0 where the file has no arrivals. Errors: kInvalidArgument
// a request without tokens, arrivals in some rows alone, no request; as ReadTraceColumns.
absl::StatusOr<std::vector<TimedRequest>> ReadRequests(const std::string& path,
                                                       const Console& console);

}  // namespace coppice
