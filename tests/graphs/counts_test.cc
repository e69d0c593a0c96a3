// Goal: what program.h and call.h say of extents that the device decides. Method: programs that
// show the extent they read and the padding they see, in every way to run, against the host.

#include "gtest/gtest-spi.h"

#include "coppice/runtime/graph.h"
#include "coppice/runtime/stream.h"

#include "tests/graphs/counts_fixture.h"

namespace coppice {
namespace {

class CountsTest : public CountsFixture {
 protected:
  // What masked or rows gives for 1, 2, ... n, of which this many count, up to `shown` elements.
  std::vector<float> Run(const Program* program,
                         int64_t n,
                         const Tensor& count,
                         std::optional<RunKind> kind = {},
                         Poison poison = Poison::kOff) {
    const Tensor x = Upload(Ramp(n));
    coppice::Call call = CallOf(program, x, count);
    call.poison = poison;
    absl::StatusOr<Lease> lease = session_->Run(call);
    EXPECT_OK(lease);
    if (!lease.ok()) return {};
    EXPECT_EQ(lease->kind(), kind.value_or(lease->kind()));
    const Tensor y = OutputOf(*lease).y;
    EXPECT_EQ(y.sizes[0], n) << "the capacity is shown";
    return device_.Download<float>(y.data, n);
  }
  void ExpectRefused(const absl::StatusOr<Lease>& lease,
                     absl::StatusCode code,
                     const std::vector<std::string>& texts) {
    EXPECT_EQ(lease.status().code(), code) << lease.status();
    for (const std::string& text : texts)
      EXPECT_THAT(std::string(lease.status().message()), HasSubstr(text));
  }
};

TEST_F(CountsTest, KernelsReadWhatTheDeviceDecidedHoweverTheCallRuns) {
  const Program* masked = AddMasked();
  EXPECT_EQ(Run(masked, 6, UploadCount(int64_t{4}), RunKind::kWarmUp), MaskedTo(4, 6));
  EXPECT_EQ(Run(masked, 6, UploadCount(int32_t{5}), RunKind::kRecord), MaskedTo(5, 6));
  EXPECT_EQ(Run(masked, 7, UploadCount(int64_t{0}), RunKind::kReplay), MaskedTo(0, 7));
  EXPECT_EQ(Run(masked, 8, UploadCount(int32_t{8}), RunKind::kReplay), MaskedTo(8, 8));
  session_->SetStance(Stance::kEager);
  EXPECT_EQ(Run(masked, 6, UploadCount(int32_t{3}), RunKind::kEager), MaskedTo(3, 6));
  EXPECT_EQ(session_->stats().recordings, 1) << "the capacity chooses the bucket";
}

TEST_F(CountsTest, CountIsHeldToTheCapacityOfTheCall) {
  const Program* masked = AddMasked();
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(Run(masked, 6, UploadCount(int64_t{7})), MaskedTo(6, 6));
    EXPECT_EQ(Run(masked, 6, UploadCount(int64_t{-3})), MaskedTo(0, 6));
    EXPECT_EQ(Run(masked, 6, UploadCount(std::numeric_limits<int32_t>::min())), MaskedTo(0, 6));
    EXPECT_EQ(Run(masked, 6, UploadCount(std::numeric_limits<int64_t>::max())), MaskedTo(6, 6));
  }
}

TEST_F(CountsTest, AnyCapacityMayBeCounted) {
  const Program* masked = AddMasked();
  const Program* rows = AddRows(Fill::Value(3));
  for (int i = 0; i < 3; ++i) {
    for (const int64_t n : {int64_t{0}, int64_t{1}, kLargest, kLargest + 5}) {
      for (const int64_t count : {int64_t{0}, n / 2, n, n + 3}) {
        const int64_t held = std::min(count, n);
        const auto size = static_cast<size_t>(n);
        EXPECT_EQ(Run(masked, n, UploadCount(count)), MaskedTo(held, n));
        EXPECT_EQ(Run(rows, n, UploadCount(count)), Padded(Doubled(Ramp(held)), 6, size));
      }
    }
  }
}

TEST_F(CountsTest, CallWithoutOneHasTheExtentsOfTheHost) {
  const Program* masked = AddMasked();
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(Run(masked, 6, {}), MaskedTo(6, 6));
    EXPECT_EQ(Run(masked, 6, UploadCount(int64_t{2})), MaskedTo(2, 6));
    const Tensor x = Upload(Ramp(6));
    const Tensor nowhere;
    coppice::Call call = CallOf(masked, x);
    call.counts = {&nowhere, 1};
    COPPICE_ASSERT_OK_AND_ASSIGN(const Lease lease, session_->Run(call));
    EXPECT_EQ(device_.Download<float>(OutputOf(lease).y.data, 6), MaskedTo(6, 6));
  }
}

