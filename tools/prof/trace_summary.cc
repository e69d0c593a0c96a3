// Sums over the events of a trace.

#include "tools/prof/trace_summary.h"

#include <algorithm>
#include <utility>

#include "coppice/base/status.h"

namespace coppice {
namespace {

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

BytesOverTime SummaryTally::OverTime(std::vector<BytesAt> events, int64_t service_end_ns) {
  std::ranges::stable_sort(events, {}, &BytesAt::time_ns);
  BytesOverTime over;
  for (const BytesAt& event : events) {
    over.peak = std::max(over.peak, event.bytes);
    over.at_end = event.bytes;
    if (event.time_ns <= service_end_ns) over.at_service_end = event.bytes;
  }
  return over;
}

void SummaryTally::Add(const TraceEvent& event) {
  tally_.Add(event);
  if (event.kind == TraceEventKind::kBytes) {
    kinds_[static_cast<size_t>(event.memory)].push_back({event.time_ns, event.first});
    total_.push_back({event.time_ns, event.second});
  }
  if (event.kind == TraceEventKind::kSuspend) ++summary_.suspends;
  if (event.kind != TraceEventKind::kCall) return;
  service_end_ns_ = std::max(service_end_ns_, event.time_ns);
  if (event.reason != Reason::kNone) ++summary_.reasons[{event.program, event.reason}];
  if (event.program < 0) return;
  const auto program = static_cast<size_t>(event.program);
  if (summary_.program_calls.size() <= program) summary_.program_calls.resize(program + 1);
  ++summary_.program_calls[program];
}

TraceSummary SummaryTally::Finish(PoolTrace trace) {
  summary_.program_calls.resize(trace.programs.size());
  for (size_t kind = 0; kind < kinds_.size(); ++kind)
    summary_.kinds[kind] = OverTime(std::move(kinds_[kind]), service_end_ns_);
  summary_.total = OverTime(std::move(total_), service_end_ns_);
  AddFigures(tally_.unbucketed(), summary_.calls);
  summary_.buckets = tally_.Finish(trace);
  for (const BucketFigures& bucket : summary_.buckets)
    AddFigures(bucket, summary_.calls);
  summary_.trace = std::move(trace);
  return std::move(summary_);
}

absl::StatusOr<TraceSummary> SummarizeTrace(const std::string& path) {
  SummaryTally tally;
  COPPICE_ASSIGN_OR_RETURN(
      PoolTrace trace,
      ReadPoolTrace(path, [&](const PoolTrace&, const TraceEvent& event) { tally.Add(event); }));
  return tally.Finish(std::move(trace));
}

}  // namespace coppice
