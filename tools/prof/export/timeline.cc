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

  void Add(const TracedEvent& event, int source) {
    source_ = source;
    const auto put_instant = [&](const std::string& name) { PutInstant(event, name); };
    std::visit(
        Cases{[&](const CallEvent& call) { PutCall(event, call); },
              [&](const RecordEvent& record) { PutRecord(event, record); },
              [&](const EvictEvent& evict) { put_instant("evict " + NameOfNode(evict.node)); },
              [&](const FailEvent& fail) {
                put_instant("recording fails: " +
                            trace_.failures[static_cast<size_t>(fail.failure)].code);
              },
              [&](const BytesEvent& bytes) {
                PutCounter(event, static_cast<int>(bytes.kind), bytes.bytes);
                PutCounter(event, kMemoryKindCount, bytes.total_bytes);
              },
              [&](const StaticsEvent& statics) {
                PutCounter(event, kMemoryKindCount + 1, statics.total_bytes);
              },
              [&](const MarkEvent& mark) {
                put_instant(trace_.marks[static_cast<size_t>(mark.mark)]);
              },
              [&](const PolicyEvent& policy) {
                put_instant("policy " +
                            NameOfPolicy(trace_.policies[static_cast<size_t>(policy.policy)]));
              },
              [&](const RequestEvent& request) { PutRequest(event, request); },
              [&]<typename Event>(const Event& /*what*/) {
                // What is of a lane and no instant: leases.
                if constexpr (std::is_empty_v<Event> || std::same_as<Event, DroppedEvent>)
                  put_instant(NameOf(event.what));
              }},
        event.what);
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

  // "replay", "eager: over_largest_bucket".
  static std::string NameOfCall(const CallEvent& call) {
    if (call.reason == Reason::kNone) return NameOf(call.path);
    return fmt::format("{}: {}", NameOf(call.path), NameOf(call.reason));
  }

  int Intern(const std::string& name) {
    const auto [found, fresh] = places_.emplace(name, static_cast<int>(places_.size()));
    if (fresh) timeline_.names.push_back(name);
    return found->second;
  }

  void PutInstant(const TracedEvent& event, const std::string& name) {
    PutInstantOn(event.lane + 1, event, name);
  }
  void PutInstantOn(int track, const TracedEvent& event, const std::string& name) {
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

  void PutCall(const TracedEvent& event, const CallEvent& call) {
    const std::string name = NameOfCall(call);
    if (call.host_ns < 0) return PutInstant(event, name);
    Busy& busy = busy_[static_cast<size_t>(event.lane + 1)];
    Span span = {std::max(busy.until, event.time_ns - call.host_ns), event.time_ns};
    for (const Span& recording : busy.recordings)
      if (recording.begin < span.begin) span.begin = std::max(span.begin, recording.end);
    PutSlice(event.lane + 1, span, name);
    busy = {.until = span.end};
  }

  void PutRecord(const TracedEvent& event, const RecordEvent& record) {
    Busy& busy = busy_[static_cast<size_t>(event.lane + 1)];
    const int64_t lasted = trace_.nodes[static_cast<size_t>(record.node)].record_ns;
    const Span recording = {std::max({busy.end(), event.time_ns - lasted, int64_t{0}}),
                            event.time_ns};
    PutSlice(event.lane + 1, recording, "record " + NameOfNode(record.node));
    busy.recordings.push_back(recording);
  }

  // In the first row that is free; requests come in the order of their ends.
  void PutRequest(const TracedEvent& event, const RequestEvent& request) {
    if (rows_.empty()) AddRow();
    const Span span = {event.time_ns - request.last_token_ns, event.time_ns};
    size_t row = 0;
    while (row < rows_.size() && rows_[row] > span.begin)
      ++row;
    const int first = trace_.lanes + 1;
    if (span.begin < 0 || row == kRequestRowsMax) return PutInstantOn(first, event, "request");
    if (row == rows_.size()) AddRow();
    rows_[row] = span.end;
    PutSlice(first + static_cast<int>(row), span, "request");
  }

  void AddRow() {
    rows_.push_back(0);
    timeline_.tracks.push_back(rows_.size() == 1 ? "requests"
                                                 : fmt::format("requests {}", rows_.size()));
  }

  void PutCounter(const TracedEvent& event, int counter, int64_t value) {
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

using Facts = std::vector<TimelineFact>;

void AddFactsOfBucket(const PoolTrace& trace, int bucket, Facts& facts) {
  if (bucket < 0) return;
  facts.push_back({"bucket", trace.buckets[static_cast<size_t>(bucket)].id});
  facts.push_back({"label", NameOfBucket(trace, bucket)});
}

void AddFactsOfNode(const PoolTrace& trace, int node, Facts& facts) {
  const TracedNode& traced = trace.nodes[static_cast<size_t>(node)];
  AddFactsOfBucket(trace, traced.bucket, facts);
  facts.push_back({"node", traced.id});
}

void AddFactsOfCall(const PoolTrace& trace, const CallEvent& call, Facts& facts) {
  facts.push_back({"call", call.call});
  if (call.node >= 0) {
    AddFactsOfNode(trace, call.node, facts);
  } else if (call.bucket >= 0) {
    AddFactsOfBucket(trace, call.bucket, facts);
  } else {
    facts.push_back({"label", LabelOfProgram(trace, call.program)});
  }
  const bool timed = call.host_ns >= 0;
  if (timed) {
    facts.push_back({"program", LabelOfProgram(trace, call.program)});
    facts.push_back({"path", NameOf(call.path)});
  }
  if (timed || call.reason != Reason::kNone) facts.push_back({"reason", NameOf(call.reason)});
  facts.push_back({"real_elements", call.real_elements});
  facts.push_back({"padded_elements", call.padded_elements});
  if (!timed) return;
  facts.push_back({"host_ns", call.host_ns});
  if (call.node < 0) return;
  const TracedNode& node = trace.nodes[static_cast<size_t>(call.node)];
  facts.push_back({"kernels", static_cast<int64_t>(node.kernels.size())});
}

void AddFactsOfRecord(const PoolTrace& trace, const RecordEvent& record, Facts& facts) {
  AddFactsOfNode(trace, record.node, facts);
  const TracedNode& node = trace.nodes[static_cast<size_t>(record.node)];
  facts.push_back({"record_ns", node.record_ns});
  facts.push_back({"height_bytes", node.height});
  facts.push_back({"reason", NameOf(node.reason)});
}

void AddFactsOfPolicy(const PoolTrace& trace, const PolicyEvent& policy, Facts& facts) {
  const TracedProgram& program = trace.programs[static_cast<size_t>(policy.program)];
  facts.push_back({"label", LabelOf(program)});
  facts.push_back({"symbol", program.symbols[static_cast<size_t>(policy.symbol)]});
  facts.push_back({"policy", trace.policies[static_cast<size_t>(policy.policy)]});
}

void AddFactsOfFailure(const PoolTrace& trace, const FailEvent& fail, Facts& facts) {
  AddFactsOfBucket(trace, fail.bucket, facts);
  const TracedFailure& failure = trace.failures[static_cast<size_t>(fail.failure)];
  facts.push_back({"driver_call", failure.driver_call});
  facts.push_back({"message", failure.message});
}

void AddFactsOfRequest(const RequestEvent& request, Facts& facts) {
  facts.push_back({"request", request.request});
  facts.push_back({"ttft_ms", static_cast<double>(request.first_token_ns) / kNsPerMs});
  if (request.output_tokens > 1) {
    facts.push_back(
        {"tpot_ms", static_cast<double>(request.last_token_ns - request.first_token_ns) / kNsPerMs /
                        (request.output_tokens - 1)});
  }
  facts.push_back({"input_tokens", int64_t{request.input_tokens}});
  facts.push_back({"output_tokens", int64_t{request.output_tokens}});
}

}  // namespace

std::vector<std::string> CounterNames() {
  std::vector<std::string> names;
  for (int i = 0; i < kMemoryKindCount; ++i)
    names.push_back(fmt::format("bytes {}", NameOf(static_cast<MemoryKind>(i))));
  names.emplace_back("bytes of all kinds");
  names.emplace_back("bytes of statics, held by the application");
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
  Facts facts;
  std::visit(Cases{[&](const CallEvent& call) { AddFactsOfCall(trace, call, facts); },
                   [&](const RecordEvent& record) { AddFactsOfRecord(trace, record, facts); },
                   [&](const EvictEvent& evict) { AddFactsOfNode(trace, evict.node, facts); },
                   [&](const FailEvent& fail) { AddFactsOfFailure(trace, fail, facts); },
                   [&](const PolicyEvent& policy) { AddFactsOfPolicy(trace, policy, facts); },
                   [&](const StaticsEvent& statics) {
                     facts.push_back({"label", LabelOfProgram(trace, statics.program)});
                   },
                   [&](const RequestEvent& request) { AddFactsOfRequest(request, facts); },
                   [&](const DroppedEvent& dropped) {
                     facts.push_back({"events", dropped.events});
                   },
                   [](const auto& /*other*/) {}},
             session.events[static_cast<size_t>(event.source)].what);
  return facts;
}

}  // namespace coppice
