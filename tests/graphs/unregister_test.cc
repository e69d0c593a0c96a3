// Goal: Session::Reset and Session::Unregister do what session.h says, also while other threads
// call the program. Method: affine and small programs on the emulator; what later calls do, what
// the session and the device hold; threads that call what another one resets and registers anew.

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gmock/gmock.h"

#include "tests/graphs/sketch.h"
#include "tests/support/test_share.h"

namespace coppice {
namespace {

using testing::HasSubstr;
using testing::SizeIs;

class ResetTest : public SessionFixture {
 protected:
  static int64_t GraphBytes(const Affine& affine) {
    return affine.session->memory().usage().of(MemoryKind::kGraphs);
  }
  void Record(const Affine& affine, int64_t n = 4) {
    for (int i = 0; i < 2; ++i)
      ASSERT_OK(Call(affine, n));
  }
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

TEST_F(ResetTest, StaticInputsThatMovedTooOftenArePartOfTheKeyAgain) {
  const Affine affine = MakeAffine({.limits = {.static_moves_max = 0}});
  const DeviceMemory one = *device_.Upload(std::vector<float>{1});
  std::vector<Tensor> statics = AffineStatics(counter_.address());
  statics[0].data = one.address();
  const Binding* const other = *affine.session->Bind(*affine.program, statics);
  Record(affine);
  ASSERT_OK(Call(affine, 4, 2, [&](coppice::Call& call) { call.binding = other; }));
  EXPECT_EQ(affine.session->stats().inputs_demoted, 1);
  ASSERT_OK(affine.session->Reset(*affine.program));
  Record(affine);
  COPPICE_ASSERT_OK_AND_ASSIGN(
      const Lease moved, Call(affine, 4, 2, [&](coppice::Call& call) { call.binding = other; }));
  EXPECT_EQ(affine.session->stats().inputs_demoted, 2) << "it moved, and that once too often";
}

TEST_F(ResetTest, ReasonsAreLoggedAgain) {
  std::vector<std::string> lines;
  const Affine affine =
      MakeAffine({.log = [&lines](const std::string& line) { lines.push_back(line); }});
  for (const int64_t n : {4, 8})
    ASSERT_OK(Call(affine, n));
  EXPECT_THAT(lines, SizeIs(1));
  ASSERT_OK(affine.session->Reset(*affine.program));
  for (const int64_t n : {4, 8})
    ASSERT_OK(Call(affine, n));
  EXPECT_THAT(lines, SizeIs(2));
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

TEST_F(ResetTest, ProgramOfAnotherSessionIsInvalid) {
  const Affine affine = MakeAffine();
  const std::unique_ptr<Session> other = MakeSession();
  EXPECT_THAT(other->Reset(*affine.program), StatusIs(kWrongArgument));
  EXPECT_THAT(other->Unregister(*affine.program), StatusIs(kWrongArgument));
  ExpectRun(affine, 4, RunKind::kWarmUp);
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
  const absl::Status ran = Call(affine, 4).status();
  EXPECT_THAT(ran, StatusIs(kRefused));
  EXPECT_THAT(MessageOf(ran), HasSubstr("'affine' was unregistered"));
  ASSERT_THAT(Call(affine, 4, 2,
                   [&](coppice::Call& call) {
                     EXPECT_THAT(session.Explain(call).status, StatusIs(kRefused));
                     EXPECT_THAT(session.Include(call), StatusIs(kRefused));
                   }),
              StatusIs(kRefused));
  EXPECT_THAT(session.Bind(*affine.program, AffineStatics(counter_.address())), StatusIs(kRefused));
  const std::vector<int64_t> buckets[] = {{4}};
  const int64_t scalars[] = {0};
  EXPECT_THAT(session.Warm(*affine.program, affine.binding, buckets, scalars, {}),
              StatusIs(kRefused));
  const WarmStep steps[] = {{.program = affine.program,
                             .binding = affine.binding,
                             .bucket = {4},
                             .scalars = {0},
                             .scratch = affine.binding}};
  EXPECT_THAT(session.Warm(steps, {}), StatusIs(kRefused));
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

TEST_F(UnregisterTest, ItsCallableIsDestroyed) {
  const auto owned = std::make_shared<int>(0);
  const Affine affine =
      MakeAffine({}, AffineCallable([owned](CallContext&) { return absl::OkStatus(); }));
  Record(affine);
  EXPECT_EQ(owned.use_count(), 2);
  ASSERT_OK(affine.session->Unregister(*affine.program));
  EXPECT_EQ(owned.use_count(), 1);
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

TEST_F(UnregisterTest, VariantsAreProgramsOfTheirOwn) {
  const Affine affine = MakeAffine();
  ProgramSpec spec = AffineSpec();
  spec.variant = "second";
  const Program* const second = *affine.session->Register(spec, AffineCallable());
  ASSERT_OK(affine.session->Unregister(*affine.program));
  EXPECT_EQ(affine.session->Find("affine", "second"), second);
}

// Programs that threads call on lanes of their own while another thread takes them away.
class ProgramThreadsTest : public testing::TestWithParam<bool>, protected SketchDevice {
 protected:
  static constexpr int kLanes = 3;

  const Program* Register() {
    ProgramSpec spec = SpecOf({.name = "taken", .steps = {Output()}});
    spec.thread_safe = true;
    return *session_->Register(std::move(spec), Plus(7));
  }

  // Calls whatever is registered until told to stop: right, or refused.
  void Run(int lane, const std::atomic<bool>& stop) {
    ASSERT_OK(device_.context().MakeCurrent());
    const Stream& stream = streams_[static_cast<size_t>(lane)];
    while (!stop.load() && !HasFailure()) {
      const absl::StatusOr<Lease> lease = session_->Run({.program = program_.load(),
                                                         .inputs = {&x_.tensor, 1},
                                                         .stream = stream.handle(),
                                                         .lane = lane});
      EXPECT_TRUE(lease.ok() || lease.status().code() == kRefused) << lease.status();
      if (!lease.ok()) continue;
      const absl::StatusOr<ReadScope> scope = lease->Read(stream.handle());
      ASSERT_OK(scope);
      EXPECT_EQ(DownloadOn(stream, scope->output(0)), Sum(x_.values, 7));
      ++runs_;
    }
  }
  void Warm(const std::atomic<bool>& stop) {
    ASSERT_OK(device_.context().MakeCurrent());
    const std::vector<int64_t> buckets[] = {{32}, {64}};
    while (!stop.load() && !HasFailure()) {
      const absl::Status warmed = session_->Warm(*program_.load(), nullptr, buckets, {}, {});
      EXPECT_TRUE(warmed.ok() || warmed.code() == kRefused) << warmed;
    }
  }

  const std::unique_ptr<Session> session_ =
      MakeSession({.lanes = kLanes, .record_in_background = GetParam()});
  const Input x_ = Upload(20, 100);
  std::vector<Stream> streams_;  // Of the lanes.
  std::atomic<const Program*> program_ = nullptr;
  std::atomic<int64_t> runs_ = 0;
};

TEST_P(ProgramThreadsTest, CallsAreRightOrRefusedWhileTheirProgramIsResetOrGoes) {
  for (int lane = 0; lane < kLanes; ++lane)
    streams_.push_back(*Stream::Create(device_.driver()));
  program_.store(Register());
  std::atomic<bool> stop = false;
  std::vector<std::thread> threads;
  for (int lane = 0; lane < kLanes; ++lane)
    threads.emplace_back([this, lane, &stop] { Run(lane, stop); });
  threads.emplace_back([this, &stop] { Warm(stop); });
  const int rounds = std::max(5, 200 / static_cast<int>(TestShare()));
  for (int round = 0; round < rounds && !HasFailure(); ++round) {
    const int64_t ran = runs_.load();
    while (runs_.load() < ran + 3 && !HasFailure())
      std::this_thread::yield();
    const Program& taken = *program_.load();
    if (round % 2 == 0) {
      EXPECT_OK(session_->Reset(taken));
    } else {
      EXPECT_OK(session_->Unregister(taken));
      program_.store(Register());
    }
  }
  stop.store(true);
  for (std::thread& thread : threads)
    thread.join();
  EXPECT_OK(session_->Unregister(*program_.load()));
  EXPECT_THAT(session_->nodes(), SizeIs(0));
  EXPECT_EQ(device_.emulator().live().execs, 0);
}

INSTANTIATE_TEST_SUITE_P(Recording,
                         ProgramThreadsTest,
                         testing::Bool(),
                         [](const auto& in_background) {
                           return std::string(in_background.param ? "InTheBackground" : "Inline");
                         });

}  // namespace
}  // namespace coppice
