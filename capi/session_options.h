// Options of a session as a C caller says them. Private to capi/.
//
// Threads: pure, but for the callbacks that the options hold.

#pragma once

#include "absl/status/statusor.h"

#include "coppice/coppice.h"
#include "coppice/graphs/session_options.h"

namespace coppice::capi {

// Null: all defaults. `session` is the handle that the callbacks tell of; it outlives the session.
// Errors: kInvalidArgument an enumerator; Session::Create finds the rest.
absl::StatusOr<SessionOptions> SessionOptionsOf(const coppice_session_options* given,
                                                coppice_session& session);

}  // namespace coppice::capi
