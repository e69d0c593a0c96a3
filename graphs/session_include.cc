// A warmed program inside the caller's own capture.

#include <algorithm>
#include <mutex>
#include <utility>

#include "coppice/base/status.h"
#include "coppice/runtime/graph.h"
#include "coppice/runtime/stream.h"

#include "graphs/session_state.h"
#include "graphs/staging_layout.h"

namespace coppice {

using internal::Bucket;
using internal::InputLayout;
using internal::Lane;
using internal::Recording;

namespace {

absl::Status CheckIncludable(const Call& call, const Pool& pool) {
  const ProgramSpec& spec = call.program->spec;
  const bool random = spec.random_numbers_per_call > 0;
  if (random || call.program->mutates_copies || call.output_mode != OutputMode::kBorrow) {
    return FailedPrecondition(
        "Session::Include: program '{}' {}, which a graph of the caller cannot do at each launch",
        spec.name,
        random                         ? "advances a random state"
        : call.program->mutates_copies ? "writes inputs back"
                                       : "is to copy its outputs");
  }
  for (const Tensor& tensor : call.inputs) {
    if (!pool.Contains(tensor.data, 1)) continue;
    return FailedPrecondition(
        "Session::Include: an input of program '{}' at {:#x} lies in the session's memory, which "
        "later calls write over; copy it",
        spec.name, tensor.data);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<DeviceAddress> Session::State::KeepMemory(Lane& lane, int64_t bytes) {
  // The caller captures, perhaps in a mode that forbids allocations.
  const RelaxedCaptureScope relaxed(driver);
  COPPICE_RETURN_IF_ERROR(lane.Charge(MemoryKind::kIncluded, bytes));
  absl::StatusOr<DeviceMemory> memory = DeviceMemory::Create(driver, bytes);
  if (!memory.ok()) {
    pool->Discharge(MemoryKind::kIncluded, bytes);
    return memory.status();
  }
  const std::lock_guard<std::mutex> lock(mutex);
  included.push_back(*std::move(memory));
  return included.back().address();
}

absl::StatusOr<Lease> Session::State::Include(Request& request, Lane& lane) {
  const Call& call = request.call;
  COPPICE_RETURN_IF_ERROR(lane.CheckPresent("Session::Include"));
  COPPICE_RETURN_IF_ERROR(CheckIncludable(call, *pool));
  COPPICE_ASSIGN_OR_RETURN(const bool captures, IsCapturing(driver, call.stream));
  const Bucket* bucket = FindBucket(request, lane);
  if (!captures || bucket == nullptr || bucket->warmups == 0) {
    return FailedPrecondition(
        "Session::Include: program '{}' {}", call.program->spec.name,
        !captures ? "on a stream that does not capture; use Run"
                  : "was never warmed up in this bucket; run it, or call Warm, before the capture");
  }
  InputLayout sizes = internal::LayOutInputs(*call.program, call.binding, request.statics, {},
                                             request.shape.padded, {});
  COPPICE_ASSIGN_OR_RETURN(const DeviceAddress staged, KeepMemory(lane, sizes.bytes));
  InputLayout layout = internal::LayOutInputs(*call.program, call.binding, request.statics, {},
                                              request.shape.padded, {.staging = staged});
  internal::FillStaging(call, request.shape, request.random, layout);
  const internal::RecordTarget target{
      .reserve = [this,
                  &lane](int64_t height) { return KeepMemory(lane, std::max<int64_t>(height, 1)); },
      .prologue = [&](CuStream stream) { return staging.Launch(stream, layout.staging); }};
  const internal::RunRequest run =
      RunRequestOf(call, request.shape.padded, layout, lane.own_stream.handle(), lane);
  COPPICE_ASSIGN_OR_RETURN(
      Recording recording,
      internal::PlanAndCapture(lane, run, bucket->trace, /*live=*/{}, target, /*audit=*/false));
  if (recording.pieces.size() != 1) {
    return FailedPrecondition("Session::Include: program '{}' has breaks, so it is no single graph",
                              call.program->spec.name);
  }
  lane.ReserveSlot();
  COPPICE_RETURN_IF_ERROR(AddChildToCapture(driver, call.stream, recording.pieces[0].graph));
  ++lane.calls;
  Lease lease = MakeLease(request, lane, Path::kInclude, Reason::kNone);
  if (lane.tracer != nullptr) TraceCall(request, lane, {.path = Path::kInclude}, layout);
  GiveIncluded(request, lane,
               {.spec = &call.program->spec, .tensors = std::move(recording.outputs)}, lease);
  return lease;
}

}  // namespace coppice
