// The graphs of static inputs that no binding has any more. Private to graphs/.
//
// Threads: as each says.

#pragma once

#include "absl/status/status.h"

#include "graphs/lane/lane.h"
#include "graphs/parts/session_parts.h"

namespace coppice::internal {

// Waits until no call and no recording uses a retired version, drops its graphs, but those with
// leased outputs, and forgets each version that has none left. Without any lane's lock. Errors: the
// driver's.
absl::Status DropRetired(const SessionParts& parts);

// Drops those of one lane that do not run, unless it has looked since the last was retired. Under
// that lane's lock. Cost: one comparison, mostly. Errors: the driver's.
absl::Status DropRetired(const SessionParts& parts, Lane& lane);

}  // namespace coppice::internal
