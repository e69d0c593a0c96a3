// Which way a call goes: Run does it, Explain prints it, and both ask here.

#include <algorithm>
#include <string>
#include <utility>

#include "coppice/base/status.h"

#include "graphs/session_state.h"

namespace coppice {

using internal::Bucket;
using internal::Lane;
using internal::Node;
using internal::NodeTable;

Bucket* Session::State::FindBucket(const Request& request, const Lane& lane) const {
  if (request.shape.over_maximum) return nullptr;
  const NodeTable& table = request.call.program->lanes[static_cast<size_t>(lane.index)];
  internal::BucketKey key;
  internal::SetBucketKey(request.call, request.shape, key);
  const auto found = table.buckets.find(key);
  return found == table.buckets.end() ? nullptr : found->second.get();
}

// A bucket that has graphs lacks the one that this call needs.
Reason Session::State::ReasonForRecording(const Request& request, const Bucket* bucket) const {
  if (bucket == nullptr) return Reason::kNewBucket;
  const bool moved = std::any_of(bucket->nodes.begin(), bucket->nodes.end(), [&](const Node* node) {
    return node->key.statics != request.statics && request.known_place &&
           node->key.surroundings == request.surroundings;
  });
  if (moved) return Reason::kStaticInputMoved;
  if (bucket->evicted) return Reason::kEvicted;
  return bucket->nodes.empty() ? Reason::kNewBucket : Reason::kOtherLiveRegions;
}

namespace {

// Which statics lie elsewhere than those of a graph that would do otherwise.
std::string DescribeMoved(const Program& program,
                          const internal::StaticVersion& before,
                          const internal::StaticVersion& now) {
  const auto place = [](DeviceAddress address) {
    return address == 0 ? std::string("a staged copy") : fmt::format("{:#x}", address);
  };
  const size_t inputs = program.statics.size();
  std::string text;
  for (size_t i = 0; i < now.addresses.size(); ++i) {
    if (before.addresses[i] == now.addresses[i]) continue;
    const std::string& name =
        i < inputs
            ? program.spec.inputs[static_cast<size_t>(program.statics[i])].name
            : program.spec.outputs[static_cast<size_t>(program.static_outputs[i - inputs])].name;
    text += fmt::format("{} '{}' from {} to {}", text.empty() ? ":" : ",", name,
                        place(before.addresses[i]), place(now.addresses[i]));
  }
  return text;
}

}  // namespace

std::string Session::State::DescribeReason(const Request& request,
                                           const Lane& lane,
                                           Reason reason) const {
  const Program& program = *request.call.program;
  const NodeTable& table = program.lanes[static_cast<size_t>(lane.index)];
  std::string text = NameOf(reason);
  if (reason == Reason::kGraphLimit) {
    text += fmt::format(": {} graphs in {} buckets on lane {}", table.nodes.size(),
                        table.order.size(), lane.index);
  }
  const Bucket* bucket = FindBucket(request, lane);
  if (reason != Reason::kStaticInputMoved || bucket == nullptr) return text;
  const auto other =
      std::find_if(bucket->nodes.rbegin(), bucket->nodes.rend(), [&](const Node* node) {
        return node->key.statics != request.statics &&
               node->key.surroundings == request.surroundings;
      });
  if (other == bucket->nodes.rend()) return text;
  return text + DescribeMoved(program, *(*other)->key.statics, *request.statics);
}

Session::State::Decision Session::State::DecideToRecord(const Request& request,
                                                        const Lane& lane) const {
  const ProgramSpec& spec = request.call.program->spec;
  if (request.shape.over_maximum)
    return {.path = Path::kEager, .reason = Reason::kOverLargestBucket};
  const Bucket* bucket = FindBucket(request, lane);
  if (bucket != nullptr && !bucket->refusal.ok()) return {.status = bucket->refusal};
  if (bucket != nullptr && bucket->state == Bucket::State::kNotCapturable)
    return {.path = Path::kEager, .reason = Reason::kNotCapturable};
  const Reason reason = ReasonForRecording(request, bucket);
  if (bucket != nullptr && bucket->state == Bucket::State::kRecording)
    return {.path = Path::kEager, .reason = reason};
  Decision decision{.path = Path::kRecord, .reason = reason};
  if (OverLimit(request, lane, bucket, reason)) {
    switch (options.on_limit) {
      case OnLimit::kEager:
        return {.path = Path::kEager, .reason = Reason::kGraphLimit};
      case OnLimit::kError:
        return {.status = MakeError(
                    absl::StatusCode::kResourceExhausted,
                    "Session::Run: program '{}' has {} graphs on lane {} and re-recorded this "
                    "bucket {} times, and needs another for {}; raise graphs_per_program_max or "
                    "rerecords_per_bucket_max, or allow eager runs",
                    spec.name,
                    request.call.program->lanes[static_cast<size_t>(lane.index)].nodes.size(),
                    lane.index, bucket == nullptr ? 0 : bucket->rerecords,
                    DescribeReason(request, lane, reason))};
      case OnLimit::kEvict:
        decision.evict = true;
    }
  }
  if (bucket == nullptr || bucket->warmups < options.warmup_runs)
    return {.path = Path::kWarmUp, .reason = reason};
  return decision;
}

Session::State::Decision Session::State::Decide(const Request& request,
                                                const Lane& lane,
                                                const Node* node) const {
  const Stance now = stance.load(std::memory_order_relaxed);
  const Program& program = *request.call.program;
  const bool disabled = now == Stance::kEager || program.spec.gate == GateMode::kAlwaysEager;
  Decision decision{.path = Path::kEager, .reason = Reason::kUserDisabled};
  if (!disabled && node != nullptr) {
    decision = {.status = node->bucket->refusal};
  } else if (!disabled && now != Stance::kReplayOnly) {
    decision = DecideToRecord(request, lane);
  }
  if (now != Stance::kStrict || !decision.status.ok() || decision.path == Path::kReplay)
    return decision;
  return {.status = FailedPrecondition(
              "Session::Run: program '{}' cannot replay on lane {}: {}; strict mode allows nothing "
              "else, so warm up what it needs before setting it",
              program.spec.name, lane.index, DescribeReason(request, lane, decision.reason))};
}

}  // namespace coppice
