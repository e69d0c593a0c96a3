// The two runs of a source without a stream: for its requests, and for its nodes.

#include "graphs/record/build.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/container/btree_map.h"

#include "coppice/base/status.h"
#include "coppice/runtime/stream.h"

#include "graphs/node/input_layout.h"
#include "graphs/node/plan_around.h"
#include "graphs/program/step_source.h"
#include "graphs/record/planned_context.h"
#include "graphs/record/sized_run.h"
#include "graphs/record/used_parts.h"
#include "graphs/steps/graph_builder.h"

namespace coppice::internal {
namespace {

// What a source can ask for that steps cannot do.
absl::Status RefuseBreak(const ProgramSpec& spec) {
  return FailedPrecondition("program '{}' breaks between its steps, but steps must form one graph",
                            spec.name);
}

// Where a run is that nobody executes: addresses that tell buffers apart, and are never used.
constexpr DeviceAddress kNowhere = DeviceAddress{1} << 56;

// Notes what a run asks for, and drops its steps.
class ScriptContext final : public RunContext, public StepSink {
 public:
  ScriptContext(const Driver& driver, LaneMemory& memory, const RunRequest& request)
      : RunContext(driver, memory, request, Phase::kWarmUp) {}

  AllocationScript TakeScript() { return std::move(script_); }

  absl::Status Free(DeviceAddress address) override {
    const auto found = live_.find(address);
    if (found == live_.end()) {
      const int input = TakeInputToFree(address);
      if (input < 0)
        return InvalidArgument(
            "Free: program '{}' has no live temporary and no copied input at {:#x}", spec_.name,
            address);
      script_.events.push_back({.kind = ScriptEvent::Kind::kFreeInput, .input = input});
      return absl::OkStatus();
    }
    script_.events.push_back({.kind = ScriptEvent::Kind::kFree, .buffer = found->second});
    live_.erase(found);
    return absl::OkStatus();
  }
  absl::Status Break(EagerStep /*step*/) override {
    script_.events.push_back({.kind = ScriptEvent::Kind::kBreak});
    return absl::OkStatus();
  }

  bool drops() const override { return true; }
  absl::Status Launch(const KernelLaunch&, std::span<const Touch>) override {
    return absl::OkStatus();
  }
  absl::Status Fill(const MemoryFill&, std::span<const Touch>) override { return absl::OkStatus(); }
  absl::Status Copy(const MemoryCopy&, std::span<const Touch>) override { return absl::OkStatus(); }
  absl::Status Work(LibraryWork, std::span<const Touch>) override { return absl::OkStatus(); }

 private:
  absl::StatusOr<DeviceAddress> AllocateBytes(const ScriptEvent& request) override {
    const DeviceAddress address = next_;
    next_ += static_cast<DeviceAddress>(request.bytes);
    if (request.output < 0) live_[address] = script_.buffer_count;
    NoteAlias(request);
    return address;
  }
  void NoteAlias(const ScriptEvent& alias) override {
    ScriptEvent event = alias;
    event.buffer = script_.buffer_count++;
    script_.events.push_back(event);
  }
  absl::Status CopyBytes(DeviceAddress, DeviceAddress, int64_t) override {
    return absl::OkStatus();
  }

  AllocationScript script_;
  DeviceAddress next_ = kNowhere;
  absl::btree_map<DeviceAddress, int> live_;  // Temporaries, and which buffer each is.
};

// Adds a run's steps to a graph, and keeps which of them use which buffer.
class BuildContext final : public PlannedContext, public StepSink {
 public:
  BuildContext(const CaptureRequest& request,
               const std::vector<Buffer>& buffers,
               const Plan& plan,
               DeviceAddress base,
               GraphBuilder& builder)
      : PlannedContext(request.driver, request.memory, request.run, request.script, plan, base),
        buffers_(buffers),
        plan_(plan),
        base_(base),
        builder_(builder) {}

  // Where copies go that are none of the steps; it hands them on to this.
  void SetCopies(StepSink& copies) { copies_ = &copies; }

  // In the order of buffers and then of nodes; some are there twice.
  std::vector<Use> TakeUses() {
    std::ranges::sort(uses_);
    return std::move(uses_);
  }

