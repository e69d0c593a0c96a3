// A session's figures as a page of text, as Prometheus and what reads its formats scrape it.
//
//   # HELP coppice_runs_total Calls, by how they ran.
//   # TYPE coppice_runs_total counter
//   coppice_runs_total{path="replay"} 5276
//
// Session::MetricsText writes the page; whoever serves it is the application
// (samples/metrics_server.cc; samples/grafana_dashboard.json draws it). The session has the figures
// and a page has no more in it than names, labels and numbers, so that no library of metrics is
// linked.
//
// Counters (`_total`, and the counts of histograms) never fall while the session lives, whatever
// becomes of its graphs and programs. Labels are bounded: replays are told by bucket, of each
// program for the kMetricsBucketsMax buckets that were recorded first, and for the
// kMetricsProgramsMax programs that were; all others are in bucket="other" and program="other". A
// program that is registered again under its name and variant goes on where it was.
//
// The time of a recording is every recording's. That of a replay is one in 64's of a lane, from the
// call of Session::Run until its graphs are launched and it is counted, because reading a clock
// takes as long as a tenth of a replay.
//
// The page is of one session; a process with several serves a page of each, or adds a label.
//
// Units: bytes, seconds, elements where named so. Threads: plain values.

#pragma once

#include <cstdint>

namespace coppice {

// Buckets of a program, and programs, that have labels of their own.
inline constexpr int kMetricsBucketsMax = 64;
inline constexpr int kMetricsProgramsMax = 64;

// How the page is written. The names, labels and numbers of the samples are the same.
enum class MetricsFormat : uint8_t {
  kPrometheus,   // Prometheus' text format 0.0.4.
  kOpenMetrics,  // "openmetrics" by name. OpenMetrics 1.0: with units, and an end that a page cut
                 // short has not.
};
inline constexpr int kMetricsFormatCount = 2;

// What a server's Content-Type says of such a page.
const char* ContentTypeOf(MetricsFormat format);

}  // namespace coppice
