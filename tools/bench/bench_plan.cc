// Plans instances of a known height, each under a limit of time, and says how many were found.

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "nlohmann/json.hpp"

#include "coppice/allocator/planner.h"
#include "coppice/base/status.h"

#include "tools/bench/bench.h"
#include "tools/bench/reference_loop.h"
#include "tools/plan/tight_instances.h"
#include "tools/support/console.h"
#include "tools/support/progress.h"
#include "tools/support/statistics.h"

namespace coppice {
namespace {

using Json = nlohmann::ordered_json;

constexpr uint64_t kFirstTuningSeed = 1;
constexpr uint64_t kFirstScoringSeed = 1'000'000;
constexpr double kQuickMs = 1000;

struct KindFigures {
  TightKind kind = TightKind::kCut;
  std::vector<double> ms;          // Processor time of each instance.
  int64_t quick = 0;               // Solved within kQuickMs.
  std::vector<uint64_t> unsolved;  // Seeds.

  int64_t solved() const { return std::ssize(ms) - std::ssize(unsolved); }
};

struct PlanFigures {
  std::vector<KindFigures> kinds;
  double reference_ms = 0;
};

absl::Status Add(uint64_t seed, int64_t time_limit_ns, KindFigures& figures) {
  const TightInstance instance = DrawTightInstance(figures.kind, seed);
  const double start_ms = ThreadMs();
  COPPICE_ASSIGN_OR_RETURN(
      const PlannerResult result,
      PlanBuffers(instance.buffers, {.height_target = kTightHeight,
                                     .search_tries_max = std::numeric_limits<int64_t>::max(),
                                     .time_limit_ns = time_limit_ns}));
  figures.ms.push_back(ThreadMs() - start_ms);
  if (result.plan.height > kTightHeight) {
    figures.unsolved.push_back(seed);
  } else if (figures.ms.back() <= kQuickMs) {
    ++figures.quick;
  }
  return absl::OkStatus();
}

absl::StatusOr<PlanFigures> Measure(const BenchPlanOptions& options,
                                    const Console& console,
                                    Progress& progress) {
  PlanFigures figures = {.reference_ms = ReferenceLoopMs()};
  const uint64_t first = options.seeds == PlanSeeds::kTuning ? kFirstTuningSeed : kFirstScoringSeed;
  const int64_t total = options.instances * std::ssize(kTightKinds);
  int64_t done = 0;
  for (const TightKind kind : kTightKinds) {
    KindFigures& one = figures.kinds.emplace_back(KindFigures{.kind = kind});
    for (int64_t i = 0; i < options.instances; ++i) {
      if (console.stopped()) return figures;
      progress.Update(done++, total);
      COPPICE_RETURN_IF_ERROR(Add(first + static_cast<uint64_t>(i), options.time_limit_ns, one));
    }
  }
  return figures;
}

Json JsonOf(const PlanFigures& figures, bool stopped) {
  Json kinds = Json::array();
  for (const KindFigures& one : figures.kinds) {
    kinds.push_back({{"kind", NameOf(one.kind)},
                     {"instances", one.ms.size()},
                     {"solved", one.solved()},
                     {"solved_within_1s", one.quick},
                     {"ms_median", Median(one.ms)},
                     {"ms_max", Quantile(one.ms, 1)},
                     {"unsolved_seeds", one.unsolved}});
  }
  return {{"kinds", kinds}, {"reference_ms", figures.reference_ms}, {"stopped", stopped}};
}

void PrintTable(const PlanFigures& figures, std::FILE* out) {
  constexpr const char* kRow = "{:<10}{:>11}{:>9}{:>13}{:>13}{:>13}\n";
  Print(out, kRow, "kind", "instances", "solved", "within 1 s", "median", "slowest");
  for (const KindFigures& one : figures.kinds) {
    Print(out, kRow, NameOf(one.kind), one.ms.size(), one.solved(), one.quick,
          fmt::format("{:.2f} ms", Median(one.ms)), fmt::format("{:.0f} ms", Quantile(one.ms, 1)));
  }
  for (const KindFigures& one : figures.kinds) {
    if (!one.unsolved.empty())
      Print(out, "not solved: {} {}\n", NameOf(one.kind), fmt::join(one.unsolved, " "));
  }
  Print(out, "\nreference loop {:.2f} ms\n", figures.reference_ms);
}

}  // namespace

absl::StatusOr<PlanSeeds> ParsePlanSeeds(const std::string& text) {
  if (text == "tuning") return PlanSeeds::kTuning;
  if (text == "scoring") return PlanSeeds::kScoring;
  return InvalidArgument("'{}' is no range of seeds; give tuning or scoring", text);
}

ExitCode BenchPlan(const BenchPlanOptions& options, const Console& console) {
  const absl::StatusOr<PlanFigures> figures = [&] {
    Progress progress(console.err, /*enabled=*/true, "bench plan");
    return Measure(options, console, progress);
  }();
  if (!figures.ok()) {
    Print(console.err, "coppice bench plan: {}\n", MessageOf(figures.status()));
    return kExitUsage;
  }
  const bool stopped = console.stopped();
  if (options.json) {
    Print(console.out, "{}\n", JsonOf(*figures, stopped).dump(2));
  } else {
    PrintTable(*figures, console.out);
  }
  return stopped ? kExitStopped : kExitOk;
}

}  // namespace coppice
