// Goal: a program of a kernel package runs as a callable would: keys, padding, leases, statics,
// random numbers, children and library calls, without a warm-up and without a capture.
// Method: packages of three small PTX kernels on the emulator, which watches every access and every
// order, against sums computed here; plans and results are those of the same package run as a
// callable.

#include "coppice/graphs/session.h"
#include "coppice/runtime/loaded_package.h"

#include "tests/graphs/package_fixture.h"
#include "tests/graphs/session_fixture.h"
#include "tests/support/text_count.h"

namespace coppice {
namespace {

using nlohmann::json;
using package::AddStep;
using package::FloatBuffer;
using package::LoadedPackage;
using package::MaskStep;
using package::PackageBuilder;
using package::ScaleStep;
using package::SmallKernels;

using PackageProgramTest = PackageSessionFixture;

TEST_F(PackageProgramTest, FirstCallRecordsAndLaterOnesReplay) {
  const Program* program = Open(DiamondProgram());
  const Tensor x = Upload(Ramp(100));
  for (const RunKind kind : {RunKind::kRecord, RunKind::kReplay, RunKind::kReplay}) {
    COPPICE_ASSERT_OK_AND_ASSIGN(const Lease lease, Run(*session_, *program, {x}));
    EXPECT_EQ(lease.kind(), kind) << NameOf(lease.kind());
    EXPECT_EQ(Read(lease), Times(Ramp(100), 5));
  }
}

TEST_F(PackageProgramTest, OtherSizesPadToTheirBucket) {
  const Program* program = Open(DiamondProgram());
  for (const int64_t n : {100, 128, 65, 100}) {
    COPPICE_ASSERT_OK_AND_ASSIGN(const Lease lease, Run(*session_, *program, {Upload(Ramp(n))}));
    EXPECT_EQ(Read(lease), Times(Ramp(n), 5)) << n;
  }
  EXPECT_EQ(session_->nodes().size(), 1U);
  EXPECT_EQ(session_->nodes()[0].bucket, (std::vector<int64_t>{128}));
}

TEST_F(PackageProgramTest, ARecordingThatCannotStageItsBucketRunsEagerlyOrFailsAsTold) {
  constexpr int64_t kGranule = 2 * kMiB;
  // More than four granules.
  constexpr int64_t kWide = 4 * kGranule / static_cast<int64_t>(sizeof(float));
  json wide = DiamondProgram("3", std::vector<int64_t>{1, kWide});
  wide["symbols"]["n"]["max"] = kWide;
  const LoadedPackage& loaded = LoadProgram(wide);
  for (const OnLimit on_budget : {OnLimit::kEvict, OnLimit::kError}) {
    const std::unique_ptr<Session> session =
        MakeSession({.memory = {.budget_bytes = 4 * kGranule, .on_budget = on_budget}});
    COPPICE_ASSERT_OK_AND_ASSIGN(const Program* program, session->Register(loaded, "main", {}));
    for (int call = 0; call < 2; ++call) {
      const absl::StatusOr<Lease> lease = Run(*session, *program, {Upload(Ramp(100))});
      if (on_budget == OnLimit::kError) {
        EXPECT_THAT(lease, StatusIs(kExhausted));
        continue;
      }
      ASSERT_OK(lease);
      EXPECT_EQ(lease->kind(), RunKind::kEager);
      EXPECT_EQ(lease->reason(), Reason::kByteLimit);
      EXPECT_EQ(Read(*lease), Times(Ramp(100), 5));
    }
    EXPECT_EQ(session->stats().recordings, 0);
  }
}

TEST_F(PackageProgramTest, AClaimOfTheCallerTakesThePlaceOfThePackages) {
  json silent = DiamondProgram();
  silent["symbols"]["n"].erase("claim");
  const LoadedPackage& loaded = LoadProgram(silent);
  COPPICE_ASSERT_OK_AND_ASSIGN(const Program* unpadded, session_->Register(loaded, "main", {}));
  COPPICE_ASSERT_OK_AND_ASSIGN(
      const Program* padded,
      session_->Register(loaded, "main", {.variant = "padded", .claims = {{"n", PaddingClaim()}}}));
  for (const Program* const program : {unpadded, padded}) {
    COPPICE_ASSERT_OK_AND_ASSIGN(const Lease lease, Run(*session_, *program, {Upload(Ramp(100))}));
    EXPECT_EQ(Read(lease), Times(Ramp(100), 5));
  }
  ASSERT_EQ(session_->nodes().size(), 2U);
  EXPECT_EQ(session_->nodes()[0].bucket, (std::vector<int64_t>{100}));
  EXPECT_EQ(session_->nodes()[1].bucket, (std::vector<int64_t>{128}));
  EXPECT_THAT(
      session_->Register(loaded, "main", {.variant = "other", .claims = {{"m", PaddingClaim()}}}),
      StatusIs(kWrongArgument));
}

// y = 3 x of [batch, length], whose padding may hold anything.
json PairProgram() {
  const auto symbol = [](int64_t max) {
    return json{{"min", 1},
                {"max", max},
                {"buckets", "pow2"},
                {"claim", {{"padding", "any"}, {"equal", "bits"}}}};
  };
  const json shape = {"batch", "length"};
  return {{"symbols", {{"batch", symbol(8)}, {"length", symbol(512)}}},
          {"inputs", {"x"}},
          {"outputs", {"y"}},
          {"buffers", {{"x", FloatBuffer("input", shape)}, {"y", FloatBuffer("output", shape)}}},
          {"steps", json::array({ScaleStep("x", "y", "batch * length", "3")})}};
}

JointPolicy PairsOf(const std::string& text, JointSize limit) {
  return *JointPolicy::Parse(text, limit);
}

TEST_F(PackageProgramTest, AJointPolicyPadsTwoOfItsSymbols) {
  const LoadedPackage& loaded = LoadProgram(PairProgram());
  for (const bool turned : {false, true}) {
    const std::unique_ptr<Session> session = MakeSession();
    PackageProgramOptions options;
    if (turned) {
      options.joint = {{{"length", "batch"}, PairsOf("512x1,128x4", {512, 4})}};
    } else {
      options.joint = {{{"batch", "length"}, PairsOf("1x512,4x128", {4, 512})}};
    }
    COPPICE_ASSERT_OK_AND_ASSIGN(const Program* program,
                                 session->Register(loaded, "main", options));
    const auto call = [&](int64_t batch, int64_t length) {
      const int64_t dims[] = {batch, length};
      const Tensor x = Upload(Ramp(batch * length));
      return *Run(*session, *program, {Tensor::Dense(x.data, DType::kFloat32, dims)});
    };
    EXPECT_EQ(Read(call(3, 128)), Times(Ramp(3 * 128), 3));
    EXPECT_EQ(call(4, 120).kind(), RunKind::kReplay) << "in the bucket of 3x128";
    EXPECT_EQ(Read(call(1, 300)), Times(Ramp(300), 3));
    EXPECT_EQ(call(5, 1).reason(), Reason::kOverLargestBucket);
    std::set<std::vector<int64_t>> buckets;
    for (const NodeInfo& node : session->nodes())
      buckets.insert(node.bucket);
    EXPECT_THAT(buckets, ElementsAre(std::vector<int64_t>{1, 512}, std::vector<int64_t>{4, 128}));
  }
}

TEST_F(PackageProgramTest, AJointPolicyIsCheckedAsThatOfASpec) {
  const auto pair = [](const std::string& a, const std::string& b) {
    return std::pair(std::pair(a, b), PairsOf("1x512,4x128", {4, 512}));
  };
  const auto refused = [&](const json& program, const PackageProgramOptions& options,
                           const std::string& words) {
    const absl::Status status = session_->Register(LoadProgram(program), "main", options).status();
    EXPECT_THAT(status, StatusIs(kWrongArgument)) << words;
    EXPECT_THAT(std::string(status.message()), HasSubstr(words));
  };
  const json program = PairProgram();
  PackageProgramOptions options;
  options.joint = {pair("batch", "width")};
  refused(program, options, "a joint policy is given for 'width', which is not a symbol");
  options.joint = {pair("batch", "batch")};
  refused(program, options, "'batch' and itself; name two");
  options.joint = {pair("batch", "length"), pair("length", "batch")};
  refused(program, options, "is in two joint policies");
  options.joint = {pair("batch", "length")};
  options.policies.insert_or_assign("length", *PaddingPolicy::Pow2(64));
  refused(program, options,
          "symbol length is in a joint policy, but has its own policy pow2 up to 64");
  options.policies.clear();
  options.observe_half_lives = {{"batch", 100}};
  refused(program, options, "symbol batch is in a joint policy, but is observed");
  options.observe_half_lives.clear();
  json other = program;
  other["symbols"]["length"].erase("claim");
  refused(other, options, "the package claims nothing about its padding");
  other = program;
  other["symbols"]["length"]["max"] = 256;
  refused(other, options, "symbol length has the bucket 512, but its max is 256");
  other = program;
  other["symbols"]["batch"]["exclude_01"] = true;
  refused(other, options, "symbol batch is in a joint policy, but excludes 0 and 1");
}

TEST_F(PackageProgramTest, IndependentStepsAreNotOrdered) {
  const LoadedPackage& loaded = LoadProgram(DiamondProgram());
  SessionOptions options;
  options.keep_drawings = true;
  const std::unique_ptr<Session> session = MakeSession(options);
  COPPICE_ASSERT_OK_AND_ASSIGN(const Program* program, session->Register(loaded, "main", {}));
  COPPICE_ASSERT_OK_AND_ASSIGN(const Lease lease, Run(*session, *program, {Upload(Ramp(64))}));
  ASSERT_EQ(session->nodes().size(), 1U);
  EXPECT_EQ(session->nodes()[0].graph_nodes, 3);
  COPPICE_ASSERT_OK_AND_ASSIGN(const std::string dot, session->Dump(session->nodes()[0]));
  EXPECT_EQ(CountOf(dot, " -> "), 2) << dot;
}

TEST_F(PackageProgramTest, BytesUsedAgainOrderTheStepsThatUseThem) {
  // `second` gets the bytes of `first`, so that its writer waits for the reader of `first`.
  json program = DiamondProgram();
  program["outputs"] = {"y", "z"};
  program["buffers"] = {{"x", FloatBuffer("input", {"n"})},
                        {"first", FloatBuffer("temporary", {"n"})},
                        {"second", FloatBuffer("temporary", {"n"})},
                        {"y", FloatBuffer("output", {"n"})},
                        {"z", FloatBuffer("output", {"n"})}};
  program["steps"] = {ScaleStep("x", "first", "n", "2"), ScaleStep("first", "y", "n", "3"),
                      ScaleStep("x", "second", "n", "5"), ScaleStep("second", "z", "n", "7")};
  const Program* main = Open(program);
  for (int call = 0; call < 4; ++call) {
    COPPICE_ASSERT_OK_AND_ASSIGN(const Lease lease, Run(*session_, *main, {Upload(Ramp(64))}));
    EXPECT_EQ(Read(lease, 0), Times(Ramp(64), 6));
    EXPECT_EQ(Read(lease, 1), Times(Ramp(64), 35));
  }
  EXPECT_EQ(session_->nodes()[0].plan_height, 3 * 256) << "one temporary, two outputs";
}

TEST_F(PackageProgramTest, WarmRecordsWithoutARun) {
  json program = DiamondProgram();
  program["buffers"]["cache"] = {
      {"role", "input"}, {"dtype", "f32"}, {"shape", {64}}, {"static", true}, {"mutated", true}};
  program["inputs"] = {"x", "cache"};
  program["steps"].push_back(
      {{"op", "memset"}, {"to", {{"buffer", "cache"}}}, {"value", 0}, {"width", 4}, {"count", 64}});
  const Program* main = Open(program);
  const Tensor cache = Upload(Ramp(64));
  COPPICE_ASSERT_OK_AND_ASSIGN(const Binding* binding, session_->Bind(*main, {{cache}}));
  const std::vector<std::vector<int64_t>> buckets = {{64}, {128}};
  ASSERT_OK(session_->warming().Warm(*main, binding, buckets, {}, {}));
  EXPECT_EQ(device_.Download<float>(cache.data, 64), Ramp(64)) << "nothing ran";
  COPPICE_ASSERT_OK_AND_ASSIGN(const Lease lease,
                               Run(*session_, *main, {Upload(Ramp(50))}, binding));
  EXPECT_EQ(lease.kind(), RunKind::kReplay);
  EXPECT_EQ(Read(lease), Times(Ramp(50), 5));
  EXPECT_EQ(device_.Download<float>(cache.data, 64), std::vector<float>(64, 0));
}

TEST_F(PackageProgramTest, PlansAreKnownBeforeAnythingIsMapped) {
  const Program* main = Open(DiamondProgram());
  const std::vector<std::vector<int64_t>> buckets = {{64}, {1024}, {128}};
  COPPICE_ASSERT_OK_AND_ASSIGN(const std::vector<PlannedBucket> planned,
                               session_->warming().Plan(*main, buckets, {}));
  EXPECT_EQ(session_->memory().window(0, MemoryKind::kPlan).mapped_bytes, 0);
  ASSERT_EQ(planned.size(), 3U);
  ASSERT_OK(session_->warming().Warm(*main, nullptr, buckets, {}, {}));
  for (const NodeInfo& node : session_->nodes()) {
    const auto plan = std::ranges::find(planned, node.bucket, &PlannedBucket::bucket);
    ASSERT_NE(plan, planned.end());
    EXPECT_EQ(node.plan_height, plan->plan_height);
    EXPECT_EQ(node.live_bytes, plan->live_bytes);
    EXPECT_EQ(plan->plan_height, 3 * 4 * node.bucket[0]);
  }
  EXPECT_THAT(session_->warming().Plan(*main, {{{60}}}, {}).status(), StatusIs(kWrongArgument));
}

TEST_F(PackageProgramTest, KernelsReadTheRealSize) {
  json program = DiamondProgram();
  program["steps"] = {MaskStep("x", "twice", "n", "n"), ScaleStep("twice", "y", "n", "2")};
  program["buffers"].erase("thrice");
  const Program* main = Open(program);
  for (const int64_t n : {60, 33, 64}) {
    COPPICE_ASSERT_OK_AND_ASSIGN(const Lease lease, Run(*session_, *main, {Upload(Ramp(n))}));
    const DeviceAddress y = (*lease.Read(device_.stream())).output(0).data;
    std::vector<float> padded = Times(Ramp(n), 2);
    padded.resize(64);
    EXPECT_EQ(device_.Download<float>(y, 64), padded) << n;
  }
}

TEST_F(PackageProgramTest, ScalarsOfTheKeyAreBakedIn) {
  json program = DiamondProgram();
  program["scalars"] = {{"half", {{"bind", "key"}}}};
  program["guards"] = {"half <= 1"};
  program["steps"] = json::array({ScaleStep("x", "y", "n", "2")});
  program["steps"].push_back(ScaleStep("x", "y", "n", "0.5"));
  program["steps"][1]["if"] = "half == 1";
  program["buffers"].erase("twice");
  program["buffers"].erase("thrice");
  const Program* main = Open(program);
  for (const int64_t half : {0, 1, 0, 1}) {
    COPPICE_ASSERT_OK_AND_ASSIGN(const Lease lease,
                                 Run(*session_, *main, {Upload(Ramp(20))}, nullptr, {half}));
    EXPECT_EQ(Read(lease), Times(Ramp(20), half == 1 ? 0.5F : 2.0F));
  }
  EXPECT_EQ(session_->nodes().size(), 2U);
  EXPECT_THAT(Run(*session_, *main, {Upload(Ramp(20))}, nullptr, {2}).status(),
              StatusIs(kWrongArgument));
}

TEST_F(PackageProgramTest, SeedsDifferInEachCallAndReplayAfterSetSeed) {
  json program = DiamondProgram();
  program["outputs"] = {"words"};
  program["inputs"] = {"x"};
  program["buffers"] = {{"x", FloatBuffer("input", {"n"})},
                        {"seed", {{"role", "seed"}, {"words", 3}}},
                        {"words", {{"role", "output"}, {"dtype", "i64"}, {"shape", {3}}}}};
  program["steps"] = {{{"op", "memcpy"},
                       {"to", {{"buffer", "words"}}},
                       {"from", {{"buffer", "seed"}}},
                       {"bytes", 24}}};
  const Program* main = Open(program);
  const auto draw = [&](int calls) {
    session_->SetSeed(7);
    std::vector<int64_t> words;
    for (int call = 0; call < calls; ++call) {
      const Lease lease = *Run(*session_, *main, {Upload(Ramp(4))});
      const ReadScope scope = *lease.Read(device_.stream());
      for (const int64_t word : device_.Download<int64_t>(scope.output(0).data, 3))
        words.push_back(word);
    }
    return words;
  };
  const std::vector<int64_t> first = draw(4);
  EXPECT_EQ(std::set<int64_t>(first.begin(), first.end()).size(), 12U);
  EXPECT_EQ(draw(4), first);
}

TEST_F(PackageProgramTest, OutputsMayBeInputsOrPartsOfOthers) {
  json program = AliasedOutputsProgram();
  program["symbols"]["n"]["claim"] = nullptr;
  program["symbols"]["n"].erase("claim");
  const Program* main = Open(program);
  for (const RunKind kind : {RunKind::kRecord, RunKind::kReplay}) {
    COPPICE_ASSERT_OK_AND_ASSIGN(const Lease lease, Run(*session_, *main, {Upload(Ramp(30))}));
    EXPECT_EQ(lease.kind(), kind);
    const std::vector<float> y = Times(Ramp(30), 5);
    EXPECT_EQ(Read(lease, 0), y);
    EXPECT_EQ(Read(lease, 1), Ramp(30));
    EXPECT_EQ(Read(lease, 2), std::vector<float>(y.begin() + 1, y.end()));
  }
}

TEST_F(PackageProgramTest, StepsMayNameAnAlias) {
  json program = DiamondProgram();
  program["outputs"] = {"y", "tail"};
  program["buffers"] = {{"x", FloatBuffer("input", {"n"})},
                        {"y", FloatBuffer("output", {"n"})},
                        {"tail", FloatBuffer("output", {"n - 1"})}};
  program["buffers"]["tail"]["alias"] = {{"buffer", "y"}, {"offset", 4}};
  program["symbols"]["n"].erase("claim");
  program["steps"] = {ScaleStep("x", "y", "n", "2"), ScaleStep("x", "tail", "n - 1", "3")};
  const Program* main = Open(program);
  for (int call = 0; call < 2; ++call) {
    COPPICE_ASSERT_OK_AND_ASSIGN(const Lease lease, Run(*session_, *main, {Upload(Ramp(9))}));
    std::vector<float> y = Times(Ramp(8), 3);
    EXPECT_EQ(Read(lease, 1), y);
    y.insert(y.begin(), 2);
    EXPECT_EQ(Read(lease, 0), y);
  }
}

TEST_F(PackageProgramTest, ConstantsComeFromTheirFileOrFromTheCaller) {
  PackageBuilder builder = SmallKernels();
  const std::vector<float> weights = Ramp(8);
  builder.AddConstants("weights",
                       {{.name = "w",
                         .shape = {8},
                         .bytes = std::string(reinterpret_cast<const char*>(weights.data()), 32)}});
  builder.manifest["constants"]["given"] = {{"dtype", "f32"}, {"shape", {8}}};
  json program = DiamondProgram();
  program["buffers"] = {{"x", FloatBuffer("input", {"n"})},
                        {"w", {{"role", "constant"}, {"constant", "w"}}},
                        {"g", {{"role", "constant"}, {"constant", "given"}}},
                        {"sum", FloatBuffer("temporary", {8})},
                        {"y", FloatBuffer("output", {8})}};
  program["steps"] = {AddStep("x", "w", "sum", "8"), AddStep("sum", "g", "y", "8")};
  builder.manifest["programs"] = {{"main", program}, {"other", program}};
  const LoadedPackage& loaded = Load(builder);
  EXPECT_THAT(session_->Register(loaded, "main", {}).status(), StatusIs(kWrongArgument));
  EXPECT_THAT(
      session_->Register(loaded, "main", {.constants = {{"given", Upload(Ramp(7))}}}).status(),
      StatusIs(kWrongArgument));
  EXPECT_THAT(session_->Register(loaded, "main", {.constants = {{"w", Upload(Ramp(8))}}}).status(),
              StatusIs(kWrongArgument));
  const PackageProgramOptions options{.constants = {{"given", Upload(Times(Ramp(8), 10))}}};
  const int64_t before =
      session_->memory().usage().bytes[static_cast<size_t>(MemoryKind::kConstants)];
  for (const char* name : {"main", "other"}) {
    COPPICE_ASSERT_OK_AND_ASSIGN(const Program* main, session_->Register(loaded, name, options));
    COPPICE_ASSERT_OK_AND_ASSIGN(const Lease lease, Run(*session_, *main, {Upload(Ramp(8))}));
    EXPECT_EQ(Read(lease), Times(Ramp(8), 12));
  }
  EXPECT_GT(session_->memory().usage().bytes[static_cast<size_t>(MemoryKind::kConstants)], before);
}

// y[i] = 5 x[i], whose triple a function of the host computes.
json CallProgram() {
  json program = DiamondProgram();
  const auto view = [](const char* buffer) {
    return json{{"buffer", buffer}, {"dtype", "f32"}, {"shape", {"n"}}};
  };
  program["steps"][1] = {{"op", "call"},
                         {"function", "triple"},
                         {"inputs", json::array({view("x")})},
                         {"outputs", json::array({view("thrice")})},
                         {"options", {{"times", 3}}}};
  return program;
}

TEST_F(PackageProgramTest, CallsRunFunctionsOfTheHostInTheirOrder) {
  const LoadedPackage& loaded = LoadProgram(CallProgram());
  EXPECT_THAT(session_->Register(loaded, "main", {}).status(), StatusIs(kWrongArgument))
      << "nobody gave the function";
  const TestKernels kernels(device_.driver());
  int runs = 0;
  const StepFunction triple = [&](const FunctionCall& call) {
    ++runs;
    const Tensor& x = call.inputs[0];
    return Launch(
        call.driver, kernels.scale, call.stream,
        ScaleParams{.x = PointerAt<float>(x.data),
                    .y = PointerAt<float>(call.outputs[0].data),
                    .count = x.element_count(),
                    .factor = static_cast<float>(std::get<int64_t>(call.options.at("times")))},
        GridFor(x.element_count()));
  };
  COPPICE_ASSERT_OK_AND_ASSIGN(
      const Program* main, session_->Register(loaded, "main", {.functions = {{"triple", triple}}}));
  for (int call = 0; call < 3; ++call) {
    COPPICE_ASSERT_OK_AND_ASSIGN(const Lease lease, Run(*session_, *main, {Upload(Ramp(30))}));
    EXPECT_EQ(Read(lease), Times(Ramp(30), 5));
  }
  EXPECT_EQ(runs, 1) << "when it was recorded";
}

// Replays would leave out what it did elsewhere, and a run without a graph would not wait for it.
TEST_F(PackageProgramTest, WorkThatLaunchesNothingOnItsStreamIsAnError) {
  const StepFunction nothing = [](const FunctionCall& /*call*/) { return absl::OkStatus(); };
  COPPICE_ASSERT_OK_AND_ASSIGN(
      const Program* main,
      session_->Register(LoadProgram(CallProgram()), "main", {.functions = {{"triple", nothing}}}));
  for (int call = 0; call < 3; ++call) {
    EXPECT_THAT(Run(*session_, *main, {Upload(Ramp(30))}),
                StatusIs(kWrongArgument, HasSubstr("launched nothing on the stream")));
  }
}

TEST_F(PackageProgramTest, CallsOfEmptyTensorsMayLaunchNothing) {
  json program = CallProgram();
  program["symbols"]["n"]["min"] = 0;
  program["symbols"]["n"].erase("claim");
  const LoadedPackage& loaded = LoadProgram(program);
  int runs = 0;
  const StepFunction triple = [&](const FunctionCall&) {
    ++runs;
    return absl::OkStatus();
  };
  COPPICE_ASSERT_OK_AND_ASSIGN(
      const Program* main, session_->Register(loaded, "main", {.functions = {{"triple", triple}}}));
  std::vector<RunKind> kinds;
  for (int call = 0; call < 3; ++call) {
    COPPICE_ASSERT_OK_AND_ASSIGN(const Lease lease, Run(*session_, *main, {Upload(Ramp(0))}));
    EXPECT_EQ(Read(lease), Ramp(0));
    kinds.push_back(lease.kind());
  }
  EXPECT_THAT(kinds, ElementsAre(RunKind::kRecord, RunKind::kReplay, RunKind::kReplay));
  EXPECT_EQ(runs, 1);
}

TEST_F(PackageProgramTest, GemmIsThere) {
  json program = DiamondProgram();
  const auto view = [](const char* buffer, const json& shape, const json& strides) {
    return json{{"buffer", buffer}, {"dtype", "f32"}, {"shape", shape}, {"strides", strides}};
  };
  // y[i, j] = 2 x[i] x[j] + 0.5 x[j]
  program["buffers"] = {{"x", FloatBuffer("input", {"n"})},
                        {"y", FloatBuffer("output", {"n", "n"})}};
  program["symbols"]["n"].erase("claim");
  program["symbols"]["n"]["max"] = 32;
  program["steps"] = {{{"op", "call"},
                       {"function", "gemm"},
                       {"inputs",
                        {view("x", {"n", 1}, {1, 1}), view("x", {1, "n"}, {"n", 1}),
                         view("x", {"n", "n"}, {0, 1})}},
                       {"outputs", json::array({view("y", {"n", "n"}, {"n", 1})})},
                       {"options", {{"alpha", "2"}, {"beta", "0.5"}}}}};
  const Program* main = Open(program);
  for (int call = 0; call < 2; ++call) {
    COPPICE_ASSERT_OK_AND_ASSIGN(const Lease lease, Run(*session_, *main, {Upload(Ramp(13))}));
    std::vector<float> expected;
    for (const float left : Ramp(13))
      for (const float right : Ramp(13))
        expected.push_back(2 * left * right + 0.5F * right);
    EXPECT_EQ(Read(lease), expected);
  }
}

TEST_F(PackageProgramTest, ChildrenRunOnTheirParentsBuffers) {
  PackageBuilder builder = SmallKernels();
  builder.manifest["programs"]["five"] = DiamondProgram();
  json program = DiamondProgram();
  program["buffers"].erase("thrice");
  program["steps"] = {{{"op", "child"},
                       {"program", "five"},
                       {"symbols", {{"n", "n"}}},
                       {"buffers", {{"x", {{"buffer", "x"}}}, {"y", {{"buffer", "twice"}}}}}},
                      {{"op", "child"},
                       {"program", "five"},
                       {"symbols", {{"n", "n"}}},
                       {"buffers", {{"x", {{"buffer", "twice"}}}, {"y", {{"buffer", "y"}}}}}}};
  builder.manifest["programs"]["main"] = program;
  const LoadedPackage& loaded = Load(builder);
  COPPICE_ASSERT_OK_AND_ASSIGN(const Program* main, session_->Register(loaded, "main", {}));
  for (int call = 0; call < 3; ++call) {
    COPPICE_ASSERT_OK_AND_ASSIGN(const Lease lease, Run(*session_, *main, {Upload(Ramp(30))}));
    EXPECT_EQ(Read(lease), Times(Ramp(30), 25));
  }
}

TEST_F(PackageProgramTest, EmptySizesLaunchNothing) {
  json program = DiamondProgram();
  program["symbols"]["n"]["min"] = 0;
  program["symbols"]["n"].erase("claim");
  const Program* main = Open(program);
  for (int call = 0; call < 2; ++call) {
    COPPICE_ASSERT_OK_AND_ASSIGN(const Lease lease, Run(*session_, *main, {Upload(Ramp(0))}));
    EXPECT_EQ(Read(lease), std::vector<float>());
  }
}

TEST_F(PackageProgramTest, OutputsOfOneCallAreReadInPlaceByTheNext) {
  const Program* main = Open(DiamondProgram());
  for (int round = 0; round < 4; ++round) {
    COPPICE_ASSERT_OK_AND_ASSIGN(Lease lease, Run(*session_, *main, {Upload(Ramp(64))}));
    for (int step = 1; step < 4; ++step) {
      const Tensor y = (*lease.Read(device_.stream())).output(0);
      COPPICE_ASSERT_OK_AND_ASSIGN(Lease next, Run(*session_, *main, {y}));
      lease = std::move(next);
    }
    EXPECT_EQ(Read(lease), Times(Ramp(64), 625));
  }
  EXPECT_GT(session_->stats().inputs_in_place, 0);
}

TEST_F(PackageProgramTest, BackgroundRecordsAsWell) {
  const LoadedPackage& loaded = LoadProgram(DiamondProgram());
  SessionOptions options;
  options.record_in_background = true;
  const std::unique_ptr<Session> session = MakeSession(options);
  COPPICE_ASSERT_OK_AND_ASSIGN(const Program* main, session->Register(loaded, "main", {}));
  EXPECT_EQ(Read(*Run(*session, *main, {Upload(Ramp(64))})), Times(Ramp(64), 5));
  session->WaitForRecordings();
  COPPICE_ASSERT_OK_AND_ASSIGN(const Lease lease, Run(*session, *main, {Upload(Ramp(64))}));
  EXPECT_EQ(lease.kind(), RunKind::kReplay);
  EXPECT_EQ(Read(lease), Times(Ramp(64), 5));
}

TEST_F(PackageProgramTest, RefusesWhatThePackageDoesNotHave) {
  json unclaimed = DiamondProgram();
  unclaimed["symbols"]["n"].erase("claim");
  const LoadedPackage& loaded = LoadProgram(unclaimed);
  EXPECT_THAT(session_->Register(loaded, "none", {}).status(),
              StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(
      session_->Register(loaded, "main", {.policies = {{"m", *PaddingPolicy::Pow2(64)}}}).status(),
      StatusIs(kWrongArgument));
  EXPECT_THAT(
      session_->Register(loaded, "main", {.policies = {{"n", *PaddingPolicy::Pow2(64)}}}).status(),
      StatusIs(kWrongArgument))
      << "nothing is claimed";
  EXPECT_OK(session_->Register(loaded, "main", {.name = "other"}));
  EXPECT_OK(session_->Register(loaded, "main", {.variant = "second"}));
  EXPECT_OK(session_->Register(loaded, "main", {}));
  EXPECT_THAT(session_->Register(loaded, "main", {}).status(), StatusIs(kWrongArgument));
}

}  // namespace
}  // namespace coppice
