// The usual call finds its node and replays it; all others are decided.

#include "graphs/call/run.h"

#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"

#include "coppice/base/status.h"

#include "graphs/call/check.h"
#include "graphs/call/decide.h"
#include "graphs/call/eager.h"
#include "graphs/call/exact.h"
#include "graphs/call/place.h"
#include "graphs/call/ranks.h"
#include "graphs/call/record.h"
#include "graphs/call/replay.h"
#include "graphs/parts/retire.h"

namespace coppice::internal {
namespace {

// Whether a static input has moved so often that it is copied from here on: look again then.
bool DemoteMoved(const SessionParts& parts,
                 const Rules& rules,
                 const Request& request,
                 Lane& lane) {
  if (request.statics == nullptr) return false;
  const Outcome outcome = Decide(rules, request, lane, /*node=*/nullptr).outcome;
  if (outcome.kind != RunKind::kRecord || outcome.reason != Reason::kStaticInputMoved) return false;
  Bucket& bucket = *FindBucket(request, lane);
  const std::vector<size_t> often =
      bucket.NoteMoves(*bucket.nodes().back()->key().statics, *request.statics,
                       rules.options.limits.static_moves_max);
  const int demoted = often.empty() ? 0 : parts.catalogue->Demote(*request.call.program, often);
  lane.books().Count(&SessionStats::inputs_demoted, demoted);
  return demoted > 0;
}

// Makes the node's memory present again, if it was taken away. False if there is no room for it.
absl::StatusOr<bool> MapAgain(Stance stance, Lane& lane, const Node& node) {
  if (node.top() <= lane.memory().present_bytes()) return true;
  const absl::Status mapped = lane.memory().Reserve(MemoryKind::kPlan, node.top());
  if (mapped.code() == absl::StatusCode::kResourceExhausted && stance != Stance::kStrict)
    return false;
  COPPICE_RETURN_IF_ERROR(mapped);
  lane.books().Count(&SessionStats::remaps);
  return true;
}

// Runs the call as the node's gate says, and times it if the gate wants to know.
absl::StatusOr<Lease> RunGated(const SessionParts& parts,
                               const Request& request,
                               Lane& lane,
                               Node& node) {
  GateTimer& timer = lane.nodes().timer();
  COPPICE_RETURN_IF_ERROR(timer.Collect());
  const Gate::Run run = node.gate()->Next();
  const auto way = [&] {
    return run.choice == Gate::Choice::kEager
               ? RunWithoutGraph(
                     parts, request, lane,
                     {.outcome = {.kind = RunKind::kEager, .reason = Reason::kGateSaysEager}})
               : ReplayNode(parts, request, lane, node, {});
  };
  if (!run.timed) return way();
  const CuStream stream = request.call.stream;
  COPPICE_RETURN_IF_ERROR(lane.order().RefuseCapture(stream));
  COPPICE_ASSIGN_OR_RETURN(GateTimer::Pair pair, timer.Take(parts.driver));
  COPPICE_RETURN_IF_ERROR(lane.order().Enter(stream));
  COPPICE_RETURN_IF_ERROR(pair.start.Record(stream));
  absl::StatusOr<Lease> lease = way();
  if (!lease.ok()) return lease;
  COPPICE_RETURN_IF_ERROR(pair.end.Record(stream));
  timer.Await(node, run, std::move(pair));
  return lease;
}

// What can be decided without changing anything, and the votes of the ranks; sets the node again.
absl::StatusOr<Decision> DecideWithRanks(const Rules& rules,
                                         Request& request,
                                         Lane& lane,
                                         Node*& node) {
  Decision decision = Decide(rules, request, lane, node);
  COPPICE_RETURN_IF_ERROR(decision.status);
  if (!rules.options.ranks.vote) return decision;
  COPPICE_RETURN_IF_ERROR(Vote(rules, request, lane, decision));
  node = FindNode(request, lane);
  return decision;
}

absl::StatusOr<Lease> RunDecided(SessionParts& parts, Request& request, Lane& lane, Node* node) {
  const Program& program = *request.call.program;
  const uint64_t began = lane.tracer == nullptr ? 0 : parts.clock.Now();
  const Rules rules{.options = parts.options, .stance = parts.stance.load()};
  COPPICE_RETURN_IF_ERROR(CheckRegistered("Session::Run", program));
  COPPICE_RETURN_IF_ERROR(lane.memory().CheckPresent("Session::Run"));
  if (node == nullptr) {
    if (DemoteMoved(parts, rules, request, lane)) {
      COPPICE_RETURN_IF_ERROR(TakeStatics(request));
      node = FindNode(request, lane);
    }
    COPPICE_RETURN_IF_ERROR(DropRetired(parts, lane));
  }
  COPPICE_ASSIGN_OR_RETURN(Decision decision, DecideWithRanks(rules, request, lane, node));
  if (decision.outcome.kind != RunKind::kReplay) COPPICE_RETURN_IF_ERROR(DropRetired(parts, lane));
  if (decision.evict) {
    lane.slots().Sweep();
    COPPICE_ASSIGN_OR_RETURN(const bool evicted, lane.EvictOne(&program));
    if (!evicted) decision = {.outcome = {.kind = RunKind::kEager, .reason = Reason::kGraphLimit}};
  }
  lane.nodes().SetInUse(node);
  const absl::Cleanup idle = [&lane] { lane.nodes().SetInUse(nullptr); };
  if (decision.outcome.kind == RunKind::kReplay) {
    COPPICE_ASSIGN_OR_RETURN(const bool present, MapAgain(rules.stance, lane, *node));
    if (!present) decision = {.outcome = {.kind = RunKind::kEager, .reason = Reason::kByteLimit}};
  }
  if (decision.outcome.kind != RunKind::kReplay && request.began == 0) request.began = began;
  switch (decision.outcome.kind) {
    case RunKind::kReplay:
      if (node->audited() != nullptr) COPPICE_RETURN_IF_ERROR(Audit(parts, request, lane, *node));
      return program.place.gated && rules.stance != Stance::kStrict
                 ? RunGated(parts, request, lane, *node)
                 : ReplayNode(parts, request, lane, *node, {});
    case RunKind::kRecord:
      return RecordAndReplay(parts, request, lane, decision);
    case RunKind::kWarmUp:
    case RunKind::kEager:
    case RunKind::kInclude:
      return RunWithoutGraph(parts, request, lane, decision);
  }
  return absl::InternalError("Session::Run: no such kind of run");
}

constexpr Outcome kReplayed;  // Of the usual call: its address is that of no frame.

// The call, whose place is known.
[[gnu::always_inline]] inline absl::StatusOr<Lease> RunPlaced(SessionParts& parts,
                                                              Request& request,
                                                              Lane& lane) {
  Node* node = FindNode(request, lane);
  if (node != nullptr && node->top() <= lane.memory().present_bytes()) [[likely]] {
    const Program::Place& place = request.call.program->place;
    const AtOnce at_once = parts.at_once.load(std::memory_order_relaxed);
    if (at_once == AtOnce::kReplay && place.plain) [[likely]]
      return Replay(parts, request, lane, *node, kReplayed);
    if (at_once == AtOnce::kReplayRecorded && node->has_plain_entries() &&
        request.call.donated.empty())
      return ReplayWithWords(parts, request, lane, *node, kReplayed);
    if (at_once > AtOnce::kReplay && place.plain)
      return ReplayWithEntry(parts, request, lane, *node, kReplayed);
    if (at_once != AtOnce::kNothing && place.exact)
      return ReplayNode(parts, request, lane, *node, kReplayed);
  }
  return RunDecided(parts, request, lane, node);
}

// Apart, so that the usual call does not pay for it.
[[gnu::noinline]] absl::StatusOr<Lease> RunInPath(SessionParts& parts,
                                                  Request& request,
                                                  Lane& lane) {
  // What the call reads may lose its lease before staging, or a copy back, gets there.
  const absl::Cleanup read = [&lane] { lane.slots().EndReads(); };
  COPPICE_RETURN_IF_ERROR(TakePlace(request, lane));
  absl::StatusOr<Lease> lease = RunPlaced(parts, request, lane);
  if (lease.ok()) ReleaseDonated(request.call);
  return lease;
}

}  // namespace

absl::StatusOr<Lease> RunCall(SessionParts& parts, Request& request, Lane& lane) {
  if (request.shape.in_pool || lane.chain().open()) [[unlikely]]
    return RunInPath(parts, request, lane);
  return RunPlaced(parts, request, lane);
}

}  // namespace coppice::internal
