// Decodes a step of each batch size eagerly, by its graph, and as a gate chooses.

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "nlohmann/json.hpp"

#include "coppice/base/status.h"

#include "tools/bench/bench.h"
#include "tools/bench/bench_model.h"
#include "tools/bench/gate_watch.h"
#include "tools/bench/sampler.h"
#include "tools/support/console.h"
#include "tools/support/progress.h"
#include "tools/support/statistics.h"
#include "tools/support/stopwatch.h"
#include "tools/support/text_table.h"

namespace coppice {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kEagerWay = "eager";
constexpr const char* kReplayWay = "replay";
constexpr int64_t kPrimingSteps = 2;    // One warms a bucket up, one records it.
constexpr int64_t kStagingKernels = 1;  // Of a step, besides the program's own.
constexpr double kSampleUs = 2000;      // Of eager steps: no longer than makes a sample steady.
constexpr int64_t kGateCallsMax = 200;

// Both ways of one batch size.
struct DecodeCase {
  int64_t batch = 0;
  int64_t bucket = 0;
  int64_t nodes = 0;                // Of the graph.
  std::vector<WaySamples> samples;  // Eager, replay; none if they failed.
  bool differ = false;              // Replayed steps predict other tokens.
  GateWatch gate;
  absl::Status status;       // Why there are no samples.
  absl::Status gate_status;  // Why the gate was watched no further.

  std::string choice() const {
    return gate.decided().has_value() ? NameOf(*gate.decided()) : "undecided";
  }
};

// One way of one batch size, for a profiler.
struct LoneSteps {
  int64_t batch = 0;
  int64_t kernels = 0;  // Of each step.
  int64_t steps = 0;
};

class DecodeBench {
 public:
  DecodeBench(const BenchModel& model, const BenchOptions& options, const Console& console)
      : model_(model), options_(options), console_(console) {}

  // Samples both ways and watches a gate, in sessions of their own; each may fail alone.
  DecodeCase Measure(int64_t batch) const;

  // Runs `options.only` alone. Errors: as Session::Run.
  absl::StatusOr<LoneSteps> RunAlone(int64_t batch) const;

 private:
  absl::Status Sample(DecodeCase& measured) const;
  absl::Status WatchGate(DecodeCase& measured) const;
  absl::StatusOr<int64_t> Record(const DecodeSession& decode, int64_t batch) const;
  absl::StatusOr<std::vector<int32_t>> Tokens(const DecodeSession& decode,
                                              RunKind path,
                                              int64_t batch) const;

  int64_t BucketOf(int64_t batch) const { return *model_.batches().Find(batch); }

