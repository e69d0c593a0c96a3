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

// Where the bytes of copies begin that lie behind the staging window, and how many copies there
// are.
struct CopyPlaces {
  int64_t statics = 0;
  int64_t outputs = 0;
  int64_t copies = 0;
};

// Makes room in `draft` for what few calls have: copies of statics and outputs, donated leases.
CopyPlaces PlaceRest(const Request& request, Lane& lane, const Flight& flight, FlightEntry& draft) {
  const RecorderOptions& options = lane.recorder()->options();
  const Program& program = *request.call.program;
  draft.donated = static_cast<uint16_t>(request.call.donated.size());
  if (options.static_bytes_max > 0)
    draft.statics = static_cast<uint16_t>(program.layout.statics.size());
  if (options.outputs) draft.outputs = static_cast<uint16_t>(program.spec.outputs.size());
  draft.staging = draft.StagingByCounts();
  draft.bytes = Aligned(draft.staging + draft.staging_bytes);
  CopyPlaces places{.statics = draft.bytes, .copies = draft.staging_bytes > 0 ? 1 : 0};
  for (size_t i = 0; i < draft.statics; ++i) {
    const Tensor& bound = request.call.binding->tensors[i];
    if (!IsRecorded(bound, options)) continue;
    draft.bytes += Aligned(SpanBytes(bound));
    places.copies += SpanBytes(bound) > 0 ? 1 : 0;
  }
  places.outputs = draft.bytes;
  for (size_t i = 0; i < draft.outputs; ++i)
    draft.bytes += Aligned(RoundedBytes(PlacedTensor(0, program.spec.outputs[i], flight.extents)));
  // The mark is one more.
  if (draft.outputs > 0) places.copies += draft.outputs + 1;
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

// Copies words without a loop where there are few.
[[gnu::always_inline]] inline void CopyWords(const int64_t* from, size_t count, int64_t* to) {
  const auto copy = [&](size_t words) {
    std::memcpy(to, from, words * sizeof(int64_t));
    from += words;
    to += words;
  };
  for (; count >= 8; count -= 8)
    copy(8);
  if ((count & 4) != 0) copy(4);
  if ((count & 2) != 0) copy(2);
  if ((count & 1) != 0) copy(1);
}

// Notes what each call has, in an entry of this shape.
[[gnu::always_inline]] inline void NoteCall(const Request& request,
                                            uint64_t number,
                                            const FlightShape& shape,
                                            const ExtentArray& extents,
                                            const Outcome& outcome,
                                            bool pending,
                                            FlightEntry& entry) {
  const Call& call = request.call;
  static_cast<FlightShape&>(entry) = shape;
  entry.call = number;
  entry.binding = call.binding == nullptr ? 0 : call.binding->number;
  entry.statics = entry.outputs = entry.donated = 0;
  entry.pending = pending;
  entry.copies = false;
  entry.kind = outcome.kind;
  entry.reason = outcome.reason;
  entry.poison = call.poison;
  entry.mode = call.output_mode;
  int64_t* words = entry.words().data();
  if (shape.extents > 0) {
    CopyWords(request.shape.real.data(), shape.extents, words);
    CopyWords(extents.data(), shape.extents, words + shape.extents);
    words += size_t{2} * shape.extents;
  }
  CopyWords(call.scalars.data(), shape.scalars, words);
}

// Copies of statics and outputs, and donated leases, of an entry.
struct RareCounts {
  uint16_t statics = 0;
  uint16_t outputs = 0;
  uint16_t donated = 0;
};

// Enters a call of so many bytes, whose staging window is there.
[[gnu::always_inline]] inline FlightEntry* Enter(const SessionParts& parts,
                                                 const Request& request,
                                                 Lane& lane,
                                                 const Flight& flight,
                                                 const RareCounts& counts,
                                                 int64_t staging,
                                                 int64_t bytes) {
  FlightEntry* const entry = lane.recorder()->ring().Append(bytes);
  if (entry == nullptr) [[unlikely]]
    return nullptr;
  NoteCall(request, lane.order().calls() + 1, flight.shape, flight.extents, flight.outcome,
           /*pending=*/true, *entry);
  entry->bytes = bytes;
  entry->statics = counts.statics;
  entry->outputs = counts.outputs;
  entry->donated = counts.donated;
  entry->staging = staging;
  entry->mark = FlightEntry::kNoMark;
  if (entry->numbers > 0) [[unlikely]]
    NoteRandom(lane, *entry);
  if (entry->sources > 0) NoteSources(request, lane, flight.layout, *entry);
  if (entry->staging_bytes > 0) CopyStaged(parts, request, lane, *entry);
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
  entry.mark = 0;
  if (!Copy(parts, request, lane.recorder()->mark(), sizeof(entry.mark), &entry.mark))
    entry.mark = FlightEntry::kNoMark;
}

[[gnu::always_inline]] inline void Finish(const SessionParts& parts,
                                          const Request& request,
                                          Lane& lane,
                                          std::span<const Tensor> outputs,
                                          FlightEntry* entry) {
  if (entry == nullptr) return;
  entry->pending = false;
  if (entry->outputs > 0) CopyOutputs(parts, request, lane, outputs, *entry);
}

// Tells the recorder of a replay as soon as its inputs are staged.
class RecordStaged {
 public:
  [[gnu::always_inline]] RecordStaged(const SessionParts& parts,
                                      const Request& request,
                                      Lane& lane,
                                      const Node& node,
                                      const Outcome& outcome) {
    const ExactSizes* const exact = node.exact();
    const bool is_exact = exact != nullptr && exact->IsSetTo(request.shape.real);
    const Flight flight{.shape = node.entry_shape(),
                        .layout = node.layout(),
                        .extents = is_exact ? request.shape.real : request.shape.padded,
                        .outcome = outcome};
    if (!lane.recorder()->is_plain() || !request.call.donated.empty())
      entry_ = BeginFlight(parts, request, lane, flight);
    else
      entry_ = Enter(parts, request, lane, flight, {},
                     /*staging=*/flight.shape.bytes - Aligned(flight.shape.staging_bytes),
                     flight.shape.bytes);
  }
  void Fail(const SessionParts&, const Request&, Lane&, const Node&, const Outcome&) const {}
  [[gnu::always_inline]] void End(const SessionParts& parts,
                                  const Request& request,
                                  Lane& lane,
                                  const Node& node,
                                  const Outcome&) const {
    Finish(parts, request, lane, node.outputs().tensors, entry_);
  }

 private:
  FlightEntry* entry_ = nullptr;
};

// Enters a call that has nothing but words.
[[gnu::noinline]] void EnterWords(const Request& request,
                                  uint64_t number,
                                  Lane& lane,
                                  const Node& node,
                                  const Outcome& outcome,
                                  bool pending) {
  const FlightShape& shape = node.entry_shape();
  FlightEntry* const entry = lane.recorder()->ring().Append(shape.bytes);
  if (entry != nullptr)
    NoteCall(request, number, shape, request.shape.padded, outcome, pending, *entry);
}

// Tells the recorder of a replay whose entry has nothing but words: when its work is submitted.
class RecordWords {
 public:
  [[gnu::always_inline]] RecordWords(
      const SessionParts&, const Request&, Lane& lane, const Node&, const Outcome&)
      : before_(lane.order().calls()) {}

  // The lane counts the call only if a part of its work was submitted.
  [[gnu::noinline]] void Fail(const SessionParts&,
                              const Request& request,
                              Lane& lane,
                              const Node& node,
                              const Outcome& outcome) const {
    EnterWords(request, before_ + 1, lane, node, outcome, /*pending=*/true);
  }
  [[gnu::always_inline]] void End(const SessionParts&,
                                  const Request& request,
                                  Lane& lane,
                                  const Node& node,
                                  const Outcome& outcome) const {
    const FlightShape& shape = node.entry_shape();
    FlightEntry* const entry = lane.recorder()->ring().Take(shape.bytes);
    if (entry == nullptr) [[unlikely]]
      return EnterWords(request, lane.order().calls(), lane, node, outcome, /*pending=*/false);
    NoteCall(request, lane.order().calls(), shape, request.shape.padded, outcome, /*pending=*/false,
             *entry);
  }

 private:
  const uint64_t before_;
};

}  // namespace

