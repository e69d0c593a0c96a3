// Axes first, then the blocks, then the lines that are read across them.

#include "tools/plan/plan_picture.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>
#include <vector>

#include "fmt/format.h"

#include "coppice/base/check.h"

#include "tools/support/byte_text.h"
#include "tools/support/svg.h"
#include "tools/support/text_table.h"

namespace coppice {
namespace {

// Pixels.
constexpr double kWidth = 1280;
constexpr double kHeight = 760;
constexpr double kLeft = 100;
constexpr double kRight = kWidth - 190;
constexpr double kTop = 64;
constexpr double kBottom = kHeight - 56;
constexpr double kVisible = 0.4;      // A block is drawn at least so wide and high.
constexpr double kOutlined = 3;       // From here on a block has an outline.
constexpr double kLetterWidth = 7;    // Of an id inside its block.
constexpr double kLetterHeight = 14;  // Also between labels beside the picture.

constexpr int64_t kTicksMax = 10;
constexpr double kCapacityMax = 1.5;  // A capacity above so many heights is not drawn.

constexpr const char* kAxisStyle = "stroke:#333;stroke-width:1";
constexpr const char* kGridStyle = "stroke:#ddd;stroke-width:0.5";
constexpr const char* kGapStyle = "stroke:#333;stroke-width:0.7;stroke-dasharray:2 3";

// From numbers to pixels.
struct Scale {
  double Time(int64_t step) const {
    return kLeft + (kRight - kLeft) * static_cast<double>(step - first_step) /
                       static_cast<double>(last_step - first_step);
  }
  double Address(int64_t bytes) const {
    return kBottom - (kBottom - kTop) * static_cast<double>(bytes) / static_cast<double>(top);
  }

