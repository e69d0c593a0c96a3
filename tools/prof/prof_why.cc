// Why calls did not replay: a log and the counts.

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "fmt/format.h"

#include "coppice/base/status.h"

#include "tools/prof/prof.h"
#include "tools/support/text_table.h"

namespace coppice {
namespace {

// Calls of one program that did not replay for one reason.
struct Cause {
  int64_t count = 0;
  TraceEvent first;
};

struct Log {
  PoolTrace trace;
  std::vector<TraceEvent> calls;  // In order of time.
  // By program, -1 for calls without a bucket, and reason.
  std::map<std::pair<int, Reason>, Cause> causes;
};

int ProgramOf(const PoolTrace& trace, const TraceEvent& call) {
  return call.bucket < 0 ? -1 : trace.buckets[static_cast<size_t>(call.bucket)].program;
}

std::string ProgramLabel(const PoolTrace& trace, int program) {
  return program < 0 ? "-" : LabelOf(trace.programs[static_cast<size_t>(program)]);
}

std::string BucketLabel(const PoolTrace& trace, int bucket) {
  return bucket < 0 ? "-" : LabelOf(trace.buckets[static_cast<size_t>(bucket)]);
}

absl::StatusOr<Log> ReadLog(const ProfOptions& options) {
  Log log;
  COPPICE_ASSIGN_OR_RETURN(
      log.trace, ReadPoolTrace(options.trace, [&](const PoolTrace&, const TraceEvent& event) {
        if (event.kind == TraceEventKind::kCall && event.path != Path::kReplay)
          log.calls.push_back(event);
      }));
  COPPICE_ASSIGN_OR_RETURN(const std::vector<bool> chosen,
                           ChoosePrograms(log.trace, options.program));
  const auto other = [&](const TraceEvent& call) {
    const int program = ProgramOf(log.trace, call);
    return program < 0 ? !options.program.empty() : !chosen[static_cast<size_t>(program)];
  };
  log.calls.erase(std::remove_if(log.calls.begin(), log.calls.end(), other), log.calls.end());
  std::stable_sort(log.calls.begin(), log.calls.end(),
                   [](const TraceEvent& a, const TraceEvent& b) { return a.time_ns < b.time_ns; });
  for (const TraceEvent& call : log.calls) {
    Cause& cause = log.causes[{ProgramOf(log.trace, call), call.reason}];
    if (cause.count++ == 0) cause.first = call;
  }
  return log;
}

// The most frequent first.
std::vector<std::pair<std::pair<int, Reason>, Cause>> Ranked(const Log& log) {
  std::vector<std::pair<std::pair<int, Reason>, Cause>> ranked(log.causes.begin(),
                                                               log.causes.end());
  std::stable_sort(ranked.begin(), ranked.end(),
                   [](const auto& a, const auto& b) { return a.second.count > b.second.count; });
  return ranked;
}

nlohmann::ordered_json CallJson(const PoolTrace& trace, const TraceEvent& call) {
  nlohmann::ordered_json json = {{"time_ns", call.time_ns},
                                 {"line", call.line},
                                 {"lane", call.lane},
                                 {"call", call.call},
                                 {"program", ProgramLabel(trace, ProgramOf(trace, call))},
                                 {"bucket", nullptr},
                                 {"path", NameOf(call.path)},
                                 {"reason", NameOf(call.reason)}};
  if (call.bucket >= 0) json["bucket"] = trace.buckets[static_cast<size_t>(call.bucket)].id;
  return json;
}

std::string LogJson(const Log& log, size_t shown) {
  nlohmann::ordered_json causes = nlohmann::ordered_json::array();
  for (const auto& [key, cause] : Ranked(log)) {
    causes.push_back({{"program", ProgramLabel(log.trace, key.first)},
                      {"reason", NameOf(key.second)},
                      {"count", cause.count},
                      {"first", CallJson(log.trace, cause.first)}});
  }
  nlohmann::ordered_json calls = nlohmann::ordered_json::array();
  for (size_t i = 0; i < shown; ++i)
    calls.push_back(CallJson(log.trace, log.calls[i]));
  return Dump({{"schema", kPoolTraceSchema},
               {"ended", log.trace.ended},
               {"dropped_events", log.trace.dropped},
               {"count", log.calls.size()},
               {"causes", causes},
               {"calls", calls}});
}

std::string Seconds(int64_t time_ns) {
  return fmt::format("{:.6f}", static_cast<double>(time_ns) / 1e9);
}

std::string LogText(const Log& log, size_t shown) {
  TextTable causes("llrrrr", {"program", "reason", "calls", "first at s", "lane", "call"});
  for (const auto& [key, cause] : Ranked(log)) {
    causes.Add({ProgramLabel(log.trace, key.first), NameOf(key.second),
                fmt::format("{}", cause.count), Seconds(cause.first.time_ns),
                fmt::format("{}", cause.first.lane), fmt::format("{}", cause.first.call)});
  }
  TextTable calls("rrrllll", {"s", "lane", "call", "program", "bucket", "path", "reason"});
  for (size_t i = 0; i < shown; ++i) {
    const TraceEvent& call = log.calls[i];
    calls.Add({Seconds(call.time_ns), fmt::format("{}", call.lane), fmt::format("{}", call.call),
               ProgramLabel(log.trace, ProgramOf(log.trace, call)),
               BucketLabel(log.trace, call.bucket), NameOf(call.path), NameOf(call.reason)});
  }
  std::string text = NoteGaps(log.trace) + causes.Format() + "\n" + calls.Format();
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