TEST_F(CountsTest, PaddingBeginsBehindTheCount) {
  struct Case {
    Fill fill;
    float padding;
  };
  for (const auto& [fill, padding] :
       {Case{Fill::Zero(), 0}, Case{Fill::Value(9), 18}, Case{Fill::RepeatLast(), 8}}) {
    session_ = MakeSession();
    const Program* rows = AddRows(fill);
    for (int i = 0; i < 3; ++i) {
      EXPECT_EQ(Run(rows, 6, UploadCount(int64_t{4})), Padded(Doubled(Ramp(4)), padding, 6));
      EXPECT_EQ(Run(rows, 8, UploadCount(int32_t{4})), Padded(Doubled(Ramp(4)), padding, 8));
      const float alone = fill == Fill::RepeatLast() ? 0 : padding;
      EXPECT_EQ(Run(rows, 8, UploadCount(int64_t{0})), Padded({}, alone, 8));
    }
  }
  session_ = MakeSession();
  const Program* rows = AddRows(Fill::Undefined());
  for (int i = 0; i < 3; ++i) {
    Run(rows, 8, UploadCount(int64_t{8}));
    EXPECT_EQ(Run(rows, 8, UploadCount(int64_t{4})), Doubled(Ramp(8))) << "what was there stays";
    const std::vector<float> poisoned = Run(rows, 8, UploadCount(int64_t{4}), {}, Poison::kNan);
    EXPECT_EQ(poisoned[3], 8);
    EXPECT_TRUE(std::isnan(poisoned[4]));
  }
}

TEST_F(CountsTest, AnyAxisOfAnyRankMayBeCounted) {
  ProgramSpec spec = TakingSpec("columns", PaddingContents::kRowIndependent, Fill::Value(9));
  spec.inputs[0].dims = {Dim::Fixed(3), Dim::Symbol(0)};
  spec.inputs.push_back({.name = "square", .dims = {Dim::Symbol(0), Dim::Symbol(0)}});
  spec.outputs = {{.name = "y", .dims = {Dim::Fixed(3), Dim::Symbol(0)}},
                  {.name = "z", .dims = {Dim::Symbol(0), Dim::Symbol(0)}}};
  const Program* program = *session_->Register(spec, [this](CallContext& context) -> absl::Status {
    for (int i = 0; i < 2; ++i) {
      COPPICE_ASSIGN_OR_RETURN(const Tensor y, context.AllocateOutput(i));
      COPPICE_RETURN_IF_ERROR(
          LaunchScale(context, context.input(i).data, y.data, y.element_count(), 2));
    }
    return absl::OkStatus();
  });
  const int64_t wide[] = {3, 4};
  const int64_t square[] = {4, 4};
  const Tensor inputs[] = {Tensor::Dense(Upload(Ramp(12)).data, DType::kFloat32, wide),
                           Tensor::Dense(Upload(Ramp(16)).data, DType::kFloat32, square)};
  for (int i = 0; i < 3; ++i) {
    const Tensor count = UploadCount(int64_t{2});
    coppice::Call call{.program = program, .inputs = inputs, .stream = device_.stream()};
    call.counts = {&count, 1};
    COPPICE_ASSERT_OK_AND_ASSIGN(const Lease lease, session_->Run(call));
    EXPECT_EQ(device_.Download<float>(OutputOf(lease, 0).y.data, 12),
              (std::vector<float>{2, 4, 18, 18, 10, 12, 18, 18, 18, 20, 18, 18}));
    EXPECT_EQ(device_.Download<float>(OutputOf(lease, 1).y.data, 16),
              (std::vector<float>{2, 4, 0, 0, 10, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}));
  }
}

