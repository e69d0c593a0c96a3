// One vote, or two.

#include "graphs/call/ranks.h"

#include <optional>
#include <span>

#include "coppice/base/status.h"

#include "graphs/call/extents.h"
#include "graphs/call/place.h"

namespace coppice::internal {
namespace {

// The order in which ranks give way to each other: the lowest wins.
int RankOf(RunKind kind) {
  switch (kind) {
    case RunKind::kEager:
    case RunKind::kInclude:
      return 0;
    case RunKind::kWarmUp:
      return 1;
    case RunKind::kRecord:
      return 2;
    case RunKind::kReplay:
      return 3;
  }
  return 0;
}

// The largest extents over all ranks need be no bucket of a joint policy: sets them to the one that
// holds them, on every rank the same. What guards refuse is every rank's own. False if there is
// none.
bool FindAgreed(const Program& program, const CallShape& own, std::span<int64_t> bucket) {
  for (const JointSpec& joint : program.spec.joint) {
    const JointSize agreed = joint.SizeIn(bucket);
    if (agreed == joint.SizeIn(own.padded)) continue;
    const std::optional<JointSize> found = joint.policy.FindUnguarded(agreed.a, agreed.b);
    if (!found) return false;
    bucket[static_cast<size_t>(joint.a)] = found->a;
    bucket[static_cast<size_t>(joint.b)] = found->b;
  }
  return true;
}

// One round of the vote. What was agreed is never more than this rank can, nor a smaller bucket.
absl::Status AskRanks(const RankOptions& ranks,
                      const Request& request,
                      std::span<int64_t> bucket,
                      RunKind able,
                      RankVote& vote) {
  const Program& program = *request.call.program;
  vote = {.program = &program, .bucket = bucket, .kind = able};
  COPPICE_RETURN_IF_ERROR(ranks.vote(vote));
  bool holds = true;
  for (size_t i = 0; i < bucket.size(); ++i) {
    const int64_t own = request.shape.padded[i];
    holds &= bucket[i] == own || (bucket[i] > own && program.IsBucket(i, bucket[i]));
  }
  if (holds) holds = FindAgreed(program, request.shape, bucket);
  if (holds && RankOf(vote.kind) <= RankOf(able)) return absl::OkStatus();
  return InvalidArgument(
      "Session::Run: the vote on program '{}' agreed on '{}', but this rank can only '{}', or the "
      "agreed bucket does not exist or is smaller than this rank's; agree on the lowest kind of "
      "run and the largest bucket",
      program.spec.name, NameOf(vote.kind), NameOf(able));
}

}  // namespace

absl::Status Vote(const Rules& rules, Request& request, Lane& lane, Decision& decision) {
  const RankOptions& ranks = rules.options.ranks;
  auto bucket = request.shape.padded;
  const std::span<int64_t> extents =
      std::span(bucket).first(request.call.program->spec.symbols.size());
  RankVote vote;
  COPPICE_RETURN_IF_ERROR(AskRanks(ranks, request, extents, decision.outcome.kind, vote));
  if (!vote.unanimous) {
    CallShape& shape = request.shape;
    shape.padded = bucket;
    if (!shape.unbucketed && !request.call.program->extents.empty())
      shape.unbucketed = !PadExpressions(*request.call.program, request.call.scalars, shape);
    COPPICE_RETURN_IF_ERROR(CheckStrides(*request.call.program, shape, "Session::Run"));
    COPPICE_RETURN_IF_ERROR(FindPlace(request, lane));
    decision = Decide(rules, request, lane, FindNode(request, lane));
    COPPICE_RETURN_IF_ERROR(decision.status);
    COPPICE_RETURN_IF_ERROR(AskRanks(ranks, request, extents, decision.outcome.kind, vote));
  }
  if (vote.kind == RunKind::kRecord && ranks.barrier) COPPICE_RETURN_IF_ERROR(ranks.barrier());
  if (vote.kind == decision.outcome.kind || vote.kind == RunKind::kRecord) return absl::OkStatus();
  const Reason reason =
      decision.outcome.reason == Reason::kNone ? Reason::kUserDisabled : decision.outcome.reason;
  decision = {.outcome = {.kind = RunKind::kEager, .reason = reason},
              .at_bucket = vote.kind == RunKind::kWarmUp};
  return absl::OkStatus();
}

}  // namespace coppice::internal
