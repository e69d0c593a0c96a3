// Captured aside, added as a child graph.

#include "graphs/call/include.h"

#include <algorithm>
#include <list>
#include <utility>
#include <vector>

#include "coppice/base/status.h"
#include "coppice/runtime/graph.h"
#include "coppice/runtime/stream.h"

#include "graphs/call/check.h"
#include "graphs/call/decide.h"
#include "graphs/call/deliver.h"
#include "graphs/call/eager.h"
#include "graphs/call/stage.h"
#include "graphs/node/input_layout.h"
#include "graphs/record/planned_context.h"
#include "graphs/record/recorder.h"

namespace coppice::internal {
namespace {

absl::Status CheckIncludable(const Call& call, const WindowMap& windows) {
  const ProgramSpec& spec = call.program->spec;
  const bool random = spec.random_numbers_per_call > 0;
  if (random || call.program->layout.mutates_copies || call.output_mode != OutputMode::kBorrow) {
    return FailedPrecondition(
        "Session::Include: program '{}' {}, which the caller's graph cannot do at each launch",
        spec.name,
        random                                ? "advances a random state"
        : call.program->layout.mutates_copies ? "writes inputs back"
                                              : "copies its outputs out");
  }
  if (!call.donated.empty()) {
    return InvalidArgument(
        "Session::Include: program '{}' is given leases, but the caller's graph may read them at "
        "each launch; donate them to Run instead",
        spec.name);
  }
  const auto check = [&](std::span<const Tensor> read, const char* what) {
    for (const Tensor& tensor : read) {
      if (!windows.Contains(tensor.data)) continue;
      return FailedPrecondition(
          "Session::Include: {} of program '{}' at {:#x} lies in the session's memory, which later "
          "calls overwrite; copy the tensor",
          what, spec.name, tensor.data);
    }
    return absl::OkStatus();
  };
  COPPICE_RETURN_IF_ERROR(check(call.inputs, "an input"));
  COPPICE_RETURN_IF_ERROR(check(call.counts, "a count"));
  return absl::OkStatus();
}

// Memory of a program on its way into a capture, given back unless the lane keeps it.
// The caller captures, perhaps in a mode that forbids to allocate and to free.
class IncludedMemory {
 public:
  IncludedMemory(const Driver& driver, LaneMemory& memory) : driver_(driver), memory_(memory) {}
  ~IncludedMemory() {
    const RelaxedCaptureScope relaxed(driver_);
    kept_.clear();
  }
  IncludedMemory(const IncludedMemory&) = delete;
  IncludedMemory& operator=(const IncludedMemory&) = delete;

  absl::StatusOr<DeviceAddress> Allocate(int64_t bytes) {
    const RelaxedCaptureScope relaxed(driver_);
    COPPICE_ASSIGN_OR_RETURN(BudgetCharge charge,
                             memory_.Charge(MemoryKind::kIncluded, bytes, memory_.room()));
    COPPICE_ASSIGN_OR_RETURN(DeviceMemory memory, DeviceMemory::Create(driver_, bytes));
    kept_.push_back({.charge = std::move(charge), .memory = std::move(memory)});
    return kept_.back().memory.address();
  }
  // The same, in place of what Reallocate gave before; what is large enough stays.
  absl::StatusOr<DeviceAddress> Reallocate(int64_t bytes) {
    if (bytes > bytes_) {
      if (bytes_ > 0) {
        const RelaxedCaptureScope relaxed(driver_);
        kept_.pop_back();
      }
      bytes_ = 0;
      COPPICE_RETURN_IF_ERROR(Allocate(bytes).status());
      bytes_ = bytes;
    }
    return kept_.back().memory.address();
  }
  // Throws nothing.
  void Keep() { memory_.Keep(kept_); }

