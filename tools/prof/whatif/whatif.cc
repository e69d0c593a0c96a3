// A trace, and repetitions of its calls.

#include "tools/prof/whatif/whatif.h"

#include <algorithm>
#include <utility>

#include "absl/functional/function_ref.h"
#include "fmt/format.h"

#include "coppice/base/status.h"
#include "coppice/base/units.h"

#include "tools/prof/whatif/call_arguments.h"
#include "tools/prof/whatif/copy_ring.h"
#include "tools/prof/whatif/host_times.h"
#include "tools/prof/whatif/repeated_session.h"
#include "tools/prof/whatif/traced_spec.h"
#include "tools/prof/whatif/weightless_device.h"
#include "tools/support/text_table.h"

namespace coppice {
namespace {

ScriptUse UseOf(const std::vector<std::unique_ptr<RunScripts>>& scripts) {
  ScriptUse sum;
  for (const std::unique_ptr<RunScripts>& each : scripts) {
    const ScriptUse use = each->use();
    sum.recorded += use.recorded;
    sum.interpolated += use.interpolated;
    sum.estimated += use.estimated;
    if (use.fewest_points > 0)
      sum.fewest_points = sum.fewest_points == 0 ? use.fewest_points
                                                 : std::min(sum.fewest_points, use.fewest_points);
  }
  return sum;
}

// What the copies of a call's outputs take.
int64_t CopiedBytes(const ProgramSpec& spec, const CallArguments& arguments) {
  int64_t bytes = 0;
  for (size_t i = 0; i < spec.outputs.size(); ++i) {
    const Tensor& target = arguments.targets[i];
    if (target.element_count() > 0)
      bytes += AlignUp(target.span() * SizeOf(target.dtype), kBufferAlignment);
  }
  return bytes;
}

// The copies of calls, by lane: -1 for a call that makes none.
absl::StatusOr<std::vector<std::vector<CopyStep>>> CopiesOf(
    const TracedCalls& traced,
    const ChangedMaking& making,
    absl::FunctionRef<int(size_t call)> lane_of) {
  std::vector<std::vector<CopyStep>> lanes(static_cast<size_t>(making.options.lanes));
  std::vector<std::vector<Expression>> expressions;
  for (const ProgramSpec& spec : making.specs) {
    COPPICE_ASSIGN_OR_RETURN(std::vector<Expression> compiled, CompileExtents(spec));
    expressions.push_back(std::move(compiled));
  }
  for (const TracedStep& step : traced.steps) {
    if (step.kind != TracedStep::Kind::kCall && step.kind != TracedStep::Kind::kDrop) continue;
    const auto index = static_cast<size_t>(step.what);
    const int number = lane_of(index);
    if (number < 0) continue;
    std::vector<CopyStep>& lane = lanes[static_cast<size_t>(number)];
    const TracedCall& call = traced.calls[index];
    if (step.kind == TracedStep::Kind::kDrop) {
      lane.push_back({.call = step.what, .bytes = -1});
      continue;
    }
    const ProgramSpec& spec = making.specs[static_cast<size_t>(call.program)];
    const std::vector<DeviceAddress> nowhere(spec.inputs.size() + spec.outputs.size());
    std::vector<int64_t> scalars;
    if (call.bucket >= 0) scalars = traced.trace.buckets[static_cast<size_t>(call.bucket)].scalars;
    const CallArguments arguments =
        ArgumentsOf(spec, expressions[static_cast<size_t>(call.program)], call.extents.values(),
                    scalars, nowhere);
    lane.push_back({.call = step.what, .bytes = CopiedBytes(spec, arguments)});
    if (!call.held) lane.push_back({.call = step.what, .bytes = -1});
  }
  return lanes;
}

constexpr int64_t kGraphNodesMax = int64_t{1} << 20;

// Whether definitions and events fit the specs, which a file that was tampered with need not.
absl::Status CheckFit(const TracedCalls& traced, const std::vector<ProgramSpec>& specs) {
  const PoolTrace& trace = traced.trace;
  const auto symbols = [&](int program) {
    return specs[static_cast<size_t>(program)].symbols.size();
  };
  for (size_t i = 0; i < specs.size(); ++i) {
    COPPICE_RETURN_IF_ERROR(ValidateSpec(specs[i]));
    if (specs[i].symbols.size() != trace.programs[i].symbols.size())
      return InvalidArgument("program '{}' has {}, but its spec has {}", LabelOf(trace.programs[i]),
                             Counted(std::ssize(trace.programs[i].symbols), "symbol"),
                             specs[i].symbols.size());
  }
  for (const TracedBucket& bucket : trace.buckets)
    if (bucket.extents.size() != symbols(bucket.program))
      return InvalidArgument("bucket {} has the wrong number of extents, {}", bucket.id,
                             bucket.extents.size());
  for (const TracedNode& node : trace.nodes) {
    const int program = trace.buckets[static_cast<size_t>(node.bucket)].program;
    const auto outputs = std::ssize(specs[static_cast<size_t>(program)].outputs);
    const bool fits =
        std::ranges::all_of(node.outputs, [outputs](int64_t output) { return output < outputs; });
    if (!fits || node.graph_nodes > kGraphNodesMax)
      return InvalidArgument(
          "trace node {}: too many CUDA graph nodes ({}), or an output that its program does not "
          "have",
          node.id, node.graph_nodes);
  }
  return absl::OkStatus();
}

// Adds up what calls took that ran so.
void AddTimes(const TracedCalls& traced,
              const std::vector<ProgramSpec>& specs,
              const HostTimes& times,
              const std::vector<RepeatedSession::Ran>& ran,
              WhatIfOutcome& outcome) {
  for (size_t i = 0; i < ran.size(); ++i) {
    if (ran[i].refused) continue;
    const TracedCall& call = traced.calls[i];
    const auto extents = call.extents.values();
    const HostTimes::Time time = times.Of(
        call.program, ran[i].kind, PaddedBy(specs[static_cast<size_t>(call.program)], extents));
    outcome.figures.host_ns += time.ns;
    if (time.ns == 0)
      ++outcome.unknown_times;
    else if (!time.measured)
      ++outcome.guessed_times;
  }
}

// What a message of the library says to do is for whoever made the session.
std::string WithoutRemedy(const std::string& message) {
  return message.substr(0, message.find(';'));
}

}  // namespace

WhatIf::WhatIf() = default;

WhatIf::~WhatIf() = default;

absl::StatusOr<std::unique_ptr<WhatIf>> WhatIf::Open(const std::string& path) {
  std::unique_ptr<WhatIf> opened(new WhatIf());
  COPPICE_ASSIGN_OR_RETURN(opened->traced_, ReadTracedCalls(path));
  const PoolTrace& trace = opened->traced_.trace;
  const absl::StatusOr<SessionOptions> options = OptionsOf(trace);
  if (!options.ok()) return InvalidArgument("{}: {}", path, MessageOf(options.status()));
  opened->options_ = *options;
  for (int i = 0; i < static_cast<int>(trace.programs.size()); ++i) {
    const absl::StatusOr<ProgramSpec> spec = SpecOf(trace.programs[static_cast<size_t>(i)]);
    if (!spec.ok()) return InvalidArgument("{}: {}", path, MessageOf(spec.status()));
    opened->specs_.push_back(*spec);
    if (spec->exact != ExactReplay::kNever) {
      opened->specs_.back().exact = ExactReplay::kNever;
      opened->traced_.gaps.push_back(fmt::format(
          "program '{}' replays at the sizes of its calls, with executables that several buckets "
          "share; in this repetition each bucket has its own executable, and pads its calls",
          LabelOf(trace.programs[static_cast<size_t>(i)])));
    }
    if (spec->gate == GateMode::kOn || (spec->gate == GateMode::kSession && options->gate))
      opened->traced_.gaps.push_back(
          fmt::format("program '{}' is timed against runs without a graph",
                      LabelOf(trace.programs[static_cast<size_t>(i)])));
  }
  if (const absl::Status fits = CheckFit(opened->traced_, opened->specs_); !fits.ok())
    return InvalidArgument("{}: {}; give an unmodified trace", path, MessageOf(fits));
  for (int i = 0; i < static_cast<int>(trace.programs.size()); ++i) {
    COPPICE_ASSIGN_OR_RETURN(std::unique_ptr<RunScripts> scripts,
                             RunScripts::Create(trace, opened->traced_.freed, i,
                                                opened->specs_[static_cast<size_t>(i)]));
    opened->scripts_.push_back(std::move(scripts));
  }
  if (options->record_in_background)
    opened->traced_.gaps.emplace_back("graphs were recorded in the background while calls ran");
  opened->times_ = std::make_unique<HostTimes>(opened->traced_, opened->specs_);
  WhatIfOutcome as_it_was;
  std::vector<RepeatedSession::Ran> ran;
  for (const TracedCall& call : opened->traced_.calls)
    ran.push_back({.kind = call.path});
  AddTimes(opened->traced_, opened->specs_, *opened->times_, ran, as_it_was);
  opened->traced_.figures.host_ns = as_it_was.figures.host_ns;
  return opened;
}

absl::StatusOr<std::unique_ptr<RepeatedSession>> WhatIf::MakeCalls(const WhatIfChanges& changes,
                                                                   const ChangedMaking& making,
                                                                   WeightlessDevice& device,
                                                                   const OnProgress& on_progress) {
  COPPICE_ASSIGN_OR_RETURN(std::unique_ptr<RepeatedSession> repeated,
                           RepeatedSession::Create(device, traced_, changes, making, scripts_));
  COPPICE_RETURN_IF_ERROR(repeated->Repeat(on_progress));
  return repeated;
}

absl::StatusOr<int64_t> WhatIf::MeasureCopies(const WhatIfChanges& changes, ChangedMaking making) {
  const int64_t granularity = traced_.trace.granularity;
  // Twice what one lane would need that copied the outputs of every call.
  COPPICE_ASSIGN_OR_RETURN(const auto all, CopiesOf(traced_, making, [](size_t) { return 0; }));
  making.options.memory.copy_out_bytes = 2 * LeastRing(all[0], granularity);
  making.options.memory.budget_bytes = 0;
  COPPICE_ASSIGN_OR_RETURN(const std::unique_ptr<WeightlessDevice> device,
                           WeightlessDevice::Open(granularity));
  COPPICE_ASSIGN_OR_RETURN(const std::unique_ptr<RepeatedSession> repeated,
                           MakeCalls(changes, making, *device, nullptr));
  const auto lane_of = [&](size_t call) {
    const RepeatedSession::Ran& ran = repeated->ran()[call];
    const bool graph = ran.kind == RunKind::kReplay || ran.kind == RunKind::kRecord;
    return ran.refused || !graph ? -1 : repeated->lane_of(call);
  };
  COPPICE_ASSIGN_OR_RETURN(const auto lanes, CopiesOf(traced_, making, lane_of));
  int64_t bytes = 0;
  for (const std::vector<CopyStep>& lane : lanes)
    bytes = std::max(bytes, LeastRing(lane, granularity));
  return bytes;
}

std::vector<std::string> WhatIf::Estimates() const {
  std::vector<std::string> estimates;
  if (traced_.unknown_scalars > 0)
    estimates.push_back(fmt::format(
        "for {} without a bucket, the scalars of earlier calls are used, because a trace "
        "does not record the scalars of such calls",
        Counted(traced_.unknown_scalars, "call")));
  for (size_t i = 0; i < scripts_.size(); ++i) {
    const std::string why = scripts_[i]->WhyEstimated();
    if (!why.empty())
      estimates.push_back(fmt::format("memory of program '{}': guessed at {}, because {}",
                                      LabelOf(traced_.trace.programs[i]),
                                      Counted(scripts_[i]->use().estimated, "size"), why));
  }
  return estimates;
}

absl::StatusOr<WhatIfOutcome> WhatIf::Repeat(const WhatIfChanges& changes,
                                             const OnProgress& on_progress) {
  COPPICE_ASSIGN_OR_RETURN(ChangedMaking making, ApplyChanges(traced_, options_, specs_, changes));
  WhatIfOutcome outcome{.changes = changes};
  for (std::unique_ptr<RunScripts>& scripts : scripts_)
    scripts->BeginUse();
  if (changes.copy_outputs) {
    COPPICE_ASSIGN_OR_RETURN(outcome.copy_out_bytes, MeasureCopies(changes, making));
    making.options.memory.copy_out_bytes = outcome.copy_out_bytes;
  }
  COPPICE_ASSIGN_OR_RETURN(const std::unique_ptr<WeightlessDevice> device,
                           WeightlessDevice::Open(traced_.trace.granularity));
  absl::StatusOr<std::unique_ptr<RepeatedSession>> repeated =
      MakeCalls(changes, making, *device, on_progress);
  if (!repeated.ok() && changes.budget_bytes > 0 &&
      repeated.status().code() == absl::StatusCode::kResourceExhausted)
    return InvalidArgument("--budget {}: {}; give a larger budget", changes.budget_bytes,
                           WithoutRemedy(MessageOf(repeated.status())));
  COPPICE_RETURN_IF_ERROR(repeated.status());
  if (changes.budget_bytes > 0 && (*repeated)->figures().calls() == 0)
    return InvalidArgument(
        "--budget {}: there is no room for any call (the first error: {}); give a larger budget",
        changes.budget_bytes, WithoutRemedy((*repeated)->first_refusal()));
  outcome.figures = (*repeated)->figures();
  outcome.first_refusal = (*repeated)->first_refusal();
  AddTimes(traced_, making.specs, *times_, (*repeated)->ran(), outcome);
  outcome.sizes = UseOf(scripts_);
  outcome.estimates = Estimates();
  if (const std::string unwarmed = (*repeated)->unwarmed(); !unwarmed.empty())
    outcome.estimates.push_back(unwarmed);
  if (const int64_t unsure = (*repeated)->unsure_suspensions(); unsure > 0)
    outcome.estimates.push_back(
        fmt::format("at {}, leases of eager runs are treated as already dropped; the trace reports "
                    "them dropped only at later calls",
                    Counted(unsure, "suspension")));
  return outcome;
}

std::vector<WhatIfRung> WhatIf::RepeatEach(std::span<const WhatIfChanges> changes,
                                           const OnProgress& on_progress) {
  std::vector<WhatIfRung> rungs;
  for (const WhatIfChanges& change : changes) {
    rungs.push_back({.changes = change, .outcome = Repeat(change)});
    if (on_progress) on_progress(std::ssize(rungs), std::ssize(changes));
  }
  return rungs;
}

}  // namespace coppice
