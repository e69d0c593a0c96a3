// A session's figures as a page of text that Prometheus, and tools that read its formats, can
// scrape.
//
//   # HELP coppice_runs_total Calls, by how they ran.
//   # TYPE coppice_runs_total counter
//   coppice_runs_total{path="replay"} 5276
//
// Session::MetricsText writes the page, and the application serves it (samples/metrics_server.cc;
// samples/grafana_dashboard.json draws it). A page has only names, labels and numbers, so the
// library links no library of metrics.
//
// Counters (`_total`, and the counts of histograms) never fall while the session lives, even when
// graphs and programs are removed. The number of labels is bounded. Replays are counted per bucket,
// for the kMetricsBucketsMax buckets of each program that were recorded first, and for the
// kMetricsProgramsMax programs that were recorded first. All others are in bucket="other" and
// program="other". A program that is registered again under its name and variant continues its
// counts.
//
// Every recording is timed, but only one in 64 replays of a lane, because reading a clock takes as
// long as a tenth of a replay. The time of a replay is from the call of Session::Run until its
// graphs are launched and it is counted.
//
// A page covers one session. A process with several sessions serves a page for each, or adds a
// label.
//
// Units: bytes, seconds, elements where a name says so. Threads: plain values.

#pragma once

#include <cstdint>

namespace coppice {

// Maximum number of buckets of a program, and of programs, that have their own labels.
inline constexpr int kMetricsBucketsMax = 64;
inline constexpr int kMetricsProgramsMax = 64;

// How the page is written. The names, labels and numbers of the samples are the same.
enum class MetricsFormat : uint8_t {
  kPrometheus,   // Prometheus' text format 0.0.4.
  kOpenMetrics,  // "openmetrics" by name. OpenMetrics 1.0: with units, and a last line that shows
                 // that the page is complete.
};
inline constexpr int kMetricsFormatCount = 2;

// The Content-Type header for such a page.
const char* ContentTypeOf(MetricsFormat format);

}  // namespace coppice
