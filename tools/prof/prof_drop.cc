// What dropping a bucket would free, as a table and as JSON.

#include <string>
#include <vector>

#include "fmt/format.h"
#include "nlohmann/json.hpp"

#include "coppice/base/status.h"

#include "tools/prof/bucket_drops.h"
#include "tools/prof/bucket_figures.h"
#include "tools/prof/prof.h"
#include "tools/support/byte_text.h"
#include "tools/support/text_table.h"

namespace coppice {
namespace {

nlohmann::ordered_json ToJson(const PoolTrace& trace, const BucketDrop& drop) {
  const TracedBucket& bucket = trace.buckets[static_cast<size_t>(drop.bucket)];
  nlohmann::ordered_json served_by;
  if (drop.served_by >= 0) served_by = trace.buckets[static_cast<size_t>(drop.served_by)].id;
  nlohmann::ordered_json served_extents;
  if (!drop.served_extents.empty()) served_extents = drop.served_extents;
  return {{"bucket", bucket.id},
          {"program", LabelOf(trace.programs[static_cast<size_t>(bucket.program)])},
          {"extents", bucket.extents},
          {"scalars", bucket.scalars},
          {"lane", bucket.lane},
          {"calls", drop.calls},
          {"mapped_bytes", drop.mapped_bytes},
          {"mapped_bytes_with_higher", drop.with_higher},
          {"exec_bytes", drop.exec_bytes},
          {"served_by", served_by},
          {"served_by_extents", served_extents},
          {"records_another", drop.records_another()},
          {"policy_known", drop.policy_known},
          {"padding_factor", drop.padding_factor}};
}

// The bucket that serves the calls then: "decode 8", "decode 16, not recorded".
std::string NameOfServer(const PoolTrace& trace, const BucketDrop& drop) {
  if (drop.served_by >= 0) return NameOfBucket(trace, drop.served_by);
  if (drop.served_extents.empty()) return "nothing: eager";
  TracedBucket server = trace.buckets[static_cast<size_t>(drop.bucket)];
  server.extents = drop.served_extents;
  return fmt::format("{} {}, not recorded", LabelOfProgram(trace, server.program), LabelOf(server));
}

std::string ToText(const PoolTrace& trace, const std::vector<BucketDrop>& drops) {
  TextTable table("rlrrrrrlr", {"id", "bucket", "lane", "calls", "frees", "with higher", "graphs*",
                                "then served by", "padding"});
  bool any_new = false;
  for (const BucketDrop& drop : drops) {
    const TracedBucket& bucket = trace.buckets[static_cast<size_t>(drop.bucket)];
    const bool served = drop.served_by >= 0 || !drop.served_extents.empty();
    any_new = any_new || drop.records_another();
    table.Add({fmt::format("{}", bucket.id), NameOfBucket(trace, drop.bucket),
               fmt::format("{}", bucket.lane), fmt::format("{}", drop.calls),
               FormatBytes(drop.mapped_bytes), FormatBytes(drop.with_higher),
               FormatBytes(drop.exec_bytes), NameOfServer(trace, drop),
               served ? fmt::format("x {:.2f}", drop.padding_factor) : ""});
  }
  return table.Format() +
         "  frees: mapped bytes that dropping the bucket frees; with higher: if every bucket at "
         "least as high is dropped, too\n" +
         (any_new
              ? "  not recorded: the calls would record this bucket instead, so nothing is freed\n"
              : "") +
         "  * an estimate from a table\n";
}

}  // namespace

ExitCode ProfDrop(const ProfOptions& options, const Console& console) {
  BucketTally tally;
  LatestPolicies policies;
  const absl::StatusOr<PoolTrace> trace =
      ReadPoolTrace(options.trace, [&](const PoolTrace&, const TracedEvent& event) {
        tally.Add(event);
        policies.Add(event);
      });
  if (!trace.ok()) return FailProf(console, trace.status());
  const absl::StatusOr<std::vector<bool>> chosen = ChoosePrograms(*trace, options.program);
  if (!chosen.ok()) return FailProf(console, chosen.status());
  const std::vector<BucketFigures> figures = tally.Finish(*trace);
  std::vector<BucketDrop> drops = RankDrops(*trace, figures, policies);
  std::erase_if(drops, [&](const BucketDrop& drop) {
    const TracedBucket& bucket = trace->buckets[static_cast<size_t>(drop.bucket)];
    return !(*chosen)[static_cast<size_t>(bucket.program)];
  });
  if (!options.json) {
    Print(console.out, "{}{}", NoteGaps(*trace), ToText(*trace, drops));
    return kExitOk;
  }
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const BucketDrop& drop : drops)
    rows.push_back(ToJson(*trace, drop));
  Print(console.out, "{}",
        Dump({{"schema", kPoolTraceSchema},
              {"ended", trace->ended},
              {"dropped_events", trace->dropped},
              {"granularity_bytes", trace->granularity},
              {"buckets", rows}}));
  return kExitOk;
}

}  // namespace coppice
