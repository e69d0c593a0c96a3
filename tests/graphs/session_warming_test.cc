// Goal: a chain that was warmed replays from its first call on, whatever its extents in the bucket,
// and warming runs and keeps nothing that it was not asked for.
// Method: sketches on the emulator under the strict stance, where all but a replay is refused; what
// they compute is compared with the host's.

#include "tests/graphs/sketch.h"

namespace coppice {
namespace {

class WarmChainTest : public testing::Test, protected SketchDevice {
 protected:
  // A prefill of two outputs, the second as large as it likes, and a step of decode.
  void Open(const SessionOptions& options = {}, Fill fill = Fill::Undefined()) {
    session_ = MakeSession(options);
    prefill_ = Draw(*session_, {.name = "prefill", .steps = {Temporary(), Output(), Output()}});
    decode_ = Define(*session_, Plus(1), /*outputs=*/1,
                     [fill](ProgramSpec& spec) { spec.inputs[0].fill = fill; });
    decode_.sketch.number = 1;
  }

  WarmStep Prefill() const { return {.program = prefill_.program, .bucket = {8}}; }
  WarmStep Decode(size_t step) const {
    return {.program = decode_.program,
            .bucket = {8},
            .feeds = {{.input = 0, .step = step, .output = 0}}};
  }
  absl::Status Warm(const std::vector<WarmStep>& chain) const {
    return session_->warming().Warm(chain, {});
  }

  // A prefill and steps of decode, each on the output of the call before, whose lease is dropped
  // once the next call has run.
  void ExpectReplays(int64_t extent, int steps) {
    const Input x = Upload(extent, 1);
    absl::StatusOr<Made> made = RunSketch(prefill_, x);
    ASSERT_OK(made) << extent;
    for (int i = 0; i < steps; ++i) {
      EXPECT_EQ(made->lease.kind(), RunKind::kReplay);
      ExpectFresh(*made);
      absl::StatusOr<Made> next = RunSketch(decode_, InputFrom(*made));
      ASSERT_OK(next) << "step " << i << " at extent " << extent;
      made = std::move(next);
    }
    ExpectFresh(*made);
  }