  int64_t first_step = INT64_MAX;
  int64_t last_step = 0;
  int64_t top = 1;
};

Scale ScaleOf(const LifetimeTable& table, const Plan& plan, const PlanPicture& picture) {
  Scale scale;
  scale.top = std::max({plan.height, picture.bound, int64_t{1}});
  const double capacity = static_cast<double>(picture.capacity.value_or(0));
  if (capacity <= kCapacityMax * static_cast<double>(scale.top))
    scale.top = std::max(scale.top, picture.capacity.value_or(0));
  for (const Buffer& buffer : table.buffers) {
    scale.first_step = std::min(scale.first_step, buffer.lifetime.front().lower);
    scale.last_step = std::max(scale.last_step, buffer.lifetime.back().upper);
  }
  return scale;
}

// The least of 1, 2, 5, 10, 20, ... of which no more than about kTicksMax fit into `range`.
int64_t DecimalStep(int64_t range) {
  for (int64_t step = 1;; step *= 10) {
    for (const int64_t factor : {1, 2, 5})
      if (range / kTicksMax <= step * factor) return step * factor;
  }
}

void DrawGrid(const Scale& scale, Svg& svg) {
  const int64_t byte_step = ByteStep(scale.top, kTicksMax);
  const ByteUnit unit = UnitOf(byte_step);
  for (int64_t i = 0; i <= scale.top / byte_step; ++i) {
    const double y = scale.Address(i * byte_step);
    svg.Line(kLeft, y, kRight, y, kGridStyle);
    svg.Text(kLeft - 6, y + 4, fmt::format("{}", i * byte_step / unit.bytes), "end");
  }
  svg.Text(kLeft - 6, kTop - 14, fmt::format("address, {}", unit.name), "end");
  const int64_t step = DecimalStep(scale.last_step - scale.first_step);
  // The last step may be the largest number there is.
  const int64_t last = scale.last_step / step;
  for (int64_t i = CeilDivide(scale.first_step, step); i <= last; ++i) {
    const double x = scale.Time(i * step);
    svg.Line(x, kTop, x, kBottom, kGridStyle);
    svg.Text(x, kBottom + 18, fmt::format("{}", i * step), "middle");
    if (i == last) break;
  }
  svg.Text((kLeft + kRight) / 2, kBottom + 40, "time, steps", "middle");
}

std::string TipOf(const LifetimeTable& table, const Plan& plan, size_t i) {
  const Buffer& buffer = table.buffers[i];
  std::string steps;
  for (const Interval& interval : buffer.lifetime)
    steps += fmt::format(" [{}, {})", interval.lower, interval.upper);
  return fmt::format("{}: {} bytes at offset {}{}, steps{}", table.ids[i], buffer.bytes,
                     plan.offsets[i], buffer.fixed_offset ? " (fixed)" : "", steps);
}

void DrawBuffer(
    const LifetimeTable& table, const Plan& plan, size_t i, const Scale& scale, Svg& svg) {
  const Buffer& buffer = table.buffers[i];
  const std::string tip = TipOf(table, plan, i);
  const double y = scale.Address(plan.offsets[i] + buffer.bytes);
  const double height = scale.Address(plan.offsets[i]) - y;
  double last_right = 0;
  for (const Interval& interval : buffer.lifetime) {
    const double x = scale.Time(interval.lower);
    const double width = scale.Time(interval.upper) - x;
    const bool outlined = width >= kOutlined && height >= kOutlined;
    const std::string style = fmt::format("fill:{}{}", PaletteColour(static_cast<int>(i % 10)),
                                          outlined ? ";stroke:#fff;stroke-width:0.5" : "");
    const double drawn_width = std::max(width, kVisible);
    const double drawn_height = std::max(height, kVisible);
    svg.Rectangle(x, y, drawn_width, drawn_height, style, tip);
    if (buffer.fixed_offset)
      svg.Rectangle(x, y, drawn_width, drawn_height, "fill:url(#hatch)", tip);
    if (last_right > 0) svg.Line(last_right, y + height / 2, x, y + height / 2, kGapStyle);
    last_right = x + width;
    if (width > kLetterWidth * static_cast<double>(table.ids[i].size() + 1) &&
        height > kLetterHeight)
      svg.Text(x + width / 2, y + height / 2 + 4, table.ids[i], "middle");
  }
}

// The axes, then height, bound and capacity; equal ones share a label. Labels keep clear of one
// another.
void DrawLines(const Plan& plan, const PlanPicture& picture, const Scale& scale, Svg& svg) {
  struct Level {
    int64_t bytes = 0;
    std::string name;
    const char* style = "";
  };
  std::vector<Level> levels = {
      {plan.height, "height", "stroke:#333;stroke-width:1"},
      {picture.bound, "bound", "stroke:#000;stroke-width:1.5;stroke-dasharray:6 4"}};
  if (picture.capacity && *picture.capacity <= scale.top)
    levels.push_back(
        {*picture.capacity, "capacity", "stroke:#c00;stroke-width:1.5;stroke-dasharray:2 2"});
  std::stable_sort(levels.begin(), levels.end(),
                   [](const Level& a, const Level& b) { return a.bytes > b.bytes; });
  svg.Line(kLeft, kTop, kLeft, kBottom, kAxisStyle);
  svg.Line(kLeft, kBottom, kRight, kBottom, kAxisStyle);
  double label = 0;
  for (size_t i = 0; i < levels.size(); ++i) {
    const double y = scale.Address(levels[i].bytes);
    svg.Line(kLeft, y, kRight, y, levels[i].style);
    if (i + 1 < levels.size() && levels[i + 1].bytes == levels[i].bytes) {
      levels[i + 1].name = levels[i].name + " = " + levels[i + 1].name;
      continue;
    }
    label = std::max(label + 2 * kLetterHeight, y + 4);
    svg.Text(kRight + 6, label, levels[i].name);
    svg.Text(kRight + 6, label + kLetterHeight, FormatBytes(levels[i].bytes));
  }
}

}  // namespace

std::string DrawPlan(const LifetimeTable& table, const Plan& plan, const PlanPicture& picture) {
  COPPICE_CHECK(!table.buffers.empty() && plan.offsets.size() == table.buffers.size(),
                "one offset per row, and at least one row");
  const double gap_pct =
      100 * (static_cast<double>(plan.height) / static_cast<double>(picture.bound) - 1);
  const std::string title =
      fmt::format("{0}: {1}, height {2} bytes ({3}), {5:.2f} % above the bound of {4} bytes",
                  picture.name, Counted(std::ssize(table.buffers), "buffer"), plan.height,
                  FormatBytes(plan.height), picture.bound, gap_pct);
  Svg svg(kWidth, kHeight, title);
  svg.Text(kLeft, 28, title, "start", 16);
  const Scale scale = ScaleOf(table, plan, picture);
  DrawGrid(scale, svg);
  for (size_t i = 0; i < table.buffers.size(); ++i)
    DrawBuffer(table, plan, i, scale, svg);
  DrawLines(plan, picture, scale, svg);
  return svg.Finish();
}

}  // namespace coppice
