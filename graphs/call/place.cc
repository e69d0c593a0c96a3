// Inputs are the caller's own memory, or outputs of earlier calls.

#include "graphs/call/place.h"

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "coppice/base/status.h"

#include "graphs/call/decide.h"
#include "graphs/call/extents.h"
#include "graphs/call/holder.h"
#include "graphs/node/input_layout.h"

namespace coppice::internal {

// Says whose outputs a lease shows.
struct LeaseAccess {
  static const Slot* SlotOf(const Lease& lease) { return lease.slot_; }
};

namespace {

// Whether a program may write to its input, an output that `holder` has among `slots`.
absl::Status CheckWritable(const Program& program,
                           const InputSpec& input,
                           const std::vector<Slot*>& slots,
                           const Tensor& tensor,
                           const Slot& holder) {
  if (const Slot* reader = FindReader(slots, tensor)) {
    return FailedPrecondition(
        "Session::Run: program '{}' would write to its input '{}', an output of call {} that still "
        "has open read scopes ({}); end those first",
        program.spec.name, input.name, reader->call, reader->open_scopes());
  }
  if (holder.kind != Slot::Kind::kWindow || holder.in_path) return absl::OkStatus();
  return FailedPrecondition(
      "Session::Run: program '{}' would write to its input '{}', an output of call {} whose path "
      "has ended; this call's outputs may be placed there, so copy the input, or keep it in a "
      "chain",
      program.spec.name, input.name, holder.call);
}

// Says that what the call reads is stale, and if it can, whose output it was and which call wrote
// over it. `what` names it ("input 'x'").
absl::Status Stale(const Program& program,
                   const std::string& what,
                   const Tensor& read,
                   Lane& lane) {
  const DeviceAddress address = read.data;
  for (const Slot* slot : lane.slots().ListOf(MemoryKind::kEager)) {
    if (!slot->expired() || !slot->leased()) continue;
    if (read.made_by != 0 && read.made_by != slot->call) continue;
    const bool here = std::any_of(
        slot->overwritten_regions.begin(), slot->overwritten_regions.end(),
        [&](const Region& region) {
          const DeviceAddress begin =
              lane.memory().base(MemoryKind::kPlan) + static_cast<DeviceAddress>(region.offset);
          return address >= begin && address - begin < static_cast<DeviceAddress>(region.bytes);
        });
    if (!here) continue;
    return FailedPrecondition(
        "Session::Run: {} of program '{}' is an output of program '{}' (call {} on lane {}), which "
        "call {} (program '{}') overwrote; copy the output earlier, or keep it alive in a chain",
        what, program.spec.name, slot->program->spec.name, slot->call, lane.index,
        slot->overwritten_by, slot->overwriter->spec.name);
  }
  return FailedPrecondition(
      "Session::Run: {} of program '{}' lies at {:#x} in the memory of lane {}, where no lease "
      "keeps it; hold the lease of the call that made it",
      what, program.spec.name, address, lane.index);
}

// Whether the call may use up the leases that it was given.
absl::Status CheckDonated(const Call& call, const Lane& lane) {
  for (const Lease& lease : call.donated) {
    const Slot* slot = LeaseAccess::SlotOf(lease);
    if (slot == nullptr || !slot->in_lane() || slot->lane != &lane) {
      return InvalidArgument(
          "Session::Run: program '{}' is given a lease that is empty, or does not belong to lane "
          "{} of this session; donate leases of the call's lane",
          call.program->spec.name, lane.index);
    }
    if (slot->open_scopes() > 0) {
      return FailedPrecondition(
          "Session::Run: program '{}' is given the lease of call {} of program '{}', which still "
          "has open read scopes ({}); end those first",
          call.program->spec.name, slot->call, slot->program->spec.name, slot->open_scopes());
    }
  }
  return absl::OkStatus();
}

// Whether the call is given an output, with all that it counts.
bool IsDonated(const Call& call, const Slot& slot, size_t output) {
  const auto given = [&](size_t index) {
    return std::any_of(call.donated.begin(), call.donated.end(), [&](const Lease& lease) {
      return LeaseAccess::SlotOf(lease) == &slot &&
             (lease.part() < 0 || static_cast<size_t>(lease.part()) == index);
    });
  };
  return given(output) && slot.AllCountedBy(output, [&](size_t counted) {
    return given(counted) || !slot.keeps(counted);
  });
}

// Divides what the path keeps into what stays live and what the call gives away and reads in place.
// Bytes that are both stay; those that are given away and not read are nobody's.
void DivideLive(const Call& call, Lane& lane, Surroundings& around) {
  for (const Slot* slot : lane.slots().ListOf(MemoryKind::kPlan)) {
    if (!slot->in_path) continue;
    if (call.donated.empty()) {
      around.live.insert(around.live.end(), RegionsOf(*slot).begin(), RegionsOf(*slot).end());
      continue;
    }
    for (size_t i = 0; i < slot->outputs->tensors.size(); ++i) {
      const std::optional<Region> region = lane.memory().RegionOf(*slot->outputs, i);
      if (region && slot->keeps(i))
        (IsDonated(call, *slot, i) ? around.donated : around.live).push_back(*region);
    }
  }
  if (around.donated.empty()) return;
  JoinOverlapping(around.donated);
  // What is staged and written back goes there behind the graph.
  const auto written_back = [&](const Region& region) {
    for (size_t i = 0; i < call.inputs.size(); ++i) {
      if (!call.program->copied_input(i).mutated || around.in_place[i] >= 0) continue;
      const std::optional<Region> input = lane.memory().RegionOf(call.inputs[i]);
      if (input && Meets(*input, {region})) return true;
    }
    return false;
  };
  std::erase_if(around.donated, [&](const Region& region) {
    const bool kept = Meets(region, around.live) || written_back(region);
    if (kept) around.live.push_back(region);
    const bool read = std::any_of(
        around.in_place.begin(), around.in_place.end(),
        [&region](int64_t offset) { return offset >= region.offset && offset < region.end(); });
    return kept || !read;
  });
}

// Whether somebody keeps the counts in the lane's memory, which staging reads before the graph
// runs.
absl::Status FindCounts(const Call& call, Lane& lane) {
  for (size_t i = 0; i < call.counts.size(); ++i) {
    const Tensor& count = call.counts[i];
    const std::optional<WindowMap::Place> place = lane.memory().windows().Locate(count.data);
    if (!place || place->lane != lane.index) continue;
    const Slot* holder = FindHolder(lane.slots().ListOf(place->kind), count);
    if (holder == nullptr) return Stale(*call.program, NameOfCount(*call.program, i), count, lane);
    lane.slots().NoteRead(*holder);
    if (lane.tracer != nullptr)
      lane.slots().NoteUse({.other_call = static_cast<int64_t>(holder->call)});
  }
  return absl::OkStatus();
}

// What a trace says of input `index`, which lies in that output, but for the call that reads it.
UseEvent UseOf(const Slot& holder, const Tensor& output, const Tensor& tensor, size_t index) {
  return {.other_call = static_cast<int64_t>(holder.call),
          .input = static_cast<int32_t>(index),
          .output = static_cast<int32_t>(&output - holder.outputs->tensors.data()),
          .offset_bytes = static_cast<int64_t>(tensor.data - output.data)};
}

// Which of the outputs that the call is given are inputs of it.
std::vector<ChainPlanner::Gift> GiftsOf(const Call& call) {
  std::vector<ChainPlanner::Gift> gifts;
  for (const Lease& lease : call.donated) {
    const Slot& slot = *LeaseAccess::SlotOf(lease);
    for (size_t output = 0; slot.outputs != nullptr && output < slot.outputs->tensors.size();
         ++output) {
      if (!IsDonated(call, slot, output)) continue;
      for (size_t i = 0; i < call.inputs.size(); ++i) {
        if (Holds(slot.outputs->tensors[output], call.inputs[i]))
          gifts.push_back(
              {.number = slot.call, .output = output, .input = call.program->layout.copies[i]});
      }
    }
  }
  return gifts;
}

}  // namespace

uint32_t CountedOf(const Call& call) {
  uint32_t symbols = call.program->layout.ragged_totals;
  for (size_t i = 0; i < call.counts.size(); ++i)
    if (call.counts[i].data != 0) symbols |= uint32_t{1} << call.program->layout.counted[i];
  return symbols;
}

uint32_t PaddedExtents(const InputSpec& spec,
                       const Tensor& tensor,
                       const Tensor& whole,
                       uint32_t counted) {
  uint32_t extents = 0;
  // Packed rows have one axis where their rectangle has two, both of which are always padded.
  const size_t more = spec.dims.size() - static_cast<size_t>(tensor.rank);
  for (size_t axis = 0; axis < spec.dims.size(); ++axis) {
    const int extent = ExtentOf(spec.dims[axis]);
    if (extent < 0) continue;
    const bool of_rectangle = more > 0 && axis < 2;
    const bool padded = of_rectangle || tensor.sizes[axis - more] != whole.sizes[axis] ||
                        (counted >> extent & 1) != 0;
    extents |= uint32_t{padded} << extent;
  }
  return extents;
}

void ReleaseDonated(const Call& call) {
  for (Lease& lease : call.donated)
    lease.Release();
}

Fit FitOf(const Program& program,
          const InputSpec& spec,
          const Tensor& tensor,
          const Tensor& output,
          std::span<const int64_t> padded,
          uint32_t counted) {
  // Packed rows, of which the program sees a rectangle.
  if (static_cast<size_t>(tensor.rank) != spec.dims.size()) return Fit::kNoFit;
  const Tensor whole = PlacedTensor(tensor.data, spec, padded);
  const auto end = [](const Tensor& of) {
    return of.data + static_cast<DeviceAddress>(RoundedBytes(of));
  };
  if (tensor.data % kBufferAlignment != 0 || !StridesMatch(tensor, whole) ||
      end(whole) > end(output)) {
    return Fit::kNoFit;
  }
  const auto decided = [counted](const Dim& dim) {
    return dim.kind == Dim::Kind::kSymbol && (counted >> dim.index & 1) != 0;
  };
  if (tensor.sizes == whole.sizes &&
      (counted == 0 || std::none_of(spec.dims.begin(), spec.dims.end(), decided))) {
    return Fit::kInPlace;
  }
  if (spec.mutated) return Fit::kNoFit;
  if (program.layout.any_bits_everywhere || spec.fill == Fill::Undefined()) return Fit::kInPlace;
  const uint32_t padded_extents = PaddedExtents(spec, tensor, whole, counted);
  return (padded_extents & ~program.layout.any_bits) == 0 ? Fit::kInPlace : Fit::kNeedsFill;
}

void FindSurroundings(Surroundings& around, Request& request, Lane& lane) {
  Normalize(around.live);
  request.around = &around;
  request.surroundings = around.empty() ? nullptr : lane.surroundings().Find(around);
  request.known_place = around.empty() || request.surroundings != nullptr;
}

absl::Status FindPlace(Request& request, Lane& lane) {
  const Call& call = request.call;
  const Program& program = *call.program;
  Surroundings& around = lane.room().around;
  SlotTable& slots = lane.slots();
  around.in_place.assign(call.inputs.size(), -1);
  around.donated.clear();
  bool child = lane.chain().open();
  request.around = nullptr;
  request.known_place = true;
  request.filled = 0;
  request.surroundings = nullptr;
  // Whatever another thread drops from here on still counts as live, and what the call reads of it
  // stays where it is.
  slots.EndReads();
  slots.SweepWindow();
  COPPICE_RETURN_IF_ERROR(CheckDonated(call, lane));
  const uint32_t counted = CountedOf(call);
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    const Tensor& tensor = call.inputs[i];
    const std::optional<WindowMap::Place> place = lane.memory().windows().Locate(LowOf(tensor));
    if (!place || place->lane != lane.index || tensor.element_count() == 0) continue;
    const Tensor* output = nullptr;
    const std::vector<Slot*>& list = slots.ListOf(place->kind);
    const Slot* holder = FindHolder(list, tensor, &output);
    const InputSpec& spec = program.copied_input(i);
    if (holder == nullptr)
      return Stale(program, fmt::format("input '{}'", spec.name), tensor, lane);
    slots.NoteRead(*holder);
    if (lane.tracer != nullptr) slots.NoteUse(UseOf(*holder, *output, tensor, i));
    if (spec.mutated) {
      COPPICE_RETURN_IF_ERROR(CheckWritable(program, spec, list, tensor, *holder));
      // Written back behind the graph, which must not have put its own outputs there.
      child |= holder->in_path;
    }
    if (!holder->in_path || request.shape.unbucketed) continue;
    const Fit fit = FitOf(program, spec, tensor, *output, request.shape.padded, counted);
    if (fit == Fit::kNoFit) continue;
    child = true;
    if (fit == Fit::kNeedsFill) {
      ++request.filled;
      continue;
    }
    around.in_place[i] = static_cast<int64_t>(tensor.data - lane.memory().base(MemoryKind::kPlan));
  }
  COPPICE_RETURN_IF_ERROR(FindCounts(call, lane));
  if (!child) return absl::OkStatus();

