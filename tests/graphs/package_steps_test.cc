// Goal: what the steps of a package's program are given: memory for one launch, attributes,
// structs, constants, and kernels of the session; and the ways in which they run that are no graph
// of theirs. Method: packages of small PTX kernels on the emulator, against sums computed here;
// driver calls are counted by the ledger.

#include "coppice/graphs/session.h"
#include "coppice/runtime/graph.h"
#include "coppice/runtime/loaded_package.h"

#include "tests/graphs/package_fixture.h"
#include "tests/support/text_count.h"

namespace coppice {
namespace {

using nlohmann::json;
using package::AddStep;
using package::FloatBuffer;
using package::GridOf;
using package::LoadedPackage;
using package::PackageBuilder;
using package::Reads;
using package::ScaleStep;
using package::SmallKernels;
using package::Writes;

// Park(x, y, count, scratch)   y[i] = 2 x[i], which waits in scratch[i]
// Describe(x, y, map)          y is the address of x, and map
// Unpack(args)                 y[i] = 3 x[i] at {&x, &y, u32 count, u8, u8 factor}
std::string StepKernels() {
  std::string map;  // Its words, behind x at y.
  for (int at = 0; at < 128; at += 8)
    map += fmt::format("  ld.param.u64 %rd3, [map+{}];\n  st.global.u64 [%rd2+{}], %rd3;\n", at,
                       at + 8);
  return std::string(R"(
.version 7.0
.target sm_80
.address_size 64

.visible .entry Park(.param .u64 x, .param .u64 y, .param .u32 count, .param .u64 scratch)
)") + package::kSmallKernelOpening +
         R"(  ld.param.u64 %rd4, [scratch];
  add.u64 %rd5, %rd2, %rd1;
  add.u64 %rd6, %rd3, %rd1;
  add.u64 %rd7, %rd4, %rd1;
  ld.global.f32 %f1, [%rd5];
  st.global.f32 [%rd7], %f1;
  ld.global.f32 %f2, [%rd7];
  add.rn.f32 %f3, %f1, %f2;
  st.global.f32 [%rd6], %f3;
  ret;
}

.visible .entry Describe(
    .param .u64 x, .param .u64 y, .param .align 64 .b8 map[128])
{
  .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [x];
  ld.param.u64 %rd2, [y];
  st.global.u64 [%rd2], %rd1;
)" + map +
         R"(  ret;
}

.visible .entry Unpack(.param .align 8 .b8 args[24])
{
  .reg .pred %p<2>;
  .reg .b16 %rs<2>;
  .reg .b32 %r<5>;
  .reg .f32 %f<4>;
  .reg .b64 %rd<6>;
  mov.u32 %r1, %ctaid.x;
  mov.u32 %r2, %tid.x;
  mad.lo.u32 %r3, %r1, 128, %r2;
  ld.param.u32 %r4, [args+16];
  setp.ge.u32 %p1, %r3, %r4;
  @%p1 ret;
  mul.wide.u32 %rd1, %r3, 4;
  ld.param.u64 %rd2, [args];
  ld.param.u64 %rd3, [args+8];
  add.u64 %rd4, %rd2, %rd1;
  add.u64 %rd5, %rd3, %rd1;
  ld.global.f32 %f1, [%rd4];
  ld.param.u8 %rs1, [args+21];
  cvt.rn.f32.u16 %f2, %rs1;
  mul.rn.f32 %f3, %f1, %f2;
  st.global.f32 [%rd5], %f3;
  ret;
}
)";
}

PackageBuilder StepKernelsPackage() {
  PackageBuilder builder = SmallKernels();
  builder.AddModule("steps", "ptx", "sm_80", StepKernels());
  const auto target = [](const char* symbol) {
    return json{{"module", "steps"},
                {"symbol", symbol},
                {"block", {128, 1, 1}},
                {"values", {{"BLOCK", 128}}}};
  };
  json park = target("Park");
  park["scratch"] = {{{"bytes_per_block", 512}, {"align", 16}}};
  builder.manifest["kernels"]["Park"] = {{"parameters", {8, 8, 4, 8}},
                                         {"targets", json::array({park})}};
  json describe = target("Describe");
  describe["block"] = {1, 1, 1};
  builder.manifest["kernels"]["Describe"] = {{"parameters", {8, 8, 128}},
                                             {"targets", json::array({describe})}};
  builder.manifest["kernels"]["Unpack"] = {{"parameters", {24}},
                                           {"targets", json::array({target("Unpack")})}};
  return builder;
}

