// A lane: one window of the pool and everything that must not overlap in it. Private to graphs/.
//
// Threads: everything below `mutex` is guarded by it, but for `owning_leases`.

#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <utility>

#include "absl/status/status.h"

#include "coppice/allocator/pool.h"
#include "coppice/graphs/session.h"
#include "coppice/runtime/stream.h"

namespace coppice::internal {

struct OutputTable;

struct Lane {
  Lane(const Driver& lane_driver, Pool& lane_pool, int lane_index, Stream stream, Event event)
      : driver(lane_driver),
        pool(lane_pool),
        index(lane_index),
        own_stream(std::move(stream)),
        handoff(std::move(event)) {}

  // Orders the lane's next work, on `stream`, after its last. No driver call on the same stream.
  absl::Status Enter(CuStream stream) {
    if (stream == last_stream) [[likely]]
      return absl::OkStatus();
    return SwitchTo(stream);
  }
  absl::Status SwitchTo(CuStream stream);

  // Orders the last stream's later work after that of `stream` so far: on the device, or by waiting
  // on the host if the driver refuses that.
  absl::Status Join(CuStream stream);

  // Waits on the host for the lane's last work; for everything queued on `stream`.
  absl::Status Wait() const;
  absl::Status WaitForStream(CuStream stream) const;

  const Driver& driver;
  Pool& pool;
  const int index;

  std::mutex mutex;
  Stream own_stream;               // Recordings and Warm run here.
  Event handoff;                   // Re-recorded at every hand-over; a wait keeps what it saw.
  CuStream last_stream = nullptr;  // Of the lane's last work; null before the first.
  uint64_t epoch = 0;              // Counts the calls that wrote the node window.
  const OutputTable* last_outputs = nullptr;  // Of the graph that ran last.
  int open_scopes = 0;
  std::atomic<int64_t> owning_leases = 0;  // Output tables that hold bytes of the eager window.
  SessionStats stats;
};

}  // namespace coppice::internal
