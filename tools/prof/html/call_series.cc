// Calls over time: all of them for the timeline, those that did not replay by their reason.

#include <algorithm>
#include <map>
#include <utility>

#include "tools/prof/html/report_document.h"

namespace coppice {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kWhyBars = 60;
constexpr size_t kCausesOverTime = 8;  // More would be one colour; the rest is counted together.

struct Cause {
  int64_t count = 0;
  size_t first = 0;  // Place of the call, or of the moment.
};

template <typename Key>
std::vector<std::pair<Key, Cause>> Ranked(const std::map<Key, Cause>& causes) {
  std::vector<std::pair<Key, Cause>> ranked(causes.begin(), causes.end());
  std::stable_sort(ranked.begin(), ranked.end(),
                   [](const auto& a, const auto& b) { return a.second.count > b.second.count; });
  return ranked;
}

Json BucketJson(const ReportFacts& facts, int bucket) {
  if (bucket < 0) return nullptr;
  return facts.trace.buckets[static_cast<size_t>(bucket)].id;
}

Json CallJson(const ReportFacts& facts, const ReportCall& call) {
  return {{"time_ns", call.time_ns},
          {"lane", call.lane},
          {"call", call.call},
          {"program", LabelOfProgram(facts.trace, call.program)},
          {"bucket", BucketJson(facts, call.bucket)},
          {"bucket_name", facts.NameOf(call.bucket)},
          {"path", NameOf(call.path)},
          {"reason", NameOf(call.reason)}};
}

using CauseKey = std::pair<int, Reason>;

CauseKey CauseOf(const ReportCall& call) {
  return {call.program, call.reason};
}

Json FailuresOf(const ReportFacts& facts) {
  std::map<std::pair<int, int>, Cause> failed;  // By program and failure.
  for (size_t i = 0; i < facts.moments.size(); ++i) {
    const auto* const fail = facts.moments[i].As<FailEvent>();
    if (fail == nullptr) continue;
    Cause& cause = failed[{facts.trace.ProgramOf(fail->bucket), fail->failure}];
    if (cause.count++ == 0) cause.first = i;
  }
  Json failures = Json::array();
  for (const auto& [key, cause] : Ranked(failed)) {
    const TracedFailure& failure = facts.trace.failures[static_cast<size_t>(key.second)];
    const TracedEvent& first = facts.moments[cause.first];
    failures.push_back({{"program", LabelOfProgram(facts.trace, key.first)},
                        {"bucket_name", facts.NameOf(first.As<FailEvent>()->bucket)},
                        {"count", cause.count},
                        {"first_ns", first.time_ns},
                        {"driver_call", failure.driver_call},
                        {"code", failure.code},
                        {"message", failure.message}});
  }
  return failures;
}

// Bars of the most frequent causes, by their place among all, and one of the rest.
Json BarsOf(const ReportFacts& facts,
            const std::vector<size_t>& calls,
            const std::map<CauseKey, size_t>& places,
            size_t causes) {
  const size_t series = std::min(causes, kCausesOverTime + 1);
  std::vector<std::vector<int64_t>> bars(series, std::vector<int64_t>(kWhyBars));
  const double span = static_cast<double>(std::max<int64_t>(facts.trace.last_ns, 1));
  for (const size_t i : calls) {
    const ReportCall& call = facts.calls[i];
    const size_t place = std::min(places.at(CauseOf(call)), series - 1);
    const double share = static_cast<double>(call.time_ns) / span;
    ++bars[place][std::min(static_cast<size_t>(share * kWhyBars), kWhyBars - 1)];
  }
  return bars;
}

// Calls that did not replay are rare, and what one looks for: half of the room is theirs.
std::vector<size_t> ChosenCalls(const ReportFacts& facts, size_t most) {
  std::vector<size_t> chosen;
  if (facts.calls.size() <= most) return SpreadOver(facts.calls.size(), most);
  std::vector<size_t> replays;
  std::vector<size_t> others;
  for (size_t i = 0; i < facts.calls.size(); ++i)
    (facts.calls[i].path == RunKind::kReplay ? replays : others).push_back(i);
  const size_t room = std::max(most / 2, most - std::min(most, replays.size()));
  for (const size_t place : SpreadOver(others.size(), room))
    chosen.push_back(others[place]);
  for (const size_t place : SpreadOver(replays.size(), most - chosen.size()))
    chosen.push_back(replays[place]);
  std::sort(chosen.begin(), chosen.end());
  return chosen;
}

}  // namespace

