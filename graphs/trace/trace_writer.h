// The file of a trace, and the thread that writes it. Private to graphs/.
//
// Definitions are lines of text in a queue, events wait in one ring per lane; the thread takes both
// a few times a second, or when a ring is half full. An event is put in behind the definitions that
// it names, and the thread looks at the rings before it takes the queue: so the file has every
// definition before its first use. Events of a ring stay in their order; rings follow each other in
// whatever order they are taken.
//
// A file that takes no more ends the trace, never the session: what follows is thrown away.
//
// Units: nanoseconds. Threads: Put by one thread at a time per ring; Define and Flush any.

#pragma once

#include <atomic>
#include <concepts>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "fmt/format.h"

#include "coppice/graphs/trace.h"

#include "graphs/trace/trace_clock.h"
#include "graphs/trace/trace_ring.h"

namespace coppice::internal {

class TraceWriter {
 public:
  // Makes the file, readable by its owner only, and starts the thread. Ring i is that of lane i,
  // but for the last, which is the session's. `log`, if any, is told once if writing fails.
  // Errors: kInvalidArgument events_per_lane; kFailedPrecondition another writer has that file,
  // which it holds a lock on; kNotFound and so on by errno if the file cannot be made.
  static absl::StatusOr<std::unique_ptr<TraceWriter>> Create(
      const TraceOptions& options, int lanes, std::function<void(const std::string&)> log);
  // Writes what is left and `end`.
  ~TraceWriter();
  TraceWriter(const TraceWriter&) = delete;
  TraceWriter& operator=(const TraceWriter&) = delete;

  // Puts the event that `make` returns into a ring, at this time, which it gets. Cost: a counter
  // read and a store of one line; at half a ring a lock, at a full one what the options say, and
  // the ring's first event allocates it.
  template <std::invocable<uint64_t> Make>
  void Put(size_t ring, const Make& make) {
    const uint64_t ticks = clock_.Now();
    TraceRing& events = sources_[ring]->events;
    if (RingEvent* const place = events.Claim()) [[likely]] {
      place->Fill(ticks, [&] { return make(ticks); });
      events.Publish();
    } else {
      const RingEvent event(ticks, make(ticks));
      PutAtLimit(*sources_[ring], std::span(&event, 1));
    }
  }
  template <typename Event>
  requires(!std::invocable<const Event&, uint64_t>) void Put(size_t ring, const Event& event) {
    Put(ring, [&event](uint64_t /*ticks*/) { return event; });
  }
  // A call of more extents than an event has room for: both get into the ring or neither.
  void Put(size_t ring, const FurtherExtents& further, const RingCall& call, uint64_t ticks) {
    const RingEvent both[] = {{ticks, further}, {ticks, call}};
    if (!sources_[ring]->events.Put(both)) PutAtLimit(*sources_[ring], both);
  }

  // Events that were lost so far. Threads: any.
  int64_t dropped() const { return dropped_.load(std::memory_order_relaxed); }

  // For times that events of this file are to have.
  const TraceClock& clock() const { return clock_; }

  // Queues a line, which ends in "\n", for before all events that are put in from here on.
  void Define(const std::string& line);

  // Waits until all that was put in or defined before is in the file. Errors: what writing failed
  // with, now or before.
  absl::Status Flush();

 private:
  struct Source {
    Source(int64_t at_least, int lane_number) : events(at_least), lane(lane_number) {}

    TraceRing events;
    const int lane;       // -1 for the session.
    int64_t dropped = 0;  // The producer's: not told yet.
    int64_t last_ns = 0;  // The writer's; and so are extents whose call follows.
    FurtherExtents further;
  };

  TraceWriter(const TraceOptions& options,
              int lanes,
              int file,
              std::function<void(const std::string&)> log);

  void PutAtLimit(Source& source, std::span<const RingEvent> events);
  bool MakeRoom(Source& source, size_t events);
  void Wake();
  void Loop();
  absl::Status WritePass(const std::string& definitions,
                         const std::vector<uint64_t>& heads,
                         bool last);
  void Format(Source& source, const RingEvent& event);
  template <typename Event>
  void Write(Source& source, uint64_t ticks, const Event& event);
  CallEvent CallOf(const RingCall& call, uint64_t ticks, FurtherExtents& further) const;
  absl::Status WriteText();

  const std::string path_;
  const bool wait_when_full_;
  const int file_;
  const std::function<void(const std::string&)> log_;
  const TraceClock clock_;
  std::vector<std::unique_ptr<Source>> sources_;

  // The thread's own.
  TraceTime time_;
  fmt::memory_buffer text_;

  std::atomic<int64_t> dropped_ = 0;
  std::atomic<bool> awake_ = false;  // The thread will look at the rings again.
  std::mutex mutex_;                 // Guards what is below.
  std::condition_variable changed_;
  std::string definitions_;
  int64_t passes_begun_ = 0;
  int64_t passes_done_ = 0;
  absl::Status status_;  // What writing failed with.
  bool stopping_ = false;
  std::thread thread_;
};

// A JSON string of `text`; what is not UTF-8 becomes U+FFFD.
std::string QuoteJson(const std::string& text);

}  // namespace coppice::internal
