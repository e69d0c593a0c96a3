// Two grids of sizes: calls are counted in cells of a few pixels, and what has which bucket is told
// for cells that also end wherever a bucket does.

#include "tools/tune/joint_picture.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "fmt/format.h"

#include "tools/support/svg.h"
#include "tools/tune/size_axis.h"

namespace coppice {
namespace {

// Pixels.
constexpr double kWidth = 1280;
constexpr double kHeight = 800;
constexpr double kLeft = 100;
constexpr double kRight = 1100;
constexpr double kTop = 90;
constexpr double kBottom = kHeight - 64;
constexpr double kCell = 6;
constexpr double kMark = 7;
constexpr double kTickGap = 16;  // Numbers of an axis that are nearer are left out.
constexpr double kLegend = kRight + 36;
constexpr double kLegendWidth = 22;
constexpr double kLegendHeight = 300;

constexpr const char* kAxisStyle = "stroke:#333;stroke-width:1";
constexpr const char* kTickStyle = "stroke:#333;stroke-width:1";
constexpr const char* kBucketStyle = "stroke:#e15759;stroke-width:1";
constexpr const char* kMarkStyle = "fill:#e15759;stroke:#fff;stroke-width:1";
constexpr const char* kNoneStyle = "fill:#e4e4e4";

// Between pale and dark blue; `share` in [0, 1].
std::string ShadeOf(double share) {
  struct Colour {
    double red;
    double green;
    double blue;
  };
  constexpr std::array<Colour, 4> kRamp = {
      {{222, 235, 247}, {158, 202, 225}, {66, 133, 190}, {8, 48, 107}}};
  const double place = share * (kRamp.size() - 1);
  const size_t low = std::min(static_cast<size_t>(place), kRamp.size() - 2);
  const double part = place - static_cast<double>(low);
  const auto mixed = [&](double Colour::*channel) {
    return static_cast<int>(
        std::lround(std::lerp(kRamp[low].*channel, kRamp[low + 1].*channel, part)));
  };
  return fmt::format("#{:02x}{:02x}{:02x}", mixed(&Colour::red), mixed(&Colour::green),
                     mixed(&Colour::blue));
}

// Of calls, which may be weights.
std::string NumberOf(double calls) {
  if (calls > 0 && calls < 10) return fmt::format("{:.1f}", calls);
  return calls < 1e7 ? fmt::format("{:.0f}", calls) : fmt::format("{:.2g}", calls);
}

struct Mark {
  JointSize bucket;
  double calls = 0;
  double padding = 0;
};

class JointDrawing {
 public:
  JointDrawing(const JointHistogram& histogram,
               const JointPolicy& policy,
               const JointPicture& picture,
               Svg& svg)
      : histogram_(histogram),
        policy_(policy),
        picture_(picture),
        svg_(svg),
        a_(policy.limit().a, kLeft, kRight),
        b_(policy.limit().b, kBottom, kTop) {
    std::vector<int64_t> ends_a;
    std::vector<int64_t> ends_b;
    for (const JointSize& bucket : policy.buckets()) {
      marks_.push_back({.bucket = bucket});
      ends_a.push_back(bucket.a);
      ends_b.push_back(bucket.b);
    }
    cells_a_ = a_.Edges(kCell, {});
    cells_b_ = b_.Edges(kCell, {});
    edges_a_ = a_.Edges(kCell, ends_a);
    edges_b_ = b_.Edges(kCell, ends_b);
    columns_ = edges_a_.size() - 1;
    rows_ = edges_b_.size() - 1;
    std::sort(marks_.begin(), marks_.end(),
              [](const Mark& x, const Mark& y) { return x.bucket < y.bucket; });
    CountCalls();
    for (size_t row = 0; row < rows_; ++row)
      for (size_t column = 0; column < columns_; ++column)
        buckets_.push_back(policy.FindUnguarded(edges_a_[column + 1], edges_b_[row + 1]));
  }

  void DrawCells() {
    for (size_t row = 0; row < rows_; ++row) {
      Runs(
          columns_, [&](size_t column) { return !BucketAt(row, column); },
          [&](size_t first, size_t last) {
            Cell({.a = edges_a_[first], .b = edges_b_[row]},
                 {.a = edges_a_[last], .b = edges_b_[row + 1]}, kNoneStyle, "no bucket");
          });
    }
    const size_t columns = cells_a_.size() - 1;
    for (size_t i = 0; i < calls_.size(); ++i) {
      if (calls_[i] == 0) continue;
      const JointSize from = {.a = cells_a_[i % columns], .b = cells_b_[i / columns]};
      const JointSize to = {.a = cells_a_[i % columns + 1], .b = cells_b_[i / columns + 1]};
      Cell(from, to, "fill:" + ShadeOf(ShareOf(calls_[i])),
           fmt::format("{} {}, {} {}: {:.0f} calls", picture_.name_a, RangeOf(from.a, to.a),
                       picture_.name_b, RangeOf(from.b, to.b), calls_[i]));
    }
  }

