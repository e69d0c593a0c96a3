// Rows of a trace, checked.

#include "tools/tune/timed_requests.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "coppice/base/status.h"

#include "tools/support/progress.h"
#include "tools/tune/trace_columns.h"

namespace coppice {
namespace {

constexpr int64_t kTokensMax = 10'000'000;

}  // namespace

absl::StatusOr<std::vector<TimedRequest>> ReadRequests(const std::string& path,
                                                       const Console& console) {
  Progress progress(console.err, /*enabled=*/true, "read " + path);
  COPPICE_ASSIGN_OR_RETURN(
      const TraceColumns columns,
      ReadTraceColumns(path,
                       {KnownColumn("input_tokens", ColumnKind::kSize),
                        KnownColumn("output_tokens", ColumnKind::kSize),
                        KnownColumn("arrival_seconds", ColumnKind::kTime, /*required=*/false)},
                       [&](int64_t done, int64_t total) { progress.Update(done, total); }));
  std::vector<TimedRequest> requests;
  int64_t timed = 0;
  for (size_t i = 0; i < columns.lines.size(); ++i) {
    const double input = columns.values[0][i];
    const double output = columns.values[1][i];
    const double arrival = columns.values[2][i];
    // A line of a log that tells of something else than a finished request.
    if (std::isnan(input) || std::isnan(output)) continue;
    if (input < 1 || output < 1 || input + output > static_cast<double>(kTokensMax))
      return InvalidArgument(
          "{}:{}: the request has {} input and {} output tokens; give at least 1 of each, "
          "and at most {} in total",
          path, columns.lines[i], input, output, kTokensMax);
    if (!std::isnan(arrival)) ++timed;
    if (timed != 0 && timed != static_cast<int64_t>(requests.size()) + 1)
      return InvalidArgument(
          "{}:{}: some rows have an arrival and others do not; give it in every row or in none",
          path, columns.lines[i]);
    requests.push_back({.arrival_seconds = timed > 0 ? arrival : 0,
                        .input_tokens = static_cast<int64_t>(input),
                        .output_tokens = static_cast<int64_t>(output)});
  }
  if (requests.empty())
    return InvalidArgument("{}: no row has input and output tokens; give rows with both", path);
  std::stable_sort(requests.begin(), requests.end(),
                   [](const TimedRequest& a, const TimedRequest& b) {
                     return a.arrival_seconds < b.arrival_seconds;
                   });
  return requests;
}

}  // namespace coppice
