// Runs without a graph.

#include "graphs/call/eager.h"

#include <utility>

#include "coppice/base/status.h"

#include "graphs/call/deliver.h"
#include "graphs/call/flight.h"
#include "graphs/call/stage.h"
#include "graphs/record/build.h"
#include "graphs/record/recorder.h"

namespace coppice::internal {

RunRequest RunRequestOf(const SessionParts& parts,
                        const Call& call,
                        std::span<const int64_t> extents,
                        const InputLayout& layout,
                        CuStream stream) {
  RunRequest request{.program = call.program,
                     .layout = &layout,
                     .extents = extents.first(call.program->layout.extent_count),
                     .scalars = call.scalars,
                     .stream = stream,
                     .staging = parts.staging.get()};
  request.workspace_bytes = parts.options.memory.workspace_bytes;
  if (request.workspace_bytes > 0)
    request.workspace = parts.lane(call.lane).memory().base(MemoryKind::kWorkspace);
  return request;
}

absl::Status ReserveStaging(const Program& program, int64_t bytes, Lane& lane) {
  absl::Status status = lane.memory().Reserve(MemoryKind::kStaging, bytes);
  if (status.code() != absl::StatusCode::kOutOfRange) return status;
  return MakeError(absl::StatusCode::kResourceExhausted,
                   "Session::Run: the staged inputs of program '{}' do not fit: {}",
                   program.spec.name, MessageOf(status));
}

bool MayRunUnpadded(const SessionParts& parts, const absl::Status& reserved, Lane& lane) {
  if (reserved.code() != absl::StatusCode::kResourceExhausted || parts.options.ranks.vote)
    return false;
  return !lane.memory().room().refused() || parts.options.memory.on_budget != OnLimit::kError;
}

LayoutBases BasesOf(Lane& lane) {
  return {.staging = lane.memory().base(MemoryKind::kStaging),
          .plan = lane.memory().base(MemoryKind::kPlan)};
}

NodeInfo InfoOf(const Request& request, const Lane& lane) {
  const ProgramSpec& spec = request.call.program->spec;
  const auto begin = request.shape.padded.begin();
  return {.program = spec.name,
          .variant = spec.variant,
          .bucket = {begin, begin + static_cast<ptrdiff_t>(spec.symbols.size())},
          .lane = lane.index};
}

Bucket& BucketFor(const Request& request, Lane& lane) {
  const Program& program = *request.call.program;
  BucketKey key;
  SetBucketKey(request.call, request.shape, key);
  Bucket& bucket = lane.nodes().Of(program).BucketFor(key);
  if (!bucket.described()) {
    NodeInfo info = InfoOf(request, lane);
    const auto scalars = std::span(key.words).first(static_cast<size_t>(key.word_count));
    const int32_t number =
        lane.tracer == nullptr
            ? -1
            : lane.tracer->DefineBucket(program.place.trace_number, info,
                                        scalars.subspan(program.spec.symbols.size()));
    bucket.Describe(std::move(info), number);
  }
  return bucket;
}

absl::Status LearnFromSteps(const SessionParts& parts,
                            const Request& request,
                            Lane& lane,
                            Bucket& bucket) {
  const Program& program = *request.call.program;
  if (!AreRequestsKnown(program, &bucket) || bucket.warmups() > 0) return absl::OkStatus();
  // From here on they stay: a script is right for these alone.
  if (program.steps != nullptr && !program.steps->variants().none()) {
    VariantChoices& variants = program.steps->variants();
    VariantChoice choice = variants.At(request.shape.padded, request.call.scalars);
    variants.Set(request.shape.padded, request.call.scalars, std::move(choice), {});
  }
  COPPICE_ASSIGN_OR_RETURN(
      AllocationScript script,
      ScriptOfSteps(parts.driver, lane.memory(), program,
                    std::span(request.shape.padded).first(program.layout.extent_count),
                    request.call.scalars, parts.options.memory.workspace_bytes));
  bucket.NoteWarmUp(std::move(script));
  return absl::OkStatus();
}

absl::StatusOr<Lease> RunWithoutGraph(const SessionParts& parts,
                                      const Request& request,
                                      Lane& lane,
                                      const Decision& decision) {
  const Call& call = request.call;
  COPPICE_RETURN_IF_ERROR(lane.order().RefuseCapture(call.stream));
  const bool warming = decision.outcome.kind == RunKind::kWarmUp;
  const auto& extents = warming || decision.at_bucket ? request.shape.padded : request.shape.real;
  InputLayout layout = LayOutInputs(*call.program, call.binding, request.statics,
                                    /*in_place=*/{}, extents, BasesOf(lane));
  const absl::Status reserved = ReserveStaging(*call.program, layout.bytes, lane);
  if (warming && MayRunUnpadded(parts, reserved, lane)) {
    return RunWithoutGraph(parts, request, lane,
                           {.outcome = {.kind = RunKind::kEager, .reason = Reason::kByteLimit}});
  }
  COPPICE_RETURN_IF_ERROR(reserved);
  lane.slots().Sweep();
  lane.slots().Reserve();
  COPPICE_RETURN_IF_ERROR(lane.order().Enter(call.stream));
  COPPICE_RETURN_IF_ERROR(Stage(parts, request, lane, layout));
  FlightEntry* const flight = lane.recorder() == nullptr
                                  ? nullptr
                                  : BeginFlight(parts, request, lane,
                                                {.shape = EntryShape(*call.program, layout),
                                                 .layout = layout,
                                                 .extents = extents,
                                                 .outcome = decision.outcome});
  if (warming) lane.books().CountStaged(layout);
  EagerOutputs outputs(lane.memory());
  AllocationScript script;
  COPPICE_RETURN_IF_ERROR(
      outputs.Run(parts.driver, RunRequestOf(parts, call, extents, layout, call.stream),
                  warming ? Phase::kWarmUp : Phase::kEager, warming ? &script : nullptr));
  if (flight != nullptr) EndFlight(parts, request, lane, outputs.table().tensors, flight);
  if (warming) BucketFor(request, lane).NoteWarmUp(std::move(script));
  lane.order().BeginCall();
  Book(parts, request, lane, decision.outcome);
  if (decision.outcome.kind == RunKind::kEager) lane.books().CountEager(decision.outcome.reason);
  if (lane.tracer != nullptr) TraceCall(request, lane, decision.outcome, layout, /*node=*/nullptr);
  // Such outputs have bytes of their own, so only a target of the caller's makes a copy of them.
  const bool into = call.output_mode == OutputMode::kWriteInto;
  Slot* slot = nullptr;
  if (into || !layout.copy_backs.empty()) {
    COPPICE_ASSIGN_OR_RETURN(
        slot, CopyBehindRun(parts, request, lane,
                            {.mode = into ? OutputMode::kWriteInto : OutputMode::kBorrow,
                             .outputs = outputs.table(),
                             .layout = layout}));
  }
  if (!into) {
    slot = &lane.slots().TakeParked(OwnerOf(request, lane), Slot::Kind::kEager, outputs.TakeTable(),
                                    outputs.TakeAllocations());
  }
  return Lease(slot, decision.outcome.kind, decision.outcome.reason);
}

}  // namespace coppice::internal
