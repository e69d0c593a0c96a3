// The driver: one table of CUDA entry points, filled by libcuda or by the emulator.
//
// coppice uses a device only through this table, and never links libcuda or libcudart. A Driver is
// the table plus the translation of CuResult into absl::Status:
//
//   COPPICE_RETURN_IF_ERROR(driver.Call<&DriverTable::MemUnmap>(address, bytes));
//
// Code that needs the result itself (such as kNotReady) calls `driver.table().EventQuery(event)`.
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

// Index in table order of the entry at `offset_bytes` in a DriverTable.
int DriverEntryIndex(size_t offset_bytes);

// Where the entries of a table come from: libcuda, or an emulator, which runs kernels on the host.
enum class DriverKind : uint8_t { kCuda, kEmulator };

class Driver {
 public:
  // Wraps a complete table. Requires: no null member (checked).
  Driver(const DriverTable& table, DriverKind kind);

  // Loads libcuda from `library` and resolves every entry at its own version.
  //
  // Errors: kUnavailable    the library is absent or is the Toolkit's stub, or it reports no
  //                         device;
  //         kUnimplemented  required entries are missing; the message lists them and the driver's
  //                         version.
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

  // The same translation for a result that the caller already has. `entry` is the CUDA name.
  // kInvalidValue, kInvalidHandle, kInvalidImage, kInvalidPtx, kCooperativeLaunchTooLarge and
  // kInvalidClusterSize become kInvalidArgument; kOutOfMemory becomes kResourceExhausted; kNotFound
  // stays kNotFound; kNotPermitted becomes kFailedPrecondition; 900 to 907 and 401 become kAborted;
  // kNoDevice becomes kUnavailable; kNotSupported, kNoBinaryForGpu and kUnsupportedPtxVersion
  // become kUnimplemented; everything else becomes kInternal.
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

// The failed driver call that a status of Driver::Call carries.
struct DriverFailure {
  std::string entry;  // CUDA's name: "cuMemMap".
  CuResult result = CuResult::kUnknown;
};

// The failure that a status carries. nullopt if the status is not from Driver::Call, and
// WithFailureOf added none.
std::optional<DriverFailure> DriverFailureOf(const absl::Status& status);
std::optional<CuResult> CuResultOf(const absl::Status& status);

// `status` with the driver failure that `cause` carries. Use it for a status that says more than
// its cause.
absl::Status WithFailureOf(const absl::Status& cause, absl::Status status);

// CUDA's name of a result ("CUDA_ERROR_ILLEGAL_ADDRESS"), or "CUDA_ERROR_<number>" if unknown.
std::string NameOf(CuResult result);

// True for results after which a process can do no further CUDA work, such as 700 and 719.
bool IsSticky(CuResult result);

}  // namespace coppice