TEST_F(CountsTest, EachSymbolHasACountOfItsOwn) {
  ProgramSpec spec{.name = "words", .claim = PaddingContents::kAny};
  spec.AddSymbol("n", *PaddingPolicy::Pow2(kLargest), SymbolKind::kAuto);
  spec.AddSymbol("m", *PaddingPolicy::Pow2(kLargest), SymbolKind::kMaybeDynamic);
  spec.AddSymbol("k", *PaddingPolicy::Exact(kLargest));
  for (SymbolSpec& symbol : spec.symbols)
    symbol.counted = true;
  spec.inputs = {{.name = "x", .dims = {Dim::Symbol(0), Dim::Symbol(1), Dim::Symbol(2)}}};
  spec.outputs = {{.name = "words", .dtype = DType::kInt64, .dims = {Dim::Fixed(3)}}};
  const Program* words = *session_->Register(spec, [](CallContext& context) -> absl::Status {
    COPPICE_ASSIGN_OR_RETURN(const Tensor y, context.AllocateOutput(0));
    return context.driver().Call<&DriverTable::MemcpyDtoDAsync>(y.data, context.parameters(),
                                                                size_t{24}, context.stream());
  });
  for (const int64_t n : {3, 4, 3, 4, 3, 4}) {
    const int64_t sizes[] = {n, n, 2};
    const Tensor x = Tensor::Dense(Upload(Ramp(2 * n * n)).data, DType::kFloat32, sizes);
    const Tensor counts[] = {UploadCount(int32_t{2}), {}, UploadCount(int64_t{1})};
    const coppice::Call call{
        .program = words, .inputs = {&x, 1}, .counts = counts, .stream = device_.stream()};
    COPPICE_ASSERT_OK_AND_ASSIGN(const Lease lease, session_->Run(call));
    EXPECT_EQ(device_.Download<int64_t>(OutputOf(lease).y.data, 3),
              (std::vector<int64_t>{2, n, 1}));
  }
}

TEST_F(CountsTest, GivenSymbolMayBeCountedWithoutAnAxis) {
  ProgramSpec spec = TakingSpec("given", PaddingContents::kAny);
  spec.symbols[0].given = true;
  spec.inputs[0].dims = {Dim::Fixed(8)};
  const Program* masked = AddMasked(std::move(spec));
  const Tensor x = Upload(Ramp(8));
  for (const int64_t kept : {5, 3, 9, 0}) {
    const Tensor count = UploadCount(kept);
    coppice::Call call = CallOf(masked, x, count);
    const int64_t capacity = 6;
    call.extents = {&capacity, 1};
    COPPICE_ASSERT_OK_AND_ASSIGN(const Lease lease, session_->Run(call));
    EXPECT_EQ(device_.Download<float>(OutputOf(lease).y.data, 6),
              MaskedTo(std::min<int64_t>(kept, 6), 6));
  }
}

TEST_F(CountsTest, SizesArePassedOnWithoutTheHostWaiting) {
  const Program* compact = AddCompact();
  const Program* masked = AddMasked();
  for (const int64_t kept : {4, 2, 5, 0, 6, 3}) {
    const Tensor x = UploadMixed(6, kept);
    const DriverLedger& ledger = device_.ledger();
    const int64_t waits = ledger.calls(&DriverTable::StreamSynchronize) +
                          ledger.calls(&DriverTable::EventSynchronize);
    COPPICE_ASSERT_OK_AND_ASSIGN(const Lease first, session_->Run(CallOf(compact, x)));
    const Counted made = OutputOf(first);
    COPPICE_ASSERT_OK_AND_ASSIGN(const Lease second,
                                 session_->Run(CallOf(masked, made.y, made.count)));
    if (second.kind() == RunKind::kReplay) {
      EXPECT_EQ(ledger.calls(&DriverTable::StreamSynchronize) +
                    ledger.calls(&DriverTable::EventSynchronize),
                waits);
    }
    EXPECT_EQ(device_.Download<float>(OutputOf(second).y.data, 6), MaskedTo(kept, 6));
    EXPECT_EQ(SizedOutput(first), Ramp(kept)) << "the path leaves both alone";
  }
  EXPECT_GE(session_->stats().runs[static_cast<size_t>(RunKind::kReplay)], 6);
}

