// Events in the order of their times become steps.

#include "tools/prof/whatif/traced_calls.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "fmt/format.h"

#include "coppice/base/status.h"

#include "tools/support/text_table.h"

namespace coppice {
namespace {

constexpr int64_t kPlaces = 4;  // Between two events: where drops go.

bool RanInBucket(RunKind path) {
  return path == RunKind::kReplay || path == RunKind::kRecord || path == RunKind::kWarmUp;
}

class StepReader {
 public:
  explicit StepReader(TracedCalls& read)
      : read_(read), lanes_(static_cast<size_t>(read.trace.lanes)) {}

  void Add(const TracedEvent& event) {
    now_ += kPlaces;
    event_ = &event;
    std::visit([this](const auto& what) { Take(what); }, event.what);
  }

  void Finish() {
    std::ranges::stable_sort(steps_, {}, &PlacedStep::place);
    for (const PlacedStep& placed : steps_)
      if (!placed.cancelled) read_.steps.push_back(placed.step);
    NoteGaps();
  }

 private:
  struct PlacedStep {
    int64_t place = 0;
    TracedStep step;
    bool cancelled = false;
  };
  struct Recorded {
    int node = 0;
    size_t step = 0;
  };
  struct LaneState {
    std::vector<TracedUse> uses;
    std::vector<Recorded> recorded;  // Since the last call.
    std::vector<size_t> dropped;     // The same: steps that drop a lease, or a part of one.
    std::map<int64_t, int> places;   // Of calls, by number.
    int64_t last_number = 0;
    // The lane's last call, which looked for leases of graphs' outputs that were dropped, and its
    // last one without a graph, which looked for all.
    int64_t last_place = 0;
    int64_t swept_number = 0;
    int64_t swept_place = 0;
  };

  void Take(const UseEvent& use) {
    Lane().uses.push_back({.call = PlaceOf(use.other_call),
                           .input = use.input,
                           .output = use.output,
                           .byte = use.offset_bytes});
  }
  void Take(const OutputsEvent& outputs) {
    const int place = PlaceOf(outputs.call);
    if (place >= 0) read_.calls[static_cast<size_t>(place)].held = true;
  }
  void Take(const PartEvent& part) {
    const int place = PlaceOf(part.call);
    if (place < 0) return;
    Lane().dropped.push_back(steps_.size());
    PushAt(Lane().last_place + 1,
           {.kind = TracedStep::Kind::kPart, .what = place, .value = part.output});
  }
  void Take(const RecordEvent& record) {
    ++read_.figures.recorded;
    const TracedNode& node = read_.trace.nodes[static_cast<size_t>(record.node)];
    read_.figures.height = std::max(read_.figures.height, node.height);
    Lane().recorded.push_back({record.node, steps_.size()});
    Push({.kind = TracedStep::Kind::kWarm, .what = node.bucket});
  }
  void Take(const EvictEvent& /*evict*/) {
    ++read_.figures.evicted;
    if (suspended_at_ >= 0) steps_[static_cast<size_t>(suspended_at_)].step.value = 1;
  }
  void Take(const SuspendEvent& /*empty*/) {
    ++read_.figures.suspensions;
    suspended_at_ = std::ssize(steps_);
    Push({.kind = TracedStep::Kind::kSuspend});
  }
  void Take(const ResumeEvent& /*empty*/) {
    suspended_at_ = -1;
    Push({.kind = TracedStep::Kind::kResume});
  }
  void Take(const PolicyEvent& policy) {
    Push({.kind = TracedStep::Kind::kPolicy,
          .what = policy.program,
          .value = policy.symbol,
          .more = policy.policy});
  }
  template <typename Other>
  void Take(const Other& /*other*/) {}

  LaneState& Lane() { return lanes_[static_cast<size_t>(event_->lane)]; }
  // Of a call of the event's lane.
  int PlaceOf(int64_t call) const {
    const std::map<int64_t, int>& places = lanes_[static_cast<size_t>(event_->lane)].places;
    const auto found = places.find(call);
    return found == places.end() ? -1 : found->second;
  }

  void Push(TracedStep step) { PushAt(now_, step); }
  void PushAt(int64_t place, TracedStep step) {
    step.time_ns = event_->time_ns;
    steps_.push_back({.place = place, .step = step});
  }

  void Take(const CallEvent& event) {
    LaneState& lane = Lane();
    const int place = static_cast<int>(read_.calls.size());
    lane.places[event.call] = place;
    TracedCall call{.lane = event_->lane,
                    .number = event.call,
                    .program = event.program,
                    .bucket = event.bucket,
                    .extents = event.extents,
                    .path = event.path,
                    .outputs = event.outputs,
                    .host_ns = event.host_ns};
    std::swap(call.uses, lane.uses);
    lane.uses.clear();
    failed_ += event.call - lane.last_number - 1;
    lane.last_number = event.call;
    lane.last_place = now_;
    NoteRecorded(event, lane);
    TakeGifts(call, lane);
    NoteFreed(event, call);
    NoteUnusual(event, call);
    call_places_.push_back(now_);
    read_places_.push_back(now_);
    for (const TracedUse& use : call.uses)
      if (use.call >= 0) read_places_[static_cast<size_t>(use.call)] = now_;
    if (RanWithoutGraph(event.path)) {
      lane.swept_number = event.call;
      lane.swept_place = now_;
    }
    read_.calls.push_back(std::move(call));
    if (event.path != RunKind::kInclude) Push({.kind = TracedStep::Kind::kCall, .what = place});
    Count(event);
  }

