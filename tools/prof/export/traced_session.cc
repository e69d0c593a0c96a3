// Reads and sorts.

#include "tools/prof/export/traced_session.h"

#include <algorithm>
#include <utility>

#include "nlohmann/json.hpp"

#include "coppice/base/status.h"

namespace coppice {
namespace {

// The totals under the names that the summary has for them.
nlohmann::ordered_json TotalsOf(const TraceSummary& summary) {
  nlohmann::ordered_json paths = nlohmann::ordered_json::object();
  for (int i = 0; i < kRunKindCount; ++i)
    paths[NameOf(static_cast<RunKind>(i))] = summary.calls.paths[static_cast<size_t>(i)];
  nlohmann::ordered_json kinds = nlohmann::ordered_json::object();
  for (int i = 0; i < kMemoryKindCount; ++i) {
    const BytesOverTime& bytes = summary.kinds[static_cast<size_t>(i)];
    kinds[NameOf(static_cast<MemoryKind>(i))] = {{"end_bytes", bytes.at_end},
                                                 {"peak_bytes", bytes.peak}};
  }
  return {{"paths", paths},
          {"bytes", kinds},
          {"total_end_bytes", summary.total.at_end},
          {"total_peak_bytes", summary.total.peak},
          {"graphs_recorded", summary.calls.recorded},
          {"graphs_evicted", summary.calls.evicted},
          {"exec_bytes_estimate", summary.calls.exec_bytes}};
}

}  // namespace

absl::StatusOr<TracedSession> ReadTracedSession(const std::string& path) {
  TracedSession session;
  COPPICE_ASSIGN_OR_RETURN(session.trace,
                           ReadPoolTrace(path, [&](const PoolTrace&, const TracedEvent& event) {
                             session.events.push_back(event);
                           }));
  std::ranges::stable_sort(session.events, {}, &TracedEvent::time_ns);
  return session;
}

TraceSummary SummaryOf(const TracedSession& session) {
  SummaryTally tally;
  for (const TracedEvent& event : session.events)
    tally.Add(event);
  return tally.Finish(session.trace);
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
          {"totals", TotalsOf(SummaryOf(session))}};
}

}  // namespace coppice
