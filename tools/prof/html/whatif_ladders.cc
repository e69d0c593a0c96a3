// Which changes are worth a look follows from the trace: its policies, peak, buckets and gaps.

#include "tools/prof/html/whatif_ladders.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <utility>

#include "fmt/format.h"
#include "fmt/ranges.h"

#include "coppice/padding/learn_buckets.h"
#include "coppice/padding/size_histogram.h"

#include "tools/prof/bucket_drops.h"
#include "tools/prof/whatif/traced_spec.h"

namespace coppice {
namespace {

constexpr size_t kDropsMax = 8;
constexpr int64_t kExactMax = 256;  // More graphs are not worth a look.
constexpr std::array kBudgetShares = {100, 90, 75, 60, 50};
constexpr std::array<int64_t, 7> kIdleTimes = {
    60'000'000'000, 10'000'000'000, 1'000'000'000, 100'000'000, 10'000'000, 1'000'000, 100'000};
constexpr int64_t kLearnedBuckets = 16;
constexpr const char* kAsItIs = "as it is";

// A size that may be padded, or a pair of them.
struct PaddedSize {
  std::string label;  // "decode, batch".
  std::string whose;  // "decode.batch", as --policy has it.
  int64_t maximum = 0;
  std::vector<int64_t> buckets;  // Empty: exact, or of a pair.
  bool pair = false;
  size_t calls = 0;
  SizeHistogram sizes;  // That calls brought; empty of a pair.
};

std::vector<PaddedSize> PaddedSizesOf(const ReportFacts& facts) {
  std::vector<size_t> calls(facts.trace.programs.size());
  for (const ReportCall& call : facts.calls)
    if (call.program >= 0) ++calls[static_cast<size_t>(call.program)];
  std::vector<PaddedSize> sizes;
  for (size_t i = 0; i < facts.trace.programs.size(); ++i) {
    const TracedProgram& program = facts.trace.programs[i];
    const absl::StatusOr<ProgramSpec> spec = SpecOf(program);
    if (!spec.ok() || calls[i] == 0) continue;
    for (int symbol = 0; symbol < static_cast<int>(spec->symbols.size()); ++symbol) {
      const SymbolSpec& padded = spec->symbols[static_cast<size_t>(symbol)];
      if (!ClaimOf(*spec, symbol).has_value() || padded.kind == SymbolKind::kStatic) continue;
      const JointSpec* const joint = spec->JointOf(symbol);
      if (joint != nullptr && joint->a != symbol) continue;
      PaddedSize size{.label = fmt::format("{}, {}", LabelOf(program), padded.name),
                      .whose = fmt::format("{}.{}", LabelOf(program), padded.name),
                      .calls = calls[i]};
      if (joint != nullptr) {
        size.label += " and " + spec->symbols[static_cast<size_t>(joint->b)].name;
        size.maximum = joint->policy.limit().a;
        size.pair = true;
      } else {
        const PaddingPolicy policy =
            facts.policies.Find(facts.trace, static_cast<int>(i), symbol).value_or(padded.policy);
        size.maximum = policy.maximum();
        if (!policy.is_exact()) size.buckets = policy.buckets();
        const auto known = facts.sizes.find({static_cast<int>(i), symbol});
        if (known != facts.sizes.end()) size.sizes = known->second;
      }
      sizes.push_back(std::move(size));
    }
  }
  std::ranges::stable_sort(sizes, std::ranges::greater(), &PaddedSize::calls);
  return sizes;
}

// As many buckets as the size has, or kLearnedBuckets, which pad these calls the least; empty: none
// are.
std::string LearnedFor(const PaddedSize& size) {
  const auto count = std::ssize(size.buckets);
  const absl::StatusOr<LearnedBuckets> learned = LearnBuckets(
      size.sizes, {.limit = size.maximum,
                   .count = std::min(count > 0 ? count : kLearnedBuckets, size.maximum)});
  if (!learned.ok() || learned->buckets == size.buckets) return "";
  return fmt::format("{}", fmt::join(learned->buckets, ","));
}

// Other policies up to the same maximum, the fewest buckets first, and none that pads as another.
std::vector<std::string> PoliciesFor(const PaddedSize& size) {
  std::vector<std::string> texts = {"pow2", "geometric:1.5:1", "geometric:1.25:1", "vllm"};
  for (const int64_t parts : {4, 8, 16})
    texts.push_back(fmt::format("linear:{}", (size.maximum + parts - 1) / parts));
  if (size.maximum <= kExactMax && !size.pair) texts.emplace_back("exact");
  std::set<std::vector<int64_t>> tried = {size.buckets};
  std::vector<std::pair<size_t, std::string>> policies;
  for (const std::string& text : texts) {
    const absl::StatusOr<PaddingPolicy> policy = PaddingPolicy::Parse(text, size.maximum);
    if (!policy.ok()) continue;  // It has no ladder up to there.
    const std::vector<int64_t> buckets = policy->buckets();
    if (tried.insert(buckets).second) policies.emplace_back(buckets.size(), text);
  }
  std::ranges::stable_sort(policies, {}, [](const auto& policy) { return policy.first; });
  std::vector<std::string> sorted;
  for (auto& [count, text] : policies)
    sorted.push_back(size.pair ? fmt::format("{}/{}", text, text) : text);
  return sorted;
}

void AddPolicies(const ReportFacts& facts,
                 const ReportLimits& limits,
                 nlohmann::ordered_json& left_out,
                 std::vector<WhatIfLadder>& ladders) {
  std::vector<PaddedSize> sizes = PaddedSizesOf(facts);
  if (sizes.size() > limits.what_if_policies) {
    left_out["what_if_policies"] = {{"shown", limits.what_if_policies}, {"of", sizes.size()}};
    sizes.resize(limits.what_if_policies);
  }
  for (const PaddedSize& size : sizes) {
    WhatIfLadder& ladder = ladders.emplace_back(
        WhatIfLadder{.kind = "policy", .label = "padding of " + size.label, .steps = {}});
    ladder.steps.push_back({.label = kAsItIs, .changes = {}});
    for (const std::string& policy : PoliciesFor(size))
      ladder.steps.push_back(
          {.label = policy, .changes = {.policies = {fmt::format("{}={}", size.whose, policy)}}});
    if (const std::string learned = LearnedFor(size); !learned.empty())
      ladder.steps.push_back(
          {.label = "learned",
           .changes = {.policies = {fmt::format("{}={}", size.whose, learned)}}});
  }
}

WhatIfLadder BudgetsOf(int64_t peak_bytes) {
  WhatIfLadder ladder{.kind = "budget", .label = "a budget, as a share of the peak", .steps = {}};
  ladder.steps.push_back({.label = kAsItIs, .changes = {}});
  for (const int share : kBudgetShares)
    ladder.steps.push_back(
        {.label = fmt::format("{} %", share),
         .changes = {.budget_bytes = peak_bytes / 100 * share + peak_bytes % 100 * share / 100}});
  return ladder;
}

WhatIfLadder DropsOf(const ReportFacts& facts) {
  WhatIfLadder ladder{.kind = "drop", .label = "a dropped bucket", .steps = {}};
  ladder.steps.push_back({.label = kAsItIs, .changes = {}});
  std::set<std::string> dropped;  // Lanes have the same ones.
  for (const BucketDrop& drop : RankDrops(facts.trace, facts.buckets, facts.policies)) {
    if (dropped.size() == kDropsMax) break;
    const TracedBucket& bucket = facts.trace.buckets[static_cast<size_t>(drop.bucket)];
    const std::string program = LabelOf(facts.trace.programs[static_cast<size_t>(bucket.program)]);
    const std::string extents = fmt::format("{}", fmt::join(bucket.extents, "x"));
    const std::string text = program + ":" + extents;
    if (!dropped.insert(text).second) continue;
    ladder.steps.push_back(
        {.label = fmt::format("without {} {}", program, extents), .changes = {.drops = {text}}});
  }
  return ladder;
}

// The longest waits first; those that would suspend as often as a longer one are left out.
WhatIfLadder SuspensionLadder(const ReportFacts& facts) {
  WhatIfLadder ladder{.kind = "suspend", .label = "suspended when idle", .steps = {}};
  ladder.steps.push_back({.label = kAsItIs, .changes = {}});
  int64_t before = 0;
  for (const int64_t idle_ns : kIdleTimes) {
    int64_t gaps = 0;
    for (size_t i = 1; i < facts.calls.size(); ++i)
      gaps += facts.calls[i].time_ns - facts.calls[i - 1].time_ns > idle_ns ? 1 : 0;
    if (gaps == std::exchange(before, gaps)) continue;
    const double seconds = static_cast<double>(idle_ns) / 1e9;
    ladder.steps.push_back({.label = seconds >= 1 ? fmt::format("after {} s", seconds)
                                                  : fmt::format("after {} ms", seconds * 1e3),
                            .changes = {.suspend_idle_ns = idle_ns}});
  }
  return ladder;
}

}  // namespace

std::vector<WhatIfLadder> LaddersOf(const ReportFacts& facts,
                                    int64_t peak_bytes,
                                    const ReportLimits& limits,
                                    nlohmann::ordered_json& left_out) {
  std::vector<WhatIfLadder> ladders;
  AddPolicies(facts, limits, left_out, ladders);
  if (peak_bytes > 0) ladders.push_back(BudgetsOf(peak_bytes));
  ladders.push_back(DropsOf(facts));
  ladders.push_back(SuspensionLadder(facts));
  ladders.push_back({.kind = "outputs",
                     .label = "outputs that are copied",
                     .steps = {{.label = kAsItIs, .changes = {}},
                               {.label = "copied out of the graphs' memory",
                                .changes = {.copy_outputs = true}}}});
  std::erase_if(ladders, [](const WhatIfLadder& ladder) { return ladder.steps.size() < 2; });
  return ladders;
}

}  // namespace coppice
