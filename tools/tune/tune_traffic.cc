// Reads files whole, one after the other.

#include "tools/tune/tune_traffic.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <system_error>

#include "fmt/format.h"
#include "fmt/ranges.h"

#include "coppice/base/status.h"
#include "coppice/padding/padding_presets.h"

#include "tools/support/policy_file.h"
#include "tools/support/progress.h"
#include "tools/tune/trace_columns.h"

namespace coppice {
namespace {

constexpr size_t kSizesShown = 80;

absl::Status AddFile(const std::string& path,
                     const std::vector<WantedColumn>& wanted,
                     const Console& console,
                     Traffic& traffic,
                     std::vector<SizeCount>& counts) {
  Progress progress(console.err, /*enabled=*/true, "read " + path);
  COPPICE_ASSIGN_OR_RETURN(const TraceColumns columns,
                           ReadTraceColumns(path, wanted, [&](int64_t done, int64_t total) {
                             progress.Update(done, total);
                           }));
  traffic.weighed = traffic.weighed || columns.found[1];
  traffic.without_value += columns.rows_without;
  for (size_t i = 0; i < columns.lines.size(); ++i) {
    const double size = columns.values[0][i];
    const double weight = columns.found[1] ? columns.values[1][i] : 1;
    if (std::isnan(size)) {
      ++traffic.without_value;
      continue;
    }
    if (std::isnan(weight))
      return InvalidArgument("{}:{}: the row has a {} and no {}; give it one", path,
                             columns.lines[i], wanted[0].names[0], wanted[1].names[0]);
    counts.push_back({.size = static_cast<int64_t>(size), .count = weight});
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckTraffic(const TrafficOptions& options) {
  if (options.files.empty())
    return InvalidArgument("there is no file of traffic; give one, as trace.csv");
  if (options.columns.empty())
    return InvalidArgument("no column is named; give --column NAME, as --column input_tokens");
  if (options.columns.size() > 2)
    return InvalidArgument("{} columns are named; give one --column, or two for a joint policy",
                           options.columns.size());
  return absl::OkStatus();
}

absl::StatusOr<Traffic> ReadTraffic(const TrafficOptions& options, const Console& console) {
  COPPICE_RETURN_IF_ERROR(CheckTraffic(options));
  const std::vector<WantedColumn> wanted = {
      KnownColumn(options.columns[0], ColumnKind::kSize),
      {.names = {options.weight}, .kind = ColumnKind::kWeight, .required = false}};
  Traffic traffic;
  std::vector<SizeCount> counts;
  for (const std::string& path : options.files)
    COPPICE_RETURN_IF_ERROR(AddFile(path, wanted, console, traffic, counts));
  traffic.rows = static_cast<int64_t>(counts.size());
  COPPICE_ASSIGN_OR_RETURN(traffic.histogram, SizeHistogram::From(counts));
  return traffic;
}

absl::StatusOr<JointHistogram> ReadJointTraffic(const TrafficOptions& options,
                                                const Console& console) {
  COPPICE_RETURN_IF_ERROR(CheckTraffic(options));
  const std::vector<WantedColumn> wanted = {
      KnownColumn(options.columns[0], ColumnKind::kSize),
      KnownColumn(options.columns[1], ColumnKind::kSize),
      {.names = {options.weight}, .kind = ColumnKind::kWeight, .required = false}};
  std::vector<JointCount> counts;
  for (const std::string& path : options.files) {
    Progress progress(console.err, /*enabled=*/true, "read " + path);
    COPPICE_ASSIGN_OR_RETURN(const TraceColumns columns,
                             ReadTraceColumns(path, wanted, [&](int64_t done, int64_t total) {
                               progress.Update(done, total);
                             }));
    for (size_t i = 0; i < columns.lines.size(); ++i) {
      const double a = columns.values[0][i];
      const double b = columns.values[1][i];
      const double weight = columns.found[2] ? columns.values[2][i] : 1;
      if (std::isnan(a) || std::isnan(b) || std::isnan(weight))
        return InvalidArgument("{}:{}: the row lacks a size or its count; give it all of them",
                               path, columns.lines[i]);
      counts.push_back(
          {.size = {.a = static_cast<int64_t>(a), .b = static_cast<int64_t>(b)}, .count = weight});
    }
  }
  return JointHistogram::From(counts);
}

absl::StatusOr<BucketCost> ReadCost(const std::string& path) {
  if (path.empty()) return BucketCost();
  COPPICE_ASSIGN_OR_RETURN(
      const TraceColumns columns,
      ReadTraceColumns(path, {{.names = {"size"}}, {.names = {"cost"}, .kind = ColumnKind::kTime}},
                       [](int64_t, int64_t) {}));
  std::vector<CostRow> rows;
  for (size_t i = 0; i < columns.lines.size(); ++i) {
    if (std::isnan(columns.values[0][i]) || std::isnan(columns.values[1][i]))
      return InvalidArgument("{}:{}: the row lacks its size or its cost; give both", path,
                             columns.lines[i]);
    rows.push_back(
        {.size = static_cast<int64_t>(columns.values[0][i]), .cost = columns.values[1][i]});
  }
  absl::StatusOr<BucketCost> cost = CostTable(rows);
  if (cost.ok()) return cost;
  return InvalidArgument("{}: {}", path, MessageOf(cost.status()));
}

absl::StatusOr<PaddingPolicy> ReadPolicy(const std::string& text, int64_t limit, int64_t largest) {
  std::error_code error;
  if (IsPolicyFile(text) || std::filesystem::exists(text, error))
    return ReadPolicyFile(text, limit);
  const PaddingPreset* const preset = FindPaddingPreset(text);
  const int64_t maximum = limit > 0           ? limit
                          : preset != nullptr ? preset->limit
                                              : std::max<int64_t>(largest, 1);
  return PaddingPolicy::Parse(text, maximum);
}

ExitCode FailTune(const Console& console,
                  const char* command,
                  const absl::Status& status,
                  ExitCode code) {
  Print(console.err, "coppice {}: {}\n", command, MessageOf(status));
  return code;
}

std::string ShortList(const std::vector<int64_t>& sizes) {
  if (sizes.size() <= kSizesShown) return fmt::format("{}", fmt::join(sizes, " "));
  return fmt::format("{} ... {}", fmt::join(sizes.begin(), sizes.begin() + kSizesShown - 1, " "),
                     sizes.back());
}

}  // namespace coppice
