// Sums of padding by the buckets of their time.

#include "tools/run/relearning.h"

#include <optional>
#include <string>
#include <utility>

#include "fmt/format.h"

#include "coppice/base/check.h"
#include "coppice/base/status.h"
#include "coppice/graphs/rebucket.h"

namespace coppice {
namespace {

// What the limits are, in place of advice to raise what the command does not set.
std::string WhyRefused(const RebucketReport& report) {
  if (report.outcome == Rebucketed::kLimited) {
    const RebucketOptions options;
    return fmt::format(
        "the swap needs too many graphs; at most {} are allowed per swap, and {} per minute of the "
        "virtual clock",
        options.graphs_max, options.graphs_per_minute);
  }
  return MessageOf(report.why);
}

}  // namespace

int64_t RelearnedSymbol::graphs() const {
  int64_t sum = 0;
  for (const BucketSwap& swap : swaps)
    sum += swap.graphs;
  return sum;
}

Relearning::Relearning(StepRunner& runner, int64_t period) : runner_(runner), period_(period) {
  COPPICE_CHECK(period >= 1, "a period without steps");
  for (const bool prefill : {true, false}) {
    const PaddingPolicy& policy = runner.policy(prefill);
    if (policy.is_exact()) continue;
    learners_[prefill].emplace(Learner{.at_rest = policy,
                                       .symbol = {.program = StepRunner::ProgramName(prefill),
                                                  .name = runner.symbol_name(prefill),
                                                  .guarded = policy.guard() != PaddingGuard(),
                                                  .buckets_before = policy.buckets()}});
  }
}

absl::Status Relearning::Add(const Step& step) {
  std::optional<Learner>& learner = learners_[step.prefill];
  if (!learner) return absl::OkStatus();
  RelearnedSymbol& symbol = learner->symbol;
  const int64_t extent = ExtentOf(step);
  for (PaddingSum* sum : {&symbol.all, symbol.swaps.empty() ? &symbol.before : &symbol.after}) {
    ++sum->steps;
    sum->served.Add(extent, runner_.policy(step.prefill));
    sum->at_rest.Add(extent, learner->at_rest);
  }
  if (++learner->steps % period_ != 0) return absl::OkStatus();
  return Learn(step.prefill, step.start_seconds, *learner);
}

absl::Status Relearning::Learn(bool prefill, double now_seconds, Learner& learner) {
  RelearnedSymbol& symbol = learner.symbol;
  COPPICE_ASSIGN_OR_RETURN(RebucketReport report,
                           runner_.Rebucket(prefill, static_cast<int64_t>(1e9 * now_seconds)));
  ++symbol.looks;
  if (report.outcome == Rebucketed::kSwapped) {
    symbol.swaps.push_back(
        {.step = learner.steps, .graphs = report.graphs, .learned = std::move(report.learned)});
    symbol.after = {};
  } else if (!report.why.ok()) {
    ++symbol.refused;
    symbol.why = WhyRefused(report);
  }
  return absl::OkStatus();
}

RelearnReport Relearning::Report() const {
  RelearnReport report{.period = period_};
  for (const bool prefill : {true, false}) {
    if (!learners_[prefill]) continue;
    report.symbols.push_back(learners_[prefill]->symbol);
    report.symbols.back().buckets_after = runner_.policy(prefill).buckets();
  }
  return report;
}

}  // namespace coppice
