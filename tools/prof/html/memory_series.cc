// Bytes by kind over time, and what happened meanwhile.

#include <algorithm>
#include <array>
#include <optional>

#include "fmt/format.h"

#include "tools/prof/html/report_document.h"
#include "tools/prof/trace_summary.h"

namespace coppice {
namespace {

using Json = nlohmann::ordered_json;

// The books at one time.
struct Books {
  int64_t time_ns = 0;
  int64_t total = 0;
  std::array<int64_t, kMemoryKindCount> kinds{};
};

// Of each stretch of time the moment with the largest total, and its end.
std::vector<Books> Thin(const ReportFacts& facts, size_t stretches) {
  const double span = static_cast<double>(std::max<int64_t>(facts.trace.last_ns, 1));
  const auto stretch_of = [&](int64_t time_ns) {
    return static_cast<size_t>(static_cast<double>(time_ns) / span *
                               static_cast<double>(stretches));
  };
  std::vector<Books> kept = {Books()};
  Books now;
  std::optional<Books> peak;
  const auto close = [&] {
    if (peak && peak->time_ns != now.time_ns) kept.push_back(*peak);
    if (now.time_ns > 0) kept.push_back(now);
    peak.reset();
  };
  const bool all = facts.bytes.size() <= stretches;
  for (const ReportBytes& event : facts.bytes) {
    if (all || stretch_of(event.time_ns) != stretch_of(now.time_ns)) close();
    now.time_ns = event.time_ns;
    now.total = event.total;
    now.kinds[static_cast<size_t>(event.kind)] = event.bytes;
    if (!peak || now.total >= peak->total) peak = now;
  }
  close();
  now.time_ns = facts.trace.last_ns;
  if (kept.back().time_ns < now.time_ns) kept.push_back(now);
  return kept;
}

std::string TextOf(const ReportFacts& facts, const TracedEvent& moment) {
  const auto name_of = [&](int node) {
    const TracedNode& traced = facts.trace.nodes[static_cast<size_t>(node)];
    return fmt::format("{}, node {}", facts.NameOf(traced.bucket), traced.id);
  };
  return std::visit(
      Cases{
          [&](const RecordEvent& record) { return name_of(record.node); },
          [&](const EvictEvent& evict) { return name_of(evict.node); },
          [&](const FailEvent& fail) {
            return fmt::format("{}: {}", facts.NameOf(fail.bucket),
                               facts.trace.failures[static_cast<size_t>(fail.failure)].message);
          },
          [&](const MarkEvent& mark) { return facts.trace.marks[static_cast<size_t>(mark.mark)]; },
          [](const DroppedEvent& dropped) { return fmt::format("{} events", dropped.events); },
          [](const auto& /*says no more*/) { return std::string(); }},
      moment.what);
}

// What people put in comes before what repeats thousands of times.
Json MomentsOf(const ReportFacts& facts, size_t most, Json& left_out) {
  const auto rare = [](const TracedEvent& moment) {
    return moment.As<RecordEvent>() == nullptr && moment.As<EvictEvent>() == nullptr;
  };
  std::vector<size_t> first;
  std::vector<size_t> second;
  for (size_t i = 0; i < facts.moments.size(); ++i)
    (rare(facts.moments[i]) ? first : second).push_back(i);
  std::vector<size_t> chosen;
  for (const size_t place : SpreadOver(first.size(), most))
    chosen.push_back(first[place]);
  for (const size_t place : SpreadOver(second.size(), most - chosen.size()))
    chosen.push_back(second[place]);
  std::sort(chosen.begin(), chosen.end());
  Json moments = Json::array();
  for (const size_t i : chosen) {
    const TracedEvent& moment = facts.moments[i];
    moments.push_back({moment.time_ns, NameOf(moment.what), TextOf(facts, moment)});
  }
  if (chosen.size() < facts.moments.size())
    left_out["moments"] = {{"shown", chosen.size()}, {"of", facts.moments.size()}};
  return moments;
}

// [from, until) of each suspension.
Json SuspensionsOf(const ReportFacts& facts) {
  Json spans = Json::array();
  int64_t since = -1;
  for (const TracedEvent& moment : facts.moments) {
    if (moment.As<SuspendEvent>() != nullptr && since < 0) since = moment.time_ns;
    if (moment.As<ResumeEvent>() == nullptr || since < 0) continue;
    spans.push_back({since, moment.time_ns});
    since = -1;
  }
  if (since >= 0) spans.push_back({since, facts.trace.last_ns});
  return spans;
}

Json StaticsOf(const ReportFacts& facts) {
  int64_t peak = 0;
  int64_t served = 0;
  for (const ReportStatics& statics : facts.statics) {
    peak = std::max(peak, statics.bytes);
    if (statics.time_ns <= ServiceEndOf(facts)) served = statics.bytes;
  }
  return {{"kind", "statics"},
          {"what", kStaticsMeaning},
          {"estimate", false},
          {"end_bytes", facts.statics.empty() ? 0 : facts.statics.back().bytes},
          {"service_end_bytes", served},
          {"peak_bytes", peak}};
}

}  // namespace

Json MemoryOf(const ReportFacts& facts, const ReportLimits& limits, Json& left_out) {
  const std::vector<Books> kept = Thin(facts, std::max<size_t>(limits.instants, 1));
  Json times = Json::array();
  Json totals = Json::array();
  for (const Books& books : kept) {
    times.push_back(books.time_ns);
    totals.push_back(books.total);
  }
  std::array<int64_t, kMemoryKindCount> peaks{};
  Books last;
  Books served;  // At the last call.
  for (const ReportBytes& event : facts.bytes) {
    int64_t& peak = peaks[static_cast<size_t>(event.kind)];
    peak = std::max(peak, event.bytes);
    last.kinds[static_cast<size_t>(event.kind)] = event.bytes;
    if (event.time_ns <= ServiceEndOf(facts)) served = last;
  }
  Json kinds = Json::array();
  for (size_t i = 0; i < peaks.size(); ++i) {
    Json bytes = Json::array();
    if (peaks[i] > 0)
      for (const Books& books : kept)
        bytes.push_back(books.kinds[i]);
    const MemoryKind kind = static_cast<MemoryKind>(i);
    kinds.push_back({{"kind", NameOf(kind)},
                     {"what", MeaningOf(kind)},
                     {"estimate", kind == MemoryKind::kGraphs},
                     {"end_bytes", last.kinds[i]},
                     {"service_end_bytes", served.kinds[i]},
                     {"peak_bytes", peaks[i]},
                     {"bytes", std::move(bytes)}});
  }
  if (facts.bytes.size() > limits.instants)
    left_out["memory"] = {{"shown", kept.size()}, {"of", facts.bytes.size()}};
  return {{"times_ns", std::move(times)},
          {"total_bytes", std::move(totals)},
          {"kinds", std::move(kinds)},
          {"statics", StaticsOf(facts)},
          {"suspensions_ns", SuspensionsOf(facts)},
          {"moments", MomentsOf(facts, limits.moments, left_out)}};
}

}  // namespace coppice
