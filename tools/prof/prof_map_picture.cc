// Addresses across; a row per bucket, inside of it time downwards; below, bytes by who has them.

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fmt/format.h"

#include "tools/prof/prof_map.h"
#include "tools/prof/trace_summary.h"
#include "tools/support/byte_text.h"
#include "tools/support/svg.h"

namespace coppice {
namespace {

// Pixels.
constexpr double kWidth = 1280;
constexpr double kRight = kWidth - 30;
constexpr double kMargin = 16;        // Left of names.
constexpr double kNamesMin = 150;     // For names of rows ...
constexpr double kNamesMax = 320;     // ... of which longer ones are shortened.
constexpr double kLetter = 6.9;       // Of a name of 12 pixels, about.
constexpr double kSmallLetter = 6.2;  // Of one of 11 pixels.
constexpr double kLegendTop = 64;
constexpr double kLegendPitch = 22;
constexpr double kLaneHead = 50;       // Title and axis of a lane.
constexpr double kVisible = 0.4;       // A block is drawn at least so wide and high.
constexpr double kOutlined = 3;        // From here on a block has an outline.
constexpr double kKindPitch = 24;      // Of a row of the band.
constexpr double kKindsShare = 0.42;   // The longest bar of the band, so that its text fits.
constexpr size_t kBlocksMax = 20'000;  // Of a lane; each row draws its largest.
constexpr size_t kTallRowsMax = 80;    // More rows in all are drawn flat.
constexpr int64_t kTicksMax = 10;
constexpr double kMappedMax = 1.5;  // Mapped bytes above so many heights are not drawn.

constexpr const char* kFootprintStyle = "fill:#ececec";
constexpr const char* kOtherPlansStyle = "fill:#cfd6dd";
constexpr const char* kAroundStyle = "fill:none;stroke:#333;stroke-dasharray:3 2";
constexpr const char* kBoundStyle = "stroke:#c00;stroke-width:1.5";
constexpr const char* kMappedStyle = "stroke:#06c;stroke-width:1.5;stroke-dasharray:6 4";
constexpr const char* kStaticsStyle = "fill:#fff;stroke:#666";  // Not the session's.
constexpr const char* kBrokenStyle = "stroke:#fff;stroke-width:3;stroke-dasharray:3 2";
constexpr const char* kGridStyle = "stroke:#ddd;stroke-width:0.5";
// What lies below keeps its tip.
constexpr const char* kSharedStyle = "fill:url(#hatch);fill-opacity:0.55;pointer-events:none";

// Characters of UTF-8; bytes that are none count as one each.
size_t LengthOf(std::string_view text) {
  return static_cast<size_t>(std::ranges::count_if(
      text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

// At most `count` characters of `text`: its beginning, and its end, which tells buckets apart.
std::string Shortened(std::string_view text, size_t count) {
  if (LengthOf(text) <= count) return std::string(text);
  std::vector<size_t> starts;
  for (size_t i = 0; i < text.size(); ++i)
    if ((static_cast<unsigned char>(text[i]) & 0xC0) != 0x80) starts.push_back(i);
  const size_t tail = count / 3;
  const size_t head = count - tail - 1;
  return fmt::format("{}\u2026{}", text.substr(0, starts[head]),
                     text.substr(starts[starts.size() - tail]));
}

// Bytes from 0 to `top` between two columns.
struct Axis {
  double left = 0;
  double right = kRight;
  int64_t top = 1;
  double At(int64_t bytes) const {
    return left + (right - left) * static_cast<double>(bytes) / static_cast<double>(top);
  }
};

std::string TipOf(const TracedNode& node, size_t i) {
  std::string steps;
  for (const Interval& interval : node.buffers[i].lifetime)
    steps += fmt::format(" [{}, {})", interval.lower, interval.upper);
  std::string role = node.outputs[i] < 0 ? "temp" : fmt::format("output {}", node.outputs[i]);
  if (!node.labels[i].empty()) role = fmt::format("{}, {}", node.labels[i], role);
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

// What of `ranges` lies outside `taken`; both sorted and disjoint.
std::vector<AddressRange> Without(const std::vector<AddressRange>& ranges,
                                  const std::vector<AddressRange>& taken) {
  std::vector<AddressRange> rest;
  size_t next = 0;
  for (const AddressRange& range : ranges) {
    int64_t from = range.begin;
    while (next < taken.size() && taken[next].end <= from)
      ++next;
    for (size_t i = next; i < taken.size() && taken[i].begin < range.end; ++i) {
      if (taken[i].begin > from) rest.push_back({from, taken[i].begin});
      from = std::max(from, taken[i].end);
    }
    if (from < range.end) rest.push_back({from, range.end});
  }
  return rest;
}

// Each sign that occurs is explained once.
enum class Sign { kBuffer, kOutput, kFootprint, kOtherPlans, kShared, kAround, kBound, kMapped };
constexpr size_t kSignCount = 8;

class MapPicture {
 public:
  explicit MapPicture(const AddressMap& map) : map_(map) {
    size_t rows = 0;
    size_t longest = 0;
    for (int lane = 0; lane < map.trace.lanes; ++lane) {
      rows_.push_back(map.RowsOf(lane));
      rows += rows_.back().size();
      for (const int bucket : rows_.back())
        longest = std::max(longest, LengthOf(map.NameOfBucket(bucket)));
    }
    flat_ = rows > kTallRowsMax;
    row_ = flat_ ? 14 : 30;
    pitch_ = flat_ ? 17 : 38;
    // A flat row has its height behind its name.
    const double names = kLetter * static_cast<double>(longest) + (flat_ ? 80 : 10);
    left_ = kMargin + std::clamp(names, kNamesMin, kNamesMax);
    letters_ = static_cast<size_t>((kNamesMax - (flat_ ? 80 : 0)) / kLetter);
  }

  std::string Draw() {
    // What is drawn decides the legend, so that the body comes first.
    std::vector<Axis> axes;
    double body = 0;
    for (int lane = 0; lane < map_.trace.lanes; ++lane) {
      axes.push_back(AxisOf(lane));
      FindSigns(lane, axes.back());
      if (!RowsOf(lane).empty())
        body += kLaneHead + 14 + pitch_ * static_cast<double>(RowsOf(lane).size());
    }
    const std::vector<Holding> holdings = Holdings();
    if (!holdings.empty())
      body += kLaneHead + 20 + kKindPitch * static_cast<double>(holdings.size());
    const double top = kLegendTop + kLegendPitch * static_cast<double>(LegendLines()) + 10;
    Svg svg(kWidth, top + body + 10, HeadlineOf(map_));
    DrawHead(svg);
    double y = top;
    for (int lane = 0; lane < map_.trace.lanes; ++lane)
      y = DrawLane(lane, axes[static_cast<size_t>(lane)], y, svg);
    if (!holdings.empty()) DrawHoldings(holdings, y + 10, svg);
    return svg.Finish();
  }

 private:
  const std::vector<int>& RowsOf(int lane) const { return rows_[static_cast<size_t>(lane)]; }

  bool MappedOnAxis(const Axis& axis) const {
    return map_.trace.lanes == 1 && map_.mapped_peak > 0 && map_.mapped_peak <= axis.top;
  }

  Axis AxisOf(int lane) const {
    Axis axis = {.left = left_, .top = std::max<int64_t>(map_.HeightOf(lane), 1)};
    const bool mapped_fits =
        static_cast<double>(map_.mapped_peak) <= kMappedMax * static_cast<double>(axis.top);
    if (map_.trace.lanes == 1 && mapped_fits) axis.top = std::max(axis.top, map_.mapped_peak);
    return axis;
  }

  // What of the window only other plans of the bucket use.
  std::vector<AddressRange> OtherPlansOf(int bucket) const {
    return Without(map_.uses[static_cast<size_t>(bucket)].used,
                   FootprintOf(map_.HighestOf(bucket)));
  }

  void Note(Sign sign) { signs_[static_cast<size_t>(sign)] = true; }

  void FindSigns(int lane, const Axis& axis) {
    for (const int bucket : RowsOf(lane)) {
      const TracedNode& node = map_.HighestOf(bucket);
      Note(Sign::kBound);
      for (const int64_t output : node.outputs)
        Note(output < 0 ? Sign::kBuffer : Sign::kOutput);
      if (!node.buffers.empty()) Note(Sign::kFootprint);
      if (!OtherPlansOf(bucket).empty()) Note(Sign::kOtherPlans);
      if (map_.uses[static_cast<size_t>(bucket)].shared_bytes() > 0) Note(Sign::kShared);
      if (!node.around.empty()) Note(Sign::kAround);
    }
    if (!RowsOf(lane).empty() && MappedOnAxis(axis)) Note(Sign::kMapped);
  }

  struct Key {
    const char* style;
    const char* text;
    bool line;
  };
  static Key KeyOf(Sign sign) {
    static constexpr std::array<Key, kSignCount> kKeys = {{
        {"fill:#4e79a7", "a buffer; colours tell buffers apart", false},
        {"fill:#fff;stroke:#000;stroke-width:1.2", "an output", false},
        {kFootprintStyle, "the plan\u2019s bytes, free at that step", false},
        {kOtherPlansStyle, "other plans of the bucket", false},
        {"fill:url(#hatch);stroke:#999", "shared with other buckets", false},
        {kAroundStyle, "live outputs that the plan goes around", false},
        {kBoundStyle, "most bytes live at once", true},
        {kMappedStyle, "mapped", true},
    }};
    return kKeys[static_cast<size_t>(sign)];
  }

  // Calls `place(sign, x, line)` for each entry of the legend; returns the lines.
  template <typename Place>
  size_t ForLegend(Place place) const {
    double x = left_;
    size_t line = 0;
    for (size_t i = 0; i < kSignCount; ++i) {
      if (!signs_[i]) continue;
      const auto sign = static_cast<Sign>(i);
      const double width = 24 + kSmallLetter * static_cast<double>(LengthOf(KeyOf(sign).text)) + 16;
      if (x > left_ && x + width > kRight) {
        x = left_;
        ++line;
      }
      place(sign, x, line);
      x += width;
    }
    return x > left_ ? line + 1 : 0;
  }
  size_t LegendLines() const {
    return ForLegend([](Sign, double, size_t) {});
  }

  void DrawHead(Svg& svg) const {
    svg.Text(left_, 28, HeadlineOf(map_), "start", 17);
    const std::string mapped =
        map_.mapped_peak == 0
            ? ""
            : fmt::format("; at most {} mapped for graphs, in steps of {}",
                          FormatBytes(map_.mapped_peak), FormatBytes(map_.trace.granularity));
    const std::string rows =
        signs_[static_cast<size_t>(Sign::kBuffer)] || signs_[static_cast<size_t>(Sign::kOutput)]
            ? ". Each row shows the highest plan of one bucket, with its steps from top to bottom"
            : "";
    svg.Text(left_, 49, fmt::format("{}{}{}", map_.trace.device, mapped, rows), "start", 12);
    ForLegend([&](Sign sign, double x, size_t line) {
      const double y = kLegendTop + kLegendPitch * static_cast<double>(line);
      const Key key = KeyOf(sign);
      if (key.line) {
        svg.Line(x + 9, y, x + 9, y + 14, key.style);
      } else {
        svg.Rectangle(x, y, 18, 14, key.style);
      }
      svg.Text(x + 24, y + 11, key.text, "start", 11);
    });
  }

  // Ticks from `y` down to `bottom`, with the unit in front of them.
  static void DrawAxis(const Axis& axis, std::string_view what, double y, double bottom, Svg& svg) {
    const int64_t step = ByteStep(axis.top, kTicksMax);
    const ByteUnit unit = UnitOf(axis.top);
    svg.Text(axis.left - 8, y - 4, fmt::format("{}, {}", what, unit.name), "end", 11);
    for (int64_t tick = 0; tick <= axis.top / step; ++tick) {
      const double x = axis.At(tick * step);
      svg.Line(x, y, x, bottom, kGridStyle);
      svg.Text(
          x, y - 4,
          fmt::format("{:.6g}", static_cast<double>(tick * step) / static_cast<double>(unit.bytes)),
          tick == 0 ? "start" : "middle", 11);
    }
  }

  void DrawBlocks(const TracedNode& node, const Axis& axis, size_t most, double y, Svg& svg) const {
    const double step = row_ / static_cast<double>(LastStep(node));
    for (const size_t i : LargestOf(node, most)) {
      const double x = axis.At(node.offsets[i]);
      const double width = axis.At(node.offsets[i] + node.buffers[i].bytes) - x;
      const std::string tip = TipOf(node, i);
      for (const Interval& interval : node.buffers[i].lifetime) {
        const double height = step * static_cast<double>(interval.upper - interval.lower);
        std::string style = fmt::format("fill:{}", PaletteColour(static_cast<int>(i % 10)));
        if (node.outputs[i] >= 0) {
          style += ";stroke:#000;stroke-width:1";
        } else if (width >= kOutlined && height >= kOutlined) {
          style += ";stroke:#fff;stroke-width:0.5";
        }
        svg.Rectangle(x, y + step * static_cast<double>(interval.lower), std::max(width, kVisible),
                      std::max(height, kVisible), style, tip);
      }
    }
  }

  void DrawName(int bucket, double y, Svg& svg) const {
    const std::string name = Shortened(map_.NameOfBucket(bucket), letters_);
    const std::string height = FormatBytes(map_.HighestOf(bucket).height);
    if (flat_) {
      svg.Text(left_ - 80, y + 11, name, "end", 11);
      svg.Text(left_ - 8, y + 11, height, "end", 11);
      return;
    }
    svg.Text(left_ - 8, y + 12, name, "end");
    svg.Text(
        left_ - 8, y + 26,
        fmt::format("bucket {}, {}", map_.trace.buckets[static_cast<size_t>(bucket)].id, height),
        "end", 10);
  }

  void DrawRow(int bucket, const Axis& axis, size_t blocks, double y, Svg& svg) const {
    const TracedNode& node = map_.HighestOf(bucket);
    const std::string name = map_.NameOfBucket(bucket);
    DrawName(bucket, y, svg);
    const auto strip = [&](const AddressRange& range, const char* style, const std::string& tip) {
      const double x = axis.At(range.begin);
      svg.Rectangle(x, y, std::max(axis.At(range.end) - x, kVisible), row_, style, tip);
    };
    for (const AddressRange& range : FootprintOf(node)) {
      strip(range, kFootprintStyle,
            fmt::format("{}: [{}, {}), {} bytes in its highest plan", name, range.begin, range.end,
                        range.bytes()));
    }
    for (const AddressRange& range : OtherPlansOf(bucket)) {
      strip(range, kOtherPlansStyle,
            fmt::format("{}: [{}, {}), {} bytes in its other plans", name, range.begin, range.end,
                        range.bytes()));
    }
    DrawBlocks(node, axis, blocks, y, svg);
    for (const AddressRange& range : node.around) {
      strip(
          range, kAroundStyle,
          fmt::format("planned around: [{}, {}), {} bytes", range.begin, range.end, range.bytes()));
    }
    for (const AddressRange& range : map_.uses[static_cast<size_t>(bucket)].Shared())
      strip(range, kSharedStyle, {});
    svg.Line(axis.At(node.bound), y - 2, axis.At(node.bound), y + row_ + 2, kBoundStyle);
  }

  // Draws one lane from `y` on and returns where it ends. A lane without graphs takes no room.
  double DrawLane(int lane, const Axis& axis, double y, Svg& svg) const {
    const std::vector<int>& rows = RowsOf(lane);
    if (rows.empty()) return y;
    const double bottom = y + kLaneHead + pitch_ * static_cast<double>(rows.size());
    svg.Text(left_, y + 14,
             fmt::format("lane {}: {} high, at most {} live at once", lane,
                         FormatBytes(map_.HeightOf(lane)), FormatBytes(map_.BoundOf(lane))),
             "start", 13);
    DrawAxis(axis, "address", y + kLaneHead - 8, bottom - 4, svg);
    const size_t blocks = kBlocksMax / rows.size() + 1;
    for (size_t i = 0; i < rows.size(); ++i)
      DrawRow(rows[i], axis, blocks, y + kLaneHead + pitch_ * static_cast<double>(i), svg);
    if (MappedOnAxis(axis)) {
      const double x = axis.At(map_.mapped_peak);
      svg.Line(x, y + kLaneHead - 8, x, bottom, kMappedStyle);
    }
    return bottom + 14;
  }

  // A row of the band.
  struct Holding {
    std::string name;
    int64_t bytes = 0;
    std::string text;
    std::string tip;
    std::string style;
  };

  // The kinds that had bytes at any time, and what the application has.
  std::vector<Holding> Holdings() const {
    std::vector<Holding> holdings;
    for (size_t i = 0; i < map_.kinds_peaks.size(); ++i)
      if (map_.kinds_peaks[i] > 0) holdings.push_back(HoldingOf(static_cast<MemoryKind>(i)));
    if (map_.statics.total > 0) holdings.push_back(Statics());
    return holdings;
  }

  Holding HoldingOf(MemoryKind kind) const {
    const auto place = static_cast<size_t>(kind);
    const int64_t bytes = map_.kinds_then[place];
    const int64_t peak = map_.kinds_peaks[place];
    Holding holding = {.name = NameOf(kind),
                       .bytes = bytes,
                       .text = FormatBytes(bytes),
                       .tip = {},
                       .style = fmt::format("fill:{}", PaletteColour(static_cast<int>(place)))};
    std::ranges::replace(holding.name, '_', ' ');
    holding.tip = fmt::format("{}: {} bytes, at most {}", holding.name, bytes, peak);
    if (peak > bytes) holding.text += fmt::format(", {} at another time", FormatBytes(peak));
    if (kind == MemoryKind::kPlan && bytes >= map_.together_bytes())
      holding.text += fmt::format(", of which plans reach {}", FormatBytes(map_.together_bytes()));
    holding.text += fmt::format(": {}", MeaningOf(kind));
    return holding;
  }

  Holding Statics() const {
    Holding holding = {
        .name = "statics",
        .bytes = map_.statics.total,
        .text = fmt::format("{} at most: {}", FormatBytes(map_.statics.total), kStaticsMeaning),
        .tip = fmt::format("statics: {} bytes at most", map_.statics.total),
        .style = kStaticsStyle};
    for (size_t i = 0; i < map_.statics.programs.size(); ++i) {
      const int64_t bytes = map_.statics.programs[i];
      if (bytes == 0) continue;
      holding.tip += fmt::format("; {} {}", LabelOfProgram(map_.trace, static_cast<int>(i)), bytes);
    }
    return holding;
  }

  void DrawHoldings(const std::vector<Holding>& holdings, double y, Svg& svg) const {
    const std::string budget =
        map_.trace.budget == 0 ? "without a budget"
                               : fmt::format("of a budget of {}", FormatBytes(map_.trace.budget));
    svg.Text(left_, y + 14,
             fmt::format("All memory of the session at its peak: {}, {}",
                         FormatBytes(map_.total_peak), budget),
             "start", 13);
    Axis axis = {.left = left_, .right = left_ + (kRight - left_) * kKindsShare};
    for (const int64_t bytes : map_.kinds_then)
      axis.top = std::max(axis.top, bytes);
    const double top = y + kLaneHead;
    const double bottom = top + kKindPitch * static_cast<double>(holdings.size());
    DrawAxis(axis, "bytes", top - 8, bottom - 4, svg);
    for (size_t i = 0; i < holdings.size(); ++i)
      DrawHolding(holdings[i], axis, top + kKindPitch * static_cast<double>(i), svg);
  }

  static void DrawHolding(const Holding& holding, const Axis& axis, double y, Svg& svg) {
    svg.Text(axis.left - 8, y + 12, holding.name, "end");
    // Weights may be a hundred times what the session has: their bar breaks off at the axis's end.
    const double end = axis.At(std::min(holding.bytes, axis.top));
    svg.Rectangle(axis.left, y, std::max(end - axis.left, kVisible), 16, holding.style,
                  holding.tip);
    const bool broken = holding.bytes > axis.top;
    if (broken) svg.Line(end, y - 2, end, y + 18, kBrokenStyle);
    svg.Text(end + 8, y + 12, fmt::format("{}{}", broken ? "\u2026 " : "", holding.text), "start",
             11);
  }

  const AddressMap& map_;
  std::vector<std::vector<int>> rows_;  // By lane.
  std::array<bool, kSignCount> signs_{};
  bool flat_ = false;
  double row_ = 0;    // Height of a row ...
  double pitch_ = 0;  // ... and with the space below it.
  double left_ = 0;   // Where axes begin.
  size_t letters_ = 0;
};

}  // namespace

std::string DrawAddressMap(const AddressMap& map) {
  return MapPicture(map).Draw();
}

}  // namespace coppice
