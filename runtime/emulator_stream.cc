// Streams and events, and the scheduler that runs what they queue.
//
// An event is a position in a stream, so recording one queues nothing. A wait is an operation that
// does nothing and runs only after the event's mark. Every mark points to something queued earlier,
// hence some operation is always ready while any is queued.

#include <algorithm>
#include <string_view>

#include "absl/hash/hash.h"
#include "fmt/format.h"

#include "coppice/base/check.h"

#include "emulator_state.h"

namespace coppice::emulator {
namespace {

constexpr uint64_t kQueryStepsMax = 3;

uint64_t KeyOf(CuStream stream) {
  return reinterpret_cast<uintptr_t>(stream);
}

}  // namespace

// Lets device work reach device memory while it lives, and nobody else, if strictness asks for it.
class Scheduler::ShownMemory {
 public:
  explicit ShownMemory(Scheduler& scheduler) : scheduler_(scheduler) {
    if (hides() && scheduler_.shown_count_++ == 0) scheduler_.memory_.Show(true);
  }
  ~ShownMemory() {
    if (hides() && --scheduler_.shown_count_ == 0) scheduler_.memory_.Show(false);
  }
  ShownMemory(const ShownMemory&) = delete;
  ShownMemory& operator=(const ShownMemory&) = delete;

 private:
  bool hides() const { return scheduler_.options_.strictness.host_access; }

  Scheduler& scheduler_;
};

// The SplitMix64 generator.
uint64_t Scheduler::Draw() {
  random_ += 0x9E3779B97F4A7C15;
  uint64_t z = random_;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
  return z ^ (z >> 31);
}

CuStream Scheduler::Add() {
  auto stream = std::make_unique<StreamState>();
  StreamState& added = *stream;
  return added.handle = streams_.Insert(std::move(stream));
}

void Scheduler::Retire(CuStream stream) {
  std::unique_ptr<StreamState> state = streams_.Take(stream);
  retired_clock_.Join(state->clock);
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
  event.mark_us = now_us_;
  if (event.keeps_time && !stream.queue.empty()) stream.queue.back().timed_events.push_back(handle);
}

namespace {

// A sum of what a copy reads; 0 if it cannot be read, which the copy itself will find out.
uint64_t SumOf(const CopyWork& copy) {
  struct Reading {
    std::string_view bytes;
    uint64_t* sum;
  };
  uint64_t sum = 0;
  const Reading reading{{static_cast<const char*>(copy.source), copy.bytes}, &sum};
  RunGuarded(
      [](const void* argument) {
        const auto& [bytes, result] = *static_cast<const Reading*>(argument);
        *result = absl::HashOf(bytes);
      },
      &reading);
  return sum;
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
      sums.push_back(SumOf(std::get<CopyWork>(snapshot.nodes[node].task.work)));
  } else if (const auto* const copy = std::get_if<CopyWork>(&std::get<Task>(body).work)) {
    if (copy->from_host) sums.push_back(SumOf(*copy));
  }
  return sums;
}

}  // namespace

void Scheduler::Push(StreamState& stream, Mark after, Body body) {
  ++stream.submitted;
  VectorClock before;
  if (checks_.orders_accesses()) {
    stream.clock.Join(after.clock);
    if (HasHostWork(body)) before = stream.clock;
    stream.clock.Advance(KeyOf(stream.handle), stream.submitted);
    CheckAccesses(stream, body);
  }
  std::vector<uint64_t> sums;
  if (checks_.watches_sources()) sums = SourceSumsOf(body);
  if (stream.queue.empty()) busy_.push_back(&stream);
  stream.queue.push_back({.after = std::move(after),
                          .order = enqueued_++,
                          .body = std::move(body),
                          .source_sums = std::move(sums),
                          .before = std::move(before),
                          .timed_events = {}});
  ++queued_;
}

CuResult Scheduler::RunQueued() {
  if (options_.eager_permille > 0 && Draw() % 1000 < static_cast<uint64_t>(options_.eager_permille))
    RunSome(1);
  return RunUntil([this] { return queued_ <= options_.queue_limit; });
}

