// Figures of each trace by name; then two lists, or two maps of buckets, become one.

#include "tools/prof/trace_difference.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <tuple>
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
  figures.push_back({"statics", "peak", kBytes, true, summary.statics.peak});
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

// Of one key: the same bucket on several lanes is one.
struct BucketSum {
  int64_t calls = 0;
  int64_t height = 0;
  int64_t exec_bytes = 0;
  int64_t padding = 0;
  int64_t recorded = 0;
  int64_t left = 0;  // Graphs that are not evicted.
};

struct BucketSides {
  std::string name;
  std::optional<BucketSum> before;
  std::optional<BucketSum> after;
};

// Program, extents and scalars, which a name would sort as text.
using BucketKey = std::tuple<std::string, std::vector<int64_t>, std::vector<int64_t>>;

void AddBucketsOf(const TraceSummary& summary,
                  std::optional<BucketSum> BucketSides::*side,
                  std::map<BucketKey, BucketSides>& buckets) {
  for (const BucketFigures& figures : summary.buckets) {
    const TracedBucket& bucket = summary.trace.buckets[static_cast<size_t>(figures.bucket)];
    BucketSides& sides =
        buckets[{LabelOfProgram(summary.trace, bucket.program), bucket.extents, bucket.scalars}];
    sides.name = NameOfBucket(summary.trace, figures.bucket);
    std::optional<BucketSum>& of_side = sides.*side;
    BucketSum& sum = of_side ? *of_side : of_side.emplace();
    sum.calls += figures.calls();
    sum.height = std::max(sum.height, figures.height);
    sum.exec_bytes = AddUpTo(sum.exec_bytes, figures.exec_bytes);
    sum.padding += figures.padded_elements - figures.real_elements;
    sum.recorded += figures.recorded;
    sum.left += figures.recorded - figures.evicted;
  }
}

// One figure of a bucket. `graphs` counts those that it is a figure of, if it needs any.
struct BucketFigure {
  const char* name = "";
  FigureUnit unit = FigureUnit::kCount;
  bool cost = false;
  int64_t BucketSum::*value = nullptr;
  int64_t BucketSum::*graphs = nullptr;

  std::optional<int64_t> Of(const std::optional<BucketSum>& sum) const {
    if (!sum || (graphs != nullptr && *sum.*graphs == 0)) return std::nullopt;
    return *sum.*value;
  }
};

std::vector<Change> CompareBuckets(const TraceSummary& before, const TraceSummary& after) {
  constexpr auto kBytes = FigureUnit::kBytes;
  constexpr auto kCount = FigureUnit::kCount;
  constexpr std::array<BucketFigure, 4> kFigures = {
      {{"calls", kCount, false, &BucketSum::calls},
       {"plan height", kBytes, true, &BucketSum::height, &BucketSum::recorded},
       {"graphs*", kBytes, true, &BucketSum::exec_bytes, &BucketSum::left},
       {"elements of padding", kCount, false, &BucketSum::padding}}};
  std::map<BucketKey, BucketSides> buckets;
  AddBucketsOf(before, &BucketSides::before, buckets);
  AddBucketsOf(after, &BucketSides::after, buckets);
  std::vector<Change> changes;
  for (const auto& [key, sides] : buckets) {
    for (const BucketFigure& figure : kFigures) {
      const std::optional<int64_t> was = figure.Of(sides.before);
      const std::optional<int64_t> is = figure.Of(sides.after);
      if (was || is)
        changes.push_back({sides.name, figure.name, figure.unit, figure.cost, was, is});
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
      if (change.cost && change.before && change.growth_pct() > pct) grown.push_back(change);
  return grown;
}

TraceDifference DifferenceOf(const TraceSummary& before, const TraceSummary& after) {
  return {.session = Compare(SessionFigures(before), SessionFigures(after)),
          .reasons = Compare(ReasonFigures(before), ReasonFigures(after)),
          .buckets = CompareBuckets(before, after)};
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
