// Goal: a watch times rounds from before its work until after it, and passes every failure on.
// Method: watches on an emulator, one of them on a driver that refuses launches. No time is judged.

#include "tools/bench/kernel_watch.h"

#include <memory>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "coppice/base/status.h"
#include "coppice/runtime/emulator.h"

#include "tests/support/status_matchers.h"

namespace coppice {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::Ge;
using testing::Gt;
using testing::IsEmpty;
using testing::SizeIs;

class KernelWatchTest : public testing::Test {
 protected:
  const std::unique_ptr<Emulator> emulator_ = *Emulator::Create({});
  const Driver driver_ = emulator_->driver();
  const Context context_ = *Context::Create(driver_);
};

TEST_F(KernelWatchTest, RunsTheWorkOnceOnTheCallingThread) {
  const auto watch = KernelWatch::Create(context_);
  ASSERT_OK(watch);
  std::vector<std::thread::id> threads;
  const auto times = (*watch)->Watch([&] {
    threads.push_back(std::this_thread::get_id());
    return absl::OkStatus();
  });
  ASSERT_OK(times);
  EXPECT_THAT(threads, ElementsAre(std::this_thread::get_id()));
  EXPECT_THAT(*times, SizeIs(Ge(1)));
  EXPECT_THAT(*times, Each(Gt(0)));
  EXPECT_THAT(emulator_->reports(), IsEmpty());
}

TEST_F(KernelWatchTest, WatchesWorkOnTheSameDevice) {
  const auto watch = KernelWatch::Create(context_);
  ASSERT_OK(watch);
  const auto times = (*watch)->Watch([&]() -> absl::Status {
    for (int i = 0; i < 100; ++i) {
      COPPICE_ASSIGN_OR_RETURN(const DeviceMemory memory, DeviceMemory::Create(driver_, 256));
      COPPICE_ASSIGN_OR_RETURN(const Stream stream, Stream::Create(driver_));
      COPPICE_RETURN_IF_ERROR(driver_.Call<&DriverTable::MemsetD32Async>(
          memory.address(), 1U, size_t{64}, stream.handle()));
      COPPICE_RETURN_IF_ERROR(stream.Synchronize());
    }
    return absl::OkStatus();
  });
  ASSERT_OK(times);
  EXPECT_THAT(*times, SizeIs(Ge(1)));
  EXPECT_THAT(emulator_->reports(), IsEmpty());
}

TEST_F(KernelWatchTest, WatchesNothingForAtLeastOneRound) {
  const auto watch = KernelWatch::Create(context_);
  ASSERT_OK(watch);
  const auto times = (*watch)->WatchFor(1);
  ASSERT_OK(times);
  EXPECT_THAT(*times, SizeIs(Ge(1)));
}

TEST_F(KernelWatchTest, ErrorOfTheWorkIsPassedOn) {
  const auto watch = KernelWatch::Create(context_);
  ASSERT_OK(watch);
  EXPECT_THAT((*watch)->Watch([] { return absl::AbortedError("stop"); }),
              StatusIs(absl::StatusCode::kAborted));
}

TEST_F(KernelWatchTest, ErrorOfALaunchIsPassedOnAndTheWorkStillRuns) {
  DriverTable table = driver_.table();
  table.LaunchKernel = [](CuFunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                          unsigned, CuStream, void**, void**) { return CuResult::kOutOfMemory; };
  const Driver refusing(table, DriverKind::kEmulator);
  COPPICE_ASSERT_OK_AND_ASSIGN(const Context context, Context::Create(refusing));
  const auto watch = KernelWatch::Create(context);
  ASSERT_OK(watch);
  bool worked = false;
  EXPECT_THAT((*watch)->Watch([&] {
    worked = true;
    return absl::OkStatus();
  }),
              StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_TRUE(worked);
}

}  // namespace
}  // namespace coppice
