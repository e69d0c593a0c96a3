// Calls one by one.

#include "tools/tune/relearn_run.h"

#include <algorithm>
#include <utility>

#include "coppice/base/status.h"
#include "coppice/padding/decaying_histogram.h"
#include "coppice/padding/padding_policy.h"

namespace coppice {
namespace {

double Waste(double real, double padded) {
  return real > 0 ? 100 * (padded - real) / real : 0;
}

}  // namespace

absl::StatusOr<RelearnRun> RunRelearning(std::span<const int64_t> sizes,
                                         std::span<const int64_t> start,
                                         const RelearnRunOptions& options) {
  const LearnOptions& learn = options.relearn.learn;
  const auto cost = [&](int64_t size) {
    return learn.cost ? learn.cost(size) : static_cast<double>(size);
  };
  COPPICE_ASSIGN_OR_RETURN(
      DecayingHistogram observed,
      DecayingHistogram::Create({.limit = learn.limit, .half_life = options.half_life}));
  COPPICE_ASSIGN_OR_RETURN(const PaddingPolicy rest, PaddingPolicy::List(start, learn.limit));
  PaddingPolicy policy = rest;

  RelearnRun run;
  run.buckets.assign(start.begin(), start.end());
  RelearnRun::Period period;
  RelearnRun::Period all;
  for (size_t i = 0; i < sizes.size(); ++i) {
    observed.Add(sizes[i]);
    if (sizes[i] > learn.limit) {
      ++run.beyond;
    } else {
      ++period.calls;
      period.real += cost(sizes[i]);
      period.padded += cost(*policy.Find(sizes[i]));
      period.at_rest += cost(*rest.Find(sizes[i]));
    }
    const auto calls = static_cast<int64_t>(i) + 1;
    if (calls % options.period != 0 && i + 1 < sizes.size()) continue;
    all.real += period.real;
    all.padded += period.padded;
    all.at_rest += period.at_rest;
    run.periods.push_back(std::exchange(period, {}));
    const SizeHistogram histogram = observed.Fold();
    if (i + 1 == sizes.size() || histogram.empty()) continue;
    COPPICE_ASSIGN_OR_RETURN(Relearned relearned, Relearn(histogram, run.buckets, options.relearn));
    if (!relearned.swap) continue;
    const auto added = static_cast<int64_t>(relearned.added.size());
    run.recorded += added;
    run.recorded_most = std::max(run.recorded_most, added);
    run.buckets = relearned.buckets;
    COPPICE_ASSIGN_OR_RETURN(policy, PaddingPolicy::List(run.buckets, learn.limit));
    run.swaps.push_back({.call = calls, .relearned = std::move(relearned)});
  }
  run.waste_pct = Waste(all.real, all.padded);
  run.waste_at_rest_pct = Waste(all.real, all.at_rest);
  return run;
}

}  // namespace coppice
