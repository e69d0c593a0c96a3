// Entries: sizes first, then what is in them, then the copies.

#include "graphs/call/flight.h"

#include <algorithm>
#include <cstring>

#include "coppice/base/units.h"

#include "graphs/call/holder.h"
#include "graphs/flight/lane_recorder.h"

namespace coppice::internal {
namespace {

int64_t SpanBytes(const Tensor& tensor) {
  return tensor.span() * SizeOf(tensor.dtype);
}

int64_t Aligned(int64_t bytes) {
  return AlignUp(bytes, FlightRing::kAlignment);
}

// What of an entry is not of one size.
struct EntryLayout {
  FlightEntry header;
  int64_t lists = 0;    // Where header, words and lists end.
  int64_t statics = 0;  // Where the bytes of statics begin ...
  int64_t outputs = 0;  // ... and of outputs.
  int64_t bytes = 0;
};

bool IsRecorded(const Tensor& tensor, const RecorderOptions& options) {
  return SpanBytes(tensor) <= options.static_bytes_max;
}

// Places of all that is copied besides the staging window.
void PlaceCopies(const Request& request, Lane& lane, const Flight& flight, EntryLayout& parts) {
  const RecorderOptions& options = lane.recorder()->options();
  const Program& program = *request.call.program;
  if (options.static_bytes_max > 0) {
    parts.header.statics = static_cast<uint16_t>(program.layout.statics.size());
    for (size_t i = 0; i < program.layout.statics.size(); ++i) {
      const Tensor& bound = request.call.binding->tensors[i];
      if (IsRecorded(bound, options)) parts.outputs += Aligned(SpanBytes(bound));
    }
  }
  if (!options.outputs) return;
  parts.header.outputs = static_cast<uint16_t>(program.spec.outputs.size());
  for (const OutputSpec& output : program.spec.outputs)
    parts.bytes += Aligned(RoundedBytes(PlacedTensor(0, output, flight.extents)));
}

// How large the entry is, and where its parts are.
[[gnu::always_inline]] inline EntryLayout LayOutEntry(const Request& request,
                                                      Lane& lane,
                                                      const Flight& flight) {
  const Program& program = *request.call.program;
  const InputLayout& layout = flight.layout;
  EntryLayout parts;
  FlightEntry& header = parts.header;
  header.extents = static_cast<uint8_t>(program.layout.extent_count);
  header.scalars = static_cast<uint8_t>(program.spec.scalars.size());
  header.draws = program.layout.random_word >= 0;
  header.sources = static_cast<uint16_t>(layout.sources.size() + layout.in_place);
  header.donated = static_cast<uint16_t>(request.call.donated.size());
  const RecorderOptions& options = lane.recorder()->options();
  if (options.static_bytes_max > 0 || options.outputs) [[unlikely]]
    PlaceCopies(request, lane, flight, parts);
  parts.lists = Aligned(static_cast<int64_t>(
      sizeof(FlightEntry) + 8 * header.WordCount() + header.sources * sizeof(FlightSource) +
      (size_t{header.statics} + header.outputs) * sizeof(FlightCopy) + size_t{8} * header.donated));
  header.staging = parts.lists;
  header.staging_bytes = layout.stages ? layout.bytes : 0;
  parts.statics = header.staging + header.staging_bytes;
  parts.outputs += parts.statics;
  parts.bytes += parts.outputs;
  return parts;
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

// What few calls have.
[[gnu::noinline]] void NoteRest(const Request& request, Lane& lane, FlightEntry& entry) {
  if (entry.draws) {
    const Generator::State& state = lane.taken_numbers().state;
    const std::span<int64_t> words = entry.words().last(2);
    words[0] = static_cast<int64_t>(state.seed);
    words[1] = state.offset;
  }
  for (size_t i = 0; i < entry.donated; ++i)
    entry.donated_list()[i] = request.call.donated[i].call_number();
}

}  // namespace

FlightEntry* BeginFlight(const SessionParts& parts,
                         const Request& request,
                         Lane& lane,
                         const Flight& flight) {
  const EntryLayout laid_out = LayOutEntry(request, lane, flight);
  FlightEntry* const entry = lane.recorder()->ring().Append(laid_out.bytes);
  if (entry == nullptr) return nullptr;
  *entry = laid_out.header;
  entry->bytes = laid_out.bytes;
  entry->call = lane.order().calls() + 1;
  entry->program = request.call.program;
  entry->binding = request.call.binding == nullptr ? 0 : request.call.binding->number;
  entry->kind = flight.outcome.kind;
  entry->reason = flight.outcome.reason;
  entry->poison = request.call.poison;
  entry->mode = request.call.output_mode;
  int64_t* words = entry->words().data();
  for (size_t i = 0; i < entry->extents; ++i)
    *words++ = request.shape.real[i];
  for (size_t i = 0; i < entry->extents; ++i)
    *words++ = flight.extents[i];
  for (size_t i = 0; i < entry->scalars; ++i)
    *words++ = request.call.scalars[i];
  if (entry->draws || entry->donated > 0) [[unlikely]]
    NoteRest(request, lane, *entry);
  if (entry->sources > 0) NoteSources(request, lane, flight.layout, *entry);
  if (entry->staging_bytes > 0) CopyStaged(parts, request, lane, *entry);
  if (entry->statics > 0) [[unlikely]]
    CopyStatics(parts, request, lane, laid_out.statics, *entry);
  for (size_t i = 0; i < entry->outputs; ++i)
    entry->output_list()[i] = {.at = i == 0 ? laid_out.outputs : FlightCopy::kTooLarge};
  return entry;
}

void EndFlight(const SessionParts& parts,
               const Request& request,
               Lane& lane,
               std::span<const Tensor> outputs,
               FlightEntry* entry) {
  if (entry == nullptr) return;
  entry->ran = true;
  if (entry->outputs == 0) return;
  int64_t at = entry->output_list()[0].at;
  for (size_t i = 0; i < entry->outputs; ++i) {
    FlightCopy& copy = entry->output_list()[i];
    copy = {.at = at, .bytes = SpanBytes(outputs[i])};
    // There is room for it as the spec has it.
    if (Aligned(copy.bytes) > entry->bytes - at ||
        (copy.bytes > 0 && !Copy(parts, request, outputs[i].data, copy.bytes, entry->byte(at))))
      copy.at = FlightCopy::kRefused;
    else
      at += Aligned(copy.bytes);
  }
  entry->marks = Copy(parts, request, lane.recorder()->mark(), sizeof(entry->mark), &entry->mark);
}

}  // namespace coppice::internal
