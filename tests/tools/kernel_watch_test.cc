// Goal: a watch times rounds from before its work until after it, keeps the longest whatever it
// thins out, and passes every failure on. Method: lists of known times; watches on an emulator, one
// of them on a driver that refuses launches. No time is judged.

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

using testing::ElementsAre;
using testing::Ge;
using testing::IsEmpty;
using testing::SizeIs;

TEST(RoundTimesTest, KeepsAllInOrderWhileThereIsRoom) {
  RoundTimes times(4);
  for (const double us : {3.0, 9.0, 1.0})
    times.Add(us);
  EXPECT_THAT(times.Values(), ElementsAre(3, 9, 1));
  EXPECT_EQ(times.rounds(), 3);
  EXPECT_EQ(times.max_us(), 9);
}

TEST(RoundTimesTest, OfNothingIsEmpty) {
  EXPECT_THAT(RoundTimes().Values(), IsEmpty());
  EXPECT_EQ(RoundTimes().max_us(), 0);
}

TEST(RoundTimesTest, ThinsOutEvenly) {
  RoundTimes times(5);
  for (int round = 0; round < 16; ++round)
    times.Add(round);
  EXPECT_THAT(times.Values(), ElementsAre(0, 4, 8, 12, 15));
  EXPECT_EQ(times.rounds(), 16);
}

TEST(RoundTimesTest, NeverKeepsMoreThanItMay) {
  for (size_t kept_max = 2; kept_max < 9; ++kept_max) {
    RoundTimes times(kept_max);
    for (int round = 0; round < 100; ++round) {
      times.Add(round);
      EXPECT_LE(times.Values().size(), kept_max) << "after round " << round;
    }
  }
}

TEST(RoundTimesTest, LongestSurvivesWhereverItWas) {
  for (int longest = 0; longest < 50; ++longest) {
    RoundTimes times(6);
    for (int round = 0; round < 50; ++round)
      times.Add(round == longest ? 7 : 1);
    EXPECT_THAT(times.Values(), testing::Contains(7)) << "round " << longest;
    EXPECT_EQ(times.max_us(), 7);
  }
}

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
  EXPECT_GE(times->rounds(), 1);
  EXPECT_GT(times->max_us(), 0);
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
  EXPECT_THAT(times->Values(), SizeIs(Ge(1)));
  EXPECT_GE(times->rounds(), static_cast<int64_t>(times->Values().size()));
  EXPECT_THAT(emulator_->reports(), IsEmpty());
}

TEST_F(KernelWatchTest, WatchesNothingForAtLeastOneRound) {
  const auto watch = KernelWatch::Create(context_);
  ASSERT_OK(watch);
  const auto times = (*watch)->WatchFor(1);
  ASSERT_OK(times);
  EXPECT_GE(times->rounds(), 1);
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
