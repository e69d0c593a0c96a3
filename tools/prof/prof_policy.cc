// How much each size of each program is padded, and what other ladders would have cost on the very
// same calls.

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "nlohmann/json.hpp"

#include "coppice/base/status.h"
#include "coppice/padding/learn_buckets.h"
#include "coppice/padding/padding_policy.h"
#include "coppice/padding/padding_presets.h"
#include "coppice/padding/score_buckets.h"
#include "coppice/padding/size_histogram.h"

#include "tools/prof/bucket_figures.h"
#include "tools/prof/latest_policies.h"
#include "tools/prof/prof.h"
#include "tools/support/text_table.h"

namespace coppice {
namespace {

// What calls brought of one symbol.
struct SymbolTraffic {
  SizeHistogram sizes;          // Of all calls, however they ran; from 1 on.
  int64_t calls = 0;            // All of them,
  int64_t bucketed = 0;         // and those in a bucket, whose sums follow.
  int64_t real = 0;             // Elements along this symbol.
  int64_t padded = 0;           // The same of their buckets.
  std::set<int64_t> buckets{};  // Extents that these have.
  int64_t limit = 0;            // Of other ladders.
};

using ProgramTraffic = std::vector<SymbolTraffic>;  // By symbol.

struct Candidate {
  std::string policy;
  int64_t buckets = 0;
  double waste_pct = 0;
};

double WasteOf(const SymbolTraffic& traffic) {
  return Percent(traffic.padded - traffic.real, traffic.real);
}

void CountCall(const PoolTrace& trace, const CallEvent& call, ProgramTraffic& symbols) {
  for (size_t i = 0; i < call.extents.size(); ++i) {
    if (i == symbols.size()) symbols.emplace_back();
    SymbolTraffic& symbol = symbols[i];
    const int64_t size = call.extents[i];
    ++symbol.calls;
    if (size > 0) symbol.sizes.Add(size);
    if (call.bucket < 0 || call.path == RunKind::kEager) continue;
    const std::vector<int64_t>& extents = trace.buckets[static_cast<size_t>(call.bucket)].extents;
    if (i >= extents.size()) continue;
    ++symbol.bucketed;
    symbol.real = AddUpTo(symbol.real, size);
    symbol.padded = AddUpTo(symbol.padded, extents[i]);
    symbol.buckets.insert(extents[i]);
  }
}

// The maximum of the policy that the symbol had last, as calls above it have no bucket; where it is
// not known or pads nothing, the largest size or bucket there was.
int64_t LimitOf(const PoolTrace& trace,
                const LatestPolicies& latest,
                int program,
                int symbol,
                const SymbolTraffic& traffic) {
  const std::optional<PaddingPolicy> policy = latest.Find(trace, program, symbol);
  if (policy && !policy->is_exact()) return policy->maximum();
  return std::max(traffic.sizes.largest(), traffic.buckets.empty() ? 0 : *traffic.buckets.rbegin());
}

// Other ladders, the least waste first.
std::vector<Candidate> CandidatesFor(const SymbolTraffic& traffic) {
  std::vector<Candidate> candidates;
  const int64_t limit = traffic.limit;
  if (traffic.sizes.empty()) return candidates;
  const auto count = std::max<int64_t>(std::ssize(traffic.buckets), 1);
  // Counts are of buckets that calls run in, as that of what ran is.
  const int64_t largest = std::min(limit, traffic.sizes.largest());
  std::set<int64_t> tried;
  for (const int64_t k : {count, 2 * count, int64_t{16}, int64_t{32}}) {
    const absl::StatusOr<LearnedBuckets> learned =
        LearnBuckets(traffic.sizes, {.limit = largest, .count = std::min(k, largest)});
    if (!learned.ok() || !tried.insert(std::ssize(learned->buckets)).second) continue;
    candidates.push_back({"learned", std::ssize(learned->buckets), learned->waste_pct});
  }
  for (const PaddingPreset& preset : PaddingPresets()) {
    const absl::StatusOr<PaddingPolicy> policy = PaddingPolicy::Parse(preset.name, limit);
    if (!policy.ok()) continue;  // It has no ladder up to there.
    const PolicyScore score = ScoreBuckets(traffic.sizes, *policy);
    candidates.push_back({preset.name, score.buckets, score.waste_pct});
  }
  std::ranges::stable_sort(candidates, {}, &Candidate::waste_pct);
  return candidates;
}

std::string SymbolName(const TracedProgram& program, size_t symbol) {
  return symbol < program.symbols.size() ? program.symbols[symbol] : fmt::format("{}", symbol);
}

nlohmann::ordered_json ToJson(const TracedProgram& program, const ProgramTraffic& symbols) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (size_t i = 0; i < symbols.size(); ++i) {
    const SymbolTraffic& traffic = symbols[i];
    nlohmann::ordered_json candidates = nlohmann::ordered_json::array();
    for (const Candidate& candidate : CandidatesFor(traffic))
      candidates.push_back({{"policy", candidate.policy},
                            {"buckets", candidate.buckets},
                            {"waste_pct", candidate.waste_pct}});
    rows.push_back(
        {{"symbol", SymbolName(program, i)},
         {"calls", traffic.calls},
         {"bucketed_calls", traffic.bucketed},
         {"largest", traffic.sizes.largest()},
         {"maximum", traffic.limit},
         {"real_elements", traffic.real},
         {"padded_elements", traffic.padded},
         {"buckets", std::vector<int64_t>(traffic.buckets.begin(), traffic.buckets.end())},
         {"waste_pct", WasteOf(traffic)},
         {"candidates", candidates}});
  }
  return {{"program", LabelOf(program)}, {"symbols", rows}};
}

std::string ToText(const TracedProgram& program, const ProgramTraffic& symbols) {
  std::string text;
  for (size_t i = 0; i < symbols.size(); ++i) {
    const SymbolTraffic& traffic = symbols[i];
    text += fmt::format(
        "program {}, size {}: {} of sizes up to {}, {} of them in a bucket; the ladders below go "
        "up to {}\n",
        LabelOf(program), SymbolName(program, i), Counted(traffic.calls, "call"),
        traffic.sizes.largest(), traffic.bucketed, traffic.limit);
    TextTable table("lrr", {"ladder", "buckets", "waste"});
    table.Add({"as it ran", fmt::format("{}", traffic.buckets.size()),
               fmt::format("{:.2f} %", WasteOf(traffic))});
    for (const Candidate& candidate : CandidatesFor(traffic))
      table.Add({candidate.policy, fmt::format("{}", candidate.buckets),
                 fmt::format("{:.2f} %", candidate.waste_pct)});
    text += table.Format() + "\n";
  }
  return text;
}

}  // namespace

