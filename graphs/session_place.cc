// Where a call's inputs lie: the caller's own memory, or outputs of earlier calls.

#include <algorithm>
#include <mutex>
#include <optional>
#include <span>

#include "coppice/base/status.h"
#include "coppice/runtime/stream.h"

#include "graphs/session_state.h"
#include "graphs/staging_layout.h"

namespace coppice {

using internal::Lane;
using internal::Region;
using internal::Slot;

namespace {

// The bytes from a tensor's first element to its last.
DeviceAddress SpanOf(const Tensor& tensor) {
  if (tensor.element_count() == 0) return 0;
  int64_t last = 0;
  for (size_t axis = 0; axis < static_cast<size_t>(tensor.rank); ++axis)
    last += (tensor.sizes[axis] - 1) * tensor.strides[axis];
  return static_cast<DeviceAddress>((last + 1) * SizeOf(tensor.dtype));
}

bool Holds(const Tensor& output, const Tensor& tensor) {
  return output.data != 0 && tensor.data >= output.data &&
         tensor.data - output.data + SpanOf(tensor) <= SpanOf(output);
}

bool Overlap(const Tensor& a, const Tensor& b) {
  return a.data < b.data + SpanOf(b) && b.data < a.data + SpanOf(a);
}

const std::vector<Slot*>& SlotsOf(WindowKind kind, const Lane& lane) {
  switch (kind) {
    case WindowKind::kNodes:
      return lane.window;
    case WindowKind::kCopyOut:
      return lane.ring;
    case WindowKind::kEager:
    case WindowKind::kStaging:
    case WindowKind::kWorkspace:
      break;
  }
  return lane.parked;
}

// The slot among `slots` of which `tensor` is a leased output, and which output.
const Slot* FindHolder(const std::vector<Slot*>& slots,
                       const Tensor& tensor,
                       const Tensor** holder = nullptr) {
  for (const Slot* slot : slots) {
    if (slot->outputs == nullptr || slot->expired() || !slot->leased()) continue;
    if (tensor.made_by != 0 && tensor.made_by != slot->call) continue;
    for (const Tensor& output : slot->outputs->tensors) {
      if (!Holds(output, tensor)) continue;
      if (holder != nullptr) *holder = &output;
      return slot;
    }
  }
  return nullptr;
}

// The slot among `slots` under whose open scopes lie bytes of `tensor`.
const Slot* FindReader(const std::vector<Slot*>& slots, const Tensor& tensor) {
  for (const Slot* slot : slots) {
    if (slot->open_scopes == 0) continue;
    for (const Tensor& output : slot->outputs->tensors) {
      if (Overlap(output, tensor)) return slot;
    }
  }
  return nullptr;
}

// Whether a program may write to its input, an output that `holder` has among `slots`.
absl::Status CheckWritable(const Program& program,
                           const InputSpec& input,
                           const std::vector<Slot*>& slots,
                           const Tensor& tensor,
                           const Slot& holder) {
  if (const Slot* reader = FindReader(slots, tensor)) {
    return FailedPrecondition(
        "Session::Run: program '{}' would write to its input '{}', an output of call {} on which "
        "{} read scopes are open",
        program.spec.name, input.name, reader->call, reader->open_scopes);
  }
  if (holder.kind != Slot::Kind::kWindow || holder.in_path) return absl::OkStatus();
  return FailedPrecondition(
      "Session::Run: program '{}' would write to its input '{}', an output of call {} whose path "
      "has ended, so that this call's outputs may lie there; copy it, or keep it in a chain",
      program.spec.name, input.name, holder.call);
}

// True if `tensor` has the strides of `dense`, where that matters.
bool StridesMatch(const Tensor& tensor, const Tensor& dense) {
  for (size_t axis = 0; axis < static_cast<size_t>(tensor.rank); ++axis) {
    if (dense.sizes[axis] > 1 && tensor.strides[axis] != dense.strides[axis]) return false;
  }
  return true;
}

// Whether a program may take `tensor`, a part of `output`, as this input where it lies: it has the
// layout of the padded input, and what lies in the padding is the program's to read, or not there.
bool FitsInPlace(const Program& program,
                 const InputSpec& spec,
                 const Tensor& tensor,
                 const Tensor& output,
                 std::span<const int64_t> padded) {
  const Tensor whole = internal::DenseTensor(tensor.data, spec.dtype, spec.dims, padded);
  const auto end = [](const Tensor& of) {
    return of.data + static_cast<DeviceAddress>(internal::RoundedBytes(of));
  };
  if (tensor.data % kBufferAlignment != 0 || !StridesMatch(tensor, whole) ||
      end(whole) > end(output)) {
    return false;
  }
  return tensor.sizes == whole.sizes || (!spec.mutated && internal::PaddingIsFree(program, spec));
}

// Says which input is stale, and if it can, whose output it was and which call wrote over it.
absl::Status StaleInput(const Call& call, size_t input, const Lane& lane) {
  const Program& program = *call.program;
  const std::string& name = program.spec.inputs[static_cast<size_t>(program.copies[input])].name;
  const DeviceAddress address = call.inputs[input].data;
  for (const Slot* slot : lane.parked) {
    if (!slot->expired() || !slot->leased()) continue;
    if (call.inputs[input].made_by != 0 && call.inputs[input].made_by != slot->call) continue;
    const bool here = std::any_of(
        slot->overwritten_regions.begin(), slot->overwritten_regions.end(),
        [&](const Region& region) {
          const DeviceAddress begin = lane.node_base() + static_cast<DeviceAddress>(region.offset);
          return address >= begin && address - begin < static_cast<DeviceAddress>(region.bytes);
        });
    if (!here) continue;
    return FailedPrecondition(
        "Session::Run: input '{}' of program '{}' is an output of program '{}' (call {} on lane "
        "{}), which call {} (program '{}') wrote over",
        name, program.spec.name, slot->program->spec.name, slot->call, lane.index,
        slot->overwritten_by, slot->overwriter->spec.name);
  }
  return FailedPrecondition(
      "Session::Run: input '{}' of program '{}' lies at {:#x} in the memory of lane {}, where no "
      "lease keeps it; hold the lease of the call that made it",
      name, program.spec.name, address, lane.index);
}

// An input in another lane's memory must be under a scope, which orders this call's stream behind
// that lane and keeps the bytes.
absl::Status CheckOtherLane(const Call& call, size_t input, const Lane& other) {
  const ProgramSpec& spec = call.program->spec;
  const InputSpec& read = spec.inputs[static_cast<size_t>(call.program->copies[input])];
  if (read.mutated) {
    return FailedPrecondition(
        "Session::Run: program '{}' on lane {} would write to its input '{}', an output on lane "
        "{}; copy it",
        spec.name, call.lane, read.name, other.index);
  }
  const std::lock_guard<std::mutex> lock(other.mutex);
  for (const auto* slots : {&other.window, &other.parked, &other.ring}) {
    const Slot* slot = FindHolder(*slots, call.inputs[input]);
    if (slot != nullptr && slot->open_scopes > 0) return absl::OkStatus();
  }
  return FailedPrecondition(
      "Session::Run: input '{}' of program '{}' is an output on lane {}, the call is on lane {}; "
      "keep a read scope on the call's stream open meanwhile",
      read.name, spec.name, other.index, call.lane);
}

}  // namespace

// What needs no lock of the call's own lane.
absl::Status Session::State::CheckInputs(const Request& request) const {
  const Call& call = request.call;
  const Program& program = *call.program;
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    const Tensor& tensor = call.inputs[i];
    if (pool->Contains(tensor.data, 1)) [[unlikely]] {
      const Pool::Place place = *pool->Locate(tensor.data);
      if (place.lane != call.lane) {
        COPPICE_RETURN_IF_ERROR(CheckOtherLane(call, i, *lanes[static_cast<size_t>(place.lane)]));
      }
    }
    if (!program.mutates_copies) continue;
    const InputSpec& spec = program.spec.inputs[static_cast<size_t>(program.copies[i])];
    const Tensor dense =
        internal::DenseTensor(tensor.data, spec.dtype, spec.dims, request.shape.real);
    if (spec.mutated && !StridesMatch(tensor, dense)) {
      return InvalidArgument(
          "Session::Run: input '{}' of program '{}' is written back, so it must be dense",
          spec.name, program.spec.name);
    }
  }
  return absl::OkStatus();
}

