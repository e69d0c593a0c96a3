// The names, and which figure has which.

#include "graphs/metrics/metrics_text.h"

#include <algorithm>
#include <iterator>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"

#include "graphs/described/session_fields.h"
#include "graphs/metrics/exposition.h"

namespace coppice::internal {
namespace {

using enum MetricType;

constexpr const char* kBytes = "bytes";
constexpr const char* kSeconds = "seconds";

// A family of one sample.
void Write(Exposition& page, const MetricFamily& family, int64_t value) {
  page.Begin(family);
  page.Sample(value);
}

// A sample per element of an enum, from `first` on.
template <typename Enum>
void WriteEach(Exposition& page,
               const MetricFamily& family,
               const char* label,
               std::span<const int64_t> values,
               size_t first = 0) {
  page.Begin(family);
  for (size_t i = first; i < values.size(); ++i)
    page.Sample(values[i], {{label, coppice::NameOf(static_cast<Enum>(i))}});
}

void WriteSession(Exposition& page, const MetricsSnapshot& snapshot) {
  page.Begin({"coppice_session", kInfo, "", "The library."});
  page.Sample(1, {{"version", COPPICE_VERSION}});
  page.Begin(
      {"coppice_lanes", kGauge, "", "Number of lanes, split by whether their memory is lent."});
  page.Sample(snapshot.lanes - snapshot.lanes_lent, {{"state", "free"}});
  page.Sample(snapshot.lanes_lent, {{"state", "lent"}});
  Write(page, {"coppice_suspended", kGauge, "", "1 while the session has given its memory back."},
        snapshot.suspended ? 1 : 0);
  Write(page, {"coppice_suspensions", kCounter, "", "Times that the session gave its memory back."},
        snapshot.suspensions);
  Write(page,
        {"coppice_poisoned", kGauge, "", "1 after an error that the device cannot recover from."},
        snapshot.sticky_error.empty() ? 0 : 1);
  Write(page, {"coppice_trace_dropped_events", kCounter, "", "Events that the trace's rings lost."},
        snapshot.trace_dropped);
  if (snapshot.sticky_error.empty()) return;
  page.Begin({"coppice_sticky_error", kInfo, "", "The error that every call returns."});
  page.Sample(1, {{"code", snapshot.sticky_error}});
}

void WriteCalls(Exposition& page, const MetricsSnapshot& snapshot) {
  const SessionStats& stats = snapshot.stats;
  WriteEach<RunKind>(page, {"coppice_runs", kCounter, "", "Calls, by how they ran."}, "path",
                     stats.runs);
  WriteEach<Reason>(page,
                    {"coppice_eager_calls", kCounter, "", "Calls that ran eagerly, by reason."},
                    "reason", snapshot.eager, 1);
  page.Begin({"coppice_replays", kCounter, "",
              "Launches of a bucket's graphs, including those right after a recording."});
  for (const MetricsSnapshot::Replays& of : snapshot.replays) {
    page.Sample(of.launches, {{"program", of.labels->program},
                              {"variant", of.labels->variant},
                              {"bucket", of.labels->bucket}});
  }
  page.Begin(
      {"coppice_replay_host_seconds", kHistogram, kSeconds,
       "Host time of a replay until its graph is launched; only a sample of replays is timed."});
  page.Histogram(snapshot.replay_time);
  page.Begin({"coppice_failed_calls", kCounter, "", "Calls that returned an error, by its code."});
  for (size_t i = 1; i < snapshot.failures.size(); ++i)
    page.Sample(snapshot.failures[i],
                {{"code", absl::StatusCodeToString(static_cast<absl::StatusCode>(i))}});
  page.Begin({"coppice_staged_elements", kCounter, "",
              "Elements of staged inputs, real ones and padding."});
  page.Sample(stats.real_elements, {{"kind", "real"}});
  page.Sample(stats.padded_elements - stats.real_elements, {{"kind", "padding"}});
}

// Figures that the page has in another form.
constexpr std::string_view kShown[] = {"calls", "recordings", "real_elements", "padded_elements"};

void WriteFigures(Exposition& page, const SessionStats& stats) {
  VisitFigures(stats, [&](const char* name, const char* what, int64_t value) {
    if (std::ranges::find(kShown, name) != std::end(kShown)) return;
    Write(page, {("coppice_" + std::string(name)).c_str(), kCounter, "", what}, value);
  });
}

void WriteGraphs(Exposition& page, const MetricsSnapshot& snapshot) {
  page.Begin(
      {"coppice_graphs", kGauge, "", "Number of graphs, split by whether calls can find them."});
  page.Sample(snapshot.graphs_recorded, {{"state", "recorded"}});
  page.Sample(snapshot.graphs_retired, {{"state", "retired"}});
  page.Begin({"coppice_buckets", kGauge, "", "Buckets, by state of recording."});
  page.Sample(snapshot.buckets_recorded, {{"state", "recorded"}});
  page.Sample(snapshot.buckets_recording, {{"state", "recording"}});
  page.Sample(snapshot.buckets_warm, {{"state", "warm"}});
  page.Sample(snapshot.buckets_not_capturable, {{"state", "not_capturable"}});
  Write(page, {"coppice_graph_nodes", kGauge, "", "Nodes of all CUDA graphs."},
        snapshot.graph_nodes);
  Write(page,
        {"coppice_executables", kGauge, "",
         "Executables; one may serve many graphs by exact replay."},
        snapshot.executables);
  WriteEach<Reason>(page, {"coppice_recordings", kCounter, "", "Graphs recorded, by reason."},
                    "reason", snapshot.recordings.by_reason, 1);
  page.Begin({"coppice_record_seconds", kHistogram, kSeconds,
              "Host time of recordings, including the driver."});
  page.Histogram(snapshot.recordings.time);
}

void WriteMemory(Exposition& page, const MemoryUsage& memory) {
  WriteEach<MemoryKind>(page, {"coppice_memory_bytes", kGauge, kBytes, "Device memory, by kind."},
                        "kind", memory.bytes);
  WriteEach<MemoryKind>(
      page, {"coppice_memory_peak_bytes", kGauge, kBytes, "Peak device memory, by kind."}, "kind",
      memory.peak);
  Write(page, {"coppice_memory_used_bytes", kGauge, kBytes, "Device memory, all kinds together."},
        memory.total);
  Write(
      page,
      {"coppice_memory_used_peak_bytes", kGauge, kBytes, "Peak device memory, all kinds together."},
      memory.total_peak);
  Write(page, {"coppice_budget_bytes", kGauge, kBytes, "Limit on device memory; 0 means no limit."},
        memory.budget);
  Write(page,
        {"coppice_plan_height_bytes", kGauge, kBytes,
         "Size of the largest memory plan of any graph."},
        memory.height);
  Write(page, {"coppice_eager_live_bytes", kGauge, kBytes, "Bytes in use in the eager windows."},
        memory.eager_live);
  Write(page, {"coppice_eager_peak_bytes", kGauge, kBytes, "Highest peak of any eager window."},
        memory.eager_peak);
}

}  // namespace

std::string TextOf(const MetricsSnapshot& snapshot, MetricsFormat format) {
  Exposition page(format);
  WriteSession(page, snapshot);
  WriteCalls(page, snapshot);
  WriteFigures(page, snapshot.stats);
  WriteGraphs(page, snapshot);
  WriteMemory(page, snapshot.memory);
  return page.Finish();
}

}  // namespace coppice::internal
