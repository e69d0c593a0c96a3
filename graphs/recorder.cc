// Eager runs, traces, plans and captures of one callable.

#include "graphs/recorder.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>

#include "absl/cleanup/cleanup.h"

#include "coppice/allocator/plan.h"
#include "coppice/allocator/planner.h"
#include "coppice/base/status.h"
#include "coppice/runtime/graph.h"

#include "graphs/nvtx.h"
#include "graphs/staging_layout.h"

namespace coppice::internal {
namespace {

// What both kinds of run share: the view of the call, and the rule that each output is asked for
// once.
class RunContext : public CallContext {
 public:
  RunContext(const Driver& driver, const RunRequest& request, Phase phase, DeviceAddress parameters)
      : spec_(request.program->spec) {
    phase_ = phase;
    stream_ = request.stream;
    driver_ = &driver;
    extents_.assign(request.extents.begin(), request.extents.end());
    parameters_ = parameters;
    workspace_ = request.workspace;
    workspace_bytes_ = request.workspace_bytes;
    size_t copy = 0;
    size_t bound = 0;
    for (const InputSpec& input : spec_.inputs) {
      inputs_.push_back(
          input.role == InputRole::kStatic
              ? request.binding->inputs[bound++]
              : DenseTensor(request.staged[copy++].target, input.dtype, input.dims, extents_));
    }
    for (size_t i = 0; i < spec_.scalars.size(); ++i) {
      scalars_.push_back(spec_.scalars[i].device_resident ? 0 : request.scalars[i]);
    }
    outputs_.resize(spec_.outputs.size());
  }

  absl::StatusOr<Tensor> AllocateOutput(int index) final {
    if (index < 0 || index >= static_cast<int>(outputs_.size())) {
      return InvalidArgument("AllocateOutput: program '{}' has {} outputs, not an output {}",
                             spec_.name, outputs_.size(), index);
    }
    std::optional<Tensor>& output = outputs_[static_cast<size_t>(index)];
    if (output.has_value()) {
      return FailedPrecondition("AllocateOutput: output {} of program '{}' was asked for before",
                                index, spec_.name);
    }
    const OutputSpec& spec = spec_.outputs[static_cast<size_t>(index)];
    Tensor tensor = DenseTensor(0, spec.dtype, spec.dims, extents_);
    COPPICE_ASSIGN_OR_RETURN(tensor.data, AllocateBytes(RoundedBytes(tensor), index));
    output = tensor;
    return tensor;
  }

  absl::StatusOr<DeviceAddress> Allocate(int64_t bytes) final {
    if (bytes < 1) return InvalidArgument("Allocate: {} bytes; ask for at least 1", bytes);
    return AllocateBytes(AlignUp(bytes, kBufferAlignment), /*output=*/-1);
  }

  // The outputs, once the callable has returned. Errors: kFailedPrecondition if one is missing.
  absl::StatusOr<std::vector<Tensor>> TakeOutputs() const {
    std::vector<Tensor> tensors;
    for (size_t i = 0; i < outputs_.size(); ++i) {
      if (!outputs_[i].has_value()) {
        return FailedPrecondition("program '{}' returned without asking for output {} ('{}')",
                                  spec_.name, i, spec_.outputs[i].name);
      }
      tensors.push_back(*outputs_[i]);
    }
    return tensors;
  }

 protected:
  virtual absl::StatusOr<DeviceAddress> AllocateBytes(int64_t bytes, int output) = 0;

  const ProgramSpec& spec_;

 private:
  std::vector<std::optional<Tensor>> outputs_;
};

class EagerContext final : public RunContext {
 public:
  EagerContext(Lane& lane, const RunRequest& request, Phase phase, Trace* trace)
      : RunContext(lane.driver, request, phase, lane.pool.base(lane.index, WindowKind::kStaging)),
        lane_(lane),
        trace_(trace) {}

  // Temporaries die with the run, in stream order; so do outputs unless they are kept.
  ~EagerContext() override {
    for (const auto& [address, allocation] : live_) {
      if (!keep_outputs_ || allocation.output < 0) lane_.pool.FreeEager(lane_.index, address);
    }
    for (const DeviceAddress address : parked_)
      lane_.pool.FreeEager(lane_.index, address);
  }

  absl::Status Free(DeviceAddress address) override {
    const auto found = live_.find(address);
    if (found == live_.end() || found->second.output >= 0) {
      return InvalidArgument("Free: program '{}' has no live temporary at {:#x}", spec_.name,
                             address);
    }
    if (trace_ != nullptr) {
      trace_->events.push_back({.kind = TraceEvent::Kind::kFree, .buffer = found->second.buffer});
    }
    if (spec_.one_stream) {
      lane_.pool.FreeEager(lane_.index, address);
    } else {
      parked_.push_back(address);
    }
    live_.erase(found);
    return absl::OkStatus();
  }

