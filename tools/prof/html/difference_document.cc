// What changed, in words and in rows.

#include "tools/prof/html/difference_document.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "fmt/ranges.h"

#include "tools/prof/html/report_document.h"
#include "tools/support/byte_text.h"

namespace coppice {
namespace {

// From here on growth is worth a look, and from there on it comes first. Percent.
constexpr double kNoticedGrowth = 1;
constexpr double kCostlyGrowth = 10;
constexpr double kNoticedPoints = 0.1;  // Of a share.
constexpr size_t kNamedMax = 6;         // Buckets and reasons in a sentence.

nlohmann::ordered_json SideOf(const std::string& path, const TraceSummary& summary) {
  return {{"name", std::filesystem::path(path).filename().string()},
          {"device", summary.trace.device},
          {"lanes", summary.trace.lanes},
          {"events", summary.trace.events},
          {"last_ns", summary.trace.last_ns},
          {"ended", summary.trace.ended},
          {"dropped_events", summary.trace.dropped},
          {"budget_bytes", summary.trace.budget},
          {"calls", summary.calls.calls()},
          {"replays", summary.calls.on(RunKind::kReplay)},
          {"padded_share_pct", summary.calls.padded_share_pct()},
          {"total_peak_bytes", summary.total.peak},
          {"buckets", summary.trace.buckets.size()},
          {"graphs_recorded", summary.calls.recorded}};
}

std::string Signed(int64_t bytes) {
  return (bytes < 0 ? "-" : "+") + FormatBytes(std::abs(bytes));
}

// "a, b, c and 4 more".
std::string Listed(std::vector<std::string> names) {
  const size_t all = names.size();
  names.resize(std::min(all, kNamedMax));
  std::string text = fmt::format("{}", fmt::join(names, ", "));
  if (all > kNamedMax) text += fmt::format(" and {} more", all - kNamedMax);
  return text;
}

double SharePct(int64_t part, int64_t whole) {
  return whole <= 0 ? 0 : 100 * static_cast<double>(part) / static_cast<double>(whole);
}

// Sentences, the costly ones first.
class ChangeWords {
 public:
  ChangeWords(const ComparedTraces& traces, const TraceDifference& difference)
      : before_(traces.before), after_(traces.after), difference_(difference) {}

  void AddTotal() {
    const Change& total = difference_.session.front();
    const double growth = total.growth_pct();
    if (total.same()) {
      Add("good", "kinds",
          before_.statics.peak == after_.statics.peak ? "Memory is the same"
                                                      : "Memory apart from the statics is the same",
          fmt::format("At most {} in both.", FormatBytes(after_.total.peak)));
      return;
    }
    // The kind whose own peak moved most that way, be it at another time than that of all.
    size_t most = 0;
    int64_t most_delta = 0;
    for (size_t i = 0; i < after_.kinds.size(); ++i) {
      const int64_t delta = after_.kinds[i].peak - before_.kinds[i].peak;
      if ((delta > 0) != (total.delta() > 0) || std::abs(delta) <= std::abs(most_delta)) continue;
      most_delta = delta;
      most = i;
    }
    const std::string kind =
        most_delta == 0 ? ""
                        : fmt::format(" Of all kinds of memory, the peak of {} {} most: {}.",
                                      NameOf(static_cast<MemoryKind>(most)),
                                      total.delta() < 0 ? "fell" : "grew", Signed(most_delta));
    const std::string by = std::isinf(growth) ? "" : fmt::format(", {:.1f} %", std::abs(growth));
    Add(total.delta() < 0 ? "good" : Level(growth), "kinds",
        fmt::format("The peak {} by {}{}", total.delta() < 0 ? "fell" : "grew",
                    FormatBytes(std::abs(total.delta())), by),
        fmt::format("At most {}, {} before.{}", FormatBytes(after_.total.peak),
                    FormatBytes(before_.total.peak), kind));
  }

  void AddStatics() {
    for (const Change& change : difference_.session) {
      if (change.subject != "statics" || change.same()) continue;
      Add(change.delta() < 0 ? "good" : Level(change.growth_pct()), "kinds",
          fmt::format("Statics {} by {}", change.delta() < 0 ? "fell" : "grew",
                      FormatBytes(std::abs(change.delta()))),
          fmt::format("At most {}, {} before: {}.", FormatBytes(after_.statics.peak),
                      FormatBytes(before_.statics.peak), kStaticsMeaning));
    }
  }

