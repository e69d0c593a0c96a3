// Making a session, and its calls.

#include "tools/prof/whatif/repeated_session.h"

#include <algorithm>
#include <utility>

#include "coppice/base/status.h"

#include "tools/prof/whatif/call_arguments.h"
#include "tools/prof/whatif/traced_spec.h"
#include "tools/support/text_table.h"

namespace coppice {
namespace {

constexpr int64_t kCalls = 256;  // Between two words to whoever waits.

}  // namespace

RepeatedSession::RepeatedSession(WeightlessDevice& device,
                                 const TracedCalls& traced,
                                 const WhatIfChanges& changes,
                                 const ChangedMaking& making,
                                 std::vector<std::unique_ptr<RunScripts>>& scripts)
    : device_(device),
      traced_(traced),
      changes_(changes),
      making_(making),
      scripts_(scripts),
      held_(traced.calls.size()),
      ran_(traced.calls.size()),
      warmed_(traced.steps.size()) {
  for (size_t place = 0; place < traced.steps.size(); ++place) {
    const TracedStep& step = traced.steps[place];
    if (step.kind == TracedStep::Kind::kPolicy)
      policy_steps_[{step.what, static_cast<int>(step.value)}].push_back(place);
  }
}

absl::StatusOr<std::unique_ptr<RepeatedSession>> RepeatedSession::Create(
    WeightlessDevice& device,
    const TracedCalls& traced,
    const WhatIfChanges& changes,
    const ChangedMaking& making,
    std::vector<std::unique_ptr<RunScripts>>& scripts) {
  std::unique_ptr<RepeatedSession> repeated(
      new RepeatedSession(device, traced, changes, making, scripts));
  SessionOptions options = making.options;
  options.recorder = {};
  options.gate = false;
  options.record_in_background = false;
  options.variant_timing = VariantTiming::kNever;
  options.now_ns = [raw = repeated.get()] { return raw->clock_ns_; };
  COPPICE_ASSIGN_OR_RETURN(repeated->session_, Session::Create(device.context(), options));
  for (int program = 0; program < static_cast<int>(making.specs.size()); ++program)
    COPPICE_RETURN_IF_ERROR(repeated->Register(program));
  repeated->AssignLanes();
  return repeated;
}

// As they were; or, over other lanes, calls that read each other's outputs on one, and these paths
// on each lane in turn.
void RepeatedSession::AssignLanes() {
  lanes_.resize(traced_.calls.size());
  int next = 0;
  for (size_t i = 0; i < traced_.calls.size(); ++i) {
    const TracedCall& call = traced_.calls[i];
    lanes_[i] = call.lane;
    if (changes_.lanes == 0) continue;
    const auto earlier =
        std::ranges::find_if(call.uses, [](const TracedUse& use) { return use.call >= 0; });
    lanes_[i] = earlier != call.uses.end() ? lanes_[static_cast<size_t>(earlier->call)]
                                           : next++ % static_cast<int>(changes_.lanes);
  }
}

absl::Status RepeatedSession::Repeat(const std::function<void(int64_t, int64_t)>& on_progress) {
  int64_t done = 0;
  for (size_t place = 0; place < traced_.steps.size(); ++place) {
    COPPICE_RETURN_IF_ERROR(Take(traced_.steps[place], place));
    if (traced_.steps[place].kind != TracedStep::Kind::kCall) continue;
    if (on_progress && ++done % kCalls == 0) on_progress(done, std::ssize(traced_.calls));
  }
  Finish();
  return absl::OkStatus();
}

absl::Status RepeatedSession::Take(const TracedStep& step, size_t place) {
  const auto index = static_cast<size_t>(step.what);
  switch (step.kind) {
    case TracedStep::Kind::kCall:
      COPPICE_RETURN_IF_ERROR(Idle(step));
      last_call_ns_ = step.time_ns;
      return MakeCall(step.what);
    case TracedStep::Kind::kDrop:
      if (RanWithoutGraph(ran_[index].kind))
        surely_dropped_before_ = std::max(surely_dropped_before_, step.value);
      held_[index].reset();
      return absl::OkStatus();
    case TracedStep::Kind::kPart:
      DropPart(step.what, step.value);
      return absl::OkStatus();
    case TracedStep::Kind::kWarm:
      return Warm(place);
    case TracedStep::Kind::kPolicy: {
      const auto symbol = static_cast<int>(step.value);
      if (making_.new_policies.contains({step.what, symbol})) return absl::OkStatus();
      COPPICE_ASSIGN_OR_RETURN(PaddingPolicy policy, ChangedPolicy(step.what, symbol, step.more));
      return session_->policies().SetPolicy(*programs_[index].program, symbol, std::move(policy));
    }
    case TracedStep::Kind::kSuspend:
      suspended_at_ns_ = step.time_ns;
      return Suspend({.drop_graphs = step.value != 0});
    case TracedStep::Kind::kResume:
      if (suspended_at_ns_ < 0) return absl::OkStatus();
      return Resume(step.time_ns - std::exchange(suspended_at_ns_, -1));
    case TracedStep::Kind::kExternal:
      return session_->memory().SetExternalBytes(step.value);
  }
  return absl::OkStatus();
}

absl::Status RepeatedSession::Suspend(const SuspendOptions& options) {
  const int64_t before = session_->memory().books().total;
  COPPICE_RETURN_IF_ERROR(session_->memory().Suspend(options));
  given_back_ = before - session_->memory().books().total;
  ++figures_.suspensions;
  return absl::OkStatus();
}

absl::Status RepeatedSession::Resume(int64_t suspended_ns) {
  COPPICE_RETURN_IF_ERROR(session_->memory().Resume());
  figures_.suspended_ns += suspended_ns;
  figures_.saved_byte_seconds +=
      static_cast<double>(given_back_) * static_cast<double>(suspended_ns) / 1e9;
  return absl::OkStatus();
}

// Between two calls: what was suspended anyway is left alone.
absl::Status RepeatedSession::Idle(const TracedStep& step) {
  const TracedCall& call = traced_.calls[static_cast<size_t>(step.what)];
  if (changes_.suspend_idle_ns <= 0 || last_call_ns_ < 0 || suspended_at_ns_ >= 0)
    return absl::OkStatus();
  const int64_t idle_ns = step.time_ns - std::max<int64_t>(call.host_ns, 0) - last_call_ns_;
  if (idle_ns <= changes_.suspend_idle_ns) return absl::OkStatus();
  unsure_suspensions_ += surely_dropped_before_ > step.what ? 1 : 0;
  COPPICE_RETURN_IF_ERROR(Suspend({}));
  return Resume(idle_ns);
}

absl::Status RepeatedSession::MakeCall(int index) {
  const TracedCall& traced = traced_.calls[static_cast<size_t>(index)];
  const ProgramSpec& spec = making_.specs[static_cast<size_t>(traced.program)];
  Registered& registered = programs_[static_cast<size_t>(traced.program)];
  const int lane = lanes_[static_cast<size_t>(index)];
  COPPICE_ASSIGN_OR_RETURN(const CuStream stream, device_.StreamOf(lane));
  if (traced.bucket >= 0) {
    const TracedBucket& bucket = traced_.trace.buckets[static_cast<size_t>(traced.bucket)];
    if (!bucket.scalars.empty()) registered.scalars = bucket.scalars;
  }
  CallArguments arguments = ArgumentsOf(spec, registered.expressions, traced.extents.values(),
                                        registered.scalars, registered.addresses);
  if (const absl::Status used = UseOutputs(traced, stream, arguments); !used.ok()) {
    Refuse(index, used);
    return absl::OkStatus();
  }
  Call call{.program = registered.program,
            .binding = registered.binding,
            .inputs = arguments.inputs,
            .scalars = arguments.scalars,
            .extents = arguments.given,
            .stream = stream,
            .lane = lane,
            .output_mode = traced.outputs};
  std::vector<Lease> gifts = TakeGifts(traced);
  call.donated = gifts;
  if (changes_.copy_outputs) call.output_mode = OutputMode::kCopyOut;
  if (call.output_mode == OutputMode::kWriteInto) call.targets = arguments.targets;
  // A call that finds no room may have been staged before.
  const bool may_fail = making_.options.memory.budget_bytes > 0;
  const SessionStats before = may_fail ? session_->stats() : SessionStats();
  absl::StatusOr<Lease> lease = session_->Run(call);
  if (!lease.ok()) {
    Refuse(index, lease.status());
    if (!may_fail) return absl::OkStatus();
    const SessionStats after = session_->stats();
    figures_.real_elements -= after.real_elements - before.real_elements;
    figures_.padded_elements -= after.padded_elements - before.padded_elements;
    return absl::OkStatus();
  }
  ran_[static_cast<size_t>(index)] = {.kind = lease->kind(), .reason = lease->reason()};
  if (traced.held)
    held_[static_cast<size_t>(index)] = Held{.whole = *std::move(lease), .parts = {}};
  return absl::OkStatus();
}

// Puts outputs of earlier calls, where they lie, in the place of inputs that were such.
absl::Status RepeatedSession::UseOutputs(const TracedCall& call,
                                         CuStream stream,
                                         CallArguments& arguments) {
  for (const TracedUse& use : call.uses) {
    if (use.call < 0 || use.input < 0 || use.input >= std::ssize(arguments.inputs)) continue;
    if (ran_[static_cast<size_t>(use.call)].refused)
      return FailedPrecondition("the call reads outputs of a call that was refused");
    const std::optional<Held>& held = held_[static_cast<size_t>(use.call)];
    // Copies have bytes of their own, as the application's own memory has.
    if (!held.has_value()) continue;
    const bool whole = held->parts.empty();
    const int64_t outputs = whole ? held->whole.output_count() : std::ssize(held->parts);
    if (use.output < 0 || use.output >= outputs)
      return FailedPrecondition("the call reads output {} of an earlier call, which has only {}",
                                use.output, Counted(outputs, "output"));
    const Lease& lease = whole ? held->whole : held->parts[static_cast<size_t>(use.output)];
    COPPICE_ASSIGN_OR_RETURN(const ReadScope scope, lease.Read(stream));
    const Tensor output = scope.output(use.output);
    Tensor& input = arguments.inputs[static_cast<size_t>(use.input)];
    Tensor placed = DenseLike(input);
    if (placed.rank == output.rank && placed.dtype == output.dtype) placed.strides = output.strides;
    placed.data = output.data + static_cast<DeviceAddress>(use.byte);
    placed.made_by = output.made_by;
    input = placed;
  }
  return absl::OkStatus();
}

// What a refused call leaves of them is dropped, as it was in the trace.
std::vector<Lease> RepeatedSession::TakeGifts(const TracedCall& call) {
  std::vector<Lease> gifts;
  const auto take = [&gifts](Lease& lease) {
    if (lease.output_count() > 0) gifts.push_back(std::move(lease));
  };
  for (const TracedGift& gift : call.gifts) {
    std::optional<Held>& held = held_[static_cast<size_t>(gift.call)];
    if (gift.output >= 0) {
      if (Lease* const part = PartOf(held, gift.output); part != nullptr) take(*part);
    } else if (held.has_value()) {
      take(held->whole);
      for (Lease& part : held->parts)
        take(part);
      held.reset();
    }
  }
  return gifts;
}

void RepeatedSession::DropPart(int index, int64_t output) {
  Lease* const part = PartOf(held_[static_cast<size_t>(index)], output);
  if (part != nullptr) part->Release();
}

// Splits the lease if it is not split yet. Null: there is no such part.
Lease* RepeatedSession::PartOf(std::optional<Held>& held, int64_t output) {
  if (!held.has_value()) return nullptr;
  if (held->parts.empty()) {
    absl::StatusOr<std::vector<Lease>> parts = held->whole.Split();
    if (!parts.ok()) return nullptr;
    held->parts = *std::move(parts);
  }
  return output < std::ssize(held->parts) ? &held->parts[static_cast<size_t>(output)] : nullptr;
}

void RepeatedSession::Refuse(int index, const absl::Status& why) {
  ran_[static_cast<size_t>(index)].refused = true;
  if (first_refusal_.empty()) first_refusal_ = MessageOf(why);
}

void RepeatedSession::Finish() {
  for (size_t i = 0; i < ran_.size(); ++i) {
    const bool included = traced_.calls[i].path == RunKind::kInclude;
    if (included) ran_[i] = {.kind = RunKind::kInclude};
    if (ran_[i].refused) {
      ++figures_.refused;
      continue;
    }
    ++figures_.paths[static_cast<size_t>(ran_[i].kind)];
    ++figures_.reasons[static_cast<size_t>(ran_[i].reason)];
  }
  const SessionStats stats = session_->stats();
  const std::vector<NodeInfo> nodes = session_->nodes();
  figures_.recorded = stats.recordings;
  figures_.evicted = stats.recordings - std::ranges::count_if(nodes, &NodeInfo::recorded);
  figures_.remaps = stats.remaps;
  figures_.real_elements += stats.real_elements;
  figures_.padded_elements += stats.padded_elements;
  figures_.record_ns = clock_ns_;
  const MemoryUsage usage = session_->memory().books();
  figures_.height = usage.height;
  figures_.bytes = usage.bytes;
  figures_.peaks = usage.peak;
  figures_.total = usage.total;
  figures_.total_peak = usage.total_peak;
  // Booked as external, whatever it was.
  for (int i = 0; i < kMemoryKindCount; ++i) {
    const auto kind = static_cast<size_t>(i);
    if (!IsForeign(static_cast<MemoryKind>(i))) continue;
    figures_.bytes[kind] = traced_.figures.bytes[kind];
    figures_.peaks[kind] = traced_.figures.peaks[kind];
  }
}

}  // namespace coppice
