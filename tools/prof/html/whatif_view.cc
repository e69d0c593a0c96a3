// One repetition per step, and one for all steps that change nothing.

#include "tools/prof/html/whatif_view.h"

#include <utility>
#include <vector>

#include "coppice/base/status.h"

#include "tools/prof/html/whatif_ladders.h"
#include "tools/prof/whatif/whatif_report.h"

namespace coppice {
namespace {

using Json = nlohmann::ordered_json;

Json OutcomeJson(const absl::StatusOr<WhatIfOutcome>& outcome) {
  if (!outcome.ok()) return {{"error", MessageOf(outcome.status())}};
  return {{"figures", ToJson(outcome->figures)},
          {"estimates", outcome->estimates},
          {"sizes",
           {{"recorded", outcome->sizes.recorded},
            {"computed", outcome->sizes.interpolated},
            {"guessed", outcome->sizes.estimated}}},
          {"guessed_times", outcome->guessed_times},
          {"unknown_times", outcome->unknown_times},
          {"copy_out_bytes", outcome->copy_out_bytes},
          {"first_refusal", outcome->first_refusal}};
}

}  // namespace

absl::StatusOr<std::unique_ptr<WhatIf>> OpenWhatIf(const std::string& path,
                                                   const ReportFacts& facts,
                                                   const ReportLimits& limits) {
  if (facts.calls.size() > limits.what_if_calls)
    return InvalidArgument(
        "--what-if: {} has {} calls, but every change repeats all calls, so at most {} calls are "
        "allowed; leave the option out, or trace fewer calls",
        path, facts.calls.size(), limits.what_if_calls);
  return WhatIf::Open(path);
}

absl::StatusOr<Json> WhatIfOf(WhatIf& whatif,
                              const ReportFacts& facts,
                              const ReportLimits& limits,
                              Json& left_out,
                              const WhatIf::OnProgress& on_progress) {
  COPPICE_ASSIGN_OR_RETURN(const WhatIfOutcome same, whatif.Repeat({}));
  const std::vector<WhatIfLadder> ladders =
      LaddersOf(facts, same.figures.total_peak, limits, left_out);
  std::vector<WhatIfChanges> changes;
  Json views = Json::array();
  for (const WhatIfLadder& ladder : ladders) {
    Json steps = Json::array();
    for (const WhatIfStep& step : ladder.steps) {
      // The first outcome is that of no change.
      size_t outcome = 0;
      if (!step.changes.empty()) {
        changes.push_back(step.changes);
        outcome = changes.size();
      }
      steps.push_back(
          {{"label", step.label}, {"change", Describe(step.changes)}, {"outcome", outcome}});
    }
    views.push_back({{"kind", ladder.kind}, {"label", ladder.label}, {"steps", std::move(steps)}});
  }
  Json outcomes = Json::array({OutcomeJson(same)});
  for (const WhatIfRung& rung : whatif.RepeatEach(changes, on_progress))
    outcomes.push_back(OutcomeJson(rung.outcome));
  return Json{{"calls", facts.calls.size()},
              {"differences", same.figures.DifferencesFrom(whatif.recorded())},
              {"gaps", whatif.gaps()},
              {"outcomes", std::move(outcomes)},
              {"ladders", std::move(views)}};
}

}  // namespace coppice
