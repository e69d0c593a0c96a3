// Eager runs, traces, plans and captures of one callable.

#include "graphs/recorder.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>

#include "coppice/allocator/plan.h"
#include "coppice/allocator/planner.h"
#include "coppice/base/status.h"
#include "coppice/runtime/graph.h"
#include "coppice/runtime/graph_memory.h"

#include "graphs/nvtx.h"
#include "graphs/tracer.h"

namespace coppice::internal {
namespace {

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

// Captures one run of the callable at the addresses of `plan`. In every outcome the capture is
// over.
absl::StatusOr<Recording> CaptureRun(Lane& lane,
                                     const RunRequest& request,
                                     const Trace& trace,
                                     PlannerResult planned,
                                     const RecordTarget& target,
                                     bool with_marks) {
  COPPICE_ASSIGN_OR_RETURN(const DeviceAddress base, target.reserve(planned.plan.height));
  COPPICE_ASSIGN_OR_RETURN(SegmentedCapture capture,
                           SegmentedCapture::Begin(lane.driver, request.stream));
  RecordContext context(lane, request, trace, planned.plan, base, capture, with_marks);
  absl::Status ran = target.prologue ? target.prologue(request.stream) : absl::OkStatus();
  if (ran.ok()) ran = request.program->callable(context);
  absl::StatusOr<std::vector<Tensor>> outputs =
      ran.ok() ? context.TakeOutputs() : absl::StatusOr<std::vector<Tensor>>(ran);
  if (ran.ok()) ran = outputs.status();
  absl::StatusOr<std::vector<SegmentedCapture::Piece>> pieces = capture.End();
  // A capture broken from outside makes later calls of the callable fail: that cause comes first.
  if (!pieces.ok()) return pieces.status();
  if (BlamesTheDevice(ran)) return ran;
  COPPICE_RETURN_IF_ERROR(context.Finish());
  if (!ran.ok()) {
    return FailedPrecondition("program '{}' failed under capture: {}", request.program->spec.name,
                              MessageOf(ran));
  }
  Graph::Topology topology = TopologyOf(*pieces);
  return Recording{.pieces = *std::move(pieces),
                   .topology = std::move(topology),
                   .marks = context.TakeMarks(),
                   .outputs = *std::move(outputs),
                   .planned = std::move(planned)};
}

// Appends the live regions, which stay where they are from the first step to the last.
void AppendLive(const std::vector<Region>& live, std::vector<Buffer>& buffers) {
  int64_t end = 1;
  for (const Buffer& buffer : buffers)
    end = std::max(end, buffer.lifetime.back().upper);
  for (const Region& region : live) {
    buffers.push_back({.lifetime = {{.lower = 0, .upper = end}},
                       .bytes = region.bytes,
                       .fixed_offset = region.offset});
  }
}

// The part of a chain's plan that `buffers` are, as a plan around the live regions.
absl::StatusOr<PlannerResult> PlanOfChain(std::vector<Buffer> buffers,
                                          const std::vector<Region>& live,
                                          const Plan& part) {
  PlannerResult planned{.plan = part, .method = "chain"};
  AppendLive(live, buffers);
  for (const Region& region : live)
    planned.plan.offsets.push_back(region.offset);
  planned.plan.height = 0;
  for (size_t i = 0; i < buffers.size(); ++i) {
    planned.plan.height = std::max(planned.plan.height, planned.plan.offsets[i] + buffers[i].bytes);
  }
  planned.bound = MaxLiveBytes(buffers);
  COPPICE_RETURN_IF_ERROR(ValidatePlan(buffers, planned.plan));
  return planned;
}

// The regions of a node: what it writes, and what its outputs keep.
void SetRegions(const Lane& lane, const Trace& trace, const Plan& plan, Node& node) {
  const std::vector<Buffer> buffers = BuffersOf(trace);
  for (size_t i = 0; i < buffers.size(); ++i)
    node.footprint.push_back({.offset = plan.offsets[i], .bytes = buffers[i].bytes});
  Normalize(node.footprint);
  node.top = node.footprint.empty() ? 0 : node.footprint.back().end();
  for (const Tensor& tensor : node.outputs.tensors) {
    if (const std::optional<Region> region = lane.RegionOf(tensor))
      node.output_regions.push_back(*region);
  }
  Normalize(node.output_regions);
}

absl::StatusOr<std::vector<Segment>> Instantiate(const Driver& driver,
                                                 CuStream upload_stream,
                                                 std::vector<SegmentedCapture::Piece> pieces) {
  const RelaxedCaptureScope relaxed(driver);
  std::vector<Segment> segments;
  for (SegmentedCapture::Piece& piece : pieces) {
    Segment& segment = segments.emplace_back();
    segment.step = std::move(piece.step);
    if (piece.topology.nodes.empty()) continue;
    COPPICE_ASSIGN_OR_RETURN(GraphExec exec, GraphExec::Instantiate(driver, piece.graph));
    COPPICE_RETURN_IF_ERROR(exec.Upload(upload_stream));
    segment.exec.emplace(std::move(exec));
  }
  return segments;
}

RecordTarget NodeWindow(Lane& lane, LaneLock lock) {
  return {.reserve = [&lane, lock](int64_t height) -> absl::StatusOr<DeviceAddress> {
    COPPICE_RETURN_IF_ERROR(lock == LaneLock::kHeld
                                ? lane.Reserve(WindowKind::kNodes, height)
                                : lane.pool.Reserve(lane.index, WindowKind::kNodes, height));
    return lane.node_base();
  }};
}

// Books what the graphs of these pieces are going to take.
absl::StatusOr<GraphCharge> ChargeFor(Lane& lane,
                                      const std::vector<SegmentedCapture::Piece>& pieces,
                                      LaneLock lock) {
  int64_t bytes = 0;
  for (const SegmentedCapture::Piece& piece : pieces) {
    if (piece.topology.nodes.empty()) continue;
    COPPICE_ASSIGN_OR_RETURN(const int64_t graph,
                             GraphMemoryModel::Documented().BytesOf(lane.driver, piece.topology));
    bytes += graph;
  }
  COPPICE_RETURN_IF_ERROR(lock == LaneLock::kHeld ? lane.Charge(MemoryKind::kGraphs, bytes)
                                                  : lane.pool.Charge(MemoryKind::kGraphs, bytes));
  return GraphCharge(lane.pool, bytes);
}

}  // namespace

std::vector<Buffer> BuffersOf(const Trace& trace) {
  std::vector<Buffer> buffers(static_cast<size_t>(trace.buffer_count));
  const auto end = static_cast<int64_t>(trace.events.size()) + 1;
  for (size_t step = 0; step < trace.events.size(); ++step) {
    const TraceEvent& event = trace.events[step];
    if (event.kind == TraceEvent::Kind::kBreak) continue;
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

// Outputs, which live to the end, go to the bottom, so that what a path keeps leaves one hole.
absl::StatusOr<PlannerResult> PlanAround(std::vector<Buffer> buffers,
                                         const std::vector<Region>& live) {
  int64_t end = 0;
  for (const Buffer& buffer : buffers)
    end = std::max(end, buffer.lifetime.back().upper);
  for (Buffer& buffer : buffers)
    buffer.low = buffer.lifetime.back().upper == end;
  AppendLive(live, buffers);
  return PlanBuffers(buffers);
}

absl::Status RunEagerly(Lane& lane,
                        const RunRequest& request,
                        Phase phase,
                        OutputTable& outputs,
                        std::vector<DeviceAddress>& allocations,
                        Trace* trace) {
  const NvtxRange range(phase == Phase::kWarmUp ? "warm_up" : "eager");
  EagerContext context(lane, request, phase, trace);
  COPPICE_RETURN_IF_ERROR(request.program->callable(context));
  COPPICE_ASSIGN_OR_RETURN(outputs.tensors, context.TakeOutputs());
  outputs.spec = &request.program->spec;
  context.KeepOutputs(allocations);
  return absl::OkStatus();
}

absl::StatusOr<KernelNodes> CaptureKernels(Lane& lane,
                                           const RunRequest& request,
                                           const Trace& trace,
                                           const PlannerResult& planned,
                                           const RecordTarget& target) {
  RunRequest varied = request;
  varied.resident_scalar = 0x5A5A5A5A5A5A5A5A;
  COPPICE_ASSIGN_OR_RETURN(const Recording again,
                           CaptureRun(lane, varied, trace, planned, target, /*with_marks=*/false));
  return KernelNodesOf(again.pieces);
}

// A chain is planned from its trace at once. A graph that forks is captured again to learn which
// nodes lie between which requests; if the plan is not valid along its edges, lifetimes are
// extended to the joins and the program is captured a last time.
absl::StatusOr<Recording> PlanAndCapture(Lane& lane,
                                         const RunRequest& request,
                                         const Trace& trace,
                                         const std::vector<Region>& live,
                                         const RecordTarget& target,
                                         bool audit,
                                         const Plan* chain_plan) {
  std::vector<Buffer> buffers = BuffersOf(trace);
  bool with_marks = false;
  for (int attempt = 0; attempt < 3; ++attempt) {
    const bool of_chain = attempt == 0 && chain_plan != nullptr;
    COPPICE_ASSIGN_OR_RETURN(PlannerResult planned, of_chain
                                                        ? PlanOfChain(buffers, live, *chain_plan)
                                                        : PlanAround(buffers, live));
    COPPICE_ASSIGN_OR_RETURN(
        Recording recording,
        CaptureRun(lane, request, trace, std::move(planned), target, with_marks));
    bool valid = recording.topology.IsChain();
    if (!valid && request.program->spec.one_stream) {
      return FailedPrecondition("program '{}' promised one stream, but its graph forks",
                                request.program->spec.name);
    }
    if (!valid && with_marks) {
      ForkedTrace forked = ForkedTraceOf(trace, recording.marks, recording.topology);
      buffers = forked.buffers;
      AppendLive(live, forked.buffers);
      valid = ValidatePlan(forked.buffers, recording.planned.plan, &forked.order).ok();
      if (!valid) COPPICE_RETURN_IF_ERROR(ExtendToJoins(forked.order, buffers));
    }
    if (valid && audit) {
      COPPICE_ASSIGN_OR_RETURN(recording.kernels, KernelNodesOf(recording.pieces));
      COPPICE_ASSIGN_OR_RETURN(const KernelNodes again,
                               CaptureKernels(lane, request, trace, recording.planned, target));
      COPPICE_RETURN_IF_ERROR(CompareKernels(request.program->spec.name, recording.kernels, again));
    }
    if (valid) {
      recording.buffers = std::move(buffers);
      return recording;
    }
    with_marks = true;
  }
  return FailedPrecondition("program '{}' forks differently each time it is captured",
                            request.program->spec.name);
}

absl::Status Record(Lane& lane,
                    const RunRequest& request,
                    const Trace& trace,
                    bool audit,
                    LaneLock lock,
                    const Plan* chain_plan,
                    Node& node) {
  const NvtxRange range("record");
  const auto start = std::chrono::steady_clock::now();
  const std::vector<Region> live =
      node.key.surroundings == nullptr ? std::vector<Region>() : node.key.surroundings->live;
  const RecordTarget target = NodeWindow(lane, lock);
  COPPICE_ASSIGN_OR_RETURN(Recording recording,
                           PlanAndCapture(lane, request, trace, live, target, audit, chain_plan));
  COPPICE_ASSIGN_OR_RETURN(GraphCharge charge, ChargeFor(lane, recording.pieces, lock));
  COPPICE_ASSIGN_OR_RETURN(node.segments,
                           Instantiate(lane.driver, request.stream, std::move(recording.pieces)));
  node.charge = std::move(charge);
  node.outputs = {.spec = &request.program->spec, .tensors = std::move(recording.outputs)};
  SetRegions(lane, trace, recording.planned.plan, node);
  if (audit) {
    node.audited = std::make_unique<Audited>();
    node.audited->kernels = std::move(recording.kernels);
    node.audited->planned = recording.planned;
  }
  node.info.recorded = true;
  node.info.plan_height = recording.planned.plan.height;
  node.info.live_bytes = recording.planned.bound;
  for (const Region& region : live)
    node.info.around_bytes += region.bytes;
  node.info.plan_method = recording.planned.method;
  node.info.graphs = static_cast<int64_t>(node.segments.size());
  node.info.graph_nodes = static_cast<int64_t>(recording.topology.nodes.size());
  node.info.exec_bytes = node.charge.bytes();
  node.info.record_ns =
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - start)
          .count();
  if (lane.tracer != nullptr)
    node.trace_number = lane.tracer->DefineNode(node, recording, lane.node_base());
  return absl::OkStatus();
}

absl::Status AuditAgain(Lane& lane, const RunRequest& request, const Trace& trace, Node& node) {
  COPPICE_ASSIGN_OR_RETURN(const KernelNodes again,
                           CaptureKernels(lane, request, trace, node.audited->planned,
                                          NodeWindow(lane, LaneLock::kHeld)));
  COPPICE_RETURN_IF_ERROR(CompareKernels(request.program->spec.name, node.audited->kernels, again));
  node.audited.reset();
  return absl::OkStatus();
}

}  // namespace coppice::internal