  around.live.clear();
  DivideLive(call, lane, around);
  FindSurroundings(around, request, lane);
  return absl::OkStatus();
}

std::vector<size_t> FilledInputs(const Request& request, Lane& lane) {
  std::vector<size_t> filled;
  if (request.filled == 0) return filled;
  const Program& program = *request.call.program;
  for (size_t i = 0; i < request.call.inputs.size(); ++i) {
    const Tensor& tensor = request.call.inputs[i];
    const std::optional<WindowMap::Place> place = lane.memory().windows().Locate(LowOf(tensor));
    if (!place || place->lane != lane.index || tensor.element_count() == 0) continue;
    const Tensor* output = nullptr;
    const Slot* holder = FindHolder(lane.slots().ListOf(place->kind), tensor, &output);
    if (holder == nullptr || !holder->in_path) continue;
    const Fit fit = FitOf(program, program.copied_input(i), tensor, *output, request.shape.padded,
                          CountedOf(request.call));
    if (fit == Fit::kNeedsFill) filled.push_back(i);
  }
  return filled;
}

absl::Status TakePlace(Request& request, Lane& lane) {
  COPPICE_RETURN_IF_ERROR(FindPlace(request, lane));
  ChainPlanner& chain = lane.chain();
  if (!chain.open()) return absl::OkStatus();
  const uint64_t number = lane.order().calls() + 1;
  chain.Reach(number);
  if (request.shape.unbucketed) return absl::OkStatus();
  BucketKey key;
  SetBucketKey(request.call, request.shape, key);
  const bool note = !chain.begun() && FindNode(request, lane) == nullptr;
  chain.Note(*request.call.program, key, number, note, GiftsOf(request.call));
  return absl::OkStatus();
}

}  // namespace coppice::internal
