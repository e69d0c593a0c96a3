// Goal: what a caller or a callable gets wrong is one clear error, runs nothing and breaks nothing.
// Method: one mistake per test on affine; a right call afterwards shows that the session goes on.

#include <new>

#include "coppice/runtime/graph.h"

#include "tests/graphs/session_fixture.h"

namespace coppice {
namespace {

class MisuseTest : public SessionFixture {
 protected:
  // A call of affine on a tensor of `n` elements that are all one float.
  absl::Status RunRepeated(const Affine& affine, int64_t n, CuStream stream = nullptr) {
    Tensor x = Tensor::Dense(one_.address(), DType::kFloat32, {&n, 1});
    x.strides[0] = 0;
    const int64_t scalar = std::bit_cast<int64_t>(2.0);
    return affine.session
        ->Run({.program = affine.program,
               .binding = affine.binding,
               .inputs = {&x, 1},
               .scalars = {&scalar, 1},
               .stream = stream != nullptr ? stream : device_.stream()})
        .status();
  }

  // Affine whose hook makes the mistake, and what the call answers.
  absl::Status RunWithHook(std::function<absl::Status(CallContext&)> hook) {
    const Affine affine =
        MakeAffine({.memory = {.workspace_bytes = 1024}}, AffineCallable(std::move(hook)));
    return Call(affine, 4).status();
  }
};

TEST_F(MisuseTest, ExtentsBeyondAnyDeviceAreExhausted) {
  const Affine affine = MakeAffine();
  for (const int64_t n : {int64_t{1} << 40, int64_t{1} << 61, int64_t{1} << 62, INT64_MAX}) {
    EXPECT_THAT(RunRepeated(affine, n), StatusIs(kExhausted)) << n;
  }
  EXPECT_EQ(Executions(), 0);
  ExpectRun(affine, 4, RunKind::kWarmUp);
}

TEST_F(MisuseTest, OutputsBeyondAnyDeviceAreExhausted) {
  ProgramSpec spec = AffineSpec();
  spec.outputs[0].dims = {Dim::Symbol(0), Dim::Symbol(0), Dim::Symbol(0), Dim::Symbol(0)};
  const Affine affine = MakeAffine({}, nullptr, spec);
  EXPECT_THAT(Call(affine, 65536), StatusIs(kExhausted));
}

TEST_F(MisuseTest, AllocationOfAllBytesThereAreIsExhausted) {
  EXPECT_THAT(
      RunWithHook([](CallContext& context) { return context.Allocate(INT64_MAX).status(); }),
      StatusIs(kExhausted));
}

TEST_F(MisuseTest, BreakWithoutAStepIsRefused) {
  EXPECT_THAT(RunWithHook([](CallContext& context) { return context.Break(nullptr); }),
              StatusIs(kWrongArgument));
}

TEST_F(MisuseTest, OutputInTheWorkspaceIsRefused) {
  EXPECT_THAT(
      RunWithHook([](CallContext& context) { return context.AliasOutput(0, context.workspace()); }),
      StatusIs(kWrongArgument));
}

TEST_F(MisuseTest, OutputModeThatDoesNotExistIsRefused) {
  const Affine affine = MakeAffine();
  EXPECT_THAT(Call(affine, 4, 2,
                   [](coppice::Call& call) { call.output_mode = static_cast<OutputMode>(7); }),
              StatusIs(kWrongArgument));
}

TEST_F(MisuseTest, DTypeThatDoesNotExistMakesTheSpecInvalid) {
  ProgramSpec spec = AffineSpec();
  spec.inputs[0].dtype = static_cast<DType>(77);
  EXPECT_THAT(ValidateSpec(spec), StatusIs(kWrongArgument));
}

TEST_F(MisuseTest, ScratchThatSharesAMutatedInputIsRefused) {
  const Affine affine = MakeAffine();
  const DeviceMemory other = *device_.Upload(std::vector<float>{1});
  const int64_t dims[] = {1};
  const Binding* scratch = *affine.session->Bind(
      *affine.program,
      std::vector<Tensor>{Tensor::Dense(other.address(), DType::kFloat32, dims),
                          Tensor::Dense(counter_.address(), DType::kFloat32, dims)});
  const int64_t scalar = 0;
  EXPECT_THAT(
      affine.session->warming().Warm(*affine.program, affine.binding, {{std::vector<int64_t>{4}}},
                                     {&scalar, 1}, {.scratch = scratch}),
      StatusIs(kRefused));
  EXPECT_EQ(Executions(), 0);
}

TEST_F(MisuseTest, RankAboveTheLimitIsRefused) {
  const Affine affine = MakeAffine();
  for (const int rank : {kRankMax + 1, 127, -1}) {
    const DeviceMemory memory = *device_.Upload(Ramp(4));
    Tensor x{.data = memory.address(), .rank = static_cast<int8_t>(rank)};
    const int64_t scalar = 0;
    EXPECT_THAT(affine.session->Run({.program = affine.program,
                                     .binding = affine.binding,
                                     .inputs = {&x, 1},
                                     .scalars = {&scalar, 1},
                                     .stream = device_.stream()}),
                StatusIs(kWrongArgument));
  }
}

TEST_F(MisuseTest, InputThatRunsIntoTheSessionsMemoryOrPastTheLastAddressIsRefused) {
  constexpr int64_t kWindow = 16 * kMiB;
  DeviceAddress workspace = 0;  // The last of the lane's windows.
  const Affine affine = MakeAffine(
      {.memory = {.window_bytes = kWindow, .workspace_bytes = 1024}, .checks = {.addresses = true}},
      AffineCallable([&](CallContext& context) {
        workspace = context.workspace();
        return absl::OkStatus();
      }));
  ExpectRun(affine, 4, RunKind::kWarmUp);
  const DeviceAddress windows = workspace - 4 * static_cast<DeviceAddress>(kWindow);
  const auto run = [&](DeviceAddress data, int64_t n, int64_t stride) {
    Tensor x = Tensor::Dense(data, DType::kFloat32, {&n, 1});
    x.strides[0] = stride;
    const int64_t scalar = 0;
    return affine.session
        ->Run({.program = affine.program,
               .binding = affine.binding,
               .inputs = {&x, 1},
               .scalars = {&scalar, 1},
               .stream = device_.stream()})
        .status();
  };
  EXPECT_THAT(run(windows - 16, 8, 1), StatusIs(kWrongArgument));
  EXPECT_THAT(run(windows - 4096, 2, 4096), StatusIs(kWrongArgument));
  EXPECT_THAT(run(windows - 4096, 2, int64_t{1} << 30), StatusIs(kWrongArgument));
  EXPECT_THAT(run(~DeviceAddress{0} - 3, 8, 1), StatusIs(kWrongArgument));
  EXPECT_OK(run(counter_.address(), 1, int64_t{1} << 40)) << "one element goes nowhere";
  ExpectRun(affine, 4, RunKind::kRecord);
}

TEST_F(MisuseTest, TargetPastTheLastAddressIsRefused) {
  const Affine affine = MakeAffine();
  const int64_t n = 4;
  const DeviceMemory memory = *device_.Upload(Ramp(n));
  const Tensor x = Tensor::Dense(memory.address(), DType::kFloat32, {&n, 1});
  const Tensor target = Tensor::Dense(~DeviceAddress{0} - 7, DType::kFloat32, {&n, 1});
  const int64_t scalar = 0;
  EXPECT_THAT(affine.session->Run({.program = affine.program,
                                   .binding = affine.binding,
                                   .inputs = {&x, 1},
                                   .scalars = {&scalar, 1},
                                   .stream = device_.stream(),
                                   .output_mode = OutputMode::kWriteInto,
                                   .targets = {&target, 1}}),
              StatusIs(kWrongArgument));
}

TEST_F(MisuseTest, StaticBetweenTwoElementsOrPastTheLastAddressIsRefused) {
  const Affine affine = MakeAffine();
  const int64_t n = 1;
  const Tensor counter = Tensor::Dense(counter_.address(), DType::kFloat32, {&n, 1});
  for (const DeviceAddress address : {one_.address() + 2, ~DeviceAddress{0} - 3}) {
    const Tensor statics[] = {Tensor::Dense(address, DType::kFloat32, {&n, 1}), counter};
    EXPECT_THAT(affine.session->Bind(*affine.program, statics), StatusIs(kWrongArgument));
  }
}

TEST_F(MisuseTest, OutputThatIsAliasedToNowhereIsRefused) {
  for (const DeviceAddress address : {DeviceAddress{0}, ~DeviceAddress{0} - 3}) {
    EXPECT_THAT(RunWithHook([&](CallContext& context) { return context.AliasOutput(0, address); }),
                StatusIs(kWrongArgument));
  }
}

TEST_F(MisuseTest, BindingOfNothingIsNoBinding) {
  ProgramSpec spec{.name = "f"};
  spec.outputs = {{.name = "y", .dims = {Dim::Fixed(4)}}};
  const std::unique_ptr<Session> session = MakeSession();
  const Program* program = *session->Register(spec, [this](CallContext& context) -> absl::Status {
    COPPICE_ASSIGN_OR_RETURN(const Tensor y, context.AllocateOutput(0));
    return AddOnto(context, one_.address(), one_.address(), y.data, 1);
  });
  COPPICE_ASSERT_OK_AND_ASSIGN(const Binding* nothing, session->Bind(*program, {}));
  const auto call_with = [&](const Binding* binding) {
    return coppice::Call{.program = program, .binding = binding, .stream = device_.stream()};
  };
  for (const RunKind kind : {RunKind::kWarmUp, RunKind::kRecord, RunKind::kReplay})
    EXPECT_EQ(session->Run(call_with(nothing))->kind(), kind);
  EXPECT_EQ(session->Explain(call_with(nullptr)).kind, RunKind::kReplay);
  EXPECT_EQ(session->Run(call_with(nullptr))->kind(), RunKind::kReplay);
  ASSERT_OK(session->Unbind(*nothing));
  EXPECT_THAT(session->Run(call_with(nothing)), StatusIs(kRefused));
  EXPECT_OK(session->Run(call_with(nullptr)));
}

TEST_F(MisuseTest, ConstantOfADtypeThatDoesNotExistIsRefused) {
  const std::unique_ptr<Session> session = MakeSession();
  const int64_t sizes[] = {4};
  EXPECT_THAT(session->memory().AddConstant(static_cast<DType>(99), sizes,
                                            [](std::span<std::byte>) { return absl::OkStatus(); }),
              StatusIs(kWrongArgument));
}

TEST_F(MisuseTest, VoteForWhatIsNoBucketIsRefused) {
  for (const int64_t bucket : {int64_t{5}, 2 * kLargest, int64_t{1} << 61}) {
    const Affine affine = MakeAffine({.ranks = {.vote = [bucket](RankVote& vote) {
                                        vote.bucket[0] = bucket;
                                        vote.unanimous = false;
                                        return absl::OkStatus();
                                      }}});
    EXPECT_THAT(Call(affine, 4), StatusIs(kWrongArgument)) << bucket;
  }
}

TEST_F(MisuseTest, UnbindWaitsAlsoForAVersionThatAnotherBindingHas) {
  const Affine affine = MakeAffine();
  const DeviceMemory pair = *device_.Upload(std::vector<float>{0, 1, 0, 1});
  const int64_t dims[] = {1};
  const Binding* bindings[2];
  for (size_t i = 0; i < 2; ++i) {
    const DeviceAddress one = pair.address() + (1 + 2 * i) * sizeof(float);
    bindings[i] = *affine.session->Bind(
        *affine.program,
        std::vector<Tensor>{Tensor::Dense(one, DType::kFloat32, dims),
                            Tensor::Dense(counter_.address(), DType::kFloat32, dims)});
  }
  ASSERT_OK(Call(affine, 4, 2, [&](coppice::Call& call) { call.binding = bindings[0]; }).status());
  ASSERT_OK(affine.session->Unbind(*bindings[0]));
  EXPECT_EQ(device_.driver().table().StreamQuery(device_.stream()), CuResult::kSuccess);
}

TEST_F(MisuseTest, CopyOfAnEmptyOutputTakesNoRoom) {
  const std::unique_ptr<Session> session = MakeSession({.memory = {.copy_out_bytes = 1}});
  ProgramSpec spec{.name = "empty"};
  spec.outputs = {{.name = "y", .dims = {Dim::Fixed(0)}}};
  const Program* program = *session->Register(
      spec, [](CallContext& context) { return context.AllocateOutput(0).status(); });
  for (int i = 0; i < 3; ++i) {
    EXPECT_OK(session->Run({.program = program,
                            .inputs = {},
                            .scalars = {},
                            .stream = device_.stream(),
                            .output_mode = OutputMode::kCopyOut}));
  }
}

TEST_F(MisuseTest, BackgroundRecordingThatRunsOutOfHostMemoryIsTriedAgain) {
  ProgramSpec spec = AffineSpec();
  spec.thread_safe = true;
  bool exhausted = false;
  const Affine affine = MakeAffine(
      {.record_in_background = true}, AffineCallable([&](CallContext& context) -> absl::Status {
        if (context.phase() == Phase::kRecord && !std::exchange(exhausted, true)) {
          throw std::bad_alloc();
        }
        return absl::OkStatus();
      }),
      spec);
  ExpectRun(affine, 4, RunKind::kWarmUp);
  for (int i = 0; i < 2; ++i) {
    ExpectRun(affine, 4, RunKind::kEager);
    affine.session->WaitForRecordings();
  }
  ExpectRun(affine, 4, RunKind::kReplay);
}

TEST_F(MisuseTest, CallableThatCallsItsSessionEndsTheProcessAndSaysWhy) {
  Session* session = nullptr;
  const Affine affine = MakeAffine({}, AffineCallable([&](CallContext&) {
                                     EXPECT_EQ(session->stats().calls, 0);
                                     return absl::OkStatus();
                                   }));
  session = affine.session.get();
  // A child that is forked has no device: one that begins anew.
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  EXPECT_DEATH(ExpectRun(affine, 4, RunKind::kWarmUp), "a callable must not call its session");
}

TEST_F(MisuseTest, CallableThatSeedsItsSessionEndsTheProcessAndSaysWhy) {
  Session* session = nullptr;
  const Affine affine = MakeAffine({}, AffineCallable([&](CallContext& context) {
                                     if (context.phase() == Phase::kRecord) session->SetSeed(1);
                                     return absl::OkStatus();
                                   }));
  session = affine.session.get();
  session->SetSeed(1);
  ExpectRun(affine, 4, RunKind::kWarmUp);
  // A child that is forked has no device: one that begins anew.
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  EXPECT_DEATH(ExpectRun(affine, 4, RunKind::kRecord), "a callable must not call its session");
}

// While the test captures on the stream that the lane ran on last, what a session may not record
// there is refused, and the capture ends as if nobody had asked.
class CallersCaptureTest : public MisuseTest {
 protected:
  // Runs `during` within a capture on the lane's last stream, which has to stay valid.
  template <typename During>
  void InCapture(During during) {
    COPPICE_ASSERT_OK_AND_ASSIGN(Capture capture,
                                 Capture::Begin(device_.driver(), device_.stream()));
    during();
    COPPICE_ASSERT_OK_AND_ASSIGN(const Graph graph, capture.End());
    COPPICE_ASSERT_OK_AND_ASSIGN(const Graph::Topology topology, graph.GetTopology());
    EXPECT_TRUE(topology.nodes.empty());
  }

