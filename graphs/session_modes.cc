// What a session does only if it is asked to: votes of ranks, and checks of addresses.

#include <algorithm>
#include <utility>

#include "coppice/base/status.h"
#include "coppice/runtime/stream.h"

#include "graphs/session_state.h"

namespace coppice {

using internal::Lane;
using internal::Node;

namespace {

// The order in which ranks give way to each other: the lowest wins.
int RankOf(Path path) {
  switch (path) {
    case Path::kEager:
    case Path::kInclude:
      return 0;
    case Path::kWarmUp:
      return 1;
    case Path::kRecord:
      return 2;
    case Path::kReplay:
      return 3;
  }
  return 0;
}

}  // namespace

// One round of the vote. What was agreed is never more than this rank can, nor a smaller bucket.
absl::Status Session::State::AskRanks(const Request& request,
                                      std::span<int64_t> bucket,
                                      const Decision& decision,
                                      RankVote& vote) const {
  const Program& program = *request.call.program;
  vote = {.program = &program, .bucket = bucket, .path = decision.path};
  COPPICE_RETURN_IF_ERROR(options.vote(vote));
  bool holds = true;
  for (size_t i = 0; i < bucket.size(); ++i) {
    const int64_t own = request.shape.padded[i];
    holds &= bucket[i] == own || (bucket[i] > own && internal::IsBucket(program, i, bucket[i]));
  }
  if (holds && RankOf(vote.path) <= RankOf(decision.path)) return absl::OkStatus();
  return InvalidArgument(
      "Session::Run: the vote on program '{}' agreed on '{}' where this rank can only '{}', or on "
      "a "
      "bucket that is smaller than its own or none; agree on the lowest path and the largest "
      "bucket",
      program.spec.name, NameOf(vote.path), NameOf(decision.path));
}

// Agrees with the other ranks on a bucket and a path, and turns the decision into that.
absl::Status Session::State::Vote(Request& request, Lane& lane, Decision& decision) const {
  auto bucket = request.shape.padded;
  const std::span<int64_t> extents =
      std::span(bucket).first(request.call.program->spec.symbols.size());
  RankVote vote;
  COPPICE_RETURN_IF_ERROR(AskRanks(request, extents, decision, vote));
  if (!vote.unanimous) {
    request.shape.padded = bucket;
    COPPICE_RETURN_IF_ERROR(FindPlace(request, lane));
    decision = Decide(request, lane, FindNode(request, lane));
    COPPICE_RETURN_IF_ERROR(decision.status);
    COPPICE_RETURN_IF_ERROR(AskRanks(request, extents, decision, vote));
  }
  if (vote.path == Path::kRecord && options.barrier) COPPICE_RETURN_IF_ERROR(options.barrier());
  if (vote.path == decision.path || vote.path == Path::kRecord) return absl::OkStatus();
  const Reason reason = decision.reason == Reason::kNone ? Reason::kUserDisabled : decision.reason;
  decision = {.path = Path::kEager, .reason = reason, .at_bucket = vote.path == Path::kWarmUp};
  return absl::OkStatus();
}

// A gated node: runs the call as its gate says, and times it if the gate wants to know.
absl::StatusOr<Lease> Session::State::RunTimed(const Request& request, Lane& lane, Node& node) {
  const Decision eager{.path = Path::kEager, .reason = Reason::kGateSaysEager};
  COPPICE_RETURN_IF_ERROR(lane.timer.Collect());
  const internal::Gate::Run run = node.gate->Next();
  const auto way = [&] {
    return run.choice == internal::Gate::Choice::kEager ? RunWithoutGraph(request, lane, eager)
                                                        : Replay(request, lane, node);
  };
  if (!run.timed) return way();
  COPPICE_RETURN_IF_ERROR(lane.RefuseCapture(request.call.stream));
  COPPICE_ASSIGN_OR_RETURN(internal::GateTimer::Pair pair, lane.timer.Take(driver));
  COPPICE_RETURN_IF_ERROR(lane.Enter(request.call.stream));
  COPPICE_RETURN_IF_ERROR(pair.start.Record(request.call.stream));
  absl::StatusOr<Lease> lease = way();
  if (!lease.ok()) return lease;
  COPPICE_RETURN_IF_ERROR(pair.end.Record(request.call.stream));
  lane.timer.Await(node, run, std::move(pair));
  return lease;
}

// Whether every address that outlives the call is still of the allocation it was bound with.
absl::Status Session::State::CheckAddresses(const Call& call) const {
  const ProgramSpec& spec = call.program->spec;
  if (call.binding != nullptr) {
    for (size_t i = 0; i < call.binding->tensors.size(); ++i) {
      if (pool->HoldsConstants(call.binding->tensors[i].data)) continue;
      const absl::StatusOr<uint64_t> id = AllocationIdOf(driver, call.binding->tensors[i].data);
      if (id.ok() && *id == call.binding->allocations[i]) continue;
      if (!id.ok() && id.status().code() != absl::StatusCode::kNotFound) return id.status();
      return FailedPrecondition(
          "Session::Run: static tensor {} of program '{}' at {:#x} was freed since it was bound; "
          "bind the memory that is there",
          i, spec.name, call.binding->tensors[i].data);
    }
  }
  for (size_t i = 0; i < call.targets.size(); ++i) {
    if (call.targets[i].data == 0) continue;
    const absl::StatusOr<uint64_t> id = AllocationIdOf(driver, call.targets[i].data);
    if (id.ok()) continue;
    if (id.status().code() != absl::StatusCode::kNotFound) return id.status();
    return FailedPrecondition(
        "Session::Run: the target of output '{}' of program '{}' at {:#x} is no live allocation",
        spec.outputs[i].name, spec.name, call.targets[i].data);
  }
  return absl::OkStatus();
}

}  // namespace coppice
