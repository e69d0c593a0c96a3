// What a call gives back: leases of outputs where they are, or of copies made behind the graph.

#include "graphs/call/deliver.h"

#include <optional>
#include <string>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "fmt/format.h"

#include "coppice/base/status.h"

#include "graphs/call/decide.h"

namespace coppice::internal {
namespace {

void Log(const SessionParts& parts, const Program& program, const std::string& why) {
  parts.options.log(
      fmt::format("coppice: program '{}' runs without replay: {}", program.spec.name, why));
}

Tensor RealOutput(const OutputTable& outputs, size_t index, const CallShape& shape) {
  return AtExtents(outputs.tensors[index], outputs.spec->outputs[index].dims, shape.real);
}

// The dense tensor of an output's real sizes at `address`.
Tensor DenseOutput(const ProgramSpec& spec,
                   size_t index,
                   DeviceAddress address,
                   const CallShape& shape) {
  const OutputSpec& output = spec.outputs[index];
  return DenseTensor(address, output.dtype, output.dims, shape.real);
}

// What a copied output takes in the ring.
int64_t RingBytes(const Tensor& output) {
  return output.element_count() == 0 ? 0 : RoundedBytes(output);
}

// What all outputs take there.
int64_t CopyOutBytes(const Request& request) {
  const ProgramSpec& spec = request.call.program->spec;
  int64_t bytes = 0;
  for (size_t i = 0; i < spec.outputs.size(); ++i)
    bytes += RingBytes(DenseOutput(spec, i, 0, request.shape));
  return bytes;
}

absl::Status FullRing(const Request& request, int64_t bytes, Lane& lane) {
  return MakeError(absl::StatusCode::kResourceExhausted,
                   "Session::Run: no {} bytes in a row to copy the outputs of program '{}' to, of "
                   "{} on lane {}; drop the oldest leases or raise copy_out_bytes",
                   bytes, request.call.program->spec.name, lane.slots().ring_bytes(), lane.index);
}

// Copies that are launched a kernel's worth at a time.
class CopyBatch {
 public:
  CopyBatch(const StagingKernels& kernels, CuStream stream, StagingParams& params)
      : kernels_(kernels), stream_(stream), params_(params) {
    params_.header.word_count = 0;
    params_.header.copy_count = 0;
  }

  absl::Status Add(const Tensor& source, const Tensor& target) {
    params_.copies[params_.header.copy_count++] = MakeStagedCopy(source, target, Fill::Undefined());
    if (params_.header.copy_count < kCopyInputsMax) return absl::OkStatus();
    COPPICE_RETURN_IF_ERROR(Launch());
    params_.header.copy_count = 0;
    return absl::OkStatus();
  }
  absl::Status Launch() { return kernels_.Launch(stream_, params_); }