void Scheduler::CheckAccesses(const StreamState& stream, const Body& body) {
  const auto check = [&](const Task& task) {
    checks_.Submit(KeyOf(stream.handle), stream.submitted, stream.clock, task.touched);
  };
  if (const Task* const task = std::get_if<Task>(&body)) return check(*task);
  Snapshot& snapshot = *std::get<GraphRun>(body).snapshot;
  if (std::exchange(snapshot.checked_generation, memory_.generation()) != memory_.generation())
    checks_.Launch(snapshot);
  for (const Snapshot::Node& node : snapshot.nodes)
    check(node.task);
}

// NOLINTNEXTLINE(performance-unnecessary-value-param): others may change the event meanwhile.
CuResult Scheduler::WaitFor(Mark mark) {
  const CuResult result = RunUntil([this, &mark] { return IsComplete(mark); });
  HostWaited(mark.clock);
  return result;
}

CuResult Scheduler::WaitForAll() {
  VectorClock all = retired_clock_;
  for (const auto& [handle, stream] : streams_)
    all.Join(stream->clock);
  std::vector<Mark> ends;
  for (const StreamState* stream : busy_)
    ends.push_back(stream->end());
  for (const Mark& end : ends)
    WaitFor(end);
  HostWaited(all);
  return sticky_;
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
  if (!IsComplete(mark)) RunSome(Draw() % (kQueryStepsMax + 1));
  if (sticky_ != CuResult::kSuccess) return sticky_;
  if (!IsComplete(mark)) return CuResult::kNotReady;
  HostWaited(mark.clock);
  return CuResult::kSuccess;
}

template <typename Done>
CuResult Scheduler::RunUntil(Done done) {
  if (done()) return sticky_;
  const ShownMemory shown(*this);
  while (!done()) {
    if (executing_) {
      ++waiting_threads_;
      step_done_.wait(mutex_);
      --waiting_threads_;
    } else {
      Step();
    }
  }
  return sticky_;
}

// Leaves off as soon as another thread is running work: a query does not wait.
void Scheduler::RunSome(uint64_t steps) {
  if (executing_ || busy_.empty()) return;
  const ShownMemory shown(*this);
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
    alive = RunNode(operation);
    if (alive && run->done == run->snapshot->nodes.size()) Finish(*stream);
  } else {
    const std::vector<uint64_t>& sums = operation.source_sums;
    alive = Run(std::get<Task>(operation.body),
                sums.empty() ? std::nullopt : std::optional(sums.front()));
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
  const size_t start = count > 1 && !options_.sequential ? Draw() % count : 0;
  for (size_t i = 0; i < count; ++i) {
    StreamState* const stream = busy_[(start + i) % count];
    Operation& front = stream->queue.front();
    if (!IsComplete(front.after)) continue;
    front.after = {};  // Complete marks stay complete.
    if (!options_.sequential) return stream;
    if (picked == nullptr || front.order < picked->queue.front().order) picked = stream;
  }
  return picked;
}

// False if the work faulted, which is the end of the context. `source_sum` is that of the host
// memory that a copy read when it was submitted, if somebody watches.
bool Scheduler::Run(const Task& task, std::optional<uint64_t> source_sum) {
  const uint64_t draw = options_.sequential ? 0 : Draw();
  ++now_us_;
  std::optional<std::string> fault = FindForeignAccess(task);
  if (!fault.has_value()) {
    if (source_sum.has_value()) CheckSource(std::get<CopyWork>(task.work), *source_sum);
    const bool hides =
        options_.strictness.host_access && std::holds_alternative<HostWork>(task.work);
    if (hides) memory_.Show(false);
    mutex_.unlock();
    fault = Execute(task.work, draw);
    mutex_.lock();
    if (hides) memory_.Show(true);
  }
  if (!fault.has_value()) return true;
  sticky_ = CuResult::kIllegalAddress;
  fault_ = *std::move(fault);
  return false;
}

// A description of the fault if a kernel declares to touch other than device memory, which a host
// could bear and a device cannot.
std::optional<std::string> Scheduler::FindForeignAccess(const Task& task) const {
  if (!std::holds_alternative<KernelWork>(task.work)) return std::nullopt;
  for (const TouchedBytes& touched : task.touched)
    if (!memory_.Covers(touched.bytes.begin, 1, CuMemAccessFlags::kRead))
      return DescribeFault(touched.name, touched.bytes.begin);
  return std::nullopt;
}