  std::unique_ptr<Session> session_;
  Sketched prefill_;
  Sketched decode_;
};

TEST_F(WarmChainTest, ALoopOnItsOwnOutputReplaysFromTheFirstRequestOn) {
  Open();
  ASSERT_OK(Warm({Prefill(), Decode(1)}));
  session_->SetStance(Stance::kStrict);
  ExpectReplays(8, 9);
  ExpectReplays(5, 9);
}

TEST_F(WarmChainTest, AnInputWithAFillReplaysBothInPlaceAndStaged) {
  Open({}, Fill::Zero());
  ASSERT_OK(Warm({Prefill(), Decode(1)}));
  session_->SetStance(Stance::kStrict);
  ExpectReplays(8, 5);
  EXPECT_EQ(session_->stats().inputs_filled, 0);
  ExpectReplays(5, 5);
  EXPECT_EQ(session_->stats().inputs_filled, 5);
}

TEST_F(WarmChainTest, OutputsAreHeldUntilTheLastStepThatReadsThemHasRun) {
  Open();
  ASSERT_OK(Warm({Prefill(), Decode(0), Decode(0), Decode(2)}));
  session_->SetStance(Stance::kStrict);
  const Input x = Upload(8, 1);
  std::optional<Made> first;
  COPPICE_ASSERT_OK_AND_ASSIGN(first, RunSketch(prefill_, x));
  COPPICE_ASSERT_OK_AND_ASSIGN(std::optional<Made> second, RunSketch(decode_, InputFrom(*first)));
  ExpectFresh(*second);
  second.reset();
  COPPICE_ASSERT_OK_AND_ASSIGN(const Made third, RunSketch(decode_, InputFrom(*first)));
  ExpectFresh(*first);
  first.reset();
  COPPICE_ASSERT_OK_AND_ASSIGN(const Made fourth, RunSketch(decode_, InputFrom(third)));
  ExpectFresh(third);
  ExpectFresh(fourth);
}

TEST_F(WarmChainTest, LeavesLeasedOutputsAlone) {
  Open();
  const Input x = Upload(8, 1);
  for (int i = 0; i < 2; ++i)
    ASSERT_OK(RunSketch(prefill_, x).status());
  COPPICE_ASSERT_OK_AND_ASSIGN(const Made held, RunSketch(prefill_, x));
  ASSERT_OK(Warm({Prefill(), Decode(1)}));
  ExpectFresh(held);
}

TEST_F(WarmChainTest, IsAsTheWarmOfBucketsForASingleStep) {
  Open();
  ASSERT_OK(Warm({Prefill()}));
  EXPECT_THAT(session_->nodes(), SizeIs(1));
  const std::vector<int64_t> bucket = {8};
  ASSERT_OK(session_->warming().Warm(*prefill_.program, nullptr, {&bucket, 1}, {}, {}));
  EXPECT_EQ(session_->stats().recordings, 1);
  EXPECT_OK(Warm({}));
}

TEST_F(WarmChainTest, SaysWhatIsWrongWithTheProgramOrItsScalars) {
  Open();
  const auto other = MakeSession();
  const std::vector<int64_t> bucket = {8};
  const int64_t scalar = 1;
  EXPECT_THAT(other->warming().Warm(*prefill_.program, nullptr, {&bucket, 1}, {}, {}),
              StatusIs(kWrongArgument, HasSubstr("belongs to another session")));
  EXPECT_THAT(session_->warming().Warm(*prefill_.program, nullptr, {&bucket, 1}, {&scalar, 1}, {}),
              StatusIs(kWrongArgument, HasSubstr("has 0 scalars, but 1 are given")));
  session_->SetStance(Stance::kReplayOnly);
  EXPECT_THAT(session_->warming().Warm(*prefill_.program, nullptr, {&bucket, 1}, {}, {}),
              StatusIs(kRefused, HasSubstr("set the stance to record")));
}

TEST_F(WarmChainTest, RecordsNothingTwice) {
  Open();
  ASSERT_OK(Warm({Prefill(), Decode(1)}));
  const int64_t recordings = session_->stats().recordings;
  ASSERT_OK(Warm({Prefill(), Decode(1)}));
  EXPECT_EQ(session_->stats().recordings, recordings);
}

TEST_F(WarmChainTest, ProgressCountsSteps) {
  Open();
  std::vector<std::pair<int64_t, int64_t>> progress;
  const std::vector<WarmStep> chain = {Prefill(), Decode(1)};
  ASSERT_OK(session_->warming().Warm(chain, {.progress = [&](int64_t done, int64_t total) {
                                       progress.emplace_back(done, total);
                                     }}));
  EXPECT_THAT(progress, ElementsAre(testing::Pair(1, 2), testing::Pair(2, 2)));
}

TEST_F(WarmChainTest, AStepThatMutatesItsStaticsRunsOnScratchOnes) {
  const Affine affine = MakeAffine();
  const DeviceMemory counter = *device_.Upload(std::vector<float>{0});
  WarmStep step{.program = affine.program,
                .binding = affine.binding,
                .bucket = {8},
                .scalars = {std::bit_cast<int64_t>(2.0)}};
  EXPECT_THAT(affine.session->warming().Warm({&step, 1}, {}), StatusIs(kRefused));
  step.scratch = *affine.session->Bind(*affine.program, AffineStatics(counter.address()));
  ASSERT_OK(affine.session->warming().Warm({&step, 1}, {}));
  EXPECT_EQ(Executions(), 0);
  ExpectRun(affine, 8, RunKind::kReplay);
}

TEST_F(WarmChainTest, RefusesFeedsThatCannotBe) {
  Open();
  WarmStep no_program = Prefill();
  no_program.program = nullptr;
  WarmStep no_input = Decode(0);
  no_input.feeds[0].input = 1;
  WarmStep no_output = Decode(0);
  no_output.feeds[0].output = 2;
  WarmStep twice = Decode(0);
  twice.feeds.push_back({.input = 0, .step = 1, .output = 0});
  WarmStep no_bucket = Decode(0);
  no_bucket.bucket = {7};
  for (const WarmStep& second : {no_program, no_input, no_output, twice, no_bucket, Decode(2)})
    EXPECT_THAT(Warm({Prefill(), second}), StatusIs(kWrongArgument));
  EXPECT_THAT(Warm({Decode(0)}), StatusIs(kWrongArgument)) << "the first on its own output";
  WarmStep larger = Decode(0);
  larger.bucket = {16};
  EXPECT_THAT(Warm({Prefill(), larger}), StatusIs(kWrongArgument));
  EXPECT_EQ(session_->stats().recordings, 0);
}

TEST_F(WarmChainTest, RefusesALaneWithAnOpenChain) {
  Open();
  COPPICE_ASSERT_OK_AND_ASSIGN(const ChainScope chain, session_->Chain());
  EXPECT_THAT(Warm({Prefill()}), StatusIs(kRefused));
}

TEST_F(WarmChainTest, SaysIfNotAllGraphsCanBeThereAtOnce) {
  for (const OnLimit on_limit : {OnLimit::kEager, OnLimit::kEvict}) {
    Open({.limits = {.graphs_per_program_max = 1, .on_limit = on_limit}});
    EXPECT_THAT(Warm({Prefill(), Decode(1)}), StatusIs(kExhausted));
  }
}

}  // namespace
}  // namespace coppice
