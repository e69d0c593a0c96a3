// Streams and events, and the scheduler that runs what they queue.
//
// An event is a position in a stream, so recording one queues nothing. A wait is an operation that
// does nothing and runs only after the event's mark. Every mark points to something queued earlier,
// hence some operation is always ready while any is queued.

#include <algorithm>

#include "coppice/base/check.h"

#include "emulator_state.h"

namespace coppice::emulator {
namespace {

constexpr uint64_t kQueryStepsMax = 3;

}  // namespace

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
  if (!state->queue.empty()) retired_streams_.emplace(stream, std::move(state));
}

void Scheduler::Retire(std::unique_ptr<ExecState> exec) {
  if (exec->queued_launches == 0) return;
  ExecState* const key = exec.get();
  retired_execs_.emplace(key, std::move(exec));
}

bool Scheduler::IsComplete(Mark mark) const {
  if (mark.stream == nullptr) return true;
  const StreamState* stream = streams_.Find(mark.stream);
  if (stream == nullptr) {
    const auto retired = retired_streams_.find(mark.stream);
    if (retired == retired_streams_.end()) return true;
    stream = retired->second.get();
  }
  return stream->completed >= mark.position;
}

CuResult Scheduler::Enqueue(StreamState& stream, Mark after, std::variant<Work, GraphRun> body) {
  if (stream.queue.empty()) busy_.push_back(&stream);
  stream.queue.push_back({.after = after, .order = enqueued_++, .body = std::move(body)});
  ++stream.submitted;
  ++queued_;
  if (options_.eager_permille > 0 && Draw() % 1000 < static_cast<uint64_t>(options_.eager_permille))
    RunSome(1);
  return RunUntil([this] { return queued_ <= options_.queue_limit; });
}

CuResult Scheduler::WaitFor(Mark mark) {
  return RunUntil([this, &mark] { return IsComplete(mark); });
}

CuResult Scheduler::WaitForAll() {
  std::vector<Mark> ends;
  for (const StreamState* stream : busy_)
    ends.push_back(stream->end());
  for (const Mark& end : ends)
    WaitFor(end);
  return sticky_;
}

CuResult Scheduler::Query(Mark mark) {
  if (!IsComplete(mark)) RunSome(Draw() % (kQueryStepsMax + 1));
  if (sticky_ != CuResult::kSuccess) return sticky_;
  return IsComplete(mark) ? CuResult::kSuccess : CuResult::kNotReady;
}

template <typename Done>
CuResult Scheduler::RunUntil(Done done) {
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
  if (GraphRun* const run = std::get_if<GraphRun>(&operation.body)) {
    alive = RunNode(*run);
    if (alive && run->done == run->exec->nodes.size()) Finish(*stream);
  } else {
    alive = Run(std::get<Work>(operation.body));
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

// False if the work faulted, which is the end of the context.
bool Scheduler::Run(const Work& work) {
  const uint64_t draw = options_.sequential ? 0 : Draw();
  mutex_.unlock();
  std::optional<std::string> fault = Execute(work, draw);
  mutex_.lock();
  if (!fault.has_value()) return true;
  sticky_ = CuResult::kIllegalAddress;
  fault_ = *std::move(fault);
  return false;
}

// Runs the next node of a graph, if it has any.
bool Scheduler::RunNode(GraphRun& run) {
  const ExecState& exec = *run.exec;
  if (exec.nodes.empty()) return true;
  if (exec.is_chain) {
    ++nodes_executed_;
    return Run(exec.nodes[run.done++].work);
  }
  if (run.done == 0) {
    run.ready = exec.roots;
    run.unsatisfied.clear();
    for (const ExecState::Node& node : exec.nodes)
      run.unsatisfied.push_back(node.dependency_count);
  }
  // In sequential mode the least index, which is a topological order.
  const auto picked = options_.sequential
                          ? std::min_element(run.ready.begin(), run.ready.end())
                          : run.ready.begin() + static_cast<int64_t>(Draw() % run.ready.size());
  const ExecState::Node& node = exec.nodes[*picked];
  *picked = run.ready.back();
  run.ready.pop_back();
  ++nodes_executed_;
  if (!Run(node.work)) return false;
  ++run.done;
  for (const int successor : node.successors)
    if (--run.unsatisfied[successor] == 0) run.ready.push_back(successor);
  return true;
}

// Takes the first operation, which has run, off the queue.
void Scheduler::Finish(StreamState& stream) {
  if (const GraphRun* const run = std::get_if<GraphRun>(&stream.queue.front().body))
    if (--run->exec->queued_launches == 0) retired_execs_.erase(run->exec);
  stream.queue.pop_front();
  ++stream.completed;
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
  const EventState* const awaited = state.events.Find(event);
  if (waiting == nullptr || awaited == nullptr) return CuResult::kInvalidHandle;
  if (flags != 0) return CuResult::kInvalidValue;
  if (waiting->capture != nullptr || awaited->captured.has_value())
    return CaptureWait(state, *waiting, *awaited);
  return state.scheduler.Enqueue(*waiting, awaited->mark, Work(EmptyWork{}));
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
  *event = TheState().events.Insert(std::make_unique<EventState>());
  return CuResult::kSuccess;
}

CuResult EventDestroy(CuEvent event) {
  return TheState().events.Take(event) == nullptr ? CuResult::kInvalidHandle : CuResult::kSuccess;
}

CuResult EventRecord(CuEvent event, CuStream stream) {
  State& state = TheState();
  EventState* const recorded = state.events.Find(event);
  const StreamState* const source = state.scheduler.Find(stream);
  if (recorded == nullptr || source == nullptr) return CuResult::kInvalidHandle;
  if (source->capture != nullptr) return CaptureRecord(state, *source, *recorded);
  *recorded = {.mark = source->end(), .captured = std::nullopt};
  return CuResult::kSuccess;
}

CuResult EventQuery(CuEvent event) {
  State& state = TheState();
  const EventState* const found = state.events.Find(event);
  const CuResult result = CheckEventWait(state, found, EntryId::kEventQuery);
  return result == CuResult::kSuccess ? state.scheduler.Query(found->mark) : result;
}

CuResult EventSynchronize(CuEvent event) {
  State& state = TheState();
  const EventState* const found = state.events.Find(event);
  const CuResult result = CheckEventWait(state, found, EntryId::kEventSynchronize);
  return result == CuResult::kSuccess ? state.scheduler.WaitFor(found->mark) : result;
}

}  // namespace coppice::emulator