class PackageStepsTest : public PackageSessionFixture {
 protected:
  // Calls the program three times at n = 200: recorded, and replayed.
  void ExpectTimes(Session& session, const Program& program, float factor) {
    for (const RunKind kind : {RunKind::kRecord, RunKind::kReplay, RunKind::kReplay}) {
      COPPICE_ASSERT_OK_AND_ASSIGN(const Lease lease, Run(session, program, {Upload(Ramp(200))}));
      EXPECT_EQ(lease.kind(), kind) << NameOf(lease.kind());
      EXPECT_EQ(Read(lease), Times(Ramp(200), factor));
    }
  }
  void ExpectTimes(const PackageBuilder& builder, float factor) {
    const std::unique_ptr<Session> session = MakeSession();
    COPPICE_ASSERT_OK_AND_ASSIGN(const Program* main, session->Register(Load(builder), "main", {}));
    ExpectTimes(*session, *main, factor);
  }
  static json ParkStep(const std::string& x, const std::string& y) {
    return {{"op", "kernel"},
            {"kernel", "Park"},
            {"grid", GridOf("n")},
            {"args", {Reads(x), Writes(y), {{"i32", "n"}}, {{"scratch", 0}}}}};
  }
};

TEST_F(PackageStepsTest, KernelsOfTheSessionAreLoadedOnce) {
  PackageBuilder builder = SmallKernels();
  builder.manifest["programs"] = {{"main", DiamondProgram()}, {"other", DiamondProgram("5")}};
  const LoadedPackage& loaded = Load(builder);
  const auto modules = [&] { return device_.ledger().calls(&DriverTable::LibraryLoadData); };
  const int64_t before = modules();
  ASSERT_OK(session_->Register(loaded, "main", {}));
  EXPECT_EQ(modules(), before + 1);
  ASSERT_OK(session_->Register(loaded, "other", {}));
  ASSERT_OK(session_->Register(loaded, "main", {.variant = "second"}));
  EXPECT_EQ(modules(), before + 1);
}

TEST_F(PackageStepsTest, ScratchIsATemporaryOfItsStep) {
  PackageBuilder builder = StepKernelsPackage();
  json program = DiamondProgram();
  program["buffers"].erase("thrice");
  program["steps"] = {ParkStep("x", "twice"), ParkStep("twice", "y")};
  builder.manifest["programs"]["main"] = program;
  COPPICE_ASSERT_OK_AND_ASSIGN(const Program* main, session_->Register(Load(builder), "main", {}));
  ExpectTimes(*session_, *main, 4);
  ASSERT_EQ(session_->nodes().size(), 1U);
  EXPECT_EQ(session_->nodes()[0].plan_height, 3 * 1024) << "both steps have the same 2 x 512 bytes";
}

TEST_F(PackageStepsTest, LaunchesAreCooperativeWhereTheirTargetIs) {
  PackageBuilder builder = SmallKernels();
  builder.manifest["programs"]["main"] = DiamondProgram();
  const auto attributes = [&] {
    return device_.ledger().calls(&DriverTable::GraphKernelNodeSetAttribute);
  };
  const int64_t before = attributes();
  ExpectTimes(builder, 5);
  EXPECT_EQ(attributes(), before);
  builder.manifest["kernels"]["Add"]["targets"][0]["cooperative"] = true;
  ExpectTimes(builder, 5);
  EXPECT_EQ(attributes(), before + 1);
}

TEST_F(PackageStepsTest, StructsAreLaidOutAsTheManifestSays) {
  PackageBuilder builder = StepKernelsPackage();
  json program = DiamondProgram();
  program["buffers"].erase("thrice");
  program["buffers"].erase("twice");
  const json members = {Reads("x"), Writes("y"), {{"u32", "n"}}, {{"u8", 9}}, {{"bytes", "0300"}}};
  program["steps"] = {{{"op", "kernel"},
                       {"kernel", "Unpack"},
                       {"grid", GridOf("n")},
                       {"args", {{{"struct", members}}}}}};
  builder.manifest["programs"]["main"] = program;
  ExpectTimes(builder, 3);
}

// y is the address of x and the descriptor `map` of it, 8-byte words.
PackageBuilder DescribingPackage(const json& map) {
  PackageBuilder builder = StepKernelsPackage();
  json program = DiamondProgram();
  program["buffers"].erase("twice");
  program["buffers"].erase("thrice");
  program["symbols"]["n"].erase("claim");
  program["buffers"]["y"] = {{"role", "output"}, {"dtype", "u64"}, {"shape", {17}}};
  json full = {{"buffer", "x"}, {"dtype", "f32"}, {"access", "r"}};
  full.update(map);
  program["steps"] = {{{"op", "kernel"},
                       {"kernel", "Describe"},
                       {"grid", {1, 1, 1}},
                       {"args", {Reads("x"), Writes("y"), {{"tensormap", full}}}}}};
  builder.manifest["programs"]["main"] = program;
  return builder;
}

