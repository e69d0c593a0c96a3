// Goal: of kernels with several variants each bucket launches the fastest, found by runs that
// nobody sees.
// Method: a package whose variants compute different things, on the emulator with a clock that the
// test sets; what ran is told from results.

#include "coppice/graphs/session.h"
#include "coppice/runtime/loaded_package.h"

#include "graphs/program/variant_choices.h"
#include "tests/graphs/variants_fixture.h"

namespace coppice {
namespace {

using nlohmann::json;
using package::FloatBuffer;
using package::LoadedPackage;
using package::ScaleStep;
using testing::Contains;
using testing::DoubleNear;
using testing::Pair;

using TimeVariantsTest = VariantsFixture;

TEST_F(TimeVariantsTest, TheFastestIsLaunchedInEveryCall) {
  const LoadedPackage& loaded = LoadVariants();
  SetCosts(loaded, {9, 3, 5});
  const std::unique_ptr<Session> session = MakeTimedSession();
  COPPICE_ASSERT_OK_AND_ASSIGN(const Program* program, session->Register(loaded, "main", {}));
  for (const RunKind kind : {RunKind::kRecord, RunKind::kReplay, RunKind::kReplay}) {
    COPPICE_ASSERT_OK_AND_ASSIGN(const Lease lease, Run(*session, *program, {Upload(Ramp(100))}));
    EXPECT_EQ(lease.kind(), kind);
    EXPECT_EQ(Read(lease), Shifted(Times(Ramp(100), 2)));
  }
  const std::vector<KernelVariant> variants = session->variants();
  ASSERT_THAT(variants, SizeIs(1));
  EXPECT_EQ(variants[0].program, "main");
  EXPECT_THAT(variants[0].bucket, ElementsAre(128));
  EXPECT_EQ(variants[0].kernel, "Scale");
  EXPECT_EQ(variants[0].variant, "shifted");
  EXPECT_THAT(variants[0].times_us,
              ElementsAre(Pair("plain", DoubleNear(9, 1e-3)), Pair("shifted", DoubleNear(3, 1e-3)),
                          Pair("other", DoubleNear(5, 1e-3))));
}

TEST_F(TimeVariantsTest, OfEquallyFastOnesTheFirstIs) {
  const LoadedPackage& loaded = LoadVariants();
  SetCosts(loaded, {4, 4, 4});
  const std::unique_ptr<Session> session = MakeTimedSession();
  COPPICE_ASSERT_OK_AND_ASSIGN(const Program* program, session->Register(loaded, "main", {}));
  ASSERT_OK(Run(*session, *program, {Upload(Ramp(10))}));
  EXPECT_EQ(session->variants()[0].variant, "plain");
}

TEST_F(TimeVariantsTest, EachRunsOnceForNothingAndFiveTimesTimed) {
  const LoadedPackage& loaded = LoadVariants();
  const std::unique_ptr<Session> session = MakeTimedSession();
  COPPICE_ASSERT_OK_AND_ASSIGN(const Program* program, session->Register(loaded, "main", {}));
  const Tensor x = Upload(Ramp(10));
  const int64_t before = clock_.launches();
  ASSERT_OK(Run(*session, *program, {x}));
  EXPECT_EQ(clock_.timed(), 3 * 6);
  // Each run stages, and launches its kernel; the call stages once more and launches a graph.
  EXPECT_EQ(clock_.launches() - before, 2 * 3 * 6 + 1);
}

TEST_F(TimeVariantsTest, EachBucketIsTimedOnceAndChoosesByItself) {
  const LoadedPackage& loaded = LoadVariants();
  SetCosts(loaded, {1, 2, 3});
  const std::unique_ptr<Session> session = MakeTimedSession();
  COPPICE_ASSERT_OK_AND_ASSIGN(const Program* program, session->Register(loaded, "main", {}));
  for (const int64_t n : {100, 128, 70})
    ASSERT_OK(Run(*session, *program, {Upload(Ramp(n))}));
  EXPECT_EQ(clock_.timed(), 18);
  SetCosts(loaded, {3, 2, 1});
  ASSERT_OK(Run(*session, *program, {Upload(Ramp(200))}));
  EXPECT_EQ(clock_.timed(), 36);
  const std::vector<KernelVariant> variants = session->variants();
  ASSERT_THAT(variants, SizeIs(2));
  EXPECT_EQ(variants[0].variant, "plain");
  EXPECT_THAT(variants[1].bucket, ElementsAre(256));
  EXPECT_EQ(variants[1].variant, "other");
}

TEST_F(TimeVariantsTest, WarmTimesAheadOfTraffic) {
  const LoadedPackage& loaded = LoadVariants();
  SetCosts(loaded, {3, 1, 2});
  const std::unique_ptr<Session> session = MakeTimedSession();
  COPPICE_ASSERT_OK_AND_ASSIGN(const Program* program, session->Register(loaded, "main", {}));
  const std::vector<std::vector<int64_t>> buckets = {{64}, {128}};
  ASSERT_OK(session->warming().Warm(*program, nullptr, buckets, {}, {}));
  EXPECT_THAT(session->variants(), SizeIs(2));
  const int64_t timed = clock_.timed();
  COPPICE_ASSERT_OK_AND_ASSIGN(const Lease lease, Run(*session, *program, {Upload(Ramp(50))}));
  EXPECT_EQ(lease.kind(), RunKind::kReplay);
  EXPECT_EQ(Read(lease), Shifted(Times(Ramp(50), 2)));
  EXPECT_EQ(clock_.timed(), timed);
}

TEST_F(TimeVariantsTest, ACaptureOfTheApplicationOutlivesTheTiming) {
  const LoadedPackage& loaded = LoadVariants();
  const std::unique_ptr<Session> session = MakeTimedSession();
  COPPICE_ASSERT_OK_AND_ASSIGN(const Program* program, session->Register(loaded, "main", {}));
  COPPICE_ASSERT_OK_AND_ASSIGN(const Stream other, Stream::Create(device_.driver()));
  const DriverTable& driver = device_.driver().table();
  ASSERT_EQ(driver.StreamBeginCapture(other.handle(), CuCaptureMode::kGlobal), CuResult::kSuccess);
  const std::vector<std::vector<int64_t>> buckets = {{64}};
  EXPECT_OK(session->warming().Warm(*program, nullptr, buckets, {}, {}));
  CuGraph captured = nullptr;
  ASSERT_EQ(driver.StreamEndCapture(other.handle(), &captured), CuResult::kSuccess);
  EXPECT_EQ(driver.GraphDestroy(captured), CuResult::kSuccess);
  EXPECT_GT(clock_.timed(), 0);
}

TEST_F(TimeVariantsTest, NothingIsTimedWhereNobodyWantsTo) {
  const LoadedPackage& loaded = LoadVariants();
  SetCosts(loaded, {3, 1, 2});
  SessionOptions never;
  never.variant_timing = VariantTiming::kNever;
  SessionOptions voting;
  voting.variant_timing = VariantTiming::kAlways;
  voting.ranks.vote = [](RankVote&) { return absl::OkStatus(); };
  for (const SessionOptions& options : {never, voting}) {
    const std::unique_ptr<Session> session = MakeTimedSession(options);
    COPPICE_ASSERT_OK_AND_ASSIGN(const Program* program, session->Register(loaded, "main", {}));
    COPPICE_ASSERT_OK_AND_ASSIGN(const Lease lease, Run(*session, *program, {Upload(Ramp(9))}));
    EXPECT_EQ(Read(lease), Times(Ramp(9), 2));
    ASSERT_THAT(session->variants(), SizeIs(1));
    EXPECT_EQ(session->variants()[0].variant, "plain");
    EXPECT_THAT(session->variants()[0].times_us, IsEmpty());
  }
  EXPECT_EQ(clock_.timed(), 0);
  EXPECT_THAT(log_, Each(Not(HasSubstr("variants"))));
}

TEST_F(TimeVariantsTest, TheEmulatorsClockSaysNothingSoByDefaultTheFirstIsLaunched) {
  const LoadedPackage& loaded = LoadVariants();
  const std::unique_ptr<Session> session = MakeSession();
  COPPICE_ASSERT_OK_AND_ASSIGN(const Program* program, session->Register(loaded, "main", {}));
  COPPICE_ASSERT_OK_AND_ASSIGN(const Lease lease, Run(*session, *program, {Upload(Ramp(9))}));
  EXPECT_EQ(Read(lease), Times(Ramp(9), 2));
  EXPECT_THAT(session->variants()[0].times_us, IsEmpty());
}

TEST_F(TimeVariantsTest, ProgramsWithoutVariantsHaveNothingToTell) {
  const LoadedPackage& loaded = LoadProgram(DiamondProgram());
  const std::unique_ptr<Session> session = MakeTimedSession();
  COPPICE_ASSERT_OK_AND_ASSIGN(const Program* program, session->Register(loaded, "main", {}));
  ASSERT_OK(Run(*session, *program, {Upload(Ramp(9))}));
  EXPECT_THAT(session->variants(), IsEmpty());
  EXPECT_EQ(clock_.timed(), 0);
}

// Scale x into a cache that is bound, and the cache into y.
json CacheProgram() {
  json program = ScaleProgram();
  program["inputs"] = {"x", "cache"};
  program["buffers"]["cache"] = {
      {"role", "input"}, {"dtype", "f32"}, {"shape", {64}}, {"static", true}, {"mutated", true}};
  program["steps"] = {ScaleStep("cache", "cache", "64", "2"), ScaleStep("x", "y", "n", "2")};
  return program;
}

TEST_F(TimeVariantsTest, StaticInputsThatTheProgramWritesAreWrittenByCallsAlone) {
  const LoadedPackage& loaded = LoadVariants(CacheProgram());
  SetCosts(loaded, {1, 2, 3});
  const std::unique_ptr<Session> session = MakeTimedSession();
  COPPICE_ASSERT_OK_AND_ASSIGN(const Program* program, session->Register(loaded, "main", {}));
  const Tensor cache = Upload(Ramp(64));
  COPPICE_ASSERT_OK_AND_ASSIGN(const Binding* binding, session->Bind(*program, {{cache}}));
  const std::vector<std::vector<int64_t>> buckets = {{64}};
  ASSERT_OK(session->warming().Warm(*program, binding, buckets, {}, {}));
  EXPECT_GT(clock_.timed(), 0);
  EXPECT_EQ(device_.Download<float>(cache.data, 64), Ramp(64)) << "no call ran yet";
  for (const float factor : {2.F, 4.F}) {
    ASSERT_OK(Run(*session, *program, {Upload(Ramp(50))}, binding));
    EXPECT_EQ(device_.Download<float>(cache.data, 64), Times(Ramp(64), factor));
  }
}

TEST_F(TimeVariantsTest, TheGeneratorStaysWhereItWas) {
  json program = ScaleProgram();
  program["buffers"]["seed"] = {{"role", "seed"}, {"words", 1}};
  program["buffers"]["kept"] = {{"role", "output"}, {"dtype", "i64"}, {"shape", {1}}};
  program["outputs"] = {"y", "kept"};
  program["steps"].push_back({{"op", "memcpy"},
                              {"to", {{"buffer", "kept"}}},
                              {"from", {{"buffer", "seed"}}},
                              {"bytes", 8}});
  std::vector<std::vector<int64_t>> drawn;
  for (const VariantTiming timing : {VariantTiming::kNever, VariantTiming::kAlways}) {
    const LoadedPackage& loaded = LoadVariants(program);
    SessionOptions options;
    options.variant_timing = timing;
    const std::unique_ptr<Session> session = MakeTimedSession(options);
    session->SetSeed(7);
    COPPICE_ASSERT_OK_AND_ASSIGN(const Program* main, session->Register(loaded, "main", {}));
    std::vector<int64_t>& words = drawn.emplace_back();
    for (const int64_t n : {10, 10, 100}) {
      COPPICE_ASSERT_OK_AND_ASSIGN(const Lease lease, Run(*session, *main, {Upload(Ramp(n))}));
      words.push_back(Read<int64_t>(lease, 1)[0]);
    }
  }
  EXPECT_EQ(drawn[0], drawn[1]);
  EXPECT_NE(drawn[0][0], drawn[0][1]);
}

TEST_F(TimeVariantsTest, WithoutTheMemoryTheFirstIsLaunchedAndTheLogSaysWhy) {
  json program = CacheProgram();
  program["buffers"]["cache"]["shape"] = {1 << 22};  // 16 MiB.
  const LoadedPackage& loaded = LoadVariants(program);
  SetCosts(loaded, {3, 1, 2});
  SessionOptions options;
  options.memory.budget_bytes = int64_t{12} << 20;
  const std::unique_ptr<Session> session = MakeTimedSession(options);
  COPPICE_ASSERT_OK_AND_ASSIGN(const Program* main, session->Register(loaded, "main", {}));
  const Tensor cache = Upload(Ramp(1 << 22));
  COPPICE_ASSERT_OK_AND_ASSIGN(const Binding* binding, session->Bind(*main, {{cache}}));
  COPPICE_ASSERT_OK_AND_ASSIGN(const Lease lease,
                               Run(*session, *main, {Upload(Ramp(50))}, binding));
  EXPECT_EQ(lease.kind(), RunKind::kRecord);
  EXPECT_EQ(Read(lease), Times(Ramp(50), 2));
  EXPECT_EQ(session->variants()[0].variant, "plain");
  EXPECT_THAT(log_,
              Contains(HasSubstr("'main' uses the first variant of each kernel in bucket [64]")));
}

TEST_F(TimeVariantsTest, ATimeThatCannotBeReadLeavesTheFirstAndTheSessionAsItWas) {
  for (const int64_t question : {0, 1, 7, 17}) {
    const LoadedPackage& loaded = LoadVariants();
    SetCosts(loaded, {3, 1, 2});
    const int64_t before = clock_.timed();
    clock_.FailTimesFrom(before + question);
    const std::unique_ptr<Session> session = MakeTimedSession();
    COPPICE_ASSERT_OK_AND_ASSIGN(const Program* program, session->Register(loaded, "main", {}));
    for (const RunKind kind : {RunKind::kRecord, RunKind::kReplay}) {
      COPPICE_ASSERT_OK_AND_ASSIGN(const Lease lease, Run(*session, *program, {Upload(Ramp(9))}));
      EXPECT_EQ(lease.kind(), kind);
      EXPECT_EQ(Read(lease), Times(Ramp(9), 2));
    }
    clock_.FailTimesFrom(INT64_MAX);
  }
}

TEST_F(TimeVariantsTest, AFunctionThatFailsLeavesTheFirstAndFailsItsCall) {
  json program = ScaleProgram();
  const json view = {{"buffer", "y"}, {"dtype", "f32"}, {"shape", {"n"}}};
  program["steps"].push_back({{"op", "call"},
                              {"function", "touch"},
                              {"inputs", json::array()},
                              {"outputs", json::array({view})},
                              {"options", json::object()}});
  const LoadedPackage& loaded = LoadVariants(program);
  const std::unique_ptr<Session> session = MakeTimedSession();
  int calls = 0;
  const StepFunction touch = [&](const FunctionCall&) {
    ++calls;
    return absl::DataLossError("no such thing");
  };
  COPPICE_ASSERT_OK_AND_ASSIGN(
      const Program* main, session->Register(loaded, "main", {.functions = {{"touch", touch}}}));
  EXPECT_THAT(Run(*session, *main, {Upload(Ramp(9))}), StatusIs(absl::StatusCode::kDataLoss));
  EXPECT_GE(calls, 2) << "timed, then called";
  EXPECT_EQ(session->variants()[0].variant, "plain");
}

TEST_F(TimeVariantsTest, EagerRunsAtABucketsSizesTakeItsVariants) {
  const LoadedPackage& loaded = LoadVariants();
  SetCosts(loaded, {3, 1, 2});
  const std::unique_ptr<Session> session = MakeTimedSession();
  COPPICE_ASSERT_OK_AND_ASSIGN(const Program* program, session->Register(loaded, "main", {}));
  ASSERT_OK(Run(*session, *program, {Upload(Ramp(128))}));
  session->SetStance(Stance::kEager);
  COPPICE_ASSERT_OK_AND_ASSIGN(const Lease at, Run(*session, *program, {Upload(Ramp(128))}));
  EXPECT_EQ(Read(at), Shifted(Times(Ramp(128), 2)));
  COPPICE_ASSERT_OK_AND_ASSIGN(const Lease below, Run(*session, *program, {Upload(Ramp(100))}));
  EXPECT_EQ(Read(below), Times(Ramp(100), 2)) << "nobody chose for this size";
}

TEST_F(TimeVariantsTest, AProfileCarriesThemAndNothingIsTimedAgain) {
  const LoadedPackage& loaded = LoadVariants();
  SetCosts(loaded, {3, 1, 2});
  const std::string path = testing::TempDir() + "/time_variants.profile";
  {
    const std::unique_ptr<Session> session = MakeTimedSession();
    COPPICE_ASSERT_OK_AND_ASSIGN(const Program* program, session->Register(loaded, "main", {}));
    ASSERT_OK(Run(*session, *program, {Upload(Ramp(100))}));
    ASSERT_OK(session->warming().SaveProfile(path));
  }
  const int64_t timed = clock_.timed();
  SetCosts(loaded, {1, 3, 2});
  const std::unique_ptr<Session> session = MakeTimedSession();
  COPPICE_ASSERT_OK_AND_ASSIGN(const Program* program, session->Register(loaded, "main", {}));
  COPPICE_ASSERT_OK_AND_ASSIGN(const LoadedProfile profile,
                               session->warming().LoadProfile(path, {}));
  EXPECT_EQ(profile.recorded, 1);
  EXPECT_EQ(clock_.timed(), timed);
  ASSERT_THAT(session->variants(), SizeIs(1));
  EXPECT_EQ(session->variants()[0].variant, "shifted");
  COPPICE_ASSERT_OK_AND_ASSIGN(const Lease lease, Run(*session, *program, {Upload(Ramp(100))}));
  EXPECT_EQ(lease.kind(), RunKind::kReplay);
  EXPECT_EQ(Read(lease), Shifted(Times(Ramp(100), 2)));
}

TEST_F(TimeVariantsTest, LanesAgreeWhicheverTimesFirst) {
  const LoadedPackage& loaded = LoadVariants();
  SetCosts(loaded, {3, 1, 2});
  SessionOptions options;
  options.lanes = 2;
  const std::unique_ptr<Session> session = MakeTimedSession(options);
  COPPICE_ASSERT_OK_AND_ASSIGN(const Program* program, session->Register(loaded, "main", {}));
  const std::vector<std::vector<int64_t>> buckets = {{64}, {128}, {256}};
  std::vector<std::thread> threads;
  for (int lane = 0; lane < 2; ++lane) {
    threads.emplace_back([&, lane] {
      ASSERT_OK(timed_context_->MakeCurrent());
      EXPECT_OK(session->warming().Warm(*program, nullptr, buckets, {}, {.lane = lane}));
    });
  }
  for (std::thread& thread : threads)
    thread.join();
  const std::vector<KernelVariant> variants = session->variants();
  ASSERT_THAT(variants, SizeIs(3));
  session->SetStance(Stance::kStrict);
  for (int lane = 0; lane < 2; ++lane) {
    const Tensor x = Upload(Ramp(100));
    COPPICE_ASSERT_OK_AND_ASSIGN(
        const Lease lease,
        session->Run(
            {.program = program, .inputs = {&x, 1}, .stream = device_.stream(), .lane = lane}));
    const bool shifted = variants[1].variant == "shifted";
    const std::vector<float> doubled = Times(Ramp(100), 2);
    EXPECT_EQ(Read(lease), shifted ? Shifted(doubled) : doubled) << "lane " << lane;
  }
}

TEST_F(TimeVariantsTest, RecordingsInTheBackgroundFindThemChosen) {
  const LoadedPackage& loaded = LoadVariants();
  SetCosts(loaded, {3, 1, 2});
  SessionOptions options;
  options.record_in_background = true;
  const std::unique_ptr<Session> session = MakeTimedSession(options);
  COPPICE_ASSERT_OK_AND_ASSIGN(const Program* program, session->Register(loaded, "main", {}));
  for (int call = 0; call < 3; ++call) {
    COPPICE_ASSERT_OK_AND_ASSIGN(const Lease lease, Run(*session, *program, {Upload(Ramp(128))}));
    EXPECT_EQ(Read(lease), Shifted(Times(Ramp(128), 2))) << call;
    session->WaitForRecordings();
  }
}

TEST(VariantChoicesTest, TheFirstThatIsSetStays) {
  internal::VariantChoices choices({{.kernel = "k", .variants = {"a", "b"}}}, 1, {true, false});
  const int64_t extents[] = {4, 99};
  const int64_t scalars[] = {7, 8};
  const int64_t same_key[] = {7, 9};
  const int64_t other_key[] = {6, 8};
  EXPECT_FALSE(choices.none());
  EXPECT_FALSE(choices.Has(extents, scalars));
  EXPECT_THAT(choices.At(extents, scalars), ElementsAre(0));
  choices.Set(extents, scalars, {1}, {{2, 1}});
  choices.Set(extents, same_key, {0}, {});
  EXPECT_THAT(choices.At(extents, same_key), ElementsAre(1));
  EXPECT_FALSE(choices.Has(extents, other_key));
  EXPECT_THAT(choices.NamesAt(extents, scalars), ElementsAre(Pair("k", "b")));
  EXPECT_THAT(choices.NamesAt(extents, other_key), ElementsAre(Pair("k", "a")));
  EXPECT_FALSE(choices.SetByName(extents, other_key, {{"k", "c"}}));
  EXPECT_FALSE(choices.SetByName(extents, other_key, {{"l", "b"}}));
  EXPECT_TRUE(choices.SetByName(extents, other_key, {{"k", "b"}}));
  ASSERT_THAT(choices.all(), SizeIs(2));
  EXPECT_THAT(choices.all()[1].scalars, ElementsAre(7, 0));
  EXPECT_THAT(choices.all()[1].times, ElementsAre(ElementsAre(2, 1)));
}

}  // namespace
}  // namespace coppice