// Each step drops the largest of 1, 2, ... that the one before has left.
TEST_F(CountsTest, LoopOnItsOwnCountSettlesOnAFewGraphs) {
  for (const bool donates : {false, true}) {
    session_ = MakeSession();
    ProgramSpec spec = CompactSpec();
    spec.symbols[0].counted = true;
    const Program* step = *session_->Register(spec, [this](CallContext& context) -> absl::Status {
      const int64_t n = context.extent(0);
      COPPICE_ASSIGN_OR_RETURN(const Tensor y, context.AllocateOutput(kY));
      COPPICE_ASSIGN_OR_RETURN(const Tensor kept, context.AllocateOutput(kKept));
      COPPICE_ASSIGN_OR_RETURN(const DeviceAddress less, context.Allocate(n * 4));
      const Tensor ones{.data = less, .rank = 1, .sizes = {n}};
      COPPICE_RETURN_IF_ERROR(FillAll(context, ones, -1));
      COPPICE_RETURN_IF_ERROR(AddOnto(context, context.input(0).data, less, less, n));
      COPPICE_RETURN_IF_ERROR(context.Free(context.input(0).data));
      return Launch(context.driver(), kernels_.compact, context.stream(),
                    CompactParams{.x = PointerAt<float>(less),
                                  .y = PointerAt<float>(y.data),
                                  .words = PointerAt<int64_t>(context.parameters()),
                                  .capacity = n,
                                  .count = PointerAt<int64_t>(kept.data)},
                    1);
    });
    Tensor x = Upload(Ramp(8));
    Tensor count;
    Lease lease;
    for (int64_t left = 7; left >= -2; --left) {
      coppice::Call call = CallOf(step, x, count);
      if (donates && lease.call_number() != 0) call.donated = {&lease, 1};
      COPPICE_ASSERT_OK_AND_ASSIGN(lease, session_->Run(call));
      const Counted made = OutputOf(lease);
      x = made.y;
      count = made.count;
      if (left % 3 == 0 || left < 0) {
        EXPECT_EQ(SizedOutput(lease), Ramp(std::max<int64_t>(left, 0)));
      }
    }
    EXPECT_EQ(session_->nodes().size(), 3U);
    EXPECT_EQ(session_->stats().inputs_in_place, 8);
  }
}

TEST_F(CountsTest, ChainKeepsWhatItsCallsCount) {
  const Program* compact = AddCompact();
  const Program* masked = AddMasked();
  const Program* rows = AddRows(Fill::Zero());
  for (const int64_t kept : {3, 8, 0, 5}) {
    COPPICE_ASSERT_OK_AND_ASSIGN(const ChainScope chain, session_->Chain());
    const Tensor x = UploadMixed(8, kept);
    const Tensor ramp = Upload(Ramp(8));
    COPPICE_ASSERT_OK_AND_ASSIGN(const Lease first, session_->Run(CallOf(compact, x)));
    const Counted made = OutputOf(first);
    COPPICE_ASSERT_OK_AND_ASSIGN(const Lease second,
                                 session_->Run(CallOf(masked, ramp, made.count)));
    COPPICE_ASSERT_OK_AND_ASSIGN(const Lease third,
                                 session_->Run(CallOf(rows, made.y, made.count)));
    COPPICE_ASSERT_OK_AND_ASSIGN(const Lease fourth,
                                 session_->Run(CallOf(compact, OutputOf(third).y)));
    EXPECT_EQ(SizedOutput(first), Ramp(kept));
    EXPECT_EQ(device_.Download<float>(OutputOf(second).y.data, 8), MaskedTo(kept, 8));
    EXPECT_EQ(SizedOutput(fourth), Doubled(Ramp(kept)));
  }
}

TEST_F(CountsTest, WarmedChainReplaysWhateverTheDeviceDecides) {
  for (const PaddingContents claim : {PaddingContents::kAny, PaddingContents::kRowIndependent}) {
    for (const int64_t bucket : {1, 2, 8}) {  // Below the first two there is no other extent.
      session_ = MakeSession();
      const Program* compact = AddCompact();
      const Program* rows = AddRows(Fill::Zero(), claim);
      const WarmStep chain[] = {
          {.program = compact, .bucket = {bucket}},
          {.program = rows,
           .bucket = {bucket},
           .feeds = {{.input = 0, .step = 0, .output = kY}},
           .counts = {{.input = 0, .step = 0, .output = kKept}}},
      };
      ASSERT_OK(session_->warming().Warm(chain, {}));
      session_->SetStance(Stance::kStrict);
      for (const bool counts : {true, false}) {
        const Tensor x = UploadMixed(bucket, bucket);
        COPPICE_ASSERT_OK_AND_ASSIGN(const Lease first, session_->Run(CallOf(compact, x)));
        const Counted made = OutputOf(first);
        COPPICE_ASSERT_OK_AND_ASSIGN(
            const Lease second,
            session_->Run(CallOf(rows, made.y, counts ? made.count : Tensor())));
        EXPECT_EQ(device_.Download<float>(OutputOf(second).y.data, bucket), Doubled(Ramp(bucket)));
      }
    }
  }
}

