// Reads everything, plans everything, writes everything, reports.

#include "tools/plan/plan_command.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <system_error>
#include <utility>

#include "fmt/format.h"
#include "nlohmann/json.hpp"

#include "coppice/allocator/planner.h"
#include "coppice/base/status.h"

#include "tools/plan/lifetime_csv.h"
#include "tools/plan/plan_picture.h"
#include "tools/support/byte_text.h"
#include "tools/support/progress.h"
#include "tools/support/text_file.h"

namespace coppice {
namespace {

using Json = nlohmann::ordered_json;

struct PlannedFile {
  std::string path;
  LifetimeTable table;
  std::string output;  // Where the offsets and the picture go; empty: nowhere.
  std::string svg;
  PlannerResult result;
  double ms = 0;
};

bool Within(const PlannedFile& file, const std::optional<int64_t>& capacity) {
  return !capacity || file.result.plan.height <= *capacity;
}

// Where what belongs to `input` goes, given the option's `target`. Requires: some of them set.
std::string TargetOf(const std::string& target, const std::string& input, const char* extension) {
  const std::filesystem::path name = std::filesystem::path(input).stem().string() + extension;
  return (std::filesystem::path(target) / name).string();
}

absl::StatusOr<std::vector<PlannedFile>> ReadFiles(const PlanCommandOptions& options) {
  std::vector<PlannedFile> files;
  for (const std::string& path : options.files) {
    PlannedFile file = {.path = path, .output = options.output, .svg = options.svg};
    COPPICE_ASSIGN_OR_RETURN(file.table, ReadLifetimes(path));
    if (options.files.size() > 1) {
      if (!options.output.empty()) file.output = TargetOf(options.output, path, ".csv");
      if (!options.svg.empty()) file.svg = TargetOf(options.svg, path, ".svg");
    }
    files.push_back(std::move(file));
  }
  return files;
}

absl::Status CheckTargets(const std::vector<PlannedFile>& files) {
  std::vector<std::string> inputs;
  std::vector<std::string> outputs;
  for (const PlannedFile& file : files) {
    inputs.push_back(file.path);
    outputs.push_back(file.output);
    outputs.push_back(file.svg);
  }
  return CheckOutputs(inputs, outputs);
}

bool ShareStep(const Buffer& a, const Buffer& b) {
  for (const Interval& one : a.lifetime) {
    for (const Interval& other : b.lifetime)
      if (one.lower < other.upper && other.lower < one.upper) return true;
  }
  return false;
}

// What the planner refuses in a table that is well formed: two fixed buffers that overlap.
absl::Status ExplainRefusal(const PlannedFile& file, const absl::Status& status) {
  const std::vector<Buffer>& buffers = file.table.buffers;
  for (size_t i = 0; i < buffers.size(); ++i) {
    if (!buffers[i].fixed_offset) continue;
    for (size_t j = 0; j < i; ++j) {
      if (!buffers[j].fixed_offset) continue;
      const int64_t a = *buffers[j].fixed_offset;
      const int64_t b = *buffers[i].fixed_offset;
      if (a < b + buffers[i].bytes && b < a + buffers[j].bytes && ShareStep(buffers[i], buffers[j]))
        return InvalidArgument(
            "{}:{}: the fixed buffer overlaps the fixed buffer of line {}; move one of them",
            file.path, file.table.lines[i], file.table.lines[j]);
    }
  }
  return InvalidArgument("{}: {}", file.path, MessageOf(status));
}

absl::Status PlanFile(const PlanCommandOptions& options, PlannedFile& file) {
  const auto start = std::chrono::steady_clock::now();
  absl::StatusOr<PlannerResult> result =
      PlanBuffers(file.table.buffers, {.height_target = options.capacity.value_or(0),
                                       .search_tries_max = options.tries,
                                       .time_limit_ns = options.time_limit_ns,
                                       .seed = options.seed});
  const auto end = std::chrono::steady_clock::now();
  if (!result.ok()) return ExplainRefusal(file, result.status());
  file.result = *std::move(result);
  file.ms = std::chrono::duration<double, std::milli>(end - start).count();
  return absl::OkStatus();
}

absl::Status WriteTargets(const PlanCommandOptions& options,
                          const std::vector<PlannedFile>& files) {
  for (const std::string& folder : {options.output, options.svg}) {
    if (files.size() == 1 || folder.empty()) continue;
    COPPICE_RETURN_IF_ERROR(MakeFolder(folder));
  }
  for (const PlannedFile& file : files) {
    if (!file.output.empty())
      COPPICE_RETURN_IF_ERROR(
          WriteTextFile(file.output, FormatOffsets(file.table, file.result.plan)));
    if (file.svg.empty()) continue;
    const std::string name = std::filesystem::path(file.path).filename().string();
    COPPICE_RETURN_IF_ERROR(WriteTextFile(
        file.svg,
        DrawPlan(file.table, file.result.plan,
                 {.name = name, .bound = file.result.bound, .capacity = options.capacity})));
  }
  return absl::OkStatus();
}

struct Arena {
  int64_t height = 0;
  int64_t bound = 0;
  double ms = 0;
};

Arena ArenaOf(const std::vector<PlannedFile>& files) {
  Arena arena;
  for (const PlannedFile& file : files) {
    arena.height = std::max(arena.height, file.result.plan.height);
    arena.bound = std::max(arena.bound, file.result.bound);
    arena.ms += file.ms;
  }
  return arena;
}

double Ratio(int64_t height, int64_t bound) {
  return static_cast<double>(height) / static_cast<double>(bound);
}

Json JsonOf(const std::vector<PlannedFile>& files, const std::optional<int64_t>& capacity) {
  const Arena arena = ArenaOf(files);
  Json rows = Json::array();
  for (const PlannedFile& file : files) {
    rows.push_back({{"file", file.path},
                    {"buffers", file.table.buffers.size()},
                    {"height_bytes", file.result.plan.height},
                    {"bound_bytes", file.result.bound},
                    {"gap", file.result.gap()},
                    {"method", file.result.method},
                    {"ms", file.ms},
                    {"solved", Within(file, capacity)}});
  }
  return {{"files", rows},
          {"arena",
           {{"height_bytes", arena.height},
            {"bound_bytes", arena.bound},
            {"gap", Ratio(arena.height, arena.bound)},
            {"ms", arena.ms}}},
          {"capacity_bytes", capacity ? Json(*capacity) : Json()},
          {"solved", !capacity || arena.height <= *capacity}};
}

void PrintTable(const std::vector<PlannedFile>& files, std::FILE* out) {
  size_t width = 5;
  for (const PlannedFile& file : files)
    width = std::max(width, file.path.size());
  const auto row = [&](const std::string& name, const std::string& buffers,
                       const std::string& height, const std::string& bound, const std::string& gap,
                       const std::string& ms, const std::string& method) {
    Print(out, "{:<{}}{:>9}{:>15}{:>15}{:>10}{:>13}{}\n", name, width, buffers, height, bound, gap,
          ms, method.empty() ? "" : "  " + method);
  };
  row("file", "buffers", "height", "bound", "/ bound", "time", "method");
  const auto bytes = [](int64_t value) { return fmt::format("{}", value); };
  const auto ratio = [](int64_t height, int64_t bound) {
    return fmt::format("{:.4f}", Ratio(height, bound));
  };
  for (const PlannedFile& file : files) {
    row(file.path, bytes(static_cast<int64_t>(file.table.buffers.size())),
        bytes(file.result.plan.height), bytes(file.result.bound),
        ratio(file.result.plan.height, file.result.bound), fmt::format("{:.1f} ms", file.ms),
        file.result.method);
  }
  if (files.size() == 1) return;
  const Arena arena = ArenaOf(files);
  row("arena", "", bytes(arena.height), bytes(arena.bound), ratio(arena.height, arena.bound),
      fmt::format("{:.1f} ms", arena.ms), "");
}

ExitCode Fail(const Console& console, const absl::Status& status, ExitCode code) {
  Print(console.err, "coppice plan: {}\n", MessageOf(status));
  return code;
}

}  // namespace

ExitCode PlanCommand(const PlanCommandOptions& options, const Console& console) {
  absl::StatusOr<std::vector<PlannedFile>> files = ReadFiles(options);
  if (!files.ok()) return Fail(console, files.status(), kExitUsage);
  if (const absl::Status status = CheckTargets(*files); !status.ok())
    return Fail(console, status, kExitUsage);
  {
    Progress progress(console.err, /*enabled=*/true, "plan");
    for (size_t i = 0; i < files->size(); ++i) {
      progress.Update(static_cast<int64_t>(i), static_cast<int64_t>(files->size()));
      if (const absl::Status status = PlanFile(options, (*files)[i]); !status.ok())
        return Fail(console, status, kExitUsage);
    }
  }
  for (const PlannedFile& file : *files) {
    if (file.table.partial_gaps == 0) continue;
    Print(console.err,
          "coppice plan: {}: gaps that keep some bytes in use are ignored; this file has {}\n",
          file.path, file.table.partial_gaps);
  }
  const Arena arena = ArenaOf(*files);
  const bool solved = !options.capacity || arena.height <= *options.capacity;
  if (options.json) {
    Print(console.out, "{}\n",
          JsonOf(*files, options.capacity).dump(2, ' ', false, Json::error_handler_t::replace));
  } else {
    PrintTable(*files, console.out);
    if (!solved)
      Print(console.out,
            "the plan does not fit into the capacity of {} bytes: the best height is {} bytes\n",
            *options.capacity, arena.height);
  }
  if (const absl::Status status = WriteTargets(options, *files); !status.ok())
    return Fail(console, status, kExitOutput);
  return solved ? kExitOk : kExitMismatch;
}

}  // namespace coppice
