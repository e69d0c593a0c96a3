// What a call asks for, checked against its program's spec. Private to graphs/.
//
// On the replay path nothing here allocates; messages are built only for calls that do not fit.
//
// Units: elements. Threads: pure functions.

#pragma once

#include <array>
#include <cstdint>

#include "absl/status/status.h"

#include "coppice/graphs/session.h"

#include "graphs/node.h"

namespace coppice::internal {

// A call's extents, read from its tensors: as they are, and as the policies pad them.
struct CallShape {
  std::array<int64_t, kSymbolsMax> real{};
  std::array<int64_t, kSymbolsMax> padded;  // Set by Pad for the program's symbols.
  bool over_maximum = false;
};

// Checks everything about a call but its inputs: program, binding, lane, counts, targets, stream.
// Errors: kInvalidArgument; kFailedPrecondition if the binding was ended.
absl::Status CheckCall(const Call& call, const Session& session, int lanes);

// Reads the extent of every symbol into shape.real; every axis that names a symbol must agree with
// the first. Errors: kInvalidArgument naming the input.
absl::Status ReadExtents(const Call& call, CallShape& shape);

// Checks the program's guards. Errors: kInvalidArgument naming the first that fails.
absl::Status CheckGuards(const Call& call, const CallShape& shape);

// Whether an `auto` symbol is seen to vary by its extent in `shape`, or was before.
enum class Observe : bool { kNo, kYes };

// Pads the extents; one above its largest bucket stays as it is and sets over_maximum. With
// Observe::kYes, `auto` symbols remember what they see.
// Errors: kOutOfRange if its symbol says so.
absl::Status Pad(const Program& program, Observe observe, CallShape& shape);

// Whether `extent` is a bucket of this symbol, so that Warm may record it.
bool IsBucket(const Program& program, size_t symbol, int64_t extent);

// The key of the bucket that serves the call. Requires: !shape.over_maximum.
BucketKey BucketKeyOf(const Call& call, const CallShape& shape);

}  // namespace coppice::internal
