// The driver table's names and versions, and the translation of results into statuses.

#include "coppice/runtime/driver.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <optional>
#include <string>

#include "absl/strings/cord.h"

#include "coppice/base/check.h"
#include "coppice/base/status.h"

namespace coppice {
namespace {

#define X(member, version, parameters) {"cu" #member, version},
constexpr DriverEntry kEntries[] = {
#include "coppice/runtime/driver_entries.inc"
};
#undef X

static_assert(sizeof(DriverTable) == kDriverEntryCount * sizeof(CuResult(*)()),
              "a table must hold only its entries, so that an offset determines an index");

// Where a status keeps the number of the CuResult that caused it, and behind a space the entry.
constexpr const char* kFailurePayload = "coppice/driver_failure";

struct ResultName {
  CuResult result;
  const char* name;
};

constexpr ResultName kResultNames[] = {
    {CuResult::kSuccess, "CUDA_SUCCESS"},
    {CuResult::kInvalidValue, "CUDA_ERROR_INVALID_VALUE"},
    {CuResult::kOutOfMemory, "CUDA_ERROR_OUT_OF_MEMORY"},
    {CuResult::kNotInitialized, "CUDA_ERROR_NOT_INITIALIZED"},
    {CuResult::kDeinitialized, "CUDA_ERROR_DEINITIALIZED"},
    {CuResult::kStubLibrary, "CUDA_ERROR_STUB_LIBRARY"},
    {CuResult::kNoDevice, "CUDA_ERROR_NO_DEVICE"},
    {CuResult::kInvalidDevice, "CUDA_ERROR_INVALID_DEVICE"},
    {CuResult::kInvalidImage, "CUDA_ERROR_INVALID_IMAGE"},
    {CuResult::kInvalidContext, "CUDA_ERROR_INVALID_CONTEXT"},
    {CuResult::kNoBinaryForGpu, "CUDA_ERROR_NO_BINARY_FOR_GPU"},
    {CuResult::kInvalidPtx, "CUDA_ERROR_INVALID_PTX"},
    {CuResult::kUnsupportedPtxVersion, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION"},
    {CuResult::kInvalidHandle, "CUDA_ERROR_INVALID_HANDLE"},
    {CuResult::kIllegalState, "CUDA_ERROR_ILLEGAL_STATE"},
    {CuResult::kLossyQuery, "CUDA_ERROR_LOSSY_QUERY"},
    {CuResult::kNotFound, "CUDA_ERROR_NOT_FOUND"},
    {CuResult::kNotReady, "CUDA_ERROR_NOT_READY"},
    {CuResult::kIllegalAddress, "CUDA_ERROR_ILLEGAL_ADDRESS"},
    {CuResult::kLaunchOutOfResources, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"},
    {CuResult::kLaunchTimeout, "CUDA_ERROR_LAUNCH_TIMEOUT"},
    {CuResult::kAssert, "CUDA_ERROR_ASSERT"},
    {CuResult::kIllegalInstruction, "CUDA_ERROR_ILLEGAL_INSTRUCTION"},
    {CuResult::kMisalignedAddress, "CUDA_ERROR_MISALIGNED_ADDRESS"},
    {CuResult::kLaunchFailed, "CUDA_ERROR_LAUNCH_FAILED"},
    {CuResult::kCooperativeLaunchTooLarge, "CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE"},
    {CuResult::kNotPermitted, "CUDA_ERROR_NOT_PERMITTED"},
    {CuResult::kNotSupported, "CUDA_ERROR_NOT_SUPPORTED"},
    {CuResult::kStreamCaptureUnsupported, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"},
    {CuResult::kStreamCaptureInvalidated, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED"},
    {CuResult::kStreamCaptureMerge, "CUDA_ERROR_STREAM_CAPTURE_MERGE"},
    {CuResult::kStreamCaptureUnmatched, "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED"},
    {CuResult::kStreamCaptureUnjoined, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED"},
    {CuResult::kStreamCaptureIsolation, "CUDA_ERROR_STREAM_CAPTURE_ISOLATION"},
    {CuResult::kStreamCaptureImplicit, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT"},
    {CuResult::kCapturedEvent, "CUDA_ERROR_CAPTURED_EVENT"},
    {CuResult::kStreamCaptureWrongThread, "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD"},
    {CuResult::kTimeout, "CUDA_ERROR_TIMEOUT"},
    {CuResult::kGraphExecUpdateFailure, "CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE"},
    {CuResult::kInvalidClusterSize, "CUDA_ERROR_INVALID_CLUSTER_SIZE"},
    {CuResult::kUnknown, "CUDA_ERROR_UNKNOWN"},
};

// CUDA's name of a result that cuda_abi.h declares, or null.
const char* FindName(CuResult result) {
  const auto* const found = std::ranges::find(kResultNames, result, &ResultName::result);
  return found == std::end(kResultNames) ? nullptr : found->name;
}

absl::StatusCode CodeOf(CuResult result) {
  switch (result) {
    case CuResult::kInvalidValue:
    case CuResult::kInvalidHandle:
    case CuResult::kInvalidImage:
    case CuResult::kInvalidPtx:
    case CuResult::kCooperativeLaunchTooLarge:
    case CuResult::kInvalidClusterSize:
      return absl::StatusCode::kInvalidArgument;
    case CuResult::kOutOfMemory:
      return absl::StatusCode::kResourceExhausted;
    case CuResult::kNotFound:
      return absl::StatusCode::kNotFound;
    case CuResult::kNotPermitted:
      return absl::StatusCode::kFailedPrecondition;
    case CuResult::kIllegalState:
    case CuResult::kStreamCaptureUnsupported:
    case CuResult::kStreamCaptureInvalidated:
    case CuResult::kStreamCaptureMerge:
    case CuResult::kStreamCaptureUnmatched:
    case CuResult::kStreamCaptureUnjoined:
    case CuResult::kStreamCaptureIsolation:
    case CuResult::kStreamCaptureImplicit:
    case CuResult::kCapturedEvent:
      return absl::StatusCode::kAborted;
    case CuResult::kNoDevice:
      return absl::StatusCode::kUnavailable;
    case CuResult::kNotSupported:
    case CuResult::kNoBinaryForGpu:
    case CuResult::kUnsupportedPtxVersion:
      return absl::StatusCode::kUnimplemented;
    default:
      return absl::StatusCode::kInternal;
  }
}

}  // namespace

const DriverEntry& DriverEntryAt(int index) {
  COPPICE_CHECK(index >= 0 && index < kDriverEntryCount, "no such driver entry");
  return kEntries[index];
}

std::optional<int> FindDriverEntry(std::string_view symbol) {
  for (int entry = 0; entry < kDriverEntryCount; ++entry)
    if (symbol == DriverEntryAt(entry).symbol) return entry;
  return std::nullopt;
}

int DriverEntryIndex(size_t offset_bytes) {
  COPPICE_CHECK(offset_bytes < sizeof(DriverTable), "the offset lies outside the driver table");
  return static_cast<int>(offset_bytes / sizeof(CuResult(*)()));
}

Driver::Driver(const DriverTable& table, DriverKind kind) : table_(table), kind_(kind) {
#define X(member, version, parameters) \
  COPPICE_CHECK(table_.member != nullptr, "the driver table lacks cu" #member);
#include "coppice/runtime/driver_entries.inc"
#undef X
}

absl::Status Driver::ErrorOf(CuResult result, const char* entry) const {
  const char* name = FindName(result);
  // A driver knows more results than the ones that coppice tells apart.
  if (name == nullptr && table_.GetErrorName(result, &name) != CuResult::kSuccess) name = nullptr;
  const int number = static_cast<int>(result);
  // What happens to those who fork; before cuInit nobody calls anything.
  const char* const remedy =
      result == CuResult::kNotInitialized
          ? "; a forked process cannot use its parent's device: start a new process instead, in "
            "Python with multiprocessing's start method 'spawn'"
          : "";
  absl::Status status = MakeError(CodeOf(result), "{}: {} ({}){}", entry,
                                  name ? name : NameOf(result), number, remedy);
  // No Cord of a std::string: clang names that template otherwise than the GCC that built Abseil.
  const std::string failure = fmt::format("{} {}", number, entry);
  status.SetPayload(kFailurePayload, absl::Cord(failure.c_str()));
  return status;
}

absl::Status Driver::ErrorOf(CuResult result, size_t entry_offset) const {
  return ErrorOf(result, DriverEntryAt(DriverEntryIndex(entry_offset)).symbol);
}

std::optional<DriverFailure> DriverFailureOf(const absl::Status& status) {
  const absl::optional<absl::Cord> payload = status.GetPayload(kFailurePayload);
  if (!payload.has_value()) return std::nullopt;
  const std::string text(*payload);
  return DriverFailure{.entry = text.substr(text.find(' ') + 1),
                       .result = static_cast<CuResult>(std::stoi(text))};
}

std::optional<CuResult> CuResultOf(const absl::Status& status) {
  const std::optional<DriverFailure> failure = DriverFailureOf(status);
  return failure ? std::optional(failure->result) : std::nullopt;
}

absl::Status WithFailureOf(const absl::Status& cause, absl::Status status) {
  if (const absl::optional<absl::Cord> payload = cause.GetPayload(kFailurePayload))
    status.SetPayload(kFailurePayload, *payload);
  return status;
}

std::string NameOf(CuResult result) {
  const char* const name = FindName(result);
  return name != nullptr ? name : fmt::format("CUDA_ERROR_{}", static_cast<int>(result));
}

bool IsSticky(CuResult result) {
  switch (static_cast<int>(result)) {
    case 226:  // CONTAINED: a memory error that was contained.
    case 700:  // ILLEGAL_ADDRESS
    case 702:  // LAUNCH_TIMEOUT
    case 710:  // ASSERT
    case 714:  // HARDWARE_STACK_ERROR
    case 715:  // ILLEGAL_INSTRUCTION
    case 716:  // MISALIGNED_ADDRESS
    case 717:  // INVALID_ADDRESS_SPACE
    case 718:  // INVALID_PC
    case 719:  // LAUNCH_FAILED
      return true;
    default:
      return false;
  }
}

}  // namespace coppice