 private:
  const Driver& driver_;
  LaneMemory& memory_;
  std::list<OwnMemory> kept_;
  int64_t bytes_ = 0;  // Of the last, if Reallocate gave it.
};

}  // namespace

absl::StatusOr<Lease> Include(const SessionParts& parts, const Request& request, Lane& lane) {
  const Call& call = request.call;
  LaneMemory& memory = lane.memory();
  COPPICE_RETURN_IF_ERROR(CheckRegistered("Session::Include", *call.program));
  COPPICE_RETURN_IF_ERROR(memory.CheckPresent("Session::Include"));
  COPPICE_RETURN_IF_ERROR(CheckIncludable(call, *parts.windows));
  COPPICE_ASSIGN_OR_RETURN(const bool captures, IsCapturing(parts.driver, call.stream));
  Bucket* bucket = FindBucket(request, lane);
  if (AreRequestsKnown(*call.program, bucket) && !request.shape.unbucketed) {
    bucket = &BucketFor(request, lane);
    COPPICE_RETURN_IF_ERROR(LearnFromSteps(parts, request, lane, *bucket));
  }
  if (!captures || bucket == nullptr || bucket->warmups() == 0) {
    return FailedPrecondition("Session::Include: program '{}' {}", call.program->spec.name,
                              !captures ? "is on a stream that is not capturing; use Run"
                                        : "was never warmed up in this bucket; run the program, or "
                                          "call Warm, before the capture");
  }
  const auto lay_out = [&](DeviceAddress staged) {
    return LayOutInputs(*call.program, call.binding, request.statics, {}, request.shape.padded,
                        {.staging = staged});
  };
  IncludedMemory own(parts.driver, memory);
  COPPICE_ASSIGN_OR_RETURN(const DeviceAddress staged, own.Allocate(lay_out(0).bytes));
  InputLayout layout = lay_out(staged);
  FillStaging(call, request.shape, /*random=*/{}, layout);
  const RecordTarget target{
      .reserve = [&own](int64_t height) { return own.Reallocate(std::max<int64_t>(height, 1)); },
      .prologue = [&](CuStream stream) { return parts.staging->Launch(stream, *layout.staging); }};
  RunRequest run =
      RunRequestOf(parts, call, request.shape.padded, layout, lane.order().own_stream().handle());
  // The lane's is for its calls, which nothing orders with what the caller launches.
  if (run.workspace_bytes > 0) {
    COPPICE_ASSIGN_OR_RETURN(run.workspace, own.Allocate(run.workspace_bytes));
  }
  const std::vector<Region> nothing;
  absl::StatusOr<Captured> taken = PlanAndCapture({.driver = parts.driver,
                                                   .memory = memory,
                                                   .run = run,
                                                   .script = ScriptOf(bucket->script(), layout),
                                                   .live = nothing},
                                                  target);
  if (!taken.ok()) TraceFailure(*bucket, taken.status(), lane);
  if (IsDeparture(taken.status())) {
    // A recording under way reads the script, and says itself what comes of the bucket.
    if (!bucket->recording()) bucket->NoteDeparted(MessageOf(taken.status()));
    return FailedPrecondition("Session::Include: {}", MessageOf(taken.status()));
  }
  COPPICE_RETURN_IF_ERROR(taken.status());
  Captured captured = *std::move(taken);
  if (captured.pieces.size() != 1) {
    return FailedPrecondition(
        "Session::Include: program '{}' has breaks, so it is not a single graph",
        call.program->spec.name);
  }
  lane.slots().Reserve();
  COPPICE_RETURN_IF_ERROR(AddChildToCapture(parts.driver, call.stream, captured.pieces[0].graph));
  own.Keep();
  lane.order().BeginCall();
  const Outcome outcome{.kind = RunKind::kInclude};
  Book(parts, request, lane, outcome);
  if (lane.tracer != nullptr) TraceCall(request, lane, outcome, layout, /*node=*/nullptr);
  Slot& slot = lane.slots().TakeParked(
      OwnerOf(request, lane), Slot::Kind::kIncluded,
      {.spec = &call.program->spec, .tensors = std::move(captured.outputs)}, {});
  return Lease(&slot, outcome.kind, outcome.reason);
}

}  // namespace coppice::internal