TEST_F(CountsTest, WarmedChainHoldsWhatALaterStepCounts) {
  const Program* compact = AddCompact();
  const Program* rows = AddRows(Fill::Undefined());
  const Program* masked = AddMasked();
  const auto chain = [&](WarmStep::Feed count) {
    return std::vector<WarmStep>{
        {.program = compact, .bucket = {8}},
        {.program = rows, .bucket = {8}, .feeds = {{.input = 0, .step = 0, .output = kY}}},
        {.program = masked,
         .bucket = {8},
         .feeds = {{.input = 0, .step = 1, .output = 0}},
         .counts = {count}},
    };
  };
  const WarmStep::Feed wrongs[] = {{.input = 1, .step = 0, .output = kKept},
                                   {.input = 0, .step = 3, .output = kKept},
                                   {.input = 0, .step = 0, .output = 2},
                                   {.input = 0, .step = 0, .output = kY}};
  for (const WarmStep::Feed& wrong : wrongs)
    EXPECT_EQ(session_->warming().Warm(chain(wrong), {}).code(),
              absl::StatusCode::kInvalidArgument);
  ASSERT_OK(session_->warming().Warm(chain({.input = 0, .step = 0, .output = kKept}), {}));
  session_->SetStance(Stance::kStrict);
  for (const int64_t kept : {3, 8}) {
    const Tensor x = UploadMixed(8, kept);
    COPPICE_ASSERT_OK_AND_ASSIGN(const Lease first, session_->Run(CallOf(compact, x)));
    const Counted made = OutputOf(first);
    COPPICE_ASSERT_OK_AND_ASSIGN(const Lease second, session_->Run(CallOf(rows, made.y)));
    COPPICE_ASSERT_OK_AND_ASSIGN(const Lease third,
                                 session_->Run(CallOf(masked, OutputOf(second).y, made.count)));
    EXPECT_EQ(device_.Download<float>(OutputOf(third).y.data, kept), Doubled(Doubled(Ramp(kept))));
    EXPECT_EQ(SizedOutput(first), Ramp(kept));
  }
}

TEST_F(CountsTest, ChecksAndPausesLeaveCountsAlone) {
  SessionOptions options;
  options.checks = {.audit_keys = true, .addresses = true, .fill_expired = true};
  session_ = MakeSession(options);
  const Program* compact = AddCompact();
  const Program* masked = AddMasked();
  const auto pause = [&] {
    ASSERT_OK(session_->memory().Suspend({}));
    ASSERT_OK(session_->memory().Resume());
  };
  for (const int64_t kept : {3, 0, 5, 8, 2, 6}) {
    const Tensor x = UploadMixed(8, kept);
    COPPICE_ASSERT_OK_AND_ASSIGN(Lease first, session_->Run(CallOf(compact, x)));
    const Counted made = OutputOf(first);
    COPPICE_ASSERT_OK_AND_ASSIGN(std::vector<Lease> parts, first.Split());
    parts[kKept].Release();
    if (kept % 2 == 0) pause();
    if (kept % 3 == 0) {
      ASSERT_OK(session_->Evict(nullptr));
    }
    const coppice::Call call = CallOf(masked, made.y, made.count);
    const Explanation foreseen = session_->Explain(call);
    COPPICE_ASSERT_OK_AND_ASSIGN(const Lease second, session_->Run(call));
    EXPECT_EQ(foreseen.kind, second.kind()) << foreseen.text;
    if (kept % 2 != 0) pause();
    EXPECT_EQ(device_.Download<float>(OutputOf(second).y.data, 8), MaskedTo(kept, 8));
    EXPECT_EQ(SizedOutput(parts[kY]), Ramp(kept));
  }
}

