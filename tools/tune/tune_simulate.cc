// `coppice tune simulate`: from requests to steps, and what relearning makes of them.

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "nlohmann/json.hpp"

#include "coppice/base/status.h"
#include "coppice/padding/learn_buckets.h"

#include "tools/support/progress.h"
#include "tools/support/statistics.h"
#include "tools/support/text_file.h"
#include "tools/support/text_table.h"
#include "tools/tune/relearn_run.h"
#include "tools/tune/timed_requests.h"
#include "tools/tune/tune.h"
#include "tools/tune/tune_traffic.h"

namespace coppice {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kPeriodsShown = 30;

struct SimulateReport {
  SimulatedSteps steps;
  std::optional<RelearnRun> relearn;
  int64_t start_buckets = 0;
};

bool OfDecodeSteps(const TuneSimulateOptions& options) {
  return options.column == "decode_rows";
}

// What relearning begins with.
struct RelearnPlan {
  std::vector<int64_t> start;
  RelearnRunOptions run;
};

absl::StatusOr<std::vector<int64_t>> StartBuckets(const TuneSimulateOptions& options,
                                                  int64_t limit) {
  const absl::StatusOr<PaddingPolicy> start = ReadPolicy(options.start, limit, limit);
  if (!start.ok()) return InvalidArgument("--start: {}", MessageOf(start.status()));
  if (start->is_exact())
    return InvalidArgument(
        "--start {}: the policy `exact` pads nothing; give a policy with buckets", options.start);
  return start->buckets();
}

// Those of the options that the learner may object to and that nobody has changed, as " (by
// default --buckets 25)".
std::string DefaultsOf(const TuneSimulateOptions& options) {
  const TuneSimulateOptions otherwise;
  std::vector<std::string> defaults;
  if (options.buckets == otherwise.buckets)
    defaults.push_back(fmt::format("--buckets {}", otherwise.buckets));
  if (options.limit == 0)
    defaults.push_back(
        fmt::format("the limit of {}", OfDecodeSteps(options) ? "--seqs" : "--budget"));
  if (options.max_ratio == otherwise.max_ratio)
    defaults.push_back(fmt::format("--max-ratio {}", otherwise.max_ratio));
  if (options.max_ratio > 0 && options.max_gap == otherwise.max_gap)
    defaults.push_back(fmt::format("--max-gap {}", otherwise.max_gap));
  if (defaults.empty()) return {};
  return fmt::format(" (by default {})", fmt::join(defaults, ", "));
}

// Learns once from a single call, because what the learner objects to are options, not traffic.
absl::StatusOr<RelearnPlan> PlanRelearning(const TuneSimulateOptions& options) {
  const SimulatorOptions& simulator = options.simulator;
  const int64_t largest =
      OfDecodeSteps(options) ? simulator.sequences_max : simulator.budget_tokens;
  const int64_t limit = options.limit > 0 ? options.limit : largest;
  RelearnPlan plan;
  COPPICE_ASSIGN_OR_RETURN(plan.start, StartBuckets(options, limit));
  plan.run = {.relearn = {.learn = {.limit = limit,
                                    .count = options.buckets,
                                    .align = options.align,
                                    .prior = options.prior,
                                    .max_ratio = options.max_ratio,
                                    .max_gap = options.max_ratio > 0 ? options.max_gap : 0},
                          .added_max = options.added,
                          .gain_min = options.gain,
                          .gain_each = options.gain_each},
              .period = options.period,
              .half_life = options.half_life};
  COPPICE_RETURN_IF_ERROR(RunRelearning({}, plan.start, plan.run).status());
  SizeHistogram one;
  one.Add(limit);
  const absl::Status learned = LearnBuckets(one, plan.run.relearn.learn).status();
  if (learned.ok()) return plan;
  return InvalidArgument("--relearn: {}{}", MessageOf(learned), DefaultsOf(options));
}

absl::Status AddRelearning(const TuneSimulateOptions& options,
                           const RelearnPlan& plan,
                           SimulateReport& report) {
  std::vector<int64_t> sizes;
  for (const SimulatedStep& step : report.steps.steps)
    if (step.decode == OfDecodeSteps(options)) sizes.push_back(step.size);
  report.start_buckets = static_cast<int64_t>(plan.start.size());
  COPPICE_ASSIGN_OR_RETURN(report.relearn, RunRelearning(sizes, plan.start, plan.run));
  return absl::OkStatus();
}

// That there were steps to simulate.
absl::Status CheckTimes(const SimulatedSteps& steps) {
  if (!steps.steps.empty()) return absl::OkStatus();
  if (std::isinf(steps.capacity))
    return InvalidArgument(
        "a step takes no time; set one of --overhead-us, --weights-us, --token-us and --kv-ns "
        "above 0");
  return InvalidArgument(
      "at {} requests/s, the times of steps and arrivals are too short or too long to add up; give "
      "times and loads nearer to the defaults",
      steps.capacity);
}

absl::StatusOr<SimulateReport> Simulate(const TuneSimulateOptions& options,
                                        const Console& console) {
  RelearnPlan plan;
  if (options.relearn) {
    COPPICE_ASSIGN_OR_RETURN(plan, PlanRelearning(options));
  }
  COPPICE_ASSIGN_OR_RETURN(const std::vector<TimedRequest> requests,
                           ReadRequests(options.trace, console));
  SimulateReport report;
  Progress progress(console.err, /*enabled=*/true, "simulate");
  report.steps = SimulateSteps(requests, options.simulator, [&](int64_t done, int64_t total) {
    progress.Update(done, total);
    return !console.stopped();
  });
  COPPICE_RETURN_IF_ERROR(CheckTimes(report.steps));
  if (console.stopped()) return report;
  if (options.relearn) COPPICE_RETURN_IF_ERROR(AddRelearning(options, plan, report));
  return report;
}

// Sizes of the steps of one kind at one load.
std::vector<int64_t> SizesOf(const SimulatedSteps& steps, size_t load, bool decode) {
  std::vector<int64_t> sizes;
  for (const SimulatedStep& step : steps.steps)
    if (step.load == static_cast<int32_t>(load) && step.decode == decode)
      sizes.push_back(step.size);
  return sizes;
}

struct SizeFigures {
  size_t steps = 0;
  double mean = 0;
  double p50 = 0;
  double p99 = 0;
  int64_t largest = 0;
};

SizeFigures FiguresOf(const std::vector<int64_t>& sizes) {
  if (sizes.empty()) return {};
  double sum = 0;
  for (const int64_t size : sizes)
    sum += static_cast<double>(size);
  return {.steps = sizes.size(),
          .mean = sum / static_cast<double>(sizes.size()),
          .p50 = Quantile(sizes, 0.5),
          .p99 = Quantile(sizes, 0.99),
          .largest = *std::max_element(sizes.begin(), sizes.end())};
}

Json JsonOf(const SizeFigures& figures) {
  return {{"steps", figures.steps},
          {"mean", figures.mean},
          {"p50", figures.p50},
          {"p99", figures.p99},
          {"largest", figures.largest}};
}

double WasteOf(const RelearnRun::Period& period) {
  return period.real > 0 ? 100 * (period.padded - period.real) / period.real : 0;
}

Json JsonOf(const RelearnRun& run, int64_t start_buckets) {
  Json swaps = Json::array();
  for (const RelearnSwap& swap : run.swaps) {
    swaps.push_back({{"call", swap.call},
                     {"added", swap.relearned.added},
                     {"dropped", swap.relearned.dropped},
                     {"waste_before_pct", swap.relearned.waste_before_pct},
                     {"waste_after_pct", swap.relearned.waste_after_pct}});
  }
  Json waste = Json::array();
  for (const RelearnRun::Period& period : run.periods)
    waste.push_back(WasteOf(period));
  return {{"waste_pct", run.waste_pct},
          {"waste_without_pct", run.waste_at_rest_pct},
          {"graphs_at_start", start_buckets},
          {"graphs_recorded", run.recorded},
          {"graphs_per_swap_max", run.recorded_most},
          {"calls_beyond", run.beyond},
          {"buckets", run.buckets},
          {"swaps", swaps},
          {"waste_of_periods_pct", waste}};
}

Json JsonOf(const TuneSimulateOptions& options, const SimulateReport& report) {
  Json loads = Json::array();
  for (size_t i = 0; i < options.simulator.loads.size(); ++i) {
    loads.push_back({{"load", options.simulator.loads[i]},
                     {"decode_rows", JsonOf(FiguresOf(SizesOf(report.steps, i, true)))},
                     {"mixed_tokens", JsonOf(FiguresOf(SizesOf(report.steps, i, false)))}});
  }
  return {{"capacity_requests_per_s", report.steps.capacity},
          {"requests_finished", report.steps.finished},
          {"preemptions", report.steps.preemptions},
          {"loads", loads},
          {"relearn", report.relearn ? JsonOf(*report.relearn, report.start_buckets) : Json()}};
}

void PrintRelearning(const RelearnRun& run, int64_t period, std::FILE* out) {
  Print(out, "\nrelearned: waste {:.2f} %; {:.2f} % with the first buckets\n", run.waste_pct,
        run.waste_at_rest_pct);
  Print(out, "{} recorded {}, at most {} in one swap\n", Counted(std::ssize(run.swaps), "swap"),
        Counted(run.recorded, "graph"), run.recorded_most);
  if (run.beyond > 0) Print(out, "steps above the limit, not counted: {}\n", run.beyond);
  TextTable table("rrrr", {"steps", "waste", "without", "graphs"});
  const size_t each = (run.periods.size() + kPeriodsShown - 1) / kPeriodsShown;
  auto swap = run.swaps.begin();
  for (size_t i = 0; i < run.periods.size(); i += each) {
    RelearnRun::Period sum;
    const size_t end = std::min(i + each, run.periods.size());
    for (size_t j = i; j < end; ++j) {
      sum.real += run.periods[j].real;
      sum.padded += run.periods[j].padded;
      sum.at_rest += run.periods[j].at_rest;
    }
    const int64_t calls = static_cast<int64_t>(end) * period;
    size_t recorded = 0;
    for (; swap != run.swaps.end() && swap->call <= calls; ++swap)
      recorded += swap->relearned.added.size();
    const double without = sum.real > 0 ? 100 * (sum.at_rest - sum.real) / sum.real : 0;
    table.Add({fmt::format("{}", calls), fmt::format("{:.2f} %", WasteOf(sum)),
               fmt::format("{:.2f} %", without),
               recorded > 0 ? fmt::format("{}", recorded) : std::string()});
  }
  Print(out, "\n{}\nbuckets at the end: {}\n", table.Format(), ShortList(run.buckets));
}

void PrintReport(const TuneSimulateOptions& options, const SimulateReport& report, std::FILE* out) {
  Print(out, "capacity {:.2f} requests/s; {} finished, {} preemptions\n\n", report.steps.capacity,
        report.steps.finished, report.steps.preemptions);
  TextTable table("rlrrrrr", {"load", "column", "steps", "mean", "p50", "p99", "largest"});
  for (size_t i = 0; i < options.simulator.loads.size(); ++i) {
    for (const bool decode : {true, false}) {
      const SizeFigures figures = FiguresOf(SizesOf(report.steps, i, decode));
      table.Add({fmt::format("{}", options.simulator.loads[i]),
                 decode ? "decode_rows" : "mixed_tokens", fmt::format("{}", figures.steps),
                 fmt::format("{:.1f}", figures.mean), fmt::format("{:.0f}", figures.p50),
                 fmt::format("{:.0f}", figures.p99), fmt::format("{}", figures.largest)});
    }
  }
  Print(out, "{}", table.Format());
  if (report.relearn) PrintRelearning(*report.relearn, options.period, out);
}

std::string FormatSteps(const TuneSimulateOptions& options, const SimulatedSteps& steps) {
  std::string text = "start_seconds,load,decode_rows,mixed_tokens\n";
  for (const SimulatedStep& step : steps.steps) {
    fmt::format_to(std::back_inserter(text), "{:.6f},{},", step.start_s,
                   options.simulator.loads[static_cast<size_t>(step.load)]);
    text += step.decode ? fmt::format("{},\n", step.size) : fmt::format(",{}\n", step.size);
  }
  return text;
}

}  // namespace

ExitCode TuneSimulate(const TuneSimulateOptions& options, const Console& console) {
  std::vector<std::string> inputs = {options.trace};
  if (NamesPolicyFile(options.start)) inputs.push_back(options.start);
  const std::vector<std::string> outputs = {options.output};
  if (const absl::Status status = CheckOutputs(inputs, outputs); !status.ok())
    return FailTune(console, "tune simulate", status);
  const absl::StatusOr<SimulateReport> report = Simulate(options, console);
  if (!report.ok()) return FailTune(console, "tune simulate", report.status());
  if (options.json) {
    Print(console.out, "{}\n",
          JsonOf(options, *report).dump(2, ' ', false, Json::error_handler_t::replace));
  } else {
    PrintReport(options, *report, console.out);
  }
  if (options.output.empty()) return console.stopped() ? kExitStopped : kExitOk;
  if (const absl::Status status =
          WriteTextFile(options.output, FormatSteps(options, report->steps));
      !status.ok())
    return FailTune(console, "tune simulate", status, kExitOutput);
  return console.stopped() ? kExitStopped : kExitOk;
}

}  // namespace coppice
