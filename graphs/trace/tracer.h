// What a session tells its trace. Private to graphs/.
//
// A lane has a pointer to its session's tracer, null without a trace: every event point is a test
// of that pointer. Numbers are given out by the Define functions, counting from 0 per kind of
// thing, and a thing is defined before an event names it.
//
// Outputs are told when a lease outlives the call, not when it is made: `Outputs` follows at the
// lane's next sweep that finds the slot leased. So a replay whose outputs are read and let go
// before the lane's next call is one event.
//
// Units: bytes, elements where named so, ticks of the trace's clock. Threads: Define... any; events
// that name a lane under that lane's lock; Bytes, Suspend, Resume, Mark, Policy, Statics and
// Request any. Cost: on the order of 20 ns per event, no allocation; what defines, Fail, Mark and
// Policy allocate.

#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "coppice/graphs/session_options.h"
#include "coppice/graphs/trace.h"
#include "coppice/graphs/trace_events.h"
#include "coppice/padding/padding_policy.h"
#include "coppice/runtime/graph.h"

#include "graphs/node/allocation_script.h"
#include "graphs/node/node.h"
#include "graphs/trace/trace_writer.h"

namespace coppice::internal {

// The kernels of a node: per piece between breaks, in the order of its graph.
using KernelsByPiece = std::vector<std::vector<const KernelNode*>>;

class Tracer {
 public:
  // Errors: as TraceWriter::Create.
  static absl::StatusOr<std::unique_ptr<Tracer>> Create(
      const TraceOptions& options, int lanes, std::function<void(const std::string&)> log);

  // Comes before all others.
  void DefineSession(const std::string& device, int64_t granularity, const SessionOptions& options);
  int32_t DefineProgram(const ProgramSpec& spec);
  // Of a bucket whose info is set, with the scalars of its key.
  int32_t DefineBucket(int32_t program, const NodeInfo& info, std::span<const int64_t> scalars);
  // The number of extents that no bucket holds. Equal ones are defined once, while there are few.
  int32_t BucketBeyond(int32_t program, int lane, std::span<const int64_t> extents);
  // Of a node that launches these, with its buffers.
  int32_t DefineNode(const Node& node,
                     const KernelsByPiece& kernels,
                     const PlannedBuffers& planned);

  struct Ran {
    uint64_t call = 0;
    int32_t bucket = -1;
    int32_t node = -1;
    RunKind kind = RunKind::kReplay;
    Reason reason = Reason::kNone;
    int64_t real_elements = 0;
    int64_t padded_elements = 0;
    int32_t program = -1;
    std::span<const int64_t> extents{};  // Real ones, at most kSymbolsMax.
    uint64_t began = 0;                  // 0: its host time was not taken.
    OutputMode outputs = OutputMode::kBorrow;
  };
  void Call(int lane, const Ran& ran) {
    if (ran.extents.size() > RingCall::kExtents) [[unlikely]]
      return CallOfMany(lane, ran);
    Put(lane, [&ran](uint64_t ticks) { return Told(ran, ticks); });
  }
  // A recording of the bucket failed. Equal failures are defined once, while there are few.
  void Fail(int lane, int32_t bucket, const absl::Status& why);
  // Any other event of a lane.
  template <typename Event>
  void Put(int lane, const Event& event) {
    writer_->Put(static_cast<size_t>(lane), event);
  }

  // One kind of memory has `bytes` from here on, and all kinds have `total`. Bytes that change
  // their kind are two events. Events lie in the file in the order of these calls, so whoever
  // counts calls this before anybody else can count on.
  void Bytes(MemoryKind kind, int64_t bytes, int64_t total);
  void Suspend() { PutOfSession(SuspendEvent()); }
  // As SessionTrace::Mark. Equal names are defined once, while there are few. Allocates.
  void Mark(std::string_view name);
  void Resume() { PutOfSession(ResumeEvent()); }
  // The symbol is padded by this policy from here on.
  void Policy(int32_t program, int symbol, const PaddingPolicy& policy);
  // So many bytes lie under the static tensors of the program, and of all programs.
  void Statics(int32_t program, int64_t bytes, int64_t total) {
    PutOfSession(StaticsEvent{.program = program, .bytes = bytes, .total_bytes = total});
  }
  // As SessionTrace::NoteRequest.
  void Request(const RequestTimes& times);

  absl::Status Flush() { return writer_->Flush(); }
  int64_t dropped() const { return writer_->dropped(); }  // Events that were lost. Threads: any.

 private:
  Tracer(std::unique_ptr<TraceWriter> writer, int lanes)
      : writer_(std::move(writer)), session_ring_(static_cast<size_t>(lanes)) {}

  // Extents and ticks as a ring has them; what is larger is the largest number.
  static int32_t Held(int64_t extent) {
    return static_cast<int32_t>(std::min<int64_t>(extent, std::numeric_limits<int32_t>::max()));
  }
  static uint32_t HeldTicks(uint64_t ticks) {
    return static_cast<uint32_t>(
        std::clamp<uint64_t>(ticks, 1, std::numeric_limits<uint32_t>::max()));
  }
  // With the first extents.
  static RingCall Told(const Ran& ran, uint64_t ticks) {
    RingCall call{.path = ran.kind,
                  .reason = ran.reason,
                  .outputs = ran.outputs,
                  .bucket = ran.bucket,
                  .node = ran.node,
                  .program = ran.program,
                  .call = static_cast<int64_t>(ran.call),
                  .real_elements = ran.real_elements,
                  .padded_elements = ran.padded_elements,
                  .host_ticks = ran.began == 0 ? 0 : HeldTicks(ticks - ran.began)};
    for (size_t i = 0; i < std::min(ran.extents.size(), RingCall::kExtents); ++i)
      call.extents[i] = Held(ran.extents[i]);
    return call;
  }
  // A call of more symbols than an event has room for.
  void CallOfMany(int lane, const Ran& ran);

  int32_t DefineBucketOf(const std::string& text);
  // The number of what `text` defines, of the things of this kind; defines it unless it is known.
  int32_t NumberOf(const char* kind,
                   const std::string& text,
                   std::map<std::string, int32_t>& known,
                   int32_t& count);
  template <typename Event>
  void PutOfSession(const Event& event) {
    const std::lock_guard<std::mutex> lock(session_mutex_);
    writer_->Put(session_ring_, event);
  }

  const std::unique_ptr<TraceWriter> writer_;
  const size_t session_ring_;
  std::mutex session_mutex_;  // Whoever puts into the session's ring.
  std::atomic<int32_t> programs_ = 0;
  std::atomic<int32_t> buckets_ = 0;
  std::atomic<int32_t> nodes_ = 0;
  std::mutex known_mutex_;                 // Guards what is below.
  std::map<std::string, int32_t> beyond_;  // What defines each, and its number.
  std::map<std::string, int32_t> failures_;
  std::map<std::string, int32_t> marks_;
  std::map<std::string, int32_t> policies_;
  int32_t failure_count_ = 0;
  int32_t mark_count_ = 0;
  int32_t policy_count_ = 0;
};

}  // namespace coppice::internal
