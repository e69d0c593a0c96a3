// What a call gives back: leases of outputs where they are, or of copies made behind the graph.

#include "graphs/call/deliver.h"

#include <algorithm>
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

// An output of its real sizes at `address`, with the strides that its spec has at these.
Tensor OwnOutput(const ProgramSpec& spec,
                 size_t index,
                 DeviceAddress address,
                 const CallShape& shape) {
  return PlacedTensor(address, spec.outputs[index], shape.real);
}

// The most axes that what is copied behind a run of the program has.
int RankOf(const ProgramSpec& spec) {
  size_t rank = 0;
  for (const InputSpec& input : spec.inputs)
    rank = input.mutated ? std::max(rank, input.dims.size()) : rank;
  for (const OutputSpec& output : spec.outputs)
    rank = std::max(rank, output.dims.size());
  return static_cast<int>(rank);
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
    bytes += RingBytes(OwnOutput(spec, i, 0, request.shape));
  return bytes;
}

absl::Status FullRing(const Request& request, int64_t bytes, Lane& lane) {
  return MakeError(absl::StatusCode::kResourceExhausted,
                   "Session::Run: copies need {} contiguous bytes for the outputs of program '{}', "
                   "but the copy-out area of lane {} ({} bytes) has no free block that large; drop "
                   "the oldest leases or raise copy_out_bytes",
                   bytes, request.call.program->spec.name, lane.index, lane.slots().ring_bytes());
}

// Where copy `index` of the outputs goes: `next` in the ring, or the caller's target.
Tensor TargetOf(const Request& request,
                const CopyBehind& copies,
                size_t index,
                DeviceAddress next) {
  const ProgramSpec& spec = request.call.program->spec;
  if (spec.outputs[index].role == OutputRole::kStatic) return copies.outputs.tensors[index];
  return copies.mode == OutputMode::kWriteInto ? request.call.targets[index]
                                               : OwnOutput(spec, index, next, request.shape);
}

// Keeps the last copy of the batch, back to an input of these dims, to what the device decided:
// staging has left that in the parameter block.
void CountCopyBack(const Request& request,
                   const InputLayout& layout,
                   const Dims& dims,
                   StagingArguments& batch) {
  const Call& call = request.call;
  for (size_t i = 0; i < call.counts.size(); ++i) {
    if (call.counts[i].data == 0) continue;
    const int symbol = call.program->layout.counted[i];
    const auto word = static_cast<size_t>(symbol);
    batch.header().words[word] = request.shape.real[word];
    batch.SetCount(symbol, {.data = layout.staging->header().parameter_block + 8 * word,
                            .dtype = DType::kInt64});
    batch.CountSizes(batch.copy_count() - 1, dims, symbol);
  }
}

// What the trace calls the bucket of a call; -1 for none.
int32_t TracedBucket(const Request& request, Lane& lane, const Node* node) {
  const Program& program = *request.call.program;
  if (request.shape.unbucketed) {
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
  StagingArguments& batch = lane.room().copies;
  if (batch.rank() < RankOf(spec)) batch = StagingArguments(RankOf(spec));
  batch.Clear();
  for (const auto& [input, copied] : copies.layout.copy_backs) {
    const Dims& dims = spec.inputs[static_cast<size_t>(input)].dims;
    batch.Add(AtExtents(copies.layout.inputs[static_cast<size_t>(input)], dims, request.shape.real),
              call.inputs[static_cast<size_t>(copied)], Fill::Undefined());
    CountCopyBack(request, copies.layout, dims, batch);
  }
  if (copies.mode == OutputMode::kBorrow) {
    COPPICE_RETURN_IF_ERROR(parts.staging->Launch(call.stream, batch));
    return nullptr;
  }
  Slot& slot = lane.slots().TakeCopies(OwnerOf(request, lane), copies.copy_out);
  absl::Cleanup drop = [&slot] { DropLease(&slot); };
  DeviceAddress next =
      lane.memory().base(MemoryKind::kCopyOut) + static_cast<DeviceAddress>(copies.copy_out.offset);
  for (size_t i = 0; i < spec.outputs.size(); ++i) {
    const Tensor target = TargetOf(request, copies, i, next);
    if (spec.outputs[i].role != OutputRole::kStatic)
      batch.Add(RealOutput(copies.outputs, i, request.shape), target, Fill::Undefined());
    if (NeedsCopyOutBytes(copies.mode)) next += static_cast<DeviceAddress>(RingBytes(target));
    slot.AddOutput(target);
  }
  COPPICE_RETURN_IF_ERROR(parts.staging->Launch(call.stream, batch));
  std::move(drop).Cancel();
  return &slot;
}

void TraceUses(const Request& request, Lane& lane) {
  if (request.shape.in_pool) lane.slots().TraceUses(lane.order().calls());
}

void TraceCall(const Request& request,
               Lane& lane,
               const Outcome& outcome,
               const InputLayout& layout,
               const Node* node) {
  TraceUses(request, lane);
  const Program& program = *request.call.program;
  lane.tracer->Call(lane.index,
                    {.call = lane.order().calls(),
                     .bucket = TracedBucket(request, lane, node),
                     .node = node == nullptr ? -1 : node->trace_number(),
                     .kind = outcome.kind,
                     .reason = outcome.reason,
                     .real_elements = layout.real_elements,
                     .padded_elements = layout.padded_elements,
                     .program = program.place.trace_number,
                     .extents = std::span(request.shape.real).first(program.spec.symbols.size()),
                     .began = request.began,
                     .outputs = request.call.output_mode});
}

void TraceFailure(const Bucket& bucket, const absl::Status& why, Lane& lane) {
  if (lane.tracer != nullptr) lane.tracer->Fail(lane.index, bucket.trace_number(), why);
}

}  // namespace coppice::internal
