// The scheduler: streams, and which of the operations that they queue runs next.
//
// Queued operations run inside calls that wait or query, on the thread that calls.
//
// Threads: guarded by the emulator's mutex, as processor.h says.

#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"

#include "coppice/runtime/cuda_abi.h"

#include "runtime/emulator/access_order.h"
#include "runtime/emulator/checks.h"
#include "runtime/emulator/handles.h"
#include "runtime/emulator/processor.h"
#include "runtime/emulator/snapshot.h"
#include "runtime/emulator/stream.h"

namespace coppice::emulator {

class Scheduler {
 public:
  struct Options {
    int eager_permille = 0;   // Chance in 1000 to run an operation at enqueue.
    int64_t queue_limit = 1;  // Queued operations that force execution.
  };

  Scheduler(const Options& options,
            Processor* processor,
            Checks* checks,
            HandleTable<CuEvent, EventState>* events,
            std::mutex* mutex)
      : options_(options),
        processor_(*processor),
        checks_(*checks),
        events_(*events),
        mutex_(*mutex) {}

  // Streams.
  CuStream Add(CuContext context, int device, unsigned flags, int priority);
  // The legacy stream of a context, and the own one of a thread there: made when they are needed.
  StreamState& LegacyOf(CuContext context, int device);
  StreamState& OwnOf(uint64_t thread, CuContext context, int device);
  StreamState* Find(CuStream stream) const { return streams_.Find(stream); }
  void Retire(CuStream stream);  // Forgets the handle; what is queued still runs.
  const HandleTable<CuStream, StreamState>& streams() const { return streams_; }
  // Those that a call created.
  int64_t stream_count() const { return streams_.count() - default_count_; }
  bool IsLegacy(const StreamState& stream) const;

  // Orders what is queued next as the legacy stream asks: behind all blocking streams of its
  // context, and each of those behind it.
  void OrderWithLegacy(StreamState& stream);

  // Queues an operation of `stream`. The result is the sticky error, if there is one.
  CuResult Enqueue(StreamState& stream, Mark after, Body body) {
    Push(stream, std::move(after), std::move(body));
    return RunQueued();
  }

  // The same in two steps: the second may run work, during which others may destroy anything.
  void Push(StreamState& stream, Mark after, Body body);
  CuResult RunQueued();

  // Reports a launch, the last operation of `stream`, that nothing orders behind the upload of its
  // graph; a null mark is no upload.
  void CheckBehind(const StreamState& stream, const Mark& upload);

  // Forgets a snapshot; launches of it that are queued still run.
  void Retire(std::unique_ptr<Snapshot> snapshot);

  bool IsComplete(const Mark& mark) const;

  // Puts the end of `stream` into `event`, which `handle` stands for.
  void Record(CuEvent handle, EventState& event, StreamState& stream);

  // Runs operations until `mark`, or everything queued at the call, is complete. By value, since
  // meanwhile others may change the event that the mark came from.
  CuResult WaitFor(Mark mark);
  CuResult WaitForAll();
  CuResult WaitForContext(CuContext context);

  // Runs a few operations and answers kSuccess or kNotReady for `mark`.
  CuResult Query(Mark mark);

  // Drops what is queued, once no operation is running, and every stream. The first keeps counting
  // the streams.
  void Abandon();
  void Clear();

  // Waits for what is queued in a context, and drops its streams but keeps counting them.
  void AbandonContext(CuContext context);

 private:
  void WaitBehind(StreamState& stream, const StreamState& other);
  StreamState& MakeDefault(CuStream& handle, CuContext context, int device, unsigned flags);
  template <typename Chosen>
  CuResult WaitForChosen(Chosen chosen);
  template <typename Done>
  CuResult RunUntil(Done done);
  void HostWaited(const VectorClock& clock);
  void ForgetAccesses();
  void RunSome(uint64_t steps);
  void Step();
  StreamState* PickReady();
  void Finish(StreamState& stream);
  void DropQueues();

  const Options options_;
  Processor& processor_;
  Checks& checks_;
  HandleTable<CuEvent, EventState>& events_;
  std::mutex& mutex_;
  std::condition_variable_any step_done_;
  bool executing_ = false;  // A thread is inside Step, perhaps without the mutex.
  int waiting_threads_ = 0;

  HandleTable<CuStream, StreamState> streams_;
  std::map<CuContext, CuStream> legacy_;
  std::map<std::pair<CuContext, uint64_t>, CuStream> own_;  // By context and thread.
  int64_t default_count_ = 0;                               // Of the two.
  std::map<CuContext, VectorClock> gone_;  // What lies behind blocking streams that are gone.
  absl::flat_hash_map<CuStream, std::unique_ptr<StreamState>> retired_streams_;  // Still busy.
  absl::flat_hash_map<Snapshot*, std::unique_ptr<Snapshot>> retired_snapshots_;  // Still queued.
  VectorClock retired_clock_;       // Of the streams that are gone.
  std::vector<StreamState*> busy_;  // Streams with a queue that is not empty.
  int64_t queued_ = 0;              // Operations in all queues.
  uint64_t enqueued_ = 0;           // Operations ever queued.
};

}  // namespace coppice::emulator
