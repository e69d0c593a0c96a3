// Goal: memory is given back and comes again, within a budget, and nothing of it changes what calls
// compute: budget and evictions, suspension, loans, constants, scrubbing.
// Method: affine with a temporary that grows with the bucket, on an emulator whose bytes a ledger
// counts.

#include "coppice/graphs/session.h"

#include "tests/graphs/session_fixture.h"

namespace coppice {
namespace {

constexpr int64_t kGranule = 2 * kMiB;

class SessionMemoryTest : public SessionFixture {
 protected:
  // Affine with a temporary of n times 64 KiB: 2 MiB at 32, 4 MiB at 64.
  Affine MakeGrowing(const SessionOptions& options = {}) const {
    return MakeAffine(options, AffineCallable([](CallContext& context) -> absl::Status {
                        COPPICE_ASSIGN_OR_RETURN(const DeviceAddress large,
                                                 context.Allocate(context.extent(0) * 64 * kKiB));
                        return context.Free(large);
                      }));
  }

  // Affine whose calls of 2 and more pad to what takes four granules and a bit to stage.
  Affine MakeWide(const SessionOptions& options) const {
    ProgramSpec spec = AffineSpec();
    const int64_t wide = 4 * kGranule / static_cast<int64_t>(sizeof(float));
    spec.symbols[0].policy = *PaddingPolicy::List(std::vector<int64_t>{1, wide}, wide);
    return MakeAffine(options, nullptr, std::move(spec));
  }

  static int64_t Of(const Affine& affine, MemoryKind kind) {
    return affine.session->memory().usage().of(kind);
  }

  // Device memory that the session holds, by the ledger.
  int64_t Held() { return device_.ledger().created_bytes(); }

  // Waits for the stream of all calls.
  void Drain() {
    ASSERT_OK(device_.driver().Call<&DriverTable::StreamSynchronize>(device_.stream()));
  }

  void WarmUp(const Affine& affine, int64_t n) {
    ExpectRun(affine, n, RunKind::kWarmUp);
    ExpectRun(affine, n, RunKind::kRecord);
  }

