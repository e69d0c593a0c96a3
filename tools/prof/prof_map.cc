// Addresses across; a row per bucket, inside of it time downwards.

#include "tools/prof/prof_map.h"

#include <algorithm>
#include <utility>

#include "absl/functional/function_ref.h"
#include "fmt/format.h"

#include "coppice/base/check.h"
#include "coppice/base/status.h"
#include "coppice/base/units.h"

#include "tools/plan/plan_picture.h"
#include "tools/support/byte_text.h"
#include "tools/support/svg.h"

namespace coppice {
namespace {

// Pixels.
constexpr double kWidth = 1280;
constexpr double kLeft = 190;
constexpr double kRight = kWidth - 30;
constexpr double kTop = 84;            // Above the first lane: title and legend.
constexpr double kLaneHead = 46;       // Title and axis of a lane.
constexpr double kRow = 40;            // Of a bucket ...
constexpr double kRowPitch = 48;       // ... and with the space below it.
constexpr double kVisible = 0.4;       // A block is drawn at least so wide and high.
constexpr double kOutlined = 3;        // From here on a block has an outline.
constexpr size_t kBlocksMax = 20'000;  // Of a lane; each row draws its largest.
constexpr int64_t kTicksMax = 10;
constexpr double kMappedMax = 1.5;  // Mapped bytes above so many heights are not drawn.

constexpr int64_t kColumns = 72;  // Of a map in text ...
constexpr int64_t kLines = 24;    // ... and of one bucket.

constexpr const char* kBoundStyle = "stroke:#c00;stroke-width:1.5";
constexpr const char* kMappedStyle = "stroke:#06c;stroke-width:1.5;stroke-dasharray:6 4";
// What lies below keeps its tip.
constexpr const char* kSharedStyle = "fill:url(#hatch);pointer-events:none";

const TracedNode& NodeOf(const AddressMap& map, int bucket) {
  return map.trace.nodes[static_cast<size_t>(map.nodes[static_cast<size_t>(bucket)])];
}

// Buckets of a lane that have a graph, in the order of the trace.
std::vector<int> RowsOf(const AddressMap& map, int lane) {
  std::vector<int> rows;
  for (size_t i = 0; i < map.nodes.size(); ++i)
    if (map.nodes[i] >= 0 && map.trace.buckets[i].lane == lane) rows.push_back(static_cast<int>(i));
  return rows;
}

int64_t LastStep(const TracedNode& node) {
  int64_t last = 1;
  for (const Buffer& buffer : node.buffers)
    last = std::max(last, buffer.lifetime.back().upper);
  return last;
}

// The addresses of a lane, from 0 to `top`, as pixels.
struct Axis {
  int64_t top = 1;
  size_t blocks_per_row = 1;
  double At(int64_t address) const {
    return kLeft + (kRight - kLeft) * static_cast<double>(address) / static_cast<double>(top);
  }
};

Axis AxisOf(const AddressMap& map, int lane) {
  Axis axis = {.top = std::max<int64_t>(map.HeightOf(lane), 1)};
  const bool mapped_fits =
      static_cast<double>(map.mapped_peak) <= kMappedMax * static_cast<double>(axis.top);
  if (map.trace.lanes == 1 && mapped_fits) axis.top = std::max(axis.top, map.mapped_peak);
  axis.blocks_per_row = kBlocksMax / std::max<size_t>(RowsOf(map, lane).size(), 1) + 1;
  return axis;
}

std::string TipOf(const TracedNode& node, size_t i) {
  std::string steps;
  for (const Interval& interval : node.buffers[i].lifetime)
    steps += fmt::format(" [{}, {})", interval.lower, interval.upper);
  const std::string role = node.outputs[i] < 0 ? "temp" : fmt::format("output {}", node.outputs[i]);
  return fmt::format("{} (buffer {} of node {}): {} bytes at offset {}, steps{}", role, i, node.id,
                     node.buffers[i].bytes, node.offsets[i], steps);
}

// The at most `count` buffers with the most bytes x steps, in their own order.
std::vector<size_t> LargestOf(const TracedNode& node, size_t count) {
  std::vector<std::pair<double, size_t>> blocks;
  for (size_t i = 0; i < node.buffers.size(); ++i) {
    int64_t steps = 0;
    for (const Interval& interval : node.buffers[i].lifetime)
      steps += interval.upper - interval.lower;
    blocks.emplace_back(-static_cast<double>(node.buffers[i].bytes) * static_cast<double>(steps),
                        i);
  }
  std::sort(blocks.begin(), blocks.end());
  blocks.resize(std::min(blocks.size(), count));
  std::vector<size_t> chosen;
  for (const auto& [area, i] : blocks)
    chosen.push_back(i);
  std::sort(chosen.begin(), chosen.end());
  return chosen;
}

void DrawBlocks(const TracedNode& node, const Axis& axis, double y, Svg& svg) {
  const double step = kRow / static_cast<double>(LastStep(node));
  for (const size_t i : LargestOf(node, axis.blocks_per_row)) {
    const double x = axis.At(node.offsets[i]);
    const double width = axis.At(node.offsets[i] + node.buffers[i].bytes) - x;
    const std::string tip = TipOf(node, i);
    for (const Interval& interval : node.buffers[i].lifetime) {
      const double height = step * static_cast<double>(interval.upper - interval.lower);
      std::string style = fmt::format("fill:{}", PaletteColour(static_cast<int>(i % 10)));
      if (node.outputs[i] >= 0) {
        style += ";stroke:#000;stroke-width:1.2";
      } else if (width >= kOutlined && height >= kOutlined) {
        style += ";stroke:#fff;stroke-width:0.5";
      }
      svg.Rectangle(x, y + step * static_cast<double>(interval.lower), std::max(width, kVisible),
                    std::max(height, kVisible), style, tip);
    }
  }
}

void DrawRow(const AddressMap& map, int bucket, const Axis& axis, double y, Svg& svg) {
  const TracedNode& node = NodeOf(map, bucket);
  const AddressUse& use = map.uses[static_cast<size_t>(bucket)];
  const std::string name = map.NameOfBucket(bucket);
  svg.Text(kLeft - 8, y + 16, name, "end");
  svg.Text(kLeft - 8, y + 32,
           fmt::format("bucket {}, {}", map.trace.buckets[static_cast<size_t>(bucket)].id,
                       FormatBytes(node.height)),
           "end", 10);
  const auto strip = [&](const AddressRange& range, const char* style, const std::string& tip) {
    const double x = axis.At(range.begin);
    svg.Rectangle(x, y, std::max(axis.At(range.end) - x, kVisible), kRow, style, tip);
  };
  for (const AddressRange& range : use.used) {
    strip(range, "fill:#e4e4e4",
          fmt::format("{}: [{}, {}), {} bytes in any of its plans", name, range.begin, range.end,
                      range.bytes()));
  }
  DrawBlocks(node, axis, y, svg);
  for (const AddressRange& range : node.around) {
    strip(range, "fill:none;stroke:#333;stroke-dasharray:3 2",
          fmt::format("planned around: [{}, {}), {} bytes", range.begin, range.end, range.bytes()));
  }
  for (const AddressRange& range : use.Shared())
    strip(range, kSharedStyle, {});
  svg.Line(axis.At(node.bound), y - 3, axis.At(node.bound), y + kRow + 3, kBoundStyle);
}

// Draws one lane from `y` on and returns where it ends.
double DrawLane(const AddressMap& map, int lane, double y, Svg& svg) {
  const std::vector<int> rows = RowsOf(map, lane);
  const Axis axis = AxisOf(map, lane);
  const double bottom = y + kLaneHead + kRowPitch * static_cast<double>(rows.size());
  svg.Text(kLeft, y + 14,
           fmt::format("lane {}: height {}, bound {}", lane, FormatBytes(map.HeightOf(lane)),
                       FormatBytes(map.BoundOf(lane))),
           "start", 14);
  const int64_t tick_bytes = ByteStep(axis.top, kTicksMax);
  for (int64_t tick = 0; tick <= axis.top / tick_bytes; ++tick) {
    const int64_t address = tick * tick_bytes;
    svg.Line(axis.At(address), y + kLaneHead - 8, axis.At(address), bottom - 4,
             "stroke:#ddd;stroke-width:0.5");
    svg.Text(axis.At(address), y + kLaneHead - 12, FormatBytes(address), "middle", 10);
  }
  for (size_t i = 0; i < rows.size(); ++i)
    DrawRow(map, rows[i], axis, y + kLaneHead + kRowPitch * static_cast<double>(i), svg);
  svg.Line(axis.At(map.BoundOf(lane)), y + kLaneHead - 8, axis.At(map.BoundOf(lane)), bottom,
           "stroke:#c00;stroke-width:0.7;stroke-dasharray:2 3");
  if (map.trace.lanes == 1 && map.mapped_peak <= axis.top) {
    svg.Line(axis.At(map.mapped_peak), y + kLaneHead - 8, axis.At(map.mapped_peak), bottom,
             kMappedStyle);
  }
  return bottom + 10;
}

void DrawLegend(const AddressMap& map, Svg& svg) {
  svg.Text(kLeft, 28,
           fmt::format("Address map of {}: mapped for graphs at most {}{}", map.trace.device,
                       FormatBytes(map.mapped_peak), map.trace.lanes > 1 ? ", on all lanes" : ""),
           "start", 16);
  double x = kLeft;
  const auto key = [&](const char* style, const char* text, double width) {
    svg.Rectangle(x, 46, 18, 14, style);
    svg.Text(x + 24, 58, text, "start", 11);
    x += width;
  };
  key("fill:#fff;stroke:#000;stroke-width:1.2", "output; colours tell buffers apart", 240);
  key("fill:url(#hatch);stroke:#999", "bytes of other buckets too", 190);
  key("fill:#e4e4e4", "other plans of the bucket", 180);
  key("fill:none;stroke:#333;stroke-dasharray:3 2", "planned around", 130);
  key("fill:#c00", "bound", 70);
  key("fill:#06c", "mapped", 80);
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

absl::StatusOr<AddressMap> ReadAddressMap(const std::string& path) {
  AddressMap map;
  COPPICE_ASSIGN_OR_RETURN(
      map.trace, ReadPoolTrace(path, [&](const PoolTrace&, const TraceEvent& event) {
        if (event.kind == TraceEventKind::kBytes && event.memory == MemoryKind::kPlan)
          map.mapped_peak = std::max(map.mapped_peak, event.first);
      }));
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

std::string DrawAddressMap(const AddressMap& map) {
  double height = kTop + 20;
  for (int lane = 0; lane < map.trace.lanes; ++lane)
    height += kLaneHead + 10 + kRowPitch * static_cast<double>(RowsOf(map, lane).size());
  Svg svg(kWidth, height, fmt::format("Address map of {}", map.trace.device));
  DrawLegend(map, svg);
  double y = kTop;
  for (int lane = 0; lane < map.trace.lanes; ++lane)
    y = DrawLane(map, lane, y, svg);
  return svg.Finish();
}

std::string DrawBucketMap(const AddressMap& map, int bucket) {
  const TracedNode& node = NodeOf(map, bucket);
  COPPICE_CHECK(!node.buffers.empty(), "a picture needs a buffer");
  LifetimeTable table;
  Plan plan = {.offsets = node.offsets, .height = node.height};
  table.buffers = node.buffers;
  for (size_t i = 0; i < node.buffers.size(); ++i) {
    table.ids.push_back(node.outputs[i] < 0 ? fmt::format("temp {}", i)
                                            : fmt::format("output {}", node.outputs[i]));
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
    text += fmt::format("lane {}: 0 to {}; # alone, = shared with other buckets\n", lane,
                        FormatBytes(top));
    size_t width = 0;
    for (const int bucket : RowsOf(map, lane))
      width = std::max(width, map.NameOfBucket(bucket).size());
    for (const int bucket : RowsOf(map, lane)) {
      const AddressUse& use = map.uses[static_cast<size_t>(bucket)];
      std::string line(kColumns, ' ');
      Mark(use.Shared(), top, '=', line);
      Mark(use.exclusive, top, '#', line);
      text += fmt::format(
          "  {:>5} {:<{}} |{}| {}\n", map.trace.buckets[static_cast<size_t>(bucket)].id,
          map.NameOfBucket(bucket), width, line, FormatBytes(NodeOf(map, bucket).height));
    }
  }
  return text;
}

std::string PrintBucketMap(const AddressMap& map, int bucket) {
  const TracedNode& node = NodeOf(map, bucket);
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
      "{}, node {}: address up to {}, steps 0 to {}; capitals are outputs, ~ is around{}\n",
      map.NameOfBucket(bucket), node.id, FormatBytes(top), last,
      node.donated.empty() ? "" : ", - is donated");
  for (auto line = lines.rbegin(); line != lines.rend(); ++line)
    text += fmt::format("  |{}|\n", *line);
  return text;
}

}  // namespace coppice