void Scheduler::CheckSource(const CopyWork& copy, uint64_t sum) {
  if (SumOf(copy) == sum) return;
  checks_.Report(fmt::format(
      "host memory changed under a queued copy: {} bytes that a memcpy reads were written after it "
      "was submitted and before it ran; wait for the copy, or write in stream order",
      copy.bytes));
}

bool Scheduler::RunNodeAt(const Operation& operation, int index) {
  const Snapshot& snapshot = *std::get<GraphRun>(operation.body).snapshot;
  std::optional<uint64_t> sum;
  if (!operation.source_sums.empty()) {
    const std::vector<int>& sources = snapshot.host_source_nodes;
    const auto found = std::lower_bound(sources.begin(), sources.end(), index);
    if (found != sources.end() && *found == index)
      sum = operation.source_sums[found - sources.begin()];
  }
  ++nodes_executed_;
  return Run(snapshot.nodes[index].task, sum);
}

// Runs the next node of a graph, if it has any.
bool Scheduler::RunNode(Operation& operation) {
  GraphRun& run = std::get<GraphRun>(operation.body);
  const Snapshot& snapshot = *run.snapshot;
  if (snapshot.nodes.empty()) return true;
  if (snapshot.is_chain) return RunNodeAt(operation, static_cast<int>(run.done++));
  if (run.done == 0) {
    run.ready = snapshot.roots;
    run.unsatisfied.clear();
    for (const Snapshot::Node& node : snapshot.nodes)
      run.unsatisfied.push_back(node.dependency_count);
  }
  // In sequential mode the least index, which is a topological order.
  const auto picked = options_.sequential
                          ? std::min_element(run.ready.begin(), run.ready.end())
                          : run.ready.begin() + static_cast<int64_t>(Draw() % run.ready.size());
  const int index = *picked;
  *picked = run.ready.back();
  run.ready.pop_back();
  if (!RunNodeAt(operation, index)) return false;
  ++run.done;
  for (const int successor : snapshot.nodes[index].successors)
    if (--run.unsatisfied[successor] == 0) run.ready.push_back(successor);
  return true;
}

