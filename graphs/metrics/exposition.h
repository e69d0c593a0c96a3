// The two formats of a page of metrics, without what is in it. Private to graphs/.
//
// Threads: a value.

#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

#include "fmt/format.h"

#include "coppice/graphs/metrics.h"

#include "graphs/metrics/time_histogram.h"

namespace coppice::internal {

enum class MetricType : uint8_t { kCounter, kGauge, kHistogram, kInfo };

// Samples of one name.
struct MetricFamily {
  const char* name = "";  // Without _total or _info; ends in `unit`, if there is one.
  MetricType type = MetricType::kGauge;
  const char* unit = "";
  const char* help = "";
};

struct MetricLabel {
  const char* name = "";
  std::string_view value;  // Any bytes: escaped, and U+FFFD for what is not UTF-8.
};
using MetricLabels = std::initializer_list<MetricLabel>;

class Exposition {
 public:
  explicit Exposition(MetricsFormat format) : open_(format == MetricsFormat::kOpenMetrics) {}

  // Begins a family. Its samples follow; no other has its name.
  void Begin(const MetricFamily& family);
  void Sample(int64_t value, MetricLabels labels = {});
  // Of a family that is a histogram.
  void Histogram(const TimeHistogram& times);

  // The whole page.
  std::string Finish();

 private:
  void Name(std::string_view suffix, MetricLabels labels);
  void AppendEscaped(std::string_view text);

  const bool open_;  // OpenMetrics.
  MetricFamily family_;
  fmt::memory_buffer text_;
};

}  // namespace coppice::internal
