// Calls are summed into bars of equal width on the axis, so that rare sizes are seen too.

#include "tools/tune/tune_picture.h"

#include <algorithm>
#include <vector>

#include "fmt/format.h"

#include "tools/support/svg.h"
#include "tools/tune/size_axis.h"

namespace coppice {
namespace {

// Pixels.
constexpr double kWidth = 1280;
constexpr double kHeight = 760;
constexpr double kLeft = 100;
constexpr double kRight = kWidth - 40;
constexpr double kTop = 64;
constexpr double kMiddle = 520;  // The axis of sizes of the upper part.
constexpr double kLowerTop = 580;
constexpr double kBottom = kHeight - 56;
constexpr double kBarWidth = 4;

constexpr const char* kAxisStyle = "stroke:#333;stroke-width:1";
constexpr const char* kGridStyle = "stroke:#ddd;stroke-width:0.5";
constexpr const char* kBucketStyle = "stroke:#e15759;stroke-width:1";
constexpr const char* kCallsStyle = "fill:#4e79a7";
constexpr const char* kPaddingStyle = "fill:#f28e2b;stroke:#fff;stroke-width:0.5";

void DrawAxis(const SizeAxis& axis, std::string_view name, Svg& svg) {
  for (const int64_t tick : axis.Ticks()) {
    const double x = axis.At(tick);
    svg.Line(x, kTop, x, kMiddle, kGridStyle);
    svg.Line(x, kLowerTop, x, kBottom, kGridStyle);
    svg.Text(x, kBottom + 18, fmt::format("{}", tick), "middle");
  }
  svg.Text((kLeft + kRight) / 2, kBottom + 40, name, "middle");
}

void DrawCalls(const SizeHistogram& histogram, const SizeAxis& axis, int64_t limit, Svg& svg) {
  const auto bars = static_cast<size_t>((kRight - kLeft) / kBarWidth) + 1;
  std::vector<double> calls(bars);
  for (const SizeCount& each : histogram.counts()) {
    if (each.size > limit) continue;
    calls[static_cast<size_t>((axis.At(each.size) - kLeft) / kBarWidth)] += each.count;
  }
  const double most = std::max(*std::max_element(calls.begin(), calls.end()), 1e-300);
  for (size_t i = 0; i < bars; ++i) {
    if (calls[i] == 0) continue;
    const double height = std::max((kMiddle - kTop) * calls[i] / most, 0.5);
    svg.Rectangle(kLeft + kBarWidth * static_cast<double>(i), kMiddle - height, kBarWidth, height,
                  kCallsStyle, fmt::format("{:.0f} calls", calls[i]));
  }
  svg.Text(kLeft - 6, kTop + 4, fmt::format("{:.0f}", most), "end");
  svg.Text(kLeft - 6, kTop - 14, "calls", "end");
}

void DrawPadding(const PolicyScore& score, const SizeAxis& axis, Svg& svg) {
  const double padding = score.cost - score.real_cost;
  double most = 0;
  for (const BucketScore& bucket : score.per_bucket)
    most = std::max(most, bucket.cost - bucket.real_cost);
  int64_t before = 0;
  for (const BucketScore& bucket : score.per_bucket) {
    const double x = axis.At(before);
    const double right = axis.At(bucket.bucket);
    const double own = bucket.cost - bucket.real_cost;
    before = bucket.bucket;
    svg.Line(right, kTop, right, kMiddle, kBucketStyle);
    if (own <= 0) continue;
    const double height = (kBottom - kLowerTop) * own / most;
    svg.Rectangle(x, kBottom - height, right - x, height, kPaddingStyle,
                  fmt::format("bucket {}: {:.0f} calls, {:.1f} % of all padding", bucket.bucket,
                              bucket.calls, 100 * own / padding));
  }
  if (most > 0)
    svg.Text(kLeft - 6, kLowerTop + 4, fmt::format("{:.1f} %", 100 * most / padding), "end");
  svg.Text(kLeft - 6, kLowerTop - 14, "padding", "end");
}

}  // namespace

std::string DrawBuckets(const SizeHistogram& histogram,
                        const PolicyScore& score,
                        const BucketPicture& picture) {
  const std::string title =
      fmt::format("{}: {} calls, {} buckets up to {}, waste {:.2f} %", picture.name,
                  histogram.mass(), score.buckets, picture.limit, score.waste_pct);
  Svg svg(kWidth, kHeight, title);
  svg.Text(kLeft, 28, title, "start", 16);
  svg.Text(kLeft, 48,
           "Blue: calls by size. Red: buckets. Orange: each bucket's share of all padding.");
  const SizeAxis axis(picture.limit, kLeft, kRight);
  DrawAxis(axis, picture.name, svg);
  DrawCalls(histogram, axis, picture.limit, svg);
  DrawPadding(score, axis, svg);
  svg.Line(kLeft, kMiddle, kRight, kMiddle, kAxisStyle);
  svg.Line(kLeft, kBottom, kRight, kBottom, kAxisStyle);
  return svg.Finish();
}

}  // namespace coppice
