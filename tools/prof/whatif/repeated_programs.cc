// The programs of a repeated session: how they are made, what their callables do, and what is
// warmed of them.

#include <algorithm>
#include <optional>
#include <utility>

#include "fmt/format.h"

#include "coppice/base/status.h"

#include "tools/prof/whatif/repeated_session.h"
#include "tools/prof/whatif/traced_spec.h"
#include "tools/support/text_table.h"

namespace coppice {

absl::Status RepeatedSession::Register(int program) {
  ProgramSpec spec = making_.specs[static_cast<size_t>(program)];
  if (spec.gate != GateMode::kAlwaysEager) spec.gate = GateMode::kOff;
  // A program may have been registered again under the name of one that had gone.
  spec.variant += fmt::format("#{}", program);
  Registered& registered = programs_.emplace_back();
  COPPICE_ASSIGN_OR_RETURN(registered.expressions, CompileExtents(spec));
  const size_t tensors = spec.inputs.size() + spec.outputs.size();
  for (size_t i = 0; i < tensors; ++i)
    registered.addresses.push_back(WeightlessDevice::TakeAddresses(kTensorAddresses));
  const auto run = [this, program](CallContext& context) { return RunScript(program, context); };
  const bool at_once = traced_.recorded_at_once[static_cast<size_t>(program)];
  COPPICE_ASSIGN_OR_RETURN(registered.program, at_once
                                                   ? session_->Register(spec, run, /*dry_run=*/run)
                                                   : session_->Register(spec, run));
  COPPICE_ASSIGN_OR_RETURN(registered.binding, Bind(registered, spec));
  return absl::OkStatus();
}

// Every binding has addresses of its own, as two models have.
absl::StatusOr<const Binding*> RepeatedSession::Bind(const Registered& registered,
                                                     const ProgramSpec& spec) {
  std::vector<Tensor> statics;
  const auto add = [&](const auto& tensor) {
    statics.push_back(TensorOf(tensor, {}, WeightlessDevice::TakeAddresses(kTensorAddresses)));
  };
  for (const InputSpec& input : spec.inputs)
    if (input.role == InputRole::kStatic) add(input);
  for (const OutputSpec& output : spec.outputs)
    if (output.role == OutputRole::kStatic) add(output);
  if (statics.empty()) return nullptr;
  return session_->Bind(*registered.program, statics);
}

// Makes the requests of the script, and as many kernels as its graph has.
absl::Status RepeatedSession::RunScript(int program, CallContext& context) {
  const ProgramSpec& spec = making_.specs[static_cast<size_t>(program)];
  RunScripts& scripts = *scripts_[static_cast<size_t>(program)];
  std::vector<int64_t> extents;
  for (int symbol = 0; symbol < static_cast<int>(spec.symbols.size()); ++symbol)
    extents.push_back(context.extent(symbol));
  std::vector<int64_t> scalars;
  for (int i = 0; i < static_cast<int>(spec.scalars.size()); ++i)
    if (IsScalarOfKey(spec, i)) scalars.push_back(context.scalar(i));
  const coppice::RunScript& script = scripts.At(extents, scalars);
  std::vector<DeviceAddress> buffers(script.bytes.size());
  std::vector<bool> asked(spec.outputs.size());
  for (const RunRequestStep& step : script.steps) {
    const auto buffer = static_cast<size_t>(step.buffer);
    switch (step.kind) {
      case RunRequestStep::Kind::kAllocate: {
        COPPICE_ASSIGN_OR_RETURN(buffers[buffer], context.Allocate(script.bytes[buffer]));
        break;
      }
      case RunRequestStep::Kind::kOutput: {
        COPPICE_RETURN_IF_ERROR(context.AllocateOutput(step.output).status());
        asked[static_cast<size_t>(step.output)] = true;
        break;
      }
      case RunRequestStep::Kind::kFree:
        COPPICE_RETURN_IF_ERROR(context.Free(buffers[buffer]));
        break;
      case RunRequestStep::Kind::kFreeInput:
        COPPICE_RETURN_IF_ERROR(context.Free(context.input(step.input).data));
        break;
      case RunRequestStep::Kind::kNothing:
        COPPICE_RETURN_IF_ERROR(context.Break([](CuStream) { return absl::OkStatus(); }));
        break;
    }
  }
  const std::vector<int>& inputs = scripts.inputs_of_outputs();
  const Registered& registered = programs_[static_cast<size_t>(program)];
  for (size_t i = 0; i < spec.outputs.size(); ++i) {
    if (asked[i]) continue;
    const int output = static_cast<int>(i);
    if (spec.outputs[i].role == OutputRole::kStatic || !scripts.known())
      COPPICE_RETURN_IF_ERROR(context.AllocateOutput(output).status());
    else if (inputs[i] >= 0)
      COPPICE_RETURN_IF_ERROR(context.AliasOutput(output, context.input(inputs[i]).data));
    else  // Somewhere outside of the session.
      COPPICE_RETURN_IF_ERROR(
          context.AliasOutput(output, registered.addresses[spec.inputs.size() + i]));
  }
  if (context.phase() != Phase::kRecord) return absl::OkStatus();
  clock_ns_ += script.record_ns;
  return device_.Launch(context.stream(), script.kernels);
}

// A policy of the trace, without buckets that are to be gone.
absl::StatusOr<PaddingPolicy> RepeatedSession::ChangedPolicy(int program,
                                                             int symbol,
                                                             int policy) const {
  COPPICE_ASSIGN_OR_RETURN(PaddingPolicy traced, PolicyOf(traced_.trace, policy));
  const auto dropped = making_.dropped.find({program, symbol});
  if (dropped == making_.dropped.end()) return traced;
  return WithoutBuckets(std::move(traced), dropped->second);
}

// Rebucket records before it sets its policy. The one that the trace has next, if what was warmed
// is none of the one in force there.
absl::StatusOr<std::optional<PaddingPolicy>> RepeatedSession::PolicyAhead(int program,
                                                                          int symbol,
                                                                          const BucketSet& warmed,
                                                                          size_t place) const {
  const auto steps = policy_steps_.find({program, symbol});
  if (steps == policy_steps_.end()) return std::nullopt;
  const auto next = std::ranges::upper_bound(steps->second, place);
  if (next == steps->second.end()) return std::nullopt;
  const auto number = [this](size_t at) { return traced_.steps[at].more; };
  const auto index = static_cast<size_t>(symbol);
  COPPICE_ASSIGN_OR_RETURN(
      const PaddingPolicy before,
      next == steps->second.begin()
          ? PolicyOf(traced_.trace.programs[static_cast<size_t>(program)], symbol)
          : PolicyOf(traced_.trace, number(*std::prev(next))));
  COPPICE_ASSIGN_OR_RETURN(const PaddingPolicy after, PolicyOf(traced_.trace, number(*next)));
  const bool ahead = std::ranges::any_of(warmed, [&](const std::vector<int64_t>& extents) {
    return !IsBucketOf(before, extents[index]) && IsBucketOf(after, extents[index]);
  });
  if (!ahead) return std::nullopt;
  return ChangedPolicy(program, symbol, number(*next));
}

// By symbol, but for joint ones: the policy that says what is warmed, where it is another than the
// trace's. Until one that is recorded ahead is set, the one in force has its buckets, too.
absl::StatusOr<std::vector<std::optional<PaddingPolicy>>> RepeatedSession::PoliciesToWarm(
    int program, const BucketSet& warmed, size_t place) {
  const ProgramSpec& spec = making_.specs[static_cast<size_t>(program)];
  const Program& registered = *programs_[static_cast<size_t>(program)].program;
  std::vector<std::optional<PaddingPolicy>> policies(spec.symbols.size());
  for (size_t i = 0; i < policies.size(); ++i) {
    const auto symbol = static_cast<int>(i);
    if (spec.JointOf(symbol) != nullptr) continue;
    const bool replaced = making_.new_policies.contains({program, symbol});
    const bool changed = replaced || making_.dropped.contains({program, symbol});
    std::optional<PaddingPolicy> ahead;
    if (!replaced) {
      COPPICE_ASSIGN_OR_RETURN(ahead, PolicyAhead(program, symbol, warmed, place));
    }
    if (!changed && !ahead) continue;
    COPPICE_ASSIGN_OR_RETURN(const PaddingPolicy now,
                             session_->policies().GetPolicy(registered, symbol));
    if (changed) policies[i] = ahead ? *ahead : now;
    if (!ahead) continue;
    std::vector<int64_t> both = now.buckets();
    const std::vector<int64_t> more = ahead->buckets();
    both.insert(both.end(), more.begin(), more.end());
    COPPICE_ASSIGN_OR_RETURN(PaddingPolicy policy,
                             PaddingPolicy::List(both, std::ranges::max(both)));
    COPPICE_RETURN_IF_ERROR(session_->policies().SetPolicy(registered, symbol, std::move(policy)));
  }
  return policies;
}

// Where policies are others: the buckets that hold what was warmed.
absl::StatusOr<RepeatedSession::BucketSet> RepeatedSession::BucketsToWarm(int program,
                                                                          const BucketSet& warmed,
                                                                          size_t place) {
  const ProgramSpec& spec = making_.specs[static_cast<size_t>(program)];
  COPPICE_ASSIGN_OR_RETURN(const auto policies, PoliciesToWarm(program, warmed, place));
  BucketSet buckets;
  for (const std::vector<int64_t>& extents : warmed) {
    std::vector<int64_t> bucket = extents;
    bool there = true;
    for (size_t i = 0; i < policies.size(); ++i) {
      const auto symbol = static_cast<int>(i);
      std::optional<int64_t> found = extents[i];
      if (policies[i]) {
        found = policies[i]->Find(extents[i]);
      } else if (const JointSpec* const joint = spec.JointOf(symbol);
                 joint != nullptr && making_.new_policies.contains({program, symbol})) {
        const JointSize size = joint->SizeIn(extents);
        const std::optional<JointSize> pair = joint->policy.Find(size.a, size.b);
        found = pair ? std::optional(joint->a == symbol ? pair->a : pair->b) : std::nullopt;
      }
      there = there && found.has_value();
      bucket[i] = found.value_or(0);
    }
    if (there && std::ranges::find(buckets, bucket) == buckets.end()) buckets.push_back(bucket);
  }
  return buckets;
}

std::string RepeatedSession::unwarmed() const {
  if (unwarmed_ == 0) return "";
  return fmt::format("graphs could not be recorded ahead as in the trace ({}); the first error: {}",
                     Counted(unwarmed_, "time"), why_unwarmed_);
}

absl::Status RepeatedSession::Warm(size_t place) {
  if (warmed_[place]) return absl::OkStatus();
  const auto bucket_at = [this](size_t at) -> const TracedBucket& {
    return traced_.trace.buckets[static_cast<size_t>(traced_.steps[at].what)];
  };
  const TracedBucket& first = bucket_at(place);
  BucketSet warmed;
  for (size_t at = place;
       at < traced_.steps.size() && traced_.steps[at].kind == TracedStep::Kind::kWarm; ++at) {
    const TracedBucket& bucket = bucket_at(at);
    if (bucket.program != first.program || bucket.lane != first.lane ||
        bucket.scalars != first.scalars)
      break;
    warmed_[at] = true;
    warmed.push_back(bucket.extents);
    if (traced_.steps[at].value != 0) break;  // A Warm of its own ends here.
  }
  if (changes_.lanes > 0 && first.lane != 0) return absl::OkStatus();
  Registered& registered = programs_[static_cast<size_t>(first.program)];
  const ProgramSpec& spec = making_.specs[static_cast<size_t>(first.program)];
  if (registered.binding != nullptr && registered.scratch == nullptr) {
    COPPICE_ASSIGN_OR_RETURN(registered.scratch, Bind(registered, spec));
  }
  COPPICE_ASSIGN_OR_RETURN(const BucketSet buckets, BucketsToWarm(first.program, warmed, place));
  const std::vector<int64_t> scalars = ScalarsOf(spec, {}, first.scalars);
  const int lanes = changes_.lanes > 0 ? static_cast<int>(changes_.lanes) : 1;
  for (int i = 0; i < lanes; ++i) {
    const absl::Status done = session_->warming().Warm(
        *registered.program, registered.binding, buckets, scalars,
        {.scratch = registered.scratch, .lane = changes_.lanes > 0 ? i : first.lane});
    // What finds no room is recorded by calls, or runs without a graph.
    if (done.ok() || done.code() == absl::StatusCode::kResourceExhausted) continue;
    if (unwarmed_++ == 0) why_unwarmed_ = MessageOf(done);
  }
  return absl::OkStatus();
}

}  // namespace coppice