TEST_F(CountsTest, InputInAnOutputIsReadThereOnlyIfNobodyReadsItsPadding) {
  const std::pair<PaddingContents, Fill> cases[] = {
      {PaddingContents::kAny, Fill::Zero()},
      {PaddingContents::kRowIndependent, Fill::Undefined()},
      {PaddingContents::kRowIndependent, Fill::Zero()}};
  for (const auto& [claim, fill] : cases) {
    session_ = MakeSession();
    const Program* compact = AddCompact();
    const Program* rows = AddRows(fill, claim);
    const bool filled = claim == PaddingContents::kRowIndependent && fill == Fill::Zero();
    for (int i = 0; i < 5; ++i) {
      const Tensor x = UploadMixed(8, 3);  // A whole bucket.
      COPPICE_ASSERT_OK_AND_ASSIGN(const Lease first, session_->Run(CallOf(compact, x)));
      const Counted made = OutputOf(first);
      COPPICE_ASSERT_OK_AND_ASSIGN(const Lease second,
                                   session_->Run(CallOf(rows, made.y, made.count)));
      std::vector<float> y = device_.Download<float>(OutputOf(second).y.data, filled ? 8 : 3);
      EXPECT_EQ(y, Padded(Doubled(Ramp(3)), 0, y.size()));
    }
    EXPECT_EQ(session_->stats().inputs_in_place > 0, !filled);
    EXPECT_EQ(session_->stats().inputs_filled > 0, filled);
  }
}

TEST_F(CountsTest, NothingBehindTheCountIsWrittenBack) {
  const Program* add = AddAdd();
  for (const int64_t kept : {4, 2, 6, 0, 9}) {
    const Tensor x = Upload(Ramp(6));
    const Tensor count = UploadCount(kept);
    COPPICE_ASSERT_OK_AND_ASSIGN(const Lease lease, session_->Run(CallOf(add, x, count)));
    std::vector<float> expected = Ramp(6);
    for (int64_t i = 0; i < std::min<int64_t>(kept, 6); ++i)
      ++expected[static_cast<size_t>(i)];
    EXPECT_EQ(device_.Download<float>(x.data, 6), expected) << NameOf(lease.kind());
  }
  const Tensor x = Upload(Ramp(6));
  ASSERT_OK(session_->Run(CallOf(add, x)));
  EXPECT_EQ(device_.Download<float>(x.data, 6), (std::vector<float>{2, 3, 4, 5, 6, 7}));
}

TEST_F(CountsTest, IncludedProgramsReadTheCountAtEachLaunch) {
  const Program* masked = AddMasked();
  Run(masked, 6, {});
  const Tensor x = Upload(Ramp(6));
  const Tensor count = UploadCount(int64_t{4});
  COPPICE_ASSERT_OK_AND_ASSIGN(Capture capture, Capture::Begin(device_.driver(), device_.stream()));
  COPPICE_ASSERT_OK_AND_ASSIGN(const Lease lease, session_->Include(CallOf(masked, x, count)));
  COPPICE_ASSERT_OK_AND_ASSIGN(const Graph graph, capture.End());
  COPPICE_ASSERT_OK_AND_ASSIGN(const GraphExec exec,
                               GraphExec::Instantiate(device_.driver(), graph));
  for (const int64_t kept : {4, 1, 6}) {
    const DriverTable& cu = device_.driver().table();
    ASSERT_EQ(cu.MemcpyHtoDAsync(count.data, &kept, sizeof(kept), device_.stream()),
              CuResult::kSuccess);
    ASSERT_EQ(cu.GraphLaunch(exec.handle(), device_.stream()), CuResult::kSuccess);
    EXPECT_EQ(device_.Download<float>(OutputOf(lease).y.data, 6), MaskedTo(kept, 6));
  }
  const Program* compact = AddCompact();
  COPPICE_ASSERT_OK_AND_ASSIGN(const Lease made, session_->Run(CallOf(compact, x)));
  const Tensor inside = OutputOf(made).count;
  ExpectRefused(session_->Include(CallOf(masked, x, inside)), absl::StatusCode::kFailedPrecondition,
                {"a count", "copy the tensor"});
}

TEST_F(CountsTest, CountThatNobodyKeepsIsStale) {
  const Program* compact = AddCompact();
  const Program* masked = AddMasked();
  Counted made;
  Lease kept;
  for (int i = 0; i < 3; ++i) {
    const Tensor x = UploadMixed(6, 3);
    COPPICE_ASSERT_OK_AND_ASSIGN(kept, session_->Run(CallOf(compact, x)));
    made = OutputOf(kept);
  }
  const Tensor x = Upload(Ramp(6));
  ASSERT_OK(session_->Run(CallOf(masked, x, made.count)));
  ASSERT_OK(session_->Run(CallOf(compact, x)));
  ExpectRefused(session_->Run(CallOf(masked, x, made.count)), absl::StatusCode::kFailedPrecondition,
                {"count of symbol 'n'", "'masked'", "'compact'", "overwrote"});
  kept.Release();
  ExpectRefused(session_->Run(CallOf(masked, x, made.count)), absl::StatusCode::kFailedPrecondition,
                {"count of symbol 'n'", "no lease"});
}

