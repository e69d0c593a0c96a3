// One thread per watch: launch, wait, note the time.

#include "tools/bench/kernel_watch.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <future>
#include <thread>

#include "coppice/base/check.h"
#include "coppice/base/status.h"

#include "tools/bench/bench_params.h"
#include "tools/bench/increment_chain.h"
#include "tools/support/stopwatch.h"

namespace coppice {

RoundTimes::RoundTimes(size_t kept_max) : kept_max_(kept_max) {
  COPPICE_CHECK(kept_max >= 2, "room for fewer than two rounds");
}

void RoundTimes::Add(double us) {
  max_us_ = std::max(max_us_, us);
  if (rounds_++ % stride_ != 0) return;
  // One place stays free for the longest.
  if (kept_.size() + 1 == kept_max_) {
    size_t kept = 0;
    for (size_t i = 0; i < kept_.size(); i += 2)
      kept_[kept++] = kept_[i];
    kept_.resize(kept);
    stride_ *= 2;
    if ((rounds_ - 1) % stride_ != 0) return;
  }
  kept_.push_back(us);
}

std::vector<double> RoundTimes::Values() const {
  std::vector<double> values = kept_;
  if (rounds_ > 0 && std::find(values.begin(), values.end(), max_us_) == values.end())
    values.push_back(max_us_);
  return values;
}

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

absl::Status KernelWatch::RunRounds(const std::function<bool()>& ended, RoundTimes& times) const {
  Stopwatch stopwatch;
  do {
    stopwatch.Lap();
    COPPICE_RETURN_IF_ERROR(RunRound());
    times.Add(stopwatch.Lap());
  } while (!ended());
  return absl::OkStatus();
}

absl::StatusOr<RoundTimes> KernelWatch::Watch(const std::function<absl::Status()>& work) const {
  RoundTimes times;
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

absl::StatusOr<RoundTimes> KernelWatch::WatchFor(int64_t milliseconds) const {
  RoundTimes times;
  COPPICE_RETURN_IF_ERROR(RunRound());  // Not timed either.
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(milliseconds);
  COPPICE_RETURN_IF_ERROR(
      RunRounds([&] { return std::chrono::steady_clock::now() >= end; }, times));
  return times;
}

}  // namespace coppice
