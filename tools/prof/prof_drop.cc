// What dropping a bucket would really free, against what its calls would cost then.
//
// Plans of a lane share its window from offset 0 on, which is mapped in whole granules up to the
// highest: dropping a bucket frees granules only if nothing else is as high.
//
//   granules  |-------|-------|-------|-------|
//   bucket 8  [===========================)          alone: the last two
//   bucket 4  [============)                         alone: none; with those above it: one

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "nlohmann/json.hpp"

#include "coppice/base/status.h"
#include "coppice/base/units.h"

#include "tools/prof/bucket_figures.h"
#include "tools/prof/prof.h"
#include "tools/support/byte_text.h"
#include "tools/support/text_table.h"

namespace coppice {
namespace {

struct Drop {
  int bucket = 0;             // Place in PoolTrace::buckets.
  int64_t calls = 0;          // That it served.
  int64_t mapped_bytes = 0;   // That are free without it ...
  int64_t with_higher = 0;    // ... and without all that are as high or higher, too.
  int64_t exec_bytes = 0;     // Of its graphs; an estimate.
  int served_by = -1;         // The bucket that its calls would have; -1: none, they run eagerly.
  double padding_factor = 1;  // Elements of that bucket for each of this one.

  int64_t freed_bytes() const { return mapped_bytes + exec_bytes; }
};

// The elements of a bucket's extents.
double VolumeOf(const TracedBucket& bucket) {
  double volume = 1;
  for (const int64_t extent : bucket.extents)
    volume *= static_cast<double>(std::max<int64_t>(extent, 1));
  return volume;
}

// Whether the calls of `small` fit into `large`.
bool Holds(const TracedBucket& large, const TracedBucket& small) {
  if (large.program != small.program || large.lane != small.lane ||
      large.scalars != small.scalars || large.extents.size() != small.extents.size())
    return false;
  for (size_t i = 0; i < large.extents.size(); ++i)
    if (large.extents[i] < small.extents[i]) return false;
  return true;
}

class Ranking {
 public:
  Ranking(const PoolTrace& trace, const std::vector<BucketFigures>& figures)
      : trace_(trace), figures_(figures) {
    for (const BucketFigures& bucket : figures)
      if (HasGraph(bucket.bucket)) heights_[LaneOf(bucket.bucket)].push_back(bucket.height);
    for (auto& [lane, heights] : heights_)
      std::ranges::sort(heights, std::ranges::greater());
  }

  // Of the buckets that have a graph, the most bytes per call that it served first.
  std::vector<Drop> Rank() const {
    std::vector<Drop> drops;
    for (const BucketFigures& bucket : figures_)
      if (HasGraph(bucket.bucket)) drops.push_back(DropOf(bucket));
    std::ranges::stable_sort(drops, std::ranges::greater(), [](const Drop& drop) {
      return static_cast<double>(drop.freed_bytes()) /
             static_cast<double>(std::max<int64_t>(drop.calls, 1));
    });
    return drops;
  }

 private:
  bool HasGraph(int bucket) const {
    const BucketFigures& figures = figures_[static_cast<size_t>(bucket)];
    return figures.recorded > figures.evicted;
  }
  int LaneOf(int bucket) const { return trace_.buckets[static_cast<size_t>(bucket)].lane; }
  int64_t Mapped(int64_t height) const { return AlignUp(height, trace_.granularity); }

  Drop DropOf(const BucketFigures& figures) const {
    const std::vector<int64_t>& heights = heights_.at(LaneOf(figures.bucket));
    const int64_t highest = Mapped(heights.front());
    Drop drop{.bucket = figures.bucket, .calls = figures.calls(), .exec_bytes = figures.exec_bytes};
    const bool is_highest = figures.height == heights.front();
    const int64_t next = heights.size() > 1 ? heights[1] : 0;
    if (is_highest) drop.mapped_bytes = highest - Mapped(next);
    const auto lower =
        std::ranges::find_if(heights, [&](int64_t height) { return height < figures.height; });
    drop.with_higher = highest - Mapped(lower == heights.end() ? 0 : *lower);
    FindServer(figures.bucket, drop);
    return drop;
  }

