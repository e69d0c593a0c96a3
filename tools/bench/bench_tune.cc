// Learns buckets from drawn traffic of several widths, and looks sizes up in what was learned.

#include <algorithm>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "nlohmann/json.hpp"

#include "coppice/base/status.h"
#include "coppice/padding/learn_buckets.h"
#include "coppice/padding/padding_policy.h"

#include "tools/bench/bench.h"
#include "tools/bench/reference_loop.h"
#include "tools/support/console.h"
#include "tools/support/progress.h"
#include "tools/support/text_table.h"

namespace coppice {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kTuneBuckets = 64;
constexpr int64_t kTuneCalls = 200'000;
constexpr int kTuneRuns = 5;  // The least time counts: what else happens only adds.
constexpr double kTuneCap = 1.25;

struct SolveFigures {
  int64_t sizes = 0;
  double max_ratio = 0;  // 0: no cap.
  double waste_pct = 0;
  double ms = std::numeric_limits<double>::infinity();  // Processor time.
};

struct TuneFigures {
  std::vector<SolveFigures> solves;
  int64_t find_buckets = 0;
  double find_ns = 0;  // Of one look-up, sizes in no order.
  double reference_ms = 0;
};

double Uniform(std::mt19937_64& random) {
  return static_cast<double>(random() >> 11) * 0x1p-53;
}

// Sizes up to `limit`: many are small and few are large, as of prompts.
std::vector<int64_t> DrawSizes(int64_t limit) {
  std::mt19937_64 random(static_cast<uint64_t>(limit));
  std::vector<int64_t> sizes;
  for (int64_t i = 0; i < kTuneCalls; ++i) {
    const double share = Uniform(random) * Uniform(random) * Uniform(random);
    sizes.push_back(1 + static_cast<int64_t>(share * static_cast<double>(limit)));
  }
  return sizes;
}

absl::StatusOr<SolveFigures> TimeSolve(int64_t sizes, double max_ratio) {
  COPPICE_ASSIGN_OR_RETURN(const SizeHistogram traffic, SizeHistogram::FromSizes(DrawSizes(sizes)));
  SolveFigures figures = {.sizes = sizes, .max_ratio = max_ratio};
  for (int run = 0; run < kTuneRuns; ++run) {
    const double start_ms = ThreadMs();
    COPPICE_ASSIGN_OR_RETURN(
        const LearnedBuckets learned,
        LearnBuckets(traffic, {.limit = sizes, .count = kTuneBuckets, .max_ratio = max_ratio}));
    figures.ms = std::min(figures.ms, ThreadMs() - start_ms);
    figures.waste_pct = learned.waste_pct;
  }
  return figures;
}

absl::Status TimeFind(TuneFigures& figures) {
  constexpr int64_t kLimit = 8192;
  figures.find_buckets = 1024;
  const std::vector<int64_t> sizes = DrawSizes(kLimit);
  COPPICE_ASSIGN_OR_RETURN(const SizeHistogram traffic, SizeHistogram::FromSizes(sizes));
  COPPICE_ASSIGN_OR_RETURN(const LearnedBuckets learned,
                           LearnBuckets(traffic, {.limit = kLimit, .count = figures.find_buckets}));
  COPPICE_ASSIGN_OR_RETURN(const PaddingPolicy ladder,
                           PaddingPolicy::List(learned.buckets, kLimit));
  COPPICE_ASSIGN_OR_RETURN(const PaddingPolicy policy, ladder.WithGuard({.max_ratio = 1.001}));
  double least_ms = std::numeric_limits<double>::infinity();
  int64_t found = 0;
  for (int run = 0; run < kTuneRuns; ++run) {
    const double start_ms = ThreadMs();
    for (const int64_t size : sizes)
      found += policy.Find(size).value_or(0);
    least_ms = std::min(least_ms, ThreadMs() - start_ms);
  }
  // Never so: it makes the look-ups' results of use.
  if (found == 0) return InvalidArgument("no size has a bucket");
  figures.find_ns = least_ms * 1e6 / static_cast<double>(kTuneCalls);
  return absl::OkStatus();
}

absl::StatusOr<TuneFigures> MeasureTune(const BenchOptions& options, const Console& console) {
  const auto total = static_cast<int64_t>(2 * options.sizes.size() + 1);
  Progress progress(console.err, /*enabled=*/true, "bench tune");
  int64_t done = 0;
  TuneFigures figures = {.reference_ms = ReferenceLoopMs()};
  COPPICE_RETURN_IF_ERROR(TimeFind(figures));
  progress.Update(++done, total);
  for (const int64_t sizes : options.sizes) {
    for (const double max_ratio : {0.0, kTuneCap}) {
      if (console.stopped()) return figures;
      COPPICE_ASSIGN_OR_RETURN(SolveFigures one, TimeSolve(sizes, max_ratio));
      figures.solves.push_back(one);
      progress.Update(++done, total);
    }
  }
  return figures;
}

Json JsonOf(const TuneFigures& figures) {
  Json solves = Json::array();
  for (const SolveFigures& one : figures.solves) {
    Json cap;
    if (one.max_ratio != 0) cap = one.max_ratio;
    solves.push_back({{"sizes", one.sizes},
                      {"buckets", kTuneBuckets},
                      {"max_ratio", cap},
                      {"waste_pct", one.waste_pct},
                      {"ms", one.ms}});
  }
  return {{"solves", solves},
          {"find_buckets", figures.find_buckets},
          {"find_ns", figures.find_ns},
          {"reference_ms", figures.reference_ms}};
}

std::string Format(const TuneFigures& figures) {
  TextTable table("rrrrr", {"sizes", "buckets", "max ratio", "waste", "solve"});
  for (const SolveFigures& one : figures.solves)
    table.Add({fmt::format("{}", one.sizes), fmt::format("{}", kTuneBuckets),
               one.max_ratio == 0 ? "none" : fmt::format("{}", one.max_ratio),
               fmt::format("{:.2f} %", one.waste_pct), fmt::format("{:.2f} ms", one.ms)});
  return fmt::format(
      "{}\n"
      "looking up a size among {} buckets takes {:.1f} ns; reference loop {:.2f} ms\n",
      table.Format(), figures.find_buckets, figures.find_ns, figures.reference_ms);
}

}  // namespace

absl::StatusOr<BenchReport> BenchTune(const BenchOptions& options, const Console& console) {
  COPPICE_ASSIGN_OR_RETURN(const TuneFigures figures, MeasureTune(options, console));
  return BenchReport{.json = JsonOf(figures), .text = Format(figures)};
}

}  // namespace coppice
