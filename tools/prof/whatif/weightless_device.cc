// The replaced entries. A driver entry is a plain function, so what they share is the process's.

#include "tools/prof/whatif/weightless_device.h"

#include <array>
#include <utility>

#include "coppice/base/status.h"
#include "coppice/base/units.h"
#include "coppice/runtime/kernel_library.h"

namespace coppice {
namespace {

constexpr uint64_t kFirstAddress = uint64_t{1} << 44;
constexpr uint64_t kAddressStep = 2 * kMiB;
// No window of a session ends before its plans do, and 64 lanes of five fit into 63 bits.
constexpr size_t kDeviceBytes = size_t{1} << 44;

// What all kernels are here: nothing.
constexpr const char* kNothingPtx = R"(
.version 7.0
.target sm_80
.address_size 64
.visible .entry Nothing() { ret; }
)";

DriverTable inner;
uint64_t next_address = kFirstAddress;
uint64_t next_handle = 1;
size_t granularity_bytes = kAddressStep;
CuFunction nothing = nullptr;

bool Captures(CuStream stream) {
  CuCaptureStatus status = CuCaptureStatus::kNone;
  return inner.StreamIsCapturing(stream, &status) == CuResult::kSuccess &&
         status != CuCaptureStatus::kNone;
}

CuResult LaunchNothing(CuStream stream) {
  return inner.LaunchKernel(nothing, 1, 1, 1, 1, 1, 1, 0, stream, nullptr, nullptr);
}

// A copy or a fill: a node that does nothing where a stream captures.
CuResult MoveNothing(CuStream stream) {
  return Captures(stream) ? LaunchNothing(stream) : CuResult::kSuccess;
}

void ReplaceMemory(DriverTable& table) {
  table.DeviceTotalMem = [](size_t* bytes, CuDevice) {
    *bytes = kDeviceBytes;
    return CuResult::kSuccess;
  };
  table.MemGetInfo = [](size_t* free_bytes, size_t* total_bytes) {
    *free_bytes = *total_bytes = kDeviceBytes;
    return CuResult::kSuccess;
  };
  table.MemGetAllocationGranularity = [](size_t* bytes, const CuMemAllocationProperties*,
                                         CuMemGranularity) {
    *bytes = granularity_bytes;
    return CuResult::kSuccess;
  };
  table.MemHostAlloc = [](void**, size_t, unsigned) { return CuResult::kNotSupported; };
  table.MemFreeHost = [](void*) { return CuResult::kNotSupported; };
  table.MemAddressReserve = [](CuDeviceAddress* address, size_t bytes, size_t, CuDeviceAddress,
                               unsigned long long) {
    *address = WeightlessDevice::TakeAddresses(static_cast<int64_t>(bytes));
    return CuResult::kSuccess;
  };
  table.MemAddressFree = [](CuDeviceAddress, size_t) { return CuResult::kSuccess; };
  table.MemCreate = [](CuMemoryHandle* handle, size_t, const CuMemAllocationProperties*,
                       unsigned long long) {
    *handle = static_cast<CuMemoryHandle>(next_handle++);
    return CuResult::kSuccess;
  };
  table.MemRelease = [](CuMemoryHandle) { return CuResult::kSuccess; };
  table.MemMap = [](CuDeviceAddress, size_t, size_t, CuMemoryHandle, unsigned long long) {
    return CuResult::kSuccess;
  };
  table.MemUnmap = [](CuDeviceAddress, size_t) { return CuResult::kSuccess; };
  table.MemSetAccess = [](CuDeviceAddress, size_t, const CuMemAccessDescriptor*, size_t) {
    return CuResult::kSuccess;
  };
}

void ReplaceWork(DriverTable& table) {
  table.MemcpyHtoDAsync = [](CuDeviceAddress, const void*, size_t, CuStream stream) {
    return MoveNothing(stream);
  };
  table.MemcpyDtoHAsync = [](void*, CuDeviceAddress, size_t, CuStream stream) {
    return MoveNothing(stream);
  };
  table.MemcpyDtoDAsync = [](CuDeviceAddress, CuDeviceAddress, size_t, CuStream stream) {
    return MoveNothing(stream);
  };
  table.MemsetD8Async = [](CuDeviceAddress, unsigned char, size_t, CuStream stream) {
    return MoveNothing(stream);
  };
  table.MemsetD32Async = [](CuDeviceAddress, unsigned, size_t, CuStream stream) {
    return MoveNothing(stream);
  };
  table.LaunchKernel = [](CuFunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                          unsigned, CuStream stream, void**,
                          void**) { return MoveNothing(stream); };
  table.LaunchKernelEx = [](const CuLaunchConfig* config, CuFunction, void**, void**) {
    return MoveNothing(config->stream);
  };
  table.GraphLaunch = [](CuGraphExec, CuStream) { return CuResult::kSuccess; };
  table.GraphUpload = [](CuGraphExec, CuStream) { return CuResult::kSuccess; };
  table.CtxSynchronize = []() { return CuResult::kSuccess; };
  table.StreamSynchronize = [](CuStream) { return CuResult::kSuccess; };
  table.StreamQuery = [](CuStream) { return CuResult::kSuccess; };
  table.StreamWaitEvent = [](CuStream, CuEvent, unsigned) { return CuResult::kSuccess; };
  table.EventRecord = [](CuEvent, CuStream) { return CuResult::kSuccess; };
  table.EventQuery = [](CuEvent) { return CuResult::kSuccess; };
  table.EventSynchronize = [](CuEvent) { return CuResult::kSuccess; };
}

// The kernel that does nothing, of a library that lives as long as the emulator.
absl::Status LoadNothing(const Driver& driver) {
  CuLibrary library = nullptr;
  CuKernel kernel = nullptr;
  COPPICE_RETURN_IF_ERROR(driver.Call<&DriverTable::LibraryLoadData>(
      &library, static_cast<const void*>(kNothingPtx), static_cast<CuJitOption*>(nullptr),
      static_cast<void**>(nullptr), 0U, static_cast<int*>(nullptr), static_cast<void**>(nullptr),
      0U));
  COPPICE_RETURN_IF_ERROR(driver.Call<&DriverTable::LibraryGetKernel>(&kernel, library, "Nothing"));
  return driver.Call<&DriverTable::KernelGetFunction>(&nothing, kernel);
}

}  // namespace

