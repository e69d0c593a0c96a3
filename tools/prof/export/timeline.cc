// One pass over the events; names are kept once.

#include "tools/prof/export/timeline.h"

#include <algorithm>
#include <map>
#include <utility>

#include "fmt/format.h"

namespace coppice {
namespace {

class TimelineBuilder {
 public:
  explicit TimelineBuilder(const PoolTrace& trace)
      : trace_(trace), ends_(static_cast<size_t>(trace.lanes) + 1) {
    timeline_.tracks.emplace_back("session");
    for (int lane = 0; lane < trace.lanes; ++lane)
      timeline_.tracks.push_back(fmt::format("lane {}", lane));
  }

  void Add(const TraceEvent& event, int source) {
    source_ = source;
    switch (event.kind) {
      case TraceEventKind::kCall:
        return PutInstant(event, NameOfCall(event));
      case TraceEventKind::kRecord:
        return PutRecord(event);
      case TraceEventKind::kEvict:
        return PutInstant(event, "evict " + NameOfNode(event.node));
      case TraceEventKind::kFail:
        return PutInstant(event, "recording fails: " + FailureOf(event).code);
      case TraceEventKind::kBytes:
        PutCounter(event, static_cast<int>(event.memory), event.first);
        return PutCounter(event, kMemoryKindCount, event.second);
      case TraceEventKind::kSuspend:
      case TraceEventKind::kResume:
      case TraceEventKind::kDropped:
      case TraceEventKind::kEnd:
        return PutInstant(event, NameOf(event.kind));
      case TraceEventKind::kMark:
        return PutInstant(event, trace_.marks[static_cast<size_t>(event.mark)]);
      default:
        return;
    }
  }

  Timeline Finish() {
    // Slices begin before the event that tells of them.
    std::ranges::stable_sort(timeline_.events, {}, &TimelineEvent::time_ns);
    return std::move(timeline_);
  }

 private:
  std::string NameOfNode(int node) const {
    return NameOfBucket(trace_, trace_.nodes[static_cast<size_t>(node)].bucket);
  }
  const TracedFailure& FailureOf(const TraceEvent& event) const {
    return trace_.failures[static_cast<size_t>(event.failure)];
  }

  // "replay", "eager: over_largest_bucket".
  static std::string NameOfCall(const TraceEvent& event) {
    if (event.reason == Reason::kNone) return NameOf(event.path);
    return fmt::format("{}: {}", NameOf(event.path), NameOf(event.reason));
  }

  int Intern(const std::string& name) {
    const auto [found, fresh] = places_.emplace(name, static_cast<int>(places_.size()));
    if (fresh) timeline_.names.push_back(name);
    return found->second;
  }

  void PutInstant(const TraceEvent& event, const std::string& name) {
    timeline_.events.push_back({.kind = TimelineKind::kInstant,
                                .track = event.lane + 1,
                                .time_ns = event.time_ns,
                                .name = Intern(name),
                                .source = source_});
  }

  void PutRecord(const TraceEvent& event) {
    int64_t& end = ends_[static_cast<size_t>(event.lane + 1)];
    const int64_t lasted = trace_.nodes[static_cast<size_t>(event.node)].record_ns;
    const int64_t begin = std::max({end, event.time_ns - lasted, int64_t{0}});
    timeline_.events.push_back({.kind = TimelineKind::kSlice,
                                .track = event.lane + 1,
                                .time_ns = begin,
                                .duration_ns = event.time_ns - begin,
                                .name = Intern("record " + NameOfNode(event.node)),
                                .source = source_});
    end = event.time_ns;
  }

  void PutCounter(const TraceEvent& event, int counter, int64_t value) {
    timeline_.events.push_back({.kind = TimelineKind::kCounter,
                                .track = counter,
                                .time_ns = event.time_ns,
                                .value = value,
                                .source = source_});
  }

  const PoolTrace& trace_;
  Timeline timeline_;
  std::map<std::string, int> places_;  // In Timeline::names.
  std::vector<int64_t> ends_;          // Of the latest slice, by track.
  int source_ = -1;
};

}  // namespace

std::vector<std::string> CounterNames() {
  std::vector<std::string> names;
  for (int i = 0; i < kMemoryKindCount; ++i)
    names.push_back(fmt::format("bytes {}", NameOf(static_cast<MemoryKind>(i))));
  names.emplace_back("bytes of all kinds");
  return names;
}

Timeline TimelineOf(const TracedSession& session) {
  TimelineBuilder builder(session.trace);
  for (size_t i = 0; i < session.events.size(); ++i)
    builder.Add(session.events[i], static_cast<int>(i));
  return builder.Finish();
}

std::vector<TimelineFact> FactsOf(const TracedSession& session, const TimelineEvent& event) {
  const PoolTrace& trace = session.trace;
  const TraceEvent& source = session.events[static_cast<size_t>(event.source)];
  std::vector<TimelineFact> facts;
  if (source.kind == TraceEventKind::kCall)
    facts.push_back({.name = "call", .number = source.call});
  const int bucket =
      source.node < 0 ? source.bucket : trace.nodes[static_cast<size_t>(source.node)].bucket;
  if (bucket >= 0) {
    facts.push_back({.name = "bucket", .number = trace.buckets[static_cast<size_t>(bucket)].id});
    facts.push_back({.name = "label", .text = NameOfBucket(trace, bucket)});
  } else if (source.program >= 0) {
    facts.push_back({.name = "label", .text = LabelOfProgram(trace, source.program)});
  }
  if (source.node >= 0) {
    const TracedNode& node = trace.nodes[static_cast<size_t>(source.node)];
    facts.push_back({.name = "node", .number = node.id});
    if (source.kind == TraceEventKind::kRecord) {
      facts.push_back({.name = "record_ns", .number = node.record_ns});
      facts.push_back({.name = "height_bytes", .number = node.height});
      facts.push_back({.name = "reason", .text = NameOf(node.reason)});
    }
  }
  if (source.kind == TraceEventKind::kCall) {
    if (source.reason != Reason::kNone)
      facts.push_back({.name = "reason", .text = NameOf(source.reason)});
    facts.push_back({.name = "real_elements", .number = source.first});
    facts.push_back({.name = "padded_elements", .number = source.second});
  }
  if (source.kind == TraceEventKind::kDropped)
    facts.push_back({.name = "events", .number = source.first});
  if (source.failure >= 0) {
    const TracedFailure& failure = trace.failures[static_cast<size_t>(source.failure)];
    facts.push_back({.name = "driver_call", .text = failure.driver_call});
    facts.push_back({.name = "message", .text = failure.message});
  }
  return facts;
}

}  // namespace coppice