  void AddBuckets() {
    std::vector<std::string> appeared;  // In the buckets' order.
    std::vector<std::string> vanished;
    std::vector<std::pair<int64_t, std::string>> higher;
    for (const Change& change : difference_.buckets) {
      // A bucket has calls in any trace that has it, and the other figures not always.
      if (change.figure == "calls" && !change.before) {
        appeared.push_back(change.subject);
      } else if (change.figure == "calls" && !change.after) {
        vanished.push_back(change.subject);
      } else if (change.figure == "plan height" && change.before && change.delta() > 0) {
        higher.emplace_back(-change.delta(),
                            fmt::format("{} from {} to {}", change.subject,
                                        FormatBytes(*change.before), FormatBytes(*change.after)));
      }
    }
    const auto add = [&](const std::vector<std::string>& names, const char* level,
                         const char* verb) {
      if (names.empty()) return;
      Add(level, "changes",
          fmt::format("{} {}",
                      names.size() == 1 ? "1 bucket" : fmt::format("{} buckets", names.size()),
                      verb),
          Listed(names) + ".");
    };
    add(appeared, "medium", "appeared");
    add(vanished, "low", "vanished");
    if (higher.empty()) return;
    std::ranges::sort(higher);
    std::vector<std::string> names;
    for (const auto& each : higher)
      names.push_back(each.second);
    Add("medium", "changes",
        higher.size() == 1 ? "1 plan is higher" : fmt::format("{} plans are higher", names.size()),
        Listed(names) + ".");
  }

  void AddReplays() {
    const double before = SharePct(before_.calls.on(RunKind::kReplay), before_.calls.calls());
    const double after = SharePct(after_.calls.on(RunKind::kReplay), after_.calls.calls());
    std::vector<std::pair<int64_t, std::string>> moved;
    for (const Change& change : difference_.reasons) {
      if (change.same()) continue;
      moved.emplace_back(-std::abs(change.delta()),
                         fmt::format("{} {} to {}", change.what(), change.before.value_or(0),
                                     change.after.value_or(0)));
    }
    std::ranges::sort(moved);
    std::vector<std::string> names;
    for (const auto& each : moved)
      names.push_back(each.second);
    if (names.empty() && std::abs(after - before) < kNoticedPoints) return;
    const char* const level = after >= before                   ? "good"
                              : before - after >= kCostlyGrowth ? "high"
                                                                : "medium";
    Add(level, "reasons",
        fmt::format("{:.2f} % of the calls were replays (before: {:.2f} %)", after, before),
        names.empty() ? "No reason changed." : "Reasons that changed: " + Listed(names) + ".");
  }

  void AddPadding() {
    const double before = before_.calls.padded_share_pct();
    const double after = after_.calls.padded_share_pct();
    if (std::abs(after - before) < kNoticedPoints) return;
    const char* const level = after < before                    ? "good"
                              : after - before >= kCostlyGrowth ? "high"
                                                                : "medium";
    Add(level, "changes",
        fmt::format("Padding {} to {:.1f} % of the staged elements",
                    after < before ? "fell" : "grew", after),
        fmt::format("It was {:.1f} %.", before));
  }

  void AddCalls() {
    const int64_t before = before_.calls.calls();
    const int64_t after = after_.calls.calls();
    if (before == after) return;
    Add("low", "changes", fmt::format("{} calls (before: {})", after, before),
        "The traces have different numbers of calls: compare bytes and shares, not counts.");
  }

  nlohmann::ordered_json Take() {
    const std::vector<std::string> order = {"high", "medium", "low", "good"};
    std::ranges::stable_sort(rows_, {}, [&](const nlohmann::ordered_json& row) {
      return std::ranges::find(order, row["level"].get<std::string>()) - order.begin();
    });
    return rows_;
  }

 private:
  static const char* Level(double growth) {
    return growth >= kCostlyGrowth ? "high" : growth >= kNoticedGrowth ? "medium" : "low";
  }

  void Add(const char* level, const char* view, const std::string& title, const std::string& what) {
    rows_.push_back({{"level", level}, {"view", view}, {"title", title}, {"what", what}});
  }

