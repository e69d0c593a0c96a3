// What a call asks for, checked against its program's spec. Private to graphs/.
//
// On the replay path nothing here allocates; messages are built only for calls that do not fit.
//
// Units: elements. Threads: pure functions.

#pragma once

#include <optional>

#include "absl/status/status.h"

#include "coppice/graphs/call.h"

#include "graphs/call/extents.h"
#include "graphs/lane/window_map.h"
#include "graphs/node/node_key.h"
#include "graphs/program/program.h"

namespace coppice::internal {

class Catalogue;

// Checks a call of the session whose catalogue this is against its program's spec and guards, and
// sets the real extents of `shape`. One function, so that the compiler makes one of the checks.
//
// Errors: kInvalidArgument  what does not fit, by name; the first guard that fails.
absl::Status ReadCall(const Call& call,
                      const Catalogue& catalogue,
                      int lanes,
                      const WindowMap& windows,
                      CallShape& shape);

// Sets the padded extents of a call that was read, by the policies in force: under its lane's lock.
// A symbol above its largest bucket stays as it is, and so do two that are in none of a joint
// policy. With Observe::kYes, `auto` symbols remember what they see.
//
// Errors: kInvalidArgument  strides that put elements onto each other;
//         kOutOfRange       over the largest bucket, and the symbol says so;
//         kResourceExhausted  larger than any device.
absl::Status PadCall(const Call& call, Observe observe, CallShape& shape);

// The same of a call that runs, which observers count. False if PadCall has to look closer: the
// padded extents are not to be used then. For the replay path, which makes no call of it.
[[gnu::always_inline]] inline bool PadAtOnce(const Program& program, CallShape& shape) {
  bool sure = program.layout.pads_plainly;
  int64_t* padded = shape.padded.data();
  const int64_t* real = shape.real.data();
  for (const Ladder& ladder : program.ladders()) {
    const int64_t extent = *real++;
    if (ladder.observer != nullptr) [[unlikely]]
      ladder.observer->Add(extent);
    const std::optional<int64_t> bucket = ladder.policy.Find(extent);
    sure &= bucket.has_value();
    *padded++ = bucket.value_or(0);
  }
  return sure;
}

// Sets `key` to that of the bucket that serves the call. Requires: !shape.unbucketed.
void SetBucketKey(const Call& call, const CallShape& shape, BucketKey& key);

}  // namespace coppice::internal
