// Sums over the events of a trace.

#include "tools/prof/trace_summary.h"

#include <algorithm>

#include "coppice/base/status.h"

namespace coppice {
namespace {

struct BytesAt {
  int64_t time_ns = 0;
  int64_t bytes = 0;
};

// What the events of one kind say, which need not come in order of time.
BytesOverTime OverTime(std::vector<BytesAt> events, int64_t service_end_ns) {
  std::ranges::stable_sort(events, {}, &BytesAt::time_ns);
  BytesOverTime over;
  for (const BytesAt& event : events) {
    over.peak = std::max(over.peak, event.bytes);
    over.at_end = event.bytes;
    if (event.time_ns <= service_end_ns) over.at_service_end = event.bytes;
  }
  return over;
}

void AddFigures(const BucketFigures& part, BucketFigures& sum) {
  for (size_t i = 0; i < sum.paths.size(); ++i)
    sum.paths[i] += part.paths[i];
  sum.real_elements = AddUpTo(sum.real_elements, part.real_elements);
  sum.padded_elements = AddUpTo(sum.padded_elements, part.padded_elements);
  sum.exec_bytes = AddUpTo(sum.exec_bytes, part.exec_bytes);
  sum.recorded += part.recorded;
  sum.evicted += part.evicted;
}

}  // namespace

const char* MeaningOf(MemoryKind kind) {
  switch (kind) {
    case MemoryKind::kPlan:
      return "mapped for graphs, whose plans share it";
    case MemoryKind::kEager:
      return "mapped for warm-up and eager runs, and their leases";
    case MemoryKind::kStaging:
      return "mapped for padded inputs and parameters";
    case MemoryKind::kCopyOut:
      return "mapped for outputs that are copied out";
    case MemoryKind::kWorkspace:
      return "mapped for libraries";
    case MemoryKind::kConstants:
      return "mapped for constants";
    case MemoryKind::kSpare:
      return "kept for the next growth";
    case MemoryKind::kIncluded:
      return "of graphs in the application's captures";
    case MemoryKind::kGraphs:
      return "executable graphs in the driver, an estimate";
    case MemoryKind::kExternal:
      return "reported by the application";
  }
  return "?";
}

absl::StatusOr<TraceSummary> SummarizeTrace(const std::string& path) {
  TraceSummary summary;
  BucketTally tally;
  std::array<std::vector<BytesAt>, kMemoryKindCount> kinds;
  std::vector<BytesAt> total;
  int64_t service_end_ns = 0;
  COPPICE_ASSIGN_OR_RETURN(
      summary.trace, ReadPoolTrace(path, [&](const PoolTrace& trace, const TraceEvent& event) {
        tally.Add(event);
        if (event.kind == TraceEventKind::kBytes) {
          kinds[static_cast<size_t>(event.memory)].push_back({event.time_ns, event.first});
          total.push_back({event.time_ns, event.second});
        }
        if (event.kind == TraceEventKind::kSuspend) ++summary.suspends;
        if (event.kind != TraceEventKind::kCall) return;
        service_end_ns = std::max(service_end_ns, event.time_ns);
        summary.program_calls.resize(trace.programs.size());
        if (event.program >= 0) ++summary.program_calls[static_cast<size_t>(event.program)];
        if (event.reason != Reason::kNone) ++summary.reasons[{event.program, event.reason}];
      }));
  summary.program_calls.resize(summary.trace.programs.size());
  for (size_t kind = 0; kind < kinds.size(); ++kind)
    summary.kinds[kind] = OverTime(std::move(kinds[kind]), service_end_ns);
  summary.total = OverTime(std::move(total), service_end_ns);
  AddFigures(tally.unbucketed(), summary.calls);
  summary.buckets = tally.Finish(summary.trace);
  for (const BucketFigures& bucket : summary.buckets)
    AddFigures(bucket, summary.calls);
  return summary;
}

}  // namespace coppice