TEST_F(CountsTest, CountOfAnotherLaneIsReadUnderAScope) {
  SessionOptions options;
  options.lanes = 2;
  session_ = MakeSession(options);
  const Program* compact = AddCompact();
  const Program* masked = AddMasked();
  const Tensor mixed = UploadMixed(6, 3);
  const Tensor x = Upload(Ramp(6));
  for (int i = 0; i < 3; ++i) {
    COPPICE_ASSERT_OK_AND_ASSIGN(const Lease lease, session_->Run(CallOf(compact, mixed)));
    const Tensor count = OutputOf(lease).count;
    coppice::Call call = CallOf(masked, x, count);
    call.lane = 1;
    ExpectRefused(session_->Run(call), absl::StatusCode::kFailedPrecondition,
                  {"count of symbol 'n'", "lane 0", "read scope"});
    COPPICE_ASSERT_OK_AND_ASSIGN(const ReadScope scope, lease.Read(device_.stream()));
    COPPICE_ASSERT_OK_AND_ASSIGN(const Lease other, session_->Run(call));
    EXPECT_EQ(device_.Download<float>(OutputOf(other).y.data, 6), MaskedTo(3, 6));
  }
}

TEST_F(CountsTest, ScopeOfAPartHoldsWhatCountsIt) {
  SessionOptions options;
  options.lanes = 2;
  session_ = MakeSession(options);
  const Program* compact = AddCompact();
  const Program* masked = AddMasked();
  ProgramSpec spec{.name = "writes"};
  spec.inputs = {{.name = "kept", .dtype = DType::kInt64, .mutated = true}};
  const Program* writes = *session_->Register(spec, [](CallContext& context) -> absl::Status {
    return context.driver().Call<&DriverTable::MemsetD8Async>(
        context.input(0).data, static_cast<unsigned char>(1), size_t{8}, context.stream());
  });
  for (int i = 0; i < 3; ++i) {
    const Tensor x = UploadMixed(6, 3);
    COPPICE_ASSERT_OK_AND_ASSIGN(Lease lease, session_->Run(CallOf(compact, x)));
    COPPICE_ASSERT_OK_AND_ASSIGN(const std::vector<Lease> parts, lease.Split());
    COPPICE_ASSERT_OK_AND_ASSIGN(const ReadScope scope, parts[kY].Read(device_.stream()));
    const Tensor y = scope.output(kY);
    const Tensor count = scope.count(kY);
    coppice::Call call = CallOf(masked, y, count);
    call.lane = 1;
    COPPICE_ASSERT_OK_AND_ASSIGN(const Lease other, session_->Run(call));
    EXPECT_EQ(device_.Download<float>(OutputOf(other).y.data, 6), MaskedTo(3, 6));
    ExpectRefused(session_->Run(CallOf(writes, count)), absl::StatusCode::kFailedPrecondition,
                  {"'kept'", "open read scopes"});
    COPPICE_ASSERT_OK_AND_ASSIGN(const Tensor sized, scope.ReadSized(kY));
    EXPECT_EQ(sized.sizes[0], 3);
  }
}

TEST_F(CountsTest, CountMayLieInAConstant) {
  const Program* masked = AddMasked();
  COPPICE_ASSERT_OK_AND_ASSIGN(
      const Tensor four,
      session_->memory().AddConstant(DType::kInt64, {}, [](std::span<std::byte> bytes) {
        *reinterpret_cast<int64_t*>(bytes.data()) = 4;
        return absl::OkStatus();
      }));
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(Run(masked, 6, four), MaskedTo(4, 6));
}

