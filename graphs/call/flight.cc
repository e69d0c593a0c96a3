// Entries: sizes first, then what is in them, then the copies. The hot path of a lane with a flight
// recorder is here, so that the compiler has both in one function.

#include "graphs/call/flight.h"

#include <algorithm>
#include <cstring>

#include "coppice/base/units.h"

#include "graphs/call/holder.h"
#include "graphs/call/replay.h"
#include "graphs/call/replay_body.h"
#include "graphs/flight/lane_recorder.h"

namespace coppice::internal {
namespace {

int64_t SpanBytes(const Tensor& tensor) {
  return tensor.span() * SizeOf(tensor.dtype);
}

int64_t Aligned(int64_t bytes) {
  return AlignUp(bytes, FlightEntry::kAlignment);
}

bool IsRecorded(const Tensor& tensor, const RecorderOptions& options) {
  return SpanBytes(tensor) <= options.static_bytes_max;
}

// Where the bytes of copies begin that lie behind the staging window.
struct CopyPlaces {
  int64_t statics = 0;
  int64_t outputs = 0;
};

// Makes room in `entry` for what few calls have: copies of statics and outputs, donated leases.
CopyPlaces PlaceRest(const Request& request, Lane& lane, const Flight& flight, FlightEntry& entry) {
  const RecorderOptions& options = lane.recorder()->options();
  const Program& program = *request.call.program;
  entry.donated = static_cast<uint16_t>(request.call.donated.size());
  if (options.static_bytes_max > 0)
    entry.statics = static_cast<uint16_t>(program.layout.statics.size());
  if (options.outputs) entry.outputs = static_cast<uint16_t>(program.spec.outputs.size());
  entry.Place();
  CopyPlaces places{.statics = entry.bytes};
  for (size_t i = 0; i < entry.statics; ++i) {
    const Tensor& bound = request.call.binding->tensors[i];
    if (IsRecorded(bound, options)) entry.bytes += Aligned(SpanBytes(bound));
  }
  places.outputs = entry.bytes;
  for (size_t i = 0; i < entry.outputs; ++i)
    entry.bytes += Aligned(RoundedBytes(PlacedTensor(0, program.spec.outputs[i], flight.extents)));
  return places;
}

// The inputs that the call reads where an earlier call left them, behind those that are staged.
void NoteInPlace(const Request& request,
                 Lane& lane,
                 FlightSource* next,
                 const InputLayout& layout) {
  const Program& program = *request.call.program;
  for (size_t copy = 0; copy < program.layout.copies.size(); ++copy) {
    const int input = program.layout.copies[copy];
    if (layout.Stages(input)) continue;
    const Tensor& tensor = request.call.inputs[copy];
    *next = {.input = input, .output = FlightSource::kUnknown};
    std::copy(tensor.strides.begin(), tensor.strides.end(), next->strides);
    const Tensor* output = nullptr;
    const Slot* const slot = FindHolder(lane.slots().ListOf(MemoryKind::kPlan), tensor, &output);
    if (slot != nullptr) {
      next->output = static_cast<int32_t>(output - slot->outputs->tensors.data());
      next->at = static_cast<int64_t>(tensor.data - output->data);
      next->call = slot->call;
    }
    ++next;
  }
}

[[gnu::noinline]] void NoteSources(const Request& request,
                                   Lane& lane,
                                   const InputLayout& layout,
                                   FlightEntry& entry) {
  FlightSource* next = entry.source_list();
  const DeviceAddress base = lane.memory().base(MemoryKind::kStaging);
  for (const InputLayout::Source& source : layout.sources) {
    const Tensor& place = layout.inputs[static_cast<size_t>(source.input)];
    *next++ = {.input = source.input, .at = static_cast<int64_t>(place.data - base)};
  }
  if (layout.in_place > 0) NoteInPlace(request, lane, next, layout);
}

// A copy that the driver refuses is not there; whatever else it means is for the launch to find.
bool Copy(const SessionParts& parts,
          const Request& request,
          DeviceAddress from,
          int64_t bytes,
          void* to) {
  return parts.driver.table().MemcpyDtoHAsync(to, from, static_cast<size_t>(bytes),
                                              request.call.stream) == CuResult::kSuccess;
}

[[gnu::noinline]] void CopyStaged(const SessionParts& parts,
                                  const Request& request,
                                  Lane& lane,
                                  FlightEntry& entry) {
  lane.recorder()->ring().SetCanary(entry);
  entry.copies = Copy(parts, request, lane.memory().base(MemoryKind::kStaging), entry.staging_bytes,
                      entry.byte(entry.staging));
}

void CopyStatics(
    const SessionParts& parts, const Request& request, Lane& lane, int64_t at, FlightEntry& entry) {
  for (size_t i = 0; i < entry.statics; ++i) {
    const Tensor& bound = request.call.binding->tensors[i];
    FlightCopy& copy = entry.static_list()[i];
    copy = {};
    if (!IsRecorded(bound, lane.recorder()->options())) continue;
    copy.bytes = SpanBytes(bound);
    copy.at = copy.bytes == 0 || Copy(parts, request, bound.data, copy.bytes, entry.byte(at))
                  ? at
                  : FlightCopy::kRefused;
    at += Aligned(copy.bytes);
  }
}

void NoteRandom(Lane& lane, FlightEntry& entry) {
  const Generator::State& state = lane.taken_numbers().state;
  const std::span<int64_t> words = entry.words().last(2);
  words[0] = static_cast<int64_t>(state.seed);
  words[1] = state.offset;
}

// Enters what each call has, into an entry like `header`.
[[gnu::always_inline]] inline FlightEntry* Enter(const SessionParts& parts,
                                                 const Request& request,
                                                 Lane& lane,
                                                 const Flight& flight,
                                                 const FlightEntry& header) {
  FlightEntry* const entry = lane.recorder()->ring().Append(header.bytes);
  if (entry == nullptr) [[unlikely]]
    return nullptr;
  *entry = header;
  entry->call = lane.order().calls() + 1;
  entry->binding = request.call.binding == nullptr ? 0 : request.call.binding->number;
  entry->kind = flight.outcome.kind;
  entry->reason = flight.outcome.reason;
  entry->poison = request.call.poison;
  entry->mode = request.call.output_mode;
  int64_t* const words = entry->words().data();
  const size_t extents = header.extents;
  for (size_t i = 0; i < extents; ++i) {
    words[i] = request.shape.real[i];
    words[extents + i] = flight.extents[i];
  }
  for (size_t i = 0; i < header.scalars; ++i)
    words[2 * extents + i] = request.call.scalars[i];
  if (header.draws) [[unlikely]]
    NoteRandom(lane, *entry);
  if (header.sources > 0) NoteSources(request, lane, flight.layout, *entry);
  if (header.staging_bytes > 0) CopyStaged(parts, request, lane, *entry);
  return entry;
}

[[gnu::noinline]] void CopyOutputs(const SessionParts& parts,
                                   const Request& request,
                                   Lane& lane,
                                   std::span<const Tensor> outputs,
                                   FlightEntry& entry) {
  int64_t at = entry.output_list()[0].at;
  for (size_t i = 0; i < entry.outputs; ++i) {
    FlightCopy& copy = entry.output_list()[i];
    copy = {.at = at, .bytes = SpanBytes(outputs[i])};
    // There is room for it as the spec has it.
    if (Aligned(copy.bytes) > entry.bytes - at ||
        (copy.bytes > 0 && !Copy(parts, request, outputs[i].data, copy.bytes, entry.byte(at))))
      copy.at = FlightCopy::kRefused;
    else
      at += Aligned(copy.bytes);
  }
  entry.marks = Copy(parts, request, lane.recorder()->mark(), sizeof(entry.mark), &entry.mark);
}

[[gnu::always_inline]] inline void Finish(const SessionParts& parts,
                                          const Request& request,
                                          Lane& lane,
                                          std::span<const Tensor> outputs,
                                          FlightEntry* entry) {
  if (entry == nullptr) [[unlikely]]
    return;
  entry->ran = true;
  if (entry->outputs > 0) [[unlikely]]
    CopyOutputs(parts, request, lane, outputs, *entry);
}

[[gnu::noinline]] FlightEntry* BeginOther(const SessionParts& parts,
                                          const Request& request,
                                          Lane& lane,
                                          const Node& node,
                                          const Outcome& outcome) {
  const ExactSizes* const exact = node.exact();
  const bool is_exact = exact != nullptr && exact->IsSetTo(request.shape.real);
  return BeginFlight(parts, request, lane,
                     {.draft = node.entry_draft(),
                      .layout = node.layout(),
                      .extents = is_exact ? request.shape.real : request.shape.padded,
                      .outcome = outcome});
}

// What a replay tells the recorder.
class RecordFlight {
 public:
  [[gnu::always_inline]] RecordFlight(const SessionParts& parts,
                                      const Request& request,
                                      Lane& lane,
                                      const Node& node,
                                      const Outcome& outcome) {
    const bool usual =
        !lane.recorder()->copies_more() && request.call.donated.empty() && node.exact() == nullptr;
    if (usual) [[likely]]
      entry_ = Enter(parts, request, lane,
                     {.draft = node.entry_draft(),
                      .layout = node.layout(),
                      .extents = request.shape.padded,
                      .outcome = outcome},
                     node.entry_draft());
    else
      entry_ = BeginOther(parts, request, lane, node, outcome);
  }
  [[gnu::always_inline]] void End(const SessionParts& parts,
                                  const Request& request,
                                  Lane& lane,
                                  const Node& node) const {
    Finish(parts, request, lane, node.outputs().tensors, entry_);
  }

