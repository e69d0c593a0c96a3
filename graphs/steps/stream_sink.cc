// Steps as calls of the driver.

#include "graphs/steps/stream_sink.h"

#include "coppice/base/status.h"

namespace coppice::internal {

absl::Status StreamSink::Launch(const KernelLaunch& launch, std::span<const Touch> /*touched*/) {
  return coppice::Launch(driver_, launch.kernel, stream_, launch.arguments, launch.shape);
}

absl::Status StreamSink::Fill(const MemoryFill& fill, std::span<const Touch> /*touched*/) {
  const auto count = static_cast<size_t>(fill.count);
  if (fill.width == 1)
    return driver_.Call<&DriverTable::MemsetD8Async>(
        fill.target, static_cast<unsigned char>(fill.value), count, stream_);
  return driver_.Call<&DriverTable::MemsetD32Async>(fill.target, fill.value, count, stream_);
}

absl::Status StreamSink::Copy(const MemoryCopy& copy, std::span<const Touch> /*touched*/) {
  return driver_.Call<&DriverTable::MemcpyDtoDAsync>(copy.target, copy.source,
                                                     static_cast<size_t>(copy.bytes), stream_);
}

absl::Status StreamSink::Work(LibraryWork work, std::span<const Touch> /*touched*/) {
  return work(stream_);
}

}  // namespace coppice::internal
