// Eager runs, plans and captures of one callable.

#include "graphs/record/recorder.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <utility>

#include "coppice/allocator/plan.h"
#include "coppice/allocator/planner.h"
#include "coppice/base/status.h"
#include "coppice/runtime/graph.h"
#include "coppice/runtime/graph_memory.h"

#include "graphs/lane/nvtx.h"
#include "graphs/node/plan_around.h"
#include "graphs/record/build.h"
#include "graphs/record/dot.h"
#include "graphs/record/forked_script.h"
#include "graphs/record/planned_context.h"

namespace coppice::internal {
namespace {

// Why a capture did not end well. Where the callable broke it, `ran` says by which call.
absl::Status WhyBroken(const ProgramSpec& spec, const absl::Status& ran, absl::Status ended) {
  const std::optional<CuResult> result = CuResultOf(ran);
  if (ran.ok() || result == CuResult::kStreamCaptureInvalidated ||
      CuResultOf(ended) != CuResult::kStreamCaptureInvalidated) {
    return ended;
  }
  return WithFailureOf(ran, MakeError(ended.code(), "program '{}' broke its capture: {}; {}",
                                      spec.name, MessageOf(ran), MessageOf(ended)));
}

// A captured run, and what its graph had by each event.
struct MarkedCapture {
  Captured captured;
  NodeMarks marks;
};

// Captures one run of the callable at the addresses of `planned`. In every outcome the capture is
// over.
absl::StatusOr<MarkedCapture> CaptureRun(const CaptureRequest& request,
                                         const RunRequest& run,
                                         PlannerResult planned,
                                         const RecordTarget& target,
                                         bool with_marks) {
  COPPICE_ASSIGN_OR_RETURN(const DeviceAddress base, target.reserve(planned.plan.height));
  COPPICE_ASSIGN_OR_RETURN(SegmentedCapture capture,
                           SegmentedCapture::Begin(request.driver, run.stream));
  CaptureContext context(request.driver, request.memory, run, request.script, planned.plan, base,
                         capture, with_marks);
  absl::Status ran = target.prologue ? target.prologue(run.stream) : absl::OkStatus();
  if (ran.ok()) ran = run.program->Invoke(context);
  absl::StatusOr<std::vector<Tensor>> outputs =
      ran.ok() ? context.TakeOutputs() : absl::StatusOr<std::vector<Tensor>>(ran);
  if (ran.ok()) ran = outputs.status();
  absl::StatusOr<std::vector<SegmentedCapture::Piece>> pieces = capture.End();
  // A capture broken from outside makes later calls of the callable fail: that cause comes first.
  if (!pieces.ok()) return WhyBroken(run.program->spec, ran, pieces.status());
  if (BlamesTheDevice(ran)) return ran;
  COPPICE_RETURN_IF_ERROR(context.Finish(ran));
  Graph::Topology topology = TopologyOf(*pieces);
  return MarkedCapture{.captured = {.pieces = *std::move(pieces),
                                    .topology = std::move(topology),
                                    .outputs = *std::move(outputs),
                                    .planned = std::move(planned)},
                       .marks = context.TakeMarks()};
}

// The kernels of another capture, with other values of what is not in the key.
absl::StatusOr<KernelNodes> CaptureKernels(const CaptureRequest& request,
                                           const PlannerResult& planned,
                                           const RecordTarget& target) {
  RunRequest varied = request.run;
  varied.foreign_scalar = 0x5A5A5A5A5A5A5A5A;
  COPPICE_ASSIGN_OR_RETURN(const MarkedCapture again,
                           CaptureRun(request, varied, planned, target, /*with_marks=*/false));
  return KernelNodesOf(again.captured.pieces);
}

KernelsByPiece KernelsOf(std::span<const GraphDrawing> drawings) {
  KernelsByPiece kernels;
  for (const GraphDrawing& drawing : drawings) {
    auto& of_piece = kernels.emplace_back();
    for (const GraphNodeInfo& node : drawing.nodes)
      if (node.launch) of_piece.push_back(&*node.launch);
  }
  return kernels;
}

// What the node writes, its first `buffer_count` buffers, and what its outputs keep.
void SetRegions(const LaneMemory& memory,
                const Captured& captured,
                int buffer_count,
                NodeRecording& recording) {
  for (size_t i = 0; i < static_cast<size_t>(buffer_count); ++i)
    recording.footprint.push_back(
        {.offset = captured.planned.plan.offsets[i], .bytes = captured.buffers[i].bytes});
  Normalize(recording.footprint);
  OutputTable& outputs = recording.outputs;
  for (const Tensor& tensor : outputs.tensors) {
    if (const std::optional<Region> region = memory.RegionOf(tensor))
      recording.output_regions.push_back(*region);
  }
  if (recording.exact != nullptr) {
    // A path keeps the bucket's regions, so that its plans are the same whatever sizes calls have.
    // An output that is part of another one begins anywhere in that at other sizes.
    std::vector<Region> whole = recording.output_regions;
    JoinOverlapping(whole);
    for (const Tensor& tensor : outputs.tensors) {
      std::optional<Region>& kept = outputs.regions.emplace_back(memory.RegionOf(tensor));
      const auto holds = [&kept](const Region& region) { return Meets(*kept, {region}); };
      if (kept) kept = *std::ranges::find_if(whole, holds);
    }
  }
  Normalize(recording.output_regions);
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

// The plan that runs at exact sizes go by: a peer's, with its buffers in `captured`, or its own.
BucketPlan PlanOf(const RecordRequest& request, const CaptureRequest& capture, Captured& captured) {
  if (captured.peer != nullptr) {
    BucketPlan planned = captured.peer->planned;
    captured.planned.plan = planned.plan;
    captured.buffers = BuffersOf(planned.script);
    return planned;
  }
  return {.script = capture.script,
          .plan = captured.planned.plan,
          .base = request.memory.base(MemoryKind::kPlan)};
}

// Gives the node the executable of its family, which is made unless it has joined one.
absl::Status MakeExact(const RecordRequest& request,
                       BucketPlan planned,
                       BudgetCharge charge,
                       Captured& captured,
                       NodeRecording& recording) {
  if (captured.family.get() == nullptr && captured.topology.nodes.empty()) return absl::OkStatus();
  if (captured.family.get() == nullptr) {
    const RelaxedCaptureScope relaxed(request.driver);
    Graph& graph = captured.pieces.front().graph;
    COPPICE_ASSIGN_OR_RETURN(GraphExec exec, GraphExec::Instantiate(request.driver, graph));
    COPPICE_RETURN_IF_ERROR(exec.Upload(request.upload_stream));
    captured.family = FamilyUse(std::make_unique<Family>(std::move(graph), captured.topology,
                                                         std::move(captured.steps), std::move(exec),
                                                         std::move(charge)));
  }
  recording.segments.push_back({.exec = captured.family.get()->exec().Borrow()});
  recording.exact = std::make_unique<ExactSizes>(request.run.program->spec.symbols.size(),
                                                 std::move(captured.family), std::move(planned));
  return absl::OkStatus();
}

RecordTarget PlanWindow(LaneMemory& memory, Room& room) {
  return {.reserve = [&memory, &room](int64_t height) -> absl::StatusOr<DeviceAddress> {
    COPPICE_RETURN_IF_ERROR(memory.ReservePlan(height, room));
    return memory.base(MemoryKind::kPlan);
  }};
}

// What the graphs of these pieces are going to take: an estimate.
absl::StatusOr<int64_t> ExecBytesOf(const Driver& driver,
                                    const std::vector<SegmentedCapture::Piece>& pieces) {
  int64_t bytes = 0;
  for (const SegmentedCapture::Piece& piece : pieces) {
    if (piece.topology.nodes.empty()) continue;
    COPPICE_ASSIGN_OR_RETURN(const int64_t graph,
                             GraphMemoryModel::Documented().BytesOf(driver, piece.topology));
    bytes += graph;
  }
  return bytes;
}

int64_t NowBy(const std::function<int64_t()>& now_ns) {
  if (now_ns) return now_ns();
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

// Fills in what the recording tells people.
void Describe(const Captured& captured,
              const std::vector<Region>& live,
              const std::vector<Donation>& donations,
              NodeInfo& info) {
  info.recorded = true;
  info.plan_height = captured.planned.plan.height;
  info.live_bytes = captured.planned.bound;
  for (const Region& region : live)
    info.around_bytes += region.bytes;
  for (const Donation& donation : donations)
    info.donated_bytes += donation.region.bytes;
  info.plan_method = captured.planned.method;
  info.serial = captured.serial;
  info.graph_nodes = static_cast<int64_t>(captured.topology.nodes.size());
}

}  // namespace

absl::Status EagerOutputs::Run(const Driver& driver,
                               const RunRequest& request,
                               Phase phase,
                               AllocationScript* script) {
  const NvtxRange range(phase == Phase::kWarmUp ? "warm_up" : "eager");
  EagerContext context(driver, memory_, request, phase, script);
  COPPICE_RETURN_IF_ERROR(request.program->Invoke(context));
  COPPICE_ASSIGN_OR_RETURN(table_.tensors, context.TakeOutputs());
  table_.spec = &request.program->spec;
  context.KeepOutputs(allocations_);
  return absl::OkStatus();
}

// A chain is planned from its script at once. A graph that forks is captured again to learn which
// nodes lie between which requests; if the plan is not valid along its edges, lifetimes are
// extended to the joins and the program is captured a last time.
absl::StatusOr<Captured> PlanAndCapture(const CaptureRequest& request, const RecordTarget& target) {
  const ProgramSpec& spec = request.run.program->spec;
  std::vector<Buffer> buffers = BuffersOf(request.script);
  bool with_marks = false;
  for (int attempt = 0; attempt < 3; ++attempt) {
    const bool of_chain = attempt == 0 && request.chain_plan != nullptr;
    COPPICE_ASSIGN_OR_RETURN(PlannerResult planned, PlanFor(request, buffers, of_chain));
    COPPICE_ASSIGN_OR_RETURN(
        MarkedCapture marked,
        CaptureRun(request, request.run, std::move(planned), target, with_marks));
    Captured& captured = marked.captured;
    bool valid = captured.topology.IsChain();
    if (!valid && spec.one_stream) {
      return FailedPrecondition("program '{}' promised one stream, but its graph forks", spec.name);
    }
    if (!valid && with_marks) {
      ForkedScript forked = ForkedScriptOf(request.script, marked.marks, captured.topology);
      buffers = forked.buffers;
      AppendLive(request.live, forked.buffers);
      valid = ValidatePlan(forked.buffers, captured.planned.plan, &forked.order).ok();
      if (!valid) COPPICE_RETURN_IF_ERROR(ExtendToJoins(forked.order, buffers));
    }
    if (valid && request.audit) {
      COPPICE_ASSIGN_OR_RETURN(captured.kernels, KernelNodesOf(captured.pieces));
      COPPICE_ASSIGN_OR_RETURN(const KernelNodes again,
                               CaptureKernels(request, captured.planned, target));
      COPPICE_RETURN_IF_ERROR(CompareKernels(spec.name, captured.kernels, again));
    }
    if (valid) {
      captured.buffers = std::move(buffers);
      return std::move(captured);
    }
    with_marks = true;
  }
  return FailedPrecondition("program '{}' forks differently each time it is captured", spec.name);
}

absl::StatusOr<std::unique_ptr<Node>> Record(const RecordRequest& request, const NodeDraft& draft) {
  const NvtxRange range("record");
  const int64_t start = NowBy(request.now_ns);
  const Surroundings* const around = draft.key.surroundings;
  const std::vector<Region> live = around == nullptr ? std::vector<Region>() : around->live;
  AllocationScript script = ScriptOf(draft.bucket->script(), draft.layout);
  if (around != nullptr && !around->donated.empty()) {
    script.donations =
        DonationsOf(draft.bucket->script(), script, *request.run.program, draft.layout, *around);
  }
  const bool known = request.run.program->steps != nullptr;
  const bool audit = request.audit && !known;  // What is known depends on nothing else.
  const CaptureRequest capture{.driver = request.driver,
                               .memory = request.memory,
                               .run = request.run,
                               .script = std::move(script),
                               .live = live,
                               .chain_plan = request.chain_plan,
                               .audit = audit,
                               .peers = request.peers};
  const RecordTarget target = PlanWindow(request.memory, request.room);
  COPPICE_ASSIGN_OR_RETURN(Captured captured,
                           known ? PlanAndBuild(capture, target) : PlanAndCapture(capture, target));
  COPPICE_ASSIGN_OR_RETURN(const int64_t exec_bytes, ExecBytesOf(request.driver, captured.pieces));
  COPPICE_ASSIGN_OR_RETURN(BudgetCharge charge,
                           request.memory.Charge(MemoryKind::kGraphs, exec_bytes, request.room));
  std::vector<GraphDrawing> drawings;
  if (request.draw || request.tracer != nullptr) {
    COPPICE_ASSIGN_OR_RETURN(drawings, DrawingsOf(captured.pieces));
  }
  NodeDraft complete = draft;
  Describe(captured, live, capture.script.donations, complete.info);
  BucketPlan exact_plan = PlanOf(request, capture, captured);
  // What a library launches at other sizes is unknown.
  const bool exact = request.peers != nullptr && captured.steps.known();
  NodeRecording recording{.charge = exact ? BudgetCharge() : std::move(charge)};
  if (exact) {
    COPPICE_RETURN_IF_ERROR(
        MakeExact(request, std::move(exact_plan), std::move(charge), captured, recording));
  } else {
    COPPICE_ASSIGN_OR_RETURN(recording.segments, Instantiate(request.driver, request.upload_stream,
                                                             std::move(captured.pieces)));
  }
  recording.outputs = {.spec = &request.run.program->spec, .tensors = std::move(captured.outputs)};
  SetRegions(request.memory, captured, capture.script.buffer_count, recording);
  if (audit) {
    recording.audited = std::make_unique<Audited>();
    recording.audited->kernels = std::move(captured.kernels);
    recording.audited->planned = captured.planned;
    recording.audited->script = capture.script;
  }
  complete.info.record_ns = NowBy(request.now_ns) - start;
  complete.info.graphs = static_cast<int64_t>(recording.segments.size());
  complete.info.exec_bytes = exec_bytes;
  if (recording.exact != nullptr)
    complete.info.graph_nodes = static_cast<int64_t>(recording.exact->family().size());
  auto node = std::make_unique<Node>(std::move(complete), std::move(recording));
  const std::vector<std::string> labels = LabelsOf(capture.script, request.run.program->spec);
  const PlannedBuffers planned{.buffers = captured.buffers,
                               .labels = labels,
                               .plan = captured.planned.plan,
                               .base = request.memory.base(MemoryKind::kPlan)};
  if (request.draw) node->SetDrawing(DotOf(*node, drawings, planned));
  if (request.tracer != nullptr)
    node->SetTraceNumber(request.tracer->DefineNode(*node, KernelsOf(drawings), planned));
  return node;
}

absl::Status AuditAgain(const Driver& driver,
                        LaneMemory& memory,
                        const RunRequest& run,
                        Node& node) {
  const std::vector<Region> nothing;
  const CaptureRequest request{.driver = driver,
                               .memory = memory,
                               .run = run,
                               .script = node.audited()->script,
                               .live = nothing};
  const RecordTarget target = PlanWindow(memory, memory.room());
  COPPICE_ASSIGN_OR_RETURN(const KernelNodes again,
                           CaptureKernels(request, node.audited()->planned, target));
  COPPICE_RETURN_IF_ERROR(CompareKernels(run.program->spec.name, node.audited()->kernels, again));
  node.EndAudit();
  return absl::OkStatus();
}

}  // namespace coppice::internal
