// Why calls did not replay: a log, the counts, and the recordings that failed.

#include <algorithm>
#include <array>
#include <map>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "nlohmann/json.hpp"

#include "coppice/base/status.h"

#include "tools/prof/call_obstacles.h"
#include "tools/prof/prof.h"
#include "tools/prof/remedy.h"
#include "tools/support/text_table.h"

namespace coppice {
namespace {

// A call that did not replay, or a recording that failed.
struct Logged {
  TracedEvent event;
  int program = -1;
  int bucket = -1;
  int failure = -1;      // Behind the call, or of the recording.
  std::string obstacle;  // What stood in the way of a call, as far as the trace says it.

  const CallEvent& call() const { return *event.As<CallEvent>(); }
};

// Calls of one program that did not replay for one reason, or its recordings that failed alike.
struct Cause {
  int64_t count = 0;
  Logged first;
};

struct Log {
  PoolTrace trace;
  std::vector<Logged> calls;     // In order of time, each with the failure behind it.
  std::vector<Logged> failures;  // In order of time.
  // By program and reason.
  std::map<std::pair<int, Reason>, Cause> causes;
  std::map<std::pair<int, int>, Cause> failed;  // By program and failure.
};

std::string BucketLabel(const PoolTrace& trace, int bucket) {
  return bucket < 0 ? "-" : LabelOf(trace.buckets[static_cast<size_t>(bucket)]);
}

// The last failure of each bucket, while the events of a trace go by.
class LastFailures {
 public:
  void See(const PoolTrace& trace, const TracedEvent& event) {
    if (const auto* const fail = event.As<FailEvent>()) At(fail->bucket) = fail->failure;
    if (const auto* const record = event.As<RecordEvent>())
      At(trace.nodes[static_cast<size_t>(record->node)].bucket) = -1;
  }

  // What is behind a call that did not replay; -1: no failure.
  int Behind(const CallEvent& call) {
    switch (call.reason) {
      case Reason::kByteLimit:
      case Reason::kCaptureInvalidated:
      case Reason::kNotCapturable:
        return At(call.bucket);
      default:
        return -1;
    }
  }

 private:
  int& At(int bucket) { return failures_.try_emplace(bucket, -1).first->second; }