  // Nobody reads what is dropped: leases that went between the lane's last call and this one, which
  // reads them, went with it.
  void TakeGifts(TracedCall& call, LaneState& lane) {
    for (const size_t dropped : lane.dropped) {
      PlacedStep& drop = steps_[dropped];
      const bool part = drop.step.kind == TracedStep::Kind::kPart;
      const auto is_read = [&](const TracedUse& use) {
        return use.call == drop.step.what && (!part || use.output == drop.step.value);
      };
      if (std::ranges::none_of(call.uses, is_read)) continue;
      drop.cancelled = true;
      call.gifts.push_back(
          {.call = drop.step.what, .output = part ? static_cast<int>(drop.step.value) : -1});
    }
    lane.dropped.clear();
  }

  // Which inputs of what was given away a recording frees, and when: where they lie says it.
  void NoteFreed(const CallEvent& event, const TracedCall& call) {
    call_nodes_.push_back(event.node);
    if (event.node < 0 || call.gifts.empty()) return;
    const TracedNode& node = read_.trace.nodes[static_cast<size_t>(event.node)];
    if (read_.freed.contains(&node)) return;
    for (const TracedUse& use : call.uses) {
      const int made_by = use.call < 0 ? -1 : call_nodes_[static_cast<size_t>(use.call)];
      if (made_by < 0) continue;
      const TracedNode& maker = read_.trace.nodes[static_cast<size_t>(made_by)];
      const auto output = std::ranges::find(maker.outputs, use.output);
      if (output == maker.outputs.end()) continue;
      const int64_t at =
          maker.offsets[static_cast<size_t>(output - maker.outputs.begin())] + use.byte;
      for (const Buffer& given : node.donated) {
        const int64_t begin = given.fixed_offset.value_or(0);
        if (begin <= at && at < begin + given.bytes)
          read_.freed[&node].push_back({.copy = use.input, .step = given.lifetime.back().upper});
      }
    }
  }

  // What was recorded since the lane's last call is this call's own, or was warmed ahead.
  void NoteRecorded(const CallEvent& event, LaneState& lane) {
    for (const Recorded& recorded : lane.recorded) {
      const bool own = event.path == RunKind::kRecord && recorded.node == event.node;
      const TracedNode& node = read_.trace.nodes[static_cast<size_t>(recorded.node)];
      steps_[recorded.step].cancelled = own || !node.around.empty();
      chained_ahead_ += !own && !node.around.empty() ? 1 : 0;
    }
    lane.recorded.clear();
  }

  void NoteUnusual(const CallEvent& event, const TracedCall& call) {
    included_ += event.path == RunKind::kInclude ? 1 : 0;
    const bool has_scalars =
        event.program >= 0 &&
        !read_.trace.programs[static_cast<size_t>(event.program)].scalars.empty();
    const bool known = event.bucket >= 0 &&
                       !read_.trace.buckets[static_cast<size_t>(event.bucket)].scalars.empty();
    read_.unknown_scalars += has_scalars && !known ? 1 : 0;
    if (event.bucket >= 0 && event.path == RunKind::kWarmUp) warmed_.insert(event.bucket);
    if (event.bucket >= 0 && event.path == RunKind::kRecord && !warmed_.contains(event.bucket) &&
        event.reason == Reason::kNewBucket)
      unwarmed_.insert(event.program);
    if (event.node < 0) return;
    const TracedNode& node = read_.trace.nodes[static_cast<size_t>(event.node)];
    donating_ += !node.donated.empty() && !read_.freed.contains(&node) ? 1 : 0;
    chained_ += !node.around.empty() && call.uses.empty() ? 1 : 0;
  }

  void Count(const CallEvent& event) {
    WhatIfFigures& figures = read_.figures;
    ++figures.paths[static_cast<size_t>(event.path)];
    ++figures.reasons[static_cast<size_t>(event.reason)];
    if (RanInBucket(event.path)) {
      figures.real_elements += event.real_elements;
      figures.padded_elements += event.padded_elements;
    }
    if (event.node >= 0 && event.path == RunKind::kRecord)
      figures.record_ns += read_.trace.nodes[static_cast<size_t>(event.node)].record_ns;
    figures.bytes = bytes_;
    figures.total = std::accumulate(bytes_.begin(), bytes_.end(), int64_t{0});
    read_.end_ns = event_->time_ns;
  }