  absl::Status Break(EagerStep /*step*/) override { return RefuseBreak(spec_); }

  absl::Status Launch(const KernelLaunch& launch, std::span<const Touch> touched) override {
    NoteUses(touched);
    return builder_.Launch(launch, touched);
  }
  absl::Status Fill(const MemoryFill& fill, std::span<const Touch> touched) override {
    NoteUses(touched);
    return builder_.Fill(fill, touched);
  }
  absl::Status Copy(const MemoryCopy& copy, std::span<const Touch> touched) override {
    NoteUses(touched);
    return builder_.Copy(copy, touched);
  }
  absl::Status Work(LibraryWork work, std::span<const Touch> touched) override {
    NoteUses(touched);
    return builder_.Work(work, touched);
  }

 private:
  absl::Status Reach() override { return absl::OkStatus(); }

  void Note(const ScriptEvent& event) override {
    switch (event.kind) {
      case ScriptEvent::Kind::kAllocate:
      case ScriptEvent::Kind::kOutput:
        live_[AddressOf(event)] = event.buffer;
        break;
      case ScriptEvent::Kind::kFree:
        live_.erase(AddressOf(event));
        break;
      default:
        break;
    }
  }

  absl::Status CopyBytes(DeviceAddress target, DeviceAddress source, int64_t bytes) override {
    return program_.steps->Copy({.target = target, .source = source, .bytes = bytes}, *copies_);
  }

  // Of what is live at the moment: the planned buffer that holds `address`, or the donation; -1 for
  // what was not planned.
  int64_t BufferAt(DeviceAddress address) const {
    auto found = live_.upper_bound(address);
    if (found != live_.begin()) {
      --found;
      const Buffer& buffer = buffers_[static_cast<size_t>(found->second)];
      if (address < found->first + static_cast<DeviceAddress>(buffer.bytes)) return found->second;
    }
    for (size_t i = static_cast<size_t>(script().buffer_count); i < buffers_.size(); ++i) {
      const DeviceAddress begin = base_ + static_cast<DeviceAddress>(*buffers_[i].fixed_offset);
      if (address >= begin && address - begin < static_cast<DeviceAddress>(buffers_[i].bytes) &&
          event() <= buffers_[i].lifetime[0].upper) {
        return static_cast<int64_t>(i);
      }
    }
    return -1;
  }

  void NoteUses(std::span<const Touch> touched) {
    for (const Touch& touch : touched) {
      const int64_t buffer = touch.bytes > 0 ? BufferAt(touch.begin) : -1;
      if (buffer < 0) continue;
      const auto i = static_cast<size_t>(buffer);
      const int64_t begin = static_cast<int64_t>(touch.begin - base_) - plan_.offsets[i];
      uses_.push_back({.buffer = buffer,
                       .node = builder_.node_count(),
                       .begin = begin,
                       .end = std::min(begin + touch.bytes, buffers_[i].bytes)});
    }
  }

