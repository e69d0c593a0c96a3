// Goal: what Explain says of a call is what Run then does, also where nothing may go for it, and
// says why. Method: affine with a temporary that grows with the bucket; every call is explained
// right before it runs, while nothing is in flight: in states made by hand at each limit, and in
// states that are drawn, under drawn limits.

#include "graphs/call/explain.h"

#include "tests/graphs/session_fixture.h"

namespace coppice {
namespace {

using testing::Contains;

constexpr int64_t kGranuleBytes = 2 * kMiB;

class ExplainTest : public SessionFixture {
 protected:
  // A call, and what was said of it.
  struct Explained {
    Explanation said;
    absl::StatusOr<Lease> lease;
  };

  // Affine with a temporary of n times 64 KiB: 2 MiB at 32, 4 MiB at 64.
  Affine MakeGrowing(const SessionOptions& options) const {
    return MakeAffine(options, AffineCallable([](CallContext& context) -> absl::Status {
                        COPPICE_ASSIGN_OR_RETURN(const DeviceAddress large,
                                                 context.Allocate(context.extent(0) * 64 * kKiB));
                        return context.Free(large);
                      }));
  }

  Explained Run(const Affine& affine,
                int64_t n,
                const std::function<void(coppice::Call&)>& adjust = nullptr) {
    EXPECT_OK(device_.Synchronize());
    Explanation said;
    absl::StatusOr<Lease> lease = Call(affine, n, 2, [&](coppice::Call& call) {
      if (adjust) adjust(call);
      said = affine.session->Explain(call);
    });
    EXPECT_FALSE(said.text.empty());
    return {.said = std::move(said), .lease = std::move(lease)};
  }
  // The same, of which both say this.
  Lease Expect(const Affine& affine,
               int64_t n,
               RunKind kind,
               Reason reason,
               const std::function<void(coppice::Call&)>& adjust = nullptr) {
    Explained explained = Run(affine, n, adjust);
    EXPECT_OK(explained.said.status);
    EXPECT_EQ(NameOf(explained.said.kind), NameOf(kind)) << explained.said.text;
    EXPECT_EQ(NameOf(explained.said.reason), NameOf(reason)) << explained.said.text;
    EXPECT_OK(explained.lease);
    if (!explained.lease.ok()) return {};
    EXPECT_EQ(NameOf(explained.lease->kind()), NameOf(kind));
    EXPECT_EQ(NameOf(explained.lease->reason()), NameOf(reason));
    return *std::move(explained.lease);
  }
  void ExpectRefused(const Affine& affine,
                     int64_t n,
                     absl::StatusCode code,
                     const std::function<void(coppice::Call&)>& adjust = nullptr) {
    const Explained explained = Run(affine, n, adjust);
    EXPECT_THAT(explained.said.status, StatusIs(code));
    EXPECT_THAT(explained.lease, StatusIs(code));
  }
};

TEST_F(ExplainTest, KnowsThatNoGraphMayGoForAnother) {
  const Affine affine =
      MakeGrowing({.limits = {.graphs_per_program_max = 1, .on_limit = OnLimit::kEvict}});
  using enum RunKind;
  (void)Expect(affine, 4, kWarmUp, Reason::kNewBucket);
  std::optional<Lease> kept = Expect(affine, 4, kRecord, Reason::kNewBucket);
  (void)Expect(affine, 8, kWarmUp, Reason::kNewBucket);
  (void)Expect(affine, 8, kEager, Reason::kGraphLimit);
  kept.reset();
  (void)Expect(affine, 8, kRecord, Reason::kNewBucket);
  (void)Expect(affine, 4, kRecord, Reason::kEvicted);
}

TEST_F(ExplainTest, KnowsThatNothingMayGoForTheMemoryOfAGraph) {
  const Affine affine = MakeGrowing({.memory = {.budget_bytes = 5 * kGranuleBytes}});
  using enum RunKind;
  (void)Expect(affine, 64, kWarmUp, Reason::kNewBucket);
  (void)Expect(affine, 64, kRecord, Reason::kNewBucket);
  // The plan window goes for a run without a graph, whose output lies above its temporary.
  std::optional<Lease> kept = Expect(affine, 32, kWarmUp, Reason::kNewBucket);
  for (const Stance stance : {Stance::kReplayOnly, Stance::kRecord}) {
    affine.session->SetStance(stance);
    (void)Expect(affine, 1, stance == Stance::kRecord ? kWarmUp : kEager,
                 stance == Stance::kRecord ? Reason::kNewBucket : Reason::kUserDisabled);
  }
  affine.session->SetStance(Stance::kStrict);
  ExpectRefused(affine, 64, kExhausted);
  affine.session->SetStance(Stance::kRecord);
  const Explained explained = Run(affine, 64);
  EXPECT_OK(explained.said.status);
  EXPECT_EQ(explained.said.kind, kEager);
  EXPECT_EQ(explained.said.reason, Reason::kByteLimit);
  if (explained.lease.ok()) {
    EXPECT_EQ(explained.lease->reason(), Reason::kByteLimit);
  } else {
    EXPECT_THAT(explained.lease, StatusIs(kExhausted));
  }
  kept.reset();
  (void)Expect(affine, 64, kReplay, Reason::kNone);
}

// An output may turn out to be an alias, which takes no memory.
TEST_F(ExplainTest, DoesNotKnowHowMuchMemoryARunWithoutAGraphTakes) {
  const std::unique_ptr<Session> session = MakeSession();
  ProgramSpec spec{.name = "large"};
  spec.outputs = {{.name = "y", .dims = {Dim::Fixed(int64_t{1} << 40)}}};
  const Program* program = *session->Register(
      std::move(spec), [](CallContext& context) { return context.AllocateOutput(0).status(); });
  const coppice::Call call{.program = program, .stream = device_.stream()};
  EXPECT_OK(session->Explain(call).status);
  EXPECT_THAT(session->Run(call), StatusIs(kExhausted));
}

TEST_F(ExplainTest, KnowsThatTheRingOfCopiesIsFull) {
  const Affine affine = MakeGrowing({.memory = {.copy_out_bytes = kBufferAlignment}});
  const auto copied = [](coppice::Call& call) { call.output_mode = OutputMode::kCopyOut; };
  using enum RunKind;
  (void)Expect(affine, 4, kWarmUp, Reason::kNewBucket, copied);
  std::optional<Lease> kept = Expect(affine, 4, kRecord, Reason::kNewBucket, copied);
  for (int i = 0; i < 2; ++i)
    ExpectRefused(affine, 4, kExhausted, copied);
  kept.reset();
  (void)Expect(affine, 4, kReplay, Reason::kNone, copied);
}

TEST_F(ExplainTest, KnowsThatAGraphOfAnEndedBindingIsGone) {
  const Affine affine =
      MakeGrowing({.limits = {.graphs_per_program_max = 1, .on_limit = OnLimit::kEager}});
  const DeviceMemory one = *device_.Upload(std::vector<float>{1});
  std::vector<Tensor> statics = AffineStatics(counter_.address());
  statics[0].data = one.address();
  COPPICE_ASSERT_OK_AND_ASSIGN(const Binding* other,
                               affine.session->Bind(*affine.program, statics));
  const auto bound = [other](coppice::Call& call) { call.binding = other; };
  using enum RunKind;
  (void)Expect(affine, 4, kWarmUp, Reason::kNewBucket, bound);
  std::optional<Lease> kept = Expect(affine, 4, kRecord, Reason::kNewBucket, bound);
  ASSERT_OK(affine.session->Unbind(*other));
  ExpectRefused(affine, 4, kRefused, bound);
  (void)Expect(affine, 4, kEager, Reason::kGraphLimit);
  kept.reset();
  (void)Expect(affine, 4, kRecord, Reason::kEvicted);
}

TEST_F(ExplainTest, KnowsThatARecordingInTheBackgroundLeavesTheCallEager) {
  ProgramSpec spec = AffineSpec();
  spec.thread_safe = true;
  const Affine affine = MakeAffine({.record_in_background = true}, nullptr, spec);
  (void)Expect(affine, 4, RunKind::kWarmUp, Reason::kNewBucket);
  (void)Expect(affine, 4, RunKind::kEager, Reason::kNewBucket);
  affine.session->WaitForRecordings();
  (void)Expect(affine, 4, RunKind::kReplay, Reason::kNone);
}

TEST_F(ExplainTest, KnowsThatAStreamCapturesOrIsGone) {
  const Affine affine = MakeGrowing({});
  const Stream other = *Stream::Create(device_.driver());
  const auto on_other = [&other](coppice::Call& call) { call.stream = other.handle(); };
  const DriverTable& cu = device_.driver().table();
  ASSERT_EQ(cu.StreamBeginCapture(other.handle(), CuCaptureMode::kRelaxed), CuResult::kSuccess);
  ExpectRefused(affine, 4, kRefused, on_other);
  CuGraph graph = nullptr;
  ASSERT_EQ(cu.StreamEndCapture(other.handle(), &graph), CuResult::kSuccess);
  ASSERT_EQ(cu.GraphDestroy(graph), CuResult::kSuccess);
  CuStream gone = nullptr;
  { gone = Stream::Create(device_.driver())->handle(); }
  ExpectRefused(affine, 4, kWrongArgument, [gone](coppice::Call& call) { call.stream = gone; });
  (void)Expect(affine, 4, RunKind::kWarmUp, Reason::kNewBucket);
}

TEST_F(ExplainTest, NamesProgramAndExtentsOverTheLargestBucket) {
  std::vector<std::string> lines;
  const Affine affine =
      MakeAffine({.log = [&](const std::string& line) { lines.push_back(line); }});
  const Explained explained = Run(affine, 70);
  EXPECT_EQ(explained.lease->reason(), Reason::kOverLargestBucket);
  EXPECT_EQ(explained.said.text,
            "eager of program 'affine' at extents [70]: over_largest_bucket: n = 70 (at most 64)");
  EXPECT_THAT(lines, Contains(AllOf(HasSubstr("'affine'"), HasSubstr("n = 70 (at most 64)"))));
  affine.session->SetStance(Stance::kStrict);
  const Explained strict = Run(affine, 71);
  EXPECT_THAT(MessageOf(strict.lease.status()),
              AllOf(HasSubstr("'affine'"), HasSubstr("n = 71 (at most 64)")));
  EXPECT_EQ(strict.said.text, AsExplained(MessageOf(strict.lease.status())));
}

TEST_F(ExplainTest, NamesTheLeasesThatAGraphWasNotPlannedAround) {
  std::vector<std::string> lines;
  const Affine affine =
      MakeAffine({.log = [&](const std::string& line) { lines.push_back(line); }});
  COPPICE_ASSERT_OK_AND_ASSIGN(const ChainScope chain, affine.session->Chain());
  (void)Expect(affine, 4, RunKind::kWarmUp, Reason::kNewBucket);
  const Lease first = Expect(affine, 4, RunKind::kRecord, Reason::kNewBucket);
  affine.session->SetStance(Stance::kStrict);
  const char* const one =
      "other_live_regions: leases on its path: 1 of program 'affine' in bucket [4]";
  const Explained refused = Run(affine, 4);
  EXPECT_THAT(refused.lease, StatusIs(kRefused));
  EXPECT_THAT(MessageOf(refused.lease.status()), HasSubstr(one));
  EXPECT_EQ(refused.said.text, AsExplained(MessageOf(refused.lease.status())));
  affine.session->SetStance(Stance::kRecord);
  const Explained second = Run(affine, 4);
  EXPECT_THAT(second.said.text, HasSubstr(one));
  EXPECT_THAT(lines, Contains(HasSubstr(one)));
  const Explained third = Run(affine, 4);
  EXPECT_THAT(third.said.text, HasSubstr("2 of program 'affine' in bucket [4]"));
}

// The session's limits and what happens to it, drawn.
class DrawnExplainTest : public ExplainTest {
 protected:
  int64_t Below(int64_t bound) {
    return static_cast<int64_t>(random_() % static_cast<uint64_t>(bound));
  }
  bool OneIn(int64_t chance) { return Below(chance) == 0; }