  void KeepOutputs() { keep_outputs_ = true; }

 private:
  struct Allocation {
    int buffer = 0;
    int output = -1;
  };

  absl::StatusOr<DeviceAddress> AllocateBytes(int64_t bytes, int output) override {
    COPPICE_ASSIGN_OR_RETURN(const DeviceAddress address,
                             lane_.pool.AllocateEager(lane_.index, bytes));
    absl::Cleanup undo = [&] { lane_.pool.FreeEager(lane_.index, address); };
    live_[address] = {.buffer = buffer_count_, .output = output};
    std::move(undo).Cancel();
    if (trace_ != nullptr) {
      trace_->events.push_back(
          {.kind = output < 0 ? TraceEvent::Kind::kAllocate : TraceEvent::Kind::kOutput,
           .buffer = buffer_count_,
           .output = output,
           .bytes = bytes});
      trace_->buffer_count = buffer_count_ + 1;
    }
    ++buffer_count_;
    return address;
  }

  Lane& lane_;
  Trace* const trace_;
  std::unordered_map<DeviceAddress, Allocation> live_;
  std::vector<DeviceAddress> parked_;  // Freed, but a forked stream may still be using them.
  int buffer_count_ = 0;
  bool keep_outputs_ = false;
};

// Which nodes a capture had added by each event of the trace.
using NodeMarks = std::vector<std::vector<CuGraphNode>>;

class RecordContext final : public RunContext {
 public:
  // With `marks`, asks `capture` at every event for the nodes so far.
  RecordContext(Lane& lane,
                const RunRequest& request,
                const Node& node,
                const Plan& plan,
                const Capture* marked_capture)
      : RunContext(
            lane.driver, request, Phase::kRecord, lane.pool.base(lane.index, WindowKind::kStaging)),
        base_(lane.pool.base(lane.index, WindowKind::kNodes)),
        trace_(node.trace),
        plan_(plan),
        marked_capture_(marked_capture) {}

  absl::Status Free(DeviceAddress address) override {
    COPPICE_ASSIGN_OR_RETURN(const TraceEvent* event, Next(TraceEvent::Kind::kFree));
    if (AddressOf(*event) != address) return Depart("frees another temporary");
    return absl::OkStatus();
  }

  // OK if the callable made every request of its trace and no other.
  absl::Status Finish() const {
    if (!departure_.ok()) return departure_;
    if (cursor_ == trace_.events.size()) return absl::OkStatus();
    return FailedPrecondition("program '{}' made {} of the {} requests of its warm-up", spec_.name,
                              cursor_, trace_.events.size());
  }

  const NodeMarks& marks() const { return marks_; }

 private:
  DeviceAddress AddressOf(const TraceEvent& event) const {
    return base_ + static_cast<DeviceAddress>(plan_.offsets[static_cast<size_t>(event.buffer)]);
  }

  absl::Status Depart(const char* how) {
    departure_ = FailedPrecondition(
        "program '{}' {} at request {}, where its warm-up did otherwise; a program must make the "
        "same requests at equal extents",
        spec_.name, how, cursor_);
    return absl::Status(absl::StatusCode::kAborted, departure_.message());
  }

  // The next event of the trace if it is of `kind`.
  absl::StatusOr<const TraceEvent*> Next(TraceEvent::Kind kind) {
    if (marked_capture_ != nullptr) {
      COPPICE_ASSIGN_OR_RETURN(std::vector<CuGraphNode> nodes, marked_capture_->Nodes());
      marks_.push_back(std::move(nodes));
    }
    if (cursor_ == trace_.events.size()) return Depart("makes a request too many");
    if (trace_.events[cursor_].kind != kind) return Depart("makes another request");
    return &trace_.events[cursor_++];
  }

  absl::StatusOr<DeviceAddress> AllocateBytes(int64_t bytes, int output) override {
    COPPICE_ASSIGN_OR_RETURN(const TraceEvent* event, Next(output < 0 ? TraceEvent::Kind::kAllocate
                                                                      : TraceEvent::Kind::kOutput));
    if (event->bytes != bytes || event->output != output) return Depart("asks for another size");
    return AddressOf(*event);
  }

