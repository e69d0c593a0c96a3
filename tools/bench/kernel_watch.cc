// One thread per watch: launch, wait, note the time.

#include "tools/bench/kernel_watch.h"

#include <atomic>
#include <chrono>
#include <future>
#include <thread>

#include "coppice/base/status.h"

#include "tools/bench/bench_params.h"
#include "tools/bench/increment_chain.h"
#include "tools/support/stopwatch.h"

namespace coppice {

absl::StatusOr<std::unique_ptr<KernelWatch>> KernelWatch::Create(const Context& context) {
  const Driver& driver = context.driver();
  COPPICE_ASSIGN_OR_RETURN(KernelLibrary library, KernelLibrary::Load(driver, bench_image));
  COPPICE_ASSIGN_OR_RETURN(const Kernel kernel, library.Get("Increment"));
  COPPICE_ASSIGN_OR_RETURN(Stream stream, Stream::Create(driver));
  COPPICE_ASSIGN_OR_RETURN(DeviceMemory memory, DeviceMemory::Create(driver, sizeof(float)));
  COPPICE_RETURN_IF_ERROR(
      driver.Call<&DriverTable::MemsetD32Async>(memory.address(), 0U, size_t{1}, stream.handle()));
  COPPICE_RETURN_IF_ERROR(stream.Synchronize());
  return std::unique_ptr<KernelWatch>(
      new KernelWatch(context, std::move(library), kernel, std::move(stream), std::move(memory)));
}

absl::Status KernelWatch::RunRound() const {
  // NOLINTNEXTLINE(performance-no-int-to-ptr): the driver's addresses are integers.
  auto* const value = reinterpret_cast<float*>(memory_.address());
  const IncrementParams params = {.source = value, .target = value, .count = 1};
  COPPICE_RETURN_IF_ERROR(Launch(context_.driver(), kernel_, stream_.handle(), params, 1));
  return stream_.Synchronize();
}

absl::Status KernelWatch::RunRounds(const std::function<bool()>& ended,
                                    std::vector<double>& times) const {
  Stopwatch stopwatch;
  do {
    stopwatch.Lap();
    COPPICE_RETURN_IF_ERROR(RunRound());
    times.push_back(stopwatch.Lap());
  } while (!ended());
  return absl::OkStatus();
}

absl::StatusOr<std::vector<double>> KernelWatch::Watch(
    const std::function<absl::Status()>& work) const {
  std::vector<double> times;
  absl::Status watched;
  std::promise<void> started;
  std::atomic<bool> ended = false;
  std::thread thread([&] {
    watched = context_.MakeCurrent();
    // Not timed: the first launch of a kernel may load it.
    if (watched.ok()) watched = RunRound();
    started.set_value();
    if (watched.ok()) watched = RunRounds([&] { return ended.load(); }, times);
  });
  started.get_future().wait();
  const absl::Status worked = work();
  ended.store(true);
  thread.join();
  COPPICE_RETURN_IF_ERROR(worked);
  COPPICE_RETURN_IF_ERROR(watched);
  return times;
}

absl::StatusOr<std::vector<double>> KernelWatch::WatchFor(int64_t milliseconds) const {
  std::vector<double> times;
  COPPICE_RETURN_IF_ERROR(RunRound());  // Not timed either.
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(milliseconds);
  COPPICE_RETURN_IF_ERROR(
      RunRounds([&] { return std::chrono::steady_clock::now() >= end; }, times));
  return times;
}

}  // namespace coppice
