// Asks the driver about itself.

#include "tools/coppice/info.h"

#include <memory>

#include "fmt/format.h"
#include "nlohmann/json.hpp"

#include "coppice/base/status.h"
#include "coppice/base/units.h"

#include "tools/support/console.h"

namespace coppice {
namespace {

#ifdef COPPICE_HAVE_DEVICE_CODE
constexpr bool kHaveDeviceCode = true;
#else
constexpr bool kHaveDeviceCode = false;
#endif
#ifdef COPPICE_HAVE_NVTX
constexpr bool kHaveNvtx = true;
#else
constexpr bool kHaveNvtx = false;
#endif

struct Facts {
  int driver_version = 0;  // 1000 x major + 10 x minor.
  int64_t memory_bytes = 0;
  int64_t granularity_bytes = 0;
};

absl::StatusOr<Facts> Ask(const Device& device) {
  const Driver& driver = device.driver();
  Facts facts;
  COPPICE_RETURN_IF_ERROR(driver.Call<&DriverTable::DriverGetVersion>(&facts.driver_version));
  COPPICE_ASSIGN_OR_RETURN(facts.memory_bytes, device.context().TotalMemory());
  CuMemAllocationProperties properties;
  properties.type = CuMemAllocationType::kPinned;
  properties.location = {.type = CuMemLocationType::kDevice, .id = device.context().device()};
  size_t granularity = 0;
  COPPICE_RETURN_IF_ERROR(driver.Call<&DriverTable::MemGetAllocationGranularity>(
      &granularity, &properties, CuMemGranularity::kMinimum));
  facts.granularity_bytes = static_cast<int64_t>(granularity);
  return facts;
}

void PrintJson(const Device& device, const Facts& facts, std::FILE* out) {
  const nlohmann::ordered_json json = {{"version", COPPICE_VERSION},
                                       {"driver", device.is_cuda() ? "cuda" : "emulator"},
                                       {"driver_version", facts.driver_version},
                                       {"device", device.Name()},
                                       {"memory_bytes", facts.memory_bytes},
                                       {"granularity_bytes", facts.granularity_bytes},
                                       {"driver_entries", kDriverEntryCount},
                                       {"cuda_absence", device.cuda_absence()},
                                       {"device_code", kHaveDeviceCode},
                                       {"nvtx", kHaveNvtx}};
  Print(out, "{}\n", json.dump(2));
}

void PrintTable(const Device& device, const Facts& facts, std::FILE* out) {
  const auto row = [&](const char* label, const std::string& value) {
    Print(out, "  {:<22}{}\n", label, value);
  };
  Print(out, "coppice {}\n", COPPICE_VERSION);
  row("driver", fmt::format("{}, CUDA {}.{}, {} entries", device.is_cuda() ? "cuda" : "emulator",
                            facts.driver_version / 1000, facts.driver_version % 1000 / 10,
                            kDriverEntryCount));
  row("device", device.Name());
  row("memory", fmt::format("{} MiB", facts.memory_bytes / kMiB));
  row("mapping granularity", fmt::format("{} KiB", facts.granularity_bytes / kKiB));
  if (!device.cuda_absence().empty()) row("why not CUDA", device.cuda_absence());
  row("device code", kHaveDeviceCode ? "built with nvcc" : "absent: built without nvcc");
  row("NVTX", kHaveNvtx ? "ranges in the domain coppice" : "absent: built without nvtx3");
}

}  // namespace

ExitCode InfoCommand(const InfoOptions& options, const Console& console) {
  const absl::StatusOr<std::unique_ptr<Device>> device =
      Device::Open({.choice = options.device, .seed = 1, .ledger = {}});
  const absl::StatusOr<Facts> facts =
      device.ok() ? Ask(**device) : absl::StatusOr<Facts>(device.status());
  if (!facts.ok()) {
    Print(console.err, "coppice info: {}\n", MessageOf(facts.status()));
    return kExitDevice;
  }
  (options.json ? PrintJson : PrintTable)(**device, *facts, console.out);
  return kExitOk;
}

}  // namespace coppice
