// Sums over the events of a trace.

#include "tools/prof/trace_summary.h"

#include <algorithm>
#include <iterator>
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
  sum.exact_replays += part.exact_replays;
  sum.executables += part.executables;
  sum.recorded += part.recorded;
  sum.evicted += part.evicted;
}

// Programs come as they are defined.
int64_t& At(int program, std::vector<int64_t>& values) {
  const auto place = static_cast<size_t>(program);
  if (values.size() <= place) values.resize(place + 1);
  return values[place];
}

}  // namespace

const char* MeaningOf(MemoryKind kind) {
  switch (kind) {
    case MemoryKind::kPlan:
      return "mapped for graphs, and shared by their plans";
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
      return "kept for later growth";
    case MemoryKind::kIncluded:
      return "used by graphs in the application's captures";
    case MemoryKind::kGraphs:
      return "executable graphs in the driver (estimated)";
    case MemoryKind::kExternal:
      return "reported by the application";
  }
  return "?";
}

void BytesTally::Latest::See(int64_t time, int64_t value) {
  if (time < time_ns) return;
  time_ns = time;
  bytes = value;
}

void BytesTally::Add(int64_t time_ns, int64_t bytes, int64_t service_end_ns) {
  peak_ = std::max(peak_, bytes);
  end_.See(time_ns, bytes);
  const auto served = later_.upper_bound(service_end_ns);
  if (served != later_.begin()) {
    const auto& [time, last] = *std::prev(served);
    service_.See(time, last);
    later_.erase(later_.begin(), served);
  }
  if (time_ns <= service_end_ns) {
    service_.See(time_ns, bytes);
  } else {
    later_.emplace(time_ns, bytes);
  }
}

BytesOverTime BytesTally::At(int64_t service_end_ns) const {
  Latest service = service_;
  const auto served = later_.upper_bound(service_end_ns);
  if (served != later_.begin()) service.See(std::prev(served)->first, std::prev(served)->second);
  return {.peak = peak_, .at_service_end = service.bytes, .at_end = end_.bytes};
}

void StaticsPeaks::Add(const TracedEvent& event) {
  const auto* const statics = event.As<StaticsEvent>();
  if (statics == nullptr) return;
  total = std::max(total, statics->total_bytes);
  int64_t& peak = At(statics->program, programs);
  peak = std::max(peak, statics->bytes);
}

void SummaryTally::Add(const TracedEvent& event) {
  tally_.Add(event);
  statics_peaks_.Add(event);
  std::visit(Cases{[&](const BytesEvent& bytes) {
                     kinds_[static_cast<size_t>(bytes.kind)].Add(event.time_ns, bytes.bytes,
                                                                 service_end_ns_);
                     total_.Add(event.time_ns, bytes.total_bytes, service_end_ns_);
                   },
                   [&](const StaticsEvent& statics) {
                     statics_.Add(event.time_ns, statics.total_bytes, service_end_ns_);
                   },
                   [&](const SuspendEvent& /*empty*/) { ++suspends_; },
                   [&](const CallEvent& call) {
                     service_end_ns_ = std::max(service_end_ns_, event.time_ns);
                     if (call.reason != Reason::kNone) ++reasons_[{call.program, call.reason}];
                     ++At(call.program, program_calls_);
                   },
                   [](const auto& /*other*/) {}},
             event.what);
}

TraceSums SummaryTally::SumsWith(const PoolTrace& trace, std::vector<BucketFigures> buckets) const {
  TraceSums sums;
  for (size_t kind = 0; kind < kinds_.size(); ++kind)
    sums.kinds[kind] = kinds_[kind].At(service_end_ns_);
  sums.total = total_.At(service_end_ns_);
  AddFigures(tally_.unbucketed(), sums.calls);
  for (const BucketFigures& bucket : buckets)
    AddFigures(bucket, sums.calls);
  sums.buckets = std::move(buckets);
  sums.program_calls = program_calls_;
  sums.program_calls.resize(trace.programs.size());
  sums.statics = statics_.At(service_end_ns_);
  sums.program_statics_peaks = statics_peaks_.programs;
  sums.program_statics_peaks.resize(trace.programs.size());
  sums.reasons = reasons_;
  sums.suspends = suspends_;
  return sums;
}

TraceSums SummaryTally::Sums(const PoolTrace& trace) const {
  return SumsWith(trace, tally_.Sums(trace));
}

TraceSummary SummaryTally::Finish(PoolTrace trace) {
  TraceSummary summary;
  static_cast<TraceSums&>(summary) = SumsWith(trace, tally_.Finish(trace));
  summary.trace = std::move(trace);
  return summary;
}

absl::StatusOr<TraceSummary> SummarizeTrace(const std::string& path) {
  SummaryTally tally;
  COPPICE_ASSIGN_OR_RETURN(
      PoolTrace trace,
      ReadPoolTrace(path, [&](const PoolTrace&, const TracedEvent& event) { tally.Add(event); }));
  return tally.Finish(std::move(trace));
}

}  // namespace coppice
