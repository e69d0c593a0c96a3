// What a running session is doing, summed up while its trace is read.
//
// Totals are those of `coppice prof summary` of as much of the trace; what is of late is counted
// from one look to the next.
//
// Units: bytes, nanoseconds, elements; seconds where named so. Threads: one at a time.

#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tools/prof/duration_histogram.h"
#include "tools/prof/pool_trace.h"
#include "tools/prof/trace_summary.h"

namespace coppice {

enum class WatchedState : uint8_t {
  kEmpty,      // The trace has not begun.
  kRunning,    //
  kSuspended,  // The session has given its memory back.
  kEnded,      // The trace has its end.
  kGone,       // It has none, and whoever wrote it is gone.
};

// "empty", "running", "suspended", "ended", "gone".
const char* NameOf(WatchedState state);

struct WatchedReason {
  Reason reason = Reason::kNone;
  int64_t calls = 0;
  int64_t lately = 0;
};

struct WatchedBucket {
  std::string name;  // Program, extents and scalars.
  int lane = 0;
  int64_t calls = 0;
  int64_t lately = 0;
  int64_t last_ns = 0;  // Its last call.
};

struct WatchedMark {
  std::string name;
  int64_t time_ns = 0;
};

struct WatchedTimes {
  int64_t count = 0;
  int64_t p50_ns = 0;
  int64_t p90_ns = 0;
  int64_t p99_ns = 0;
  int64_t most_ns = 0;
};

// One look at a session.
struct WatchedSession {
  WatchedState state = WatchedState::kEmpty;
  std::string device;
  int lanes = 0;
  int64_t budget = 0;  // 0: none.
  int64_t events = 0;
  int64_t dropped = 0;
  int64_t last_ns = 0;            // The latest time of any event.
  TraceSums sums;                 // `buckets` is left empty.
  int64_t bucket_count = 0;       //
  std::optional<double> seconds;  // Since the look before; nothing at the first.
  // Since the look before; at the first, since the session began.
  int64_t events_lately = 0;
  std::array<int64_t, kRunKindCount> paths_lately{};
  int64_t real_lately = 0;
  int64_t padded_lately = 0;
  std::vector<WatchedReason> reasons;  // The most frequent first.
  std::vector<WatchedBucket>
      buckets;                     // Of those with calls, the most of late first; then the last.
  std::vector<WatchedMark> marks;  // The last ones, the last first.
  // Of requests: to the first token, and per further one. Of calls, as far as they were timed.
  WatchedTimes first_token;
  WatchedTimes further_token;
  std::array<WatchedTimes, kRunKindCount> host{};

  // What there is, or of a session that has ended what there was before it was torn down.
  int64_t BytesOf(const BytesOverTime& bytes) const {
    return state == WatchedState::kEnded ? bytes.at_service_end : bytes.at_end;
  }
};

class WatchState {
 public:
  // `trace` defines what the event names.
  void Add(const PoolTrace& trace, const TracedEvent& event);

  // What there is by now; the next look counts from here. `seconds` since the look before.
  // Cost: O(buckets + nodes).
  WatchedSession Look(const PoolTrace& trace, std::optional<double> seconds);

 private:
  struct Counted {
    std::array<int64_t, kRunKindCount> paths{};
    int64_t events = 0;
    int64_t real = 0;
    int64_t padded = 0;
    std::map<Reason, int64_t> reasons;
  };

  // They fill in what is of late, and keep what there is for the next time.
  void CountLately(const PoolTrace& trace, WatchedSession& session);
  void ListBuckets(const PoolTrace& trace, WatchedSession& session);

  SummaryTally tally_;
  bool suspended_ = false;
  std::vector<int64_t> bucket_last_ns_;  // By place in PoolTrace::buckets.
  std::deque<WatchedMark> marks_;
  DurationHistogram first_token_;
  DurationHistogram further_token_;
  std::array<DurationHistogram, kRunKindCount> host_;
  Counted before_;
  std::vector<int64_t> bucket_calls_before_;
};

}  // namespace coppice
