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

// Checks everything about a call but its tensors: program, binding, lane, counts, stream.
// Errors: kInvalidArgument.
absl::Status CheckCall(const Call& call, const void* session, int lanes);

// Reads the extent of every symbol into shape.real; every axis that names a symbol must agree with
// the first. Errors: kInvalidArgument naming the input.
absl::Status ReadExtents(const Call& call, CallShape& shape);

// Pads the extents; one above its largest bucket stays as it is and sets over_maximum.
// Errors: kOutOfRange if its symbol says so.
absl::Status Pad(const Program& program, CallShape& shape);

// The key of the node that serves the call. Requires: !shape.over_maximum.
NodeKey KeyOf(const Call& call, const CallShape& shape);

}  // namespace coppice::internal