// Takes the first operation, which has run, off the queue.
void Scheduler::Finish(StreamState& stream) {
  if (const GraphRun* const run = std::get_if<GraphRun>(&stream.queue.front().body))
    if (--run->snapshot->queued_launches == 0) retired_snapshots_.erase(run->snapshot);
  ++stream.completed;
  for (const CuEvent handle : stream.queue.front().timed_events) {
    EventState* const event = events_.Find(handle);
    // It may be gone, or have been recorded elsewhere since.
    if (event != nullptr && event->mark.stream == stream.handle &&
        event->mark.position == stream.completed)
      event->mark_us = now_us_;
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
  streams_.Abandon();
  ForgetAccesses();
}

// Driver entries: streams.

CuResult StreamCreate(CuStream* stream, unsigned flags) {
  if (stream == nullptr || flags > kStreamNonBlocking) return CuResult::kInvalidValue;
  *stream = TheState().scheduler.Add();
  return CuResult::kSuccess;
}

CuResult StreamDestroy(CuStream stream) {
  State& state = TheState();
  const StreamState* const found = state.scheduler.Find(stream);
  if (found == nullptr) return CuResult::kInvalidHandle;
  if (const CuResult result = RefuseCapturing(state, *found); result != CuResult::kSuccess)
    return result;
  state.scheduler.Retire(stream);
  return CuResult::kSuccess;
}

namespace {

// The checks that a wait and a query on a stream share.
CuResult CheckStreamWait(State& state, const StreamState* stream, EntryId entry) {
  if (stream == nullptr) return CuResult::kInvalidHandle;
  if (const CuResult result = RefuseCapturing(state, *stream); result != CuResult::kSuccess)
    return result;
  return CheckCaptureAllows(state, entry);
}

CuResult CheckEventWait(State& state, const EventState* event, EntryId entry) {
  if (event == nullptr) return CuResult::kInvalidHandle;
  if (event->captured.has_value()) return UseCapturedEvent(state, *event);
  return CheckCaptureAllows(state, entry);
}

}  // namespace

CuResult StreamSynchronize(CuStream stream) {
  State& state = TheState();
  const StreamState* const found = state.scheduler.Find(stream);
  const CuResult result = CheckStreamWait(state, found, EntryId::kStreamSynchronize);
  return result == CuResult::kSuccess ? state.scheduler.WaitFor(found->end()) : result;
}

CuResult StreamQuery(CuStream stream) {
  State& state = TheState();
  const StreamState* const found = state.scheduler.Find(stream);
  const CuResult result = CheckStreamWait(state, found, EntryId::kStreamQuery);
  return result == CuResult::kSuccess ? state.scheduler.Query(found->end()) : result;
}

CuResult StreamWaitEvent(CuStream stream, CuEvent event, unsigned flags) {
  State& state = TheState();
  StreamState* const waiting = state.scheduler.Find(stream);
  const EventState* const awaited = FindEvent(state, event);
  if (waiting == nullptr || awaited == nullptr) return CuResult::kInvalidHandle;
  if (flags != 0) return CuResult::kInvalidValue;
  if (waiting->capture != nullptr || awaited->captured.has_value())
    return CaptureWait(state, *waiting, *awaited);
  return state.scheduler.Enqueue(*waiting, awaited->mark, Task(EmptyWork{}));
}

CuResult CtxSynchronize() {
  State& state = TheState();
  if (state.captures.empty()) return state.scheduler.WaitForAll();
  for (const std::unique_ptr<Capture>& capture : state.captures)
    Invalidate(state, *capture);
  return CuResult::kStreamCaptureUnsupported;
}

// Driver entries: events.

CuResult EventCreate(CuEvent* event, unsigned flags) {
  constexpr unsigned kBlockingSync = 1;
  if (event == nullptr || (flags & ~(kBlockingSync | kEventDisableTiming)) != 0)
    return CuResult::kInvalidValue;
  auto created = std::make_unique<EventState>();
  created->keeps_time = (flags & kEventDisableTiming) == 0;
  *event = TheState().events.Insert(std::move(created));
  return CuResult::kSuccess;
}

CuResult EventDestroy(CuEvent event) {
  return TheState().events.Take(event) == nullptr ? CuResult::kInvalidHandle : CuResult::kSuccess;
}

CuResult EventRecord(CuEvent event, CuStream stream) {
  State& state = TheState();
  EventState* const recorded = state.events.Find(event);
  StreamState* const source = state.scheduler.Find(stream);
  if (recorded == nullptr || source == nullptr) return CuResult::kInvalidHandle;
  if (source->capture != nullptr) return CaptureRecord(state, *source, *recorded);
  state.scheduler.Record(event, *recorded, *source);
  return CuResult::kSuccess;
}

CuResult EventQuery(CuEvent event) {
  State& state = TheState();
  const EventState* const found = FindEvent(state, event);
  const CuResult result = CheckEventWait(state, found, EntryId::kEventQuery);
  return result == CuResult::kSuccess ? state.scheduler.Query(found->mark) : result;
}

CuResult EventSynchronize(CuEvent event) {
  State& state = TheState();
  const EventState* const found = FindEvent(state, event);
  const CuResult result = CheckEventWait(state, found, EntryId::kEventSynchronize);
  return result == CuResult::kSuccess ? state.scheduler.WaitFor(found->mark) : result;
}

CuResult EventElapsedTime(float* milliseconds, CuEvent start, CuEvent end) {
  if (milliseconds == nullptr) return CuResult::kInvalidValue;
  State& state = TheState();
  const EventState* const events[] = {FindEvent(state, start), FindEvent(state, end)};
  for (const EventState* const event : events) {
    if (event == nullptr) return CuResult::kInvalidHandle;
    if (event->captured.has_value()) return UseCapturedEvent(state, *event);
    if (!event->keeps_time || event->mark.stream == nullptr) return CuResult::kInvalidHandle;
  }
  for (const EventState* const event : events)
    if (!state.scheduler.IsComplete(event->mark)) return CuResult::kNotReady;
  for (const EventState* const event : events)
    state.scheduler.Query(event->mark);  // Runs nothing; the host has learnt of both.
  *milliseconds = static_cast<float>(events[1]->mark_us - events[0]->mark_us) / 1000;
  return CuResult::kSuccess;
}

}  // namespace coppice::emulator
