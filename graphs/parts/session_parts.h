// What a session consists of, and what the stages of a call share. Private to graphs/.
//
// Each part keeps its own rules; this only says in which order they come and go.
//
// Threads: parts say so themselves; what is const does not change.

#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "absl/status/statusor.h"

#include "coppice/allocator/budget.h"
#include "coppice/allocator/pool.h"
#include "coppice/allocator/window_heap.h"
#include "coppice/graphs/session_options.h"
#include "coppice/graphs/staging.h"
#include "coppice/runtime/stream.h"

#include "graphs/lane/lane.h"
#include "graphs/lane/lane_mutex.h"
#include "graphs/lane/window_map.h"
#include "graphs/metrics/call_failures.h"
#include "graphs/metrics/replay_series.h"
#include "graphs/metrics/tick_rate.h"
#include "graphs/package/package_constants.h"
#include "graphs/package/step_kernels.h"
#include "graphs/parts/carried_buckets.h"
#include "graphs/parts/catalogue.h"
#include "graphs/parts/sticky_error.h"
#include "graphs/record/background_recorder.h"
#include "graphs/trace/trace_clock.h"
#include "graphs/trace/tracer.h"

namespace coppice::internal {

// What a call that finds its node present does without a further look.
enum class AtOnce : uint8_t {
  kNothing,  // Under Stance::kEager.
  kReplay,
  kReplayRecorded,  // Lanes have flight recorders, which copy what is staged ...
  kReplayCopied,    // ... and static inputs or outputs.
};

struct SessionParts {
  // Makes what can fail. Errors: as Session::Create.
  static absl::StatusOr<std::unique_ptr<SessionParts>> Create(const Context& context,
                                                              const SessionOptions& options);

  SessionParts(const Context& session_context, const SessionOptions& session_options)
      : context(session_context),
        driver(session_context.driver()),
        options(session_options),
        stance(options.stance) {}
  SessionParts(const SessionParts&) = delete;
  SessionParts& operator=(const SessionParts&) = delete;

  // Errors: kInvalidArgument  there is no such lane; `where` begins the message.
  absl::Status CheckLane(const char* where, int index) const;
  Lane& lane(int index) const { return *lanes[static_cast<size_t>(index)]; }
  // The ticks at which a call of that lane begins, if it is one of those whose host time is taken;
  // else 0. Any index: nothing was checked yet.
  uint64_t BeginTimed(int index) const {
    const bool exists = static_cast<unsigned>(index) < static_cast<unsigned>(options.lanes);
    if (!exists || !lanes[static_cast<size_t>(index)]->times_next()) [[likely]]
      return 0;
    lanes[static_cast<size_t>(index)]->StopTiming();
    return clock.Now();
  }

  // Sets at_once. Under the lock of every lane, unless only the stance has changed.
  void FindAtOnce();

  // Gives every lane a flight recorder, or takes them away. Errors: as SessionRecorder::Start.
  absl::Status StartRecorders(const RecorderOptions& recorder_options);
  void StopRecorders();
  void SetRecorders(std::vector<std::unique_ptr<LaneRecorder>> recorders);  // One per lane.

  // Locks all lanes when no recording is under way in the background.
  std::vector<std::unique_lock<LaneMutex>> LockIdleLanes() const;

  const Context& context;
  const Driver& driver;
  const SessionOptions options;
  std::atomic<Stance> stance;
  std::atomic<AtOnce> at_once{AtOnce::kReplay};
  const TraceClock clock;
  const TickRate tick_rate{clock};
  std::mutex at_once_mutex;               // Whoever changes what at_once follows from.
  AtOnce unless_eager = AtOnce::kReplay;  // at_once in all stances but Stance::kEager.
  StickyError sticky;
  std::unique_ptr<Tracer> tracer;  // Null without a trace; outlives who tells it.
  std::unique_ptr<Budget> budget;
  std::unique_ptr<Pool> pool;
  std::unique_ptr<const WindowMap> windows;
  ReplaySeries series;  // Outlives the lanes.
  std::atomic<int64_t> suspensions = 0;
  CallFailures failures;
  std::unique_ptr<WindowHeap> constants;
  std::unique_ptr<const StagingKernels> staging;
  SharedStepKernels step_kernels;
  std::unique_ptr<Catalogue> catalogue;
  PackageConstants package_constants;
  CarriedBuckets carried;
  std::mutex ladders;  // Of programs: held by whoever learns or replaces one, before lanes' locks.
  std::vector<std::unique_ptr<Lane>> lanes;
  std::unique_ptr<BackgroundRecorder> background;  // If the options ask for one.
};

}  // namespace coppice::internal
