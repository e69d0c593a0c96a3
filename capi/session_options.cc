// coppice_session_options, read.

#include "capi/session_options.h"

#include <string>

#include "coppice/base/status.h"
#include "coppice/graphs/session.h"

#include "capi/failure.h"
#include "capi/handles.h"
#include "capi/here.h"
#include "capi/structs.h"

namespace coppice::capi {
namespace {

// 0 leaves the default, -1 is none at all.
void SetLimit(int32_t given, int& limit) {
  if (given == 0) return;
  limit = given == -1 ? 0 : given;
}

absl::Status SetOnLimit(int32_t given, const char* what, OnLimit& on_limit) {
  constexpr OnLimit kOnLimits[] = {OnLimit::kEager, OnLimit::kError, OnLimit::kEvict};
  COPPICE_ASSIGN_OR_RETURN(const int read, EnumOf<int>(given, 4, what));
  if (read != COPPICE_ON_LIMIT_DEFAULT) on_limit = kOnLimits[read - 1];
  return absl::OkStatus();
}

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
  COPPICE_ASSIGN_OR_RETURN(rank.kind, EnumOf<RunKind>(told.kind, 4, "vote: kind"));
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
}

}  // namespace

absl::StatusOr<SessionOptions> SessionOptionsOf(const coppice_session_options* pointer,
                                                coppice_session& session) {
  COPPICE_ASSIGN_OR_RETURN(const coppice_session_options given,
                           ReadOptions(pointer, "coppice_session_options"));
  SessionOptions options;
  COPPICE_ASSIGN_OR_RETURN(options.stance, EnumOf<Stance>(given.stance, 4, "stance"));
  if (given.lanes != 0) options.lanes = given.lanes;
  if (given.warmup_runs != 0) options.warmup_runs = given.warmup_runs;
  options.record_in_background = given.record_in_background != 0;
  options.gate = given.gate != 0;
  COPPICE_ASSIGN_OR_RETURN(options.variant_timing,
                           EnumOf<VariantTiming>(given.variant_timing, 3, "variant_timing"));
  options.keep_drawings = given.keep_drawings != 0;
  SetLimit(given.graphs_per_program_max, options.limits.graphs_per_program_max);
  SetLimit(given.rerecords_per_bucket_max, options.limits.rerecords_per_bucket_max);
  SetLimit(given.static_moves_max, options.limits.static_moves_max);
  COPPICE_RETURN_IF_ERROR(SetOnLimit(given.on_limit, "on_limit", options.limits.on_limit));
  COPPICE_RETURN_IF_ERROR(SetOnLimit(given.on_budget, "on_budget", options.memory.on_budget));
  options.memory.window_bytes = given.window_bytes;
  options.memory.workspace_bytes = given.workspace_bytes;
  options.memory.copy_out_bytes = given.copy_out_bytes;
  options.memory.budget_bytes = given.budget_bytes;
  options.checks = {.audit_keys = given.audit_keys != 0,
                    .addresses = given.check_addresses != 0,
                    .fill_expired = given.fill_expired != 0};
  options.trace.path = TextOf(given.trace_path);
  if (given.trace_events_per_lane != 0) options.trace.events_per_lane = given.trace_events_per_lane;
  options.trace.wait_when_full = given.trace_wait_when_full != 0;
  SetCallbacks(given, session, options);
  return options;
}

}  // namespace coppice::capi