  SessionOptions DrawOptions() {
    SessionOptions options{.warmup_runs = OneIn(3) ? 2 : 1};
    if (!OneIn(3)) options.limits.graphs_per_program_max = static_cast<int>(Below(4));
    options.limits.on_limit = static_cast<OnLimit>(Below(3));
    if (!OneIn(3)) options.memory.budget_bytes = kGranuleBytes * (2 + Below(5)) + Below(kMiB);
    options.memory.on_budget = static_cast<OnLimit>(Below(3));
    if (OneIn(2)) options.memory.copy_out_bytes = kBufferAlignment * (1 + Below(3));
    return options;
  }

  // Something else than a call.
  void DrawChange(const Affine& affine) {
    Session& session = *affine.session;
    switch (Below(8)) {
      case 0:
        return session.SetStance(OneIn(3) ? static_cast<Stance>(Below(4)) : Stance::kRecord);
      case 1:
        EXPECT_OK(session.Evict(nullptr));
        return;
      case 2:
        EXPECT_OK(session.memory().Trim());
        return;
      case 3:
        if (!leases_.empty()) OpenScope(leases_[Index()]);
        return;
      case 4:
        return scope_.reset();
      default:
        if (leases_.empty()) return;
        scope_.reset();
        leases_.erase(leases_.begin() + static_cast<ptrdiff_t>(Index()));
    }
  }
  size_t Index() { return static_cast<size_t>(Below(static_cast<int64_t>(leases_.size()))); }
  void OpenScope(const Lease& lease) {
    scope_.reset();
    absl::StatusOr<ReadScope> scope = lease.Read(device_.stream());
    if (scope.ok()) scope_.emplace(*std::move(scope));
  }

