// Goal: every sentence of rebucket.h, and of session.h about policies that are replaced while calls
// run. Method: affine on the emulator, whose executions are counted; a clock that tests set; every
// driver call of a swap fails once.

#include "coppice/graphs/rebucket.h"

#include "tests/graphs/rebucket_fixture.h"

namespace coppice {
namespace {

using absl::StatusCode;
using testing::Contains;
using testing::Field;

class RebucketTest : public RebucketFixture {};

TEST_F(RebucketTest, PolicyIsReplacedForAllCallsFromThere) {
  const Affine affine = MakeObserved();
  EXPECT_THAT(BucketsOf(affine), ElementsAre(1, 2, 4, 8, 16, 32, 64));
  Serve(affine, {5});
  EXPECT_THAT(Recorded(affine), ElementsAre(8));
  ASSERT_OK(SetBuckets(affine, {6, 16, 64}));
  EXPECT_THAT(BucketsOf(affine), ElementsAre(6, 16, 64));
  EXPECT_EQ(ExpectOutput(affine, 5), RunKind::kWarmUp) << "something was recorded";
  Serve(affine, {5, 7});
  EXPECT_THAT(Recorded(affine), ElementsAre(6, 16));
}

TEST_F(RebucketTest, GraphsOfBucketsThatStayReplay) {
  const Affine affine = MakeObserved();
  Serve(affine, {5, 16});
  ASSERT_OK(SetBuckets(affine, {8, 12, 64}));
  EXPECT_EQ(ExpectOutput(affine, 5), RunKind::kReplay);
  EXPECT_EQ(ExpectOutput(affine, 16), RunKind::kWarmUp);
  EXPECT_THAT(Recorded(affine), ElementsAre(8));
}

TEST_F(RebucketTest, GraphWithLeasedOutputsGoesWhenTheyAreNotAnyMore) {
  const Affine affine = MakeObserved();
  Serve(affine, {5});
  std::optional<Lease> lease = *Call(affine, 5);
  EXPECT_THAT(affine.session->nodes(), Each(Field(&NodeInfo::retired, false)));
  ASSERT_OK(SetBuckets(affine, {6, 64}));
  EXPECT_THAT(Recorded(affine), ElementsAre(8));
  EXPECT_THAT(affine.session->nodes(), Contains(Field(&NodeInfo::retired, true)));
  EXPECT_EQ(Read(*lease), Expected(5));
  lease.reset();
  EXPECT_EQ(ExpectOutput(affine, 3), RunKind::kWarmUp);
  EXPECT_THAT(Recorded(affine), IsEmpty());
}

TEST_F(RebucketTest, PolicyThatDoesNotFitIsRefused) {
  ProgramSpec spec = ObservedSpec();
  spec.symbols[0].multiple_of = 1;
  spec.symbols[0].max = 64;
  const Affine affine = MakeObserved({}, spec);
  const auto set = [&](int symbol, const PaddingPolicy& policy) {
    return affine.session->policies().SetPolicy(*affine.program, symbol, policy);
  };
  EXPECT_THAT(set(1, *PaddingPolicy::Pow2(64)), StatusIs(StatusCode::kInvalidArgument));
  EXPECT_THAT(set(-1, *PaddingPolicy::Pow2(64)), StatusIs(StatusCode::kInvalidArgument));
  EXPECT_THAT(set(0, *PaddingPolicy::Pow2(32)), StatusIs(StatusCode::kInvalidArgument));
  EXPECT_THAT(set(0, *PaddingPolicy::Exact(64)), StatusIs(StatusCode::kInvalidArgument));
  spec.name = "even";
  spec.symbols[0].multiple_of = 2;
  spec.symbols[0].policy = *PaddingPolicy::Linear(2, 64);
  const Program* const even = *affine.session->Register(spec, AffineCallable());
  EXPECT_THAT(affine.session->policies().SetPolicy(*even, 0, *PaddingPolicy::Linear(3, 64)),
              StatusIs(StatusCode::kInvalidArgument));
  EXPECT_OK(affine.session->policies().SetPolicy(*even, 0, *PaddingPolicy::Linear(4, 64)));
  EXPECT_THAT(MakeObserved().session->policies().SetPolicy(*even, 0, *PaddingPolicy::Linear(4, 64)),
              StatusIs(StatusCode::kInvalidArgument));
  ASSERT_OK(affine.session->Unregister(*even));
  EXPECT_THAT(affine.session->policies().SetPolicy(*even, 0, *PaddingPolicy::Linear(4, 64)),
              StatusIs(StatusCode::kFailedPrecondition));
  EXPECT_THAT(affine.session->policies().GetPolicy(*even, 0),
              StatusIs(StatusCode::kFailedPrecondition));
  spec.name = "static";
  spec.symbols[0].kind = SymbolKind::kStatic;
  const Program* const unpadded = *affine.session->Register(spec, AffineCallable());
  EXPECT_THAT(affine.session->policies().SetPolicy(*unpadded, 0, *PaddingPolicy::Linear(4, 64)),
              StatusIs(StatusCode::kInvalidArgument));
}

TEST_F(RebucketTest, WhateverAsksForAPolicySeesTheOneInForce) {
  ProgramSpec spec = ObservedSpec();
  const Affine affine = MakeObserved({}, spec);
  PaddingPolicy guarded = *PaddingPolicy::List(std::vector<int64_t>{6, 64}, 64);
  ASSERT_OK(affine.session->policies().SetPolicy(*affine.program, 0,
                                                 *guarded.WithGuard({.max_ratio = 2})));
  const int64_t scalar = std::bit_cast<int64_t>(2.0);
  const auto warm = [&](int64_t bucket) {
    return affine.session->warming().Warm(*affine.program, affine.binding,
                                          std::vector<std::vector<int64_t>>{{bucket}}, {&scalar, 1},
                                          {.scratch = scratch_});
  };
  EXPECT_THAT(warm(8), StatusIs(StatusCode::kInvalidArgument));
  EXPECT_OK(warm(6));
  EXPECT_EQ(ExpectOutput(affine, 4), RunKind::kReplay);
  COPPICE_ASSERT_OK_AND_ASSIGN(const Lease refused, Call(affine, 20));
  EXPECT_EQ(refused.reason(), Reason::kPaddedTooMuch);
  uploads_.push_back(*device_.Upload(Ramp(20)));
  const Tensor x = FloatsAt(uploads_.back().address(), 20);
  const Explanation explained = affine.session->Explain({.program = affine.program,
                                                         .binding = affine.binding,
                                                         .inputs = {&x, 1},
                                                         .scalars = {&scalar, 1},
                                                         .stream = device_.stream()});
  EXPECT_THAT(explained.text, HasSubstr("n = 20 in a bucket of 64"));
  const std::string path = testing::TempDir() + "rebucket_profile.json";
  ASSERT_OK(affine.session->warming().SaveProfile(path));
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  EXPECT_THAT(text.str(), HasSubstr("\"6,64\""));
  std::filesystem::remove(path);
}

TEST_F(RebucketTest, ExtentsThatAreNotPaddedKeepTheirGraphs) {
  ProgramSpec spec = ObservedSpec();
  spec.symbols[0].kind = SymbolKind::kAuto;
  const Affine affine = MakeObserved({}, spec);
  Serve(affine, {8});
  ASSERT_OK(SetBuckets(affine, {6, 64}));
  EXPECT_EQ(ExpectOutput(affine, 8), RunKind::kReplay);
}

TEST_F(RebucketTest, ResetKeepsPolicyAndWhatWasObserved) {
  const Affine affine = MakeObserved();
  Serve(affine, {5});
  ASSERT_OK(SetBuckets(affine, {6, 64}));
  const std::string observed = *affine.session->policies().GetObserved(*affine.program, 0);
  ASSERT_OK(affine.session->Reset(*affine.program));
  EXPECT_THAT(BucketsOf(affine), ElementsAre(6, 64));
  EXPECT_EQ(*affine.session->policies().GetObserved(*affine.program, 0), observed);
}

TEST_F(RebucketTest, CallsThatFitAreCountedHoweverTheyRun) {
  const Affine affine = MakeObserved();
  Serve(affine, {5});
  ASSERT_OK(Call(affine, 70).status());
  EXPECT_FALSE(Call(affine, 9, 2, [](coppice::Call& call) { call.scalars = {}; }).ok());
  EXPECT_THAT(*affine.session->policies().GetObserved(*affine.program, 0),
              HasSubstr(R"("calls": 4, "beyond": 1, "sizes": [[5, "3"]])"));
  const absl::Status none =
      MakeAffine().session->policies().GetObserved(*affine.program, 0).status();
  EXPECT_EQ(none.code(), StatusCode::kInvalidArgument);
  const Affine unobserved = MakeAffine();
  EXPECT_THAT(unobserved.session->policies().GetObserved(*unobserved.program, 0),
              StatusIs(StatusCode::kInvalidArgument));
  EXPECT_THAT(unobserved.session->policies().Rebucket(*unobserved.program, 0, {}),
              StatusIs(StatusCode::kInvalidArgument));
}

TEST_F(RebucketTest, HalfLifeIsNotNegative) {
  ProgramSpec spec = ObservedSpec();
  for (const double half_life : {-1.0, std::nan("")}) {
    spec.symbols[0].observe_half_life = half_life;
    EXPECT_THAT(ValidateSpec(spec), StatusIs(StatusCode::kInvalidArgument)) << half_life;
  }
}

TEST_F(RebucketTest, WhatWasObservedGoesOnInAnotherSession) {
  const Affine before = MakeObserved();
  Serve(before, {20});
  const std::string observed = *before.session->policies().GetObserved(*before.program, 0);
  const Affine after = MakeObserved();
  ASSERT_OK(after.session->policies().SetObserved(*after.program, 0, observed));
  EXPECT_EQ(*after.session->policies().GetObserved(*after.program, 0), observed);
  COPPICE_ASSERT_OK_AND_ASSIGN(const RebucketReport report,
                               after.session->policies().Rebucket(*after.program, 0, Eager(after)));
  EXPECT_EQ(report.outcome, Rebucketed::kSwapped);
  EXPECT_EQ(report.calls, 3);
  EXPECT_THAT(BucketsOf(after), Contains(20));
  const auto set = [&](const std::string& text) {
    return after.session->policies().SetObserved(*after.program, 0, text);
  };
  EXPECT_THAT(set("{"), StatusIs(StatusCode::kInvalidArgument));
  std::string other = observed;
  other.replace(other.find("\"limit\": 64"), 11, "\"limit\": 65");
  EXPECT_THAT(set(other), StatusIs(StatusCode::kInvalidArgument));
  EXPECT_EQ(*after.session->policies().GetObserved(*after.program, 0), observed);
}

TEST_F(RebucketTest, NewBucketsReplayFromTheFirstCall) {
  const Affine affine = MakeObserved();
  Serve(affine, {20, 5});
  const int before = Executions();
  COPPICE_ASSERT_OK_AND_ASSIGN(const RebucketReport report, affine.session->policies().Rebucket(
                                                                *affine.program, 0, Eager(affine)));
  EXPECT_EQ(report.outcome, Rebucketed::kSwapped) << report.why;
  EXPECT_THAT(report.learned.added, Contains(20));
  EXPECT_GE(report.graphs, 1);
  EXPECT_EQ(BucketsOf(affine), report.learned.buckets);
  EXPECT_LT(report.learned.waste_after_pct, report.learned.waste_before_pct);
  EXPECT_EQ(Executions(), before) << "something but calls ran on the program's own state";
  EXPECT_EQ(ExpectOutput(affine, 20), RunKind::kReplay);
  EXPECT_EQ(ExpectOutput(affine, 5), RunKind::kReplay);
  for (const int64_t gone : report.learned.dropped)
    EXPECT_THAT(Recorded(affine), Not(Contains(gone)));
}

TEST_F(RebucketTest, NothingIsLearnedBeforeThePeriodIsOver) {
  const Affine affine = MakeObserved();
  Serve(affine, {20});
  RebucketOptions options = Eager(affine);
  options.period = 4;
  EXPECT_EQ(affine.session->policies().Rebucket(*affine.program, 0, options)->outcome,
            Rebucketed::kNotDue);
  EXPECT_EQ(BucketsOf(affine).size(), 7U);
  ASSERT_OK(Call(affine, 20).status());
  EXPECT_EQ(affine.session->policies().Rebucket(*affine.program, 0, options)->outcome,
            Rebucketed::kSwapped);
  EXPECT_EQ(affine.session->policies().Rebucket(*affine.program, 0, options)->outcome,
            Rebucketed::kNotDue);
}

TEST_F(RebucketTest, LadderThatIsGoodStays) {
  const Affine affine = MakeObserved();
  RebucketOptions options = Eager(affine);
  options.period = 0;
  EXPECT_EQ(affine.session->policies().Rebucket(*affine.program, 0, options)->outcome,
            Rebucketed::kKept);
  Serve(affine, {16, 32});
  COPPICE_ASSERT_OK_AND_ASSIGN(const RebucketReport report,
                               affine.session->policies().Rebucket(*affine.program, 0, options));
  EXPECT_EQ(report.outcome, Rebucketed::kKept);
  EXPECT_EQ(report.learned.buckets, BucketsOf(affine));
}

TEST_F(RebucketTest, DryRunOnlyReports) {
  const Affine affine = MakeObserved();
  Serve(affine, {20});
  RebucketOptions options = Eager(affine);
  options.dry_run = true;
  options.binding = nullptr;
  for (int turn = 0; turn < 2; ++turn) {
    COPPICE_ASSERT_OK_AND_ASSIGN(const RebucketReport report,
                                 affine.session->policies().Rebucket(*affine.program, 0, options));
    EXPECT_EQ(report.outcome, Rebucketed::kWouldSwap);
    EXPECT_THAT(report.learned.buckets, Contains(20));
    EXPECT_EQ(report.graphs, 1);
  }
  EXPECT_EQ(BucketsOf(affine).size(), 7U);
  EXPECT_THAT(Recorded(affine), ElementsAre(32));
}

TEST_F(RebucketTest, AtMostSoManyGraphsAreRecordedPerSwapAndMinute) {
  const Affine affine = MakeObserved();
  RebucketOptions options = Eager(affine);
  int64_t now = 0;
  options.now_ns = [&now] { return now; };
  options.graphs_per_minute = 1;
  Serve(affine, {20});
  COPPICE_ASSERT_OK_AND_ASSIGN(RebucketReport report,
                               affine.session->policies().Rebucket(*affine.program, 0, options));
  EXPECT_EQ(report.outcome, Rebucketed::kSwapped);
  EXPECT_EQ(report.graphs, 1);
  for (int turn = 0; turn < 4; ++turn)
    Serve(affine, {12});
  now = 59'999'999'999;
  COPPICE_ASSERT_OK_AND_ASSIGN(report,
                               affine.session->policies().Rebucket(*affine.program, 0, options));
  EXPECT_EQ(report.outcome, Rebucketed::kLimited);
  EXPECT_EQ(report.why.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(report.learned.added, Contains(12));
  EXPECT_THAT(BucketsOf(affine), Not(Contains(12)));
  now = 60'000'000'000;
  Serve(affine, {12});
  options.graphs_max = 0;
  COPPICE_ASSERT_OK_AND_ASSIGN(report,
                               affine.session->policies().Rebucket(*affine.program, 0, options));
  EXPECT_EQ(report.outcome, Rebucketed::kLimited);
  options.graphs_max = 1;
  Serve(affine, {12});
  COPPICE_ASSERT_OK_AND_ASSIGN(report,
                               affine.session->policies().Rebucket(*affine.program, 0, options));
  EXPECT_EQ(report.outcome, Rebucketed::kSwapped);
  EXPECT_THAT(BucketsOf(affine), Contains(12));
}

TEST_F(RebucketTest, GraphLimitLeavesEverythingAsItWas) {
  for (const OnLimit on_limit : {OnLimit::kEager, OnLimit::kEvict}) {
    const Affine affine =
        MakeObserved({.limits = {.graphs_per_program_max = 2, .on_limit = on_limit}});
    Serve(affine, {5, 20});
    COPPICE_ASSERT_OK_AND_ASSIGN(
        const RebucketReport report,
        affine.session->policies().Rebucket(*affine.program, 0, Eager(affine)));
    EXPECT_EQ(report.outcome, Rebucketed::kNotRecorded);
    EXPECT_EQ(report.why.code(), StatusCode::kResourceExhausted);
    EXPECT_EQ(BucketsOf(affine).size(), 7U);
    EXPECT_EQ(ExpectOutput(affine, 5), RunKind::kReplay);
    EXPECT_EQ(ExpectOutput(affine, 20), RunKind::kReplay);
  }
}

TEST_F(RebucketTest, DriverCallThatFailsLeavesTheOldLadderOrTheNewOne) {
  bool swapped = false;
  int kept = 0;
  for (int64_t nth = 1; !swapped; ++nth) {
    const Affine affine = MakeObserved();
    Serve(affine, {5, 20});
    const std::vector<int64_t> before = BucketsOf(affine);
    const int64_t faults = device_.ledger().faulted();
    device_.ledger().Inject({.nth = nth, .result = CuResult::kOutOfMemory});
    const absl::StatusOr<RebucketReport> report =
        affine.session->policies().Rebucket(*affine.program, 0, Eager(affine));
    const bool injected = device_.ledger().faulted() > faults;
    device_.ledger().ClearFaults();
    const bool whole = report.ok() && report->outcome == Rebucketed::kSwapped;
    EXPECT_EQ(BucketsOf(affine), whole ? report->learned.buckets : before) << nth;
    if (report.ok() && !whole) {
      EXPECT_EQ(report->outcome, Rebucketed::kNotRecorded);
      EXPECT_FALSE(report->why.ok());
      EXPECT_THAT(Recorded(affine), UnorderedElementsAre(8, 32)) << nth;
    }
    kept += whole ? 0 : 1;
    for (const int64_t n : {5, 20})
      EXPECT_EQ(ExpectOutput(affine, n), RunKind::kReplay) << nth;
    swapped = !injected;
    ASSERT_LT(nth, 1000);
  }
  EXPECT_GT(kept, 5);
}

TEST_F(RebucketTest, SuspendedSessionRefuses) {
  const Affine affine = MakeObserved();
  Serve(affine, {20});
  ASSERT_OK(affine.session->memory().Suspend({}));
  EXPECT_THAT(affine.session->policies().Rebucket(*affine.program, 0, Eager(affine)),
              StatusIs(StatusCode::kFailedPrecondition));
  ASSERT_OK(affine.session->memory().Resume());
  EXPECT_EQ(affine.session->policies().Rebucket(*affine.program, 0, Eager(affine))->outcome,
            Rebucketed::kSwapped);
  EXPECT_EQ(ExpectOutput(affine, 20), RunKind::kReplay);
}

TEST_F(RebucketTest, PolicyOfASuspendedSessionMayBeReplaced) {
  const Affine affine = MakeObserved();
  Serve(affine, {20});
  ASSERT_OK(affine.session->memory().Suspend({}));
  EXPECT_OK(SetBuckets(affine, {20, 64}));
  ASSERT_OK(affine.session->memory().Resume());
  Serve(affine, {20});
  EXPECT_THAT(Recorded(affine), ElementsAre(20));
}

TEST_F(RebucketTest, OptionsThatAreNoneAreRefused) {
  const Affine affine = MakeObserved();
  Serve(affine, {20});
  const auto refused = [&](const auto& change) {
    RebucketOptions options = Eager(affine);
    change(options);
    return affine.session->policies().Rebucket(*affine.program, 0, options).status().code();
  };
  EXPECT_EQ(refused([](RebucketOptions& o) { o.period = -1; }), StatusCode::kInvalidArgument);
  EXPECT_EQ(refused([](RebucketOptions& o) { o.graphs_max = -1; }), StatusCode::kInvalidArgument);
  EXPECT_EQ(refused([](RebucketOptions& o) { o.graphs_per_minute = -1; }),
            StatusCode::kInvalidArgument);
  for (const double cost : {-1.0, std::nan(""), HUGE_VAL})
    EXPECT_EQ(refused([cost](RebucketOptions& o) { o.cost_per_byte = cost; }),
              StatusCode::kInvalidArgument);
  EXPECT_EQ(refused([](RebucketOptions& o) { o.binding = nullptr; }), StatusCode::kInvalidArgument);
  EXPECT_EQ(refused([](RebucketOptions& o) { o.relearn->learn.limit = 32; }),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(refused([](RebucketOptions& o) { o.scratch = nullptr; }),
            StatusCode::kFailedPrecondition);
  affine.session->SetStance(Stance::kReplayOnly);
  EXPECT_EQ(refused([](RebucketOptions&) {}), StatusCode::kFailedPrecondition);
  EXPECT_EQ(BucketsOf(affine).size(), 7U);
}

TEST_F(RebucketTest, RanksThatVoteSwapByHand) {
  const Affine affine =
      MakeObserved({.ranks = {.vote = [](RankVote&) { return absl::OkStatus(); }}});
  Serve(affine, {20});
  RebucketOptions options = Eager(affine);
  EXPECT_THAT(affine.session->policies().Rebucket(*affine.program, 0, options),
              StatusIs(StatusCode::kFailedPrecondition));
  options.dry_run = true;
  COPPICE_ASSERT_OK_AND_ASSIGN(const RebucketReport report,
                               affine.session->policies().Rebucket(*affine.program, 0, options));
  ASSERT_OK(SetBuckets(affine, report.learned.buckets));
  Serve(affine, {20});
  EXPECT_THAT(Recorded(affine), Contains(20));
}

TEST_F(RebucketTest, EachLaneGetsTheGraphsThatTakeOverFromItsOwn) {
  const Affine affine = MakeObserved({.lanes = 3});
  Serve(affine, {20}, 0);
  Serve(affine, {20}, 2);
  COPPICE_ASSERT_OK_AND_ASSIGN(const RebucketReport report, affine.session->policies().Rebucket(
                                                                *affine.program, 0, Eager(affine)));
  EXPECT_EQ(report.graphs, 2);
  EXPECT_EQ(ExpectOutput(affine, 20, 0), RunKind::kReplay);
  EXPECT_EQ(ExpectOutput(affine, 20, 2), RunKind::kReplay);
  EXPECT_EQ(ExpectOutput(affine, 20, 1), RunKind::kWarmUp);
}

TEST_F(RebucketTest, BucketThatTakesOverFromOneThatGoesIsRecordedToo) {
  const Affine affine = MakeObserved();
  ASSERT_OK(SetBuckets(affine, {20, 32, 64}));
  Serve(affine, {18, 64, 64, 64, 64});
  RebucketOptions options = Eager(affine);
  options.relearn->learn.count = 2;
  COPPICE_ASSERT_OK_AND_ASSIGN(const RebucketReport report,
                               affine.session->policies().Rebucket(*affine.program, 0, options));
  ASSERT_EQ(report.outcome, Rebucketed::kSwapped);
  EXPECT_EQ(ExpectOutput(affine, 18), RunKind::kReplay);
  EXPECT_EQ(ExpectOutput(affine, 64), RunKind::kReplay);
}

TEST_F(RebucketTest, OpenChainGoesOn) {
  const Affine affine = MakeObserved();
  Serve(affine, {20});
  COPPICE_ASSERT_OK_AND_ASSIGN(const ChainScope chain, affine.session->Chain());
  std::vector<Lease> leases;
  RebucketOptions options = Eager(affine);
  options.relearn->learn.count = 2;
  options.relearn->learn.prior = 0;  // With one, buckets beyond the largest call stay.
  for (int call = 0; call < 12; ++call) {
    if (call == 6) {
      COPPICE_ASSERT_OK_AND_ASSIGN(const RebucketReport report, affine.session->policies().Rebucket(
                                                                    *affine.program, 0, options));
      EXPECT_EQ(report.outcome, Rebucketed::kSwapped) << report.why;
    }
    if (leases.size() == 3) leases.erase(leases.begin());
    COPPICE_ASSERT_OK_AND_ASSIGN(leases.emplace_back(), Call(affine, 20));
    for (const Lease& lease : leases)
      EXPECT_EQ(Read(lease), Expected(20)) << call;
  }
  leases.clear();
  // A lane finds out what has run by asking twice.
  for (int turn = 0; turn < 3; ++turn) {
    ASSERT_OK(affine.session->policies().Rebucket(
        *affine.program, 0, {.binding = affine.binding, .scratch = scratch_}));
    ASSERT_OK(device_.Synchronize());
  }
  EXPECT_THAT(Recorded(affine), Not(Contains(32)));
}

TEST_F(RebucketTest, GraphsAreRecordedInTheBackgroundWhereThatIsAllowed) {
  ProgramSpec spec = ObservedSpec();
  spec.thread_safe = true;
  std::atomic<int> recorded_here = 0;
  const std::thread::id here = std::this_thread::get_id();
  bool fails = true;
  Affine affine = MakeAffine({.record_in_background = true},
                             AffineCallable([&](CallContext& context) -> absl::Status {
                               if (context.phase() != Phase::kRecord) return absl::OkStatus();
                               recorded_here += std::this_thread::get_id() == here ? 1 : 0;
                               if (context.extent(0) == 20 && fails)
                                 return absl::InternalError("it is broken");
                               return absl::OkStatus();
                             }),
                             spec);
  scratch_ = *affine.session->Bind(*affine.program, AffineStatics(scratch_counter_.address()));
  for (int call = 0; call < 2; ++call)
    ExpectOutput(affine, 20);
  affine.session->WaitForRecordings();
  EXPECT_EQ(ExpectOutput(affine, 20), RunKind::kReplay);
  COPPICE_ASSERT_OK_AND_ASSIGN(RebucketReport report, affine.session->policies().Rebucket(
                                                          *affine.program, 0, Eager(affine)));
  EXPECT_EQ(report.outcome, Rebucketed::kNotRecorded);
  EXPECT_THAT(report.why.message(), HasSubstr("it is broken"));
  EXPECT_EQ(ExpectOutput(affine, 20), RunKind::kReplay);
  fails = false;
  COPPICE_ASSERT_OK_AND_ASSIGN(
      report, affine.session->policies().Rebucket(*affine.program, 0, Eager(affine)));
  EXPECT_EQ(report.outcome, Rebucketed::kSwapped) << report.why;
  EXPECT_EQ(ExpectOutput(affine, 20), RunKind::kReplay);
  EXPECT_EQ(recorded_here, 0);
  affine = {};
}

TEST_F(RebucketTest, ProfileOfLearnedBucketsLoadsWhereTheyAreSet) {
  const std::string path = testing::TempDir() + "rebucket_learned_profile.json";
  std::vector<int64_t> learned;
  {
    const Affine affine = MakeObserved();
    Serve(affine, {20});
    ASSERT_OK(affine.session->policies().Rebucket(*affine.program, 0, Eager(affine)));
    learned = BucketsOf(affine);
    ExpectOutput(affine, 20);
    ASSERT_OK(affine.session->warming().SaveProfile(path));
  }
  const Affine affine = MakeObserved();
  const std::vector<ProfileBinding> bindings = {{.binding = affine.binding, .scratch = scratch_}};
  ASSERT_OK(affine.session->warming().LoadProfile(path, {.bindings = bindings}));
  EXPECT_THAT(Recorded(affine), Not(Contains(20)));
  ASSERT_OK(SetBuckets(affine, learned));
  ASSERT_OK(affine.session->warming().LoadProfile(path, {.bindings = bindings}));
  EXPECT_EQ(ExpectOutput(affine, 20), RunKind::kReplay);
  std::filesystem::remove(path);
}

TEST_F(RebucketTest, CallableThatLearnsEndsTheProcessAndSaysWhy) {
  Session* session = nullptr;
  const Program* program = nullptr;
  const Affine affine = MakeAffine({}, AffineCallable([&](CallContext&) {
                                     return session->policies().GetPolicy(*program, 0).status();
                                   }));
  session = affine.session.get();
  program = affine.program;
  // A child that is forked has no device: one that begins anew.
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  EXPECT_DEATH(ExpectRun(affine, 4, RunKind::kWarmUp), "a callable must not call its session");
}

TEST_F(RebucketTest, GuardStaysWithTheBucketsThatStay) {
  ProgramSpec spec = ObservedSpec();
  spec.symbols[0].policy = *(*PaddingPolicy::List(std::vector<int64_t>{8, 32, 64}, 64))
                                .WithGuard({.min_replay_size = 3, .lower_bounds = {2, 10, 40}});
  const Affine affine = MakeObserved({}, spec);
  Serve(affine, {20});
  RebucketOptions options = Eager(affine);
  options.relearn->learn.count = 4;
  ASSERT_EQ(affine.session->policies().Rebucket(*affine.program, 0, options)->outcome,
            Rebucketed::kSwapped);
  const PaddingPolicy policy = *affine.session->policies().GetPolicy(*affine.program, 0);
  const std::vector<int64_t> buckets = policy.buckets();
  EXPECT_EQ(policy.guard().min_replay_size, 3);
  ASSERT_EQ(policy.guard().lower_bounds.size(), buckets.size());
  for (size_t i = 0; i < buckets.size(); ++i) {
    const int64_t bound = buckets[i] == 8 ? 2 : buckets[i] == 32 ? 10 : buckets[i] == 64 ? 40 : 0;
    EXPECT_EQ(policy.guard().lower_bounds[i], bound) << buckets[i];
  }
}

TEST_F(RebucketTest, DefaultsFollowThePolicy) {
  const RelearnOptions small = RelearnFor(*PaddingPolicy::Geometric(1.25, 1, 512), 1);
  EXPECT_EQ(small.learn.limit, 512);
  EXPECT_EQ(small.learn.max_ratio, 1.25);
  EXPECT_EQ(small.learn.max_gap, 2);
  const RelearnOptions large = RelearnFor(*PaddingPolicy::Linear(16, 8192), 16);
  EXPECT_EQ(large.learn.count, 256);
  EXPECT_EQ(large.learn.align, 16);
  EXPECT_EQ(large.learn.max_ratio, 1.5);
  const RelearnOptions few = RelearnFor(*PaddingPolicy::Pow2(512));
  EXPECT_EQ(few.learn.count, 10);
  EXPECT_EQ(few.learn.max_ratio, 0) << "so few buckets cannot keep a cap";
  const RelearnOptions more = RelearnFor(*PaddingPolicy::Pow2(512), 1, 40);
  EXPECT_EQ(more.learn.count, 40);
  EXPECT_EQ(more.learn.max_ratio, 0) << "the policy has too few";
  EXPECT_EQ(RelearnFor(*PaddingPolicy::Pow2(512), 1, 1000).learn.count, 256);
  EXPECT_EQ(RelearnFor(*PaddingPolicy::Pow2(512), 1, 3).learn.count, 10);
  SizeHistogram histogram;
  histogram.Add(100, 10);
  for (const PaddingPolicy& policy :
       {*PaddingPolicy::Geometric(1.25, 1, 512), *PaddingPolicy::Linear(16, 8192),
        *PaddingPolicy::Pow2(512), *PaddingPolicy::Ramp(1, 64, 600)}) {
    for (const int64_t multiple_of : {1, 2})
      EXPECT_OK(Relearn(histogram, policy.buckets(), RelearnFor(policy, multiple_of)));
  }
}

TEST_F(RebucketTest, CallsRunWhileOtherThreadsReplacePolicies) {
  Affine affine = MakeObserved({.lanes = 2});
  Serve(affine, {20, 5});
  uploads_.push_back(*device_.Upload(Ramp(20)));
  const DeviceAddress address = uploads_.back().address();
  const DeviceMemory counter = *device_.Upload(std::vector<float>{0});
  const Binding* const other =
      *affine.session->Bind(*affine.program, AffineStatics(counter.address()));
  std::atomic<int> running = 2;
  std::atomic<int64_t> swaps = 0;  // Calls run until there was one, whoever is scheduled when.
  const std::array<Stream, 2> streams = {*Stream::Create(device_.driver()),
                                         *Stream::Create(device_.driver())};
  std::vector<std::thread> threads;
  threads.reserve(streams.size());
  for (int lane = 0; lane < 2; ++lane) {
    threads.emplace_back([&, lane] {
      EXPECT_OK(device_.context().MakeCurrent());
      for (int64_t turn = 0; turn < 100 || swaps == 0; ++turn) {
        const Tensor x = FloatsAt(address, turn % 20 + 1);
        const int64_t scalar = std::bit_cast<int64_t>(2.0);
        EXPECT_OK(affine.session->Run({.program = affine.program,
                                       .binding = lane == 0 ? affine.binding : other,
                                       .inputs = {&x, 1},
                                       .scalars = {&scalar, 1},
                                       .stream = streams[static_cast<size_t>(lane)].handle(),
                                       .lane = lane}));
      }
      --running;
    });
  }
  RebucketOptions options = Eager(affine);
  options.graphs_per_minute = std::numeric_limits<int>::max();
  while (running > 0) {
    EXPECT_OK(SetBuckets(affine, {8, 32, 64}));
    const absl::StatusOr<RebucketReport> report =
        affine.session->policies().Rebucket(*affine.program, 0, options);
    EXPECT_OK(report);
    swaps += report.ok() && report->outcome == Rebucketed::kSwapped ? 1 : 0;
    EXPECT_OK(affine.session->policies().SetObserved(
        *affine.program, 0, *affine.session->policies().GetObserved(*affine.program, 0)));
  }
  for (std::thread& thread : threads)
    thread.join();
  EXPECT_GT(swaps.load(), 0);
  for (int call = 0; call < 3; ++call)
    ExpectOutput(affine, 20);
  affine = {};
}

}  // namespace
}  // namespace coppice
