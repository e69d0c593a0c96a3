// What a call asks for, checked against its program's spec. Private to graphs/.
//
// On the replay path nothing here allocates; messages are built only for calls that do not fit.
//
// Units: elements. Threads: pure functions.

#pragma once

#include <array>
#include <cstdint>

#include "absl/status/status.h"

#include "coppice/graphs/call.h"

#include "graphs/lane/window_map.h"
#include "graphs/node/node_key.h"
#include "graphs/program/registration.h"

namespace coppice::internal {

class Catalogue;

// A call's extents, read from its tensors: as they are, and as the policies pad them.
// Both are set for the program's symbols only.
struct CallShape {
  CallShape() {}  // NOLINT(modernize-use-equals-default): leaves the extents unset, for speed.

  std::array<int64_t, kSymbolsMax> real;
  std::array<int64_t, kSymbolsMax> padded;
  bool over_maximum = false;
  bool in_pool = false;  // Some input lies in the session's memory, or some is donated.
};

// Checks a call of the session whose catalogue this is against its program's spec and guards, and
// sets `shape`: the extent of
// every symbol as it is, and as its policy pads it; one above its largest bucket stays as it is and
// sets over_maximum. With Observe::kYes, `auto` symbols remember what they see. One function, so
// that the compiler makes one of the checks.
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

// Sets `key` to that of the bucket that serves the call. Requires: !shape.over_maximum.
void SetBucketKey(const Call& call, const CallShape& shape, BucketKey& key);

}  // namespace coppice::internal