 private:
  FlightEntry* entry_ = nullptr;
};

}  // namespace

FlightEntry DraftEntry(const Program& program, const InputLayout& layout) {
  FlightEntry draft;
  draft.program = &program;
  draft.extents = static_cast<uint8_t>(program.layout.extent_count);
  draft.scalars = static_cast<uint8_t>(program.spec.scalars.size());
  draft.draws = program.layout.random_word >= 0;
  draft.sources = static_cast<uint16_t>(layout.sources.size() + layout.in_place);
  draft.staging_bytes = layout.stages ? layout.bytes : 0;
  draft.Place();
  return draft;
}

FlightEntry* BeginFlight(const SessionParts& parts,
                         const Request& request,
                         Lane& lane,
                         const Flight& flight) {
  FlightEntry header = flight.draft;
  const CopyPlaces places = PlaceRest(request, lane, flight, header);
  FlightEntry* const entry = Enter(parts, request, lane, flight, header);
  if (entry == nullptr) return nullptr;
  CopyStatics(parts, request, lane, places.statics, *entry);
  for (size_t i = 0; i < entry->outputs; ++i)
    entry->output_list()[i] = {.at = i == 0 ? places.outputs : FlightCopy::kTooLarge};
  for (size_t i = 0; i < entry->donated; ++i)
    entry->donated_list()[i] = request.call.donated[i].call_number();
  return entry;
}

void EndFlight(const SessionParts& parts,
               const Request& request,
               Lane& lane,
               std::span<const Tensor> outputs,
               FlightEntry* entry) {
  Finish(parts, request, lane, outputs, entry);
}

absl::StatusOr<Lease> ReplayRecorded(const SessionParts& parts,
                                     const Request& request,
                                     Lane& lane,
                                     Node& node,
                                     const Outcome& outcome) {
  return ReplayAnd<RecordFlight>(parts, request, lane, node, outcome);
}

}  // namespace coppice::internal
