// The first stage of a call: whether it fits its program. Private to graphs/.
//
// Threads: Check any; it takes the locks of other lanes whose outputs are inputs, but not the
// call's own. TakeStatics under that one.

#pragma once

#include "absl/status/status.h"

#include "graphs/call/request.h"
#include "graphs/parts/session_parts.h"

namespace coppice::internal {

// What refuses a call that came by `where`. Stages say "Session::Run", by which nearly all calls
// come: a replay is not to carry where it came by along.
absl::Status AskedBy(const char* where, absl::Status refused);

// The part of Check that few calls need.
absl::Status CheckMore(const SessionParts& parts, Request& request);

// Checks what can be checked without the lane's lock, and sets the call's real extents. Errors: as
// Session::Run.
inline absl::Status Check(const SessionParts& parts, Request& request) {
  const Call& call = request.call;
  COPPICE_RETURN_IF_ERROR(ReadCall(call, *parts.catalogue, static_cast<int>(parts.lanes.size()),
                                   *parts.windows, request.shape));
  if (call.output_mode != OutputMode::kBorrow || request.shape.in_pool ||
      call.program->layout.inspected || parts.options.checks.addresses) [[unlikely]]
    return CheckMore(parts, request);
  return absl::OkStatus();
}

// The error of a call that `failed`: another, if it did so because its stream does not exist. If
// the lane ran there last, it waits for the whole context and leaves the stream. Under the lane's
// lock.
absl::Status NameGoneStream(const SessionParts& parts,
                            const Call& call,
                            Lane& lane,
                            const absl::Status& failed);

// Whether the program is registered still, under its lane's lock: a node that a call finds says so
// as well, because whoever unregisters takes the nodes away under that lock. Errors:
// kFailedPrecondition.
inline absl::Status CheckRegistered(const char* where, const Program& program) {
  return program.registered_with() != nullptr ? absl::OkStatus() : Unregistered(where, program);
}

// Whether the program is one of this session, and gets this many scalars. Errors: kInvalidArgument.
absl::Status CheckIsOf(const SessionParts& parts,
                       const Program& program,
                       size_t scalars,
                       const char* where);

// The error of a call whose binding was ended.
absl::Status EndedBinding(const Call& call);
// Sets the call's statics, under its lane's lock: whoever ends a binding takes that lock before the
// memory goes, so that what is found here stays until the lock is given back. Errors:
// kFailedPrecondition  the binding was ended.
inline absl::Status TakeStatics(Request& request) {
  if (request.call.binding == nullptr) return absl::OkStatus();
  request.statics = request.call.binding->version();
  if (request.statics == nullptr) [[unlikely]]
    return EndedBinding(request.call);
  // A binding of nothing is none: both replay the same graph.
  if (request.statics->addresses.empty()) [[unlikely]]
    request.statics = nullptr;
  return absl::OkStatus();
}

}  // namespace coppice::internal
