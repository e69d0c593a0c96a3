// Goal: what a callback asks of its own session, which would wait for itself, is an error, and the
// run goes on.
// Method: a callable, a progress function and a log that call their session and read a lease of it,
// on the calling thread and on the one that records in the background.

#include "coppice/coppice.h"

#include "tests/capi/c_fixture.h"
#include "tests/capi/callable_fixture.h"

namespace coppice {
namespace {

class CallbacksTest : public CallableFixture {
 public:
  void SetUp() override {
    CallableFixture::SetUp();
    LoadKernels();
    x_ = Upload(Ramp(10));
  }
  void TearDown() override {
    coppice_lease_release(earlier_);
    CallableFixture::TearDown();
  }

  // Registers a program that asks its session for everything in each of its runs.
  coppice_program* RegisterAsking() {
    return RegisterBody("asking", [this](coppice_context* context) {
      AskEverything();
      return ScaleInput(context, 2);
    });
  }
  void AskEverything() {
    const DLTensor* const inputs[] = {&x_};
    coppice_call call = CallOf(inputs);
    call.program = program_;
    coppice_lease* lease = nullptr;
    Ask(coppice_run(session_, &call, &lease));
    EXPECT_EQ(nullptr, lease);
    Ask(coppice_reset(session_, program_));
    Ask(coppice_unregister(session_, program_));
    Ask(coppice_evict(session_, nullptr, nullptr));
    Ask(coppice_trim(session_));
    Ask(coppice_buckets(session_, nullptr, 0, nullptr));
    Ask(coppice_session_metrics_text(session_, 0, nullptr, 0, nullptr));
    coppice_chain* chain = nullptr;
    Ask(coppice_chain_begin(session_, 0, &chain));
    const int64_t bucket[] = {16};
    Ask(coppice_warm(session_, program_, bucket, 1, 1, nullptr));
    if (earlier_ == nullptr) return;
    coppice_read* scope = nullptr;
    Ask(coppice_lease_read(earlier_, stream_, &scope));
    Ask(coppice_lease_split(earlier_, &lease, 1));
  }

  int refused() const { return refused_; }

  DLTensor x_ = {};
  coppice_program* program_ = nullptr;
  coppice_lease* earlier_ = nullptr;

 private:
  void Ask(coppice_status status) {
    EXPECT_EQ(COPPICE_FAILED_PRECONDITION, status);
    EXPECT_NE(std::string::npos, LastError().find("callback")) << LastError();
    ++refused_;
  }

  int refused_ = 0;
};

TEST_F(CallbacksTest, ACallableThatCallsItsSessionIsRefusedAndRuns) {
  program_ = RegisterAsking();
  earlier_ = LeaseOf(program_, x_);  // Warms up.
  EXPECT_EQ(9, refused());
  coppice_lease* const recorded = LeaseOf(program_, x_);
  EXPECT_EQ(20, refused());
  EXPECT_EQ(COPPICE_RUN_RECORD, InfoOf(recorded).kind);
  coppice_lease_release(recorded);
}

TEST_F(CallbacksTest, ALeaseMayBeLetGoInACallable) {
  program_ = RegisterBody("dropping", [this](coppice_context* context) {
    coppice_lease_release(std::exchange(earlier_, nullptr));
    return ScaleInput(context, 2);
  });
  earlier_ = LeaseOf(program_, x_);
  coppice_lease_release(LeaseOf(program_, x_));
  EXPECT_EQ(nullptr, earlier_);
}

TEST_F(CallbacksTest, ProgressThatCallsItsSessionIsRefused) {
  program_ =
      RegisterBody("plain", [this](coppice_context* context) { return ScaleInput(context, 2); });
  coppice_warm_options options = {.struct_size = sizeof(options)};
  options.user = this;
  options.progress = [](void* user, int64_t, int64_t) {
    static_cast<CallbacksTest*>(user)->AskEverything();
  };
  const int64_t buckets[] = {8, 16};
  ASSERT_C_OK(coppice_warm(session_, program_, buckets, 2, 1, &options));
  EXPECT_EQ(18, refused());
}

TEST_F(CallbacksTest, SoIsARecordingInTheBackgroundAndALog) {
  coppice_session_options options = {.struct_size = sizeof(options)};
  options.record_in_background = 1;
  options.user = this;
  options.log = [](void* user, const char*) {
    auto& test = *static_cast<CallbacksTest*>(user);
    if (test.program_ != nullptr) test.AskEverything();
  };
  ASSERT_C_OK(coppice_session_create(device_, &options, &session_));
  program_ = RegisterAsking();
  for (int call = 0; call < 3; ++call)
    coppice_lease_release(LeaseOf(program_, x_));
  ASSERT_C_OK(coppice_wait_for_recordings(session_));
  EXPECT_LE(24, refused()) << "a warm-up, a recording and a line at least";
}

}  // namespace
}  // namespace coppice
