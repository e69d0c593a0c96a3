// What a call asks for, checked against its program's spec. Private to graphs/.
//
// On the replay path nothing here allocates; messages are built only for calls that do not fit.
//
// Units: elements. Threads: pure functions.

#pragma once

#include "absl/status/status.h"

#include "coppice/graphs/call.h"

#include "graphs/call/extents.h"
#include "graphs/lane/window_map.h"
#include "graphs/node/node_key.h"
#include "graphs/program/registration.h"

namespace coppice::internal {

class Catalogue;

// Checks a call of the session whose catalogue this is against its program's spec and guards, and
// sets `shape`. A symbol above its largest bucket stays as it is. With Observe::kYes, `auto`
// symbols remember what they see. One function, so that the compiler makes one of the checks.
//
// Errors: kInvalidArgument  what does not fit, by name; the first guard that fails;
//         kOutOfRange       over the largest bucket, and the symbol says so;
//         kResourceExhausted  larger than any device.
absl::Status ReadCall(const Call& call,
                      const Catalogue& catalogue,
                      int lanes,
                      const WindowMap& windows,
                      Observe observe,
                      CallShape& shape);

// Sets `key` to that of the bucket that serves the call. Requires: !shape.unbucketed.
void SetBucketKey(const Call& call, const CallShape& shape, BucketKey& key);

}  // namespace coppice::internal