  void FindServer(int bucket, Drop& drop) const {
    const TracedBucket& small = trace_.buckets[static_cast<size_t>(bucket)];
    double best = 0;
    for (int other = 0; other < static_cast<int>(trace_.buckets.size()); ++other) {
      const TracedBucket& large = trace_.buckets[static_cast<size_t>(other)];
      if (other == bucket || !HasGraph(other) || !Holds(large, small)) continue;
      const double volume = VolumeOf(large);
      if (drop.served_by >= 0 && volume >= best) continue;
      best = volume;
      drop.served_by = other;
      drop.padding_factor = volume / VolumeOf(small);
    }
  }

  const PoolTrace& trace_;
  const std::vector<BucketFigures>& figures_;
  std::map<int, std::vector<int64_t>> heights_;  // By lane; the highest first.
};

nlohmann::ordered_json ToJson(const PoolTrace& trace, const Drop& drop) {
  const TracedBucket& bucket = trace.buckets[static_cast<size_t>(drop.bucket)];
  nlohmann::ordered_json served_by;
  if (drop.served_by >= 0) served_by = trace.buckets[static_cast<size_t>(drop.served_by)].id;
  return {{"bucket", bucket.id},
          {"program", LabelOf(trace.programs[static_cast<size_t>(bucket.program)])},
          {"extents", bucket.extents},
          {"scalars", bucket.scalars},
          {"lane", bucket.lane},
          {"calls", drop.calls},
          {"mapped_bytes", drop.mapped_bytes},
          {"mapped_bytes_with_higher", drop.with_higher},
          {"exec_bytes", drop.exec_bytes},
          {"served_by", served_by},
          {"padding_factor", drop.padding_factor}};
}

std::string ToText(const PoolTrace& trace, const std::vector<Drop>& drops) {
  TextTable table("rlrrrrrlr", {"id", "bucket", "lane", "calls", "frees", "with higher", "graphs*",
                                "then served by", "padding"});
  for (const Drop& drop : drops) {
    const TracedBucket& bucket = trace.buckets[static_cast<size_t>(drop.bucket)];
    const bool served = drop.served_by >= 0;
    table.Add({fmt::format("{}", bucket.id), NameOfBucket(trace, drop.bucket),
               fmt::format("{}", bucket.lane), fmt::format("{}", drop.calls),
               FormatBytes(drop.mapped_bytes), FormatBytes(drop.with_higher),
               FormatBytes(drop.exec_bytes),
               served ? NameOfBucket(trace, drop.served_by) : "nothing: eager",
               served ? fmt::format("x {:.2f}", drop.padding_factor) : ""});
  }
  return table.Format() +
         "  frees: mapped bytes without it; with higher: without all that are as high, too\n"
         "  * an estimate from a table\n";
}

}  // namespace

ExitCode ProfDrop(const ProfOptions& options, const Console& console) {
  BucketTally tally;
  const absl::StatusOr<PoolTrace> trace = ReadPoolTrace(
      options.trace, [&](const PoolTrace&, const TraceEvent& event) { tally.Add(event); });
  if (!trace.ok()) return FailProf(console, trace.status());
  const absl::StatusOr<std::vector<bool>> chosen = ChoosePrograms(*trace, options.program);
  if (!chosen.ok()) return FailProf(console, chosen.status());
  const std::vector<BucketFigures> figures = tally.Finish(*trace);
  std::vector<Drop> drops = Ranking(*trace, figures).Rank();
  std::erase_if(drops, [&](const Drop& drop) {
    const TracedBucket& bucket = trace->buckets[static_cast<size_t>(drop.bucket)];
    return !(*chosen)[static_cast<size_t>(bucket.program)];
  });
  if (!options.json) {
    Print(console.out, "{}{}", NoteGaps(*trace), ToText(*trace, drops));
    return kExitOk;
  }
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const Drop& drop : drops)
    rows.push_back(ToJson(*trace, drop));
  Print(console.out, "{}",
        Dump({{"schema", kPoolTraceSchema},
              {"ended", trace->ended},
              {"dropped_events", trace->dropped},
              {"granularity_bytes", trace->granularity},
              {"buckets", rows}}));
  return kExitOk;
}

}  // namespace coppice