absl::StatusOr<std::unique_ptr<WeightlessDevice>> WeightlessDevice::Open(int64_t granularity) {
  std::unique_ptr<WeightlessDevice> device(new WeightlessDevice());
  Emulator::Options options;
  options.memory_bytes = 2 * kMiB;  // Nothing is mapped.
  options.strictness = Emulator::Strictness::All(false);
  COPPICE_ASSIGN_OR_RETURN(device->emulator_, Emulator::Create(options));
  inner = device->emulator_->driver().table();
  granularity_bytes = static_cast<size_t>(granularity);
  next_address = kFirstAddress;
  DriverTable table = inner;
  ReplaceMemory(table);
  ReplaceWork(table);
  device->driver_.emplace(table, device->emulator_->driver().kind());
  COPPICE_ASSIGN_OR_RETURN(Context context, Context::Create(*device->driver_));
  device->context_.emplace(std::move(context));
  COPPICE_RETURN_IF_ERROR(LoadNothing(*device->driver_));
  return device;
}

WeightlessDevice::~WeightlessDevice() = default;

absl::StatusOr<CuStream> WeightlessDevice::StreamOf(int lane) {
  while (streams_.size() <= static_cast<size_t>(lane)) {
    COPPICE_ASSIGN_OR_RETURN(Stream stream, Stream::Create(*driver_));
    streams_.push_back(std::move(stream));
  }
  return streams_[static_cast<size_t>(lane)].handle();
}

absl::Status WeightlessDevice::Launch(CuStream stream, int64_t kernels) const {
  for (int64_t i = 0; i < kernels; ++i) {
    const CuResult result = LaunchNothing(stream);
    if (result != CuResult::kSuccess) return driver_->ErrorOf(result, "cuLaunchKernel");
  }
  return absl::OkStatus();
}

uint64_t WeightlessDevice::TakeAddresses(int64_t bytes) {
  const uint64_t address = next_address;
  next_address += static_cast<uint64_t>(AlignUp(bytes, static_cast<int64_t>(kAddressStep)));
  return address;
}

}  // namespace coppice
