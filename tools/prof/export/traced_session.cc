// Reads, sorts, and sums up as the summary does.

#include "tools/prof/export/traced_session.h"

#include <algorithm>
#include <utility>

#include "nlohmann/json.hpp"

#include "coppice/base/status.h"

#include "tools/prof/bucket_figures.h"

namespace coppice {

absl::StatusOr<TracedSession> ReadTracedSession(const std::string& path) {
  TracedSession session;
  COPPICE_ASSIGN_OR_RETURN(session.trace,
                           ReadPoolTrace(path, [&](const PoolTrace&, const TraceEvent& event) {
                             session.events.push_back(event);
                           }));
  std::ranges::stable_sort(session.events, {}, &TraceEvent::time_ns);
  return session;
}

SessionTotals TotalsOf(const TracedSession& session) {
  SessionTotals totals;
  BucketTally tally;
  for (const TraceEvent& event : session.events) {
    tally.Add(event);
    if (event.kind != TraceEventKind::kBytes) continue;
    const auto kind = static_cast<size_t>(event.memory);
    totals.end[kind] = event.first;
    totals.peak[kind] = std::max(totals.peak[kind], event.first);
    totals.total_end = event.second;
    totals.total_peak = std::max(totals.total_peak, event.second);
  }
  const auto add = [&totals](const BucketFigures& figures) {
    for (size_t i = 0; i < totals.paths.size(); ++i)
      totals.paths[i] += figures.paths[i];
    totals.recorded += figures.recorded;
    totals.evicted += figures.evicted;
    totals.exec_bytes = AddUpTo(totals.exec_bytes, figures.exec_bytes);
  };
  add(tally.unbucketed());
  for (const BucketFigures& figures : tally.Finish(session.trace))
    add(figures);
  return totals;
}

nlohmann::ordered_json ToJson(const SessionTotals& totals) {
  nlohmann::ordered_json paths = nlohmann::ordered_json::object();
  for (int i = 0; i < kRunKindCount; ++i)
    paths[NameOf(static_cast<RunKind>(i))] = totals.paths[static_cast<size_t>(i)];
  nlohmann::ordered_json kinds = nlohmann::ordered_json::object();
  for (int i = 0; i < kMemoryKindCount; ++i) {
    kinds[NameOf(static_cast<MemoryKind>(i))] = {
        {"end_bytes", totals.end[static_cast<size_t>(i)]},
        {"peak_bytes", totals.peak[static_cast<size_t>(i)]}};
  }
  return {{"paths", paths},
          {"bytes", kinds},
          {"total_end_bytes", totals.total_end},
          {"total_peak_bytes", totals.total_peak},
          {"graphs_recorded", totals.recorded},
          {"graphs_evicted", totals.evicted},
          {"exec_bytes_estimate", totals.exec_bytes}};
}

nlohmann::ordered_json OriginOf(const TracedSession& session) {
  const PoolTrace& trace = session.trace;
  return {{"schema", kPoolTraceSchema},
          {"device", trace.device},
          {"lanes", trace.lanes},
          {"granularity_bytes", trace.granularity},
          {"budget_bytes", trace.budget},
          {"ended", trace.ended},
          {"last_ns", trace.last_ns},
          {"events", trace.events},
          {"dropped_events", trace.dropped},
          {"totals", ToJson(TotalsOf(session))}};
}

}  // namespace coppice