ExitCode ProfPolicy(const ProfOptions& options, const Console& console) {
  std::vector<ProgramTraffic> programs;
  LatestPolicies latest;
  const absl::StatusOr<PoolTrace> trace =
      ReadPoolTrace(options.trace, [&](const PoolTrace& so_far, const TracedEvent& event) {
        latest.Add(event);
        const auto* const call = event.As<CallEvent>();
        if (call == nullptr) return;
        programs.resize(so_far.programs.size());
        CountCall(so_far, *call, programs[static_cast<size_t>(call->program)]);
      });
  if (!trace.ok()) return FailProf(console, trace.status());
  const absl::StatusOr<std::vector<bool>> chosen = ChoosePrograms(*trace, options.program);
  if (!chosen.ok()) return FailProf(console, chosen.status());
  programs.resize(trace->programs.size());
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  std::string text = NoteGaps(*trace);
  bool padded = false;
  for (size_t i = 0; i < programs.size(); ++i) {
    if (!(*chosen)[i] || programs[i].empty()) continue;
    padded = true;
    for (size_t symbol = 0; symbol < programs[i].size(); ++symbol) {
      SymbolTraffic& traffic = programs[i][symbol];
      traffic.limit =
          LimitOf(*trace, latest, static_cast<int>(i), static_cast<int>(symbol), traffic);
    }
    if (options.json)
      rows.push_back(ToJson(trace->programs[i], programs[i]));
    else
      text += ToText(trace->programs[i], programs[i]);
  }
  if (!padded) text += "no call of these programs has a size that can be padded\n";
  if (options.json)
    text = Dump({{"schema", kPoolTraceSchema},
                 {"ended", trace->ended},
                 {"dropped_events", trace->dropped},
                 {"programs", rows}});
  Print(console.out, "{}", text);
  return kExitOk;
}

}  // namespace coppice
