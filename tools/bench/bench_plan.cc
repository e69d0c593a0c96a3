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
#include "tools/support/text_table.h"

namespace coppice {
namespace {

using Json = nlohmann::ordered_json;

constexpr uint64_t kFirstSeed = 1'000'000;
constexpr int64_t kTimeLimitNs = 10'000'000'000;  // Of an instance, of host time.
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

absl::Status Add(uint64_t seed, KindFigures& figures) {
  const TightInstance instance = DrawTightInstance(figures.kind, seed);
  const double start_ms = ThreadMs();
  COPPICE_ASSIGN_OR_RETURN(
      const PlannerResult result,
      PlanBuffers(instance.buffers, {.height_target = kTightHeight,
                                     .search_tries_max = std::numeric_limits<int64_t>::max(),
                                     .time_limit_ns = kTimeLimitNs}));
  figures.ms.push_back(ThreadMs() - start_ms);
  if (result.plan.height > kTightHeight) {
    figures.unsolved.push_back(seed);
  } else if (figures.ms.back() <= kQuickMs) {
    ++figures.quick;
  }
  return absl::OkStatus();
}

absl::StatusOr<PlanFigures> Measure(int64_t instances, const Console& console) {
  Progress progress(console.err, /*enabled=*/true, "bench plan");
  PlanFigures figures = {.reference_ms = ReferenceLoopMs()};
  const int64_t total = instances * std::ssize(kTightKinds);
  int64_t done = 0;
  for (const TightKind kind : kTightKinds) {
    KindFigures& one = figures.kinds.emplace_back(KindFigures{.kind = kind});
    for (int64_t i = 0; i < instances; ++i) {
      if (console.stopped()) return figures;
      progress.Update(done++, total);
      COPPICE_RETURN_IF_ERROR(Add(kFirstSeed + static_cast<uint64_t>(i), one));
    }
  }
  return figures;
}

Json JsonOf(const PlanFigures& figures) {
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
  return {{"kinds", kinds}, {"reference_ms", figures.reference_ms}};
}

std::string Format(const PlanFigures& figures) {
  TextTable table("lrrrrr", {"kind", "instances", "solved", "within 1 s", "median", "slowest"});
  std::string unsolved;
  for (const KindFigures& one : figures.kinds) {
    table.Add({NameOf(one.kind), fmt::format("{}", one.ms.size()), fmt::format("{}", one.solved()),
               fmt::format("{}", one.quick), fmt::format("{:.2f} ms", Median(one.ms)),
               fmt::format("{:.0f} ms", Quantile(one.ms, 1))});
    if (!one.unsolved.empty())
      unsolved +=
          fmt::format("not solved: {} {}\n", NameOf(one.kind), fmt::join(one.unsolved, " "));
  }
  return fmt::format("{}{}\nreference loop {:.2f} ms\n", table.Format(), unsolved,
                     figures.reference_ms);
}

}  // namespace

absl::StatusOr<BenchReport> BenchPlan(const BenchOptions& options, const Console& console) {
  COPPICE_ASSIGN_OR_RETURN(const PlanFigures figures, Measure(options.repetitions, console));
  return BenchReport{.json = JsonOf(figures), .text = Format(figures)};
}

}  // namespace coppice
