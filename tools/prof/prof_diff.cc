// What changed between two traces: figures are matched by what they are called, never by address or
// number.

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "nlohmann/json.hpp"

#include "coppice/base/status.h"

#include "tools/prof/prof.h"
#include "tools/prof/trace_summary.h"
#include "tools/support/byte_text.h"
#include "tools/support/text_table.h"

namespace coppice {
namespace {

enum class Unit : uint8_t { kBytes, kCount };

// One figure of both traces; absent where a trace has no such thing.
struct Change {
  std::string what;
  Unit unit = Unit::kCount;
  bool cost = false;  // What --fail-over looks at: memory, and padding.
  std::optional<int64_t> before;
  std::optional<int64_t> after;

  bool same() const { return before == after; }
  int64_t delta() const { return after.value_or(0) - before.value_or(0); }
  // Growth in percent; infinite from nothing to something.
  double growth_pct() const {
    if (delta() == 0) return 0;
    const auto from = static_cast<double>(before.value_or(0));
    return from == 0 ? std::numeric_limits<double>::infinity()
                     : 100 * static_cast<double>(delta()) / from;
  }
};

// Figures by name, in an order of their own.
struct Figure {
  std::string what;
  Unit unit = Unit::kCount;
  bool cost = false;
  int64_t value = 0;
};

std::vector<Figure> SessionFigures(const TraceSummary& summary) {
  std::vector<Figure> figures = {
      {"total, peak", Unit::kBytes, true, summary.total.peak},
      {"total, at the last call", Unit::kBytes, true, summary.total.at_service_end}};
  for (int i = 0; i < kMemoryKindCount; ++i)
    figures.push_back({fmt::format("{}, peak", NameOf(static_cast<MemoryKind>(i))), Unit::kBytes,
                       true, summary.kinds[static_cast<size_t>(i)].peak});
  for (int i = 0; i < kRunKindCount; ++i)
    figures.push_back({fmt::format("calls, {}", NameOf(static_cast<RunKind>(i))), Unit::kCount,
                       false, summary.calls.paths[static_cast<size_t>(i)]});
  figures.push_back({"graphs recorded", Unit::kCount, false, summary.calls.recorded});
  figures.push_back({"graphs evicted", Unit::kCount, false, summary.calls.evicted});
  figures.push_back({"elements of padding", Unit::kCount, true,
                     summary.calls.padded_elements - summary.calls.real_elements});
  return figures;
}

std::vector<Figure> ReasonFigures(const TraceSummary& summary) {
  std::vector<Figure> figures;
  for (const auto& [key, calls] : summary.reasons)
    figures.push_back(
        {fmt::format("{}, {}", LabelOfProgram(summary.trace, key.first), NameOf(key.second)),
         Unit::kCount, false, calls});
  return figures;
}

// Of one name: the same bucket on several lanes is one.
struct BucketSum {
  int64_t calls = 0;
  int64_t height = 0;
  int64_t exec_bytes = 0;
  int64_t padding = 0;
};

std::vector<Figure> BucketFiguresOf(const TraceSummary& summary) {
  std::map<std::string, BucketSum> sums;
  for (const BucketFigures& bucket : summary.buckets) {
    const TracedBucket& traced = summary.trace.buckets[static_cast<size_t>(bucket.bucket)];
    BucketSum& sum =
        sums[fmt::format("{} {}", LabelOfProgram(summary.trace, traced.program), LabelOf(traced))];
    sum.calls += bucket.calls();
    sum.height = std::max(sum.height, bucket.height);
    sum.exec_bytes = AddUpTo(sum.exec_bytes, bucket.exec_bytes);
    sum.padding += bucket.padded_elements - bucket.real_elements;
  }
  std::vector<Figure> figures;
  for (const auto& [name, sum] : sums) {
    figures.push_back({name + ", calls", Unit::kCount, false, sum.calls});
    figures.push_back({name + ", plan height", Unit::kBytes, true, sum.height});
    figures.push_back({name + ", graphs*", Unit::kBytes, true, sum.exec_bytes});
    figures.push_back({name + ", elements of padding", Unit::kCount, false, sum.padding});
  }
  return figures;
}

// All figures of both, those of the first trace first.
std::vector<Change> Compare(const std::vector<Figure>& before, const std::vector<Figure>& after) {
  std::vector<Change> changes;
  std::map<std::string, size_t> places;
  for (const Figure& figure : before) {
    places.emplace(figure.what, changes.size());
    changes.push_back({figure.what, figure.unit, figure.cost, figure.value, std::nullopt});
  }
  for (const Figure& figure : after) {
    const auto found = places.find(figure.what);
    if (found != places.end())
      changes[found->second].after = figure.value;
    else
      changes.push_back({figure.what, figure.unit, figure.cost, std::nullopt, figure.value});
  }
  return changes;
}

struct Difference {
  std::vector<Change> session;
  std::vector<Change> reasons;
  std::vector<Change> buckets;

