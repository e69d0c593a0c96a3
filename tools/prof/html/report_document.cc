// The head of the document, and what its parts share.

#include "tools/prof/html/report_document.h"

#include <algorithm>
#include <array>

namespace coppice {
namespace {

using Json = nlohmann::ordered_json;

Json SessionOf(const PoolTrace& trace) {
  return {{"device", trace.device},
          {"lanes", trace.lanes},
          {"granularity_bytes", trace.granularity},
          {"budget_bytes", trace.budget},
          {"ended", trace.ended},
          {"last_ns", trace.last_ns},
          {"events", trace.events},
          {"dropped_events", trace.dropped}};
}

void AddFigures(const BucketFigures& part, BucketFigures& sum) {
  for (size_t i = 0; i < sum.paths.size(); ++i)
    sum.paths[i] = AddUpTo(sum.paths[i], part.paths[i]);
  sum.real_elements = AddUpTo(sum.real_elements, part.real_elements);
  sum.padded_elements = AddUpTo(sum.padded_elements, part.padded_elements);
  sum.exec_bytes = AddUpTo(sum.exec_bytes, part.exec_bytes);
  sum.exact_replays += part.exact_replays;
  sum.executables += part.executables;
  sum.record_ns = AddUpTo(sum.record_ns, part.record_ns);
  sum.recorded += part.recorded;
  sum.evicted += part.evicted;
}

Json PathsJson(const BucketFigures& figures) {
  Json paths = Json::object();
  for (int i = 0; i < kRunKindCount; ++i)
    paths[NameOf(static_cast<RunKind>(i))] = figures.paths[static_cast<size_t>(i)];
  return paths;
}

Json ProgramsOf(const ReportFacts& facts) {
  std::vector<BucketFigures> sums(facts.trace.programs.size());
  for (const BucketFigures& bucket : facts.buckets)
    AddFigures(bucket, sums[static_cast<size_t>(facts.ProgramOf(bucket.bucket))]);
  std::vector<int64_t> calls(sums.size());  // Of no bucket, too.
  for (const ReportCall& call : facts.calls)
    if (call.program >= 0) ++calls[static_cast<size_t>(call.program)];
  Json programs = Json::array();
  for (size_t i = 0; i < sums.size(); ++i) {
    programs.push_back({{"label", LabelOf(facts.trace.programs[i])},
                        {"symbols", facts.trace.programs[i].symbols},
                        {"calls", calls[i]},
                        {"paths", PathsJson(sums[i])},
                        {"real_elements", sums[i].real_elements},
                        {"padded_elements", sums[i].padded_elements},
                        {"padded_share_pct", sums[i].padded_share_pct()},
                        {"exact_replays", sums[i].exact_replays},
                        {"graphs_recorded", sums[i].recorded},
                        {"graphs_evicted", sums[i].evicted},
                        {"executables", sums[i].executables}});
  }
  return programs;
}

Json SummaryOf(const ReportFacts& facts) {
  BucketFigures all;
  AddFigures(facts.unbucketed, all);
  for (const BucketFigures& bucket : facts.buckets)
    AddFigures(bucket, all);
  int64_t suspends = 0;
  for (const TracedEvent& moment : facts.moments)
    suspends += moment.As<SuspendEvent>() != nullptr ? 1 : 0;
  int64_t total_peak = 0;
  int64_t total_service_end = 0;
  for (const ReportBytes& bytes : facts.bytes) {
    total_peak = std::max(total_peak, bytes.total);
    if (bytes.time_ns <= ServiceEndOf(facts)) total_service_end = bytes.total;
  }
  return {{"calls", all.calls()},
          {"paths", PathsJson(all)},
          {"real_elements", all.real_elements},
          {"padded_elements", all.padded_elements},
          {"padded_share_pct", all.padded_share_pct()},
          {"total_end_bytes", facts.bytes.empty() ? 0 : facts.bytes.back().total},
          {"total_service_end_bytes", total_service_end},
          {"total_peak_bytes", total_peak},
          {"buckets", facts.trace.buckets.size()},
          {"graphs_recorded", all.recorded},
          {"graphs_evicted", all.evicted},
          {"executables", all.executables},
          {"exact_replays", all.exact_replays},
          {"exec_bytes_estimate", all.exec_bytes},
          {"record_ns", all.record_ns},
          {"suspends", suspends}};
}

}  // namespace

int64_t ServiceEndOf(const ReportFacts& facts) {
  return facts.calls.empty() ? 0 : facts.calls.back().time_ns;
}

std::vector<size_t> SpreadOver(size_t total, size_t count) {
  const size_t kept = std::min(total, count);
  std::vector<size_t> places(kept);
  for (size_t i = 0; i < kept; ++i)
    places[i] = i * total / kept;
  return places;
}

Json BuildReport(const ReportFacts& facts, const ReportLimits& limits) {
  Json left_out = Json::object();
  Json report = {{"schema", kReportSchema},
                 {"session", SessionOf(facts.trace)},
                 {"programs", ProgramsOf(facts)},
                 {"summary", SummaryOf(facts)},
                 {"findings", FindingsOf(facts)}};
  report["memory"] = MemoryOf(facts, limits, left_out);
  report["buckets"] = BucketsOf(facts, limits, left_out);
  report["map"] = MapOf(facts, limits, left_out);
  report["why"] = WhyOf(facts, limits, left_out);
  report["paths"] = PathsOf(facts, limits, left_out);
  report["timeline"] = TimelineOf(facts, limits, left_out);
  report["kernels"] = KernelsOf(facts, limits, left_out);
  report["times"] = TimesOf(facts);
  report["requests"] = RequestsOf(facts, limits, left_out);
  report["limits"] = std::move(left_out);
  return report;
}

}  // namespace coppice