  const Stream other_ = *Stream::Create(device_.driver());
};

TEST_F(CallersCaptureTest, ACallThatWouldNotReplayIsRefused) {
  const Affine affine = MakeAffine();
  ExpectRun(affine, 4, RunKind::kWarmUp);
  for (const int64_t n : {4, 100}) {  // A recording, and the warm-up of another bucket.
    InCapture([&] { EXPECT_THAT(RunRepeated(affine, n), StatusIs(kRefused)); });
  }
  EXPECT_EQ(Executions(), 1);
  ExpectRun(affine, 4, RunKind::kRecord);
}

TEST_F(CallersCaptureTest, ACallOnAnotherStreamIsRefusedWhileTheLastOneCaptures) {
  const Affine affine = MakeAffine();
  ExpectRun(affine, 4, RunKind::kWarmUp);
  ExpectRun(affine, 4, RunKind::kRecord);
  InCapture([&] { EXPECT_THAT(RunRepeated(affine, 4, other_.handle()), StatusIs(kRefused)); });
  EXPECT_OK(RunRepeated(affine, 4, other_.handle()));
}

// The launch of a graph is unsafe by the table of what captures forbid, whichever stream it is on.
TEST_F(CallersCaptureTest, AReplayOnAThreadThatCapturesElsewhereBreaksThatUnlessItIsRelaxed) {
  const Affine affine = MakeAffine();
  ExpectRun(affine, 4, RunKind::kWarmUp);
  ExpectRun(affine, 4, RunKind::kRecord);
  const DriverTable& cu = device_.driver().table();
  for (const CuCaptureMode mode :
       {CuCaptureMode::kGlobal, CuCaptureMode::kThreadLocal, CuCaptureMode::kRelaxed}) {
    ASSERT_EQ(cu.StreamBeginCapture(other_.handle(), mode), CuResult::kSuccess);
    absl::Status elsewhere;
    std::thread([&] {
      ASSERT_OK(device_.context().MakeCurrent());
      elsewhere = RunRepeated(affine, 4);
    }).join();
    EXPECT_OK(elsewhere);
    const bool relaxed = mode == CuCaptureMode::kRelaxed;
    const absl::Status here = RunRepeated(affine, 4);
    EXPECT_EQ(here.code(), relaxed ? absl::StatusCode::kOk : absl::StatusCode::kAborted) << here;
    CuGraph graph = nullptr;
    EXPECT_EQ(cu.StreamEndCapture(other_.handle(), &graph),
              relaxed ? CuResult::kSuccess : CuResult::kStreamCaptureInvalidated);
    if (graph != nullptr) {
      EXPECT_EQ(cu.GraphDestroy(graph), CuResult::kSuccess);
    }
    ExpectRun(affine, 4, RunKind::kReplay);
  }
  EXPECT_EQ(Executions(), 2 + 3 + 1 + 3) << "what was refused ran nothing";
}

TEST_F(CallersCaptureTest, OutputsAreReadOnOtherStreamsOnlyWhileNeitherCaptures) {
  const Affine affine = MakeAffine();
  ExpectRun(affine, 4, RunKind::kWarmUp);
  COPPICE_ASSERT_OK_AND_ASSIGN(Lease lease, Call(affine, 4));
  COPPICE_ASSERT_OK_AND_ASSIGN(const Stream reader, Stream::Create(device_.driver()));
  InCapture([&] { EXPECT_THAT(lease.Read(reader.handle()), StatusIs(kRefused)); });
  COPPICE_ASSERT_OK_AND_ASSIGN(Capture capture, Capture::Begin(device_.driver(), reader.handle()));
  EXPECT_THAT(lease.Read(reader.handle()), StatusIs(kRefused));
  EXPECT_THAT(lease.Release(reader.handle()), StatusIs(kRefused));
  COPPICE_ASSERT_OK_AND_ASSIGN(const Graph graph, capture.End());
  EXPECT_TRUE(graph.GetTopology()->nodes.empty());
}

TEST_F(CallersCaptureTest, AScopeThatEndsLeavesTheCaptureAsItWas) {
  const Affine affine = MakeAffine();
  ExpectRun(affine, 4, RunKind::kWarmUp);
  COPPICE_ASSERT_OK_AND_ASSIGN(const Lease lease, Call(affine, 4));
  std::optional<ReadScope> scope = *lease.Read(other_.handle());
  InCapture([&] { scope.reset(); });
  ExpectRun(affine, 4, RunKind::kReplay);
}

TEST_F(CallersCaptureTest, ALoanReturnsOnAStreamThatDoesNotCapture) {
  const Affine affine = MakeAffine();
  ExpectRun(affine, 4, RunKind::kWarmUp);
  COPPICE_ASSERT_OK_AND_ASSIGN(Loan loan, affine.session->memory().Lend());
  COPPICE_ASSERT_OK_AND_ASSIGN(Capture capture, Capture::Begin(device_.driver(), other_.handle()));
  EXPECT_THAT(loan.Return(other_.handle()), StatusIs(kRefused));
  EXPECT_OK(capture.End());
  ExpectRun(affine, 4, RunKind::kRecord);
}

TEST_F(CallersCaptureTest, NothingWaitsForAStreamThatCaptures) {
  const Affine affine = MakeAffine();
  ExpectRun(affine, 4, RunKind::kWarmUp);
  ExpectRun(affine, 4, RunKind::kRecord);
  Session& session = *affine.session;
  InCapture([&] {
    for (const absl::Status& status :
         {session.memory().Suspend({}), session.memory().Lend().status(),
          session.Evict(nullptr).status(), session.memory().Trim()})
      EXPECT_THAT(status, StatusIs(kRefused));
  });
  ExpectRun(affine, 4, RunKind::kReplay);
}

}  // namespace
}  // namespace coppice
