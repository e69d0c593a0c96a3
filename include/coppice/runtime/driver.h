// The driver: one table of CUDA entry points, filled by libcuda or by whoever stands for it.
//
// Nothing in coppice reaches a device by any other way, and nothing links libcuda or libcudart.
// A Driver is the table plus the translation of CuResult into absl::Status:
//
//   COPPICE_RETURN_IF_ERROR(driver.Call<&DriverTable::MemUnmap>(address, bytes));
//
// Code that must tell results apart (kNotReady, for one) calls `driver.table().EventQuery(event)`.
//
// Threads: immutable once made; the entries themselves are as thread-safe as CUDA's.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "coppice/runtime/cuda_abi.h"

namespace coppice {

// The entries of driver_entries.inc as function pointers. A complete table has no null member: an
// optional entry that the driver lacks returns kNotSupported.
struct DriverTable {
#define X(member, version, parameters) CuResult(*member) parameters = nullptr;
#include "coppice/runtime/driver_entries.inc"
#undef X
};

// One entry's CUDA name ("cuMemMap") and pinned ABI version, in table order.
struct DriverEntry {
  const char* symbol;
  int version;
};

#define X(member, version, parameters) +1
inline constexpr int kDriverEntryCount = 0
#include "coppice/runtime/driver_entries.inc"
    ;
#undef X

// The entry at `index` of the table. Requires: 0 <= index < kDriverEntryCount (checked).
const DriverEntry& DriverEntryAt(int index);

// Index of the entry with this CUDA name, or nullopt.
std::optional<int> FindDriverEntry(std::string_view symbol);

// Index in table order of the entry that `offset_bytes` into a DriverTable names.
int DriverEntryIndex(size_t offset_bytes);

// Whose entries a table has: libcuda's, or those of an emulator, which runs host kernels.
enum class DriverKind : uint8_t { kCuda, kEmulator };

class Driver {
 public:
  // Wraps a complete table. Requires: no null member (checked).
  Driver(const DriverTable& table, DriverKind kind);

  // Loads libcuda from `library` and resolves every entry at its own version.
  //
  // Errors: kUnavailable    the library is absent or is the Toolkit's stub, or it reports no
  // device;
  //         kUnimplemented  required entries are missing; the message lists them and the driver's
  //         version.
  // The library stays loaded for the life of the process.
  static absl::StatusOr<Driver> LoadCuda(const char* library = "libcuda.so.1");

  const DriverTable& table() const { return table_; }
  DriverKind kind() const { return kind_; }

  // Calls one entry and turns its result into a status that names the entry. Cost: the call; a
  // failure allocates.
  template <auto Entry, typename... Args>
  absl::Status Call(Args... args) const {
    const CuResult result = (table_.*Entry)(args...);
    if (result == CuResult::kSuccess) [[likely]]
      return absl::OkStatus();
    return ErrorOf(result, OffsetOf(&(table_.*Entry)));
  }

  // The same translation for a result that the caller has looked at. `entry` is the CUDA name.
  // kInvalidValue, kInvalidHandle, kInvalidImage, kInvalidPtx, kCooperativeLaunchTooLarge and
  // kInvalidClusterSize become kInvalidArgument; kOutOfMemory kResourceExhausted; kNotFound
  // kNotFound; kNotPermitted kFailedPrecondition; 900 to 907 and 401 kAborted; kNoDevice
  // kUnavailable; kNotSupported, kNoBinaryForGpu and kUnsupportedPtxVersion kUnimplemented;
  // everything else kInternal.
  absl::Status ErrorOf(CuResult result, const char* entry) const;

 private:
  size_t OffsetOf(const void* member) const {
    return static_cast<size_t>(static_cast<const char*>(member) -
                               reinterpret_cast<const char*>(&table_));
  }
  absl::Status ErrorOf(CuResult result, size_t entry_offset) const;

  DriverTable table_;
  DriverKind kind_;
};

// What a status of Driver::Call carries.
struct DriverFailure {
  std::string entry;  // CUDA's name: "cuMemMap".
  CuResult result = CuResult::kUnknown;
};

// What the status carries, or nullopt if it is no status of Driver::Call and was given nothing.
std::optional<DriverFailure> DriverFailureOf(const absl::Status& status);
std::optional<CuResult> CuResultOf(const absl::Status& status);

// `status`, which says more than `cause`, carrying what `cause` carries.
absl::Status WithFailureOf(const absl::Status& cause, absl::Status status);

// CUDA's name of a result ("CUDA_ERROR_ILLEGAL_ADDRESS"), or "CUDA_ERROR_<number>" if unknown.
std::string NameOf(CuResult result);

// True for the results after which a process can do no further CUDA work (700, 719 and their kin).
bool IsSticky(CuResult result);

}  // namespace coppice