  void ExpectSame(const Explained& explained, bool budget) {
    const Explanation& said = explained.said;
    const absl::StatusOr<Lease>& lease = explained.lease;
    ++said_[static_cast<size_t>(said.reason)];
    // What a recording takes of a budget, or a program without a graph, and what a graph to come
    // writes over, is not known before.
    const bool unknown = budget && said.kind != RunKind::kReplay;
    if (unknown && lease.ok() && lease->reason() == Reason::kByteLimit) return;
    if (unknown && lease.status().code() == kExhausted) return;
    if (scope_ && said.kind == RunKind::kRecord && lease.status().code() == kRefused) return;
    ASSERT_EQ(lease.status().code(), said.status.code())
        << said.text << ", but: " << lease.status();
    if (!lease.ok()) return;
    // A lane that has not seen a graph complete does not let it go.
    if (said.kind == RunKind::kRecord && lease->reason() == Reason::kGraphLimit) return;
    EXPECT_STREQ(NameOf(lease->kind()), NameOf(said.kind)) << said.text;
    EXPECT_STREQ(NameOf(lease->reason()), NameOf(said.reason)) << said.text;
  }

  static constexpr std::array kSeen = {
      Reason::kNone,       Reason::kNewBucket, Reason::kEvicted,     Reason::kOverLargestBucket,
      Reason::kGraphLimit, Reason::kByteLimit, Reason::kUserDisabled};
  bool SeenAll() const {
    return std::ranges::all_of(
        kSeen, [this](Reason reason) { return said_[static_cast<size_t>(reason)] > 0; });
  }

