// Warm-ups on zeros, and recordings of what they taught.

#include "graphs/call/warm.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "coppice/base/plural.h"
#include "coppice/base/status.h"

#include "graphs/call/check.h"
#include "graphs/call/decide.h"
#include "graphs/call/deliver.h"
#include "graphs/call/eager.h"
#include "graphs/call/extents.h"
#include "graphs/call/holder.h"
#include "graphs/call/record.h"
#include "graphs/call/stage.h"
#include "graphs/call/time_variants.h"
#include "graphs/record/planned_context.h"
#include "graphs/record/recorder.h"

namespace coppice::internal {
namespace {

bool Fits(const Program& program, const Binding* binding) {
  return binding == nullptr ? !program.binds()
                            : binding->program == &program && binding->version() != nullptr;
}

// Whether what the program writes of the scratch binding is anything of the one to be warmed.
bool SharesMutated(const WarmRequest& request) {
  const Program& program = request.program;
  for (size_t i = 0; i < program.layout.statics.size(); ++i) {
    if (!program.static_input(i).mutated) continue;
    for (const Tensor& bound : request.binding->tensors) {
      if (Overlap(request.options.scratch->tensors[i], bound)) return true;
    }
  }
  return false;
}

}  // namespace

absl::Status CheckWarmed(const SessionParts& parts, const WarmRequest& request) {
  const Program& program = request.program;
  const char* name = program.spec.name.c_str();
  COPPICE_RETURN_IF_ERROR(CheckRegistered("Session::Warm", program));
  if (parts.stance.load() != Stance::kRecord)
    return FailedPrecondition(
        "Session::Warm: the session's stance forbids recording program '{}'; set the stance to "
        "record",
        name);
  if (program.spec.gate == GateMode::kAlwaysEager)
    return FailedPrecondition(
        "Session::Warm: the spec of program '{}' says that it always runs without a graph", name);
  COPPICE_RETURN_IF_ERROR(CheckIsOf(parts, program, request.scalars.size(), "Session::Warm"));
  if (!Fits(program, request.binding)) {
    if (!program.binds())
      return InvalidArgument("Session::Warm: program '{}' binds nothing; pass no binding", name);
    return InvalidArgument(
        "Session::Warm: program '{}' needs a binding that this session made for it and that has "
        "not ended",
        name);
  }
  const Binding* scratch = request.options.scratch;
  if (scratch != nullptr && !Fits(program, scratch)) {
    return InvalidArgument(
        "Session::Warm: the scratch binding of program '{}' was not made for it, or has "
        "ended",
        name);
  }
  const bool runs = !program.requests_known;
  if (runs && program.layout.mutates_statics && (scratch == nullptr || SharesMutated(request))) {
    return FailedPrecondition(
        "Session::Warm: program '{}' mutates static inputs; pass scratch tensors in "
        "WarmOptions::scratch",
        name);
  }
  return absl::OkStatus();
}

namespace {

double ElementsOf(const Program& program, const CallShape& shape) {
  double product = 1;
  for (size_t i = 0; i < program.spec.symbols.size(); ++i)
    product *= static_cast<double>(shape.padded[i]);
  return product;
}

// Runs the bucket's program once on zeros, for its script.
absl::Status WarmUp(const SessionParts& parts, const Request& request, Lane& lane, Bucket& bucket) {
  const Call& call = request.call;
  InputLayout layout = LayOutInputs(*call.program, call.binding, request.statics,
                                    /*in_place=*/{}, request.shape.padded, BasesOf(lane));
  COPPICE_RETURN_IF_ERROR(ReserveStaging(*call.program, layout.bytes, lane));
  COPPICE_RETURN_IF_ERROR(lane.order().Enter(call.stream));
  ApplyZeros(call.binding, layout.sources, *layout.staging);
  std::copy_n(request.shape.padded.begin(), call.program->spec.symbols.size(),
              layout.staging->header().words);
  COPPICE_RETURN_IF_ERROR(parts.staging->Launch(call.stream, *layout.staging));
  EagerOutputs outputs(lane.memory());
  AllocationScript script;
  COPPICE_RETURN_IF_ERROR(outputs.Run(
      parts.driver, RunRequestOf(parts, call, request.shape.padded, layout, call.stream),
      Phase::kWarmUp, &script));
  bucket.NoteWarmUp(std::move(script));
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Node>> RecordBucket(const SessionParts& parts,
                                                   const Request& request,
                                                   Lane& lane,
                                                   Bucket& bucket) {
  COPPICE_ASSIGN_OR_RETURN(const NodeDraft draft,
                           DraftNode(request, lane, bucket, Reason::kNewBucket));
  COPPICE_RETURN_IF_ERROR(lane.order().Enter(request.call.stream));
  return RecordInline(parts, request, lane, draft, /*chain_plan=*/nullptr);
}

// Makes room for one more graph of the program, if its limit asks for that.
absl::Status CheckLimit(const LimitOptions& limits, const Program& program, Lane& lane) {
  const int64_t graphs = lane.nodes().Of(program).CountGraphs();
  if (graphs < limits.graphs_per_program_max) return absl::OkStatus();
  if (limits.on_limit == OnLimit::kEvict) {
    COPPICE_ASSIGN_OR_RETURN(const bool evicted, lane.EvictOne(&program));
    if (evicted) return absl::OkStatus();
  }
  return MakeError(absl::StatusCode::kResourceExhausted,
                   "Session::Warm: program '{}' has {} on lane {}; raise "
                   "graphs_per_program_max, or warm fewer buckets",
                   program.spec.name, Plural(graphs, "graph"), lane.index);
}

// Later buckets may have taken the room of earlier ones.
absl::Status CheckKept(Request& warmed, std::span<const CallShape> shapes, Lane& lane) {
  size_t kept = 0;
  for (const CallShape& shape : shapes) {
    warmed.shape = shape;
    kept += FindNode(warmed, lane) != nullptr ? 1 : 0;
  }
  if (kept == shapes.size()) return absl::OkStatus();
  return NotKept(*warmed.call.program, shapes.size(), kept);
}

// The bucket of a request that lacks its graph and may have one; null if the graph is there.
absl::StatusOr<Bucket*> FindColdBucket(const SessionParts& parts,
                                       const Request& request,
                                       Lane& lane) {
  const Program& program = *request.call.program;
  COPPICE_RETURN_IF_ERROR(CheckRegistered("Session::Warm", program));
  if (FindNode(request, lane) != nullptr) return nullptr;
  COPPICE_RETURN_IF_ERROR(CheckLimit(parts.options.limits, program, lane));
  Bucket& bucket = BucketFor(request, lane);
  COPPICE_RETURN_IF_ERROR(bucket.refusal());
  if (bucket.recording()) {
    return FailedPrecondition(
        "Session::Warm: a bucket of program '{}' is being recorded in the background; call "
        "WaitForRecordings first",
        program.spec.name);
  }
  bucket.Reopen();
  return &bucket;
}

// Sees to it that what the bucket's program allocates is known.
absl::Status LearnScript(const SessionParts& parts,
                         const Request& request,
                         const Request& scratch,
                         Lane& lane,
                         Bucket& bucket) {
  if (bucket.warmups() == 0) COPPICE_RETURN_IF_ERROR(TimeVariants(parts, request, lane));
  COPPICE_RETURN_IF_ERROR(LearnFromSteps(parts, request, lane, bucket));
  if (bucket.warmups() > 0) return absl::OkStatus();
  const Program& program = *request.call.program;
  if (program.requests_known && program.layout.mutates_statics &&
      scratch.call.binding == request.call.binding) {
    return FailedPrecondition(
        "Session::Warm: program '{}' does not make the requests of its dry_run, so a warm-up must "
        "run the program, which mutates static inputs; pass scratch tensors in "
        "WarmOptions::scratch",
        program.spec.name);
  }
  return WarmUp(parts, scratch, lane, bucket);
}

}  // namespace

absl::Status WarmOneInBackground(SessionParts& parts,
                                 const Request& request,
                                 const Request& scratch,
                                 Lane& lane) {
  COPPICE_ASSIGN_OR_RETURN(Bucket * bucket, FindColdBucket(parts, request, lane));
  if (bucket == nullptr) return absl::OkStatus();
  COPPICE_RETURN_IF_ERROR(LearnScript(parts, request, scratch, lane, *bucket));
  COPPICE_ASSIGN_OR_RETURN(NodeDraft draft, DraftNode(request, lane, *bucket, Reason::kNewBucket));
  RecordInBackground(parts, request, lane, std::move(draft));
  return absl::OkStatus();
}

absl::Status WarmOne(const SessionParts& parts,
                     const Request& request,
                     const Request& scratch,
                     Lane& lane) {
  const Program& program = *request.call.program;
  COPPICE_ASSIGN_OR_RETURN(Bucket * found, FindColdBucket(parts, request, lane));
  if (found == nullptr) return absl::OkStatus();
  Bucket& bucket = *found;
  absl::StatusOr<std::unique_ptr<Node>> node;
  do {
    COPPICE_RETURN_IF_ERROR(LearnScript(parts, request, scratch, lane, bucket));
    node = RecordBucket(parts, request, lane, bucket);
    if (!node.ok()) TraceFailure(bucket, node.status(), lane);
    if (IsDeparture(node.status())) bucket.NoteDeparted(MessageOf(node.status()));
  } while (!node.ok() && bucket.warmups() == 0 && bucket.capturable());
  if (IsDeparture(node.status()))
    return FailedPrecondition("Session::Warm: {}", MessageOf(node.status()));
  COPPICE_RETURN_IF_ERROR(node.status());
  Publish(parts, program, lane, *std::move(node));
  return absl::OkStatus();
}

absl::Status FinishWarming(const SessionParts& parts, Lane& lane) {
  COPPICE_RETURN_IF_ERROR(lane.order().own_stream().Synchronize());
  // Calls before may still use what their leases gave back, if no warm-up ran behind them.
  COPPICE_RETURN_IF_ERROR(lane.order().Wait());
  COPPICE_RETURN_IF_ERROR(lane.memory().TrimEager());
  return parts.pool->ReleaseSpares();
}

absl::Status NotKept(const Program& program, size_t asked, size_t kept) {
  return MakeError(absl::StatusCode::kResourceExhausted,
                   "Session::Warm: {} graphs were requested (the last for program '{}'), but only "
                   "{} fit: later graphs evicted earlier graphs; raise the budget or "
                   "graphs_per_program_max, or warm fewer buckets",
                   asked, program.spec.name, kept);
}

absl::StatusOr<CallShape> ShapeAt(const char* where,
                                  const std::string& what,
                                  const Program& program,
                                  std::span<const int64_t> extents,
                                  std::span<const int64_t> scalars) {
  CallShape shape;
  std::ranges::copy(extents, shape.real.begin());
  std::ranges::copy(extents, shape.padded.begin());
  COPPICE_RETURN_IF_ERROR(ComputeExtents(program, scalars, where, shape.real));
  if (!program.extents.empty() && !PadExpressions(program, scalars, shape))
    return MakeError(absl::StatusCode::kResourceExhausted,
                     "{}: {} of program '{}': {}; name a smaller bucket", where, what,
                     program.spec.name, DescribeUnpadded(program, scalars, shape));
  COPPICE_RETURN_IF_ERROR(CheckStrides(program, shape, where));
  return shape;
}

absl::StatusOr<std::vector<CallShape>> ShapesOf(const char* where,
                                                const Program& program,
                                                std::span<const std::vector<int64_t>> buckets,
                                                std::span<const int64_t> scalars) {
  std::vector<CallShape> shapes;
  for (size_t i = 0; i < buckets.size(); ++i) {
    if (!program.IsBucket(buckets[i]))
      return InvalidArgument(
          "{}: buckets[{}] is [{}], which is not a bucket of program '{}'; give one bucket per "
          "symbol, {} in all; the two symbols of a joint policy need one of its pairs",
          where, i, fmt::join(buckets[i], ", "), program.spec.name, program.spec.symbols.size());
    COPPICE_ASSIGN_OR_RETURN(shapes.emplace_back(), ShapeAt(where, fmt::format("buckets[{}]", i),
                                                            program, buckets[i], scalars));
  }
  return shapes;
}

absl::StatusOr<std::vector<CallShape>> CheckWarm(const SessionParts& parts,
                                                 const WarmRequest& request,
                                                 std::span<const std::vector<int64_t>> buckets) {
  const Program& program = request.program;
  COPPICE_RETURN_IF_ERROR(CheckWarmed(parts, request));
  COPPICE_ASSIGN_OR_RETURN(std::vector<CallShape> shapes,
                           ShapesOf("Session::Warm", program, buckets, request.scalars));
  std::stable_sort(shapes.begin(), shapes.end(), [&](const CallShape& a, const CallShape& b) {
    return ElementsOf(program, a) > ElementsOf(program, b);
  });
  return shapes;
}

absl::Status WarmBuckets(const SessionParts& parts,
                         const WarmRequest& request,
                         std::span<const CallShape> shapes,
                         Lane& lane) {
  COPPICE_RETURN_IF_ERROR(lane.memory().CheckPresent("Session::Warm"));
  lane.slots().Sweep();
  const Call call{.program = &request.program,
                  .binding = request.binding,
                  .inputs = {},
                  .scalars = request.scalars,
                  .stream = lane.order().own_stream().handle(),
                  .lane = lane.index};
  Call on_scratch = call;
  if (request.options.scratch != nullptr) on_scratch.binding = request.options.scratch;
  Request warmed(call);
  Request scratch(on_scratch);
  COPPICE_RETURN_IF_ERROR(TakeStatics(warmed));
  COPPICE_RETURN_IF_ERROR(TakeStatics(scratch));
  for (size_t i = 0; i < shapes.size(); ++i) {
    warmed.shape = scratch.shape = shapes[i];
    COPPICE_RETURN_IF_ERROR(WarmOne(parts, warmed, scratch, lane));
    if (request.options.progress) {
      request.options.progress(static_cast<int64_t>(i) + 1, static_cast<int64_t>(shapes.size()));
    }
  }
  COPPICE_RETURN_IF_ERROR(FinishWarming(parts, lane));
  return CheckKept(warmed, shapes, lane);
}

}  // namespace coppice::internal