 private:
  const StagingKernels& kernels_;
  const CuStream stream_;
  StagingParams& params_;
};

// Where copy `index` of the outputs goes: `next` in the ring, or the caller's target.
Tensor TargetOf(const Request& request,
                const CopyBehind& copies,
                size_t index,
                DeviceAddress next) {
  const ProgramSpec& spec = request.call.program->spec;
  if (spec.outputs[index].role == OutputRole::kStatic) return copies.outputs.tensors[index];
  return copies.mode == OutputMode::kWriteInto ? request.call.targets[index]
                                               : DenseOutput(spec, index, next, request.shape);
}

// What the trace calls the bucket of a call; -1 for none.
int32_t TracedBucket(const Request& request, Lane& lane, const Node* node) {
  const Program& program = *request.call.program;
  if (request.shape.over_maximum) {
    return lane.tracer->BucketBeyond(
        program.place.trace_number, lane.index,
        std::span(request.shape.real).first(program.spec.symbols.size()));
  }
  const Bucket* bucket = node != nullptr ? &node->bucket() : FindBucket(request, lane);
  return bucket == nullptr ? -1 : bucket->trace_number();
}

}  // namespace

void LogReason(const SessionParts& parts, const Request& request, Lane& lane, Reason reason) {
  const Program& program = *request.call.program;
  if (parts.options.log && program.IsNews(reason))
    Log(parts, program, DescribeReason(request, lane, reason));
}

void LogReason(const SessionParts& parts,
               const Program& program,
               Reason reason,
               const std::string& failure) {
  if (parts.options.log && program.IsNews(reason)) Log(parts, program, WithCause(reason, failure));
}

absl::StatusOr<Region> ReserveCopyOut(const Request& request, Lane& lane) {
  const int64_t bytes = CopyOutBytes(request);
  if (bytes == 0) return Region{};
  if (const std::optional<Region> region = lane.slots().AllocateRing(bytes)) return *region;
  return FullRing(request, bytes, lane);
}

absl::Status CheckCopyOut(const Request& request, Lane& lane) {
  const int64_t bytes = CopyOutBytes(request);
  const bool fits = bytes == 0 || lane.slots().FindRing(bytes).has_value();
  return fits ? absl::OkStatus() : FullRing(request, bytes, lane);
}

absl::StatusOr<Slot*> CopyBehindRun(const SessionParts& parts,
                                    const Request& request,
                                    Lane& lane,
                                    const CopyBehind& copies) {
  const Call& call = request.call;
  const ProgramSpec& spec = call.program->spec;
  CopyBatch batch(*parts.staging, call.stream, lane.scratch().copies);
  for (const auto& [input, copied] : copies.layout.copy_backs) {
    const InputSpec& copy = spec.inputs[static_cast<size_t>(input)];
    const Tensor& target = call.inputs[static_cast<size_t>(copied)];
    COPPICE_RETURN_IF_ERROR(batch.Add(
        AtExtents(copies.layout.inputs[static_cast<size_t>(input)], copy.dims, request.shape.real),
        DenseTensor(target.data, copy.dtype, copy.dims, request.shape.real)));
  }
  if (copies.mode == OutputMode::kBorrow) {
    COPPICE_RETURN_IF_ERROR(batch.Launch());
    return nullptr;
  }
  Slot& slot = lane.slots().TakeCopies(OwnerOf(request, lane), copies.copy_out);
  absl::Cleanup drop = [&slot] { DropLease(&slot); };
  DeviceAddress next =
      lane.memory().base(MemoryKind::kCopyOut) + static_cast<DeviceAddress>(copies.copy_out.offset);
  for (size_t i = 0; i < spec.outputs.size(); ++i) {
    const Tensor target = TargetOf(request, copies, i, next);
    if (spec.outputs[i].role != OutputRole::kStatic)
      COPPICE_RETURN_IF_ERROR(batch.Add(RealOutput(copies.outputs, i, request.shape), target));
    if (copies.mode == OutputMode::kCopyOut) next += static_cast<DeviceAddress>(RingBytes(target));
    slot.AddOutput(target);
  }
  COPPICE_RETURN_IF_ERROR(batch.Launch());
  std::move(drop).Cancel();
  return &slot;
}

void TraceUses(const Request& request, Lane& lane) {
  if (!request.shape.in_pool) return;
  for (const uint64_t call : lane.scratch().used)
    lane.tracer->Use(lane.index, lane.order().calls(), call);
  lane.scratch().used.clear();
}

void TraceCall(const Request& request,
               Lane& lane,
               const Outcome& outcome,
               const InputLayout& layout,
               const Node* node) {
  TraceUses(request, lane);
  lane.tracer->Call(lane.index, {.call = lane.order().calls(),
                                 .bucket = TracedBucket(request, lane, node),
                                 .node = node == nullptr ? -1 : node->trace_number(),
                                 .kind = outcome.kind,
                                 .reason = outcome.reason,
                                 .real_elements = layout.real_elements,
                                 .padded_elements = layout.padded_elements});
}

void TraceFailure(const Bucket& bucket, const absl::Status& why, Lane& lane) {
  if (lane.tracer != nullptr) lane.tracer->Fail(lane.index, bucket.trace_number(), why);
}

}  // namespace coppice::internal
