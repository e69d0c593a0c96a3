// A row per bucket, and the plan of each as rectangles of addresses and steps.

#include <algorithm>
#include <utility>

#include "tools/prof/html/report_document.h"

namespace coppice {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kSparkBars = 24;  // Calls of a bucket over time.

// The buckets that are shown, in the order of the trace: those with most calls.
std::vector<size_t> Shown(const ReportFacts& facts, size_t most) {
  std::vector<BucketFigures> ranked = facts.buckets;
  Sort(facts.trace, BucketOrder::kCalls, ranked);
  if (ranked.size() > most) ranked.resize(most);
  std::vector<size_t> shown;
  shown.reserve(ranked.size());
  for (const BucketFigures& figures : ranked)
    shown.push_back(static_cast<size_t>(figures.bucket));
  std::sort(shown.begin(), shown.end());
  return shown;
}

struct Activity {
  std::vector<int64_t> bars = std::vector<int64_t>(kSparkBars);
  int64_t first_ns = -1;
  int64_t last_ns = -1;
};

std::vector<Activity> ActivityOf(const ReportFacts& facts) {
  std::vector<Activity> activity(facts.buckets.size());
  const int64_t span = std::max<int64_t>(facts.trace.last_ns, 1);
  for (const ReportCall& call : facts.calls) {
    if (call.bucket < 0) continue;
    Activity& of = activity[static_cast<size_t>(call.bucket)];
    const double share = static_cast<double>(call.time_ns) / static_cast<double>(span);
    ++of.bars[std::min(static_cast<size_t>(share * kSparkBars), kSparkBars - 1)];
    if (of.first_ns < 0) of.first_ns = call.time_ns;
    of.last_ns = call.time_ns;
  }
  return activity;
}

// [begin, end, begin, end, ...], the longest of them if there are more than `most`.
Json RangesOf(std::vector<AddressRange> ranges, size_t most) {
  if (ranges.size() > most) {
    std::stable_sort(
        ranges.begin(), ranges.end(),
        [](const AddressRange& a, const AddressRange& b) { return a.bytes() > b.bytes(); });
    ranges.resize(most);
    std::sort(ranges.begin(), ranges.end(),
              [](const AddressRange& a, const AddressRange& b) { return a.begin < b.begin; });
  }
  Json json = Json::array();
  for (const AddressRange& range : ranges) {
    json.push_back(range.begin);
    json.push_back(range.end);
  }
  return json;
}

// The buffers with the most bytes x steps, in their own order.
std::vector<size_t> LargestOf(const TracedNode& node, size_t most) {
  std::vector<std::pair<double, size_t>> areas;
  for (size_t i = 0; i < node.buffers.size(); ++i) {
    int64_t steps = 0;
    for (const Interval& interval : node.buffers[i].lifetime)
      steps += interval.upper - interval.lower;
    areas.emplace_back(-static_cast<double>(node.buffers[i].bytes) * static_cast<double>(steps), i);
  }
  if (areas.size() > most) {
    std::sort(areas.begin(), areas.end());
    areas.resize(most);
  }
  std::vector<size_t> chosen;
  chosen.reserve(areas.size());
  for (const auto& area : areas)
    chosen.push_back(area.second);
  std::sort(chosen.begin(), chosen.end());
  return chosen;
}

Json StepsOf(const Buffer& buffer) {
  Json steps = Json::array();
  for (const Interval& interval : buffer.lifetime) {
    steps.push_back(interval.lower);
    steps.push_back(interval.upper);
  }
  return steps;
}

// [place, offset, bytes, output or -1, [lower, upper, ...], label?] each.
Json BuffersOf(const TracedNode& node, size_t most) {
  Json buffers = Json::array();
  for (const size_t i : LargestOf(node, most)) {
    Json row = {i, node.offsets[i], node.buffers[i].bytes, node.outputs[i],
                StepsOf(node.buffers[i])};
    if (!node.labels[i].empty()) row.push_back(node.labels[i]);
    buffers.push_back(std::move(row));
  }
  return buffers;
}

int64_t LastStepOf(const TracedNode& node) {
  int64_t last = 1;
  for (const Buffer& buffer : node.buffers)
    last = std::max(last, buffer.lifetime.back().upper);
  return last;
}

}  // namespace

Json BucketsOf(const ReportFacts& facts, const ReportLimits& limits, Json& left_out) {
  const std::vector<Activity> activity = ActivityOf(facts);
  const std::vector<size_t> shown = Shown(facts, limits.buckets);
  Json rows = Json::array();
  for (const size_t i : shown) {
    Json row = ToJson(facts.trace, facts.buckets[i]);
    row["name"] = facts.NameOf(static_cast<int>(i));
    row["first_call_ns"] = activity[i].first_ns;
    row["last_call_ns"] = activity[i].last_ns;
    row["calls_over_time"] = activity[i].bars;
    rows.push_back(std::move(row));
  }
  if (shown.size() < facts.buckets.size())
    left_out["buckets"] = {{"shown", shown.size()}, {"of", facts.buckets.size()}};
  return rows;
}

Json MapOf(const ReportFacts& facts, const ReportLimits& limits, Json& left_out) {
  std::vector<int64_t> heights(static_cast<size_t>(facts.trace.lanes));
  for (const TracedNode& node : facts.trace.nodes) {
    int64_t& height = heights[static_cast<size_t>(facts.trace.LaneOf(node))];
    height = std::max(height, node.height);
  }
  std::vector<size_t> drawn;
  for (const size_t i : Shown(facts, limits.buckets))
    if (facts.highest[i] >= 0) drawn.push_back(i);
  const size_t most = limits.buffers / std::max<size_t>(drawn.size(), 1) + 1;
  size_t kept = 0;
  size_t all = 0;
  Json plans = Json::array();
  for (const size_t i : drawn) {
    const TracedNode& node = facts.trace.nodes[static_cast<size_t>(facts.highest[i])];
    Json donated = Json::array();
    for (const Buffer& buffer : node.donated)
      donated.push_back({*buffer.fixed_offset, buffer.bytes, buffer.lifetime[0].upper});
    Json buffers = BuffersOf(node, most);
    all += node.buffers.size();
    kept += buffers.size();
    plans.push_back({{"bucket", facts.trace.buckets[i].id},
                     {"name", facts.NameOf(static_cast<int>(i))},
                     {"lane", facts.trace.buckets[i].lane},
                     {"node", node.id},
                     {"height_bytes", node.height},
                     {"bound_bytes", node.bound},
                     {"method", node.method},
                     {"steps", LastStepOf(node)},
                     {"buffer_count", node.buffers.size()},
                     {"used", RangesOf(facts.uses[i].used, most)},
                     {"exclusive", RangesOf(facts.uses[i].exclusive, most)},
                     {"around", RangesOf(node.around, most)},
                     {"donated", std::move(donated)},
                     {"buffers", std::move(buffers)}});
  }
  if (kept < all) left_out["buffers"] = {{"shown", kept}, {"of", all}};
  return {{"lane_heights_bytes", heights}, {"plans", std::move(plans)}};
}

}  // namespace coppice
