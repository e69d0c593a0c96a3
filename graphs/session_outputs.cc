// What a call gives back: leases of outputs where they are, or of copies made behind the graph.

#include <optional>
#include <utility>

#include "coppice/base/status.h"

#include "graphs/session_state.h"
#include "graphs/staging_layout.h"

namespace coppice {

using internal::InputLayout;
using internal::Lane;
using internal::OutputTable;
using internal::Region;
using internal::Slot;

namespace {

Tensor RealOutput(const OutputTable& outputs, size_t index, const internal::CallShape& shape) {
  return internal::AtExtents(outputs.tensors[index], outputs.spec->outputs[index].dims, shape.real);
}

// The dense tensor of an output's real sizes at `address`.
Tensor DenseOutput(const ProgramSpec& spec,
                   size_t index,
                   DeviceAddress address,
                   const internal::CallShape& shape) {
  const OutputSpec& output = spec.outputs[index];
  return internal::DenseTensor(address, output.dtype, output.dims, shape.real);
}

// What a copied output takes in the ring.
int64_t RingBytes(const Tensor& output) {
  return output.element_count() == 0 ? 0 : internal::RoundedBytes(output);
}

}  // namespace

void Session::State::GiveIncluded(const Request& request,
                                  Lane& lane,
                                  OutputTable outputs,
                                  Lease& lease) {
  Slot& slot = TakeSlot(request, lane, Slot::Kind::kIncluded);
  slot.owned = std::move(outputs);
  slot.outputs = &slot.owned;
  lease.slot_ = &slot;
}

void Session::State::GiveEager(const Request& request,
                               Lane& lane,
                               OutputTable outputs,
                               std::vector<DeviceAddress> allocations,
                               Lease& lease) {
  Slot& slot = TakeSlot(request, lane, Slot::Kind::kEager);
  slot.owned = std::move(outputs);
  slot.outputs = &slot.owned;
  slot.allocations = std::move(allocations);
  lease.slot_ = &slot;
}

absl::Status Session::State::CheckTargets(const Request& request) const {
  const Call& call = request.call;
  const ProgramSpec& spec = call.program->spec;
  const bool copies = call.output_mode == OutputMode::kCopyOut && !spec.outputs.empty();
  if (copies && options.copy_out_bytes == 0) {
    return MakeError(
        absl::StatusCode::kResourceExhausted,
        "Session::Run: program '{}' is to copy its outputs out, but SessionOptions::copy_out_bytes "
        "is 0; give it as many bytes as such outputs are leased at once",
        spec.name);
  }
  for (size_t i = 0; i < call.targets.size(); ++i) {
    if (spec.outputs[i].role == OutputRole::kStatic) continue;
    const Tensor& target = call.targets[i];
    const Tensor wanted = DenseOutput(spec, i, target.data, request.shape);
    const bool fits = target.dtype == wanted.dtype && target.rank == wanted.rank &&
                      target.sizes == wanted.sizes && target.strides == wanted.strides &&
                      (target.data != 0 || target.element_count() == 0);
    if (!fits || pool->Contains(target.data, internal::RoundedBytes(wanted))) {
      return InvalidArgument(
          "Session::Run: target of output '{}' of program '{}' must be a dense {} of the output's "
          "real sizes outside the session's memory",
          spec.outputs[i].name, spec.name, NameOf(wanted.dtype));
    }
  }
  return absl::OkStatus();
}

absl::Status Session::State::ReserveCopyOut(const Request& request,
                                            Lane& lane,
                                            Region& copy_out) const {
  const ProgramSpec& spec = request.call.program->spec;
  int64_t bytes = 0;
  for (size_t i = 0; i < spec.outputs.size(); ++i)
    bytes += RingBytes(DenseOutput(spec, i, 0, request.shape));
  if (bytes == 0) return absl::OkStatus();
  const std::optional<Region> region = lane.AllocateRing(bytes);
  if (region) {
    copy_out = *region;
    return absl::OkStatus();
  }
  return MakeError(absl::StatusCode::kResourceExhausted,
                   "Session::Run: no {} bytes in a row to copy the outputs of program '{}' to, of "
                   "{} on lane {}; drop the oldest leases or raise copy_out_bytes",
                   bytes, spec.name, lane.ring_bytes, lane.index);
}

// Copies behind the graph what does not stay where it was written: mutated inputs back to the
// caller, outputs as the call's mode says. One launch for kCopyInputsMax copies.
absl::Status Session::State::CopyBehind(const Request& request,
                                        Lane& lane,
                                        OutputMode mode,
                                        const OutputTable& outputs,
                                        const InputLayout& layout,
                                        Region copy_out,
                                        Lease& lease) {
  const Call& call = request.call;
  const ProgramSpec& spec = call.program->spec;
  StagingParams& params = lane.copies;
  params.header.word_count = 0;
  params.header.copy_count = 0;
  const auto add = [&](const Tensor& source, const Tensor& target) -> absl::Status {
    params.copies[params.header.copy_count++] = MakeStagedCopy(source, target, Fill::Undefined());
    if (params.header.copy_count < kCopyInputsMax) return absl::OkStatus();
    COPPICE_RETURN_IF_ERROR(staging.Launch(call.stream, params));
    params.header.copy_count = 0;
    return absl::OkStatus();
  };
  for (const auto& [input, copied] : layout.copy_backs) {
    const InputSpec& copy = spec.inputs[static_cast<size_t>(input)];
    const Tensor& target = call.inputs[static_cast<size_t>(copied)];
    COPPICE_RETURN_IF_ERROR(
        add(internal::AtExtents(layout.inputs[static_cast<size_t>(input)], copy.dims,
                                request.shape.real),
            internal::DenseTensor(target.data, copy.dtype, copy.dims, request.shape.real)));
  }
  Slot* slot = nullptr;
  const bool into = mode == OutputMode::kWriteInto;
  if (mode != OutputMode::kBorrow) {
    // Only what has bytes in the ring may hold its place there.
    const bool in_ring = copy_out.bytes > 0;
    slot = &TakeSlot(request, lane, in_ring ? Slot::Kind::kCopyOut : Slot::Kind::kForeign);
    slot->ring = copy_out;
    slot->owned.spec = &spec;
    slot->owned.tensors.clear();
    slot->outputs = &slot->owned;
    lease.slot_ = slot;
  }
  DeviceAddress next =
      pool->base(lane.index, WindowKind::kCopyOut) + static_cast<DeviceAddress>(copy_out.offset);
  for (size_t i = 0; slot != nullptr && i < spec.outputs.size(); ++i) {
    const bool bound = spec.outputs[i].role == OutputRole::kStatic;
    const Tensor target = bound  ? outputs.tensors[i]
                          : into ? call.targets[i]
                                 : DenseOutput(spec, i, next, request.shape);
    if (!bound) COPPICE_RETURN_IF_ERROR(add(RealOutput(outputs, i, request.shape), target));
    if (!into) next += static_cast<DeviceAddress>(RingBytes(target));
    slot->owned.tensors.push_back(target);
  }
  return staging.Launch(call.stream, params);
}

}  // namespace coppice
