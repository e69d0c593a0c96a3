// Goal: every sentence of graphs/record/background_recorder.h. Method: jobs that note that they ran
// and that they are gone, held up by a promise.

#include "graphs/record/background_recorder.h"

#include <future>

#include "tests/support/test.h"
#include "tests/support/test_device.h"

namespace coppice::internal {
namespace {

// Sets a flag when it goes.
using Held = std::unique_ptr<bool, void (*)(bool*)>;
Held Hold(bool& gone) {
  return {&gone, [](bool* flag) { *flag = true; }};
}

class BackgroundRecorderTest : public testing::Test {
 protected:
  TestDevice device_;
  std::unique_ptr<BackgroundRecorder> recorder_ = *BackgroundRecorder::Start(device_.context());
};

TEST_F(BackgroundRecorderTest, JobsRunInOrderOnAThreadOfItsOwn) {
  std::vector<int> order;
  std::thread::id thread;
  for (const int job : {1, 2, 3}) {
    recorder_->Add([&order, &thread, job](CuStream) {
      order.push_back(job);
      thread = std::this_thread::get_id();
    });
  }
  recorder_->Wait();
  EXPECT_EQ(order, (std::vector<int>{1, 2, 3}));
  EXPECT_NE(thread, std::this_thread::get_id());
}

TEST_F(BackgroundRecorderTest, JobHasAStreamOfTheContext) {
  absl::Status synchronized = absl::UnknownError("");
  recorder_->Add([&](CuStream stream) {
    synchronized = device_.driver().Call<&DriverTable::StreamSynchronize>(stream);
  });
  recorder_->Wait();
  EXPECT_OK(synchronized);
}

TEST_F(BackgroundRecorderTest, AddDoesNotWaitForJobs) {
  std::promise<void> go;
  bool ran = false;
  recorder_->Add([&](CuStream) {
    go.get_future().wait();
    ran = true;
  });
  EXPECT_FALSE(ran);
  go.set_value();
  recorder_->Wait();
  EXPECT_TRUE(ran);
}

TEST_F(BackgroundRecorderTest, WaitReturnsOnceJobsAreGoneWithWhatTheyHeld) {
  recorder_->Wait();  // At once: there is none.
  bool gone = false;
  recorder_->Add([held = Hold(gone)](CuStream) {});
  recorder_->Wait();
  EXPECT_TRUE(gone);
}

TEST_F(BackgroundRecorderTest, EndFinishesTheJobUnderWay) {
  std::promise<void> started;
  std::promise<void> go;
  bool finished = false;
  recorder_->Add([&](CuStream) {
    started.set_value();
    go.get_future().wait();
    finished = true;
  });
  started.get_future().wait();
  std::thread release([&go] { go.set_value(); });
  recorder_.reset();
  EXPECT_TRUE(finished);
  release.join();
}

// A job that leaves itself behind.
struct Endless {
  void operator()(CuStream) { recorder->Add(std::move(*this)); }
  BackgroundRecorder* recorder = nullptr;
  Held held;
};

TEST_F(BackgroundRecorderTest, EndDropsTheJobsBehindWithWhatTheyHold) {
  bool gone = false;
  recorder_->Add(Endless{.recorder = recorder_.get(), .held = Hold(gone)});
  recorder_.reset();
  EXPECT_TRUE(gone);
}

}  // namespace
}  // namespace coppice::internal
