// Reads, plans, and compares.

#include "tools/prof/import/import_command.h"

#include <array>
#include <filesystem>
#include <iterator>
#include <system_error>
#include <utility>
#include <vector>

#include "fmt/compile.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"

#include "coppice/allocator/planner.h"
#include "coppice/base/status.h"

#include "tools/prof/import/foreign_lifetimes.h"
#include "tools/prof/prof.h"
#include "tools/support/byte_text.h"
#include "tools/support/text_file.h"
#include "tools/support/text_table.h"

namespace coppice {
namespace {

// Of each device; of few files the plan depends on it.
constexpr int64_t kPlanningNsMax = 30'000'000'000;

struct PlannedDevice {
  ForeignLifetimes lifetimes;
  PlannerResult result;
};

absl::StatusOr<std::string> ReadForeignFile(const std::string& path) {
  std::error_code code;
  const auto bytes = static_cast<int64_t>(std::filesystem::file_size(path, code));
  if (!code && bytes > kForeignFileBytesMax)
    return InvalidArgument("{}: the file has {} bytes, and {} are read at most; record less", path,
                           bytes, kForeignFileBytesMax);
  return ReadTextFile(path, "what another allocator wrote");
}

absl::StatusOr<std::vector<ForeignLifetimes>> ReadForeign(const ProfImportOptions& options) {
  COPPICE_ASSIGN_OR_RETURN(const std::string bytes, ReadForeignFile(options.file));
  if (*options.format == ImportFormat::kMemoryViz)
    return ReadSnapshotLifetimes(bytes, options.file);
  COPPICE_ASSIGN_OR_RETURN(ForeignLifetimes lifetimes, ReadRmmLifetimes(bytes, options.file));
  std::vector<ForeignLifetimes> devices;
  devices.push_back(std::move(lifetimes));
  return devices;
}

absl::StatusOr<std::vector<PlannedDevice>> PlanForeign(const ProfImportOptions& options) {
  COPPICE_ASSIGN_OR_RETURN(std::vector<ForeignLifetimes> devices, ReadForeign(options));
  std::vector<PlannedDevice> planned;
  for (ForeignLifetimes& lifetimes : devices) {
    if (const int64_t pairs = CountPairs(lifetimes.buffers); pairs > kForeignPairsMax)
      return InvalidArgument(
          "{}: device {}: {} allocations are {} pairs that are there at the same time, and {} are "
          "planned at most; record less",
          options.file, lifetimes.device, lifetimes.buffers.size(), pairs, kForeignPairsMax);
    const absl::StatusOr<PlannerResult> result =
        PlanBuffers(lifetimes.buffers, {.time_limit_ns = kPlanningNsMax});
    if (!result.ok())
      return InvalidArgument("{}: device {}: {}; give sizes that a device has", options.file,
                             lifetimes.device, MessageOf(result.status()));
    planned.push_back({std::move(lifetimes), *result});
  }
  return planned;
}

nlohmann::ordered_json DeviceJson(const PlannedDevice& device) {
  const ForeignLifetimes& lifetimes = device.lifetimes;
  nlohmann::ordered_json row = {{"device", lifetimes.device},
                                {"events", lifetimes.steps},
                                {"allocations", lifetimes.buffers.size()},
                                {"live_before_the_events", lifetimes.live_before},
                                {"live_after_the_events", lifetimes.live_after},
                                {"requests_refused", lifetimes.refused},
                                {"allocations_of_no_bytes", lifetimes.empty},
                                {"reserved_peak_bytes", nullptr},
                                {"allocated_peak_bytes", device.result.bound},
                                {"bound_bytes", device.result.bound},
                                {"height_bytes", device.result.plan.height},
                                {"gap", device.result.gap()},
                                {"method", device.result.method}};
  if (lifetimes.reserved_peak >= 0) row["reserved_peak_bytes"] = lifetimes.reserved_peak;
  return row;
}

std::string ImportTable(const std::vector<PlannedDevice>& devices) {
  TextTable table("rrrrrrrl", {"device", "events", "allocations", "reserved", "allocated", "plan",
                               "/ bound", "method"});
  std::string notes;
  for (const PlannedDevice& device : devices) {
    const ForeignLifetimes& lifetimes = device.lifetimes;
    table.Add({fmt::format("{}", lifetimes.device), fmt::format("{}", lifetimes.steps),
               fmt::format("{}", lifetimes.buffers.size()),
               lifetimes.reserved_peak < 0 ? "?" : FormatBytes(lifetimes.reserved_peak),
               FormatBytes(device.result.bound), FormatBytes(device.result.plan.height),
               fmt::format("{:.4f}", device.result.gap()), device.result.method});
    if (lifetimes.live_before > 0)
      notes += fmt::format(
          "note: on device {} {} allocations are older than the first event; they count as there "
          "from the beginning\n",
          lifetimes.device, lifetimes.live_before);
    if (lifetimes.refused > 0)
      notes += fmt::format("note: on device {} {} requests were refused; the plan lacks them\n",
                           lifetimes.device, lifetimes.refused);
  }
  return table.Format() +
         "  reserved and allocated: at most, by the other allocator; allocated is the bound of the "
         "plan\n" +
         notes;
}

// As coppice plan reads them (tools/plan/lifetime_csv.h).
std::string LifetimesCsv(const ForeignLifetimes& lifetimes) {
  std::string text = "id,lower,upper,size,alignment\n";
  for (size_t i = 0; i < lifetimes.buffers.size(); ++i) {
    const Buffer& buffer = lifetimes.buffers[i];
    fmt::format_to(std::back_inserter(text), FMT_COMPILE("{},{},{},{},{}\n"), i,
                   buffer.lifetime[0].lower, buffer.lifetime[0].upper, buffer.bytes,
                   buffer.alignment);
  }
  return text;
}

}  // namespace

const char* NameOf(ImportFormat format) {
  static constexpr std::array kNames = {"memory-viz", "rmm-csv"};
  static_assert(kNames.size() == kImportFormatCount);
  return kNames[static_cast<size_t>(format)];
}

absl::StatusOr<ImportFormat> ParseImportFormat(const std::string& text) {
  for (int i = 0; i < kImportFormatCount; ++i)
    if (text == NameOf(static_cast<ImportFormat>(i))) return static_cast<ImportFormat>(i);
  return InvalidArgument("'{}' is no format; give memory-viz or rmm-csv", text);
}

ExitCode ProfImport(const ProfImportOptions& options, const Console& console) {
  if (!options.format || options.file.empty())
    return FailProf(console, InvalidArgument("import: no file; give FORMAT FILE, as in `coppice "
                                             "prof import memory-viz snapshot.pickle`"));
  if (const absl::Status status = CheckOutputs({&options.file, 1}, {&options.out, 1});
      !status.ok()) {
    return FailProf(console, status);
  }
  const absl::StatusOr<std::vector<PlannedDevice>> devices = PlanForeign(options);
  if (!devices.ok()) return FailProf(console, devices.status());
  if (!options.out.empty()) {
    if (devices->size() != 1)
      return FailProf(console,
                      InvalidArgument("{}: it has {} devices, and lifetimes are written of "
                                      "one; leave out -o",
                                      options.file, devices->size()));
    const absl::Status written =
        WriteTextFile(options.out, LifetimesCsv(devices->front().lifetimes));
    if (!written.ok()) return FailProf(console, written, kExitOutput);
  }
  if (options.json) {
    nlohmann::ordered_json rows = nlohmann::ordered_json::array();
    for (const PlannedDevice& device : *devices)
      rows.push_back(DeviceJson(device));
    Print(console.out, "{}",
          Dump({{"file", options.file}, {"format", NameOf(*options.format)}, {"devices", rows}}));
  } else {
    Print(console.out, "{}", ImportTable(*devices));
  }
  return kExitOk;
}

}  // namespace coppice
