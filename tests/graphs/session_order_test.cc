// Goal: lanes, streams and poison do what session.h says. Method: the emulator runs
// unordered work out of order, so that an order nobody asked for shows up as a wrong value.

#include "coppice/runtime/graph.h"

#include "tests/graphs/session_fixture.h"

namespace coppice {
namespace {

class SessionOrderTest : public SessionFixture {};

TEST_F(SessionOrderTest, CallOnAnotherStreamWaitsForTheLanesLastOne) {
  const Affine affine = MakeAffine();
  CallTimes(2, affine, 4);
  const Stream other = *Stream::Create(device_.driver());
  for (int round = 0; round < 20; ++round) {
    const CuStream stream = round % 2 == 0 ? other.handle() : device_.stream();
    ASSERT_OK(Call(affine, 4, 2, [&](coppice::Call& call) { call.stream = stream; }).status());
  }
  ASSERT_OK(other.Synchronize());
  EXPECT_EQ(Executions(), 22);
  EXPECT_EQ(affine.session->stats().stream_switches, 20);
}

TEST_F(SessionOrderTest, StreamThatWasDestroyedFailsOneCallThatSaysSoAndTheNextRuns) {
  const Affine affine = MakeAffine();
  for (int i = 0; i < 3; ++i) {
    {
      const Stream gone = *Stream::Create(device_.driver());
      ASSERT_OK(Call(affine, 4, 2, [&](coppice::Call& call) { call.stream = gone.handle(); }));
    }
    EXPECT_THAT(Call(affine, 4), StatusIs(kRefused, HasSubstr("was destroyed")));
    COPPICE_ASSERT_OK_AND_ASSIGN(const Lease lease, Call(affine, 4));
    EXPECT_EQ(Read(lease), Expected(4));
  }
  EXPECT_EQ(Executions(), 6);
}

TEST_F(SessionOrderTest, CallOnAStreamThatWasDestroyedSaysSoAndOneOnAnotherRuns) {
  const Affine affine = MakeAffine();
  for (int calls = 1; calls <= 3; ++calls) {  // A warm-up, a recording or a replay is refused.
    CuStream handle = nullptr;
    {
      const Stream gone = *Stream::Create(device_.driver());
      handle = gone.handle();
      ASSERT_OK(Call(affine, 4, 2, [&](coppice::Call& call) { call.stream = handle; }));
    }
    const absl::Status refused =
        Call(affine, 4, 2, [&](coppice::Call& call) { call.stream = handle; }).status();
    EXPECT_THAT(refused, StatusIs(kWrongArgument, HasSubstr("was destroyed")));
    EXPECT_EQ(Executions(), calls);
  }
  COPPICE_ASSERT_OK_AND_ASSIGN(const Lease lease, Call(affine, 4));
  EXPECT_EQ(lease.kind(), RunKind::kReplay);
  EXPECT_EQ(Read(lease), Expected(4));
}

TEST_F(SessionOrderTest, ReplayBehindAStreamThatWasDestroyedLeavesACaptureAsItIs) {
  const Affine affine = MakeAffine();
  const auto run_on = [&](CuStream stream) {
    return Call(affine, 4, 2, [&](coppice::Call& call) { call.stream = stream; }).status();
  };
  {
    const Stream gone = *Stream::Create(device_.driver());
    for (int i = 0; i < 3; ++i)
      ASSERT_OK(run_on(gone.handle()));
  }
  const Stream other = *Stream::Create(device_.driver());
  EXPECT_THAT(run_on(other.handle()), StatusIs(kRefused));
  COPPICE_ASSERT_OK_AND_ASSIGN(Capture capture, Capture::Begin(device_.driver(), other.handle()));
  EXPECT_THAT(run_on(other.handle()), StatusIs(kRefused));
  EXPECT_OK(capture.End());
  EXPECT_OK(run_on(other.handle()));
  ASSERT_OK(other.Synchronize());
  EXPECT_EQ(Executions(), 4);
}

TEST_F(SessionOrderTest, ReaderOnAStreamThatWasDestroyedIsWaitedForAllTheSame) {
  const Affine affine = MakeAffine();
  CallTimes(2, affine, 4);
  const DeviceMemory copy = *DeviceMemory::Create(device_.driver(), 64);
  {
    COPPICE_ASSERT_OK_AND_ASSIGN(const Lease lease, Call(affine, 4));
    std::optional<Stream> reader = *Stream::Create(device_.driver());
    COPPICE_ASSERT_OK_AND_ASSIGN(const ReadScope scope, lease.Read(reader->handle()));
    ASSERT_OK(device_.driver().Call<&DriverTable::MemcpyDtoDAsync>(
        copy.address(), scope.output(0).data, size_t{16}, reader->handle()));
    reader.reset();
  }
  ASSERT_OK(Call(affine, 4, 3));  // The emulator would report that nobody orders the two.
  EXPECT_EQ(device_.Download<float>(copy.address(), 4), Expected(4));
}

TEST_F(SessionOrderTest, CallsRunOnTheLegacyStreamByItsHandle) {
  const auto legacy = reinterpret_cast<CuStream>(uintptr_t{1});
  const Affine affine = MakeAffine();
  const DeviceMemory target = *DeviceMemory::Create(device_.driver(), 16);
  const int64_t dims[] = {4};
  const Tensor targets[] = {Tensor::Dense(target.address(), DType::kFloat32, dims)};
  std::vector<RunKind> kinds;
  int64_t calls = 0;  // Of the driver, in the last call.
  for (int round = 0; round < 4; ++round) {
    int64_t before = 0;
    COPPICE_ASSERT_OK_AND_ASSIGN(const Lease lease, Call(affine, 4, 2, [&](coppice::Call& call) {
                                   before = device_.ledger().calls();
                                   call.stream = legacy;
                                   call.output_mode = OutputMode::kWriteInto;
                                   call.targets = targets;
                                 }));
    calls = device_.ledger().calls() - before;
    kinds.push_back(lease.kind());
    ASSERT_OK(device_.driver().Call<&DriverTable::StreamSynchronize>(legacy));
    EXPECT_EQ(device_.Download<float>(target.address(), 4), Expected(4));
    COPPICE_ASSERT_OK_AND_ASSIGN(const ReadScope scope, lease.Read(legacy));
    EXPECT_EQ(scope.output(0).data, target.address());
  }
  EXPECT_THAT(kinds,
              ElementsAre(RunKind::kWarmUp, RunKind::kRecord, RunKind::kReplay, RunKind::kReplay));
  EXPECT_EQ(calls, 3) << "staging, the graph, and the copy to the target";
  COPPICE_ASSERT_OK_AND_ASSIGN(const Lease other, Call(affine, 4));  // On a stream of its own.
  EXPECT_EQ(Read(other), Expected(4));
  EXPECT_EQ(affine.session->stats().stream_switches, 1);
  for (const uintptr_t number : {0, 2}) {
    const auto refused = [&](coppice::Call& call) {
      call.stream = reinterpret_cast<CuStream>(number);
    };
    EXPECT_THAT(Call(affine, 4, 2, refused).status(),
                StatusIs(kWrongArgument, HasSubstr(fmt::format("on stream {}; ", number))));
  }
}

TEST_F(SessionOrderTest, LanesHaveWindowsOfTheirOwn) {
  Affine affine = MakeAffine({.lanes = 2});
  const auto on_lane = [](int lane) { return [lane](coppice::Call& call) { call.lane = lane; }; };
  for (int i = 0; i < 2; ++i) {
    for (const int lane : {0, 1})
      ASSERT_OK(Call(affine, 4, 2, on_lane(lane)).status());
  }
  COPPICE_ASSERT_OK_AND_ASSIGN(const Lease first, Call(affine, 4, 2, on_lane(0)));
  COPPICE_ASSERT_OK_AND_ASSIGN(const Lease second, Call(affine, 3, 2, on_lane(1)));
  EXPECT_EQ(Read(first), Expected(4));
  EXPECT_EQ(Read(second), Expected(3));
  EXPECT_EQ(affine.session->nodes().size(), 2U);
}

TEST_F(SessionOrderTest, PoisonFillsThePaddingOfEveryCopiedInput) {
  const Affine affine = MakeAffine();
  std::vector<float> padding;
  for (const Poison poison : {Poison::kOff, Poison::kNan, Poison::kPattern}) {
    for (int i = 0; i < 2; ++i) {
      absl::StatusOr<Lease> lease =
          Call(affine, 3, 2, [&](coppice::Call& call) { call.poison = poison; });
      ASSERT_OK(lease);
      EXPECT_EQ(Read(*lease), Expected(3)) << "live rows do not see the padding";
      COPPICE_ASSERT_OK_AND_ASSIGN(const ReadScope scope, lease->Read(device_.stream()));
      padding.push_back(device_.Download<float>(scope.output(0).data, 4)[3]);
    }
  }
  EXPECT_EQ(padding[0], 0) << "zero is the spec's fill";
  EXPECT_TRUE(std::isnan(padding[2]) && std::isnan(padding[3]));
  EXPECT_TRUE(std::isfinite(padding[4]) && padding[4] > 1e15F);
}

TEST_F(SessionOrderTest, LeakIntoLiveRowsShowsUnderPoison) {
  // Claims to be row-independent but adds its last element, which is padding, to its first.
  const Affine affine = MakeAffine({}, [this](CallContext& context) -> absl::Status {
    const int64_t n = context.extent(0);
    COPPICE_ASSIGN_OR_RETURN(const Tensor y, context.AllocateOutput(0));
    const DeviceAddress x = context.input(0).data;
    COPPICE_RETURN_IF_ERROR(AddOnto(context, x, x, y.data, n));
    return AddOnto(context, y.data, x + static_cast<DeviceAddress>((n - 1) * 4), y.data, 1);
  });
  const auto first_under = [&](Poison poison) {
    return Read(*Call(affine, 3, 2, [&](coppice::Call& call) { call.poison = poison; }))[0];
  };
  EXPECT_EQ(first_under(Poison::kOff), 2);
  EXPECT_TRUE(std::isnan(first_under(Poison::kNan)));
  EXPECT_GT(first_under(Poison::kPattern), 1e15F);
}

}  // namespace
}  // namespace coppice