  void Take(const ReleaseEvent& release) {
    const int place = PlaceOf(release.call);
    if (place < 0) return;
    const TracedCall& call = read_.calls[static_cast<size_t>(place)];
    const TracedStep drop{
        .kind = TracedStep::Kind::kDrop, .what = place, .value = std::ssize(read_.calls)};
    const LaneState& lane = Lane();
    int64_t seen = lane.last_place;
    if (RanWithoutGraph(call.path) && call.outputs == OutputMode::kBorrow)
      seen = lane.swept_number > release.call ? lane.swept_place
                                              : call_places_[static_cast<size_t>(place)];
    seen = std::max(seen, read_places_[static_cast<size_t>(place)]);
    Lane().dropped.push_back(steps_.size());
    PushAt(seen + 1, drop);
  }

  void Take(const BytesEvent& event) {
    const auto kind = static_cast<size_t>(event.kind);
    const int64_t before = std::exchange(bytes_[kind], event.bytes);
    WhatIfFigures& figures = read_.figures;
    figures.peaks[kind] = std::max(figures.peaks[kind], event.bytes);
    figures.total_peak = std::max(figures.total_peak, event.total_bytes);
    if (event.kind == MemoryKind::kEager && event.bytes < before && !steps_.empty() &&
        steps_.back().step.kind == TracedStep::Kind::kWarm)
      steps_.back().step.value = 1;
    if (!IsForeign(event.kind)) return;
    int64_t foreign = 0;
    for (int i = 0; i < kMemoryKindCount; ++i)
      if (IsForeign(static_cast<MemoryKind>(i))) foreign += bytes_[static_cast<size_t>(i)];
    Push({.kind = TracedStep::Kind::kExternal, .value = foreign});
  }

  void NoteGap(int64_t count, const char* noun, const char* text) {
    if (count > 0) read_.gaps.push_back(fmt::format(fmt::runtime(text), Counted(count, noun)));
  }

  void NoteGaps() {
    NoteGap(read_.trace.dropped, "event",
            "the session dropped {} (set TraceOptions::wait_when_full to keep all)");
    NoteGap(failed_, "call", "{} failed, and a trace has no details of failed calls");
    NoteGap(included_, "call", "{} went into the application's own captures");
    NoteGap(donating_, "call", "{} gave leases away, and a trace does not say which leases");
    NoteGap(chained_, "call",
            "{} in a chain avoided the memory of leases but read none of these leases, and a trace "
            "does not say where a chain begins");
    NoteGap(chained_ahead_, "graph",
            "the session recorded {} in advance, for calls that feed each other");
    NoteGap(read_.figures.reasons[static_cast<size_t>(Reason::kStaticInputMoved)], "call",
            "{} came with other static inputs, and a trace does not say which inputs");
    NoteGap(read_.figures.reasons[static_cast<size_t>(Reason::kGateSaysEager)], "call",
            "{} ran without a graph because this was faster");
    read_.recorded_at_once.resize(read_.trace.programs.size());
    for (const int program : unwarmed_) {
      const bool some = std::ranges::any_of(warmed_, [&](int bucket) {
        return read_.trace.buckets[static_cast<size_t>(bucket)].program == program;
      });
      read_.recorded_at_once[static_cast<size_t>(program)] = !some;
      if (!some) continue;
      read_.gaps.push_back(
          fmt::format("program '{}' was warmed up in some buckets before the trace began, and in "
                      "other buckets later; the repetition warms it up in all of them",
                      LabelOfProgram(read_.trace, program)));
    }
  }

  TracedCalls& read_;
  std::vector<LaneState> lanes_;
  std::vector<PlacedStep> steps_;
  std::vector<int> call_nodes_;
  std::vector<int64_t> call_places_;
  std::vector<int64_t>
      read_places_;  // Of the last call that reads outputs of this one, or its own.
  const TracedEvent* event_ = nullptr;
  int64_t now_ = 0;
  std::array<int64_t, kMemoryKindCount> bytes_{};
  int64_t suspended_at_ = -1;
  std::set<int> warmed_;    // Buckets.
  std::set<int> unwarmed_;  // Programs of which a bucket was recorded without.
  int64_t failed_ = 0;
  int64_t included_ = 0;
  int64_t donating_ = 0;
  int64_t chained_ = 0;
  int64_t chained_ahead_ = 0;
};

}  // namespace

bool RanWithoutGraph(RunKind path) {
  return path == RunKind::kEager || path == RunKind::kWarmUp;
}

bool IsForeign(MemoryKind kind) {
  return kind == MemoryKind::kConstants || kind == MemoryKind::kIncluded ||
         kind == MemoryKind::kExternal;
}

absl::StatusOr<TracedCalls> ReadTracedCalls(const std::string& path) {
  std::vector<TracedEvent> events;
  TracedCalls read;
  COPPICE_ASSIGN_OR_RETURN(read.trace,
                           ReadPoolTrace(path, [&](const PoolTrace&, const TracedEvent& event) {
                             events.push_back(event);
                           }));
  // Lanes follow each other in pieces; within one, and at one time, the order is that of the file.
  std::ranges::stable_sort(events, {}, &TracedEvent::time_ns);
  StepReader reader(read);
  for (const TracedEvent& event : events)
    reader.Add(event);
  reader.Finish();
  if (read.calls.empty())
    return InvalidArgument("{}: the trace has no calls; give the trace of a session that ran calls",
                           path);
  return read;
}

}  // namespace coppice
