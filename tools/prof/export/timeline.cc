// One pass over the events; names are kept once.

#include "tools/prof/export/timeline.h"

#include <algorithm>
#include <map>
#include <utility>

#include "fmt/format.h"
#include "nlohmann/json.hpp"

namespace coppice {
namespace {

constexpr size_t kRequestRowsMax = 64;
constexpr double kNsPerMs = 1e6;

// "pow2", "7 buckets up to 64", "learned: 7 buckets up to 64".
std::string NameOfPolicy(const std::string& document) {
  const nlohmann::json policy = nlohmann::json::parse(document, nullptr, false);
  if (!policy.is_object()) return "?";
  const auto ladder = policy.find("ladder");
  if (ladder != policy.end() && ladder->is_string()) return ladder->get<std::string>();
  const auto buckets = policy.find("buckets");
  if (buckets == policy.end() || !buckets->is_array() || buckets->empty()) return "?";
  return fmt::format("{}{} buckets up to {}", policy.contains("learned") ? "learned: " : "",
                     buckets->size(), buckets->back().dump());
}

class TimelineBuilder {
 public:
  explicit TimelineBuilder(const PoolTrace& trace)
      : trace_(trace), busy_(static_cast<size_t>(trace.lanes) + 1) {
    timeline_.tracks.emplace_back("session");
    for (int lane = 0; lane < trace.lanes; ++lane)
      timeline_.tracks.push_back(fmt::format("lane {}", lane));
  }

  void Add(const TraceEvent& event, int source) {
    source_ = source;
    switch (event.kind) {
      case TraceEventKind::kCall:
        return PutCall(event);
      case TraceEventKind::kRecord:
        return PutRecord(event);
      case TraceEventKind::kEvict:
        return PutInstant(event, "evict " + NameOfNode(event.node));
      case TraceEventKind::kFail:
        return PutInstant(event, "recording fails: " + FailureOf(event).code);
      case TraceEventKind::kBytes:
        PutCounter(event, static_cast<int>(event.memory), event.first);
        return PutCounter(event, kMemoryKindCount, event.second);
      case TraceEventKind::kStatics:
        return PutCounter(event, kMemoryKindCount + 1, event.second);
      case TraceEventKind::kSuspend:
      case TraceEventKind::kResume:
      case TraceEventKind::kDropped:
      case TraceEventKind::kEnd:
        return PutInstant(event, NameOf(event.kind));
      case TraceEventKind::kMark:
        return PutInstant(event, trace_.marks[static_cast<size_t>(event.mark)]);
      case TraceEventKind::kPolicy:
        return PutInstant(
            event, "policy " + NameOfPolicy(trace_.policies[static_cast<size_t>(event.policy)]));
      case TraceEventKind::kRequest:
        return PutRequest(event);
      default:
        return;
    }
  }

  Timeline Finish() {
    // Slices begin before the event that tells of them.
    std::ranges::stable_sort(timeline_.events, [](const TimelineEvent& a, const TimelineEvent& b) {
      return std::pair(a.time_ns, -a.duration_ns) < std::pair(b.time_ns, -b.duration_ns);
    });
    return std::move(timeline_);
  }

 private:
  struct Span {
    int64_t begin = 0;
    int64_t end = 0;
  };
  // What of a lane has slices.
  struct Busy {
    int64_t until = 0;             // The end of the latest call, and ...
    std::vector<Span> recordings;  // ... recordings since then.
    int64_t end() const { return recordings.empty() ? until : recordings.back().end; }
  };

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
    PutInstantOn(event.lane + 1, event, name);
  }
  void PutInstantOn(int track, const TraceEvent& event, const std::string& name) {
    timeline_.events.push_back({.kind = TimelineKind::kInstant,
                                .track = track,
                                .time_ns = event.time_ns,
                                .name = Intern(name),
                                .source = source_});
  }

  void PutSlice(int track, Span span, const std::string& name) {
    timeline_.events.push_back({.kind = TimelineKind::kSlice,
                                .track = track,
                                .time_ns = span.begin,
                                .duration_ns = span.end - span.begin,
                                .name = Intern(name),
                                .source = source_});
  }

  void PutCall(const TraceEvent& event) {
    const std::string name = NameOfCall(event);
    if (event.host_ns < 0) return PutInstant(event, name);
    Busy& busy = busy_[static_cast<size_t>(event.lane + 1)];
    Span call = {std::max(busy.until, event.time_ns - event.host_ns), event.time_ns};
    for (const Span& recording : busy.recordings)
      if (recording.begin < call.begin) call.begin = std::max(call.begin, recording.end);
    PutSlice(event.lane + 1, call, name);
    busy = {.until = call.end};
  }