  std::map<int, int> failures_;
};

void Count(const Logged& logged, Cause& cause) {
  if (cause.count++ == 0) cause.first = logged;
}

absl::StatusOr<Log> ReadLog(const ProfOptions& options) {
  Log log;
  std::vector<TracedEvent> events;
  COPPICE_ASSIGN_OR_RETURN(
      log.trace, ReadPoolTrace(options.trace, [&](const PoolTrace&, const TracedEvent& event) {
        const auto* const call = event.As<CallEvent>();
        if (call == nullptr || call->path != RunKind::kReplay) events.push_back(event);
      }));
  // What a lane and the session did follows each other in pieces.
  std::ranges::stable_sort(events, {}, &TracedEvent::time_ns);
  LastFailures last;
  CallObstacles obstacles(log.trace);
  for (const TracedEvent& event : events) {
    last.See(log.trace, event);
    obstacles.See(event);
    if (const auto* const fail = event.As<FailEvent>())
      log.failures.push_back(
          {event, log.trace.ProgramOf(fail->bucket), fail->bucket, fail->failure, {}});
    if (const auto* const call = event.As<CallEvent>())
      log.calls.push_back({event, call->program, call->bucket, last.Behind(*call),
                           obstacles.Of(event.lane, *call)});
  }
  COPPICE_ASSIGN_OR_RETURN(const std::vector<bool> chosen,
                           ChoosePrograms(log.trace, options.program));
  const auto other = [&](const Logged& logged) {
    return !chosen[static_cast<size_t>(logged.program)];
  };
  std::erase_if(log.calls, other);
  std::erase_if(log.failures, other);
  for (const Logged& call : log.calls)
    Count(call, log.causes[{call.program, call.call().reason}]);
  for (const Logged& failure : log.failures)
    Count(failure, log.failed[{failure.program, failure.failure}]);
  return log;
}

// The most frequent first.
template <typename Key>
std::vector<std::pair<Key, Cause>> Ranked(const std::map<Key, Cause>& causes) {
  std::vector<std::pair<Key, Cause>> ranked(causes.begin(), causes.end());
  std::stable_sort(ranked.begin(), ranked.end(),
                   [](const auto& a, const auto& b) { return a.second.count > b.second.count; });
  return ranked;
}

const TracedFailure& FailureOf(const PoolTrace& trace, int failure) {
  return trace.failures[static_cast<size_t>(failure)];
}

nlohmann::ordered_json BucketJson(const PoolTrace& trace, int bucket) {
  if (bucket < 0) return nullptr;
  return trace.buckets[static_cast<size_t>(bucket)].id;
}

nlohmann::ordered_json FailureJson(const PoolTrace& trace, int failure) {
  if (failure < 0) return nullptr;
  const TracedFailure& traced = FailureOf(trace, failure);
  return {{"driver_call", traced.driver_call}, {"code", traced.code}, {"message", traced.message}};
}

nlohmann::ordered_json CallJson(const PoolTrace& trace, const Logged& logged) {
  const CallEvent& call = logged.call();
  return {{"time_ns", logged.event.time_ns},
          {"line", logged.event.line},
          {"lane", logged.event.lane},
          {"call", call.call},
          {"program", LabelOfProgram(trace, call.program)},
          {"bucket", BucketJson(trace, call.bucket)},
          {"path", NameOf(call.path)},
          {"reason", NameOf(call.reason)},
          {"obstacle", logged.obstacle},
          {"failure", FailureJson(trace, logged.failure)}};
}

std::string LogJson(const Log& log, size_t shown) {
  nlohmann::ordered_json causes = nlohmann::ordered_json::array();
  for (const auto& [key, cause] : Ranked(log.causes)) {
    causes.push_back({{"program", LabelOfProgram(log.trace, key.first)},
                      {"reason", NameOf(key.second)},
                      {"count", cause.count},
                      {"remedy", RemedyOf(key.second)},
                      {"first", CallJson(log.trace, cause.first)}});
  }
  nlohmann::ordered_json failures = nlohmann::ordered_json::array();
  for (const auto& [key, cause] : Ranked(log.failed)) {
    failures.push_back({{"program", LabelOfProgram(log.trace, key.first)},
                        {"failure", FailureJson(log.trace, key.second)},
                        {"count", cause.count},
                        {"first",
                         {{"time_ns", cause.first.event.time_ns},
                          {"line", cause.first.event.line},
                          {"lane", cause.first.event.lane},
                          {"bucket", BucketJson(log.trace, cause.first.bucket)}}}});
  }
  nlohmann::ordered_json calls = nlohmann::ordered_json::array();
  for (size_t i = 0; i < shown; ++i)
    calls.push_back(CallJson(log.trace, log.calls[i]));
  return Dump({{"schema", kPoolTraceSchema},
               {"ended", log.trace.ended},
               {"dropped_events", log.trace.dropped},
               {"count", log.calls.size()},
               {"causes", causes},
               {"failures", failures},
               {"calls", calls}});
}

// "cuCtxSynchronize CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"; "-" without one.
std::string FailureLabel(const PoolTrace& trace, int failure) {
  if (failure < 0) return "-";
  const TracedFailure& traced = FailureOf(trace, failure);
  return traced.driver_call.empty() ? traced.code : traced.driver_call + " " + traced.code;
}

std::string TimeOfCall(int64_t time_ns) {
  return fmt::format("{:.6f}", static_cast<double>(time_ns) / 1e9);
}

// What is behind a call: the failure of its bucket, or what else stood in its way.
std::string BecauseOf(const PoolTrace& trace, const Logged& call) {
  if (call.failure < 0) return call.obstacle.empty() ? "-" : call.obstacle;
  const std::string failure = FailureLabel(trace, call.failure);
  return call.obstacle.empty() ? failure : failure + "; " + call.obstacle;
}

// The recordings that failed: what each came to, on a line of its own. Empty without any.
std::string FailuresText(const Log& log) {
  if (log.failed.empty()) return {};
  TextTable table("llrrrl", {"program", "bucket", "failed", "first at s", "lane", "because"});
  for (const auto& [key, cause] : Ranked(log.failed)) {
    table.Add(
        {LabelOfProgram(log.trace, key.first), BucketLabel(log.trace, cause.first.bucket),
         fmt::format("{}", cause.count), TimeOfCall(cause.first.event.time_ns),
         fmt::format("{}", cause.first.event.lane),
         FailureLabel(log.trace, key.second) + ": " + FailureOf(log.trace, key.second).message});
  }
  return table.Format() + "\n";
}

// What to do about each reason there is, the most frequent first.
std::string RemediesText(const Log& log) {
  std::array<int64_t, kReasonCount> calls{};
  for (const auto& [key, cause] : log.causes)
    calls[static_cast<size_t>(key.second)] += cause.count;
  std::vector<size_t> reasons;
  for (size_t reason = 0; reason < calls.size(); ++reason)
    if (calls[reason] > 0) reasons.push_back(reason);
  std::ranges::stable_sort(reasons, [&](size_t a, size_t b) { return calls[a] > calls[b]; });
  std::string text;
  for (const size_t reason : reasons)
    text += fmt::format("  {}: {}\n", NameOf(static_cast<Reason>(reason)),
                        RemedyOf(static_cast<Reason>(reason)));
  return text.empty() ? text : text + "\n";
}

std::string LogText(const Log& log, size_t shown) {
  TextTable causes("llrrrrl",
                   {"program", "reason", "calls", "first at s", "lane", "call", "because"});
  for (const auto& [key, cause] : Ranked(log.causes)) {
    causes.Add({LabelOfProgram(log.trace, key.first), NameOf(key.second),
                fmt::format("{}", cause.count), TimeOfCall(cause.first.event.time_ns),
                fmt::format("{}", cause.first.event.lane),
                fmt::format("{}", cause.first.call().call), BecauseOf(log.trace, cause.first)});
  }
  TextTable calls("rrrlllll",
                  {"s", "lane", "call", "program", "bucket", "path", "reason", "because"});
  for (size_t i = 0; i < shown; ++i) {
    const TracedEvent& event = log.calls[i].event;
    const CallEvent& call = log.calls[i].call();
    calls.Add({TimeOfCall(event.time_ns), fmt::format("{}", event.lane),
               fmt::format("{}", call.call), LabelOfProgram(log.trace, call.program),
               BucketLabel(log.trace, call.bucket), NameOf(call.path), NameOf(call.reason),
               BecauseOf(log.trace, log.calls[i])});
  }
  std::string text = NoteGaps(log.trace) + causes.Format() + "\n" + RemediesText(log) +
                     FailuresText(log) + calls.Format();
  if (shown < log.calls.size())
    text += fmt::format("  and {} more; see --limit\n", log.calls.size() - shown);
  return text;
}

}  // namespace

ExitCode ProfWhy(const ProfOptions& options, const Console& console) {
  const absl::StatusOr<Log> log = ReadLog(options);
  if (!log.ok()) return FailProf(console, log.status());
  const int64_t limit = options.limit > 0 ? options.limit : kProfLinesDefault;
  const size_t shown = std::min(log->calls.size(), static_cast<size_t>(limit));
  Print(console.out, "{}", options.json ? LogJson(*log, shown) : LogText(*log, shown));
  return kExitOk;
}

}  // namespace coppice
