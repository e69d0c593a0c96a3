// A lane: one call after another, and everything that must not overlap. Private to graphs/.
//
// It joins its parts, each of which keeps its own rules: the order of streams, memory, the slots of
// outputs, nodes, chains, and what was counted. Whatever concerns two of them is here.
//
// Threads: everything under `mutex`, but for what its part says otherwise.

#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "coppice/allocator/pool.h"
#include "coppice/graphs/generator.h"
#include "coppice/graphs/session_stats.h"
#include "coppice/graphs/staging.h"

#include "graphs/flight/lane_recorder.h"
#include "graphs/lane/chain_planner.h"
#include "graphs/lane/lane_memory.h"
#include "graphs/lane/lane_mutex.h"
#include "graphs/lane/node_tables.h"
#include "graphs/lane/slot_table.h"
#include "graphs/lane/stream_order.h"
#include "graphs/metrics/metrics_snapshot.h"
#include "graphs/node/surroundings.h"
#include "graphs/trace/tracer.h"

namespace coppice::internal {

// What the calls of a lane did.
class LaneBooks {
 public:
  // One call ran; every call is counted once, as what it was in the end.
  void CountRun(RunKind kind, Reason reason) {
    ++stats_.calls;
    ++stats_.runs[static_cast<size_t>(kind)];
    if (reason != Reason::kNone) [[unlikely]]
      ++stats_.reasons[static_cast<size_t>(reason)];
  }
  // The same call once more, if it ran without a graph at its own extents.
  void CountEager(Reason reason) { ++eager_[static_cast<size_t>(reason)]; }
  // What a run at its bucket staged, and read in place.
  void CountStaged(const InputLayout& layout) {
    stats_.real_elements += layout.real_elements;
    stats_.padded_elements += layout.padded_elements;
  }
  void CountRecording(bool empty) {
    ++stats_.recordings;
    stats_.recordings_empty += empty ? 1 : 0;
  }
  // Any other figure.
  void Count(int64_t SessionStats::*figure, int64_t more = 1) { stats_.*figure += more; }

  // Of a replay whose host time was taken.
  void CountReplayTime(int64_t ns) { replay_time_.Note(ns); }

  const SessionStats& stats() const { return stats_; }
  const TimeHistogram& replay_time() const { return replay_time_; }
  const CountByReason& eager() const { return eager_; }  // Of stats().reasons, eager runs.

 private:
  SessionStats stats_;
  CountByReason eager_{};
  TimeHistogram replay_time_{kReplayBounds};
};

// Random numbers that a call took.
struct TakenNumbers {
  Generator* generator = nullptr;
  Generator::State state;  // Before it.
  int64_t numbers = 0;
  uint64_t call = 0;  // The lane's last when it took them.
};

// Room that each call of a lane writes anew; here, so that its capacity lasts.
struct CallRoom {
  Surroundings around;      // Request::around.
  StagingArguments copies;  // Behind the graph.
};

// Of the calls of a lane.
inline constexpr uint64_t kTimedEvery = 64;

class Lane {
 public:
  // `driver_of_lane`, `pool`, `windows`, `series` and `tracer`, null without a trace, outlive it.
  Lane(const Driver& driver_of_lane,
       Pool& pool,
       const WindowMap& windows,
       ReplaySeries& series,
       StreamOrder order,
       int64_t copy_out_bytes,
       int lane_index,
       Tracer* lane_tracer)
      : driver(driver_of_lane),
        index(lane_index),
        tracer(lane_tracer),
        order_(std::move(order)),
        memory_(driver_of_lane, pool, windows, index),
        slots_(*this, index, memory_, tracer, copy_out_bytes),
        nodes_(index, series, tracer),
        chain_(slots_, nodes_) {}
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  const Driver& driver;
  const int index;
  Tracer* const tracer;
  mutable LaneMutex mutex;

  StreamOrder& order() { return order_; }
  LaneMemory& memory() { return memory_; }
  SlotTable& slots() { return slots_; }
  NodeTables& nodes() { return nodes_; }
  ChainPlanner& chain() { return chain_; }
  const SurroundingsTable& surroundings() const { return surroundings_; }
  // Null: nothing is recorded.
  LaneRecorder* recorder() { return recorder_.get(); }
  void SetRecorder(std::unique_ptr<LaneRecorder> recorder) { recorder_ = std::move(recorder); }
  LaneBooks& books() { return books_; }
  CallRoom& room() { return room_; }
  TakenNumbers& taken_numbers() { return taken_numbers_; }  // By the call under way.

  // Whether the next call is one of those whose host time is taken: reading a clock takes as long
  // as a tenth of a replay, so that one in kTimedEvery is. Threads: any; a call that ran says how
  // many there were.
  bool times_next() const { return times_next_.load(std::memory_order_relaxed); }
  void StopTiming() { times_next_.store(false, std::memory_order_relaxed); }
  void ChooseTimed(uint64_t calls) {
    if (calls % kTimedEvery == 0) [[unlikely]]
      times_next_.store(true, std::memory_order_relaxed);
  }

  // Everything that was counted.
  SessionStats stats() const;

  // A recording in the background waits or is under way; is over, whatever came of it.
  void BeginRecording() { ++recordings_; }
  void EndRecording() { --recordings_; }
  bool recording() const { return recordings_ > 0; }

  // Retirements of static versions that the lane has dropped the graphs of.
  int64_t retirements_seen() const { return retirements_seen_; }
  void SeeRetirements(int64_t count) { retirements_seen_ = count; }

  // NodeTables::EvictOne, having found out what has run. Errors: the driver's.
  absl::StatusOr<bool> EvictOne(const Program* program);

  // The interned equal of `surroundings`. Those that no node has go, if there are many; none that a
  // caller has found before is to be used afterwards.
  const Surroundings* InternSurroundings(const Surroundings& surroundings);

  // Unmaps the plan window above `top` and above what slots show. Waits for the lane's work. Does
  // nothing while the window is lent, suspended or recorded into.
  absl::Status UnmapAbove(int64_t top);
  // Physical bytes of the eager window that nobody holds and, with `plans`, of the plan window that
  // UnmapAbove(0) would take; none while the lane's memory is lent or suspended.
  int64_t IdleBytes(bool plans) const;

 private:
  // The end of what slots show of the plan window.
  int64_t ShownTop() const;

  StreamOrder order_;
  LaneMemory memory_;
  SlotTable slots_;
  NodeTables nodes_;
  ChainPlanner chain_;
  SurroundingsTable surroundings_;
  LaneBooks books_;
  CallRoom room_;
  TakenNumbers taken_numbers_;
  std::unique_ptr<LaneRecorder> recorder_;
  int64_t retirements_seen_ = 0;
  int recordings_ = 0;  // In the background, under way or waiting.
  std::atomic<bool> times_next_ = true;
};

}  // namespace coppice::internal