  // Where neighbours have different buckets.
  void DrawBorders() {
    for (size_t column = 1; column < columns_; ++column) {
      Runs(
          rows_, [&](size_t row) { return BucketAt(row, column - 1) != BucketAt(row, column); },
          [&](size_t first, size_t last) {
            const double x = a_.At(edges_a_[column]);
            svg_.Line(x, b_.At(edges_b_[first]), x, b_.At(edges_b_[last]), kBucketStyle);
          });
    }
    for (size_t row = 1; row < rows_; ++row) {
      Runs(
          columns_,
          [&](size_t column) { return BucketAt(row - 1, column) != BucketAt(row, column); },
          [&](size_t first, size_t last) {
            const double y = b_.At(edges_b_[row]);
            svg_.Line(a_.At(edges_a_[first]), y, a_.At(edges_a_[last]), y, kBucketStyle);
          });
    }
  }

  // Those that pad the most first, each where its text covers no other.
  void DrawMarks() {
    double padding = 0;
    for (const Mark& mark : marks_)
      padding += mark.padding;
    std::vector<Mark> marks = marks_;
    std::stable_sort(marks.begin(), marks.end(),
                     [](const Mark& x, const Mark& y) { return x.padding > y.padding; });
    std::vector<Box> taken;
    for (const Mark& mark : marks) {
      const double x = a_.At(mark.bucket.a);
      const double y = b_.At(mark.bucket.b);
      const std::string name = fmt::format("{}x{}", mark.bucket.a, mark.bucket.b);
      svg_.Rectangle(x - kMark / 2, y - kMark / 2, kMark, kMark, kMarkStyle,
                     fmt::format("bucket {}: {:.0f} calls, {:.1f} % of all padding", name,
                                 mark.calls, padding > 0 ? 100 * mark.padding / padding : 0));
      const double width = 6.2 * static_cast<double>(name.size()) + 6;
      const Box box = {.left = x - 5 - width, .right = x - 5, .top = y + 3, .bottom = y + 17};
      const bool covers = box.left < kLeft || box.bottom > kBottom ||
                          std::any_of(taken.begin(), taken.end(), [&box](const Box& other) {
                            return box.left < other.right && other.left < box.right &&
                                   box.top < other.bottom && other.top < box.bottom;
                          });
      if (covers) continue;
      taken.push_back(box);
      // On a ground of its own, as cells may be dark.
      svg_.Rectangle(box.left, box.top, width, box.bottom - box.top, "fill:#fff;fill-opacity:0.75");
      svg_.Text(box.right - 3, box.bottom - 3, name, "end", 11);
    }
  }

  void DrawAxes() {
    double last = -kTickGap;
    for (const int64_t tick : a_.Ticks()) {
      const double x = a_.At(tick);
      if (x - last < kTickGap) continue;
      last = x;
      svg_.Line(x, kBottom, x, kBottom + 4, kTickStyle);
      svg_.Text(x, kBottom + 19, fmt::format("{}", tick), "middle");
    }
    last = 2 * kBottom;
    for (const int64_t tick : b_.Ticks()) {
      const double y = b_.At(tick);
      if (last - y < kTickGap) continue;
      last = y;
      svg_.Line(kLeft - 4, y, kLeft, y, kTickStyle);
      svg_.Text(kLeft - 8, y + 4, fmt::format("{}", tick), "end");
    }
    svg_.Line(kLeft, kBottom, kRight, kBottom, kAxisStyle);
    svg_.Line(kLeft, kTop, kLeft, kBottom, kAxisStyle);
    svg_.Text((kLeft + kRight) / 2, kBottom + 44, picture_.name_a, "middle", 14);
    svg_.Text(kLeft, kTop - 12, picture_.name_b, "middle", 14);
  }

  void DrawLegend() {
    svg_.Text(kLegend, kTop - 12, "calls", "start", 14);
    constexpr int kSteps = 60;
    constexpr double kStep = kLegendHeight / kSteps;
    for (int i = 0; i < kSteps; ++i) {
      const double share = (i + 0.5) / kSteps;
      svg_.Rectangle(kLegend, kTop + kLegendHeight - (i + 1) * kStep, kLegendWidth, kStep + 0.5,
                     "fill:" + ShadeOf(share));
    }
    constexpr int kNumbers = 5;
    for (int i = 0; i < kNumbers; ++i) {
      const double share = static_cast<double>(i) / (kNumbers - 1);
      const double y = kTop + kLegendHeight * (1 - share);
      // Below one call there is white.
      const double calls = std::expm1(share * std::log1p(most_));
      svg_.Line(kLegend + kLegendWidth, y, kLegend + kLegendWidth + 4, y, kTickStyle);
      svg_.Text(kLegend + kLegendWidth + 8, y + 4, NumberOf(calls));
    }
    double y = kTop + kLegendHeight + 34;
    svg_.Rectangle(kLegend + 8, y - 8, kMark, kMark, kMarkStyle);
    svg_.Text(kLegend + 30, y, "a bucket");
    y += 24;
    svg_.Line(kLegend, y - 4, kLegend + 22, y - 4, kBucketStyle);
    svg_.Text(kLegend + 30, y, "its sizes end");
    y += 24;
    svg_.Rectangle(kLegend, y - 11, 22, 14, kNoneStyle);
    svg_.Text(kLegend + 30, y, "no bucket");
  }