TEST_F(PackageStepsTest, TensorMapsAreThoseOfTheirGraphsAddressesAndSizes) {
  const PackageBuilder builder = DescribingPackage(
      {{"dims", {8, "n // 8 - 1"}}, {"strides", {32}}, {"box", {8, 2}}, {"offset", 32}});
  COPPICE_ASSERT_OK_AND_ASSIGN(const Program* main, session_->Register(Load(builder), "main", {}));
  for (const int64_t n : {64, 128, 64, 128}) {
    COPPICE_ASSERT_OK_AND_ASSIGN(const Lease lease, Run(*session_, *main, {Upload(Ramp(n))}));
    const std::vector<uint64_t> words = Read<uint64_t>(lease);
    const uint64_t dims[] = {8, static_cast<uint64_t>(n / 8 - 1)};
    const uint64_t strides[] = {32};
    const unsigned box[] = {8, 2};
    const unsigned ones[] = {1, 1};
    CuTensorMap map;
    ASSERT_EQ(device_.driver().table().TensorMapEncodeTiled(
                  &map, CuTensorMapDataType::kFloat32, 2,
                  reinterpret_cast<void*>(words[0] + 32),  // NOLINT(performance-no-int-to-ptr)
                  dims, strides, box, ones, CuTensorMapInterleave::kNone, CuTensorMapSwizzle::kNone,
                  CuTensorMapL2Promotion::kNone, CuTensorMapFloatOobFill::kNone),
              CuResult::kSuccess);
    EXPECT_THAT(std::span(words).subspan(1), testing::ElementsAreArray(map.opaque)) << n;
  }
}

TEST_F(PackageStepsTest, TensorMapsLieInsideOfTheirBuffersAndWithinTheDriversLimits) {
  const std::pair<json, const char*> cases[] = {
      {{{"dims", {"n + 1"}}, {"strides", json::array()}, {"box", {16}}},
       "a tensor map needs 260 bytes, but its buffer has only 256 left"},
      {{{"dims", {"n - 64"}}, {"strides", json::array()}, {"box", {16}}}, "dimension 0"},
      {{{"dims", {4, 4}}, {"strides", {"n - 56"}}, {"box", {4, 4}}},
       "cuTensorMapEncodeTiled refuses a tensor of [4, 4] f32"}};
  for (const auto& [map, what] : cases) {
    const std::unique_ptr<Session> session = MakeSession();
    const Program* const main = *session->Register(Load(DescribingPackage(map)), "main", {});
    const absl::Status status = Run(*session, *main, {Upload(Ramp(64))}).status();
    EXPECT_THAT(status, StatusIs(kWrongArgument,
                                 HasSubstr("/programs/main/steps/0: argument 2 of kernel")));
    EXPECT_THAT(MessageOf(status), HasSubstr(what));
  }
}

// A program that runs `child` on its own x and y, at its own n.
PackageBuilder ParentOf(const json& child) {
  PackageBuilder builder = SmallKernels();
  json program = DiamondProgram();
  program["buffers"].erase("twice");
  program["buffers"].erase("thrice");
  program["steps"] = {{{"op", "child"},
                       {"program", "child"},
                       {"symbols", {{"n", "n"}}},
                       {"buffers", {{"x", {{"buffer", "x"}}}, {"y", {{"buffer", "y"}}}}}}};
  builder.manifest["programs"] = {{"main", program}, {"child", child}};
  return builder;
}

TEST_F(PackageStepsTest, ChildrenHaveNoSeedsAndNoRealSizes) {
  json seeded = DiamondProgram();
  seeded["buffers"]["seed"] = {{"role", "seed"}, {"words", 1}};
  json real = DiamondProgram();
  real["steps"] = {{{"op", "kernel"},
                    {"kernel", "Mask"},
                    {"grid", GridOf("n")},
                    {"args", {Reads("x"), Writes("y"), {{"i32", "n"}}, {{"real", "n"}}}}}};
  const std::pair<json, const char*> cases[] = {{seeded, "/programs/child/buffers/seed"},
                                                {real, "/programs/child/steps/0"}};
  for (const auto& [child, place] : cases) {
    const LoadedPackage& loaded = Load(ParentOf(child));
    EXPECT_THAT(session_->Register(loaded, "main", {}),
                StatusIs(absl::StatusCode::kUnimplemented, HasSubstr(place)));
    EXPECT_OK(session_->Register(loaded, "child", {.name = place})) << "it runs by itself";
  }
}

