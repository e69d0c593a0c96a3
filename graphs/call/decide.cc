// Decisions, and the words for their reasons.

#include "graphs/call/decide.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "fmt/format.h"
#include "fmt/ranges.h"

#include "coppice/base/plural.h"
#include "coppice/base/status.h"

#include "graphs/call/extents.h"

namespace coppice::internal {
namespace {

// Which statics lie elsewhere than those of a graph that would do otherwise.
std::string DescribeMoves(const Program& program,
                          const StaticVersion& before,
                          const StaticVersion& now) {
  const auto place = [](DeviceAddress address) {
    return address == 0 ? std::string("a staged copy") : fmt::format("{:#x}", address);
  };
  const size_t inputs = program.layout.statics.size();
  std::string text;
  for (size_t i = 0; i < now.addresses.size(); ++i) {
    if (before.addresses[i] == now.addresses[i]) continue;
    const std::string& name =
        i < inputs
            ? program.static_input(i).name
            : program.spec.outputs[static_cast<size_t>(program.layout.static_outputs[i - inputs])]
                  .name;
    text += fmt::format("{}'{}' from {} to {}", text.empty() ? "" : ", ", name,
                        place(before.addresses[i]), place(now.addresses[i]));
  }
  return text;
}

std::string DescribeMoved(const Request& request, const Bucket* bucket) {
  if (bucket == nullptr) return "";
  const std::vector<Node*>& nodes = bucket->nodes();
  const auto other = std::find_if(nodes.rbegin(), nodes.rend(), [&](const Node* node) {
    return !node->retired() && node->key().statics != request.statics &&
           node->key().surroundings == request.surroundings;
  });
  if (other == nodes.rend()) return "";
  return DescribeMoves(*request.call.program, *(*other)->key().statics, *request.statics);
}

// Whose leases keep bytes that a graph of this call is planned around.
std::string DescribeLeases(const Request& request, Lane& lane) {
  std::vector<std::pair<const Bucket*, int>> holders;
  for (const Slot* slot : lane.slots().ListOf(MemoryKind::kPlan)) {
    if (!request.child() || !slot->in_path) continue;
    const Bucket* bucket = &slot->node->bucket();
    auto holder = std::find_if(holders.begin(), holders.end(),
                               [bucket](const auto& each) { return each.first == bucket; });
    if (holder == holders.end()) holder = holders.insert(holder, {bucket, 0});
    ++holder->second;
  }
  if (holders.empty()) return "no output on its path is leased";
  std::string text = "leases on its path: ";
  for (const auto& [bucket, leases] : holders) {
    text += fmt::format("{}{} of program '{}' in bucket [{}]",
                        bucket == holders.front().first ? "" : ", ", leases, bucket->info().program,
                        fmt::join(bucket->info().bucket, ", "));
  }
  return text;
}

// Why no bucket serves the call.
Reason ReasonWithoutBucket(const Request& request) {
  const Program& program = *request.call.program;
  Reason reason = Reason::kUnpaddedExtent;
  for (size_t i = 0; i < program.spec.symbols.size(); ++i) {
    if (program.IsJoint(i)) continue;
    const int64_t extent = request.shape.real[i];
    if (extent > program.policy(i).maximum()) return Reason::kOverLargestBucket;
    // Where nothing is padded, nothing is refused either.
    if (!program.policy(i).Find(extent).has_value() && program.Pads(i, extent, Observe::kNo))
      reason = Reason::kPaddedTooMuch;
  }
  for (const JointSpec& joint : program.spec.joint) {
    const JointSize size = joint.SizeIn(request.shape.real);
    if (joint.policy.Find(size.a, size.b).has_value()) continue;
    if (joint.policy.WhyNone(size.a, size.b) == NoBucket::kBeyondMaximum)
      return Reason::kOverLargestBucket;
    reason = Reason::kPaddedTooMuch;
  }
  return reason;
}

std::string DescribeOverMaximum(const Request& request) {
  std::vector<std::string> texts;
  const Program& program = *request.call.program;
  const std::vector<SymbolSpec>& symbols = program.spec.symbols;
  for (size_t i = 0; i < symbols.size(); ++i) {
    const int64_t extent = request.shape.real[i];
    const int64_t maximum = program.policy(i).maximum();
    if (!program.IsJoint(i) && extent > maximum)
      texts.push_back(fmt::format("{} = {} (at most {})", symbols[i].name, extent, maximum));
  }
  for (const JointSpec& joint : program.spec.joint) {
    const JointSize size = joint.SizeIn(request.shape.real);
    if (!joint.policy.FindUnguarded(size.a, size.b).has_value())
      texts.push_back(DescribeNoBucket(program.spec, joint, size));
  }
  return fmt::format("{}", fmt::join(texts, ", "));
}

std::string DescribePaddedTooMuch(const Request& request) {
  std::vector<std::string> texts;
  const Program& program = *request.call.program;
  const std::vector<SymbolSpec>& symbols = program.spec.symbols;
  for (size_t i = 0; i < symbols.size(); ++i) {
    const int64_t extent = request.shape.real[i];
    const PaddingPolicy& policy = program.policy(i);
    if (program.IsJoint(i) || extent > policy.maximum() || policy.Find(extent).has_value())
      continue;
    const std::vector<int64_t> buckets = policy.buckets();
    texts.push_back(fmt::format("{} = {} in a bucket of {}", symbols[i].name, extent,
                                *std::ranges::lower_bound(buckets, extent)));
  }
  for (const JointSpec& joint : program.spec.joint) {
    const JointSize size = joint.SizeIn(request.shape.real);
    if (joint.policy.Find(size.a, size.b).has_value()) continue;
    const std::optional<JointSize> bucket = joint.policy.FindUnguarded(size.a, size.b);
    if (!bucket.has_value()) continue;
    texts.push_back(fmt::format(
        "{} = {}, {} = {} in a bucket of {}x{}", symbols[static_cast<size_t>(joint.a)].name, size.a,
        symbols[static_cast<size_t>(joint.b)].name, size.b, bucket->a, bucket->b));
  }
  return fmt::format("{}, which the policy's guard refuses", fmt::join(texts, ", "));
}

// A bucket that is warm and waits for its recording counts as a graph, unless another would make
// room for it.
bool OverLimit(const LimitOptions& limits,
               const NodeTable& table,
               const Bucket* bucket,
               Reason reason) {
  int64_t graphs = table.CountGraphs();
  if (limits.on_limit != OnLimit::kEvict) {
    graphs +=
        std::count_if(table.buckets().begin(), table.buckets().end(),
                      [&](const Bucket* other) { return other != bucket && !other->has_graph(); });
  }
  if (graphs >= limits.graphs_per_program_max) return true;
  return reason == Reason::kStaticInputMoved &&
         bucket->rerecords() >= limits.rerecords_per_bucket_max;
}

Decision Eagerly(Reason reason) {
  return {.outcome = {.kind = RunKind::kEager, .reason = reason}};
}

Decision DecideToRecord(const Rules& rules, const Request& request, Lane& lane) {
  const Program& program = *request.call.program;
  if (request.shape.unbucketed) return Eagerly(ReasonWithoutBucket(request));
  const NodeTable& table = lane.nodes().Of(program);
  const Bucket* bucket = FindBucket(request, lane);
  if (bucket != nullptr && !bucket->refusal().ok()) return {.status = bucket->refusal()};
  if (bucket != nullptr && !bucket->capturable()) return Eagerly(Reason::kNotCapturable);
  const Reason reason = ReasonForRecording(request, bucket);
  if (bucket != nullptr && bucket->recording()) return Eagerly(reason);
  Decision decision{.outcome = {.kind = RunKind::kRecord, .reason = reason}};
  if (OverLimit(rules.options.limits, table, bucket, reason)) {
    switch (rules.options.limits.on_limit) {
      case OnLimit::kEager:
        return Eagerly(Reason::kGraphLimit);
      case OnLimit::kError:
        return {.status = MakeError(
                    absl::StatusCode::kResourceExhausted,
                    "Session::Run: program '{}' is at a limit (graphs: {} on lane {}, "
                    "re-recordings of this bucket: {}) and needs another graph for {}; raise "
                    "graphs_per_program_max or rerecords_per_bucket_max, or allow eager runs",
                    program.spec.name, table.CountGraphs(), lane.index,
                    bucket == nullptr ? 0 : bucket->rerecords(),
                    DescribeReason(request, lane, reason))};
      case OnLimit::kEvict:
        decision.evict = true;
    }
  }
  if (!AreRequestsKnown(program, bucket) &&
      (bucket == nullptr || bucket->warmups() < rules.options.warmup_runs))
    return {.outcome = {.kind = RunKind::kWarmUp, .reason = reason}};
  return decision;
}

// " at extents [5] in bucket [8]" of a program with symbols.
std::string DescribeShape(const Request& request) {
  const auto count = static_cast<ptrdiff_t>(request.call.program->spec.symbols.size());
  if (count == 0) return "";
  const auto listed = [count](const ExtentArray& extents) {
    return fmt::format("[{}]", fmt::join(extents.begin(), extents.begin() + count, ", "));
  };
  const std::string real = " at extents " + listed(request.shape.real);
  return request.shape.unbucketed ? real : real + " in bucket " + listed(request.shape.padded);
}

}  // namespace

Bucket* FindBucket(const Request& request, Lane& lane) {
  if (request.shape.unbucketed) return nullptr;
  BucketKey key;
  SetBucketKey(request.call, request.shape, key);
  return lane.nodes().Of(*request.call.program).FindBucket(key);
}

// A bucket that has graphs lacks the one that this call needs.
Reason ReasonForRecording(const Request& request, const Bucket* bucket) {
  if (bucket == nullptr) return Reason::kNewBucket;
  const std::vector<Node*>& nodes = bucket->nodes();
  const bool moved = std::any_of(nodes.begin(), nodes.end(), [&](const Node* node) {
    return !node->retired() && node->key().statics != request.statics && request.known_place &&
           node->key().surroundings == request.surroundings;
  });
  if (moved) return Reason::kStaticInputMoved;
  if (bucket->evicted()) return Reason::kEvicted;
  return nodes.empty() ? Reason::kNewBucket : Reason::kOtherLiveRegions;
}

std::string WithCause(Reason reason, const std::string& cause) {
  return cause.empty() ? NameOf(reason) : fmt::format("{}: {}", NameOf(reason), cause);
}

std::string DescribeReason(const Request& request, Lane& lane, Reason reason) {
  const Bucket* bucket = FindBucket(request, lane);
  std::string cause;
  switch (reason) {
    case Reason::kStaticInputMoved:
      cause = DescribeMoved(request, bucket);
      break;
    case Reason::kOtherLiveRegions:
      cause = DescribeLeases(request, lane);
      break;
    case Reason::kOverLargestBucket:
      cause = DescribeOverMaximum(request);
      break;
    case Reason::kPaddedTooMuch:
      cause = DescribePaddedTooMuch(request);
      break;
    case Reason::kUnpaddedExtent:
      cause = DescribeUnpadded(*request.call.program, request.call.scalars, request.shape);
      break;
    case Reason::kGraphLimit: {
      const NodeTable& table = lane.nodes().Of(*request.call.program);
      cause = fmt::format("{} in {} on lane {}", Plural(table.CountGraphs(), "graph"),
                          Plural(table.buckets().size(), "bucket"), lane.index);
      break;
    }
    case Reason::kNotCapturable:
    case Reason::kCaptureInvalidated:
      if (bucket != nullptr) cause = bucket->failure();
      break;
    default:
      break;
  }
  return WithCause(reason, cause);
}

Decision Decide(const Rules& rules, const Request& request, Lane& lane, const Node* node) {
  const Program& program = *request.call.program;
  const bool disabled =
      rules.stance == Stance::kEager || program.spec.gate == GateMode::kAlwaysEager;
  Decision decision = Eagerly(Reason::kUserDisabled);
  if (!disabled && node != nullptr) {
    decision = {.status = node->bucket().refusal()};
  } else if (!disabled && rules.stance != Stance::kReplayOnly) {
    decision = DecideToRecord(rules, request, lane);
  }
  if (rules.stance != Stance::kStrict || !decision.status.ok() ||
      decision.outcome.kind == RunKind::kReplay) {
    return decision;
  }
  const Reason reason = decision.outcome.reason;
  const char* const remedy =
      !request.shape.unbucketed           ? "warm up this bucket before you set strict mode"
      : reason == Reason::kUnpaddedExtent ? "do not pad the symbols that the expression reads"
      : reason == Reason::kPaddedTooMuch  ? "give the policy a smaller bucket or a wider guard"
                                          : "split the call or give the policy larger buckets";
  return {.status = FailedPrecondition(
              "Session::Run: program '{}' cannot replay on lane {}{}: {}; strict mode allows "
              "nothing else, so {}",
              program.spec.name, lane.index, DescribeShape(request),
              DescribeReason(request, lane, reason), remedy)};
}

}  // namespace coppice::internal