Json WhyOf(const ReportFacts& facts, const ReportLimits& limits, Json& left_out) {
  std::vector<size_t> calls;
  std::map<CauseKey, Cause> causes;
  for (size_t i = 0; i < facts.calls.size(); ++i) {
    if (facts.calls[i].path == RunKind::kReplay) continue;
    calls.push_back(i);
    Cause& cause = causes[CauseOf(facts.calls[i])];
    if (cause.count++ == 0) cause.first = i;
  }
  Json rows = Json::array();
  std::map<CauseKey, size_t> places;
  for (const auto& [key, cause] : Ranked(causes)) {
    places[key] = rows.size();
    rows.push_back({{"program", LabelOfProgram(facts.trace, key.first)},
                    {"reason", NameOf(key.second)},
                    {"count", cause.count},
                    {"advice", AdviceFor(key.second)},
                    {"first", CallJson(facts, facts.calls[cause.first])}});
  }
  Json listed = Json::array();
  for (size_t i = 0; i < std::min(calls.size(), limits.listed); ++i)
    listed.push_back(CallJson(facts, facts.calls[calls[i]]));
  if (listed.size() < calls.size())
    left_out["listed"] = {{"shown", listed.size()}, {"of", calls.size()}};
  Json bars = rows.empty() ? Json::array() : BarsOf(facts, calls, places, rows.size());
  return {{"count", calls.size()},
          {"causes", std::move(rows)},
          {"bars", std::move(bars)},
          {"failures", FailuresOf(facts)},
          {"calls", std::move(listed)}};
}

Json TimelineOf(const ReportFacts& facts, const ReportLimits& limits, Json& left_out) {
  const std::vector<size_t> chosen = ChosenCalls(facts, limits.calls);
  std::vector<int64_t> times;  // Each as nanoseconds behind the one before it.
  std::vector<int64_t> numbers;
  std::vector<int> lanes;
  std::vector<int> paths;
  std::vector<int> reasons;
  std::vector<int64_t> buckets;
  std::vector<int64_t> nodes;
  std::vector<int64_t> host;
  int64_t before = 0;
  for (const size_t i : chosen) {
    const ReportCall& call = facts.calls[i];
    times.push_back(call.time_ns - before);
    before = call.time_ns;
    numbers.push_back(call.call);
    lanes.push_back(call.lane);
    paths.push_back(static_cast<int>(call.path));
    reasons.push_back(static_cast<int>(call.reason));
    buckets.push_back(call.bucket < 0 ? -1
                                      : facts.trace.buckets[static_cast<size_t>(call.bucket)].id);
    nodes.push_back(call.node < 0 ? -1 : facts.trace.nodes[static_cast<size_t>(call.node)].id);
    host.push_back(call.host_ns);
  }
  if (chosen.size() < facts.calls.size())
    left_out["calls"] = {{"shown", chosen.size()}, {"of", facts.calls.size()}};
  Json path_names = Json::array();
  for (int i = 0; i < kRunKindCount; ++i)
    path_names.push_back(NameOf(static_cast<RunKind>(i)));
  Json reason_names = Json::array();
  for (int i = 0; i < kReasonCount; ++i)
    reason_names.push_back(NameOf(static_cast<Reason>(i)));
  // Recordings have a length: [lane, end, nanoseconds, bucket, node].
  Json recordings = Json::array();
  for (const TracedEvent& moment : facts.moments) {
    const auto* const record = moment.As<RecordEvent>();
    if (record == nullptr || recordings.size() >= limits.calls) continue;
    const TracedNode& node = facts.trace.nodes[static_cast<size_t>(record->node)];
    recordings.push_back({facts.trace.LaneOf(node), moment.time_ns, node.record_ns,
                          facts.trace.buckets[static_cast<size_t>(node.bucket)].id, node.id});
  }
  return {{"paths", std::move(path_names)},
          {"reasons", std::move(reason_names)},
          {"steps_ns", times},
          {"call", numbers},
          {"lane", lanes},
          {"path", paths},
          {"reason", reasons},
          {"bucket", buckets},
          {"node", nodes},
          {"host_ns", host},
          {"recordings", std::move(recordings)}};
}

}  // namespace coppice