  const TraceSummary& before_;
  const TraceSummary& after_;
  const TraceDifference& difference_;
  std::vector<nlohmann::ordered_json> rows_;
};

nlohmann::ordered_json KindRow(const char* name,
                               const char* what,
                               bool estimate,
                               const BytesOverTime& before,
                               const BytesOverTime& after) {
  return {{"kind", name},
          {"what", what},
          {"estimate", estimate},
          {"before_peak_bytes", before.peak},
          {"after_peak_bytes", after.peak},
          {"before_service_end_bytes", before.at_service_end},
          {"after_service_end_bytes", after.at_service_end}};
}

nlohmann::ordered_json KindsOf(const ComparedTraces& traces) {
  nlohmann::ordered_json kinds = nlohmann::ordered_json::array();
  for (size_t i = 0; i < traces.before.kinds.size(); ++i) {
    const BytesOverTime& before = traces.before.kinds[i];
    const BytesOverTime& after = traces.after.kinds[i];
    if (before.peak == 0 && after.peak == 0) continue;
    const MemoryKind kind = static_cast<MemoryKind>(i);
    kinds.push_back(
        KindRow(NameOf(kind), MeaningOf(kind), kind == MemoryKind::kGraphs, before, after));
  }
  return kinds;
}

// Apart from the kinds, which make up the total; null where neither trace has any.
nlohmann::ordered_json StaticsRow(const ComparedTraces& traces) {
  const BytesOverTime& before = traces.before.statics;
  const BytesOverTime& after = traces.after.statics;
  if (before.peak == 0 && after.peak == 0) return nullptr;
  return KindRow("statics", kStaticsMeaning, /*estimate=*/false, before, after);
}

nlohmann::ordered_json OrNull(const std::optional<int64_t>& value) {
  return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json(nullptr);
}

const char* StateOf(const Change& change) {
  if (!change.before) return "new";
  if (!change.after) return "gone";
  return change.delta() > 0 ? "grew" : "shrank";
}

nlohmann::ordered_json ChangesOf(const TraceDifference& difference, size_t& all) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  const auto add = [&](const std::vector<Change>& changes, const char* part) {
    for (const Change& change : changes) {
      if (change.same()) continue;
      ++all;
      if (rows.size() >= kDifferenceChanges) continue;
      rows.push_back({{"part", part},
                      {"subject", change.subject},
                      {"figure", change.figure},
                      {"unit", change.unit == FigureUnit::kBytes ? "bytes" : "count"},
                      {"cost", change.cost},
                      {"state", StateOf(change)},
                      {"before", OrNull(change.before)},
                      {"after", OrNull(change.after)},
                      {"delta", change.delta()}});
    }
  };
  add(difference.session, "session");
  add(difference.buckets, "bucket");
  return rows;
}

nlohmann::ordered_json ReasonsOf(const TraceDifference& difference) {
  std::map<std::string, std::string> advice;
  for (int i = 0; i < kReasonCount; ++i)
    advice[NameOf(static_cast<Reason>(i))] = AdviceFor(static_cast<Reason>(i));
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const Change& change : difference.reasons) {
    if (change.same()) continue;
    rows.push_back({{"program", change.subject},
                    {"reason", change.figure},
                    {"before", change.before.value_or(0)},
                    {"after", change.after.value_or(0)},
                    {"delta", change.delta()},
                    {"advice", advice[change.figure]}});
  }
  return rows;
}

}  // namespace

nlohmann::ordered_json BuildDifference(const ComparedTraces& traces,
                                       const TraceDifference& difference) {
  ChangeWords words(traces, difference);
  words.AddTotal();
  words.AddStatics();
  words.AddBuckets();
  words.AddReplays();
  words.AddPadding();
  words.AddCalls();
  nlohmann::ordered_json document = {{"schema", kDifferenceSchema},
                                     {"before", SideOf(traces.before_name, traces.before)},
                                     {"after", SideOf(traces.after_name, traces.after)},
                                     {"findings", words.Take()},
                                     {"kinds", KindsOf(traces)},
                                     {"statics", StaticsRow(traces)}};
  size_t all = 0;
  document["changes"] = ChangesOf(difference, all);
  document["reasons"] = ReasonsOf(difference);
  document["limits"] = nlohmann::ordered_json::object();
  if (all > document["changes"].size())
    document["limits"]["changes"] = {{"shown", document["changes"].size()}, {"of", all}};
  return document;
}

}  // namespace coppice