TEST_F(CountsTest, CountsThatAreNoneAreRefused) {
  const Program* masked = AddMasked();
  const Program* compact = AddCompact();
  const Tensor x = Upload(Ramp(6));
  const Tensor good = UploadCount(int64_t{4});
  Tensor wrong = good;
  const auto expect_refused = [&](const std::string& text) {
    ExpectRefused(session_->Run(CallOf(masked, x, wrong)), absl::StatusCode::kInvalidArgument,
                  {text});
    wrong = good;
  };
  wrong.dtype = DType::kUInt64;
  expect_refused("symbol 'n'");
  wrong.data += 4;
  expect_refused("aligned to its size");
  wrong = Tensor::Dense(good.data, DType::kInt32, std::vector<int64_t>{2});
  expect_refused("a single i32 or i64");
  wrong.rank = kRankMax + 1;
  expect_refused("a single i32 or i64");
  for (const auto& [rows, columns] : {std::pair<int64_t, int64_t>{-1, -1}, {int64_t{1} << 62, 4}}) {
    wrong.rank = 2;
    wrong.sizes = {rows, columns};
    expect_refused("a single i32 or i64");
  }
  ExpectRefused(session_->Run(CallOf(compact, x, good)), absl::StatusCode::kInvalidArgument,
                {"must be 0, not 1"});
  const Tensor two[] = {good, good};
  coppice::Call call = CallOf(masked, x);
  call.counts = two;
  ExpectRefused(session_->Run(call), absl::StatusCode::kInvalidArgument, {"must be 0 or 1, not 2"});
  EXPECT_EQ(session_->Explain(call).status.code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(CountsTest, CountThatWasFreedIsFoundIfAddressesAreChecked) {
  SessionOptions options;
  options.checks.addresses = true;
  session_ = MakeSession(options);
  const Program* masked = AddMasked();
  const Tensor x = Upload(Ramp(6));
  const Tensor count = UploadCount(int64_t{4});
  ASSERT_OK(session_->Run(CallOf(masked, x, count)));
  ASSERT_OK(device_.Synchronize());
  uploads_.pop_back();
  ExpectRefused(session_->Run(CallOf(masked, x, count)), absl::StatusCode::kFailedPrecondition,
                {"count of symbol 'n'", "not a live allocation"});
}

// A device by itself, as what it found is a failure where it ends.
struct UnorderedCount : CountsFixture {
  void TestBody() override {
    const Program* masked = AddMasked();
    const Tensor x = Upload(Ramp(6));
    const Tensor count = UploadCount(int64_t{4});
    ASSERT_OK(session_->Run(CallOf(masked, x, count)));
    ASSERT_OK(device_.Synchronize());
    COPPICE_ASSERT_OK_AND_ASSIGN(const Stream other, Stream::Create(device_.driver()));
    ASSERT_OK(device_.driver().Call<&DriverTable::MemsetD8Async>(
        count.data, static_cast<unsigned char>(0), size_t{8}, other.handle()));
    ASSERT_OK(session_->Run(CallOf(masked, x, count)));
    ASSERT_OK(device_.Synchronize());
    ASSERT_OK(other.Synchronize());
  }
};

TEST(CountOrderTest, CountThatNothingOrdersIsReported) {
  EXPECT_NONFATAL_FAILURE(UnorderedCount().TestBody(), "StageSmall reads 8 bytes that memset");
}

TEST_F(CountsTest, SymbolsThatCallsAreCheckedByCannotBeCounted) {
  struct Wrong {
    std::function<void(ProgramSpec&)> make;
    const char* text;
  };
  const Wrong wrongs[] = {
      {[](ProgramSpec& spec) {
         spec.claim = std::nullopt;
         spec.symbols[0].policy = *PaddingPolicy::Exact(kLargest);
       },
       "never padded"},
      {[](ProgramSpec& spec) { spec.symbols[0].kind = SymbolKind::kStatic; }, "never padded"},
      {[](ProgramSpec& spec) { spec.symbols[0].min = 1; }, "min"},
      {[](ProgramSpec& spec) { spec.symbols[0].exclude_01 = true; }, "exclude_01"},
      {[](ProgramSpec& spec) { spec.guards = {"n < 9"}; }, "'n < 9'"},
      {[](ProgramSpec& spec) {
         spec.inputs.push_back({.name = "w", .dims = {spec.AddExtent("2*n")}});
       },
       "'2*n' of input w"},
  };
  for (const Wrong& wrong : wrongs) {
    ProgramSpec spec = TakingSpec("masked", PaddingContents::kAny);
    wrong.make(spec);
    const absl::Status status = ValidateSpec(spec);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << wrong.text;
    EXPECT_THAT(std::string(status.message()), HasSubstr(wrong.text));
    EXPECT_THAT(std::string(status.message()), HasSubstr("symbol n is counted"));
  }
  ProgramSpec spec = TakingSpec("masked", PaddingContents::kAny);
  spec.symbols[0].max = 64;
  spec.outputs.push_back({.name = "z", .dims = {spec.AddExtent("2*n")}});
  spec.scalars = {{.name = "m"}};
  spec.guards = {"m > 0"};
  EXPECT_OK(ValidateSpec(spec));
}

}  // namespace
}  // namespace coppice
