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

// Agrees with the other ranks on a bucket and a path, and decides again with what was agreed.
absl::Status Session::State::Vote(Request& request, Lane& lane, Decision& decision) {
  const Program& program = *request.call.program;
  const size_t symbols = program.spec.symbols.size();
  const auto real = request.shape.real;
  auto bucket = request.shape.padded;
  RankVote vote{
      .program = &program, .bucket = std::span(bucket).first(symbols), .path = decision.path};
  COPPICE_RETURN_IF_ERROR(options.vote(vote));
  const bool fits = std::equal(real.begin(), real.begin() + static_cast<ptrdiff_t>(symbols),
                               bucket.begin(), [](int64_t a, int64_t b) { return a <= b; });
  if (!fits || RankOf(vote.path) > RankOf(decision.path)) {
    return InvalidArgument(
        "Session::Run: the vote on program '{}' agreed on '{}' where this rank can only '{}', or "
        "on "
        "a bucket smaller than its extents; agree on the lowest path and the largest bucket",
        program.spec.name, NameOf(vote.path), NameOf(decision.path));
  }
  if (vote.path != Path::kEager && bucket != request.shape.padded) {
    request.shape.padded = bucket;
    COPPICE_RETURN_IF_ERROR(FindPlace(request, lane));
    decision = Decide(request, lane, FindNode(request, lane));
    COPPICE_RETURN_IF_ERROR(decision.status);
  }
  // What this rank could do in the agreed bucket is more or less than what was agreed on.
  const int agreed = RankOf(vote.path);
  const int own = RankOf(decision.path);
  if (own < agreed) {
    return FailedPrecondition(
        "Session::Run: the ranks agreed to '{}' program '{}' in a bucket in which this rank can "
        "only '{}'; warm up the same buckets on all ranks",
        NameOf(vote.path), program.spec.name, NameOf(decision.path));
  }
  if (vote.path == Path::kRecord && options.barrier) COPPICE_RETURN_IF_ERROR(options.barrier());
  if (own == agreed || vote.path == Path::kRecord) return absl::OkStatus();
  if (decision.reason == Reason::kNone) decision.reason = Reason::kUserDisabled;
  decision.path = Path::kEager;
  decision.evict = false;
  decision.at_bucket = vote.path == Path::kWarmUp;
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
