// What a page of metrics says, as figures. Private to graphs/.
//
// Units: bytes, nanoseconds, elements where named so. Threads: plain values.

#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "coppice/graphs/memory_usage.h"
#include "coppice/graphs/reason.h"
#include "coppice/graphs/session_stats.h"

#include "graphs/metrics/call_failures.h"
#include "graphs/metrics/replay_series.h"
#include "graphs/metrics/time_histogram.h"

namespace coppice::internal {

using CountByReason = std::array<int64_t, kReasonCount>;

// What was recorded on a lane.
struct RecordingFigures {
  CountByReason by_reason{};
  TimeHistogram time{kRecordBounds};

  void Note(Reason reason, int64_t record_ns) {
    ++by_reason[static_cast<size_t>(reason)];
    time.Note(record_ns);
  }
  RecordingFigures& operator+=(const RecordingFigures& other) {
    for (size_t i = 0; i < by_reason.size(); ++i)
      by_reason[i] += other.by_reason[i];
    time += other.time;
    return *this;
  }
};

struct MetricsSnapshot {
  SessionStats stats;
  CountByReason eager{};  // Calls that ran without a graph at their own extents.
  RecordingFigures recordings;
  TimeHistogram replay_time{kReplayBounds};  // Of replays whose host time was taken.
  CallFailures::Counts failures{};           // By absl::StatusCode.

  struct Replays {
    const ReplaySeries::Labels* labels = nullptr;  // Never null.
    int64_t launches = 0;
  };
  std::vector<Replays> replays;

  // Graphs that calls find, and those that wait for their leases.
  int64_t graphs_recorded = 0;
  int64_t graphs_retired = 0;
  int64_t graph_nodes = 0;  // Of both.
  int64_t executables = 0;  // Of both; those of a family are one.
  // Buckets that calls find.
  int64_t buckets_recorded = 0;
  int64_t buckets_recording = 0;
  int64_t buckets_warm = 0;
  int64_t buckets_not_capturable = 0;

  MemoryUsage memory;
  int64_t lanes = 0;
  int64_t lanes_lent = 0;
  int64_t suspensions = 0;
  bool suspended = false;
  std::string sticky_error;   // CUDA's name of it; empty: none.
  int64_t trace_dropped = 0;  // Events that a trace lost.
};

}  // namespace coppice::internal
