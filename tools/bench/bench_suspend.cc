// Suspends a session of many graphs and resumes it, round after round, and replays after each.

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "nlohmann/json.hpp"

#include "coppice/base/status.h"

#include "tools/bench/bench.h"
#include "tools/bench/bench_model.h"
#include "tools/support/byte_text.h"
#include "tools/support/console.h"
#include "tools/support/progress.h"
#include "tools/support/statistics.h"
#include "tools/support/stopwatch.h"
#include "tools/support/text_table.h"

namespace coppice {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kGraphs = 64;

struct SuspendFigures {
  std::vector<int64_t> batches;  // Of the graphs.
  int64_t bytes = 0;             // Given back, by the pool's books.
  int64_t left_bytes = 0;        // What the books still have, graphs aside.
  int64_t graph_bytes = 0;       // Those of the graphs, which stay; estimated.
  int64_t driver_bytes = 0;      // Given back, as the driver says.
  int64_t mismatches = 0;        // Steps that predicted other tokens than before.
  std::vector<double> suspend_us;
  std::vector<double> resume_us;
  std::vector<double> first_replay_us;  // After Resume.
  std::vector<double> replay_us;        // The same step once more.
};

class SuspendBench {
 public:
  SuspendBench(const BenchModel& model, const Console& console)
      : model_(model), console_(console) {}

  absl::StatusOr<SuspendFigures> Measure(int64_t rounds) {
    const std::vector<int64_t> all = model_.batches().buckets();
    figures_.batches.assign(all.begin(), all.begin() + kGraphs);
    const std::vector<int64_t>& batches = figures_.batches;
    COPPICE_ASSIGN_OR_RETURN(expected_, EagerTokens(model_, batches));
    COPPICE_ASSIGN_OR_RETURN(decode_, DecodeSession::Create(model_, {}));
    for (const int64_t batch : batches) {
      COPPICE_RETURN_IF_ERROR(decode_->RunExpecting(RunKind::kWarmUp, batch).status());
      COPPICE_RETURN_IF_ERROR(decode_->RunExpecting(RunKind::kRecord, batch).status());
    }
    COPPICE_RETURN_IF_ERROR(decode_->session().memory().Trim());
    for (int64_t round = 0; round < rounds; ++round) {
      COPPICE_RETURN_IF_ERROR(RunRound());
      // Another graph in each round, and all of them in the end.
      COPPICE_RETURN_IF_ERROR(Replay(batches[static_cast<size_t>(round % kGraphs)]).status());
      progress_.Update(round + 1, rounds);
      if (console_.stopped()) break;
    }
    for (const int64_t batch : batches)
      COPPICE_RETURN_IF_ERROR(Replay(batch).status());
    return std::move(figures_);
  }

 private:
  absl::Status RunRound() {
    Session& session = decode_->session();
    const MemoryUsage before = session.memory().usage();
    COPPICE_ASSIGN_OR_RETURN(const int64_t free_before, model_.FreeBytes());
    Stopwatch stopwatch;
    COPPICE_RETURN_IF_ERROR(session.memory().Suspend({}));
    figures_.suspend_us.push_back(stopwatch.Lap());
    const MemoryUsage away = session.memory().usage();
    COPPICE_ASSIGN_OR_RETURN(const int64_t free_away, model_.FreeBytes());
    figures_.bytes = before.total - away.total;
    figures_.graph_bytes = away.of(MemoryKind::kGraphs);
    figures_.left_bytes = away.total - figures_.graph_bytes;
    figures_.driver_bytes = free_away - free_before;
    stopwatch.Lap();
    COPPICE_RETURN_IF_ERROR(session.memory().Resume());
    figures_.resume_us.push_back(stopwatch.Lap());
    for (std::vector<double>* times : {&figures_.first_replay_us, &figures_.replay_us}) {
      COPPICE_ASSIGN_OR_RETURN(const double us, Replay(figures_.batches.front()));
      times->push_back(us);
    }
    return absl::OkStatus();
  }

  // Replays a step, and returns how long it took until it had run.
  absl::StatusOr<double> Replay(int64_t batch) {
    Stopwatch stopwatch;
    COPPICE_ASSIGN_OR_RETURN(const Lease lease, decode_->RunExpecting(RunKind::kReplay, batch));
    COPPICE_RETURN_IF_ERROR(model_.stream().Synchronize());
    const double us = stopwatch.Lap();
    COPPICE_ASSIGN_OR_RETURN(const std::vector<int32_t> tokens, decode_->ReadTokens(lease));
    if (tokens != expected_.at(batch)) ++figures_.mismatches;
    return us;
  }

  const BenchModel& model_;
  const Console& console_;
  Progress progress_{console_.err, /*enabled=*/true, "bench suspend"};
  std::map<int64_t, std::vector<int32_t>> expected_;
  std::unique_ptr<DecodeSession> decode_;
  SuspendFigures figures_;
};

Json ToJson(const SuspendFigures& figures, const BenchModel& model) {
  return {{"section", "suspend"},
          {"device", model.kind()},
          {"device_name", model.DeviceName()},
          {"model", ToJson(model.config())},
          {"graphs", figures.batches.size()},
          {"batches", figures.batches},
          {"bytes", figures.bytes},
          {"left_bytes", figures.left_bytes},
          {"graph_bytes", figures.graph_bytes},
          {"driver_bytes", figures.driver_bytes},
          {"mismatches", figures.mismatches},
          {"suspend_us", figures.suspend_us},
          {"resume_us", figures.resume_us},
          {"first_replay_us", figures.first_replay_us},
          {"replay_us", figures.replay_us}};
}

std::string Format(const SuspendFigures& figures) {
  TextTable table("lrrr", {"", "median", "p99", "longest"});
  const auto add = [&](const char* label, const std::vector<double>& times) {
    table.Add({label, fmt::format("{:.1f} us", Median(times)),
               fmt::format("{:.1f} us", Quantile(times, 0.99)),
               fmt::format("{:.1f} us", Quantile(times, 1))});
  };
  add("suspend", figures.suspend_us);
  add("resume", figures.resume_us);
  add("first replay", figures.first_replay_us);
  add("later replay", figures.replay_us);
  return fmt::format(
      "  graphs  {}, for batches {} to {}; batch {} is replayed\n"
      "  memory  {} given back (the driver says {}); {} left, and an estimated {} in graphs\n"
      "\n"
      "{}",
      figures.batches.size(), figures.batches.front(), figures.batches.back(),
      figures.batches.front(), FormatBytes(figures.bytes), FormatBytes(figures.driver_bytes),
      FormatBytes(figures.left_bytes), FormatBytes(figures.graph_bytes), table.Format());
}

}  // namespace

absl::StatusOr<BenchReport> BenchSuspend(const BenchOptions& options, const Console& console) {
  COPPICE_ASSIGN_OR_RETURN(const std::unique_ptr<BenchModel> model,
                           BenchModel::Open(ModelSize::kSmall, options.device));
  COPPICE_ASSIGN_OR_RETURN(const SuspendFigures figures,
                           SuspendBench(*model, console).Measure(options.repetitions));
  BenchReport report{.json = ToJson(figures, *model),
                     .text = model->Title() + Format(figures),
                     .wrong = model->reports()};
  if (figures.mismatches > 0)
    report.wrong.push_back(fmt::format("the predicted tokens of {} differ from before",
                                       Counted(figures.mismatches, "step")));
  return report;
}

}  // namespace coppice