// Finds which inputs are outputs of the path, and what a child is to be planned around. A stale
// input is an error. Writes lane.scratch.
absl::Status Session::State::FindPlace(Request& request, Lane& lane) const {
  const Call& call = request.call;
  const Program& program = *call.program;
  std::vector<int64_t>& in_place = lane.scratch.in_place;
  in_place.assign(call.inputs.size(), -1);
  request.child = lane.chain_open;
  request.known_place = true;
  // Whatever another thread drops from here on still counts as live.
  lane.SweepWindow();
  request.surroundings = nullptr;
  lane.used.clear();
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    const Tensor& tensor = call.inputs[i];
    const std::optional<Pool::Place> place = pool->Locate(tensor.data);
    if (!place || place->lane != lane.index || tensor.element_count() == 0) continue;
    const Tensor* output = nullptr;
    const std::vector<Slot*>& slots = SlotsOf(place->kind, lane);
    const Slot* holder = FindHolder(slots, tensor, &output);
    if (holder == nullptr) return StaleInput(call, i, lane);
    if (lane.tracer != nullptr) lane.used.push_back(holder->call);
    const InputSpec& spec = program.spec.inputs[static_cast<size_t>(program.copies[i])];
    if (spec.mutated) {
      COPPICE_RETURN_IF_ERROR(CheckWritable(program, spec, slots, tensor, *holder));
      // Written back behind the graph, which must not have put its own outputs there.
      request.child |= holder->in_path;
    }
    if (!holder->in_path || request.shape.over_maximum ||
        !FitsInPlace(program, spec, tensor, *output, request.shape.padded)) {
      continue;
    }
    in_place[i] = static_cast<int64_t>(tensor.data - lane.node_base());
    request.child = true;
  }
  if (!request.child) return absl::OkStatus();

  lane.scratch.live.clear();
  for (const Slot* slot : lane.window) {
    if (!slot->in_path) continue;
    lane.scratch.live.insert(lane.scratch.live.end(), slot->node->output_regions.begin(),
                             slot->node->output_regions.end());
  }
  internal::Normalize(lane.scratch.live);
  if (lane.scratch.empty()) return absl::OkStatus();
  request.surroundings = lane.surroundings.Find(lane.scratch);
  request.known_place = request.surroundings != nullptr;
  return absl::OkStatus();
}

absl::Status Session::State::Place(Request& request, Lane& lane) const {
  COPPICE_RETURN_IF_ERROR(FindPlace(request, lane));
  if (!lane.chain_open || request.shape.over_maximum) return absl::OkStatus();
  internal::BucketKey key;
  internal::SetBucketKey(request.call, request.shape, key);
  const bool rehearse = !lane.rehearsal.begun() && FindNode(request, lane) == nullptr;
  lane.rehearsal.Note(lane, *request.call.program, key, lane.calls + 1, rehearse);
  return absl::OkStatus();
}

}  // namespace coppice
