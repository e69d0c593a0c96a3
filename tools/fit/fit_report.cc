// Tables.

#include "tools/fit/fit_report.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "nlohmann/json.hpp"

#include "coppice/padding/score_buckets.h"

#include "tools/support/byte_text.h"
#include "tools/support/svg.h"
#include "tools/support/text_table.h"

namespace coppice {
namespace {

using Json = nlohmann::ordered_json;

// Pixels.
constexpr double kWidth = 960;
constexpr double kHeight = 560;
constexpr double kLeft = 80;
constexpr double kRight = kWidth - 160;
constexpr double kTop = 48;
constexpr double kBottom = kHeight - 64;
constexpr double kMark = 8;
constexpr int kTicks = 5;

const char* NameOf(FitGoal goal) {
  switch (goal) {
    case FitGoal::kTokens:
      return "tokens";
    case FitGoal::kPadding:
      return "padding";
    case FitGoal::kGraphs:
      return "graphs";
  }
  return "";
}

std::string Tokens(const FitOptions& options, int64_t bytes) {
  if (options.kv_bytes_per_token == 0) return "-";
  return Grouped(std::max<int64_t>(bytes, 0) / options.kv_bytes_per_token);
}

// "1.50 GiB", "-12.00 MiB".
std::string SignedBytes(int64_t bytes) {
  return bytes < 0 ? "-" + FormatBytes(-bytes) : FormatBytes(bytes);
}

int64_t TakenBytes(const FitPoint& point) {
  return point.memory.pool_bytes() + point.memory.exec_bytes() + point.memory.staging_bytes();
}

// Of each bucket its plan, as the first lane has it.
std::map<int64_t, int64_t> HeightsOf(const FitPoint& point,
                                     const ProgramTraffic& traffic,
                                     const std::string& program) {
  std::map<int64_t, int64_t> heights;
  for (const NodeInfo& node : point.memory.nodes)
    if (node.lane == 0 && node.program == program)
      heights[node.bucket[static_cast<size_t>(traffic.symbol)]] = node.plan_height;
  return heights;
}

std::string ProgramOf(const ProgramTraffic& traffic) {
  return traffic.name.substr(0, traffic.name.rfind('.'));
}

// What the calls of one program become.
void PrintBuckets(const FitReport& report, const FitPoint& point, std::FILE* out) {
  for (size_t i = 0; i < report.programs.size(); ++i) {
    const ProgramTraffic& traffic = report.programs[i];
    const PolicyScore score = ScoreBuckets(traffic.sizes, point.choice.policies[i]);
    Print(out, "{}: {}, {:.1f} % padding\n", traffic.name,
          Counted(std::ssize(point.choice.buckets[i]), "bucket"), score.waste_pct);
    const std::map<int64_t, int64_t> heights = HeightsOf(point, traffic, ProgramOf(traffic));
    TextTable table("rrr", {"bucket", "calls", "plan"});
    for (const BucketScore& bucket : score.per_bucket) {
      const auto height = heights.find(bucket.bucket);
      table.Add({Grouped(bucket.bucket),
                 fmt::format("{:.1f} %", 100 * bucket.calls / point.choice.calls),
                 height == heights.end() ? "" : FormatBytes(height->second)});
    }
    Print(out, "{}", table.Format());
  }
}

void PrintChosen(const FitOptions& options,
                 const FitReport& report,
                 const FitPoint& point,
                 std::FILE* out) {
  const RecordedMemory& memory = point.memory;
  TextTable table("lrl", {});
  table.Add(
      {"pool", FormatBytes(memory.pool_bytes()),
       memory.eager_bytes() > 0
           ? fmt::format(
                 "one per lane, shared by all its graphs; {} for calls above the largest bucket",
                 FormatBytes(memory.eager_bytes()))
           : "one per lane, shared by all its graphs"});
  table.Add({"executables", FormatBytes(memory.exec_bytes()),
             fmt::format("{}; an estimate, because no driver reports their size",
                         Counted(memory.graphs(), "graph"))});
  table.Add({"staging", FormatBytes(memory.staging_bytes()),
             report.has_calls ? "not counting memory of the functions of `call` steps" : ""});
  table.Add({"constants", FormatBytes(memory.constants_bytes() + report.given_constants_bytes),
             report.given_constants_bytes > 0
                 ? fmt::format("{} of them held by the application",
                               FormatBytes(report.given_constants_bytes))
                 : ""});
  if (options.weights_bytes > 0)
    table.Add({"other weights", FormatBytes(options.weights_bytes), "as --weights says"});
  table.Add({"left", SignedBytes(point.left_bytes),
             options.kv_bytes_per_token > 0
                 ? fmt::format("{} tokens of the cache", Tokens(options, point.left_bytes))
                 : "for the cache; give --kv-bytes-per-token to see it in tokens"});
  Print(out, "{}", table.Format());
  if (report.static_bytes > 0)
    Print(out,
          "  Static inputs that the application keeps, such as the cache, are not counted. In this "
          "package they take {}.\n",
          FormatBytes(report.static_bytes));
}

void PrintFrontier(const FitOptions& options, const FitReport& report, std::FILE* out) {
  TextTable table("llrrrrrrrr", {"", "choice", "graphs", "pool", "executables", "staging", "left",
                                 "tokens", "padding", "replays"});
  for (size_t i = 0; i < report.points.size(); ++i) {
    const FitPoint& point = report.points[i];
    table.Add({report.best == i ? "*" : "", point.choice.name, Grouped(point.memory.graphs()),
               FormatBytes(point.memory.pool_bytes()), FormatBytes(point.memory.exec_bytes()),
               FormatBytes(point.memory.staging_bytes()), SignedBytes(point.left_bytes),
               Tokens(options, point.left_bytes), fmt::format("{:.1f} %", point.padding_pct),
               fmt::format("{:.1f} %", point.choice.replay_pct())});
  }
  Print(out, "{}", table.Format());
}

Json FiguresOf(const FitOptions& options, const FitReport& report, const FitPoint& point) {
  Json buckets = Json::object();
  Json heights = Json::object();
  for (size_t i = 0; i < report.programs.size(); ++i) {
    const ProgramTraffic& traffic = report.programs[i];
    buckets[traffic.name] = point.choice.buckets[i];
    Json plans = Json::array();
    for (const auto& [bucket, height] : HeightsOf(point, traffic, ProgramOf(traffic)))
      plans.push_back(height);
    heights[traffic.name] = std::move(plans);
  }
  const int64_t left = std::max<int64_t>(point.left_bytes, 0);
  return {{"name", point.choice.name},
          {"buckets", buckets},
          {"plan_heights", heights},
          {"pool_bytes", point.memory.pool_bytes()},
          {"exec_bytes", point.memory.exec_bytes()},
          {"staging_bytes", point.memory.staging_bytes()},
          {"constants_bytes", point.memory.constants_bytes() + report.given_constants_bytes},
          {"left_bytes", point.left_bytes},
          {"kv_tokens", options.kv_bytes_per_token > 0 ? Json(left / options.kv_bytes_per_token)
                                                       : Json(nullptr)},
          {"padding_pct", point.padding_pct},
          {"replay_pct", point.choice.replay_pct()},
          {"recordings", point.memory.graphs()},
          {"families", point.memory.families}};
}

// "1 call", "3,000 calls", "1e+300 calls".
std::string Calls(double calls) {
  return calls < 1e15 && calls == std::floor(calls) ? Counted(std::llround(calls), "call")
                                                    : fmt::format("{:.6g} calls", calls);
}

void PrintTraffic(const ProgramTraffic& traffic, std::FILE* out) {
  Print(out, "  {} from {}{}: {} of sizes {} to {}, buckets up to {}\n", traffic.name,
        traffic.column, traffic.simulated ? " of simulated steps" : "", Calls(traffic.sizes.mass()),
        Grouped(traffic.sizes.counts().front().size), Grouped(traffic.sizes.largest()),
        Grouped(traffic.limit));
  if (traffic.refused > 0)
    Print(out, "    the package does not allow the sizes of another {}; a session refuses them\n",
          Calls(traffic.refused));
}

void PrintVerdict(const FitOptions& options, const FitReport& report, std::FILE* out) {
  if (!report.best) {
    Print(out, "does not fit: {}\n", report.why_none);
    return;
  }
  const FitPoint& best = report.points[*report.best];
  Print(out, "fits: {} left{}, {}, {:.1f} % padding\n", SignedBytes(best.left_bytes),
        options.kv_bytes_per_token > 0
            ? fmt::format(" for {} tokens", Tokens(options, best.left_bytes))
            : "",
        Counted(best.memory.graphs(), "graph"), best.padding_pct);
}

}  // namespace

void PrintFit(const FitOptions& options, const FitReport& report, std::FILE* out) {
  Print(out, "{} on {}, {}\n", options.package, FormatBytes(options.memory_bytes),
        Counted(options.lanes, "lane"));
  for (const ProgramTraffic& traffic : report.programs)
    PrintTraffic(traffic, out);
  if (!report.fixed.empty())
    Print(out, "  {} (change this with --at)\n", fmt::join(report.fixed, ", "));
  if (!report.others.empty())
    Print(out, "  no traffic, so not counted: {}\n", fmt::join(report.others, ", "));
  PrintVerdict(options, report, out);
  Print(out, "\n");
  PrintFrontier(options, report, out);
  for (const std::string& unfit : report.unfit)
    Print(out, "  does not fit the package: {}\n", unfit);
  if (!report.best) {
    if (!options.write.empty()) Print(out, "Nothing was written to {}.\n", options.write);
    return;
  }
  const FitPoint& best = report.points[*report.best];
  Print(out, "\n{}, the best for {}\n", best.choice.name, NameOf(options.goal));
  PrintChosen(options, report, best, out);
  PrintBuckets(report, best, out);
  if (!options.write.empty()) Print(out, "Policies and profile.json are in {}.\n", options.write);
}

void PrintFitJson(const FitOptions& options, const FitReport& report, std::FILE* out) {
  Json json = {{"section", "fit"},
               {"package", options.package},
               {"memory_bytes", options.memory_bytes},
               {"weights_bytes", options.weights_bytes},
               {"lanes", options.lanes},
               {"goal", NameOf(options.goal)},
               {"estimated", {"exec_bytes"}},
               {"fixed", report.fixed},
               {"not_counted", report.others},
               {"unfit", report.unfit},
               {"static_bytes", report.static_bytes},
               {"fits", report.best.has_value()}};
  if (!report.best) json["why"] = report.why_none;
  if (report.best) json.update(FiguresOf(options, report, report.points[*report.best]));
  Json frontier = Json::array();
  for (const FitPoint& point : report.points)
    frontier.push_back(FiguresOf(options, report, point));
  json["frontier"] = std::move(frontier);
  Print(out, "{}\n", json.dump(2));
}

std::string DrawFit(const FitReport& report) {
  double bytes_max = 1;
  double padding_max = 1;
  for (const FitPoint& point : report.points) {
    bytes_max = std::max(bytes_max, static_cast<double>(TakenBytes(point)));
    padding_max = std::max(padding_max, point.padding_pct);
  }
  Svg svg(kWidth, kHeight, "Padding against memory of graphs, pool and staging");
  for (int i = 0; i <= kTicks; ++i) {
    const double share = static_cast<double>(i) / kTicks;
    const double x = kLeft + (kRight - kLeft) * share;
    const double y = kBottom - (kBottom - kTop) * share;
    svg.Line(x, kTop, x, kBottom, "stroke:#ddd;stroke-width:0.5");
    svg.Line(kLeft, y, kRight, y, "stroke:#ddd;stroke-width:0.5");
    svg.Text(x, kBottom + 18, FormatBytes(std::llround(bytes_max * share)), "middle");
    svg.Text(kLeft - 6, y + 4, fmt::format("{:.0f} %", padding_max * share), "end");
  }
  svg.Text((kLeft + kRight) / 2, kBottom + 44, "graphs, pool and staging", "middle");
  svg.Text(kLeft - 6, kTop - 18, "padding", "end");
  for (size_t i = 0; i < report.points.size(); ++i) {
    const FitPoint& point = report.points[i];
    const double x = kLeft + (kRight - kLeft) * static_cast<double>(TakenBytes(point)) / bytes_max;
    const double y = kBottom - (kBottom - kTop) * point.padding_pct / padding_max;
    const bool learned = point.choice.name.starts_with("learned");
    svg.Rectangle(x - kMark / 2, y - kMark / 2, kMark, kMark,
                  report.best == i ? "fill:#e15759"
                  : learned        ? "fill:#4e79a7"
                                   : "fill:#f28e2b",
                  fmt::format("{}: {}, {}, {:.1f} % padding", point.choice.name,
                              Counted(point.memory.graphs(), "graph"),
                              FormatBytes(TakenBytes(point)), point.padding_pct));
    if (!learned || report.best == i) svg.Text(x + kMark, y + 4, point.choice.name);
  }
  return svg.Finish();
}

}  // namespace coppice