  const BenchModel& model_;
  const BenchOptions& options_;
  const Console& console_;
};

// Records the bucket of a batch size; returns the nodes of its graph.
absl::StatusOr<int64_t> DecodeBench::Record(const DecodeSession& decode, int64_t batch) const {
  for (const RunKind path : {RunKind::kWarmUp, RunKind::kRecord})
    COPPICE_RETURN_IF_ERROR(decode.RunExpecting(path, batch).status());
  COPPICE_RETURN_IF_ERROR(model_.stream().Synchronize());
  const std::vector<NodeInfo> nodes = decode.session().nodes();
  const auto node = std::find_if(nodes.begin(), nodes.end(), [&](const NodeInfo& one) {
    return one.recorded && one.bucket.front() == BucketOf(batch);
  });
  if (node != nodes.end()) return node->graph_nodes;
  return MakeError(absl::StatusCode::kInternal,
                   "bench decode: the session recorded batch {}, but lists no graph for it", batch);
}

absl::StatusOr<std::vector<int32_t>> DecodeBench::Tokens(const DecodeSession& decode,
                                                         RunKind path,
                                                         int64_t batch) const {
  COPPICE_ASSIGN_OR_RETURN(const Lease lease, decode.RunExpecting(path, batch));
  return decode.ReadTokens(lease);
}

DecodeCase DecodeBench::Measure(int64_t batch) const {
  DecodeCase measured;
  measured.batch = batch;
  measured.bucket = BucketOf(batch);
  measured.status = Sample(measured);
  measured.gate_status = console_.stopped() ? absl::CancelledError(kStopped) : WatchGate(measured);
  return measured;
}

absl::Status DecodeBench::Sample(DecodeCase& measured) const {
  const int64_t batch = measured.batch;
  COPPICE_ASSIGN_OR_RETURN(const std::unique_ptr<DecodeSession> eager,
                           DecodeSession::Create(model_, {.stance = Stance::kEager}));
  COPPICE_ASSIGN_OR_RETURN(const std::unique_ptr<DecodeSession> replay,
                           DecodeSession::Create(model_, {}));
  COPPICE_ASSIGN_OR_RETURN(measured.nodes, Record(*replay, batch));
  COPPICE_ASSIGN_OR_RETURN(const std::vector<int32_t> expected,
                           Tokens(*eager, RunKind::kEager, batch));
  Stopwatch stopwatch;
  COPPICE_RETURN_IF_ERROR(Tokens(*replay, RunKind::kReplay, batch).status());
  const int64_t eager_calls =
      std::clamp<int64_t>(static_cast<int64_t>(kSampleUs / stopwatch.Lap()), 1,
                          CallsPerSample(measured.nodes + kStagingKernels));
  const auto way = [&](const char* name, const DecodeSession& decode, RunKind path, int64_t calls) {
    return Way{.name = name,
               .call = [&decode, path, batch] { return decode.RunExpecting(path, batch).status(); },
               .calls_per_sample = calls};
  };
  const Way ways[] = {way(kEagerWay, *eager, RunKind::kEager, eager_calls),
                      way(kReplayWay, *replay, RunKind::kReplay, kCallsPerSample)};
  COPPICE_ASSIGN_OR_RETURN(measured.samples, SampleWays(model_.driver(), model_.stream(), ways,
                                                        {.samples = options_.repetitions,
                                                         .warmup_calls = 2 * eager_calls,
                                                         .stop = console_.stop}));
  COPPICE_ASSIGN_OR_RETURN(const std::vector<int32_t> tokens,
                           Tokens(*replay, RunKind::kReplay, batch));
  measured.differ = tokens != expected;
  return absl::OkStatus();
}

// Waits for every step, as a server does that needs its tokens; so each call's time is there before
// the next one.
absl::Status DecodeBench::WatchGate(DecodeCase& measured) const {
  const Driver& driver = model_.driver();
  COPPICE_ASSIGN_OR_RETURN(const std::unique_ptr<DecodeSession> gated,
                           DecodeSession::Create(model_, {.gate = true}));
  COPPICE_RETURN_IF_ERROR(Record(*gated, measured.batch).status());
  COPPICE_ASSIGN_OR_RETURN(const Event start, Event::Create(driver, Event::Timing::kOn));
  COPPICE_ASSIGN_OR_RETURN(const Event end, Event::Create(driver, Event::Timing::kOn));
  GateWatch& gate = measured.gate;
  while (!gate.decided().has_value() && gate.calls() < kGateCallsMax) {
    COPPICE_RETURN_IF_ERROR(start.Record(model_.stream().handle()));
    COPPICE_ASSIGN_OR_RETURN(const Lease lease, gated->Run(measured.batch));
    COPPICE_RETURN_IF_ERROR(end.Record(model_.stream().handle()));
    COPPICE_RETURN_IF_ERROR(model_.stream().Synchronize());
    COPPICE_ASSIGN_OR_RETURN(const double us, end.ElapsedUs(start));
    if (lease.kind() != RunKind::kReplay && lease.kind() != RunKind::kEager) {
      return MakeError(
          absl::StatusCode::kInternal,
          "bench decode: a gated step took the path {} ({}) instead of eager or replay",
          NameOf(lease.kind()), NameOf(lease.reason()));
    }
    gate.Add(lease.kind(), us);
  }
  return absl::OkStatus();
}

absl::StatusOr<LoneSteps> DecodeBench::RunAlone(int64_t batch) const {
  const bool eager = options_.only == kEagerWay;
  COPPICE_ASSIGN_OR_RETURN(const std::unique_ptr<DecodeSession> decode,
                           DecodeSession::Create(model_, {}));
  LoneSteps alone = {.batch = batch};
  COPPICE_ASSIGN_OR_RETURN(const int64_t nodes, Record(*decode, batch));
  alone.kernels = nodes + kStagingKernels;
  if (eager) decode->session().SetStance(Stance::kEager);
  for (; alone.steps < options_.repetitions; ++alone.steps) {
    COPPICE_RETURN_IF_ERROR(
        decode->RunExpecting(eager ? RunKind::kEager : RunKind::kReplay, batch).status());
    COPPICE_RETURN_IF_ERROR(model_.stream().Synchronize());
  }
  return alone;
}

Json ToJson(const DecodeCase& measured) {
  Json ways = ToJson(measured.samples);
  if (!measured.status.ok()) {
    for (const char* name : {kEagerWay, kReplayWay})
      ways.push_back({{"name", name}, {"skipped", MessageOf(measured.status)}});
  }
  Json json = {{"batch", measured.batch},
               {"bucket", measured.bucket},
               {"nodes", {{kReplayWay, measured.nodes}}},
               {"ways", ways},
               {"tokens_equal", !measured.differ},
               {"gate", measured.choice()},
               {"gate_calls", measured.gate.calls()},
               {"gate_us",
                {{kEagerWay, measured.gate.median_us(RunKind::kEager)},
                 {kReplayWay, measured.gate.median_us(RunKind::kReplay)}}}};
  if (!measured.gate_status.ok()) json["gate_failed"] = MessageOf(measured.gate_status);
  return json;
}

Json ToJson(const LoneSteps& alone) {
  return {{"batch", alone.batch},
          {"warmup_steps", kPrimingSteps},
          {"steps", alone.steps},
          {"kernels_per_step", alone.kernels}};
}

std::string Format(const std::vector<DecodeCase>& cases) {
  TextTable table("rlrrlrlrl", {"batch", "way", "nodes", "host us", "p10..p90", "device us",
                                "p10..p90", "eager/replay", "gate"});
  const auto median = [](const std::vector<double>& us) {
    return fmt::format("{:.1f}", Median(us));
  };
  for (const DecodeCase& measured : cases) {
    for (const WaySamples& way : measured.samples) {
      const bool last = &way == &measured.samples.back();
      const double ratio = Median(measured.samples.front().device_us) / Median(way.device_us);
      table.Add({last ? "" : fmt::format("{}", measured.batch), way.name,
                 last ? fmt::format("{}", measured.nodes) : "", median(way.host_us),
                 FormatSpread(way.host_us, 1), median(way.device_us),
                 FormatSpread(way.device_us, 1), last ? fmt::format("{:.2f}", ratio) : "",
                 last ? measured.choice() : ""});
    }
  }
  return table.Format();
}

Json Describe(const BenchModel& model, const BenchOptions& options) {
  return {{"section", "decode"},
          {"device", model.kind()},
          {"device_name", model.DeviceName()},
          {"model", ToJson(model.config())},
          {"position", model.position()},
          {"precision", "float32"},
          {"samples", options.repetitions},
          {"cases", Json::array()}};
}

absl::Status RunAlone(const BenchModel& model,
                      const BenchOptions& options,
                      const Console& console,
                      BenchReport& report) {
  const DecodeBench bench(model, options, console);
  report.json["only"] = options.only;
  TextTable table("rrr", {"batch", "steps", "kernels of a step"});
  for (const int64_t batch : options.sizes) {
    if (console.stopped()) break;
    COPPICE_ASSIGN_OR_RETURN(const LoneSteps alone, bench.RunAlone(batch));
    report.json["cases"].push_back(ToJson(alone));
    table.Add({fmt::format("{}", batch), fmt::format("{}", alone.steps),
               fmt::format("{}", alone.kernels)});
  }
  report.text = table.Format();
  return absl::OkStatus();
}

void RunBoth(const BenchModel& model,
             const BenchOptions& options,
             const Console& console,
             BenchReport& report) {
  const DecodeBench bench(model, options, console);
  std::vector<DecodeCase> cases;
  Progress progress(console.err, /*enabled=*/true, "bench decode");
  for (const int64_t batch : options.sizes) {
    if (console.stopped()) break;
    const DecodeCase& measured = cases.emplace_back(bench.Measure(batch));
    progress.Update(std::ssize(cases), std::ssize(options.sizes));
    report.json["cases"].push_back(ToJson(measured));
    if (measured.differ)
      report.wrong.push_back(
          fmt::format("batch {}: a replay and an eager step predict different tokens", batch));
    for (const absl::Status* status : {&measured.status, &measured.gate_status})
      if (!status->ok())
        report.failed.push_back(fmt::format("batch {}: {}", batch, MessageOf(*status)));
  }
  report.text = fmt::format("{}\n{}", model.Title(), Format(cases));
}

}  // namespace

absl::StatusOr<BenchReport> BenchDecode(const BenchOptions& options, const Console& console) {
  COPPICE_ASSIGN_OR_RETURN(const std::unique_ptr<BenchModel> model,
                           BenchModel::Open(ModelSize::kRun, options.device));
  BenchReport report{.json = Describe(*model, options)};
  if (options.only.empty()) {
    RunBoth(*model, options, console, report);
  } else {
    COPPICE_RETURN_IF_ERROR(RunAlone(*model, options, console, report));
  }
  for (const std::string& line : model->reports())
    report.wrong.push_back(line);
  return report;
}

}  // namespace coppice
