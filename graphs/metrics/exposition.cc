// Prometheus' text format and OpenMetrics.

#include "graphs/metrics/exposition.h"

#include <algorithm>
#include <iterator>

#include "fmt/compile.h"

#include "coppice/base/utf8.h"

namespace coppice {

const char* ContentTypeOf(MetricsFormat format) {
  return format == MetricsFormat::kOpenMetrics
             ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
             : "text/plain; version=0.0.4; charset=utf-8";
}

namespace internal {
namespace {

const char* NameOf(MetricType type, bool open) {
  switch (type) {
    case MetricType::kCounter:
      return "counter";
    case MetricType::kGauge:
      return "gauge";
    case MetricType::kHistogram:
      return "histogram";
    case MetricType::kInfo:
      return open ? "info" : "gauge";
  }
  return "?";
}

const char* SuffixOf(MetricType type) {
  return type == MetricType::kCounter ? "_total" : type == MetricType::kInfo ? "_info" : "";
}

}  // namespace

void Exposition::Begin(const MetricFamily& family) {
  family_ = family;
  // Prometheus' format knows samples alone, OpenMetrics families of them.
  const char* const suffix = open_ ? "" : SuffixOf(family.type);
  auto out = std::back_inserter(text_);
  fmt::format_to(out, FMT_COMPILE("# HELP {}{} {}\n# TYPE {}{} {}\n"), family.name, suffix,
                 family.help, family.name, suffix, NameOf(family.type, open_));
  if (open_ && *family.unit != '\0')
    fmt::format_to(out, FMT_COMPILE("# UNIT {} {}\n"), family.name, family.unit);
}

void Exposition::AppendEscaped(std::string_view text) {
  while (!text.empty()) {
    const size_t length = Utf8SequenceLength(text);
    const std::string_view escape = length == 0            ? "\xEF\xBF\xBD"
                                    : text.front() == '\\' ? "\\\\"
                                    : text.front() == '"'  ? "\\\""
                                    : text.front() == '\n' ? "\\n"
                                                           : text.substr(0, length);
    text_.append(escape.data(), escape.data() + escape.size());
    text.remove_prefix(std::max<size_t>(length, 1));
  }
}

void Exposition::Name(std::string_view suffix, MetricLabels labels) {
  fmt::format_to(std::back_inserter(text_), FMT_COMPILE("{}{}"), family_.name, suffix);
  char before = '{';
  for (const MetricLabel& label : labels) {
    fmt::format_to(std::back_inserter(text_), FMT_COMPILE("{}{}=\""), before, label.name);
    AppendEscaped(label.value);
    text_.push_back('"');
    before = ',';
  }
  if (labels.size() > 0) text_.push_back('}');
}

void Exposition::Sample(int64_t value, MetricLabels labels) {
  Name(SuffixOf(family_.type), labels);
  fmt::format_to(std::back_inserter(text_), FMT_COMPILE(" {}\n"), value);
}

void Exposition::Histogram(const TimeHistogram& times) {
  auto out = std::back_inserter(text_);
  int64_t count = 0;
  for (size_t i = 0; i < times.counts().size(); ++i) {
    count += times.counts()[i];
    Name("_bucket", {{"le", i < kTimeBoundCount ? times.bounds()[i].seconds : "+Inf"}});
    fmt::format_to(out, FMT_COMPILE(" {}\n"), count);
  }
  constexpr int64_t kNsPerSecond = 1'000'000'000;
  fmt::format_to(out, FMT_COMPILE("{}_sum {}.{:09}\n{}_count {}\n"), family_.name,
                 times.sum_ns() / kNsPerSecond, times.sum_ns() % kNsPerSecond, family_.name, count);
}

std::string Exposition::Finish() {
  if (open_) text_.append(std::string_view("# EOF\n"));
  return fmt::to_string(text_);
}

}  // namespace internal
}  // namespace coppice
