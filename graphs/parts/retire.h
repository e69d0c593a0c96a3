// The graphs of static inputs that no binding has any more, and of programs that nobody is to find
// recorded any more. Private to graphs/.
//
// Threads: as each says.

#pragma once

#include "absl/status/status.h"

#include "graphs/lane/lane.h"
#include "graphs/parts/session_parts.h"

namespace coppice::internal {

// Waits until no call and no recording uses a retired version, drops its graphs and those of
// retired tables, but those with leased outputs, and forgets each version that has none left.
// Without any lane's lock. Errors: the driver's.
absl::Status DropRetired(const SessionParts& parts);

// Takes from every lane what it knows of a program: its graphs are found no more, and those that no
// lease is held of are dropped, once they have run and no recording is under way; the others go as
// above. Without any lane's lock. Errors: the driver's; nothing is found all the same.
absl::Status ForgetProgram(const SessionParts& parts, const Program& program);

// Drops those of one lane that do not run, unless it has looked since the last was retired. Under
// that lane's lock. Cost: one comparison, mostly. Errors: the driver's.
absl::Status DropRetired(const SessionParts& parts, Lane& lane);

}  // namespace coppice::internal