TEST_F(PackageStepsTest, ChildrenRunAtSizesThatTheyAllowOnly) {
  const auto status_of = [&](const json& change, int64_t n) {
    json child = DiamondProgram();
    child.merge_patch(change);
    PackageBuilder builder = ParentOf(child);
    builder.manifest["programs"]["main"]["symbols"]["n"].erase("claim");
    const std::unique_ptr<Session> session = MakeSession();
    const Program* const main = *session->Register(Load(builder), "main", {});
    return Run(*session, *main, {Upload(Ramp(n))}).status();
  };
  const json narrow = {
      {"symbols", {{"n", {{"min", 4}, {"max", 20}, {"multiple_of", 2}, {"buckets", {4, 20}}}}}}};
  EXPECT_OK(status_of(narrow, 4));
  for (const int64_t n : {2, 5, 22}) {
    EXPECT_THAT(
        status_of(narrow, n),
        StatusIs(kWrongArgument, HasSubstr("/programs/main/steps/0: 'n' of program 'child' is")));
  }
  const json guarded = {{"guards", {"n % 7 == 0"}}};
  EXPECT_OK(status_of(guarded, 14));
  EXPECT_THAT(MessageOf(status_of(guarded, 15)), HasSubstr("guard 'n % 7 == 0'"));
}

TEST_F(PackageStepsTest, AliasesLieInsideOfWhatTheyAreAliasesOf) {
  for (const json& offset : {json(INT64_MAX), json("n - 99"), json("n * 4"), json("n * 4 + 1")}) {
    PackageBuilder builder = SmallKernels();
    json program = DiamondProgram();
    program["symbols"]["n"].erase("claim");
    program["outputs"] = {"y", "part"};
    program["buffers"]["part"] = FloatBuffer("output", {"n"});
    program["buffers"]["part"]["alias"] = {{"buffer", "x"}, {"offset", offset}};
    builder.manifest["programs"]["main"] = program;
    const std::unique_ptr<Session> session = MakeSession();
    const Program* const main = *session->Register(Load(builder), "main", {});
    EXPECT_THAT(
        Run(*session, *main, {Upload(Ramp(30))}),
        StatusIs(kWrongArgument, HasSubstr("test.zip: /programs/main/buffers/part/alias: ")));
  }
}

TEST_F(PackageStepsTest, AProductOfMoreElementsThanALaunchWritesIsRefused) {
  PackageBuilder builder = SmallKernels();
  json program = DiamondProgram();
  const auto view = [](const char* buffer, const json& shape) {
    return json{{"buffer", buffer}, {"dtype", "f32"}, {"shape", shape}, {"strides", {0, 0}}};
  };
  // 2^32 + 1 blocks of 128, which 32 bits count as 1.
  program["steps"] = {{{"op", "call"},
                       {"function", "gemm"},
                       {"inputs", {view("x", {128, 1}), view("x", {1, 4294967297})}},
                       {"outputs", json::array({view("y", {128, 4294967297})})}}};
  builder.manifest["programs"]["main"] = program;
  const Program* const main = *session_->Register(Load(builder), "main", {});
  EXPECT_THAT(Run(*session_, *main, {Upload(Ramp(30))}),
              StatusIs(kWrongArgument, HasSubstr("549755814016 elements")));
}

TEST_F(PackageStepsTest, ConstantsLieAsTheirStridesSay) {
  PackageBuilder builder = SmallKernels();
  const std::vector<float> elements = Ramp(6);
  builder.AddConstants("weights",
                       {{.name = "w",
                         .shape = {2, 3},
                         .bytes = std::string(reinterpret_cast<const char*>(elements.data()), 24)},
                        {.name = "empty", .shape = {0, 3}, .bytes = ""}});
  builder.manifest["constants"]["w"]["strides"] = {1, 3};
  json program = DiamondProgram();
  program["outputs"] = {"y"};
  program["buffers"] = {{"x", FloatBuffer("input", {"n"})},
                        {"y", FloatBuffer("output", {8})},
                        {"w", {{"role", "constant"}, {"constant", "w"}}},
                        {"empty", {{"role", "constant"}, {"constant", "empty"}}}};
  program["steps"] = {
      {{"op", "memcpy"}, {"to", {{"buffer", "y"}}}, {"from", {{"buffer", "w"}}}, {"bytes", 32}}};
  builder.manifest["programs"]["main"] = program;
  COPPICE_ASSERT_OK_AND_ASSIGN(const Program* main, session_->Register(Load(builder), "main", {}));
  COPPICE_ASSERT_OK_AND_ASSIGN(const Lease lease, Run(*session_, *main, {Upload(Ramp(4))}));
  EXPECT_EQ(Read(lease), (std::vector<float>{1, 4, 0, 2, 5, 0, 3, 6}));
}