 private:
  struct Box {
    double left = 0;
    double right = 0;
    double top = 0;
    double bottom = 0;
  };

  std::optional<JointSize> BucketAt(size_t row, size_t column) const {
    return buckets_[row * columns_ + column];
  }

  // Of an axis: the cell that holds `size`.
  static size_t CellOf(const std::vector<int64_t>& edges, int64_t size) {
    const auto above = std::lower_bound(edges.begin() + 1, edges.end(), size);
    return static_cast<size_t>(above - edges.begin()) - 1;
  }

  void CountCalls() {
    const size_t columns = cells_a_.size() - 1;
    calls_.assign(columns * (cells_b_.size() - 1), 0);
    const auto cost_of = [this](JointSize size) {
      return picture_.cost ? picture_.cost(size) : static_cast<double>(size.elements());
    };
    for (const JointCount& each : histogram_.counts()) {
      if (!policy_.limit().Holds(each.size)) continue;
      calls_[CellOf(cells_b_, each.size.b) * columns + CellOf(cells_a_, each.size.a)] += each.count;
      const std::optional<JointSize> bucket = policy_.Find(each.size.a, each.size.b);
      if (!bucket) continue;
      const auto mark = std::lower_bound(
          marks_.begin(), marks_.end(), *bucket,
          [](const Mark& left, const JointSize& right) { return left.bucket < right; });
      mark->calls += each.count;
      mark->padding += each.count * (cost_of(*bucket) - cost_of(each.size));
    }
    most_ = std::max(*std::max_element(calls_.begin(), calls_.end()), 1e-300);
  }

  double ShareOf(double calls) const { return std::log1p(calls) / std::log1p(most_); }

  static std::string RangeOf(int64_t below, int64_t last) {
    const int64_t first = below == 0 ? 0 : below + 1;
    return below + 1 == last ? fmt::format("{}", last) : fmt::format("{} to {}", first, last);
  }

  // The sizes above `from` up to `to`.
  void Cell(JointSize from, JointSize to, const std::string& style, const std::string& tip) {
    const double left = a_.At(from.a);
    const double top = b_.At(to.b);
    svg_.Rectangle(left, top, a_.At(to.a) - left, b_.At(from.b) - top, style, tip);
  }

  // Calls `draw` with every [first, last) of which all are `in`, as long as can be.
  static void Runs(size_t count,
                   const std::function<bool(size_t)>& in,
                   const std::function<void(size_t, size_t)>& draw) {
    for (size_t i = 0; i < count; ++i) {
      const size_t first = i;
      while (i < count && in(i))
        ++i;
      if (i > first) draw(first, i);
    }
  }

  const JointHistogram& histogram_;
  const JointPolicy& policy_;
  const JointPicture& picture_;
  Svg& svg_;
  const SizeAxis a_;
  const SizeAxis b_;
  std::vector<Mark> marks_;  // By bucket.
  std::vector<int64_t> cells_a_;
  std::vector<int64_t> cells_b_;
  std::vector<double> calls_;  // Of each of their cells, by b, then a.
  std::vector<int64_t> edges_a_;
  std::vector<int64_t> edges_b_;
  size_t columns_ = 0;
  size_t rows_ = 0;
  std::vector<std::optional<JointSize>> buckets_;  // Of each of their cells, by row, then column.
  double most_ = 0;
};

}  // namespace

std::string DrawJoint(const JointHistogram& histogram,
                      const JointPolicy& policy,
                      const JointPicture& picture) {
  const JointScore score = ScoreJoint(histogram, policy, picture.cost);
  const std::string title = fmt::format(
      "{} x {}: {} calls, {} buckets up to {}x{}, waste {:.2f} %", picture.name_a, picture.name_b,
      histogram.mass(), policy.count(), policy.limit().a, policy.limit().b, score.waste_pct);
  Svg svg(kWidth, kHeight, title);
  svg.Text(kLeft, 28, title, "start", 16);
  if (score.beyond > 0)
    svg.Text(
        kLeft, 50,
        fmt::format("{} calls have no bucket; those above the limit are not drawn.", score.beyond));
  JointDrawing drawing(histogram, policy, picture, svg);
  drawing.DrawCells();
  drawing.DrawBorders();
  drawing.DrawMarks();
  drawing.DrawAxes();
  drawing.DrawLegend();
  return svg.Finish();
}

}  // namespace coppice
