// Goal: Run, Register, Bind and the reports do what session.h says. Method: the affine program on
// the emulator, its values checked on every path, driver calls counted by the ledger.

#include "coppice/graphs/session.h"

#include "tests/graphs/dropping_driver.h"
#include "tests/graphs/session_fixture.h"
#include "tests/support/host_allocations.h"

namespace coppice {
namespace {

class SessionTest : public SessionFixture {};

TEST_F(SessionTest, FirstCallWarmsUpSecondRecordsThirdReplays) {
  const Affine affine = MakeAffine();
  ExpectRun(affine, 5, RunKind::kWarmUp);
  ExpectRun(affine, 6, RunKind::kRecord);
  ExpectRun(affine, 7, RunKind::kReplay);
  ExpectRun(affine, 8, RunKind::kReplay);
}

TEST_F(SessionTest, EveryCallExecutesItsProgramExactlyOnce) {
  const Affine affine = MakeAffine();
  int calls = 0;
  for (const int64_t n : {3, 3, 3, 20, 20, 4, 100, 100}) {
    ASSERT_OK(Call(affine, n).status());
    EXPECT_EQ(Executions(), ++calls);
  }
}

TEST_F(SessionTest, HitWithSomethingStagedMakesTwoDriverCalls) {
  const Affine affine = MakeAffine();
  CallTimes(2, affine, 4);
  uploads_.push_back(*device_.Upload(Ramp(4)));
  const int64_t before = device_.ledger().calls();
  const Tensor x = FloatsAt(uploads_.back().address(), 4);
  const int64_t scalar = std::bit_cast<int64_t>(2.0);
  ASSERT_OK(affine.session->Run({.program = affine.program,
                                 .binding = affine.binding,
                                 .inputs = {&x, 1},
                                 .scalars = {&scalar, 1},
                                 .stream = device_.stream()}));
  EXPECT_EQ(device_.ledger().calls() - before, 2);
}

TEST_F(SessionTest, HitWithNothingStagedMakesOneDriverCall) {
  const std::unique_ptr<Session> session = MakeSession();
  ProgramSpec spec{.name = "count"};
  spec.inputs = {
      {.name = "one", .dims = {Dim::Fixed(1)}, .role = InputRole::kStatic},
      {.name = "counter", .dims = {Dim::Fixed(1)}, .role = InputRole::kStatic, .mutated = true}};
  const Program* program = *session->Register(spec, [this](CallContext& context) {
    return AddOnto(context, context.input(1).data, context.input(0).data, context.input(1).data, 1);
  });
  const Binding* binding = *session->Bind(*program, AffineStatics(counter_.address()));
  const coppice::Call call{.program = program,
                           .binding = binding,
                           .inputs = {},
                           .scalars = {},
                           .stream = device_.stream()};
  for (int i = 0; i < 2; ++i)
    ASSERT_OK(session->Run(call));
  const int64_t before = device_.ledger().calls();
  ASSERT_OK(session->Run(call));
  EXPECT_EQ(device_.ledger().calls() - before, 1);
  EXPECT_EQ(Executions(), 3);
}

class SessionHitTest : public SessionTest {
 protected:
  // Affine by this spec, with these extents given.
  void ExpectNoAllocations(ProgramSpec spec, std::span<const int64_t> extents);
};

void SessionHitTest::ExpectNoAllocations(ProgramSpec spec, std::span<const int64_t> extents) {
  const Driver driver = DroppingDriver(device_.driver());
  const Context context = *Context::Create(driver);
  Affine affine{.session = *Session::Create(context, {})};
  affine.program = *affine.session->Register(std::move(spec), AffineCallable());
  affine.binding = *affine.session->Bind(*affine.program, AffineStatics(counter_.address()));
  for (int i = 0; i < 2; ++i)
    ASSERT_OK(Call(affine, 4, 2, [&](coppice::Call& call) { call.extents = extents; }).status());

  uploads_.push_back(*device_.Upload(Ramp(4)));
  const Tensor x = FloatsAt(uploads_.back().address(), 4);
  const int64_t scalar = std::bit_cast<int64_t>(2.0);
  const coppice::Call call{.program = affine.program,
                           .binding = affine.binding,
                           .inputs = {&x, 1},
                           .scalars = {&scalar, 1},
                           .extents = extents,
                           .stream = device_.stream()};
  work_is_dropped = true;
  const int64_t before = host_allocations.count;
  {
    const CountingScope counting(true);
    for (int i = 0; i < 10; ++i) {
      const absl::StatusOr<Lease> lease = affine.session->Run(call);
      if (!lease.ok() || lease->kind() != RunKind::kReplay) break;
    }
  }
  const int64_t allocations = host_allocations.count - before;
  work_is_dropped = false;
  EXPECT_EQ(allocations, 0);
  EXPECT_EQ(affine.session->nodes()[0].replays, 11);
}

TEST_F(SessionHitTest, HitAllocatesNothing) {
  ExpectNoAllocations(AffineSpec(), {});
}

TEST_F(SessionHitTest, HitThatComputesExtentsAllocatesNothing) {
  ProgramSpec spec = AffineSpec();
  spec.AddSymbol("k", *PaddingPolicy::Pow2(8));
  spec.symbols[1].given = true;
  spec.AddExtent("n * k + 2");
  spec.guards = {"k < n"};
  const int64_t extents[] = {3};
  ExpectNoAllocations(std::move(spec), extents);
}

TEST_F(SessionHitTest, HitOfAJointBucketAllocatesNothing) {
  for (const char* buckets : {"8x2,64x4", "pow2/pow2/budget:128"}) {
    ProgramSpec spec = AffineSpec();
    spec.symbols.clear();
    spec.AddJoint("n", "k", *JointPolicy::Parse(buckets, {kLargest, 4}));
    spec.symbols[1].given = true;
    const int64_t extents[] = {2};
    ExpectNoAllocations(std::move(spec), extents);
  }
}

TEST_F(SessionTest, PoolIsAsHighAsTheLargestNodeInAnyOrder) {
  for (const std::vector<int64_t>& order :
       std::vector<std::vector<int64_t>>{{1, 8, 64}, {64, 8, 1}, {8, 64, 1}}) {
    const Affine affine = MakeAffine();
    for (const int64_t n : order) {
      CallTimes(2, affine, n);
    }
    int64_t largest = 0;
    for (const NodeInfo& node : affine.session->nodes()) {
      EXPECT_EQ(node.plan_height, node.live_bytes);
      largest = std::max(largest, node.plan_height);
    }
    EXPECT_EQ(affine.session->memory().usage().height, largest);
    const DeviceAddress window = affine.session->memory().window(0, MemoryKind::kPlan).base;
    EXPECT_EQ(device_.ledger().MappedBytes(
                  window, affine.session->memory().window(0, MemoryKind::kPlan).window_bytes),
              AlignUp(largest, 2 * kMiB));
  }
}

TEST_F(SessionTest, MovedStaticInputIsAnotherNodeAndSaysSo) {
  Affine affine = MakeAffine();
  CallTimes(3, affine, 4);
  const DeviceMemory moved = *device_.Upload(std::vector<float>{10});
  const Binding* original = affine.binding;
  affine.binding = *affine.session->Bind(*affine.program, AffineStatics(moved.address()));
  EXPECT_NE(affine.binding, original);
  EXPECT_EQ(Call(affine, 4)->reason(), Reason::kStaticInputMoved);
  CallTimes(2, affine, 4);
  EXPECT_EQ(device_.Download<float>(moved.address(), 1)[0], 13);
  EXPECT_EQ(Executions(), 3);
  affine.binding = original;
  ExpectRun(affine, 4, RunKind::kReplay);
  affine.session.reset();
}

TEST_F(SessionTest, KeyScalarIsPartOfTheKey) {
  const Affine affine = MakeAffine();
  for (const double factor : {2.0, 3.0}) {
    ExpectRun(affine, 4, RunKind::kWarmUp, factor);
    ExpectRun(affine, 4, RunKind::kRecord, factor);
  }
  ExpectRun(affine, 4, RunKind::kReplay, 2.0);
  ExpectRun(affine, 4, RunKind::kReplay, 3.0);
}

TEST_F(SessionTest, DeviceResidentScalarAndRealExtentComeFromTheParameterBlock) {
  const std::unique_ptr<Session> session = MakeSession();
  ProgramSpec spec{.name = "masked", .claim = PaddingContents::kAny};
  const int n = spec.AddSymbol("n", *PaddingPolicy::Pow2(kLargest));
  spec.inputs = {{.name = "x", .dims = {Dim::Symbol(n)}}};
  spec.outputs = {{.name = "y", .dims = {Dim::Symbol(n)}}};
  spec.scalars = {{.name = "count", .device_resident = true}};
  const int words[] = {ExtentWord(spec, 0), ScalarWord(spec, 0)};
  for (const int word : words) {
    spec.name = fmt::format("masked by word {}", word);
    const Program* program =
        *session->Register(spec, [this, word](CallContext& context) -> absl::Status {
          COPPICE_ASSIGN_OR_RETURN(const Tensor y, context.AllocateOutput(0));
          COPPICE_RETURN_IF_ERROR(LaunchFill(context, y.data, context.extent(0), -1));
          return Launch(context.driver(), kernels_.masked_scale, context.stream(),
                        MaskedScaleParams{.x = PointerAt<float>(context.input(0).data),
                                          .y = PointerAt<float>(y.data),
                                          .words = PointerAt<int64_t>(context.parameters()),
                                          .word = word,
                                          .factor = 1},
                        GridFor(context.extent(0)));
        });
    for (const int64_t count : {4, 3, 2, 4}) {
      const DeviceMemory memory = *device_.Upload(Ramp(4));
      const int64_t dims[] = {word == words[0] ? count : 4};
      const Tensor x = Tensor::Dense(memory.address(), DType::kFloat32, dims);
      absl::StatusOr<Lease> lease = session->Run({.program = program,
                                                  .inputs = {&x, 1},
                                                  .scalars = {&count, 1},
                                                  .stream = device_.stream()});
      ASSERT_OK(lease);
      std::vector<float> expected = Ramp(dims[0]);
      for (size_t i = static_cast<size_t>(count); i < expected.size(); ++i)
        expected[i] = -1;
      EXPECT_EQ(Read(*lease), expected);
    }
  }
  // Every call of one program shares the bucket of 4, or of 2 where the extent itself was 2.
  EXPECT_EQ(session->nodes().size(), 3U);
}

TEST_F(SessionTest, StanceEagerNeverRecords) {
  const Affine affine = MakeAffine({.stance = Stance::kEager});
  for (int i = 0; i < 3; ++i)
    ExpectRun(affine, 4, RunKind::kEager);
  EXPECT_EQ(Call(affine, 4)->reason(), Reason::kUserDisabled);
  EXPECT_EQ(device_.ledger().calls(&DriverTable::StreamBeginCapture), 0);
}

TEST_F(SessionTest, CallThatDoesNotFitTheSpecIsRejected) {
  const Affine affine = MakeAffine();
  const Affine other = MakeAffine();
  const std::vector<std::function<void(coppice::Call&)>> breakages = {
      [](coppice::Call& call) { call.program = nullptr; },
      [&](coppice::Call& call) { call.program = other.program; },
      [](coppice::Call& call) { call.binding = nullptr; },
      [&](coppice::Call& call) { call.binding = other.binding; },
      [](coppice::Call& call) { call.inputs = {}; },
      [](coppice::Call& call) { call.scalars = {}; },
      [](coppice::Call& call) { call.lane = 1; },
      [](coppice::Call& call) { call.lane = -1; },
      [](coppice::Call& call) { call.stream = nullptr; },
  };
  for (size_t i = 0; i < breakages.size(); ++i) {
    EXPECT_THAT(Call(affine, 4, 2, breakages[i]), StatusIs(kWrongArgument)) << "breakage " << i;
  }
  EXPECT_EQ(affine.session->stats().calls, 0);
}

TEST_F(SessionTest, WrongTensorIsNamedInTheError) {
  const Affine affine = MakeAffine();
  const auto run_with = [&](const std::function<void(Tensor&)>& spoil) {
    Tensor x;
    return Call(affine, 4, 2,
                [&](coppice::Call& call) {
                  x = call.inputs[0];
                  spoil(x);
                  call.inputs = {&x, 1};
                })
        .status();
  };
  for (const auto& spoil : std::vector<std::function<void(Tensor&)>>{
           [](Tensor& x) { x.dtype = DType::kInt32; }, [](Tensor& x) { x.rank = 2; },
           [](Tensor& x) { x.sizes[0] = -1; }, [](Tensor& x) { x.data = 0; }}) {
    EXPECT_THAT(run_with(spoil), StatusIs(kWrongArgument, HasSubstr("'x' of program 'affine'")));
  }
}

TEST_F(SessionTest, AxesOfOneSymbolMustAgree) {
  const std::unique_ptr<Session> session = MakeSession();
  ProgramSpec spec{.name = "sum", .claim = PaddingContents::kRowIndependent};
  const int n = spec.AddSymbol("n", *PaddingPolicy::Pow2(8));
  spec.inputs = {{.name = "x", .dims = {Dim::Symbol(n)}}, {.name = "y", .dims = {Dim::Symbol(n)}}};
  const Program* program = *session->Register(spec, [](CallContext&) { return absl::OkStatus(); });
  const DeviceMemory memory = *device_.Upload(Ramp(4));
  const int64_t three[] = {3};
  const Tensor inputs[] = {FloatsAt(memory.address(), 4),
                           Tensor::Dense(memory.address(), DType::kFloat32, three)};
  EXPECT_THAT(session->Run({.program = program, .inputs = inputs, .stream = device_.stream()}),
              StatusIs(kWrongArgument));
}

TEST_F(SessionTest, EmptyCallRunsInTheSmallestBucket) {
  const Affine affine = MakeAffine();
  for (int i = 0; i < 3; ++i) {
    absl::StatusOr<Lease> lease = Call(affine, 0, 2);
    ASSERT_OK(lease);
    EXPECT_TRUE(Read(*lease).empty());
  }
  EXPECT_THAT(affine.session->nodes()[0].bucket, ElementsAre(1));
}

TEST_F(SessionTest, WorkspaceOfTheLaneReachesTheProgram) {
  std::vector<std::pair<DeviceAddress, int64_t>> seen;
  const Affine affine =
      MakeAffine({.memory = {.workspace_bytes = 4096}}, AffineCallable([&](CallContext& context) {
                   seen.emplace_back(context.workspace(), context.workspace_bytes());
                   return absl::OkStatus();
                 }));
  CallTimes(2, affine, 4);
  ASSERT_EQ(seen.size(), 2U);
  EXPECT_NE(seen[0].first, 0U);
  EXPECT_EQ(seen[0].second, 4096);
  EXPECT_EQ(seen[0], seen[1]);
}

TEST_F(SessionTest, PhaseAndExtentTellTheProgramHowItRuns) {
  std::vector<std::pair<Phase, int64_t>> seen;
  const Affine affine = MakeAffine({}, AffineCallable([&](CallContext& context) {
                                     seen.emplace_back(context.phase(), context.extent(0));
                                     return absl::OkStatus();
                                   }));
  for (const int64_t n : {5, 5, 5, 70})
    ASSERT_OK(Call(affine, n).status());
  EXPECT_THAT(seen, ElementsAre(std::pair(Phase::kWarmUp, int64_t{8}),
                                std::pair(Phase::kRecord, int64_t{8}),
                                std::pair(Phase::kEager, int64_t{70})));
}

TEST_F(SessionTest, LogSaysEachReasonOncePerProgram) {
  std::vector<std::string> lines;
  const Affine affine =
      MakeAffine({.log = [&](const std::string& line) { lines.push_back(line); }});
  for (const int64_t n : {4, 4, 4, 8, 8, 70, 70})
    ASSERT_OK(Call(affine, n).status());
  EXPECT_THAT(lines, ElementsAre(HasSubstr("new_bucket"), HasSubstr("over_largest_bucket")));
}

TEST_F(SessionTest, StatsCountCallsByPathAndReasonAndPadding) {
  const Affine affine = MakeAffine();
  for (const int64_t n : {3, 3, 3, 70})
    ASSERT_OK(Call(affine, n).status());
  const SessionStats stats = affine.session->stats();
  EXPECT_EQ(stats.calls, 4);
  EXPECT_THAT(stats.runs, ElementsAre(1, 1, 1, 1, 0));
  EXPECT_EQ(stats.reasons[static_cast<size_t>(Reason::kNewBucket)], 2);
  EXPECT_EQ(stats.reasons[static_cast<size_t>(Reason::kOverLargestBucket)], 1);
  EXPECT_EQ(stats.real_elements, 9);
  EXPECT_EQ(stats.padded_elements, 12);
}

TEST_F(SessionTest, NodesDescribeWhatWasRecorded) {
  const Affine affine = MakeAffine();
  for (const int64_t n : {3, 3, 3, 7})
    ASSERT_OK(Call(affine, n).status());
  const std::vector<NodeInfo> nodes = affine.session->nodes();
  ASSERT_EQ(nodes.size(), 2U);
  EXPECT_EQ(nodes[0].program, "affine");
  EXPECT_THAT(nodes[0].bucket, ElementsAre(4));
  EXPECT_TRUE(nodes[0].recorded);
  EXPECT_EQ(nodes[0].graph_nodes, 3);
  EXPECT_EQ(nodes[0].replays, 2);
  EXPECT_EQ(nodes[0].plan_height, 2 * kBufferAlignment);
  EXPECT_FALSE(nodes[1].recorded);
}

TEST_F(SessionTest, StickyErrorAnswersEveryLaterCall) {
  const Affine affine = MakeAffine();
  ASSERT_OK(Call(affine, 4).status());
  const DeviceAddress freed = device_.Upload(Ramp(4))->address();
  const Tensor wild = FloatsAt(freed, 4);
  ASSERT_OK(Call(affine, 4, 2, [&](coppice::Call& call) { call.inputs = {&wild, 1}; }).status());
  EXPECT_FALSE(device_.Synchronize().ok());
  const int64_t scalar = std::bit_cast<int64_t>(2.0);
  const coppice::Call call{.program = affine.program,
                           .binding = affine.binding,
                           .inputs = {&wild, 1},
                           .scalars = {&scalar, 1},
                           .stream = device_.stream()};
  const absl::Status first = affine.session->Run(call).status();
  EXPECT_EQ(CuResultOf(first), CuResult::kIllegalAddress);
  const int64_t before = device_.ledger().calls();
  EXPECT_EQ(affine.session->Run(call).status(), first);
  EXPECT_EQ(device_.ledger().calls(), before);
}

}  // namespace
}  // namespace coppice