FlightShape EntryShape(const Program& program, const InputLayout& layout) {
  FlightEntry draft;
  draft.program = &program;
  draft.extents = static_cast<uint16_t>(program.layout.extent_count);
  draft.scalars = static_cast<uint16_t>(program.spec.scalars.size());
  draft.numbers = program.layout.random_word >= 0 ? 2 : 0;
  draft.sources = static_cast<uint16_t>(layout.sources.size() + layout.in_place);
  draft.staging_bytes = layout.stages ? layout.bytes : 0;
  draft.bytes = Aligned(draft.StagingByCounts() + draft.staging_bytes);
  return draft;
}

FlightEntry* BeginFlight(const SessionParts& parts,
                         const Request& request,
                         Lane& lane,
                         const Flight& flight) {
  FlightEntry draft;
  static_cast<FlightShape&>(draft) = flight.shape;
  const CopyPlaces places = PlaceRest(request, lane, flight, draft);
  CopyBudget& budget = lane.recorder()->budget();
  if (places.copies > 0 && !budget.Earn()) return nullptr;
  FlightEntry* const entry =
      Enter(parts, request, lane, flight,
            {.statics = draft.statics, .outputs = draft.outputs, .donated = draft.donated},
            draft.staging, draft.bytes);
  if (entry == nullptr) return nullptr;
  budget.Pay(places.copies, draft.bytes - draft.staging);
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

absl::StatusOr<Lease> ReplayWithWords(const SessionParts& parts,
                                      const Request& request,
                                      Lane& lane,
                                      Node& node,
                                      const Outcome& outcome) {
  return ReplayAnd<RecordWords>(parts, request, lane, node, outcome);
}

absl::StatusOr<Lease> ReplayWithEntry(const SessionParts& parts,
                                      const Request& request,
                                      Lane& lane,
                                      Node& node,
                                      const Outcome& outcome) {
  return ReplayAnd<RecordStaged>(parts, request, lane, node, outcome);
}

}  // namespace coppice::internal
