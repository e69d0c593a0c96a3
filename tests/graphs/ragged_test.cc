// Goal: what sessions do with packed rows, as program.h says of RaggedSpec. Method: programs that
// show what they see, in every way to run, against the host's loop over sequences.

#include "coppice/runtime/graph.h"
#include "coppice/runtime/stream.h"

#include "tests/graphs/ragged_fixture.h"

namespace coppice {
namespace {

using absl::StatusCode;

class RaggedTest : public RaggedFixture {
 protected:
  static constexpr Form kPackedForm = {.rectangle = false};
  static constexpr Form kRectangleForm = {.rectangle = true};
};

TEST_F(RaggedTest, RowsAreThoseOfTheirSequencesHoweverTheCallRuns) {
  for (const Form& form : Forms()) {
    SCOPED_TRACE(form.name());
    Open(form);
    ExpectCall(RunKind::kWarmUp, {3, 0, 1, 2});
    ExpectCall(RunKind::kRecord, {2, 3, 1});
    ExpectCall(RunKind::kReplay, {1, 1, 3, 3});
    ExpectCall(RunKind::kReplay, {0, 2, 3});
    session_->SetStance(Stance::kEager);
    ExpectCall(RunKind::kEager, {3, 0, 1, 2});
  }
}

TEST_F(RaggedTest, SequencesAndBatchesMayBeEmpty) {
  for (const Form& form : Forms()) {
    SCOPED_TRACE(form.name());
    Open(form);
    for (int i = 0; i < 3; ++i) {
      for (const Lengths& lengths : {Lengths{0}, Lengths{0, 0, 0}, Lengths{0, 4}, Lengths{4, 0}}) {
        const absl::StatusOr<Lease> lease = Run(Bring(lengths));
        ASSERT_OK(lease);
        ExpectOutputs(*lease, lengths);
      }
      const absl::StatusOr<Lease> none = Run(Bring({}));
      ASSERT_OK(none);
      EXPECT_EQ(RowsOf(*none), 0);
    }
  }
}

TEST_F(RaggedTest, ADryRunRequestsWhatARunDoes) {
  for (const Form& form : Forms()) {
    SCOPED_TRACE(form.name());
    std::vector<int64_t> bucket = {2, 8};
    if (form.rectangle) bucket.push_back(4);
    Open(form);
    ASSERT_OK(session_->warming().Warm(*program_, nullptr, {{bucket}}, {}, {}));
    const int64_t height = session_->nodes().at(0).plan_height;
    const std::unique_ptr<Session> session = MakeSession();
    const auto dry_run = [](CallContext& context) -> absl::Status {
      EXPECT_EQ(context.offsets(0).sizes[0], context.extent(kCount) + 1);
      for (int output = 0; output < 4; ++output)
        COPPICE_RETURN_IF_ERROR(context.AllocateOutput(output).status());
      return absl::OkStatus();
    };
    const Program* const program = *session->Register(SpecOf(form), RowsCallable(), dry_run);
    COPPICE_ASSERT_OK_AND_ASSIGN(const std::vector<PlannedBucket> planned,
                                 session->warming().Plan(*program, {{bucket}}, {}));
    EXPECT_EQ(planned.at(0).plan_height, height);
    EXPECT_OK(session->warming().Warm(*program, nullptr, {{bucket}}, {}, {}));
    EXPECT_EQ(session->nodes().at(0).plan_height, height);
  }
}

TEST_F(RaggedTest, RowsBeyondThoseOfTheSequencesAreNobodys) {
  for (const Form& form : Forms()) {
    SCOPED_TRACE(form.name());
    Open(form);
    ExpectCall(RunKind::kWarmUp, {3, 0, 1, 2}, 8);
    ExpectCall(RunKind::kRecord, {2, 3, 1}, 7);
    ExpectCall(RunKind::kReplay, {0, 3, 0}, 5);
    ExpectCall(RunKind::kReplay, {4, 0, 3}, 8);
  }
}

TEST_F(RaggedTest, DrawnBatchesAreAsTheHostHasThem) {
  std::mt19937_64 random(TestSeed());
  const auto below = [&](int64_t end) {
    return static_cast<int64_t>(random() % static_cast<uint64_t>(end));
  };
  for (const Form& form : Forms()) {
    SCOPED_TRACE(form.name());
    Open(form);
    for (int64_t i = 0; i < std::max<int64_t>(20 / TestShare(), 4); ++i) {
      Lengths lengths;
      for (int64_t count = below(kSequencesMax) + 1; count > 0; --count)
        lengths.push_back(below(3) == 0 ? 0 : below(15));
      const int64_t rows = std::min(TotalOf(lengths) + (below(2) == 0 ? 0 : below(20)), kRowsMax);
      const Inputs inputs = Bring(lengths, rows);
      RunKind kind = RunKind::kWarmUp;
      for (int run = 0; run < 3; ++run) {
        const absl::StatusOr<Lease> lease = Run(inputs);
        ASSERT_OK(lease);
        ExpectOutputs(*lease, lengths, rows);
        kind = lease->kind();
      }
      EXPECT_EQ(kind, RunKind::kReplay);
    }
  }
}

TEST_F(RaggedTest, ManySequencesAreScannedInRounds) {
  Lengths lengths;
  for (int64_t i = 0; i < 700; ++i)
    lengths.push_back(i % 3);
  for (Form form : Forms()) {
    SCOPED_TRACE(form.name());
    form_ = form;
    session_ = MakeSession();
    ProgramSpec spec = SpecOf(form);
    spec.symbols[kCount].policy = *PaddingPolicy::Pow2(1024);
    spec.symbols[kTotal].policy = *PaddingPolicy::Pow2(1024);
    spec.outputs[kStarts].dims = {Dim::Fixed(1025)};
    program_ = *session_->Register(std::move(spec), RowsCallable());
    for (int i = 0; i < 3; ++i) {
      const absl::StatusOr<Lease> lease = Run(Bring(lengths));
      ASSERT_OK(lease);
      EXPECT_EQ(ElementsOf(*lease, kY), Expected(lengths, TotalOf(lengths), none()));
      EXPECT_EQ(ElementsOf(*lease, kSeen), ExpectedSeen(lengths, TotalOf(lengths)));
      const std::vector<int64_t> starts = StartsOf(*lease, 1025);
      EXPECT_EQ(starts[500], 499);  // Of 0, 1, 2, 0, 1, 2 and so on.
      EXPECT_EQ(starts[700], TotalOf(lengths));
      EXPECT_EQ(starts[1024], TotalOf(lengths));
    }
  }
}

TEST_F(RaggedTest, OneLaunchStagesACall) {
  for (const Form& form : Forms()) {
    SCOPED_TRACE(form.name());
    Open(form);
    ExpectCall(RunKind::kWarmUp, {3, 0, 1, 2});
    ExpectCall(RunKind::kRecord, {3, 0, 1, 2});
    const Inputs inputs = Bring({1, 2, 3});
    const int64_t launches = device_.ledger().calls(&DriverTable::LaunchKernel);
    const int64_t graphs = device_.ledger().calls(&DriverTable::GraphLaunch);
    ASSERT_OK(Run(inputs));
    EXPECT_EQ(device_.ledger().calls(&DriverTable::LaunchKernel) - launches, 1);
    EXPECT_EQ(device_.ledger().calls(&DriverTable::GraphLaunch) - graphs, 1);
  }
}

TEST_F(RaggedTest, LengthsMayBeKnownToTheDeviceAlone) {
  for (const Form& form : Forms()) {
    SCOPED_TRACE(form.name());
    Open(form);
    const Inputs inputs = Bring({1, 1, 1}, 9);
    Inputs other = Bring({4, 0, 5}, 9);
    other.tensors[0] = inputs.tensors[0];
    // The rows of the longest are what the host allows for.
    if (form.rectangle) other.extents = {5};
    for (const Lengths& lengths : {Lengths{1, 1, 1}, Lengths{4, 0, 5}, Lengths{2, 3, 1}}) {
      // Written by the stream, before the call that reads it.
      const Tensor now = Bring(lengths).tensors[0];
      ASSERT_OK(device_.driver().Call<&DriverTable::MemcpyDtoDAsync>(
          inputs.tensors[0].data, now.data,
          static_cast<size_t>(now.element_count() * SizeOf(now.dtype)), device_.stream()));
      const absl::StatusOr<Lease> lease = Run(other);
      ASSERT_OK(lease);
      EXPECT_EQ(ElementsOf(*lease, kY), Expected(lengths, 9, none()));
      EXPECT_EQ(RowsOf(*lease), TotalOf(lengths));
    }
  }
}

TEST_F(RaggedTest, LengthsAreHeldToTheRowsThereAre) {
  for (const DType dtype : {DType::kInt32, DType::kInt64}) {
    for (const bool rectangle : {false, true}) {
      Open({.rectangle = rectangle, .dtype = dtype});
      const int64_t huge = dtype == DType::kInt32 ? std::numeric_limits<int32_t>::max()
                                                  : std::numeric_limits<int64_t>::max();
      for (const auto& [said, held] :
           {std::pair<Lengths, Lengths>{{2, -7, 3}, {2, 0, 3}},
            std::pair<Lengths, Lengths>{{4, huge, huge, 1}, {4, 2, 0, 0}},
            std::pair<Lengths, Lengths>{{-huge, 9}, {0, 6}}}) {
        Inputs inputs = Bring(held, 6);
        inputs.tensors[0] = UploadIntegers(said);
        const absl::StatusOr<Lease> lease = Run(inputs);
        ASSERT_OK(lease);
        ExpectOutputs(*lease, held, 6);
      }
    }
  }
}

TEST_F(RaggedTest, OffsetsAreHeldToTheRowsThereAre) {
  for (const bool rectangle : {false, true}) {
    Open({.rectangle = rectangle, .by = By::kOffsets});
    for (const auto& [said, held] : {std::pair<Lengths, Lengths>{{0, 2, 1, 4}, {2, 0, 3}},
                                     std::pair<Lengths, Lengths>{{0, 4, 90, 91}, {4, 2, 0}},
                                     std::pair<Lengths, Lengths>{{-9, -2, 3, 6}, {0, 3, 3}}}) {
      Inputs inputs = Bring(held, 6);
      inputs.tensors[0] = UploadIntegers(said);
      const absl::StatusOr<Lease> lease = Run(inputs);
      ASSERT_OK(lease);
      ExpectOutputs(*lease, held, 6);
    }
  }
}

TEST_F(RaggedTest, OffsetsMayBeginBehindTheFirstRow) {
  Open({.rectangle = true, .by = By::kOffsets});
  Inputs inputs = Bring({1, 2}, 6);
  inputs.tensors[0] = UploadIntegers({2, 3, 5});
  for (int i = 0; i < 3; ++i) {
    const absl::StatusOr<Lease> lease = Run(inputs);
    ASSERT_OK(lease);
    EXPECT_EQ(StartsOf(*lease, 3), (std::vector<int64_t>{2, 3, 5}));
    EXPECT_EQ(RowsOf(*lease), 5);
    const std::vector<float> y = ElementsOf(*lease, kY);
    EXPECT_EQ(y[0], 0) << "a row of nobody";
    EXPECT_EQ(y[2 * kWidth], 2 * (2 * kWidth + 1));
    EXPECT_EQ(y[3 * kWidth], 2 * (3 * kWidth + 1) + 1000);
  }
}

TEST_F(RaggedTest, RowsBeyondTheLengthAreLeftOut) {
  Open(kRectangleForm);
  // A bucket, and a length below its bucket.
  for (const int64_t length : {2, 3}) {
    Inputs inputs = Bring({2, 4, 1});
    inputs.extents = {length};
    std::vector<float> expected = Expected({2, 4, 1}, 7, 0);
    std::fill(expected.begin() + (2 + length) * kWidth, expected.begin() + 6 * kWidth, 0.0F);
    for (int i = 0; i < 4; ++i) {
      session_->SetStance(i == 3 ? Stance::kEager : Stance::kRecord);
      const absl::StatusOr<Lease> lease = Run(inputs);
      ASSERT_OK(lease);
      EXPECT_EQ(ElementsOf(*lease, kY), expected) << NameOf(lease->kind());
    }
  }
}

TEST_F(RaggedTest, TheDeviceMayDecideAnInnerAxis) {
  for (const bool rectangle : {false, true}) {
    form_ = {.rectangle = rectangle};
    session_ = MakeSession();
    ProgramSpec spec = SpecOf(form_);
    const int width = spec.AddSymbol("width", *PaddingPolicy::Pow2(kWidth + 1));
    spec.symbols.back().counted = true;
    spec.inputs[kX].dims[1] = Dim::Symbol(width);
    spec.outputs = {spec.outputs[kSeen]};
    spec.outputs[0].dims.back() = Dim::Symbol(width);
    program_ = *session_->Register(std::move(spec), [](CallContext& context) -> absl::Status {
      const Tensor& x = context.input(kX);
      return CopyInto(context, 0, x.data, x.element_count() * SizeOf(x.dtype));
    });
    uploads_.push_back(*device_.Upload(std::vector<int32_t>{2}));
    const Tensor count = {.data = uploads_.back().address(), .dtype = DType::kInt32};
    for (int i = 0; i < 3; ++i) {
      const absl::StatusOr<Lease> lease = Run(Bring({2, 2}), [&](coppice::Call& call) {
        call.counts = {&count, 1};
      });
      ASSERT_OK(lease);
      EXPECT_EQ(ElementsOf(*lease, 0),
                (std::vector<float>{1, 2, kFill, 4, 5, kFill, 7, 8, kFill, 10, 11, kFill}));
    }
  }
}

TEST_F(RaggedTest, PaddingOfSequencesIsWhatTheirClaimsSay) {
  for (const bool rectangle : {false, true}) {
    form_ = {.rectangle = rectangle};
    session_ = MakeSession();
    ProgramSpec spec = SpecOf(form_);
    for (SymbolSpec& symbol : spec.symbols) {
      symbol.policy = *PaddingPolicy::Exact(symbol.policy.maximum());
      symbol.claim = PaddingClaim{.padding = PaddingContents::kFill};
    }
    ProgramSpec undefined = spec;
    undefined.inputs[kX].fill = Fill::Undefined();
    EXPECT_THAT(std::string(ValidateSpec(undefined).message()),
                HasSubstr("leaves its padding unfilled"));
    program_ = *session_->Register(std::move(spec), RowsCallable());
    for (const Poison poison : {Poison::kPattern, Poison::kNoise, Poison::kNan}) {
      const absl::StatusOr<Lease> lease =
          Run(Bring({1, 2}, 6), [poison](coppice::Call& call) { call.poison = poison; });
      ASSERT_OK(lease);
      EXPECT_EQ(ElementsOf(*lease, kSeen), ExpectedSeen({1, 2}, 6));
    }
  }
}

TEST_F(RaggedTest, PoisonKeepsToTheClaimsOfInnerAxes) {
  form_ = kRectangleForm;
  session_ = MakeSession();
  ProgramSpec spec = SpecOf(form_);
  const int width = spec.AddSymbol("width", *PaddingPolicy::Pow2(kWidth + 1));
  spec.symbols.back().claim = PaddingClaim{.padding = PaddingContents::kFill};
  spec.inputs[kX].dims[1] = Dim::Symbol(width);
  spec.outputs = {spec.outputs[kSeen]};
  spec.outputs[0].dims.back() = Dim::Fixed(kWidth + 1);
  program_ = *session_->Register(std::move(spec), [](CallContext& context) -> absl::Status {
    const Tensor& x = context.input(kX);
    return CopyInto(context, 0, x.data, x.element_count() * SizeOf(x.dtype));
  });
  for (int i = 0; i < 3; ++i) {
    const absl::StatusOr<Lease> lease =
        Run(Bring({2, 2}), [](coppice::Call& call) { call.poison = Poison::kPattern; });
    ASSERT_OK(lease);
    const std::vector<float> seen = ElementsOf(*lease, 0);
    for (size_t row = 0; row < 4; ++row)
      EXPECT_EQ(seen[row * 4 + 3], kFill) << "what width claims is the least of all claims";
  }
}

TEST_F(RaggedTest, ARectangleIsNotTheCallablesToFree) {
  form_ = kRectangleForm;
  session_ = MakeSession();
  ProgramSpec spec = SpecOf(form_);
  spec.one_stream = true;
  program_ = *session_->Register(std::move(spec), [](CallContext& context) -> absl::Status {
    COPPICE_ASSIGN_OR_RETURN(const Tensor y, context.AllocateOutput(kY));
    return context.Free(y.data);
  });
  EXPECT_THAT(Run(Bring({1, 2})),
              StatusIs(StatusCode::kInvalidArgument,
                       HasSubstr("packed from this rectangle when the run ends")));
}

TEST_F(RaggedTest, WarmChainsFeedPackedRowsToARectangle) {
  Open(kRectangleForm);
  const std::vector<int64_t> bucket = {4, 8, 4};
  const std::vector<WarmStep> steps = {
      {.program = program_, .bucket = bucket},
      {.program = program_, .bucket = bucket, .feeds = {{.input = kX, .step = 0, .output = kY}}}};
  ASSERT_OK(session_->warming().Warm(steps, {}));
  session_->SetStance(Stance::kStrict);
  const Inputs inputs = Bring({2, 1, 3});
  for (int i = 0; i < 2; ++i) {
    const absl::StatusOr<Lease> first = Run(inputs);
    ASSERT_OK(first);
    Inputs next = inputs;
    {
      const absl::StatusOr<ReadScope> scope = first->Read(device_.stream());
      ASSERT_OK(scope);
      next.tensors[1] = scope->output(kY);
    }
    const absl::StatusOr<Lease> second = Run(next);
    ASSERT_OK(second);
    EXPECT_EQ(second->kind(), RunKind::kReplay);
  }
}

TEST_F(RaggedTest, ACallBeyondTheBucketsRunsAtItsOwnExtents) {
  for (const Form& form : Forms()) {
    SCOPED_TRACE(form.name());
    Open(form);
    ExpectCall(RunKind::kEager, Lengths(kSequencesMax + 4, 2));
    if (form.rectangle) ExpectCall(RunKind::kEager, {kLargest + 3, 1, 0});
  }
}

TEST_F(RaggedTest, LengthsAndRowsMayHaveStrides) {
  for (const Form& form : Forms()) {
    SCOPED_TRACE(form.name());
    Open(form);
    Inputs inputs = Bring({2, 1, 3});
    Lengths said =
        form.by == By::kLengths ? Lengths{2, 77, 1, 77, 3} : Lengths{0, 77, 2, 77, 3, 77, 6};
    const int64_t entries = inputs.tensors[0].sizes[0];
    inputs.tensors[0] = UploadIntegers(said);
    inputs.tensors[0].sizes[0] = entries;
    inputs.tensors[0].strides[0] = 2;
    // Rows of every other, last one first.
    std::vector<float> wide;
    for (int64_t row = 5; row >= 0; --row) {
      for (int64_t column = 0; column < kWidth; ++column)
        wide.push_back(static_cast<float>(row * kWidth + column + 1));
      wide.resize(wide.size() + kWidth, -99);
    }
    uploads_.push_back(*device_.Upload(wide));
    inputs.tensors[1].data = uploads_.back().address() + 10 * kWidth * sizeof(float);
    inputs.tensors[1].strides[0] = -2 * kWidth;
    for (int i = 0; i < 3; ++i) {
      const absl::StatusOr<Lease> lease = Run(inputs);
      ASSERT_OK(lease);
      ExpectOutputs(*lease, {2, 1, 3});
    }
  }
}

TEST_F(RaggedTest, PackedOutputsGoWhereACallWantsThem) {
  for (const Form& form : Forms()) {
    SCOPED_TRACE(form.name());
    Open(form, {.memory = {.copy_out_bytes = 1 << 20}});
    const Lengths lengths = {2, 0, 3};
    const Inputs inputs = Bring(lengths);
    for (int i = 0; i < 3; ++i) {
      const absl::StatusOr<Lease> copied =
          Run(inputs, [](coppice::Call& call) { call.output_mode = OutputMode::kCopyOut; });
      ASSERT_OK(copied);
      ExpectOutputs(*copied, lengths);
      std::vector<Tensor> targets = {UploadRows(5), {}, {}, {}};
      {
        const absl::StatusOr<ReadScope> scope = copied->Read(device_.stream());
        ASSERT_OK(scope);
        for (const int output : {kStarts, kRows, kSeen}) {
          targets[static_cast<size_t>(output)] = scope->output(output);
          uploads_.push_back(*device_.Upload(std::vector<float>(1024)));
          targets[static_cast<size_t>(output)].data = uploads_.back().address();
        }
      }
      const absl::StatusOr<Lease> written = Run(inputs, [&](coppice::Call& call) {
        call.output_mode = OutputMode::kWriteInto;
        call.targets = targets;
      });
      ASSERT_OK(written);
      EXPECT_EQ(Elements(targets[0]), Expected(lengths, 5, none()));
    }
  }
}

TEST_F(RaggedTest, WarmBucketsHaveEmptySequencesAndThenReplay) {
  for (const Form& form : Forms()) {
    SCOPED_TRACE(form.name());
    Open(form);
    std::vector<std::vector<int64_t>> buckets = {{4, 8}};
    if (form.rectangle) buckets[0].push_back(4);
    ASSERT_OK(session_->warming().Warm(*program_, nullptr, buckets, {}, {}));
    ExpectCall(RunKind::kReplay, {3, 0, 4});
  }
}

TEST_F(RaggedTest, PoisonReachesOnlyPadding) {
  for (const Form& form : Forms()) {
    SCOPED_TRACE(form.name());
    Open(form);
    const Lengths lengths = {3, 0, 1};
    for (const Poison poison : {Poison::kPattern, Poison::kNoise, Poison::kPattern}) {
      const absl::StatusOr<Lease> lease =
          Run(Bring(lengths, 6), [poison](coppice::Call& call) { call.poison = poison; });
      ASSERT_OK(lease);
      EXPECT_EQ(ElementsOf(*lease, kY), Expected(lengths, 6, none()));
      const std::vector<float> seen = ElementsOf(*lease, kSeen);
      const std::vector<float> clean = ExpectedSeen(lengths, 6);
      ASSERT_EQ(seen.size(), clean.size());
      for (size_t i = 0; i < seen.size(); ++i)
        EXPECT_EQ(seen[i] == clean[i], clean[i] != kFill) << "element " << i << ": " << seen[i];
    }
  }
}

TEST_F(RaggedTest, PackedRowsOfThePathAreReadWhereTheyLie) {
  Open(kPackedForm);
  const Inputs inputs = Bring({2, 1, 3}, 8);
  for (int i = 0; i < 4; ++i) {
    const absl::StatusOr<Lease> first = Run(inputs);
    ASSERT_OK(first);
    Inputs next = inputs;
    {
      const absl::StatusOr<ReadScope> scope = first->Read(device_.stream());
      ASSERT_OK(scope);
      next.tensors[1] = scope->output(kY);
    }
    const absl::StatusOr<Lease> second = Run(next);
    ASSERT_OK(second);
    std::vector<float> expected = Expected({2, 1, 3}, 8, -1);
    for (size_t row = 0; row < 6; ++row) {
      const size_t sequence = row < 2 ? 0 : row < 3 ? 1 : 2;
      const size_t place = row - (sequence == 0 ? 0 : sequence == 1 ? 2 : 3);
      for (size_t column = 0; column < kWidth; ++column) {
        float& value = expected[row * kWidth + column];
        value = 2 * value + static_cast<float>(place) + 1000 * static_cast<float>(sequence);
      }
    }
    EXPECT_EQ(ElementsOf(*second, kY), expected);
  }
}

TEST_F(RaggedTest, RectanglesTakeThePackedRowsOfAPath) {
  Open(kRectangleForm);
  const Lengths lengths = {2, 1, 3};
  const Inputs inputs = Bring(lengths);
  for (int i = 0; i < 4; ++i) {
    const absl::StatusOr<Lease> first = Run(inputs);
    ASSERT_OK(first);
    Inputs next = inputs;
    {
      const absl::StatusOr<ReadScope> scope = first->Read(device_.stream());
      ASSERT_OK(scope);
      next.tensors[1] = scope->output(kY);
    }
    const absl::StatusOr<Lease> second = Run(next);
    ASSERT_OK(second);
    const std::vector<float> once = Expected(lengths, 6, 0);
    const std::vector<float> twice = ElementsOf(*second, kY);
    for (size_t i_row = 0; i_row < once.size(); ++i_row) {
      const float added = once[i_row] - 2 * static_cast<float>(i_row + 1);
      EXPECT_EQ(twice[i_row], 2 * once[i_row] + added);
    }
  }
}

TEST_F(RaggedTest, ACaptureOfTheCallersIncludesThem) {
  for (const Form& form : Forms()) {
    SCOPED_TRACE(form.name());
    Open(form);
    const Lengths lengths = {2, 0, 3};
    ExpectCall(RunKind::kWarmUp, lengths);
    const Inputs inputs = Bring(lengths);
    COPPICE_ASSERT_OK_AND_ASSIGN(Capture capture,
                                 Capture::Begin(device_.driver(), device_.stream()));
    const absl::StatusOr<Lease> lease = session_->Include(CallOf(inputs));
    ASSERT_OK(lease);
    COPPICE_ASSERT_OK_AND_ASSIGN(const Graph graph, capture.End());
    COPPICE_ASSERT_OK_AND_ASSIGN(const GraphExec exec,
                                 GraphExec::Instantiate(device_.driver(), graph));
    ASSERT_OK(device_.driver().Call<&DriverTable::GraphLaunch>(exec.handle(), device_.stream()));
    ExpectOutputs(*lease, lengths);
  }
}

TEST_F(RaggedTest, AJointPolicyPadsTheRectangle) {
  form_ = kRectangleForm;
  session_ = MakeSession();
  ProgramSpec spec = SpecOf(form_);
  spec.symbols[kCount].policy = *PaddingPolicy::Exact(8);
  spec.symbols[kLength].policy = *PaddingPolicy::Exact(32);
  spec.joint = {{.a = kCount, .b = kLength, .policy = *JointPolicy::Parse("2x32,8x4", {8, 32})}};
  program_ = *session_->Register(std::move(spec), RowsCallable());
  for (int i = 0; i < 3; ++i) {
    for (const Lengths& lengths : {Lengths{3, 20}, Lengths{1, 2, 3, 4, 0}}) {
      const absl::StatusOr<Lease> lease = Run(Bring(lengths));
      ASSERT_OK(lease);
      EXPECT_EQ(ElementsOf(*lease, kY), Expected(lengths, TotalOf(lengths), 0));
    }
  }
  EXPECT_THAT(session_->nodes(), SizeIs(2));
}

TEST_F(RaggedTest, TwoSetsOfSequencesKeepApart) {
  ProgramSpec spec{.name = "cross", .claim = PaddingContents::kAny};
  for (const std::string set : {"q", "k"}) {
    const int count = spec.AddSymbol("count_" + set, *PaddingPolicy::Pow2(kSequencesMax));
    const int total = spec.AddSymbol("total_" + set, *PaddingPolicy::Pow2(kRowsMax));
    const auto lengths = static_cast<int>(spec.inputs.size());
    const int ragged = spec.AddRagged({.count = count, .total = total, .lengths = lengths});
    spec.inputs.push_back(
        {.name = "lengths_" + set, .dtype = DType::kInt32, .dims = {Dim::Symbol(count)}});
    spec.inputs.push_back({.name = set, .dims = {Dim::Ragged(ragged), Dim::Fixed(kWidth)}});
    spec.outputs.push_back(
        {.name = "starts_" + set, .dtype = DType::kInt32, .dims = {Dim::Fixed(kStartsMax)}});
  }
  session_ = MakeSession();
  program_ = *session_->Register(spec, [](CallContext& context) -> absl::Status {
    for (const int set : {0, 1})
      COPPICE_RETURN_IF_ERROR(CopyInto(context, set, context.offsets(set).data,
                                       context.offsets(set).element_count() * 4));
    return absl::OkStatus();
  });
  const std::vector<Tensor> tensors = {UploadIntegers({1, 4}), UploadRows(5),
                                       UploadIntegers({2, 2, 7}), UploadRows(11)};
  for (int i = 0; i < 3; ++i) {
    const absl::StatusOr<Lease> lease =
        session_->Run({.program = program_, .inputs = tensors, .stream = device_.stream()});
    ASSERT_OK(lease);
    const absl::StatusOr<ReadScope> scope = lease->Read(device_.stream());
    ASSERT_OK(scope);
    EXPECT_EQ(Integers(scope->output(0), 3), (std::vector<int64_t>{0, 1, 5}));
    EXPECT_EQ(Integers(scope->output(1), 5), (std::vector<int64_t>{0, 2, 4, 11, 11}));
  }
}

TEST_F(RaggedTest, ACallThatDoesNotFitIsRefusedInItsOwnWords) {
  Open(kRectangleForm);
  Inputs inputs = Bring({1, 2});
  inputs.tensors[1] = FloatsAt(inputs.tensors[1].data, 9);
  EXPECT_THAT(Run(inputs), StatusIs(StatusCode::kInvalidArgument, HasSubstr("[ total 3 ]")));
}

TEST_F(RaggedTest, OffsetsOfNoSequenceHaveOneEntry) {
  Open({.by = By::kOffsets});
  Inputs inputs = Bring({});
  ASSERT_OK(Run(inputs));
  inputs.tensors[0].sizes[0] = 0;
  EXPECT_THAT(Run(inputs), StatusIs(StatusCode::kInvalidArgument, HasSubstr("input 'lengths'")));
}

TEST_F(RaggedTest, OffsetsAgreeWithAnAxisOfTheCount) {
  form_ = {.by = By::kOffsets};
  session_ = MakeSession();
  ProgramSpec spec = SpecOf(form_);
  spec.inputs.push_back({.name = "scales", .dims = {Dim::Symbol(kCount)}});
  program_ = *session_->Register(std::move(spec), RowsCallable());
  Inputs inputs = Bring({2, 1});
  const int64_t two = 2;
  inputs.tensors.push_back(Tensor::Dense(UploadRows(1).data, DType::kFloat32, {&two, 1}));
  ASSERT_OK(Run(inputs));
  inputs.tensors[2].sizes[0] = 3;
  EXPECT_THAT(Run(inputs), StatusIs(StatusCode::kInvalidArgument, HasSubstr("'count + 1' is 4")));
}

TEST_F(RaggedTest, AnOutputThatIsPackedIsNoAlias) {
  session_ = MakeSession();
  form_ = kRectangleForm;
  program_ = *session_->Register(SpecOf(form_), [](CallContext& context) -> absl::Status {
    return context.AliasOutput(kY, context.input(kX).data);
  });
  EXPECT_THAT(Run(Bring({1, 2})),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("packed from a rectangle")));
}

TEST_F(RaggedTest, NoOutputIsAnAliasOfARectangle) {
  session_ = MakeSession();
  form_ = kRectangleForm;
  program_ = *session_->Register(SpecOf(form_), [](CallContext& context) -> absl::Status {
    COPPICE_ASSIGN_OR_RETURN(const Tensor y, context.AllocateOutput(kY));
    return context.AliasOutput(kSeen, y.data);
  });
  EXPECT_THAT(Run(Bring({1, 2})), StatusIs(StatusCode::kInvalidArgument,
                                           HasSubstr("belong to no input and no output")));
}

}  // namespace
}  // namespace coppice
