// Loads libcuda at run time.
//
// Every symbol is asked for at its own ABI version, because cuGetProcAddress returns the newest ABI
// up to the version asked for and a newer one may have another signature. The legacy-stream flag is
// always given, so that no build option of an application changes what an entry means. Success with
// a null pointer means that the driver lacks the symbol.

#include <cstddef>
#include <cstdint>
#include <dlfcn.h>
#include <string>

#include "absl/status/statusor.h"

#include "coppice/base/status.h"
#include "coppice/runtime/driver.h"

namespace coppice {
namespace {

using GetProcAddress = CuResult (*)(
    const char* symbol, void** function, int version, uint64_t flags, int* query_result);

constexpr const char* kGetProcAddressName = "cuGetProcAddress_v2";
constexpr int kDriverVersionMin = 12'030;

// "13.0" from 13000; "unknown" if `get_version` is null or fails.
std::string VersionText(CuResult (*get_version)(int*)) {
  int version = 0;
  if (get_version == nullptr || get_version(&version) != CuResult::kSuccess) return "unknown";
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

// Looks entries up and remembers which required ones it could not find.
class EntryResolver {
 public:
  explicit EntryResolver(GetProcAddress get) : get_(get) {}

  template <typename Function>
  void Resolve(const char* symbol, int version, Function*& function) {
    if (Find(symbol, version, function)) return;
    missing_ += fmt::format("{}{} (version {})", missing_.empty() ? "" : ", ", symbol, version);
  }

  template <typename... Args>
  void ResolveOptional(const char* symbol, int version, CuResult (*&function)(Args...)) {
    if (Find(symbol, version, function)) return;
    function = [](Args...) { return CuResult::kNotSupported; };
  }

  bool stub() const { return stub_; }
  const std::string& missing() const { return missing_; }

 private:
  template <typename Function>
  bool Find(const char* symbol, int version, Function*& function) {
    void* address = nullptr;
    int query_result = 0;
    const CuResult result =
        get_(symbol, &address, version, kGetProcAddressLegacyStream, &query_result);
    stub_ |= result == CuResult::kStubLibrary;
    if (result != CuResult::kSuccess || address == nullptr) return false;
    function = reinterpret_cast<Function*>(address);
    return true;
  }

  GetProcAddress get_;
  bool stub_ = false;
  std::string missing_;
};

absl::StatusOr<DriverTable> ResolveTable(GetProcAddress get, const char* library) {
  DriverTable table;
  EntryResolver resolver(get);
#define X(member, version, parameters) resolver.Resolve("cu" #member, version, table.member);
#define OPTIONAL_X(member, version, parameters) \
  resolver.ResolveOptional("cu" #member, version, table.member);
#include "coppice/runtime/driver_entries.inc"
#undef X
  if (resolver.stub()) {
    return MakeError(absl::StatusCode::kUnavailable,
                     "Driver::LoadCuda: {} is the Toolkit's stub, which is only good for linking; "
                     "install the NVIDIA driver or use the emulator",
                     library);
  }
  if (!resolver.missing().empty()) {
    return MakeError(absl::StatusCode::kUnimplemented,
                     "Driver::LoadCuda: the driver (CUDA {}) lacks {}; upgrade it to CUDA 12.3 or "
                     "later",
                     VersionText(table.DriverGetVersion), resolver.missing());
  }
  return table;
}

// An older driver may have every entry, but hands out older ABIs of some, whatever is asked for.
absl::Status CheckVersion(const DriverTable& table) {
  int version = 0;
  if (table.DriverGetVersion(&version) == CuResult::kSuccess && version >= kDriverVersionMin)
    return absl::OkStatus();
  return MakeError(absl::StatusCode::kUnimplemented,
                   "Driver::LoadCuda: the driver is for CUDA {}; upgrade it to CUDA 12.3 or later",
                   VersionText(table.DriverGetVersion));
}

}  // namespace

absl::StatusOr<Driver> Driver::LoadCuda(const char* library) {
  // Never closed: the entries must stay valid for the life of the process.
  void* const handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    return MakeError(absl::StatusCode::kUnavailable,
                     "Driver::LoadCuda: {}; install the NVIDIA driver or use the emulator",
                     dlerror());  // NOLINT(concurrency-mt-unsafe): glibc keeps one per thread.
  }
  const char* const name = library != nullptr ? library : "this program";
  const auto get = reinterpret_cast<GetProcAddress>(dlsym(handle, kGetProcAddressName));
  if (get == nullptr) {
    return MakeError(absl::StatusCode::kUnimplemented,
                     "Driver::LoadCuda: {} lacks {}; use a driver for CUDA 12.3 or later", name,
                     kGetProcAddressName);
  }
  COPPICE_ASSIGN_OR_RETURN(const DriverTable table, ResolveTable(get, name));
  COPPICE_RETURN_IF_ERROR(CheckVersion(table));
  const Driver driver(table, DriverKind::kCuda);
  COPPICE_RETURN_IF_ERROR(driver.Call<&DriverTable::Init>(0U));
  int count = 0;
  COPPICE_RETURN_IF_ERROR(driver.Call<&DriverTable::DeviceGetCount>(&count));
  if (count == 0) {
    return MakeError(absl::StatusCode::kUnavailable,
                     "Driver::LoadCuda: {} reports no device; use the emulator", name);
  }
  return driver;
}

}  // namespace coppice