  // The costs that grew by more than so many percent.
  std::vector<Change> GrownOver(double pct) const {
    std::vector<Change> grown;
    for (const std::vector<Change>* part : {&session, &buckets})
      for (const Change& change : *part)
        if (change.cost && change.growth_pct() > pct) grown.push_back(change);
    return grown;
  }
};

std::string Shown(const Change& change, const std::optional<int64_t>& value) {
  if (!value) return "-";
  return change.unit == Unit::kBytes ? FormatBytes(*value) : fmt::format("{}", *value);
}

std::string Growth(const Change& change) {
  if (!change.before) return "new";
  if (!change.after) return "gone";
  if (std::isinf(change.growth_pct())) return "from 0";
  return fmt::format("{:+.1f} %", change.growth_pct());
}

std::string ToText(const char* title, const std::vector<Change>& changes) {
  TextTable table("lrrr", {title, "before", "after", "change"});
  size_t shown = 0;
  for (const Change& change : changes) {
    if (change.same()) continue;
    ++shown;
    table.Add(
        {change.what, Shown(change, change.before), Shown(change, change.after), Growth(change)});
  }
  return shown == 0 ? fmt::format("  {}: no change\n", title) : table.Format();
}

nlohmann::ordered_json ToJson(const Change& change) {
  nlohmann::ordered_json row = {{"what", change.what},
                                {"unit", change.unit == Unit::kBytes ? "bytes" : "count"},
                                {"before", nullptr},
                                {"after", nullptr},
                                {"delta", change.delta()}};
  if (change.before) row["before"] = *change.before;
  if (change.after) row["after"] = *change.after;
  return row;
}

nlohmann::ordered_json ToJson(const std::vector<Change>& changes) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const Change& change : changes)
    if (!change.same()) rows.push_back(ToJson(change));
  return rows;
}

}  // namespace

absl::StatusOr<double> ParsePercent(const std::string& text) {
  double value = 0;
  const char* const last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, value);
  if (error == std::errc() && end == last && std::isfinite(value) && value >= 0) return value;
  return InvalidArgument("'{}' is no percentage; give a number from 0 on", text);
}

ExitCode ProfDiff(const ProfOptions& options, const Console& console) {
  const absl::StatusOr<TraceSummary> before = SummarizeTrace(options.trace);
  if (!before.ok()) return FailProf(console, before.status());
  const absl::StatusOr<TraceSummary> after = SummarizeTrace(options.other);
  if (!after.ok()) return FailProf(console, after.status());
  const Difference difference{
      .session = Compare(SessionFigures(*before), SessionFigures(*after)),
      .reasons = Compare(ReasonFigures(*before), ReasonFigures(*after)),
      .buckets = Compare(BucketFiguresOf(*before), BucketFiguresOf(*after))};
  const std::vector<Change> grown =
      options.fail_over ? difference.GrownOver(*options.fail_over) : std::vector<Change>();
  if (options.json) {
    nlohmann::ordered_json report = {{"schema", kPoolTraceSchema},
                                     {"session", ToJson(difference.session)},
                                     {"reasons", ToJson(difference.reasons)},
                                     {"buckets", ToJson(difference.buckets)},
                                     {"grown", ToJson(grown)}};
    Print(console.out, "{}", Dump(report));
  } else {
    Print(console.out, "{}{}{}\n{}\n{}  * an estimate from a table\n", NoteGaps(before->trace),
          NoteGaps(after->trace), ToText("session", difference.session),
          ToText("did not replay", difference.reasons), ToText("bucket", difference.buckets));
  }
  if (grown.empty()) return kExitOk;
  const Change& first = grown.front();
  Print(
      console.err,
      "coppice prof diff: {} of memory and padding grew by more than {} %, the first '{}' from {} "
      "to {}\n",
      grown.size() == 1 ? "1 figure" : fmt::format("{} figures", grown.size()), *options.fail_over,
      first.what, Shown(first, first.before), Shown(first, first.after));
  return kExitMismatch;
}

}  // namespace coppice
