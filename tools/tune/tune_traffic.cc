// Reads files whole, one after the other.

#include "tools/tune/tune_traffic.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "fmt/format.h"
#include "fmt/ranges.h"

#include "coppice/base/status.h"
#include "coppice/padding/joint_cost.h"
#include "coppice/padding/padding_presets.h"

#include "tools/support/policy_file.h"
#include "tools/support/progress.h"
#include "tools/tune/trace_columns.h"

namespace coppice {
namespace {

constexpr size_t kSizesShown = 80;
constexpr const char* kCount = "count";

// The columns of sizes, then that of weights. What is a column of sizes weighs nothing.
std::vector<WantedColumn> WantedOf(const TrafficOptions& options) {
  std::vector<WantedColumn> wanted;
  for (const std::string& column : options.columns)
    wanted.push_back(KnownColumn(column, ColumnKind::kSize));
  const bool given = !options.weight.empty();
  const std::string weight = given ? options.weight : kCount;
  if (std::find(options.columns.begin(), options.columns.end(), weight) == options.columns.end())
    wanted.push_back({.names = {weight}, .kind = ColumnKind::kWeight, .required = given});
  return wanted;
}

// Of a row; without a column of weights 1.
double WeightOf(const TraceColumns& columns, size_t sizes, size_t row) {
  const bool weighed = columns.found.size() > sizes && columns.found[sizes];
  return weighed ? columns.values[sizes][row] : 1;
}

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
  traffic.weighed = traffic.weighed || (columns.found.size() > 1 && columns.found[1]);
  traffic.without_value += columns.rows_without;
  for (size_t i = 0; i < columns.lines.size(); ++i) {
    const double size = columns.values[0][i];
    const double weight = WeightOf(columns, 1, i);
    if (std::isnan(size)) {
      ++traffic.without_value;
      continue;
    }
    if (std::isnan(weight))
      return InvalidArgument("{}:{}: the row has {} but no {}; give both", path, columns.lines[i],
                             wanted[0].names[0], wanted[1].names[0]);
    counts.push_back({.size = static_cast<int64_t>(size), .count = weight});
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckTraffic(const TrafficOptions& options) {
  if (options.files.empty())
    return InvalidArgument("no traffic file is given; give one, such as trace.csv");
  if (options.columns.empty())
    return InvalidArgument("no column is named; give --column NAME, such as --column input_tokens");
  if (options.columns.size() > 2)
    return InvalidArgument("{} columns are named; give one --column, or two for a joint policy",
                           options.columns.size());
  const std::vector<std::string>& columns = options.columns;
  if (columns.size() == 2 && columns[0] == columns[1])
    return InvalidArgument("--column {} is given twice; give two different columns", columns[0]);
  if (std::find(columns.begin(), columns.end(), options.weight) != columns.end())
    return InvalidArgument("--weight {}: this is a column of sizes; give the column of counts",
                           options.weight);
  return absl::OkStatus();
}

absl::StatusOr<Traffic> ReadTraffic(const TrafficOptions& options, const Console& console) {
  COPPICE_RETURN_IF_ERROR(CheckTraffic(options));
  const std::vector<WantedColumn> wanted = WantedOf(options);
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
  const std::vector<WantedColumn> wanted = WantedOf(options);
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
      const double weight = WeightOf(columns, 2, i);
      if (std::isnan(a) || std::isnan(b) || std::isnan(weight))
        return InvalidArgument("{}:{}: the row is incomplete; give two sizes and a count", path,
                               columns.lines[i]);
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
      ReadTraceColumns(
          path, {{.names = {"size"}}, {.names = {"cost"}, .kind = ColumnKind::kCost}},
          [](int64_t, int64_t) {}, "a table of costs: a CSV file with the columns size and cost"));
  std::vector<CostRow> rows;
  absl::flat_hash_map<int64_t, double> costs;
  double sum = 0;
  for (size_t i = 0; i < columns.lines.size(); ++i) {
    if (std::isnan(columns.values[0][i]) || std::isnan(columns.values[1][i]))
      return InvalidArgument("{}:{}: the row lacks its size or its cost; give both", path,
                             columns.lines[i]);
    rows.push_back(
        {.size = static_cast<int64_t>(columns.values[0][i]), .cost = columns.values[1][i]});
    const CostRow& row = rows.back();
    const double before = costs.try_emplace(row.size, row.cost).first->second;
    if (before != row.cost)
      return InvalidArgument(
          "{}:{}: size {} costs {}, but {} in an earlier row; give each size one cost", path,
          columns.lines[i], row.size, row.cost, before);
    sum += row.cost;
  }
  if (!std::isfinite(sum))
    return InvalidArgument("{}: the costs add up to {}; give smaller costs", path, sum);
  absl::StatusOr<BucketCost> cost = CostTable(rows);
  if (cost.ok()) return cost;
  return InvalidArgument("{}: {}", path, MessageOf(cost.status()));
}

absl::StatusOr<JointCost> ReadJointCost(const TrafficOptions& options) {
  const std::string& path = options.cost;
  if (path.empty()) return JointCost();
  COPPICE_RETURN_IF_ERROR(CheckTraffic(options));
  const std::string& a = options.columns[0];
  const std::string& b = options.columns[1];
  COPPICE_ASSIGN_OR_RETURN(const TraceColumns columns,
                           ReadTraceColumns(
                               path,
                               {KnownColumn(a, ColumnKind::kSize, /*required=*/false),
                                KnownColumn(b, ColumnKind::kSize, /*required=*/false),
                                {.names = {"cost"}, .kind = ColumnKind::kCost}},
                               [](int64_t, int64_t) {},
                               "a table of costs: a CSV file with the column cost and either the "
                               "columns of both sizes or the column size"));
  if (!columns.found[0] && !columns.found[1]) {
    COPPICE_ASSIGN_OR_RETURN(BucketCost cost, ReadCost(path));
    return JointCost([cost = std::move(cost)](JointSize size) { return cost(size.elements()); });
  }
  if (!columns.found[0] || !columns.found[1])
    return InvalidArgument("{}: there is no column {}; give both sizes, or their product as size",
                           path, columns.found[0] ? b : a);
  std::vector<JointCostRow> rows;
  absl::flat_hash_map<std::pair<int64_t, int64_t>, double> costs;
  double sum = 0;
  for (size_t i = 0; i < columns.lines.size(); ++i) {
    if (std::isnan(columns.values[0][i]) || std::isnan(columns.values[1][i]) ||
        std::isnan(columns.values[2][i]))
      return InvalidArgument("{}:{}: the row is incomplete; give two sizes and a cost", path,
                             columns.lines[i]);
    const JointSize size = {.a = static_cast<int64_t>(columns.values[0][i]),
                            .b = static_cast<int64_t>(columns.values[1][i])};
    const double cost = columns.values[2][i];
    rows.push_back({.size = size, .cost = cost});
    const double before = costs.try_emplace({size.a, size.b}, cost).first->second;
    if (before != cost)
      return InvalidArgument(
          "{}:{}: size {}x{} costs {}, but {} in an earlier row; give each size one cost", path,
          columns.lines[i], size.a, size.b, cost, before);
    sum += cost;
  }
  if (!std::isfinite(sum))
    return InvalidArgument("{}: the costs add up to {}; give smaller costs", path, sum);
  absl::StatusOr<JointCost> cost = JointCostTable(rows);
  if (cost.ok()) return cost;
  return InvalidArgument("{}: {}", path, MessageOf(cost.status()));
}

absl::Status CheckSums(const TrafficOptions& options,
                       const SizeHistogram& histogram,
                       const BucketCost& cost,
                       int64_t limit) {
  const auto cost_of = [&](int64_t size) { return cost ? cost(size) : static_cast<double>(size); };
  const double most = histogram.mass() * cost_of(limit);
  double real = 0;
  for (const SizeCount& each : histogram.counts())
    if (each.size <= limit) real += each.count * cost_of(each.size);
  // As waste in %, which goes into policies.
  const double sum = 100 * most;
  if (std::isfinite(sum) && (real == 0 || std::isfinite(sum / real))) return absl::OkStatus();
  return InvalidArgument(
      "{}: the cost of all calls may be {} with padding and {} without, which is out of range; "
      "give {}",
      options.cost.empty() ? options.files[0] : options.cost, most, real,
      options.cost.empty() ? "smaller counts" : "smaller costs, or costs nearer to each other");
}

bool NamesPolicyFile(const std::string& text) {
  std::error_code error;
  return IsPolicyFile(text) || std::filesystem::exists(text, error);
}

absl::StatusOr<PaddingPolicy> ReadPolicy(const std::string& text, int64_t limit, int64_t largest) {
  if (NamesPolicyFile(text)) return ReadPolicyFile(text, limit);
  const PaddingPreset* const preset = FindPaddingPreset(text);
  // A ladder that no system ends has a limit of 0.
  const int64_t maximum = limit > 0                                ? limit
                          : preset != nullptr && preset->limit > 0 ? preset->limit
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

std::string ShortList(std::span<const int64_t> sizes) {
  if (sizes.size() <= kSizesShown) return fmt::format("{}", fmt::join(sizes, " "));
  return fmt::format("{} ... {}", fmt::join(sizes.begin(), sizes.begin() + kSizesShown - 1, " "),
                     sizes.back());
}

}  // namespace coppice