  static ConstantSource SevenFrom(int* fills) {
    return [fills](std::span<std::byte> bytes) {
      ++*fills;
      const float seven = 7;
      for (size_t i = 0; i < bytes.size(); i += sizeof seven)
        std::memcpy(&bytes[i], &seven, sizeof seven);
      return absl::OkStatus();
    };
  }
};

TEST_F(SessionMemoryTest, BooksWhatItMapsByKindAndGraphsByTheTable) {
  Affine affine = MakeGrowing({.memory = {.workspace_bytes = 1, .copy_out_bytes = 1}});
  WarmUp(affine, 64);
  const MemoryUsage usage = affine.session->memory().usage();
  EXPECT_EQ(usage.of(MemoryKind::kPlan), 3 * kGranule);
  EXPECT_EQ(usage.of(MemoryKind::kEager), 3 * kGranule);
  EXPECT_EQ(usage.of(MemoryKind::kStaging), kGranule);
  EXPECT_EQ(usage.of(MemoryKind::kCopyOut), kGranule);
  EXPECT_EQ(usage.of(MemoryKind::kWorkspace), kGranule);
  EXPECT_EQ(usage.of(MemoryKind::kGraphs), affine.session->nodes()[0].exec_bytes);
  EXPECT_EQ(affine.session->nodes()[0].exec_bytes, 3 * 10 * kKiB);
  EXPECT_EQ(usage.total, Held() + usage.of(MemoryKind::kGraphs));
  ASSERT_OK(affine.session->Evict(nullptr));
  EXPECT_EQ(Of(affine, MemoryKind::kGraphs), 0);
}

TEST_F(SessionMemoryTest, ARecordingTakesTheMemoryOfTheWarmUpsThatAreOver) {
  // Not enough for the eager window beside the nodes' of the largest bucket.
  Affine affine = MakeGrowing({.memory = {.budget_bytes = 5 * kGranule}});
  WarmUp(affine, 64);
  EXPECT_EQ(Of(affine, MemoryKind::kEager), 0);
  EXPECT_EQ(affine.session->stats().evictions, 0);
  ExpectRun(affine, 64, RunKind::kReplay);
}

TEST_F(SessionMemoryTest, AReplayMapsAgainWhatAWarmUpTook) {
  Affine affine = MakeGrowing({.memory = {.budget_bytes = 5 * kGranule}});
  WarmUp(affine, 64);
  EXPECT_EQ(Of(affine, MemoryKind::kPlan), 3 * kGranule);
  ExpectRun(affine, 32, RunKind::kWarmUp);
  EXPECT_LT(Of(affine, MemoryKind::kPlan), 3 * kGranule);
  ExpectRun(affine, 64, RunKind::kReplay);
  EXPECT_EQ(affine.session->stats().remaps, 1);
  EXPECT_EQ(affine.session->stats().evictions, 0);
  EXPECT_LE(affine.session->memory().usage().total_peak, 5 * kGranule);
}

TEST_F(SessionMemoryTest, LeasedOutputsKeepTheirMemory) {
  Affine affine = MakeGrowing({.memory = {.budget_bytes = 6 * kGranule}});
  WarmUp(affine, 64);
  COPPICE_ASSERT_OK_AND_ASSIGN(const Lease lease, Call(affine, 64));
  ExpectRun(affine, 32, RunKind::kWarmUp);
  EXPECT_EQ(Read(lease), Expected(64));
}

TEST_F(SessionMemoryTest, EvictsTheGraphWorthLeastForOneThatNeedsItsBytes) {
  // Staging, one window more, and two graphs.
  Affine affine = MakeGrowing({.memory = {.budget_bytes = 2 * kGranule + 70 * kKiB}});
  WarmUp(affine, 1);
  WarmUp(affine, 2);
  for (int i = 0; i < 100; ++i)
    ExpectRun(affine, 2, RunKind::kReplay);
  WarmUp(affine, 4);
  EXPECT_EQ(affine.session->stats().evictions, 1);
  ExpectRun(affine, 2, RunKind::kReplay);
  EXPECT_EQ(Of(affine, MemoryKind::kGraphs), 60 * kKiB);
  COPPICE_ASSERT_OK_AND_ASSIGN(const Lease lease, Call(affine, 1));
  EXPECT_EQ(lease.reason(), Reason::kEvicted);
}

TEST_F(SessionMemoryTest, AStreamDestroyedOnAnotherLaneDeniesNobodyItsIdleMemory) {
  // Staging of both lanes, and one window more.
  const Affine affine =
      MakeAffine({.lanes = 2, .stance = Stance::kEager, .memory = {.budget_bytes = 3 * kGranule}});
  const auto run_on = [&](int lane, CuStream stream) {
    const auto adjust = [&](coppice::Call& call) {
      call.lane = lane;
      call.stream = stream;
    };
    return Call(affine, 4, 2, adjust);
  };
  for (const int gone_lane : {1, 0, 1}) {
    {
      const Stream gone = *Stream::Create(device_.driver());
      ASSERT_OK(run_on(gone_lane, gone.handle()).status());
    }
    COPPICE_ASSERT_OK_AND_ASSIGN(const Lease lease, run_on(1 - gone_lane, device_.stream()));
    EXPECT_EQ(Read(lease), Expected(4));
  }
  EXPECT_EQ(Executions(), 6);
}

TEST_F(SessionMemoryTest, AStreamDestroyedOnAnotherLaneKeepsNoneOfItsGraphs) {
  // Three windows of the lane that is lent, two of the other, and one graph.
  const Affine affine =
      MakeAffine({.lanes = 2, .memory = {.budget_bytes = 5 * kGranule + 40 * kKiB}});
  std::optional<Loan> loan;
  {
    const Stream gone = *Stream::Create(device_.driver());
    for (int i = 0; i < 2; ++i) {
      ASSERT_OK(Call(affine, 4, 2, [&](coppice::Call& call) {
                  call.lane = 1;
                  call.stream = gone.handle();
                }).status());
    }
    ASSERT_OK(gone.Synchronize());
    COPPICE_ASSERT_OK_AND_ASSIGN(Loan lent, affine.session->memory().Lend(1));
    loan.emplace(std::move(lent));
  }
  WarmUp(affine, 4);
  EXPECT_EQ(affine.session->stats().evictions, 1);
}

TEST_F(SessionMemoryTest, WarmSaysWhatTheBudgetDidNotKeep) {
  // As above: two graphs.
  const Affine affine = MakeGrowing({.memory = {.budget_bytes = 2 * kGranule + 70 * kKiB}});
  const DeviceMemory counter = *device_.Upload(std::vector<float>{0});
  const Binding* scratch = *affine.session->Bind(*affine.program, AffineStatics(counter.address()));
  const int64_t scalar = std::bit_cast<int64_t>(2.0);
  const auto warm = [&](const std::vector<std::vector<int64_t>>& buckets) {
    return affine.session->warming().Warm(*affine.program, affine.binding, buckets, {&scalar, 1},
                                          {.scratch = scratch});
  };
  EXPECT_OK(warm({{1}, {2}}));
  EXPECT_EQ(affine.session->stats().evictions, 0);
  EXPECT_THAT(warm({{1}, {2}, {4}}), StatusIs(kExhausted));
  EXPECT_GT(affine.session->stats().evictions, 0);
}

TEST_F(SessionMemoryTest, OverTheBudgetRunsEagerlyOrFailsAsTold) {
  for (const OnLimit on_budget : {OnLimit::kEager, OnLimit::kError}) {
    Affine affine =
        MakeGrowing({.memory = {.budget_bytes = 2 * kGranule + 40 * kKiB, .on_budget = on_budget}});
    WarmUp(affine, 1);
    ExpectRun(affine, 2, RunKind::kWarmUp);
    absl::StatusOr<Lease> lease = Call(affine, 2);
    if (on_budget == OnLimit::kEager) {
      ASSERT_OK(lease);
      EXPECT_EQ(lease->kind(), RunKind::kEager);
      EXPECT_EQ(lease->reason(), Reason::kByteLimit);
      EXPECT_EQ(Read(*lease), Expected(2));
      lease->Release();
    } else {
      EXPECT_THAT(lease, StatusIs(kExhausted, HasSubstr("20480 bytes of memory")));
    }
    EXPECT_EQ(affine.session->stats().evictions, 0);
    ExpectRun(affine, 1, RunKind::kReplay);
  }
}

TEST_F(SessionMemoryTest, TheHeightIsOfPlansWithAGraph) {
  const int64_t granules = 16;
  Affine affine = MakeGrowing({.memory = {.budget_bytes = granules * kGranule}});
  SessionMemory& memory = affine.session->memory();
  ExpectRun(affine, 64, RunKind::kWarmUp);
  // Room for the inputs and the plan, not for the graph.
  ASSERT_OK(memory.SetExternalBytes((granules - 4) * kGranule - 1));
  ExpectRun(affine, 64, RunKind::kEager);
  EXPECT_EQ(memory.usage().height, 0);
  ASSERT_OK(memory.SetExternalBytes(0));
  ExpectRun(affine, 64, RunKind::kRecord);
  const int64_t height = affine.session->nodes()[0].plan_height;
  EXPECT_GT(height, 2 * kGranule);
  ASSERT_OK(affine.session->Evict(nullptr));
  EXPECT_EQ(memory.usage().height, height);
}

TEST_F(SessionMemoryTest, AProgramThatDoesNotFitTheBudgetAtAllFails) {
  Affine affine = MakeGrowing({.memory = {.budget_bytes = 3 * kGranule}});
  EXPECT_THAT(Call(affine, 64).status(), StatusIs(kExhausted));
  WarmUp(affine, 1);
  ExpectRun(affine, 1, RunKind::kReplay);
}

TEST_F(SessionMemoryTest, AWarmUpThatCannotStageItsBucketRunsEagerlyOrFailsAsTold) {
  for (const OnLimit on_budget : {OnLimit::kEager, OnLimit::kEvict, OnLimit::kError}) {
    Affine affine = MakeWide({.memory = {.budget_bytes = 4 * kGranule, .on_budget = on_budget}});
    for (int call = 0; call < 2; ++call) {
      const absl::StatusOr<Lease> lease = Call(affine, 4);
      if (on_budget == OnLimit::kError) {
        EXPECT_THAT(lease, StatusIs(kExhausted));
        continue;
      }
      ASSERT_OK(lease);
      EXPECT_EQ(lease->kind(), RunKind::kEager);
      EXPECT_EQ(lease->reason(), Reason::kByteLimit);
      EXPECT_EQ(Read(*lease), Expected(4));
    }
    WarmUp(affine, 1);
    ExpectRun(affine, 1, RunKind::kReplay);
  }
}

TEST_F(SessionMemoryTest, AWindowIsNoBudgetThatRefusesAWarmUp) {
  Affine affine = MakeWide({.memory = {.window_bytes = 4 * kGranule,
                                       .budget_bytes = 16 * kGranule,
                                       .on_budget = OnLimit::kError}});
  COPPICE_ASSERT_OK_AND_ASSIGN(const Lease lease, Call(affine, 4));
  EXPECT_EQ(lease.kind(), RunKind::kEager);
  EXPECT_EQ(lease.reason(), Reason::kByteLimit);
  EXPECT_EQ(Read(lease), Expected(4));
}

TEST_F(SessionMemoryTest, ARankThatCannotStageWhatWasAgreedFails) {
  SessionOptions options{.memory = {.budget_bytes = 4 * kGranule}};
  options.ranks.vote = [](RankVote&) { return absl::OkStatus(); };
  const Affine affine = MakeWide(options);
  EXPECT_THAT(Call(affine, 4), StatusIs(kExhausted));
  ExpectRun(affine, 1, RunKind::kWarmUp);
}

TEST_F(SessionMemoryTest, ABudgetTakesIdleMemoryOfOtherLanes) {
  Affine affine = MakeGrowing({.lanes = 2, .memory = {.budget_bytes = 7 * kGranule}});
  WarmUp(affine, 64);
  const auto on_second = [](coppice::Call& call) { call.lane = 1; };
  for (const RunKind path : {RunKind::kWarmUp, RunKind::kRecord, RunKind::kReplay}) {
    COPPICE_ASSERT_OK_AND_ASSIGN(const Lease lease, Call(affine, 64, 2, on_second));
    EXPECT_EQ(lease.kind(), path);
    EXPECT_EQ(Read(lease), Expected(64));
  }
  ExpectRun(affine, 64, RunKind::kReplay);
  EXPECT_LE(affine.session->memory().usage().total_peak, 7 * kGranule);
}

TEST_F(SessionMemoryTest, RecordingsInTheBackgroundKeepTheBudget) {
  ProgramSpec spec = AffineSpec();
  spec.thread_safe = true;
  Affine affine = MakeAffine(
      {.record_in_background = true, .memory = {.budget_bytes = 3 * kGranule + 40 * kKiB}},
      AffineCallable(), spec);
  for (const int64_t n : {1, 2, 4}) {
    ExpectRun(affine, n, RunKind::kWarmUp);
    ExpectRun(affine, n, RunKind::kEager);
    affine.session->WaitForRecordings();
    ExpectRun(affine, n, RunKind::kReplay);
  }
  EXPECT_LE(affine.session->memory().usage().total_peak, 3 * kGranule + 40 * kKiB);
}

TEST_F(SessionMemoryTest, ExternalBytesCountAndGraphsGoForThem) {
  Affine affine = MakeGrowing({.memory = {.budget_bytes = 8 * kGranule}});
  WarmUp(affine, 1);
  WarmUp(affine, 2);
  ASSERT_OK(affine.session->memory().SetExternalBytes(3 * kGranule));
  EXPECT_EQ(Of(affine, MemoryKind::kExternal), 3 * kGranule);
  ASSERT_OK(affine.session->memory().SetExternalBytes(kGranule));
  EXPECT_EQ(Of(affine, MemoryKind::kExternal), kGranule);
  ASSERT_OK(affine.session->memory().SetExternalBytes(7 * kGranule - 30 * kKiB));
  EXPECT_EQ(affine.session->stats().evictions, 1);
  const MemoryUsage before = affine.session->memory().usage();
  EXPECT_THAT(affine.session->memory().SetExternalBytes(19 * kGranule), StatusIs(kExhausted));
  EXPECT_EQ(affine.session->memory().usage(), before) << "nothing goes for what cannot be";
  EXPECT_EQ(Of(affine, MemoryKind::kExternal), 7 * kGranule - 30 * kKiB);
  EXPECT_THAT(affine.session->memory().SetExternalBytes(-1), StatusIs(kWrongArgument));
  Affine unbounded = MakeGrowing();
  WarmUp(unbounded, 1);
  EXPECT_THAT(unbounded.session->memory().SetExternalBytes(INT64_MAX), StatusIs(kExhausted));
}

TEST_F(SessionMemoryTest, TrimReleasesWhatNoGraphAndNoLeaseNeeds) {
  Affine affine = MakeGrowing();
  WarmUp(affine, 64);
  WarmUp(affine, 1);
  ASSERT_OK(affine.session->memory().Trim());
  EXPECT_EQ(Of(affine, MemoryKind::kEager), 0);
  EXPECT_EQ(Of(affine, MemoryKind::kPlan), 3 * kGranule);
  ASSERT_OK(affine.session->Evict(nullptr));
  ASSERT_OK(affine.session->memory().Trim());
  EXPECT_EQ(Of(affine, MemoryKind::kPlan), 0);
  EXPECT_EQ(Of(affine, MemoryKind::kSpare), 0);
  EXPECT_EQ(Held(), Of(affine, MemoryKind::kStaging));
  ExpectRun(affine, 64, RunKind::kRecord);
}

TEST_F(SessionMemoryTest, SuspendLeavesNoPhysicalMemoryAndResumeBringsEverythingBack) {
  Affine affine = MakeGrowing({.memory = {.workspace_bytes = 1, .copy_out_bytes = 4 * kKiB}});
  WarmUp(affine, 64);
  WarmUp(affine, 8);
  COPPICE_ASSERT_OK_AND_ASSIGN(const Lease borrowed, Call(affine, 64));
  COPPICE_ASSERT_OK_AND_ASSIGN(const Lease copied, Call(affine, 8, 3, [](coppice::Call& call) {
                                 call.output_mode = OutputMode::kCopyOut;
                               }));
  COPPICE_ASSERT_OK_AND_ASSIGN(const Lease eager, Call(affine, 2, 5));
  COPPICE_ASSERT_OK_AND_ASSIGN(const Lease last, Call(affine, 64));
  const int64_t before = Held();
  ASSERT_OK(affine.session->memory().Suspend({}));
  EXPECT_EQ(Held(), 0);
  const absl::Status refused = Call(affine, 64).status();
  EXPECT_THAT(refused, StatusIs(kRefused));
  const Tensor x = FloatsAt(uploads_.back().address(), 64);
  const int64_t factor = std::bit_cast<int64_t>(2.0);
  EXPECT_EQ(MessageOf(affine.session
                          ->Explain({.program = affine.program,
                                     .binding = affine.binding,
                                     .inputs = {&x, 1},
                                     .scalars = {&factor, 1},
                                     .stream = device_.stream()})
                          .status),
            AsExplained(MessageOf(refused)));
  EXPECT_THAT(last.Read(device_.stream()).status(), StatusIs(kRefused));
  EXPECT_THAT(affine.session->memory().Suspend({}), StatusIs(kRefused));
  ASSERT_OK(affine.session->memory().Resume());
  EXPECT_EQ(Held(), before);
  EXPECT_EQ(Read(last), Expected(64));
  EXPECT_EQ(Read(copied), Expected(8, 3));
  EXPECT_EQ(Read(eager), Expected(2, 5));
  EXPECT_THAT(borrowed.Read(device_.stream()).status(), StatusIs(kRefused));  // Overwritten before.
  ExpectRun(affine, 64, RunKind::kReplay);
  ExpectRun(affine, 8, RunKind::kReplay);
  EXPECT_THAT(affine.session->memory().Resume(), StatusIs(kRefused));
}

TEST_F(SessionMemoryTest, SuspendRefusesOpenScopesAndLeasesIfTold) {
  Affine affine = MakeGrowing();
  WarmUp(affine, 8);
  COPPICE_ASSERT_OK_AND_ASSIGN(Lease lease, Call(affine, 8));
  EXPECT_THAT(affine.session->memory().Suspend({.refuse_leases = true}), StatusIs(kRefused));
  {
    COPPICE_ASSERT_OK_AND_ASSIGN(const ReadScope scope, lease.Read(device_.stream()));
    EXPECT_THAT(affine.session->memory().Suspend({}), StatusIs(kRefused));
  }
  ExpectRun(affine, 8, RunKind::kReplay);
  lease.Release();
  EXPECT_OK(affine.session->memory().Suspend({.refuse_leases = true}));
  EXPECT_OK(affine.session->memory().Resume());
}

TEST_F(SessionMemoryTest, SuspendDropsGraphsIfAsked) {
  Affine affine = MakeGrowing();
  WarmUp(affine, 8);
  ASSERT_OK(affine.session->memory().Suspend({.drop_graphs = true}));
  EXPECT_EQ(affine.session->memory().usage().total, 0);
  ASSERT_OK(affine.session->memory().Resume());
  COPPICE_ASSERT_OK_AND_ASSIGN(const Lease lease, Call(affine, 8));
  EXPECT_EQ(lease.kind(), RunKind::kRecord);
  EXPECT_EQ(lease.reason(), Reason::kEvicted);
}

TEST_F(SessionMemoryTest, ASuspendOrResumeThatTheDriverRefusesLosesNothing) {
  for (int64_t nth = 1;; ++nth) {
    Affine affine = MakeGrowing();
    WarmUp(affine, 64);
    COPPICE_ASSERT_OK_AND_ASSIGN(const Lease lease, Call(affine, 64));
    device_.ledger().Inject({.nth = nth, .result = CuResult::kOutOfMemory});
    const absl::Status suspended = affine.session->memory().Suspend({});
    const absl::Status resumed =
        suspended.ok() ? affine.session->memory().Resume() : absl::OkStatus();
    device_.ledger().ClearFaults();
    if (!resumed.ok()) {
      EXPECT_THAT(Call(affine, 64).status(), StatusIs(kRefused)) << nth;
      ASSERT_OK(affine.session->memory().Resume()) << nth;
    } else if (!suspended.ok() && !lease.Read(device_.stream()).ok()) {
      ASSERT_OK(affine.session->memory().Resume()) << nth;
    }
    EXPECT_EQ(Read(lease), Expected(64)) << nth;
    ExpectRun(affine, 64, RunKind::kReplay);
    if (suspended.ok() && resumed.ok()) break;
    ASSERT_LT(nth, 200);
  }
}

TEST_F(SessionMemoryTest, ConstantsAreStaticInputsThatSurviveASuspension) {
  for (const SuspendedConstants kept :
       {SuspendedConstants::kKeep, SuspendedConstants::kSave, SuspendedConstants::kReload}) {
    Affine affine{.session = MakeSession()};
    int fills = 0;
    const int64_t sizes[] = {1};
    COPPICE_ASSERT_OK_AND_ASSIGN(
        const Tensor seven,
        affine.session->memory().AddConstant(DType::kFloat32, sizes, SevenFrom(&fills)));
    EXPECT_EQ(device_.Download<float>(seven.data, 1), std::vector<float>{7});
    affine.program = *affine.session->Register(AffineSpec(), AffineCallable());
    std::vector<Tensor> statics = AffineStatics(counter_.address());
    statics[0] = seven;
    COPPICE_ASSERT_OK_AND_ASSIGN(affine.binding, affine.session->Bind(*affine.program, statics));
    const float before = device_.Download<float>(counter_.address(), 1)[0];
    WarmUp(affine, 8);
    ASSERT_OK(affine.session->memory().Suspend({.constants = kept}));
    EXPECT_EQ(Held(), kept == SuspendedConstants::kKeep ? kGranule : 0);
    ASSERT_OK(affine.session->memory().Resume());
    EXPECT_EQ(fills, kept == SuspendedConstants::kReload ? 2 : 1);
    ExpectRun(affine, 8, RunKind::kReplay);
    EXPECT_EQ(device_.Download<float>(counter_.address(), 1)[0], before + 21);
  }
}

TEST_F(SessionMemoryTest, AResumeWhoseConstantsCannotBeReloadedMayBeTriedAgain) {
  Affine affine = MakeGrowing();
  bool broken = false;
  const int64_t sizes[] = {3};
  COPPICE_ASSERT_OK_AND_ASSIGN(
      const Tensor constant,
      affine.session->memory().AddConstant(DType::kFloat32, sizes,
                                           [&](std::span<std::byte> bytes) -> absl::Status {
                                             if (broken)
                                               return absl::NotFoundError("the file is gone");
                                             std::memset(bytes.data(), 0, bytes.size());
                                             return absl::OkStatus();
                                           }));
  WarmUp(affine, 8);
  ASSERT_OK(affine.session->memory().Suspend({.constants = SuspendedConstants::kReload}));
  broken = true;
  EXPECT_THAT(affine.session->memory().Resume(), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_EQ(Held(), 0);
  EXPECT_THAT(Call(affine, 8).status(), StatusIs(kRefused));
  broken = false;
  ASSERT_OK(affine.session->memory().Resume());
  EXPECT_EQ(device_.Download<float>(constant.data, 3), (std::vector<float>{0, 0, 0}));
  ExpectRun(affine, 8, RunKind::kReplay);
}

TEST_F(SessionMemoryTest, RefusesConstantsWithoutBytesOrSource) {
  const std::unique_ptr<Session> session = MakeSession();
  int fills = 0;
  const auto add = [&](std::vector<int64_t> sizes, ConstantSource source) {
    return session->memory().AddConstant(DType::kFloat32, sizes, std::move(source)).status();
  };
  for (const std::vector<int64_t>& sizes :
       {std::vector<int64_t>{0}, {-1}, {INT64_MAX, 2}, {1, 1, 1, 1, 1, 1, 1, 1, 1}}) {
    EXPECT_THAT(add(sizes, SevenFrom(&fills)), StatusIs(kWrongArgument));
  }
  EXPECT_THAT(add({1}, nullptr), StatusIs(kWrongArgument));
  EXPECT_THAT(add({1}, [](std::span<std::byte>) { return absl::NotFoundError("no file"); }),
              StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(add({64 * kMiB}, SevenFrom(&fills)), StatusIs(kExhausted));
  EXPECT_EQ(fills, 0);
  EXPECT_OK(add({2, 2}, SevenFrom(&fills)));
}

TEST_F(SessionMemoryTest, LendsIdleMemoryAndCallsFollowWhatTheBorrowerDid) {
  Affine affine = MakeGrowing();
  WarmUp(affine, 64);
  Drain();
  {
    COPPICE_ASSERT_OK_AND_ASSIGN(Loan loan, affine.session->memory().Lend());
    EXPECT_EQ(loan.data(), affine.session->memory().window(0, MemoryKind::kPlan).base);
    EXPECT_EQ(loan.bytes(), 3 * kGranule);
    ASSERT_OK(device_.Write(loan.data(), std::vector<int32_t>{1, 2}));
    EXPECT_THAT(Call(affine, 64).status(), StatusIs(kRefused));
    EXPECT_THAT(affine.session->memory().Lend().status(), StatusIs(kRefused));
    EXPECT_THAT(affine.session->memory().Suspend({}), StatusIs(kRefused));
    EXPECT_THAT(affine.session->memory().Scrub(device_.stream()), StatusIs(kRefused));
  }
  ExpectRun(affine, 64, RunKind::kReplay);
  Drain();
  COPPICE_ASSERT_OK_AND_ASSIGN(Loan loan, affine.session->memory().Lend());
  COPPICE_ASSERT_OK_AND_ASSIGN(const Stream other, Stream::Create(device_.driver()));
  ASSERT_OK(device_.driver().Call<&DriverTable::MemsetD8Async>(
      loan.data(), static_cast<unsigned char>(1), static_cast<size_t>(loan.bytes()),
      other.handle()));
  EXPECT_OK(loan.Return(other.handle()));
  EXPECT_THAT(loan.Return(other.handle()), StatusIs(kRefused));
  ExpectRun(affine, 64, RunKind::kReplay);
}

TEST_F(SessionMemoryTest, LendsNothingThatAReaderOrABorrowerMayStillUse) {
  Affine affine = MakeGrowing();
  WarmUp(affine, 8);
  COPPICE_ASSERT_OK_AND_ASSIGN(const Stream reader, Stream::Create(device_.driver()));
  COPPICE_ASSERT_OK_AND_ASSIGN(const DeviceMemory copy, DeviceMemory::Create(device_.driver(), 32));
  COPPICE_ASSERT_OK_AND_ASSIGN(Lease lease, Call(affine, 8));
  Drain();
  ASSERT_OK(affine.session->memory().Trim());
  {
    COPPICE_ASSERT_OK_AND_ASSIGN(const ReadScope scope, lease.Read(reader.handle()));
    ASSERT_OK(device_.driver().Call<&DriverTable::MemcpyDtoDAsync>(
        copy.address(), scope.output(0).data, size_t{32}, reader.handle()));
  }
  lease.Release();
  // The reader's copy may have run by the time that somebody asks, or not.
  for (int loans = 0; loans < 3;) {
    absl::StatusOr<Loan> loan = affine.session->memory().Lend();
    if (!loan.ok()) {
      EXPECT_THAT(loan.status(), StatusIs(kRefused));
      continue;
    }
    ASSERT_OK(device_.driver().Call<&DriverTable::MemsetD8Async>(
        loan->data(), static_cast<unsigned char>(loans), static_cast<size_t>(loan->bytes()),
        loans % 2 == 0 ? reader.handle() : device_.stream()));
    ASSERT_OK(loan->Return(loans % 2 == 0 ? reader.handle() : device_.stream()));
    ++loans;
    ASSERT_OK(affine.session->memory().Scrub(device_.stream()));
  }
  EXPECT_EQ(device_.Download<float>(copy.address(), 8), Expected(8));
}

TEST_F(SessionMemoryTest, ScrubRefusesAStreamThatCaptures) {
  Affine affine = MakeGrowing();
  WarmUp(affine, 8);
  const DriverTable& cu = device_.driver().table();
  ASSERT_EQ(cu.StreamBeginCapture(device_.stream(), CuCaptureMode::kThreadLocal),
            CuResult::kSuccess);
  EXPECT_THAT(affine.session->memory().Scrub(device_.stream()), StatusIs(kRefused));
  CuGraph graph = nullptr;
  ASSERT_EQ(cu.StreamEndCapture(device_.stream(), &graph), CuResult::kSuccess);
  EXPECT_EQ(cu.GraphDestroy(graph), CuResult::kSuccess);
  ExpectRun(affine, 8, RunKind::kReplay);
}

TEST_F(SessionMemoryTest, LendsNothingThatSomebodyUses) {
  Affine affine = MakeGrowing();
  WarmUp(affine, 8);
  EXPECT_THAT(affine.session->memory().Lend(1).status(), StatusIs(kWrongArgument));
  EXPECT_THAT(affine.session->memory().Lend(-1).status(), StatusIs(kWrongArgument));
  COPPICE_ASSERT_OK_AND_ASSIGN(Lease lease, Call(affine, 8));
  Drain();
  EXPECT_THAT(affine.session->memory().Lend().status(), StatusIs(kRefused));
  lease.Release();
  EXPECT_OK(affine.session->memory().Lend());
}

TEST_F(SessionMemoryTest, ScrubLeavesNothingOfEarlierCalls) {
  Affine affine = MakeGrowing({.memory = {.copy_out_bytes = 4 * kKiB}});
  WarmUp(affine, 8);
  COPPICE_ASSERT_OK_AND_ASSIGN(Lease lease, Call(affine, 8));
  EXPECT_THAT(affine.session->memory().Scrub(device_.stream()), StatusIs(kRefused));
  lease.Release();
  ASSERT_OK(affine.session->memory().Scrub(device_.stream()));
  for (const MemoryKind kind : {MemoryKind::kPlan, MemoryKind::kEager, MemoryKind::kStaging,
                                MemoryKind::kCopyOut, MemoryKind::kWorkspace}) {
    const WindowInfo window = affine.session->memory().window(0, kind);
    EXPECT_EQ(device_.Download<char>(window.base, window.mapped_bytes),
              std::vector<char>(static_cast<size_t>(window.mapped_bytes)));
  }
  ExpectRun(affine, 8, RunKind::kReplay);
  EXPECT_THAT(affine.session->memory().Scrub(device_.stream(), 1), StatusIs(kWrongArgument));
}

}  // namespace
}  // namespace coppice
