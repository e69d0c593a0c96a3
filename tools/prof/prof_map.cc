// What the maps show, and the maps that are text; prof_map_picture.cc draws.

#include "tools/prof/prof_map.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/functional/function_ref.h"
#include "fmt/format.h"

#include "coppice/base/check.h"
#include "coppice/base/status.h"
#include "coppice/base/units.h"

#include "tools/plan/plan_picture.h"
#include "tools/prof/bucket_figures.h"
#include "tools/support/byte_text.h"

namespace coppice {
namespace {

constexpr int64_t kColumns = 72;  // Of a map in text ...
constexpr int64_t kLines = 24;    // ... and of one bucket.

// Finds what each kind had when all had most, by events of bytes in any order.
void FindPeak(std::vector<TracedEvent> events, AddressMap& map) {
  std::ranges::stable_sort(events, {}, &TracedEvent::time_ns);
  std::array<int64_t, kMemoryKindCount> kinds{};
  for (const TracedEvent& event : events) {
    const auto& [of, bytes, total] = *event.As<BytesEvent>();
    const auto kind = static_cast<size_t>(of);
    kinds[kind] = bytes;
    map.kinds_peaks[kind] = std::max(map.kinds_peaks[kind], bytes);
    if (total <= map.total_peak) continue;
    map.total_peak = total;
    map.kinds_then = kinds;
  }
  map.mapped_peak = map.kinds_peaks[static_cast<size_t>(MemoryKind::kPlan)];
}

// Calls `mark` for each of `cells` that [begin, end) of [0, top) touches.
void ForCells(
    int64_t begin, int64_t end, int64_t top, int64_t cells, absl::FunctionRef<void(size_t)> mark) {
  const int64_t last = std::min(CeilDivide(end * cells, top), cells);
  for (int64_t cell = begin * cells / top; cell < last; ++cell)
    mark(static_cast<size_t>(cell));
}

void Mark(const std::vector<AddressRange>& ranges, int64_t top, char mark, std::string& line) {
  for (const AddressRange& range : ranges)
    ForCells(range.begin, range.end, top, kColumns, [&](size_t cell) { line[cell] = mark; });
}

}  // namespace

int64_t LastStep(const TracedNode& node) {
  int64_t last = 1;
  for (const Buffer& buffer : node.buffers)
    last = std::max(last, buffer.lifetime.back().upper);
  return last;
}

int64_t AddressMap::HeightOf(int lane) const {
  int64_t height = 0;
  for (const TracedNode& node : trace.nodes)
    if (trace.LaneOf(node) == lane) height = std::max(height, node.height);
  return height;
}

int64_t AddressMap::BoundOf(int lane) const {
  int64_t bound = 0;
  for (const TracedNode& node : trace.nodes)
    if (trace.LaneOf(node) == lane) bound = std::max(bound, node.bound);
  return bound;
}

std::string AddressMap::NameOfBucket(int bucket) const {
  return coppice::NameOfBucket(trace, bucket);
}

std::vector<int> AddressMap::RowsOf(int lane) const {
  std::vector<int> rows;
  for (size_t i = 0; i < nodes.size(); ++i)
    if (nodes[i] >= 0 && trace.buckets[i].lane == lane) rows.push_back(static_cast<int>(i));
  const auto order = [&](int row) {
    const TracedBucket& bucket = trace.buckets[static_cast<size_t>(row)];
    const TracedProgram& program = trace.programs[static_cast<size_t>(bucket.program)];
    return std::tie(program.name, program.variant, bucket.extents, bucket.scalars, bucket.id);
  };
  std::ranges::sort(rows, [&](int a, int b) { return order(a) < order(b); });
  return rows;
}

int64_t AddressMap::together_bytes() const {
  std::vector<int64_t> heights(static_cast<size_t>(trace.lanes));
  for (const TracedNode& node : trace.nodes) {
    int64_t& height = heights[static_cast<size_t>(trace.LaneOf(node))];
    height = std::max(height, node.height);
  }
  int64_t sum = 0;
  for (const int64_t height : heights)
    sum = AddUpTo(sum, height);
  return sum;
}

int64_t AddressMap::apart_bytes() const {
  int64_t sum = 0;
  for (const int node : nodes)
    if (node >= 0) sum = AddUpTo(sum, trace.nodes[static_cast<size_t>(node)].height);
  return sum;
}

std::string HeadlineOf(const AddressMap& map) {
  const auto buckets = std::ranges::count_if(map.nodes, [](int node) { return node >= 0; });
  if (buckets == 0) return "No graph was recorded, so no bytes were planned";
  const std::string lanes =
      map.trace.lanes == 1 ? "" : fmt::format(", on {} lanes", map.trace.lanes);
  if (buckets == 1)
    return fmt::format("1 bucket needs {}{}", FormatBytes(map.together_bytes()), lanes);
  return fmt::format("{} buckets need {} in one pool{}; apart they would need {}", buckets,
                     FormatBytes(map.together_bytes()), lanes, FormatBytes(map.apart_bytes()));
}

absl::StatusOr<AddressMap> ReadAddressMap(const std::string& path) {
  AddressMap map;
  std::vector<TracedEvent> bytes;
  COPPICE_ASSIGN_OR_RETURN(map.trace,
                           ReadPoolTrace(path, [&](const PoolTrace&, const TracedEvent& event) {
                             if (event.As<BytesEvent>() != nullptr) bytes.push_back(event);
                             map.statics.Add(event);
                           }));
  FindPeak(std::move(bytes), map);
  map.uses = FindAddressUse(map.trace);
  map.nodes.assign(map.trace.buckets.size(), -1);
  for (size_t i = 0; i < map.trace.nodes.size(); ++i) {
    int& highest = map.nodes[static_cast<size_t>(map.trace.nodes[i].bucket)];
    if (highest < 0 ||
        map.trace.nodes[i].height > map.trace.nodes[static_cast<size_t>(highest)].height)
      highest = static_cast<int>(i);
  }
  return map;
}

std::string DrawBucketMap(const AddressMap& map, int bucket) {
  const TracedNode& node = map.HighestOf(bucket);
  COPPICE_CHECK(!node.buffers.empty(), "a picture needs a buffer");
  LifetimeTable table;
  Plan plan = {.offsets = node.offsets, .height = node.height};
  table.buffers = node.buffers;
  for (size_t i = 0; i < node.buffers.size(); ++i) {
    const std::string role =
        node.outputs[i] < 0 ? fmt::format("temp {}", i) : fmt::format("output {}", node.outputs[i]);
    table.ids.push_back(node.labels[i].empty() ? role
                                               : fmt::format("{}, {}", node.labels[i], role));
  }
  // What was planned around stays where it is all the time, as a fixed buffer does.
  const int64_t last = LastStep(node);
  for (const AddressRange& region : node.around) {
    Buffer& buffer = table.buffers.emplace_back();
    buffer.lifetime.push_back({0, last});
    buffer.bytes = region.bytes();
    buffer.fixed_offset = region.begin;
    plan.offsets.push_back(region.begin);
    table.ids.push_back(fmt::format("around {}", table.ids.size() - node.buffers.size()));
  }
  for (const Buffer& donated : node.donated) {
    table.buffers.push_back(donated);
    plan.offsets.push_back(*donated.fixed_offset);
    table.ids.push_back(fmt::format("donated {}", table.ids.size() - node.buffers.size()));
  }
  PlanPicture picture = {.name = {}, .bound = node.bound, .capacity = std::nullopt};
  const std::string name = fmt::format("{}, node {}", map.NameOfBucket(bucket), node.id);
  picture.name = name;
  if (map.trace.lanes == 1 && map.mapped_peak > 0) picture.capacity = map.mapped_peak;
  return DrawPlan(table, plan, picture);
}

std::string PrintAddressMap(const AddressMap& map) {
  std::string text;
  for (int lane = 0; lane < map.trace.lanes; ++lane) {
    const int64_t top = std::max<int64_t>(map.HeightOf(lane), 1);
    text += fmt::format("lane {}: 0 to {}; # only this bucket, = shared with other buckets\n", lane,
                        FormatBytes(top));
    size_t width = 0;
    for (const int bucket : map.RowsOf(lane))
      width = std::max(width, map.NameOfBucket(bucket).size());
    for (const int bucket : map.RowsOf(lane)) {
      const AddressUse& use = map.uses[static_cast<size_t>(bucket)];
      std::string line(kColumns, ' ');
      Mark(use.Shared(), top, '=', line);
      Mark(use.exclusive, top, '#', line);
      text += fmt::format(
          "  {:>5} {:<{}} |{}| {}\n", map.trace.buckets[static_cast<size_t>(bucket)].id,
          map.NameOfBucket(bucket), width, line, FormatBytes(map.HighestOf(bucket).height));
    }
  }
  return text;
}

std::string PrintBucketMap(const AddressMap& map, int bucket) {
  const TracedNode& node = map.HighestOf(bucket);
  const int64_t top = std::max<int64_t>(node.height, 1);
  const int64_t last = LastStep(node);
  std::vector<std::string> lines(kLines, std::string(kColumns, ' '));
  const auto fill = [&](int64_t begin, int64_t end, const Interval& steps, char mark) {
    ForCells(begin, end, top, kLines, [&](size_t line) {
      ForCells(steps.lower, steps.upper, last, kColumns,
               [&](size_t cell) { lines[line][cell] = mark; });
    });
  };
  for (const AddressRange& region : node.around)
    fill(region.begin, region.end, {0, last}, '~');
  for (const Buffer& donated : node.donated) {
    fill(*donated.fixed_offset, *donated.fixed_offset + donated.bytes, donated.lifetime[0], '-');
  }
  for (size_t i = 0; i < node.buffers.size(); ++i) {
    const int letter = static_cast<int>(i % 26);
    for (const Interval& steps : node.buffers[i].lifetime) {
      fill(node.offsets[i], node.offsets[i] + node.buffers[i].bytes, steps,
           static_cast<char>((node.outputs[i] < 0 ? 'a' : 'A') + letter));
    }
  }
  std::string text = fmt::format(
      "{}, node {}: addresses up to {}, steps 0 to {}; capitals are outputs, ~ is memory that the "
      "plan avoids{}\n",
      map.NameOfBucket(bucket), node.id, FormatBytes(top), last,
      node.donated.empty() ? "" : ", - is donated");
  for (auto line = lines.rbegin(); line != lines.rend(); ++line)
    text += fmt::format("  |{}|\n", *line);
  return text;
}

}  // namespace coppice
