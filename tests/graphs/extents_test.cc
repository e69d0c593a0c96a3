// Goal: sizes that expressions compute do what program.h and graphs/call/extents.h say, however a
// call runs. Method: a program that doubles its inputs at the padded extents, on the emulator; what
// its leases show is compared with the host, element by element.

#include "tests/graphs/extents_fixture.h"

namespace coppice {
namespace {

class ExtentsTest : public ExtentsFixture {
 protected:
  // Expects a refusal that says all of it.
  static void ExpectRefused(const absl::Status& status, const std::vector<std::string>& texts) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    for (const std::string& text : texts)
      EXPECT_THAT(std::string(status.message()), HasSubstr(text));
  }
};

TEST_F(ExtentsTest, AnAxisFollowsItsExpressionAndIsPaddedWithItsSymbols) {
  Open(DoublesSpec());
  const RunKind kinds[] = {RunKind::kWarmUp, RunKind::kRecord, RunKind::kReplay, RunKind::kReplay};
  const int64_t extents[] = {5, 7, 6, 8};
  for (size_t i = 0; i < 4; ++i) {
    const int64_t n = extents[i];
    ExpectCall(kinds[i], {{n}, {2 * n}}, {{n}, {2 * n}});
  }
  EXPECT_THAT(Buckets(), ElementsAre(ElementsAre(8)));
  ExpectCall(RunKind::kWarmUp, {{9}, {18}}, {{9}, {18}});
}

TEST_F(ExtentsTest, PaddingOfAnExpressionIsFilledAsItsInputSays) {
  ProgramSpec spec = DoublesSpec();
  spec.inputs[1].fill = Fill::Value(3);
  std::vector<float> seen;
  Open(spec, {}, DoubleAll([&](CallContext& context) {
         const Tensor& w = context.input(1);
         EXPECT_EQ(w.sizes[0], 16);
         if (context.phase() == Phase::kWarmUp) seen = device_.Download<float>(w.data, 16);
         return absl::OkStatus();
       }));
  ExpectCall(RunKind::kWarmUp, {{5}, {10}}, {{5}, {10}});
  std::vector<float> expected = Ramp(10);
  expected.resize(16, 3);
  EXPECT_EQ(seen, expected);
}

TEST_F(ExtentsTest, PoisonInThePaddingOfAnExpressionReachesNoLiveElement) {
  Open(DoublesSpec());
  for (const int64_t n : {5, 6, 7, 8}) {
    const absl::StatusOr<Lease> lease =
        Run({{n}, {2 * n}}, {.adjust = [](coppice::Call& call) { call.poison = Poison::kNan; }});
    ASSERT_OK(lease);
    ExpectOutputs(*lease, {{n}, {2 * n}});
  }
}

TEST_F(ExtentsTest, AxisThatIsNotItsExpressionIsRefusedByName) {
  Open(DoublesSpec());
  ExpectRefused(Run({{5}, {9}}).status(),
                {"axis 0", "input 'w'", "program 'p'", "size 9", "'2*n'", "is 10", "n = 5"});
  EXPECT_EQ(last_.status.code(), absl::StatusCode::kInvalidArgument);
  ExpectRefused(Run({{0}, {1}}).status(), {"size 1", "is 0"});
  EXPECT_TRUE(session_->nodes().empty());
}

TEST_F(ExtentsTest, AxesOfOneExpressionAreTied) {
  ProgramSpec spec = DoublesSpec();
  spec.inputs.push_back({.name = "v", .dims = {spec.inputs[1].dims[0]}});
  Open(spec);
  EXPECT_OK(Run({{5}, {10}, {10}}));
  ExpectRefused(Run({{5}, {10}, {11}}).status(), {"input 'v'", "11", "'2*n' (10)"});
}

TEST_F(ExtentsTest, WrongInputSaysWhatItsSymbolsAreElsewhere) {
  ProgramSpec spec = SpecOf({"n"});
  spec.inputs = {{.name = "x", .dims = {Dim::Symbol(0)}}, {.name = "w", .dims = {Dim::Symbol(0)}}};
  Open(spec);
  ExpectRefused(Run({{5}, {6}}).status(), {"input 'w'", "[ 6 ]", "[ n (5) ]"});
}

TEST_F(ExtentsTest, SumsProductsAndQuotientsAreExtents) {
  ProgramSpec spec = SpecOf({"n", "m"});
  const Dim n = Dim::Symbol(0);
  const Dim m = Dim::Symbol(1);
  spec.inputs = {{.name = "x", .dims = {n, m}}, {.name = "w", .dims = {spec.AddExtent("n + m")}}};
  spec.outputs = {
      {.name = "y", .dims = {n, m}},
      {.name = "s", .dims = {spec.AddExtent("n + m")}},
      {.name = "p", .dims = {spec.AddExtent("n*m")}},
      {.name = "q", .dims = {spec.AddExtent("ceildiv(n, 4)"), spec.AddExtent("m + 1")}}};
  EXPECT_EQ(spec.extents.size(), 4U);
  Open(spec);
  const auto run = [&](RunKind kind, int64_t rows, int64_t columns) {
    ExpectCall(
        kind, {{rows, columns}, {rows + columns}},
        {{rows, columns}, {rows + columns}, {rows * columns}, {(rows + 3) / 4, columns + 1}});
  };
  run(RunKind::kWarmUp, 5, 3);
  run(RunKind::kRecord, 7, 4);
  run(RunKind::kReplay, 6, 3);
  run(RunKind::kWarmUp, 3, 3);
}

TEST_F(ExtentsTest, BothAxesOfAnInputArePaddedToTheirExpressions) {
  ProgramSpec spec = SpecOf({"n"});
  const Dims dims = {spec.AddExtent("n + 1"), spec.AddExtent("3*n")};
  spec.inputs = {{.name = "x", .dims = dims}, {.name = "n", .dims = {Dim::Symbol(0)}}};
  spec.outputs = {{.name = "y", .dims = dims}, {.name = "z", .dims = {Dim::Symbol(0)}}};
  Open(spec);
  for (const int64_t n : {3, 4, 3, 4, 5})
    EXPECT_OK(Run({{n + 1, 3 * n}, {n}})) << n;
  ExpectCall(RunKind::kReplay, {{4, 9}, {3}}, {{4, 9}, {3}});
}

TEST_F(ExtentsTest, StridesAreExpressionsToo) {
  ProgramSpec spec = SpecOf({"n", "m"});
  const Dims dims = {Dim::Symbol(0), Dim::Symbol(1)};
  const Dims strides = {spec.AddExtent("m + 3"), Dim::Fixed(1)};
  spec.inputs = {{.name = "x", .dims = dims, .strides = strides}};
  spec.outputs = {{.name = "y", .dims = dims, .strides = strides}};
  Open(spec);
  for (const RunKind kind : {RunKind::kWarmUp, RunKind::kRecord, RunKind::kReplay})
    ExpectCall(kind, {{3, 5}}, {{3, 5}});
  ExpectCall(RunKind::kReplay, {{4, 8}}, {{4, 8}});
  const absl::StatusOr<Lease> lease = Run({{3, 5}});
  ASSERT_OK(lease);
  EXPECT_EQ(lease->Read(device_.stream())->output(0).strides[0], 11);
}

TEST_F(ExtentsTest, ExtentsMayBeZero) {
  Open(DoublesSpec());
  for (const RunKind kind : {RunKind::kWarmUp, RunKind::kRecord, RunKind::kReplay})
    ExpectCall(kind, {{0}, {0}}, {{0}, {0}});
}

TEST_F(ExtentsTest, ScalarsOfTheKeyAreSizesToo) {
  ProgramSpec spec = SpecWith("n*k + k", {"n"});
  spec.outputs.push_back({.name = "o", .dims = {spec.AddExtent("k")}});
  spec.scalars = {{.name = "k"}, {.name = "step", .device_resident = true}};
  Open(spec);
  for (const RunKind kind : {RunKind::kWarmUp, RunKind::kRecord, RunKind::kReplay}) {
    ExpectCall(kind, {{5}, {6}}, {{5}, {6}, {1}}, {.scalars = {1, 9}});
    ExpectCall(kind, {{5}, {18}}, {{5}, {18}, {3}}, {.scalars = {3, 9}});
  }
  EXPECT_EQ(session_->nodes().size(), 2U);
  ExpectRefused(Run({{5}, {18}}, {.scalars = {2, 9}}).status(), {"size 18", "is 12", "k = 2"});
}

TEST_F(ExtentsTest, CallablesReadPaddedExtentsOfAnyDim) {
  ProgramSpec spec = DoublesSpec();
  const Dim twice = spec.AddExtent("2*n");
  const Dim unused = spec.AddExtent("n + 3");
  std::vector<int64_t> read;
  Open(spec, {}, DoubleAll([&](CallContext& context) {
         read = {context.extent(0), context.extent(Dim::Symbol(0)), context.extent(twice),
                 context.extent(unused), context.extent(Dim::Fixed(9))};
         return absl::OkStatus();
       }));
  EXPECT_OK(Run({{5}, {10}}));
  EXPECT_THAT(read, ElementsAre(8, 8, 16, 11, 9));
  EXPECT_OK(Run({{70}, {140}}));
  EXPECT_THAT(read, ElementsAre(70, 70, 140, 73, 9));
}

TEST_F(ExtentsTest, CallOverTheLargestBucketHasItsOwnComputedExtents) {
  Open(DoublesSpec());
  ExpectCall(RunKind::kEager, {{70}, {140}}, {{70}, {140}});
  EXPECT_EQ(last_.reason, Reason::kOverLargestBucket);
}

TEST_F(ExtentsTest, NegativeExtentsAreRefusedByName) {
  Open(SpecWith("n - m", {"n", "m"}));
  EXPECT_OK(Run({{8}, {4}, {4}}));
  ExpectRefused(Run({{4}, {8}, {0}}).status(), {"'n - m'", "is -4", "n = 4, m = 8"});
}

TEST_F(ExtentsTest, ExtentsWithoutAValueAreRefusedByName) {
  Open(SpecWith("8 // n", {"n"}));
  EXPECT_OK(Run({{8}, {1}}));
  ExpectRefused(Run({{0}, {0}}).status(), {"'8 // n'", "n = 0", "division by zero"});
  Open(SpecWith("n * 4611686018427387904", {"n"}));
  ExpectRefused(Run({{2}, {0}}).status(), {"n = 2", "overflow"});
}

TEST_F(ExtentsTest, CallWhoseExpressionIsSmallerInTheBucketRunsAtItsOwnExtents) {
  Open(SpecWith("n - m", {"n", "m"}));
  for (int i = 0; i < 3; ++i) {
    ExpectCall(RunKind::kEager, {{7}, {5}, {2}}, {{7}, {5}, {2}});
    EXPECT_EQ(last_.reason, Reason::kUnpaddedExtent);
  }
  EXPECT_THAT(last_.text, HasSubstr("'n - m' is 2, but 0 in the bucket (n = 8, m = 8)"));
  EXPECT_TRUE(session_->nodes().empty());
  // The bucket of these symbols is there for calls that fit.
  for (const RunKind kind : {RunKind::kWarmUp, RunKind::kRecord, RunKind::kReplay})
    ExpectCall(kind, {{7}, {7}, {0}}, {{7}, {7}, {0}});
  ExpectCall(RunKind::kEager, {{7}, {5}, {2}}, {{7}, {5}, {2}});
}

TEST_F(ExtentsTest, CallWhoseExpressionHasNoValueInTheBucketRunsAtItsOwnExtents) {
  Open(SpecWith("12 // (8 - n)", {"n"}));
  ExpectCall(RunKind::kEager, {{6}, {6}}, {{6}, {6}});
  EXPECT_THAT(last_.text, HasSubstr("division by zero"));
  EXPECT_EQ(last_.reason, Reason::kUnpaddedExtent);
}

TEST_F(ExtentsTest, CallWhoseBucketIsLargerThanAnyDeviceRunsAtItsOwnExtents) {
  Open(SpecWith("(n - 5) * 576460752303423488", {"n"}));
  ExpectCall(RunKind::kEager, {{5}, {0}}, {{5}, {0}});
  EXPECT_THAT(last_.text, HasSubstr("in the bucket, 'w' is larger than the memory of any device"));
  std::vector<Tensor> inputs = {Upload({6}), Upload({1})};
  inputs[1].sizes[0] = int64_t{1} << 59;
  EXPECT_THAT(RunOn(inputs), StatusIs(kExhausted));
}

TEST_F(ExtentsTest, StrictModeRefusesWhatCannotBePadded) {
  Open(SpecWith("n - m", {"n", "m"}));
  session_->SetStance(Stance::kStrict);
  EXPECT_THAT(Run({{7}, {5}, {2}}), StatusIs(kRefused, HasSubstr("unpadded_extent")));
}

TEST_F(ExtentsTest, StaticSymbolsPadNoExpression) {
  ProgramSpec spec = SpecWith("n - m", {"n", "m"});
  for (SymbolSpec& symbol : spec.symbols)
    symbol.kind = SymbolKind::kStatic;
  Open(spec);
  for (const RunKind kind : {RunKind::kWarmUp, RunKind::kRecord, RunKind::kReplay})
    ExpectCall(kind, {{7}, {5}, {2}}, {{7}, {5}, {2}});
}

TEST_F(ExtentsTest, EqualExtentsOfAxesAreGuardsThatNameTheAxes) {
  ProgramSpec spec = SpecOf({"n", "m", "k"});
  for (int i = 0; i < 3; ++i) {
    spec.inputs.push_back(
        {.name = "x" + std::to_string(i), .dims = {Dim::Fixed(1), Dim::Symbol(i)}});
    spec.outputs.push_back({.name = "y" + std::to_string(i), .dims = spec.inputs.back().dims});
  }
  spec.guards = {"k == n + m", "n == m"};
  Open(spec);
  EXPECT_OK(Run({{1, 4}, {1, 4}, {1, 8}}));
  ExpectRefused(Run({{1, 4}, {1, 4}, {1, 9}}).status(),
                {"'k == n + m'", "k = 9, n = 4, m = 4", "k is axis 1 of input 'x2'",
                 "n is axis 1 of input 'x0'", "m is axis 1 of input 'x1'"});
  ExpectRefused(Run({{1, 5}, {1, 4}, {1, 9}}).status(), {"'n == m'", "n = 5, m = 4"});
}

TEST_F(ExtentsTest, CopiedOutputsHaveComputedExtents) {
  Open(DoublesSpec(), {.memory = {.copy_out_bytes = 4096}});
  const auto out = [](coppice::Call& call) { call.output_mode = OutputMode::kCopyOut; };
  for (const RunKind kind : {RunKind::kWarmUp, RunKind::kRecord, RunKind::kReplay})
    ExpectCall(kind, {{5}, {10}}, {{5}, {10}}, {.adjust = out});
}

TEST_F(ExtentsTest, TargetsHaveComputedExtents) {
  Open(DoublesSpec());
  std::vector<Tensor> targets = {Upload({5}), Upload({10})};
  const auto into = [&](coppice::Call& call) {
    call.output_mode = OutputMode::kWriteInto;
    call.targets = targets;
  };
  for (const RunKind kind : {RunKind::kWarmUp, RunKind::kRecord, RunKind::kReplay})
    ExpectCall(kind, {{5}, {10}}, {{5}, {10}}, {.adjust = into});
  targets[1] = Upload({16});
  ExpectRefused(Run({{5}, {10}}, {.adjust = into}).status(), {"'z'"});
}

TEST_F(ExtentsTest, MutatedInputsAreWrittenBackAtTheirRealExtents) {
  ProgramSpec spec = DoublesSpec();
  spec.inputs[1].mutated = true;
  spec.outputs.pop_back();
  Open(spec, {}, DoubleAll([this](CallContext& context) {
         const Tensor& w = context.input(1);
         return AddOnto(context, w.data, w.data, w.data, w.element_count());
       }));
  for (int i = 0; i < 3; ++i) {
    const std::vector<Tensor> inputs = {Upload({5}), Upload({16})};
    std::vector<Tensor> shorter = inputs;
    shorter[1].sizes[0] = 10;
    ASSERT_OK(RunOn(shorter));
    std::vector<float> expected = Ramp(16);
    for (size_t element = 0; element < 10; ++element)
      expected[element] *= 2;
    EXPECT_EQ(Elements(inputs[1]), expected);
  }
}

TEST_F(ExtentsTest, AliasesOfInputsHaveComputedExtents) {
  ProgramSpec spec = DoublesSpec();
  spec.outputs.push_back({.name = "alias", .dims = {spec.AddExtent("2*n")}});
  Open(spec, {}, [this](CallContext& context) -> absl::Status {
    COPPICE_RETURN_IF_ERROR(DoubleAll()(context));
    return context.AliasOutput(2, context.input(1).data);
  });
  outputs_ = 2;
  for (int i = 0; i < 3; ++i) {
    const absl::StatusOr<Lease> lease = Run({{5}, {10}});
    ASSERT_OK(lease);
    const absl::StatusOr<ReadScope> scope = lease->Read(device_.stream());
    ASSERT_OK(scope);
    EXPECT_EQ(Elements(scope->output(2)), Ramp(10));
  }
}

TEST_F(ExtentsTest, ProgramsInPiecesHaveComputedExtents) {
  int breaks = 0;
  Open(DoublesSpec(), {}, DoubleAll([&](CallContext& context) {
         return context.Break([&breaks](CuStream) {
           ++breaks;
           return absl::OkStatus();
         });
       }));
  for (const RunKind kind : {RunKind::kWarmUp, RunKind::kRecord, RunKind::kReplay})
    ExpectCall(kind, {{6}, {12}}, {{6}, {12}});
  EXPECT_EQ(breaks, 3);
}

TEST_F(ExtentsTest, RecordingsInTheBackgroundHaveComputedExtents) {
  ProgramSpec spec = DoublesSpec();
  spec.thread_safe = true;
  Open(spec, {.record_in_background = true}, DoubleAll([](CallContext& context) {
         return context.extent(Dim::Extent(0)) == 2 * context.extent(0)
                    ? absl::OkStatus()
                    : absl::InternalError("another extent");
       }));
  EXPECT_OK(Run({{5}, {10}}));
  EXPECT_OK(Run({{6}, {12}}));
  session_->WaitForRecordings();
  ExpectCall(RunKind::kReplay, {{7}, {14}}, {{7}, {14}});
}

TEST_F(ExtentsTest, IncludedProgramsHaveComputedExtents) {
  Open(DoublesSpec());
  EXPECT_OK(Run({{5}, {10}}));
  const std::vector<Tensor> inputs = {Upload({6}), Upload({12})};
  const DriverTable& cu = device_.driver().table();
  ASSERT_EQ(cu.StreamBeginCapture(device_.stream(), CuCaptureMode::kThreadLocal),
            CuResult::kSuccess);
  absl::StatusOr<Lease> lease =
      session_->Include({.program = program_, .inputs = inputs, .stream = device_.stream()});
  CuGraph graph = nullptr;
  ASSERT_EQ(cu.StreamEndCapture(device_.stream(), &graph), CuResult::kSuccess);
  ASSERT_OK(lease);
  CuGraphExec exec = nullptr;
  ASSERT_EQ(cu.GraphInstantiateWithFlags(&exec, graph, 0), CuResult::kSuccess);
  ASSERT_EQ(cu.GraphLaunch(exec, device_.stream()), CuResult::kSuccess);
  ExpectOutputs(*lease, {{6}, {12}});
  EXPECT_OK(device_.Synchronize());
  EXPECT_EQ(cu.GraphExecDestroy(exec), CuResult::kSuccess);
  EXPECT_EQ(cu.GraphDestroy(graph), CuResult::kSuccess);
}

TEST_F(ExtentsTest, OutputOfAComputedSizeIsReadInPlaceByTheNextCall) {
  ProgramSpec spec = DoublesSpec();
  spec.inputs[1].fill = Fill::Undefined();
  Open(spec);
  std::vector<Tensor> inputs = {Upload({5}), Upload({10})};
  std::vector<float> expected = Ramp(10);
  Lease kept;
  for (int step = 0; step < 8; ++step) {
    absl::StatusOr<Lease> lease = RunOn(inputs);
    ASSERT_OK(lease);
    const absl::StatusOr<ReadScope> scope = lease->Read(device_.stream());
    ASSERT_OK(scope);
    inputs[1] = scope->output(1);
    for (float& value : expected)
      value *= 2;
    EXPECT_EQ(Elements(inputs[1]), expected);
    kept = *std::move(lease);
  }
  EXPECT_GT(session_->stats().inputs_in_place, 3);
}

TEST_F(ExtentsTest, WarmedBucketsReplay) {
  ProgramSpec spec = SpecWith("n*k - m", {"n", "m"});
  spec.scalars = {{.name = "k"}};
  Open(spec);
  const int64_t scalars[] = {3};
  ASSERT_OK(session_->warming().Warm(*program_, nullptr, {{{8, 4}, {16, 4}}}, scalars, {}));
  session_->SetStance(Stance::kStrict);
  ExpectCall(RunKind::kReplay, {{7}, {4}, {17}}, {{7}, {4}, {17}}, {.scalars = {3}});
  ExpectCall(RunKind::kReplay, {{16}, {4}, {44}}, {{16}, {4}, {44}}, {.scalars = {3}});
  EXPECT_THAT(Run({{7}, {4}, {10}}, {.scalars = {2}}), StatusIs(kRefused));
}

TEST_F(ExtentsTest, BucketsWithoutExtentsCannotBeWarmed) {
  Open(SpecWith("n - m", {"n", "m"}));
  ExpectRefused(session_->warming().Warm(*program_, nullptr, {{{8, 16}}}, {}, {}),
                {"Session::Warm", "'n - m'", "-8", "n = 8, m = 16"});
  Open(SpecWith("n * 576460752303423488", {"n"}));
  EXPECT_THAT(session_->warming().Warm(*program_, nullptr, {{{1}}}, {}, {}), StatusIs(kExhausted));
}

// One block of four has as many quarters as its bucket, so that only some calls below it are
// padded.
TEST_F(ExtentsTest, AWarmedChainReplaysWhereverItsExpressionsAreBelowTheBucket) {
  ProgramSpec spec = SpecOf({"n"});
  const Dims blocks = {spec.AddExtent("ceildiv(n, 4)")};
  spec.inputs = {{.name = "x", .dims = {Dim::Symbol(0)}}, {.name = "b", .dims = blocks}};
  spec.outputs = {{.name = "y", .dims = {Dim::Symbol(0)}}, {.name = "c", .dims = blocks}};
  Open(spec);
  const WarmStep chain[] = {
      {.program = program_, .bucket = {16}},
      {.program = program_, .bucket = {16}, .feeds = {{.input = 1, .step = 1, .output = 1}}}};
  ASSERT_OK(session_->warming().Warm(chain, {}));
  session_->SetStance(Stance::kStrict);
  for (const int64_t n : {16, 15, 13, 12, 9}) {
    std::vector<Tensor> inputs = {Upload({n}), Upload({(n + 3) / 4})};
    Lease kept;
    for (int step = 0; step < 5; ++step) {
      absl::StatusOr<Lease> lease = RunOn(inputs);
      ASSERT_OK(lease) << "step " << step << " at extent " << n;
      const absl::StatusOr<ReadScope> scope = lease->Read(device_.stream());
      ASSERT_OK(scope);
      inputs[1] = scope->output(1);
      EXPECT_EQ(inputs[1].sizes[0], (n + 3) / 4);
      kept = *std::move(lease);
    }
  }
  EXPECT_GT(session_->stats().inputs_filled, 0);
  EXPECT_GT(session_->stats().inputs_in_place, 0);
}

TEST_F(ExtentsTest, RanksThatTakeALargerBucketComputeItsExtents) {
  SessionOptions options;
  options.ranks.vote = [](RankVote& vote) {
    vote.unanimous = vote.bucket[0] == 32;
    vote.bucket[0] = 32;
    return absl::OkStatus();
  };
  std::vector<int64_t> seen;
  Open(DoublesSpec(), options, DoubleAll([&](CallContext& context) {
         seen.push_back(context.extent(Dim::Extent(0)));
         return absl::OkStatus();
       }));
  for (const RunKind kind : {RunKind::kWarmUp, RunKind::kRecord, RunKind::kReplay}) {
    const absl::StatusOr<Lease> lease = Run({{5}, {10}});
    ASSERT_OK(lease);
    EXPECT_EQ(lease->kind(), kind);
    ExpectOutputs(*lease, {{5}, {10}});
  }
  EXPECT_THAT(seen, ElementsAre(64, 64));
}

TEST_F(ExtentsTest, RanksThatTakeABucketWhereNothingFitsRunAtTheirOwnExtents) {
  SessionOptions options;
  options.ranks.vote = [](RankVote& vote) {
    vote.unanimous = vote.bucket[1] == 8;
    vote.bucket[1] = 8;
    return absl::OkStatus();
  };
  Open(SpecWith("n - m", {"n", "m"}), options);
  const absl::StatusOr<Lease> lease = Run({{8}, {4}, {4}});
  ASSERT_OK(lease);
  EXPECT_EQ(lease->reason(), Reason::kUnpaddedExtent);
  ExpectOutputs(*lease, {{8}, {4}, {4}});
}

TEST_F(ExtentsTest, DynamicAxesAreNoExpressionsBefore) {
  ProgramSpec spec = DoublesSpec();
  EXPECT_THAT(spec.AddDynamicAxes("w:0", *PaddingPolicy::Pow2(8)), StatusIs(kWrongArgument));
}

}  // namespace
}  // namespace coppice
