// Goal: Session::Reset and Session::Unregister do what session.h says. Method: affine on the
// emulator; what later calls do, what the session and the device hold.

#include "tests/graphs/session_fixture.h"

namespace coppice {
namespace {

class ResetTest : public SessionFixture {
 protected:
  static int64_t GraphBytes(const Affine& affine) {
    return affine.session->memory().usage().of(MemoryKind::kGraphs);
  }
  void Record(const Affine& affine, int64_t n = 4) { CallTimes(2, affine, n); }
};

TEST_F(ResetTest, EveryBucketWarmsUpAnewAndIsRecordedForItself) {
  const Affine affine = MakeAffine();
  for (const int64_t n : {4, 8})
    Record(affine, n);
  ASSERT_OK(affine.session->Reset(*affine.program));
  EXPECT_THAT(affine.session->nodes(), SizeIs(0));
  EXPECT_EQ(GraphBytes(affine), 0);
  EXPECT_EQ(device_.emulator().live().execs, 0);
  for (const int64_t n : {4, 8}) {
    for (const RunKind kind : {RunKind::kWarmUp, RunKind::kRecord, RunKind::kReplay}) {
      COPPICE_ASSERT_OK_AND_ASSIGN(const Lease lease, Call(affine, n));
      EXPECT_EQ(lease.kind(), kind);
      EXPECT_EQ(lease.reason(), kind == RunKind::kReplay ? Reason::kNone : Reason::kNewBucket);
      EXPECT_EQ(Read(lease), Expected(n));
    }
  }
}

TEST_F(ResetTest, OtherProgramsKeepTheirGraphs) {
  const Affine affine = MakeAffine();
  Record(affine);
  Affine other{.session = nullptr};
  other.program = *affine.session->Register(AffineSpec("other"), AffineCallable());
  ASSERT_OK(affine.session->Reset(*other.program));
  ExpectRun(affine, 4, RunKind::kReplay);
}

TEST_F(ResetTest, LeasedOutputsStayRightAndTheirGraphGoesWhenTheLeaseDoes) {
  const Affine affine = MakeAffine();
  Record(affine);
  COPPICE_ASSERT_OK_AND_ASSIGN(Lease lease, Call(affine, 4));
  ASSERT_OK(affine.session->Reset(*affine.program));
  EXPECT_EQ(Read(lease), Expected(4));
  EXPECT_THAT(affine.session->nodes(), SizeIs(1)) << "its memory counts";
  EXPECT_GT(GraphBytes(affine), 0);
  ExpectRun(affine, 8, RunKind::kWarmUp);
  EXPECT_EQ(Read(lease), Expected(4));
  EXPECT_EQ(device_.emulator().live().execs, 1);
  lease.Release();
  ASSERT_OK(device_.Synchronize());
  ExpectRun(affine, 16, RunKind::kWarmUp);
  EXPECT_EQ(device_.emulator().live().execs, 0);
  EXPECT_EQ(GraphBytes(affine), 0);
}

TEST_F(ResetTest, GraphWhoseLeaseIsHeldIsReplayedNoMoreAndGoesWithEvict) {
  const Affine affine = MakeAffine();
  Record(affine);
  COPPICE_ASSERT_OK_AND_ASSIGN(Lease lease, Call(affine, 4));
  ASSERT_OK(affine.session->Reset(*affine.program));
  ExpectRun(affine, 4, RunKind::kWarmUp);
  ExpectRun(affine, 4, RunKind::kRecord);
  EXPECT_THAT(lease.Read(device_.stream()), StatusIs(kRefused)) << "written over as ever";
  EXPECT_EQ(*affine.session->Evict(affine.program), 2);
  EXPECT_EQ(device_.emulator().live().execs, 0);
}

TEST_F(ResetTest, RoomIsMadeOfGraphsThatWereReset) {
  const Affine affine = MakeAffine({.memory = {.budget_bytes = 16 * kMiB}});
  Record(affine);
  std::optional<Lease> lease = *Call(affine, 4);
  ASSERT_OK(affine.session->Reset(*affine.program));
  lease.reset();
  ASSERT_OK(device_.Synchronize());
  // A call that finds no room but what that graph has.
  const MemoryUsage usage = affine.session->memory().usage();
  ASSERT_OK(affine.session->memory().SetExternalBytes(usage.budget - usage.total));
  ASSERT_OK(Call(affine, 4).status());
  EXPECT_EQ(GraphBytes(affine), 0);
}

TEST_F(ResetTest, BucketThatCouldNotBeRecordedIsTriedAnew) {
  bool fails = true;
  const Affine affine = MakeAffine({}, AffineCallable([&fails](CallContext& context) {
                                     return fails && context.phase() == Phase::kRecord
                                                ? absl::InternalError("not now")
                                                : absl::OkStatus();
                                   }));
  Record(affine);
  EXPECT_EQ(Call(affine, 4)->reason(), Reason::kNotCapturable);
  fails = false;
  ASSERT_OK(affine.session->Reset(*affine.program));
  for (const RunKind kind : {RunKind::kWarmUp, RunKind::kRecord, RunKind::kReplay})
    ExpectRun(affine, 4, kind);
}

TEST_F(ResetTest, RefusedBucketIsRefusedNoMore) {
  float factor = 1;
  const auto hook = [&](CallContext& context) {
    const Tensor& x = context.input(0);
    if (context.phase() == Phase::kRecord) factor += 1;  // Baked in, and in no key.
    return Launch(context.driver(), kernels_.scale, context.stream(),
                  ScaleParams{.x = PointerAt<float>(x.data),
                              .y = PointerAt<float>(x.data),
                              .count = 0,
                              .factor = factor},
                  1);
  };
  const Affine affine = MakeAffine({.checks = {.audit_keys = true}}, AffineCallable(hook));
  ExpectRun(affine, 4, RunKind::kWarmUp);
  for (int i = 0; i < 2; ++i)
    EXPECT_THAT(Call(affine, 4), StatusIs(kWrongArgument));
  ASSERT_OK(affine.session->Reset(*affine.program));
  ExpectRun(affine, 4, RunKind::kWarmUp);
}

TEST_F(ResetTest, AutoSymbolsHaveSeenNoExtent) {
  ProgramSpec spec = AffineSpec();
  spec.symbols[0].kind = SymbolKind::kAuto;
  const Affine affine = MakeAffine({}, nullptr, std::move(spec));
  const auto bucket = [&] { return affine.session->nodes().back().bucket[0]; };
  for (const int64_t n : {3, 5})
    ASSERT_OK(Call(affine, n));
  EXPECT_EQ(bucket(), 8) << "the second extent made it dynamic";
  ASSERT_OK(affine.session->Reset(*affine.program));
  ASSERT_OK(Call(affine, 5));
  EXPECT_EQ(bucket(), 5) << "the first extent is static";
}

TEST_F(ResetTest, WaitsForRecordingsInTheBackground) {
  ProgramSpec spec = AffineSpec();
  spec.thread_safe = true;
  const Affine affine = MakeAffine({.record_in_background = true}, nullptr, spec);
  for (int round = 0; round < 20; ++round) {
    for (const int64_t n : {4, 4, 8, 8})
      ASSERT_OK(Call(affine, n));
    ASSERT_OK(affine.session->Reset(*affine.program));
    EXPECT_THAT(affine.session->nodes(), SizeIs(0));
  }
}

TEST_F(ResetTest, StreamThatCapturesIsAnErrorAndTheProgramIsResetAllTheSame) {
  const Affine affine = MakeAffine();
  Record(affine);
  const Driver& driver = device_.driver();
  ASSERT_OK(
      driver.Call<&DriverTable::StreamBeginCapture>(device_.stream(), CuCaptureMode::kRelaxed));
  EXPECT_THAT(affine.session->Reset(*affine.program), StatusIs(kRefused));
  CuGraph graph = nullptr;
  ASSERT_OK(driver.Call<&DriverTable::StreamEndCapture>(device_.stream(), &graph));
  ASSERT_OK(driver.Call<&DriverTable::GraphDestroy>(graph));
  EXPECT_EQ(device_.emulator().live().execs, 1);
  ASSERT_OK(device_.Synchronize());
  ExpectRun(affine, 4, RunKind::kWarmUp);
  EXPECT_EQ(device_.emulator().live().execs, 0);
}

class UnregisterTest : public ResetTest {};

TEST_F(UnregisterTest, NameMayBeRegisteredAgainAndIsAProgramOfItsOwn) {
  Affine affine = MakeAffine();
  Record(affine);
  ASSERT_OK(affine.session->Unregister(*affine.program));
  EXPECT_EQ(affine.session->Find("affine"), nullptr);
  EXPECT_THAT(affine.session->nodes(), SizeIs(0));
  EXPECT_EQ(device_.emulator().live().execs, 0);
  const Program* const before = affine.program;
  COPPICE_ASSERT_OK_AND_ASSIGN(affine.program,
                               affine.session->Register(AffineSpec(), AffineCallable()));
  EXPECT_NE(affine.program, before);
  EXPECT_EQ(affine.session->Find("affine"), affine.program);
  COPPICE_ASSERT_OK_AND_ASSIGN(
      affine.binding, affine.session->Bind(*affine.program, AffineStatics(counter_.address())));
  for (const RunKind kind : {RunKind::kWarmUp, RunKind::kRecord, RunKind::kReplay})
    ExpectRun(affine, 4, kind);
}

TEST_F(UnregisterTest, WhateverComesLaterWithItIsRefused) {
  const Affine affine = MakeAffine();
  Record(affine);
  ASSERT_OK(affine.session->Unregister(*affine.program));
  Session& session = *affine.session;
  EXPECT_THAT(Call(affine, 4), StatusIs(kRefused, HasSubstr("'affine' was unregistered")));
  ASSERT_THAT(Call(affine, 4, 2,
                   [&](coppice::Call& call) {
                     EXPECT_THAT(session.Explain(call).status, StatusIs(kRefused));
                     EXPECT_THAT(session.Include(call), StatusIs(kRefused));
                   }),
              StatusIs(kRefused));
  EXPECT_THAT(session.Bind(*affine.program, AffineStatics(counter_.address())), StatusIs(kRefused));
  const std::vector<int64_t> buckets[] = {{4}};
  const int64_t scalars[] = {0};
  EXPECT_THAT(session.warming().Warm(*affine.program, affine.binding, buckets, scalars, {}),
              StatusIs(kRefused));
  const WarmStep steps[] = {{.program = affine.program,
                             .binding = affine.binding,
                             .bucket = {4},
                             .scalars = {0},
                             .scratch = affine.binding}};
  EXPECT_THAT(session.warming().Warm(steps, {}), StatusIs(kRefused));
  EXPECT_THAT(session.Reset(*affine.program), StatusIs(kRefused));
  EXPECT_THAT(session.Unregister(*affine.program), StatusIs(kRefused));
  EXPECT_EQ(*session.Evict(affine.program), 0);
}

TEST_F(UnregisterTest, ItsBindingsHaveEnded) {
  const Affine affine = MakeAffine();
  std::optional<DeviceMemory> one = *device_.Upload(std::vector<float>{1});
  std::vector<Tensor> statics = AffineStatics(counter_.address());
  statics[0].data = one->address();
  const Binding* const other = *affine.session->Bind(*affine.program, statics);
  for (int i = 0; i < 2; ++i)
    ASSERT_OK(Call(affine, 4, 2, [&](coppice::Call& call) { call.binding = other; }));
  ASSERT_OK(affine.session->Unregister(*affine.program));
  one.reset();  // Nothing uses it any more.
  EXPECT_OK(affine.session->Unbind(*other));
}

TEST_F(UnregisterTest, LeasesOfItsCallsStayRight) {
  const Affine affine = MakeAffine();
  COPPICE_ASSERT_OK_AND_ASSIGN(const Lease eager, Call(affine, 70));
  Record(affine);
  COPPICE_ASSERT_OK_AND_ASSIGN(Lease borrowed, Call(affine, 4));
  ASSERT_OK(affine.session->Unregister(*affine.program));
  EXPECT_EQ(borrowed.output_count(), 1);
  EXPECT_EQ(Read(borrowed), Expected(4));
  EXPECT_EQ(Read(eager), Expected(70));
  EXPECT_EQ(device_.emulator().live().execs, 1);
  borrowed.Release();
  ASSERT_OK(affine.session->Evict(nullptr));
  EXPECT_EQ(device_.emulator().live().execs, 0);
}

TEST_F(UnregisterTest, OutputsOfItMayBeReadInPlaceByOthers) {
  const Affine affine = MakeAffine();
  Record(affine);
  COPPICE_ASSERT_OK_AND_ASSIGN(const Lease made, Call(affine, 4));
  COPPICE_ASSERT_OK_AND_ASSIGN(std::optional<ReadScope> scope, made.Read(device_.stream()));
  const Tensor y = scope->output(0);
  scope.reset();
  ASSERT_OK(affine.session->Unregister(*affine.program));
  const Program* const next = *affine.session->Register(AffineSpec("next"), AffineCallable());
  const Binding* const bound = *affine.session->Bind(*next, AffineStatics(counter_.address()));
  for (int i = 0; i < 2; ++i) {
    COPPICE_ASSERT_OK_AND_ASSIGN(const Lease lease, Call(affine, 4, 2, [&](coppice::Call& call) {
                                   call.program = next;
                                   call.binding = bound;
                                   call.inputs = {&y, 1};
                                 }));
    EXPECT_EQ(Read(lease), (std::vector<float>{9, 18, 27, 36}));
    EXPECT_EQ(Read(made), Expected(4));
  }
  EXPECT_GT(affine.session->stats().inputs_in_place, 0);
}

}  // namespace
}  // namespace coppice
