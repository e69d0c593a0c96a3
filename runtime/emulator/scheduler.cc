// Queues operations, and runs them when somebody waits.

#include "runtime/emulator/scheduler.h"

#include <algorithm>
#include <optional>
#include <variant>

#include "fmt/format.h"

#include "coppice/base/check.h"

namespace coppice::emulator {
namespace {

constexpr uint64_t kQueryStepsMax = 3;

uint64_t KeyOf(CuStream stream) {
  return reinterpret_cast<uintptr_t>(stream);
}

bool HasHostWork(const Body& body) {
  if (const GraphRun* const run = std::get_if<GraphRun>(&body)) return run->snapshot->has_host_work;
  return std::holds_alternative<HostWork>(std::get<Task>(body).work);
}

// Sums of the host memory that the copies of `body` read, in order of execution where that is
// fixed, otherwise of nodes.
std::vector<uint64_t> SourceSumsOf(const Body& body) {
  std::vector<uint64_t> sums;
  if (const GraphRun* const run = std::get_if<GraphRun>(&body)) {
    const Snapshot& snapshot = *run->snapshot;
    for (const int node : snapshot.host_source_nodes)
      sums.push_back(SumOfSource(std::get<CopyWork>(snapshot.nodes[node].task.work)));
  } else if (const auto* const copy = std::get_if<CopyWork>(&std::get<Task>(body).work)) {
    if (copy->from_host) sums.push_back(SumOfSource(*copy));
  }
  return sums;
}

// Shows `checks` what `body`, the last of what a stream with `clock` submitted, touches.
void CheckAccesses(OperationId operation,
                   const VectorClock& clock,
                   const Body& body,
                   Checks& checks) {
  if (const Task* const task = std::get_if<Task>(&body)) {
    if (!task->is_declared()) checks.Expect(operation, clock);
    checks.Submit(operation, 0, clock, task->touched);
    return;
  }
  Snapshot& snapshot = *std::get<GraphRun>(body).snapshot;
  if (!snapshot.is_declared) checks.Expect(operation, clock);
  checks.Launch(snapshot);
  for (size_t i = 0; i < snapshot.nodes.size(); ++i)
    checks.Submit(operation, static_cast<int>(i), clock, snapshot.nodes[i].task.touched);
}

}  // namespace

CuStream Scheduler::Add(CuContext context, int device, unsigned flags, int priority) {
  auto stream = std::make_unique<StreamState>();
  StreamState& added = *stream;
  added.context = context;
  added.device = device;
  added.flags = flags;
  added.priority = priority;
  return added.handle = streams_.Insert(std::move(stream));
}

StreamState& Scheduler::MakeDefault(CuStream& handle,
                                    CuContext context,
                                    int device,
                                    unsigned flags) {
  if (handle == nullptr) {
    handle = Add(context, device, flags, 0);
    streams_.Find(handle)->is_default = true;
    ++default_count_;
  }
  return *streams_.Find(handle);
}

StreamState& Scheduler::LegacyOf(CuContext context, int device) {
  return MakeDefault(legacy_[context], context, device, 0);
}

StreamState& Scheduler::OwnOf(uint64_t thread, CuContext context, int device) {
  return MakeDefault(own_[{context, thread}], context, device, 0);
}

bool Scheduler::IsLegacy(const StreamState& stream) const {
  const auto found = legacy_.find(stream.context);
  return found != legacy_.end() && found->second == stream.handle;
}

void Scheduler::OrderWithLegacy(StreamState& stream) {
  if (legacy_.empty() || (stream.flags & kStreamNonBlocking) != 0) return;
  const auto found = legacy_.find(stream.context);
  if (found == legacy_.end()) return;
  if (found->second != stream.handle) return WaitBehind(stream, *streams_.Find(found->second));
  // In the order of their handles, so that one seed means one order of work.
  std::map<CuStream, const StreamState*> blocking;
  const auto add = [&](const StreamState& other) {
    if (&other != &stream && other.context == stream.context &&
        (other.flags & kStreamNonBlocking) == 0)
      blocking[other.handle] = &other;
  };
  for (const auto& [handle, other] : streams_)
    add(*other);
  for (const auto& [handle, other] : retired_streams_)
    add(*other);
  for (const auto& [handle, other] : blocking)
    WaitBehind(stream, *other);
  // What they did is known to come before, whether or not it still has to run.
  if (auto gone = gone_.extract(stream.context); !gone.empty())
    Push(stream, Mark{.clock = std::move(gone.mapped())}, Task(EmptyWork{}));
}

void Scheduler::WaitBehind(StreamState& stream, const StreamState& other) {
  uint64_t& position = stream.waited[other.handle];
  if (position == other.submitted) return;
  position = other.submitted;
  Push(stream, other.end(), Task(EmptyWork{}));
}

void Scheduler::Retire(CuStream stream) {
  std::unique_ptr<StreamState> state = streams_.Take(stream);
  retired_clock_.Join(state->clock);
  if ((state->flags & kStreamNonBlocking) == 0) gone_[state->context].Join(state->clock);
  if (!state->queue.empty()) retired_streams_.emplace(stream, std::move(state));
}

void Scheduler::Retire(std::unique_ptr<Snapshot> snapshot) {
  if (snapshot->queued_launches == 0) return;
  Snapshot* const key = snapshot.get();
  retired_snapshots_.emplace(key, std::move(snapshot));
}

bool Scheduler::IsComplete(const Mark& mark) const {
  if (mark.stream == nullptr) return true;
  const StreamState* stream = streams_.Find(mark.stream);
  if (stream == nullptr) {
    const auto retired = retired_streams_.find(mark.stream);
    if (retired == retired_streams_.end()) return true;
    stream = retired->second.get();
  }
  return stream->completed >= mark.position;
}

void Scheduler::Record(CuEvent handle, EventState& event, StreamState& stream) {
  event.mark = stream.end();
  event.captured.reset();
  event.mark_us = processor_.now_us();
  if (event.keeps_time && !stream.queue.empty()) stream.queue.back().timed_events.push_back(handle);
}

void Scheduler::Push(StreamState& stream, Mark after, Body body) {
  const OperationId id = {enqueued_++, KeyOf(stream.handle), ++stream.submitted};
  VectorClock before;
  if (checks_.orders_accesses()) {
    stream.clock.Join(after.clock);
    checks_.Join(id, after.clock);
    if (HasHostWork(body)) before = stream.clock;
    stream.clock.Advance(id.stream, id.position);
    CheckAccesses(id, stream.clock, body, checks_);
  }
  std::vector<uint64_t> sums;
  if (checks_.watches_sources()) sums = SourceSumsOf(body);
  if (stream.queue.empty()) busy_.push_back(&stream);
  stream.queue.push_back({.id = id,
                          .device = stream.device,
                          .after = std::move(after),
                          .body = std::move(body),
                          .source_sums = std::move(sums),
                          .before = std::move(before),
                          .timed_events = {}});
  ++queued_;
}

void Scheduler::CheckBehind(const StreamState& stream, const Mark& upload) {
  if (!checks_.orders_accesses() || upload.stream == nullptr) return;
  const uint64_t key = KeyOf(upload.stream);
  if (stream.clock.Of(key) >= upload.position || checks_.HostKnows(upload.clock)) return;
  checks_.Report(
      fmt::format("a graph is launched on stream {:#x}, but was uploaded on stream {:#x}, and "
                  "nothing orders the launch after the upload; launch the graph on the stream of "
                  "the upload, or add an event wait between the upload and the launch",
                  KeyOf(stream.handle), key));
}

CuResult Scheduler::RunQueued() {
  if (options_.eager_permille > 0 &&
      processor_.Draw() % 1000 < static_cast<uint64_t>(options_.eager_permille))
    RunSome(1);
  return RunUntil([this] { return queued_ <= options_.queue_limit; });
}

// NOLINTNEXTLINE(performance-unnecessary-value-param): others may change the event meanwhile.
CuResult Scheduler::WaitFor(Mark mark) {
  const CuResult result = RunUntil([this, &mark] { return IsComplete(mark); });
  HostWaited(mark.clock);
  return result;
}

CuResult Scheduler::WaitForAll() {
  return WaitForChosen([](const StreamState& /*stream*/) { return true; });
}

CuResult Scheduler::WaitForContext(CuContext context) {
  return WaitForChosen([context](const StreamState& stream) { return stream.context == context; });
}

template <typename Chosen>
CuResult Scheduler::WaitForChosen(Chosen chosen) {
  VectorClock all = retired_clock_;
  for (const auto& [handle, stream] : streams_)
    if (chosen(*stream)) all.Join(stream->clock);
  std::vector<Mark> ends;
  for (const StreamState* stream : busy_)
    if (chosen(*stream)) ends.push_back(stream->end());
  for (const Mark& end : ends)
    WaitFor(end);
  HostWaited(all);
  return processor_.sticky();
}

// The host has learnt that what lies before `clock` is complete.
void Scheduler::HostWaited(const VectorClock& clock) {
  if (!checks_.orders_accesses()) return;
  checks_.HostWaited(clock);
  if (!busy_.empty() || !checks_.HostKnows(retired_clock_)) return;
  for (const auto& [handle, stream] : streams_)
    if (!checks_.HostKnows(stream->clock)) return;
  ForgetAccesses();
}

// The host knows of everything: nothing before can meet what comes, and the clocks start afresh.
void Scheduler::ForgetAccesses() {
  retired_clock_.Clear();
  gone_.clear();
  VectorClock known;
  for (const auto& [handle, stream] : streams_) {
    stream->clock.Clear();
    stream->clock.Advance(KeyOf(handle), stream->submitted);
    known.Join(stream->clock);
  }
  checks_.Forget(std::move(known));
}

// NOLINTNEXTLINE(performance-unnecessary-value-param): the same.
CuResult Scheduler::Query(Mark mark) {
  if (!IsComplete(mark)) RunSome(processor_.Draw() % (kQueryStepsMax + 1));
  if (processor_.sticky() != CuResult::kSuccess) return processor_.sticky();
  if (!IsComplete(mark)) return CuResult::kNotReady;
  HostWaited(mark.clock);
  return CuResult::kSuccess;
}

template <typename Done>
CuResult Scheduler::RunUntil(Done done) {
  if (done()) return processor_.sticky();
  const Processor::ShownMemory shown(processor_);
  while (!done()) {
    if (executing_) {
      ++waiting_threads_;
      step_done_.wait(mutex_);
      --waiting_threads_;
    } else {
      Step();
    }
  }
  return processor_.sticky();
}

// Leaves off as soon as another thread is running work: a query does not wait.
void Scheduler::RunSome(uint64_t steps) {
  if (executing_ || busy_.empty()) return;
  const Processor::ShownMemory shown(processor_);
  for (uint64_t step = 0; step < steps && !executing_ && !busy_.empty(); ++step)
    Step();
}

// Runs one operation, or one node of a graph. The mutex is free while it runs.
void Scheduler::Step() {
  StreamState* const stream = PickReady();
  COPPICE_CHECK(stream != nullptr, "no queued operation is ready");
  executing_ = true;
  Operation& operation = stream->queue.front();
  bool alive = true;
  HostWaited(std::exchange(operation.before, {}));
  if (const GraphRun* const run = std::get_if<GraphRun>(&operation.body)) {
    alive = processor_.RunNode(operation);
    if (alive && run->done == run->snapshot->nodes.size()) Finish(*stream);
  } else {
    alive = processor_.RunTask(operation);
    if (alive) Finish(*stream);
  }
  if (!alive) DropQueues();
  executing_ = false;
  if (waiting_threads_ > 0) step_done_.notify_all();
}

// A stream whose first operation may run: any of them, or the one queued first.
StreamState* Scheduler::PickReady() {
  StreamState* picked = nullptr;
  const size_t count = busy_.size();
  const size_t start = count > 1 && !processor_.sequential() ? processor_.Draw() % count : 0;
  for (size_t i = 0; i < count; ++i) {
    StreamState* const stream = busy_[(start + i) % count];
    Operation& front = stream->queue.front();
    if (!IsComplete(front.after)) continue;
    front.after = {};  // Complete marks stay complete.
    if (!processor_.sequential()) return stream;
    if (picked == nullptr || front.id.order < picked->queue.front().id.order) picked = stream;
  }
  return picked;
}

// Takes the first operation, which has run, off the queue.
void Scheduler::Finish(StreamState& stream) {
  checks_.Finish(stream.queue.front().id);
  if (const GraphRun* const run = std::get_if<GraphRun>(&stream.queue.front().body))
    if (--run->snapshot->queued_launches == 0) retired_snapshots_.erase(run->snapshot);
  ++stream.completed;
  for (const CuEvent handle : stream.queue.front().timed_events) {
    EventState* const event = events_.Find(handle);
    // It may be gone, or have been recorded elsewhere since.
    if (event != nullptr && event->mark.stream == stream.handle &&
        event->mark.position == stream.completed)
      event->mark_us = processor_.now_us();
  }
  stream.queue.pop_front();
  --queued_;
  if (!stream.queue.empty()) return;
  busy_.erase(std::find(busy_.begin(), busy_.end(), &stream));
  const CuStream handle = stream.handle;
  retired_streams_.erase(handle);
}

void Scheduler::DropQueues() {
  while (!busy_.empty())
    Finish(*busy_.back());
}

void Scheduler::Abandon() {
  while (executing_) {
    ++waiting_threads_;
    step_done_.wait(mutex_);
    --waiting_threads_;
  }
  DropQueues();
  const auto take = [this](CuStream handle) { streams_.Take(handle); };
  for (const auto& [context, handle] : legacy_)
    take(handle);
  for (const auto& [place, handle] : own_)
    take(handle);
  legacy_.clear();
  own_.clear();
  default_count_ = 0;
  streams_.Abandon();
  ForgetAccesses();
}

void Scheduler::AbandonContext(CuContext context) {
  WaitForContext(context);
  std::vector<CuStream> gone;
  for (const auto& [handle, stream] : streams_)
    if (stream->context == context) gone.push_back(handle);
  for (const CuStream handle : gone) {
    const bool is_default = streams_.Find(handle)->is_default;
    Retire(handle);
    if (is_default)
      --default_count_;
    else
      streams_.CountAbandoned();
  }
  legacy_.erase(context);
  std::erase_if(own_, [context](const auto& entry) { return entry.first.first == context; });
}

void Scheduler::Clear() {
  Abandon();
  streams_.Clear();
}

}  // namespace coppice::emulator