  const DeviceAddress base_;
  const Trace& trace_;
  const Plan& plan_;
  const Capture* const marked_capture_;
  NodeMarks marks_;
  size_t cursor_ = 0;
  absl::Status departure_;
};

// Lifetimes in units of trace events: right where the graph is a chain, because a buffer's kernels
// are launched between its allocation and its release.
std::vector<Buffer> BuffersOf(const Trace& trace) {
  std::vector<Buffer> buffers(static_cast<size_t>(trace.buffer_count));
  const auto end = static_cast<int64_t>(trace.events.size()) + 1;
  for (size_t step = 0; step < trace.events.size(); ++step) {
    const TraceEvent& event = trace.events[step];
    Buffer& buffer = buffers[static_cast<size_t>(event.buffer)];
    if (event.kind == TraceEvent::Kind::kFree) {
      buffer.lifetime[0].upper = static_cast<int64_t>(step);
    } else {
      buffer.bytes = event.bytes;
      buffer.lifetime = {{.lower = static_cast<int64_t>(step), .upper = end}};
    }
  }
  return buffers;
}

// The same lifetimes in units of graph nodes, for a graph that forks, and the order of the nodes.
struct ForkedTrace {
  std::vector<Buffer> buffers;
  StepOrder order;
};

// Numbers the nodes by the trace event after which they appeared, which is a topological order
// because edges only ever lead to later captured nodes. One step after all of them stands for the
// call's end, when outputs are read.
ForkedTrace ForkedTraceOf(const Trace& trace,
                          const NodeMarks& marks,
                          const Graph::Topology& topology) {
  const size_t count = topology.nodes.size();
  std::unordered_map<CuGraphNode, size_t> segment_of;
  for (size_t event = 0; event < marks.size(); ++event) {
    for (const CuGraphNode node : marks[event])
      segment_of.try_emplace(node, event);
  }
  std::vector<size_t> segments(count);
  for (size_t i = 0; i < count; ++i) {
    const auto found = segment_of.find(topology.nodes[i]);
    segments[i] = found == segment_of.end() ? marks.size() : found->second;
  }
  // Predecessors first, and among the ready the earliest captured: an edge never leads to an
  // earlier segment, so the steps come out sorted by segment.
  std::vector<int> waiting(count, 0);
  std::vector<std::vector<size_t>> successors(count);
  for (const GraphEdge& edge : topology.edges) {
    successors[static_cast<size_t>(edge.from)].push_back(static_cast<size_t>(edge.to));
    ++waiting[static_cast<size_t>(edge.to)];
  }
  std::set<std::pair<size_t, size_t>> ready;  // (segment, node)
  for (size_t i = 0; i < count; ++i) {
    if (waiting[i] == 0) ready.emplace(segments[i], i);
  }
  std::vector<size_t> by_step;
  while (!ready.empty()) {
    const size_t node = ready.begin()->second;
    ready.erase(ready.begin());
    by_step.push_back(node);
    for (const size_t next : successors[node]) {
      if (--waiting[next] == 0) ready.emplace(segments[next], next);
    }
  }
  std::vector<int64_t> step_of(count);
  for (size_t step = 0; step < count; ++step)
    step_of[by_step[step]] = static_cast<int64_t>(step);

  ForkedTrace forked;
  const auto end = static_cast<int64_t>(count);
  forked.order.step_count = end + 1;
  for (const GraphEdge& edge : topology.edges) {
    forked.order.edges.emplace_back(step_of[static_cast<size_t>(edge.from)],
                                    step_of[static_cast<size_t>(edge.to)]);
  }
  for (int64_t step = 0; step < end; ++step)
    forked.order.edges.emplace_back(step, end);

  // A node of segment s was captured between the events s - 1 and s.
  const auto steps_before = [&](int64_t event) {
    return std::partition_point(
               by_step.begin(), by_step.end(),
               [&](size_t node) { return static_cast<int64_t>(segments[node]) <= event; }) -
           by_step.begin();
  };
  forked.buffers = BuffersOf(trace);
  for (Buffer& buffer : forked.buffers) {
    Interval& life = buffer.lifetime[0];
    const bool to_end = life.upper > static_cast<int64_t>(trace.events.size());
    const int64_t lower = steps_before(life.lower);
    const int64_t upper = to_end ? end + 1 : steps_before(life.upper);
    life = {.lower = lower, .upper = std::max(upper, lower + 1)};
  }
  return forked;
}

// True for a callable's failure under capture that says nothing about the program: memory may be
// there next time, and after a sticky error nothing works.
bool BlamesTheDevice(const absl::Status& ran) {
  const std::optional<CuResult> result = CuResultOf(ran);
  return result.has_value() && (*result == CuResult::kOutOfMemory || IsSticky(*result));
}

struct Recording {
  Graph graph;
  Graph::Topology topology;
  NodeMarks marks;
  std::vector<Tensor> outputs;
};

// Captures one run of the callable with the addresses of `plan`. In every outcome the capture is
// over.
absl::StatusOr<Recording> CaptureRun(
    Lane& lane, const RunRequest& request, const Node& node, const Plan& plan, bool with_marks) {
  COPPICE_ASSIGN_OR_RETURN(Capture capture, Capture::Begin(lane.driver, request.stream));
  RecordContext context(lane, request, node, plan, with_marks ? &capture : nullptr);
  const absl::Status ran = request.program->callable(context);
  absl::StatusOr<Graph> graph = capture.End();
  // A capture broken from outside makes later calls of the callable fail: that cause comes first.
  if (!graph.ok()) return graph.status();
  if (BlamesTheDevice(ran)) return ran;
  COPPICE_RETURN_IF_ERROR(context.Finish());
  if (!ran.ok()) {
    return FailedPrecondition("program '{}' failed under capture: {}", request.program->spec.name,
                              MessageOf(ran));
  }
  COPPICE_ASSIGN_OR_RETURN(std::vector<Tensor> outputs, context.TakeOutputs());
  COPPICE_ASSIGN_OR_RETURN(Graph::Topology topology, graph->GetTopology());
  return Recording{.graph = *std::move(graph),
                   .topology = std::move(topology),
                   .marks = context.marks(),
                   .outputs = std::move(outputs)};
}

struct PlannedRecording {
  Recording recording;
  PlannerResult planned;
};

// A chain is planned from its trace at once. A graph that forks is captured again to learn which
// nodes lie between which requests; if the plan is not valid along its edges, lifetimes are
// extended to the joins and the program is captured a last time.
absl::StatusOr<PlannedRecording> PlanAndCapture(Lane& lane,
                                                const RunRequest& request,
                                                const Node& node) {
  std::vector<Buffer> buffers = BuffersOf(node.trace);
  bool with_marks = false;
  for (int attempt = 0; attempt < 3; ++attempt) {
    COPPICE_ASSIGN_OR_RETURN(PlannerResult planned, PlanBuffers(buffers));
    COPPICE_RETURN_IF_ERROR(lane.pool.Reserve(lane.index, WindowKind::kNodes, planned.plan.height));
    COPPICE_ASSIGN_OR_RETURN(Recording recording,
                             CaptureRun(lane, request, node, planned.plan, with_marks));
    if (recording.topology.IsChain()) {
      return PlannedRecording{.recording = std::move(recording), .planned = std::move(planned)};
    }
    if (request.program->spec.one_stream) {
      return FailedPrecondition("program '{}' promised one stream, but its graph forks",
                                request.program->spec.name);
    }
    if (with_marks) {
      ForkedTrace forked = ForkedTraceOf(node.trace, recording.marks, recording.topology);
      if (ValidatePlan(forked.buffers, planned.plan, &forked.order).ok()) {
        return PlannedRecording{.recording = std::move(recording), .planned = std::move(planned)};
      }
      COPPICE_RETURN_IF_ERROR(ExtendToJoins(forked.order, forked.buffers));
      buffers = std::move(forked.buffers);
    }
    with_marks = true;
  }
  return FailedPrecondition("program '{}' forks differently each time it is captured",
                            request.program->spec.name);
}

}  // namespace

absl::Status RunEagerly(
    Lane& lane, const RunRequest& request, Phase phase, OutputTable& outputs, Trace* trace) {
  const NvtxRange range(phase == Phase::kWarmUp ? "warm_up" : "eager");
  EagerContext context(lane, request, phase, trace);
  COPPICE_RETURN_IF_ERROR(request.program->callable(context));
  COPPICE_ASSIGN_OR_RETURN(outputs.tensors, context.TakeOutputs());
  outputs.spec = &request.program->spec;
  context.KeepOutputs();
  return absl::OkStatus();
}

absl::Status Record(Lane& lane, const RunRequest& request, Node& node) {
  const NvtxRange range("record");
  const auto start = std::chrono::steady_clock::now();
  RunRequest captured = request;
  captured.stream = lane.own_stream.handle();
  COPPICE_ASSIGN_OR_RETURN(PlannedRecording planned, PlanAndCapture(lane, captured, node));
  absl::StatusOr<GraphExec> exec = [&] {
    const RelaxedCaptureScope relaxed(lane.driver);
    return GraphExec::Instantiate(lane.driver, planned.recording.graph);
  }();
  if (!exec.ok()) return exec.status();
  COPPICE_RETURN_IF_ERROR(exec->Upload(request.stream));

  node.exec.emplace(*std::move(exec));
  node.outputs = {.spec = &request.program->spec, .tensors = std::move(planned.recording.outputs)};
  node.state = Node::State::kRecorded;
  node.info.recorded = true;
  node.info.plan_height = planned.planned.plan.height;
  node.info.live_bytes = planned.planned.bound;
  node.info.plan_method = planned.planned.method;
  node.info.graph_nodes = static_cast<int64_t>(planned.recording.topology.nodes.size());
  node.info.record_ns =
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - start)
          .count();
  return absl::OkStatus();
}

}  // namespace coppice::internal