  void PutRecord(const TraceEvent& event) {
    Busy& busy = busy_[static_cast<size_t>(event.lane + 1)];
    const int64_t lasted = trace_.nodes[static_cast<size_t>(event.node)].record_ns;
    const Span recording = {std::max({busy.end(), event.time_ns - lasted, int64_t{0}}),
                            event.time_ns};
    PutSlice(event.lane + 1, recording, "record " + NameOfNode(event.node));
    busy.recordings.push_back(recording);
  }

  // In the first row that is free; requests come in the order of their ends.
  void PutRequest(const TraceEvent& event) {
    if (rows_.empty()) AddRow();
    const Span request = {event.time_ns - event.second, event.time_ns};
    size_t row = 0;
    while (row < rows_.size() && rows_[row] > request.begin)
      ++row;
    const int first = trace_.lanes + 1;
    if (request.begin < 0 || row == kRequestRowsMax) return PutInstantOn(first, event, "request");
    if (row == rows_.size()) AddRow();
    rows_[row] = request.end;
    PutSlice(first + static_cast<int>(row), request, "request");
  }

  void AddRow() {
    rows_.push_back(0);
    timeline_.tracks.push_back(rows_.size() == 1 ? "requests"
                                                 : fmt::format("requests {}", rows_.size()));
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
  std::vector<Busy> busy_;             // By track of the session and its lanes.
  std::vector<int64_t> rows_;          // The end of the latest request, by row.
  int source_ = -1;
};

void AddFactsOfCall(const PoolTrace& trace,
                    const TraceEvent& call,
                    std::vector<TimelineFact>& facts) {
  const bool timed = call.host_ns >= 0;
  if (timed) {
    facts.push_back({"program", LabelOfProgram(trace, call.program)});
    facts.push_back({"path", NameOf(call.path)});
  }
  if (timed || call.reason != Reason::kNone) facts.push_back({"reason", NameOf(call.reason)});
  facts.push_back({"real_elements", call.first});
  facts.push_back({"padded_elements", call.second});
  if (!timed) return;
  facts.push_back({"host_ns", call.host_ns});
  if (call.node < 0) return;
  const TracedNode& node = trace.nodes[static_cast<size_t>(call.node)];
  facts.push_back({"kernels", static_cast<int64_t>(node.kernels.size())});
}

void AddFactsOfRequest(const TraceEvent& request, std::vector<TimelineFact>& facts) {
  facts.push_back({"request", request.request});
  facts.push_back({"ttft_ms", static_cast<double>(request.first) / kNsPerMs});
  if (request.output > 1) {
    facts.push_back({"tpot_ms", static_cast<double>(request.second - request.first) / kNsPerMs /
                                    (request.output - 1)});
  }
  facts.push_back({"input_tokens", int64_t{request.input}});
  facts.push_back({"output_tokens", int64_t{request.output}});
}

}  // namespace

std::vector<std::string> CounterNames() {
  std::vector<std::string> names;
  for (int i = 0; i < kMemoryKindCount; ++i)
    names.push_back(fmt::format("bytes {}", NameOf(static_cast<MemoryKind>(i))));
  names.emplace_back("bytes of all kinds");
  names.emplace_back("bytes of statics, the application's");
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
  if (source.kind == TraceEventKind::kCall) facts.push_back({"call", source.call});
  const int bucket =
      source.node < 0 ? source.bucket : trace.nodes[static_cast<size_t>(source.node)].bucket;
  if (bucket >= 0) {
    facts.push_back({"bucket", trace.buckets[static_cast<size_t>(bucket)].id});
    facts.push_back({"label", NameOfBucket(trace, bucket)});
  } else if (source.program >= 0) {
    facts.push_back({"label", LabelOfProgram(trace, source.program)});
  }
  if (source.node >= 0) {
    const TracedNode& node = trace.nodes[static_cast<size_t>(source.node)];
    facts.push_back({"node", node.id});
    if (source.kind == TraceEventKind::kRecord) {
      facts.push_back({"record_ns", node.record_ns});
      facts.push_back({"height_bytes", node.height});
      facts.push_back({"reason", NameOf(node.reason)});
    }
  }
  if (source.kind == TraceEventKind::kCall) AddFactsOfCall(trace, source, facts);
  if (source.kind == TraceEventKind::kRequest) AddFactsOfRequest(source, facts);
  if (source.kind == TraceEventKind::kPolicy) {
    const TracedProgram& program = trace.programs[static_cast<size_t>(source.program)];
    facts.push_back({"symbol", program.symbols[static_cast<size_t>(source.symbol)]});
    facts.push_back({"policy", trace.policies[static_cast<size_t>(source.policy)]});
  }
  if (source.kind == TraceEventKind::kDropped) facts.push_back({"events", source.first});
  if (source.failure >= 0) {
    const TracedFailure& failure = trace.failures[static_cast<size_t>(source.failure)];
    facts.push_back({"driver_call", failure.driver_call});
    facts.push_back({"message", failure.message});
  }
  return facts;
}

}  // namespace coppice
