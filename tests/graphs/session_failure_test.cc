// Goal: each way in which a driver's failure could cost a session more than the call it hit stays
// closed. Method: faults injected by the ledger where only the one behaviour can answer.

#include "tests/graphs/session_fixture.h"

namespace coppice {
namespace {

class SessionFailureTest : public SessionFixture {
 protected:
  // The next call of `entry` fails.
  template <typename Function>
  void FailNext(Function DriverTable::*entry, CuResult result) {
    device_.ledger().Inject({.entry = DriverLedger::IndexOf(entry), .result = result});
  }

  // Fails the next launch by the callable, made as soon as it records.
  Callable FailingUnderCapture(CuResult result) {
    return AffineCallable([this, result](CallContext& context) {
      if (context.phase() == Phase::kRecord && !failed_) {
        failed_ = true;
        FailNext(&DriverTable::LaunchKernel, result);
      }
      return absl::OkStatus();
    });
  }

  bool failed_ = false;
};

TEST_F(SessionFailureTest, StickyErrorIsTheAnswerOfWarmAndTrimToo) {
  const Affine affine = MakeAffine();
  ExpectRun(affine, 4, RunKind::kWarmUp);
  uploads_.push_back(*device_.Upload(std::vector<float>{0}));
  const Binding* scratch =
      *affine.session->Bind(*affine.program, AffineStatics(uploads_.back().address()));
  FailNext(&DriverTable::StreamBeginCapture, CuResult::kLaunchFailed);
  const absl::Status first = Call(affine, 4).status();
  ASSERT_EQ(CuResultOf(first), CuResult::kLaunchFailed);
  const std::vector<std::vector<int64_t>> buckets = {{8}};
  const int64_t scalar = std::bit_cast<int64_t>(2.0);
  EXPECT_EQ(affine.session->warming().Warm(*affine.program, affine.binding, buckets, {&scalar, 1},
                                           {.scratch = scratch}),
            first);
  EXPECT_EQ(affine.session->memory().Trim(), first);
  EXPECT_EQ(Call(affine, 4).status(), first);
}

TEST_F(SessionFailureTest, StickyErrorOfTheCallableUnderCapturePoisons) {
  const Affine affine = MakeAffine({}, FailingUnderCapture(CuResult::kLaunchFailed));
  ExpectRun(affine, 4, RunKind::kWarmUp);
  const absl::Status first = Call(affine, 4).status();
  EXPECT_EQ(CuResultOf(first), CuResult::kLaunchFailed);
  EXPECT_EQ(Call(affine, 4).status(), first);
}

TEST_F(SessionFailureTest, CallableThatRunsOutOfMemoryUnderCaptureIsRecordedLater) {
  const Affine affine = MakeAffine({}, FailingUnderCapture(CuResult::kOutOfMemory));
  ExpectRun(affine, 4, RunKind::kWarmUp);
  {
    COPPICE_ASSERT_OK_AND_ASSIGN(const Lease lease, Call(affine, 4));
    EXPECT_EQ(lease.reason(), Reason::kByteLimit);
    EXPECT_EQ(Read(lease), Expected(4));
  }
  ExpectRun(affine, 4, RunKind::kRecord);
}

TEST_F(SessionFailureTest, MemoryWhoseUnmappingReportsAnErrorIsNotUsedAgain) {
  const Affine affine = MakeAffine();
  ExpectRun(affine, 4, RunKind::kWarmUp);
  FailNext(&DriverTable::MemUnmap, CuResult::kOutOfMemory);
  EXPECT_THAT(affine.session->memory().Trim(), StatusIs(kExhausted));
  EXPECT_EQ(affine.session->memory().usage().of(MemoryKind::kEager), 0);
  ExpectRun(affine, 8, RunKind::kWarmUp);
}

TEST_F(SessionFailureTest, EndOfASessionWaitsForItsWorkWhereTheDriverRefusesAnEvent) {
  Affine affine = MakeAffine();
  CallTimes(3, affine, 4);
  FailNext(&DriverTable::EventRecord, CuResult::kOutOfMemory);
  affine.session.reset();
  EXPECT_EQ(Executions(), 3) << "work ran after its memory had gone";
}

TEST_F(SessionFailureTest, EndOfAScopeKeepsTheOrderWhereTheDriverRefusesAnEvent) {
  const Stream reader = *Stream::Create(device_.driver());
  const Affine affine = MakeAffine();
  CallTimes(2, affine, 4);
  for (int round = 0; round < 20; ++round) {
    std::vector<float> values(4);
    {
      COPPICE_ASSERT_OK_AND_ASSIGN(const Lease lease, Call(affine, 4));
      COPPICE_ASSERT_OK_AND_ASSIGN(const ReadScope scope, lease.Read(reader.handle()));
      ASSERT_OK(device_.driver().Call<&DriverTable::MemcpyDtoHAsync>(
          static_cast<void*>(values.data()), scope.output(0).data, values.size() * sizeof(float),
          reader.handle()));
      FailNext(&DriverTable::EventRecord, CuResult::kOutOfMemory);
    }
    ASSERT_OK(Call(affine, 3).status()) << "overwrites the outputs";
    ASSERT_OK(device_.Synchronize());
    ASSERT_OK(reader.Synchronize());
    EXPECT_EQ(values, Expected(4));
  }
}

}  // namespace
}  // namespace coppice
