// Blocks of runs, and of the device that was named.

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <utility>

#include "coppice/base/status.h"

#include "capi/answer.h"
#include "capi/context.h"
#include "capi/device_memory.h"

namespace coppice::capi {
namespace {

// What a device gave out. The memory ends first.
struct ExternalBlock {
  Held<coppice_device> device;
  DeviceBlock memory;
};

struct Allocator {
  std::mutex mutex;
  Held<coppice_device> device;
  std::map<uint64_t, ExternalBlock> blocks;
  coppice_external_stats stats = {};
};

// Never destroyed: other libraries free what they have when the process ends, or not at all.
Allocator& TheAllocator() {
  static auto* const allocator = new Allocator;
  return *allocator;
}

absl::Status CheckDevice(const coppice_device& device, int32_t ordinal) {
  if (ordinal == device.ordinal) return absl::OkStatus();
  return InvalidArgument(
      "external allocator: memory of device {} was requested, but coppice allocates on device {}",
      ordinal, device.ordinal);
}

absl::StatusOr<uint64_t> AllocateInRun(coppice_context& run, int64_t bytes, int32_t ordinal) {
  COPPICE_RETURN_IF_ERROR(CheckDevice(*run.session.device, ordinal));
  COPPICE_ASSIGN_OR_RETURN(const uint64_t address, run.context.Allocate(bytes));
  run.blocks.insert(address);
  Allocator& allocator = TheAllocator();
  const std::lock_guard lock(allocator.mutex);
  ++allocator.stats.run_blocks;
  return address;
}

absl::StatusOr<uint64_t> AllocateOnDevice(int64_t bytes, int32_t ordinal, void* stream) {
  Allocator& allocator = TheAllocator();
  Held<coppice_device> device;
  {
    const std::lock_guard lock(allocator.mutex);
    device = allocator.device;
  }
  if (device.get() == nullptr)
    return FailedPrecondition(
        "external allocator: no callable is running on this thread, and no device is set; call "
        "coppice_external_allocator_use");
  COPPICE_RETURN_IF_ERROR(CheckDevice(*device, ordinal));
  const CurrentScope current(device.get());
  COPPICE_ASSIGN_OR_RETURN(DeviceBlock memory,
                           DeviceBlock::Create(device->source, *device->driver, bytes, stream));
  const uint64_t address = memory.address();
  const std::lock_guard lock(allocator.mutex);
  allocator.blocks.emplace(address,
                           ExternalBlock{.device = std::move(device), .memory = std::move(memory)});
  ++allocator.stats.device_blocks;
  return address;
}

// Whether the run of this thread had a block there, which it has not any more.
bool FreeInRun(uint64_t address) {
  coppice_context* const run = WhoseCode().run;
  if (run == nullptr || run->blocks.erase(address) == 0) return false;
  absl::Status freed = run->context.Free(address);
  if (run->free_failure.ok()) run->free_failure = std::move(freed);
  return true;
}

// The same of the devices. Frees without the lock, since the driver may wait.
bool FreeOnDevice(uint64_t address) {
  Allocator& allocator = TheAllocator();
  std::unique_lock lock(allocator.mutex);
  const auto freed = allocator.blocks.extract(address);
  lock.unlock();
  if (freed.empty()) return false;
  const CurrentScope current(freed.mapped().device.get());
  const auto ending = std::move(freed.mapped().memory);
  return true;
}

}  // namespace

void CountLeftBlocks(const coppice_context& run) {
  if (run.blocks.empty()) return;
  Allocator& allocator = TheAllocator();
  const std::lock_guard lock(allocator.mutex);
  allocator.stats.left_blocks += static_cast<int64_t>(run.blocks.size());
}

extern "C" {

void* coppice_external_allocate(ptrdiff_t bytes, int32_t device, void* stream) {
  uint64_t address = 0;
  (void)AnswerTo(&address, [&]() -> absl::StatusOr<uint64_t> {
    if (bytes == 0) return uint64_t{0};
    if (bytes < 0)
      return InvalidArgument("external allocator: {} bytes were requested; request 0 or more",
                             bytes);
    coppice_context* const run = WhoseCode().run;
    return run != nullptr ? AllocateInRun(*run, bytes, device)
                          : AllocateOnDevice(bytes, device, stream);
  });
  return reinterpret_cast<void*>(address);  // NOLINT(performance-no-int-to-ptr)
}

void coppice_external_free(void* block, ptrdiff_t /*bytes*/, int32_t /*device*/, void* /*stream*/) {
  if (block == nullptr) return;
  (void)Answer([&] {
    const auto address = reinterpret_cast<uint64_t>(block);
    if (FreeInRun(address) || FreeOnDevice(address)) return;
    Allocator& allocator = TheAllocator();
    const std::lock_guard lock(allocator.mutex);
    ++allocator.stats.late_frees;
  });
}

coppice_status coppice_external_allocator_use(coppice_device* device) {
  return Answer([&] {
    Held<coppice_device> named;
    if (device != nullptr) named = Held<coppice_device>::Share(device);
    Allocator& allocator = TheAllocator();
    std::unique_lock lock(allocator.mutex);
    std::swap(allocator.device, named);
    lock.unlock();  // The last hold on a device may end here.
  });
}

coppice_status coppice_external_allocator_stats(coppice_external_stats* out) {
  return AnswerTo(out, [] {
    Allocator& allocator = TheAllocator();
    const std::lock_guard lock(allocator.mutex);
    return allocator.stats;
  });
}

}  // extern "C"
}  // namespace coppice::capi
