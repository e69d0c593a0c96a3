// What each bucket costs and earns.

#include <algorithm>
#include <vector>

#include "nlohmann/json.hpp"

#include "tools/prof/bucket_figures.h"
#include "tools/prof/prof.h"

namespace coppice {

ExitCode ProfBuckets(const ProfOptions& options, const Console& console) {
  BucketTally tally;
  const absl::StatusOr<PoolTrace> trace = ReadPoolTrace(
      options.trace, [&](const PoolTrace&, const TracedEvent& event) { tally.Add(event); });
  if (!trace.ok()) return FailProf(console, trace.status());
  const absl::StatusOr<std::vector<bool>> chosen = ChoosePrograms(*trace, options.program);
  if (!chosen.ok()) return FailProf(console, chosen.status());

  std::vector<BucketFigures> figures = tally.Finish(*trace);
  const auto other = [&](const BucketFigures& each) {
    const TracedBucket& bucket = trace->buckets[static_cast<size_t>(each.bucket)];
    return !(*chosen)[static_cast<size_t>(bucket.program)];
  };
  figures.erase(std::remove_if(figures.begin(), figures.end(), other), figures.end());
  Sort(*trace, options.sort, figures);
  if (options.json) {
    nlohmann::ordered_json rows = nlohmann::ordered_json::array();
    for (const BucketFigures& each : figures)
      rows.push_back(ToJson(*trace, each));
    Print(console.out, "{}",
          Dump({{"schema", kPoolTraceSchema},
                {"sort", NameOf(options.sort)},
                {"ended", trace->ended},
                {"dropped_events", trace->dropped},
                {"calls_without_bucket", tally.unbucketed().calls()},
                {"buckets", rows}}));
    return kExitOk;
  }
  Print(console.out, "{}{}", NoteGaps(*trace), FormatBuckets(*trace, figures));
  Print(console.out, "  * an estimate from a table; calls without a bucket: {}\n",
        tally.unbucketed().calls());
  return kExitOk;
}

}  // namespace coppice
