// Figures of each trace by name; then two lists become one.

#include "tools/prof/trace_difference.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include "fmt/format.h"

#include "tools/support/byte_text.h"

namespace coppice {
namespace {

// Figures by name, in an order of their own.
struct NamedFigure {
  std::string subject;
  std::string figure;
  FigureUnit unit = FigureUnit::kCount;
  bool cost = false;
  int64_t value = 0;
};

std::vector<NamedFigure> SessionFigures(const TraceSummary& summary) {
  constexpr auto kBytes = FigureUnit::kBytes;
  constexpr auto kCount = FigureUnit::kCount;
  std::vector<NamedFigure> figures = {
      {"total", "peak", kBytes, true, summary.total.peak},
      {"total", "at the last call", kBytes, true, summary.total.at_service_end}};
  for (int i = 0; i < kMemoryKindCount; ++i)
    figures.push_back({NameOf(static_cast<MemoryKind>(i)), "peak", kBytes, true,
                       summary.kinds[static_cast<size_t>(i)].peak});
  for (int i = 0; i < kRunKindCount; ++i)
    figures.push_back({"calls", NameOf(static_cast<RunKind>(i)), kCount, false,
                       summary.calls.paths[static_cast<size_t>(i)]});
  figures.push_back({"graphs recorded", "", kCount, false, summary.calls.recorded});
  figures.push_back({"graphs evicted", "", kCount, false, summary.calls.evicted});
  figures.push_back({"elements of padding", "", kCount, true,
                     summary.calls.padded_elements - summary.calls.real_elements});
  return figures;
}

std::vector<NamedFigure> ReasonFigures(const TraceSummary& summary) {
  std::vector<NamedFigure> figures;
  for (const auto& [key, calls] : summary.reasons)
    figures.push_back({LabelOfProgram(summary.trace, key.first), NameOf(key.second),
                       FigureUnit::kCount, false, calls});
  return figures;
}

// Of one name: the same bucket on several lanes is one.
struct BucketSum {
  int64_t calls = 0;
  int64_t height = 0;
  int64_t exec_bytes = 0;
  int64_t padding = 0;
};

std::vector<NamedFigure> BucketFiguresOf(const TraceSummary& summary) {
  std::map<std::string, BucketSum> sums;
  for (const BucketFigures& bucket : summary.buckets) {
    BucketSum& sum = sums[NameOfBucket(summary.trace, bucket.bucket)];
    sum.calls += bucket.calls();
    sum.height = std::max(sum.height, bucket.height);
    sum.exec_bytes = AddUpTo(sum.exec_bytes, bucket.exec_bytes);
    sum.padding += bucket.padded_elements - bucket.real_elements;
  }
  std::vector<NamedFigure> figures;
  for (const auto& [name, sum] : sums) {
    figures.push_back({name, "calls", FigureUnit::kCount, false, sum.calls});
    figures.push_back({name, "plan height", FigureUnit::kBytes, true, sum.height});
    figures.push_back({name, "graphs*", FigureUnit::kBytes, true, sum.exec_bytes});
    figures.push_back({name, "elements of padding", FigureUnit::kCount, false, sum.padding});
  }
  return figures;
}

// All figures of both, those of the first trace first.
std::vector<Change> Compare(const std::vector<NamedFigure>& before,
                            const std::vector<NamedFigure>& after) {
  std::vector<Change> changes;
  std::map<std::pair<std::string, std::string>, size_t> places;
  for (const NamedFigure& each : before) {
    places.emplace(std::pair(each.subject, each.figure), changes.size());
    changes.push_back({each.subject, each.figure, each.unit, each.cost, each.value, std::nullopt});
  }
  for (const NamedFigure& each : after) {
    const auto found = places.find({each.subject, each.figure});
    if (found != places.end()) {
      changes[found->second].after = each.value;
    } else {
      changes.push_back(
          {each.subject, each.figure, each.unit, each.cost, std::nullopt, each.value});
    }
  }
  return changes;
}

}  // namespace

double Change::growth_pct() const {
  if (delta() == 0) return 0;
  const auto from = static_cast<double>(before.value_or(0));
  return from == 0 ? std::numeric_limits<double>::infinity()
                   : 100 * static_cast<double>(delta()) / from;
}

std::vector<Change> TraceDifference::GrownOver(double pct) const {
  std::vector<Change> grown;
  for (const std::vector<Change>* part : {&session, &buckets})
    for (const Change& change : *part)
      if (change.cost && change.growth_pct() > pct) grown.push_back(change);
  return grown;
}

TraceDifference DifferenceOf(const TraceSummary& before, const TraceSummary& after) {
  return {.session = Compare(SessionFigures(before), SessionFigures(after)),
          .reasons = Compare(ReasonFigures(before), ReasonFigures(after)),
          .buckets = Compare(BucketFiguresOf(before), BucketFiguresOf(after))};
}

std::string ShownAs(FigureUnit unit, const std::optional<int64_t>& value) {
  if (!value) return "-";
  return unit == FigureUnit::kBytes ? FormatBytes(*value) : fmt::format("{}", *value);
}

std::string GrowthOf(const Change& change) {
  if (!change.before) return "new";
  if (!change.after) return "gone";
  if (std::isinf(change.growth_pct())) return "from 0";
  return fmt::format("{:+.1f} %", change.growth_pct());
}

}  // namespace coppice