  std::mt19937_64 random_{TestSeed()};
  std::vector<Lease> leases_;
  std::optional<ReadScope> scope_;
  std::array<int64_t, kReasonCount> said_{};
};

TEST_F(DrawnExplainTest, SaysWhatRunDoesInEveryState) {
  // As many more as it takes to see what there is to see.
  const int sessions = static_cast<int>(std::max<int64_t>(120 / TestShare(), 20));
  constexpr int kSessionsMax = 2000;
  for (int session = 0; session < kSessionsMax && !HasFailure(); ++session) {
    if (session >= sessions && SeenAll()) break;
    const SessionOptions options = DrawOptions();
    const Affine affine = MakeGrowing(options);
    for (int step = 0; step < 60 && !HasFailure(); ++step) {
      if (OneIn(3)) DrawChange(affine);
      const bool copied = OneIn(6);
      Explained explained =
          Run(affine, OneIn(12) ? 70 : int64_t{1} << Below(7), [&](coppice::Call& call) {
            if (copied) call.output_mode = OutputMode::kCopyOut;
          });
      ExpectSame(explained, options.memory.budget_bytes > 0);
      if (explained.lease.ok() && OneIn(2)) leases_.push_back(*std::move(explained.lease));
    }
    scope_.reset();
    leases_.clear();
    ASSERT_OK(device_.Synchronize());
    uploads_.clear();
  }
  for (const Reason reason : kSeen)
    EXPECT_GT(said_[static_cast<size_t>(reason)], 0) << NameOf(reason);
}

}  // namespace
}  // namespace coppice
