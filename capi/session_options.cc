// coppice_session_options, read.

#include "capi/session_options.h"

#include <string>

#include "coppice/base/status.h"
#include "coppice/graphs/session.h"

#include "capi/described/session_fields.h"
#include "capi/failure.h"
#include "capi/handles.h"
#include "capi/here.h"
#include "capi/structs.h"

namespace coppice::capi {
namespace {

absl::Status Vote(coppice_status (*vote)(void*, coppice_vote*),
                  void* user,
                  coppice_session& session,
                  RankVote& rank) {
  coppice_vote told = {.struct_size = sizeof(coppice_vote),
                       .kind = static_cast<int32_t>(rank.kind),
                       .program = session.HandleOf(rank.program),
                       .bucket = rank.bucket.data(),
                       .bucket_count = static_cast<int32_t>(rank.bucket.size()),
                       .unanimous = rank.unanimous ? 1 : 0};
  const HereScope here({.session = &session});
  ForgetCallbackMessage();
  COPPICE_RETURN_IF_ERROR(StatusOfCallback(vote(user, &told), "vote"));
  COPPICE_ASSIGN_OR_RETURN(rank.kind,
                           EnumOf<RunKind>(told.kind, COPPICE_RUN_INCLUDE, "vote: kind"));
  rank.unanimous = told.unanimous != 0;
  return absl::OkStatus();
}

void SetCallbacks(const coppice_session_options& given,
                  coppice_session& session,
                  SessionOptions& options) {
  void* const user = given.user;
  if (given.log != nullptr) {
    options.log = [log = given.log, user, &session](const std::string& line) {
      const HereScope here({.session = &session});
      log(user, line.c_str());
    };
  }
  if (given.vote != nullptr) {
    options.ranks.vote = [vote = given.vote, user, &session](RankVote& rank) {
      return Vote(vote, user, session, rank);
    };
  }
  if (given.barrier != nullptr) {
    options.ranks.barrier = [barrier = given.barrier, user, &session] {
      const HereScope here({.session = &session});
      ForgetCallbackMessage();
      return StatusOfCallback(barrier(user), "barrier");
    };
  }
  if (given.now_ns != nullptr) {
    options.now_ns = [now_ns = given.now_ns, user, &session] {
      const HereScope here({.session = &session});
      return now_ns(user);
    };
  }
}

}  // namespace

absl::StatusOr<SessionOptions> SessionOptionsOf(const coppice_session_options* pointer,
                                                coppice_session& session) {
  COPPICE_ASSIGN_OR_RETURN(const coppice_session_options given, ReadOptions(pointer));
  SessionOptions options;
  COPPICE_RETURN_IF_ERROR(ReadFields(given, options));
  SetCallbacks(given, session, options);
  return options;
}

}  // namespace coppice::capi