TEST_F(PackageStepsTest, OutputsMayBeConstants) {
  PackageBuilder builder = SmallKernels();
  const std::vector<float> weights = Ramp(8);
  builder.AddConstants("weights",
                       {{.name = "w",
                         .shape = {8},
                         .bytes = std::string(reinterpret_cast<const char*>(weights.data()), 32)}});
  json program = DiamondProgram();
  program["buffers"]["w"] = {{"role", "constant"}, {"constant", "w"}};
  program["buffers"]["tail"] = FloatBuffer("output", {6});
  program["buffers"]["tail"]["alias"] = {{"buffer", "w"}, {"offset", 8}};
  program["outputs"] = {"y", "tail"};
  builder.manifest["programs"]["main"] = program;
  COPPICE_ASSERT_OK_AND_ASSIGN(const Program* main, session_->Register(Load(builder), "main", {}));
  for (int call = 0; call < 3; ++call) {
    COPPICE_ASSERT_OK_AND_ASSIGN(const Lease lease, Run(*session_, *main, {Upload(Ramp(30))}));
    EXPECT_EQ(Read(lease, 0), Times(Ramp(30), 5));
    EXPECT_EQ(Read(lease, 1), (std::vector<float>{3, 4, 5, 6, 7, 8}));
  }
}

TEST_F(PackageStepsTest, WorkThatCannotBeCapturedRunsWithoutAGraph) {
  json program = DiamondProgram();
  const auto view = [](const char* buffer) {
    return json{{"buffer", buffer}, {"dtype", "f32"}, {"shape", {"n"}}};
  };
  program["steps"].push_back({{"op", "call"},
                              {"function", "wait"},
                              {"inputs", json::array({view("y")})},
                              {"outputs", json::array({view("y")})}});
  const LoadedPackage& loaded = LoadProgram(program);
  const StepFunction wait = [](const FunctionCall& call) {
    return call.driver.Call<&DriverTable::StreamSynchronize>(call.stream);
  };
  COPPICE_ASSERT_OK_AND_ASSIGN(const Program* main,
                               session_->Register(loaded, "main", {.functions = {{"wait", wait}}}));
  for (int call = 0; call < 3; ++call) {
    COPPICE_ASSERT_OK_AND_ASSIGN(const Lease lease, Run(*session_, *main, {Upload(Ramp(30))}));
    EXPECT_EQ(lease.kind(), RunKind::kEager);
    EXPECT_EQ(lease.reason(), Reason::kNotCapturable);
    EXPECT_EQ(Read(lease), Times(Ramp(30), 5));
  }
  EXPECT_THAT(session_->warming().Warm(*main, nullptr, {{{32}}}, {}, {}), StatusIs(kRefused));
}

TEST_F(PackageStepsTest, CapturesOfTheCallerMayIncludeAProgramThatNeverRan) {
  const Program* main = Open(DiamondProgram());
  const Tensor x = Upload(Ramp(30));
  COPPICE_ASSERT_OK_AND_ASSIGN(Capture capture, Capture::Begin(device_.driver(), device_.stream()));
  COPPICE_ASSERT_OK_AND_ASSIGN(
      const Lease lease,
      session_->Include({.program = main, .inputs = {&x, 1}, .stream = device_.stream()}));
  COPPICE_ASSERT_OK_AND_ASSIGN(const Graph graph, capture.End());
  COPPICE_ASSERT_OK_AND_ASSIGN(const GraphExec exec,
                               GraphExec::Instantiate(device_.driver(), graph));
  for (int launch = 0; launch < 2; ++launch) {
    ASSERT_OK(device_.driver().Call<&DriverTable::GraphLaunch>(exec.handle(), device_.stream()));
    EXPECT_EQ(Read(lease), Times(Ramp(30), 5));
  }
}

TEST_F(PackageStepsTest, SizesOverTheLargestBucketRunAtTheirOwn) {
  const Program* main = Open(DiamondProgram("3", {16, 64}));
  for (int call = 0; call < 2; ++call) {
    COPPICE_ASSERT_OK_AND_ASSIGN(const Lease lease, Run(*session_, *main, {Upload(Ramp(100))}));
    EXPECT_EQ(lease.kind(), RunKind::kEager);
    EXPECT_EQ(lease.reason(), Reason::kOverLargestBucket);
    EXPECT_EQ(Read(lease), Times(Ramp(100), 5));
  }
}

}  // namespace
}  // namespace coppice