  const std::vector<Buffer>& buffers_;
  const Plan& plan_;
  const DeviceAddress base_;
  GraphBuilder& builder_;
  StepSink* copies_ = this;
  absl::btree_map<DeviceAddress, int> live_;
  std::vector<Use> uses_;
};

// Checks that bytes which buffers share are used by one after the other along the edges. A step
// behind all nodes stands for the call's end, when outputs are read.
absl::Status ValidateBuilt(const CaptureRequest& request,
                           const Captured& captured,
                           std::span<const Use> uses) {
  const auto end = static_cast<int64_t>(captured.topology.nodes.size());
  StepOrder order{.step_count = end + 1};
  for (const GraphEdge& edge : captured.topology.edges)
    order.edges.emplace_back(edge.from, edge.to);
  for (int64_t node = 0; node < end; ++node)
    order.edges.emplace_back(node, end);
  std::vector<Buffer> used;
  Plan plan;
  const auto add = [&](Buffer buffer, int64_t offset) {
    plan.offsets.push_back(offset);
    plan.height = std::max(plan.height, offset + buffer.bytes);
    used.push_back(std::move(buffer));
  };
  for (size_t i = 0; i < captured.buffers.size(); ++i) {
    const Buffer& buffer = captured.buffers[i];
    const auto count =
        std::ranges::find_if(
            uses, [i](const Use& use) { return use.buffer != static_cast<int64_t>(i); }) -
        uses.begin();
    const bool lasts =
        buffer.lifetime[0].upper > static_cast<int64_t>(request.script.events.size());
    for (UsedPart& part : UsedPartsOf(buffer.bytes, uses.first(static_cast<size_t>(count)),
                                      lasts ? std::optional(end) : std::nullopt)) {
      add({.lifetime = std::move(part.steps), .bytes = part.end - part.begin, .alignment = 1},
          captured.planned.plan.offsets[i] + part.begin);
    }
    uses = uses.subspan(static_cast<size_t>(count));
  }
  for (const Region& region : request.live) {
    add({.lifetime = {{.lower = 0, .upper = end + 1}},
         .bytes = region.bytes,
         .fixed_offset = region.offset},
        region.offset);
  }
  return ValidatePlan(used, plan, &order);
}

// Makes the graph of what is planned in `captured`, from `base` on, and completes it. Returns
// whether plan and edges fit: what ValidateBuilt says.
absl::StatusOr<absl::Status> Build(const CaptureRequest& request,
                                   DeviceAddress base,
                                   NodeOrder node_order,
                                   Captured& captured) {
  COPPICE_ASSIGN_OR_RETURN(GraphBuilder builder,
                           GraphBuilder::Create(request.driver, request.run.stream, node_order));
  BuildContext context(request, captured.buffers, captured.planned.plan, base, builder);
  HeldSteps held(context);
  StepSink& sink = request.peers == nullptr ? static_cast<StepSink&>(context) : held;
  context.SetCopies(sink);
  absl::Status ran = request.run.program->steps->Run(context, sink);
  if (ran.ok()) {
    absl::StatusOr<std::vector<Tensor>> outputs = context.TakeOutputs();
    ran = outputs.status();
    if (ran.ok()) captured.outputs = *std::move(outputs);
  }
  if (BlamesTheDevice(ran) || builder.missed_work()) return ran;
  COPPICE_RETURN_IF_ERROR(context.Finish(ran));
  captured.topology = builder.TakeTopology();
  captured.steps = held.Take();
  captured.serial = node_order == NodeOrder::kSerial;
  absl::Status valid = ValidateBuilt(request, captured, context.TakeUses());
  if (valid.ok())
    captured.pieces.push_back({.graph = builder.TakeGraph(), .topology = captured.topology});
  return valid;
}

// The script of a run with this layout, which executes nothing.
absl::StatusOr<AllocationScript> ScriptAt(const InputLayout& layout,
                                          const Driver& driver,
                                          LaneMemory& memory,
                                          const Program& program,
                                          std::span<const int64_t> extents,
                                          std::span<const int64_t> scalars,
                                          int64_t workspace_bytes) {
  const bool works = program.steps == nullptr && workspace_bytes > 0;
  const RunRequest run{.program = &program,
                       .layout = &layout,
                       .extents = extents.first(program.layout.extent_count),
                       .scalars = scalars,
                       .workspace = works ? kNowhere / 4 : 0,
                       .workspace_bytes = works ? workspace_bytes : 0};
  ScriptContext context(driver, memory, run);
  COPPICE_RETURN_IF_ERROR(program.steps == nullptr ? program.InvokeDry(context)
                                                   : program.steps->Run(context, context));
  COPPICE_RETURN_IF_ERROR(context.TakeOutputs().status());
  return context.TakeScript();
}

// All inputs staged, below what the run allocates.
InputLayout StagedNowhere(const Program& program, std::span<const int64_t> extents) {
  return LayOutNowhere(program, extents, kNowhere / 2);
}

// The outputs of the run, if the family has its steps, and this plan room for them.
absl::StatusOr<std::optional<std::vector<Tensor>>> OutputsIf(const CaptureRequest& request,
                                                             const Family& family,
                                                             const BucketPlan& planned) {
  const VariantChoice variants =
      request.run.program->steps->variants().At(request.run.extents, request.run.scalars);
  absl::StatusOr<SizedSteps> steps = StepsOf({.driver = request.driver,
                                              .memory = request.memory,
                                              .run = request.run,
                                              .variants = variants,
                                              .planned = planned},
                                             family);
  if (absl::IsOutOfRange(steps.status())) return std::nullopt;
  COPPICE_RETURN_IF_ERROR(steps.status());
  return std::move(steps->outputs);
}

// Whether a peer has the executable for what is planned in `captured`, and completes it if so. The
// peer's own plan serves as well where it is larger: its memory is there, and the order of its
// nodes is right for it.
absl::StatusOr<bool> Join(const CaptureRequest& request,
                          const RecordTarget& target,
                          Captured& captured) {
  const auto join = [&](const ExactPeer& peer, std::vector<Tensor> outputs) {
    captured.outputs = std::move(outputs);
    captured.family = FamilyUse::Another(*peer.family.get());
  };
  for (const ExactPeer& peer : *request.peers) {
    COPPICE_ASSIGN_OR_RETURN(std::optional<std::vector<Tensor>> outputs,
                             OutputsIf(request, *peer.family.get(), peer.planned));
    if (!outputs.has_value()) continue;
    COPPICE_RETURN_IF_ERROR(target.reserve(peer.planned.plan.height).status());
    join(peer, *std::move(outputs));
    captured.peer = &peer;
    return true;
  }
  COPPICE_ASSIGN_OR_RETURN(const DeviceAddress base, target.reserve(captured.planned.plan.height));
  const BucketPlan own{.script = request.script, .plan = captured.planned.plan, .base = base};
  for (const ExactPeer& peer : *request.peers) {
    COPPICE_ASSIGN_OR_RETURN(std::optional<std::vector<Tensor>> outputs,
                             OutputsIf(request, *peer.family.get(), own));
    if (!outputs.has_value()) continue;
    join(peer, *std::move(outputs));
    return true;
  }
  return false;
}

}  // namespace

absl::StatusOr<AllocationScript> ScriptOfSteps(const Driver& driver,
                                               LaneMemory& memory,
                                               const Program& program,
                                               std::span<const int64_t> extents,
                                               std::span<const int64_t> scalars,
                                               int64_t workspace_bytes) {
  return ScriptAt(StagedNowhere(program, extents), driver, memory, program, extents, scalars,
                  workspace_bytes);
}

absl::StatusOr<PlannerResult> PlanOfSteps(const Driver& driver,
                                          LaneMemory& memory,
                                          const Program& program,
                                          std::span<const int64_t> extents,
                                          std::span<const int64_t> scalars,
                                          int64_t workspace_bytes) {
  const InputLayout staged = StagedNowhere(program, extents);
  COPPICE_ASSIGN_OR_RETURN(
      const AllocationScript script,
      ScriptAt(staged, driver, memory, program, extents, scalars, workspace_bytes));
  return PlanAround(BuffersOf(ScriptOf(script, staged)), /*live=*/{});
}

absl::StatusOr<Captured> PlanAndBuild(const CaptureRequest& request, const RecordTarget& target) {
  Captured captured{.buffers = BuffersOf(request.script)};
  COPPICE_ASSIGN_OR_RETURN(captured.planned, PlanFor(request, captured.buffers,
                                                     /*of_chain=*/request.chain_plan != nullptr));
  if (request.peers != nullptr) {
    COPPICE_ASSIGN_OR_RETURN(const bool joined, Join(request, target, captured));
    if (joined) return captured;
  }
  COPPICE_ASSIGN_OR_RETURN(const DeviceAddress base, target.reserve(captured.planned.plan.height));
  const RelaxedCaptureScope relaxed(request.driver);
  COPPICE_ASSIGN_OR_RETURN(absl::Status valid, Build(request, base, NodeOrder::kByBytes, captured));
  // In series the plan is right for any edges: its lifetimes do not meet in time.
  if (!valid.ok()) {
    COPPICE_ASSIGN_OR_RETURN(valid, Build(request, base, NodeOrder::kSerial, captured));
  }
  COPPICE_RETURN_IF_ERROR(valid);
  return captured;
}

}  // namespace coppice::internal
