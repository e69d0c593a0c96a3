// Goal: `coppice replay` says what is wrong with a case, where padding gets to, and what buffers
// held; and it refuses what it cannot run. Method: a session with a flight recorder runs programs
// of small kernels, one of them wrong, on an emulator that checks as little as it can, and saves a
// case; the command reads it. replay_planted_test has the table of faults.

#include "coppice/graphs/case_file.h"

#include "tests/package/small_kernels.h"
#include "tests/tools/replay_programs.h"
#include "tests/tools/replay_server.h"
#include "tools/package/host_array.h"
#include "tools/support/text_file.h"

namespace coppice {
namespace {

using nlohmann::json;
using package::FloatBuffer;

// What Upload gives, `times` as much.
std::string BytesOf(int64_t n, float times) {
  std::vector<float> values;
  for (int64_t i = 0; i < n; ++i)
    values.push_back(times * ReplayServer::ValueAt(i));
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

class ReplayTest : public testing::Test {
 protected:
  std::string path(const char* name) const { return folder_ / name; }

  // Serves calls of these sizes with the package, and saves what was recorded.
  void Serve(const package::PackageBuilder& builder, const std::vector<int64_t>& sizes) {
    builder.WriteZip(path("p.zip"));
    ReplayServer server(path("p.zip"));
    for (const int64_t n : sizes)
      if (!server.Run({server.Upload({n})})) break;
    server.Save(path("x.coppice-case"));
  }

  // Saves two calls of an input that is freed between them.
  void SaveCallOfFreedInput(const RecorderOptions& options) {
    PackageOf(package::kSmallKernels, ProgramOf("Scale")).WriteZip(path("p.zip"));
    ReplayServer server(path("p.zip"), options);
    const Tensor x = server.Upload({5});
    EXPECT_TRUE(server.Run({x}));
    server.Free(x);
    EXPECT_FALSE(server.Run({x}));
    server.Save(path("x.coppice-case"));
  }

  json Replay(std::vector<std::string> more = {}) {
    std::vector<std::string> arguments = {path("x.coppice-case"), "--json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    outcome_ = RunReplay(arguments);
    EXPECT_TRUE(outcome_.err.empty()) << outcome_.err;
    return json::parse(outcome_.out, nullptr, /*allow_exceptions=*/false);
  }

  package::TemporaryFolder folder_;
  CommandOutcome outcome_;
};

TEST_F(ReplayTest, FindsNothingInProgramsThatAreRight) {
  for (const char* kernel : {"Scale", "Add", "Mask"}) {
    Serve(PackageOf(package::kSmallKernels, ProgramOf(kernel)), {50, 5, 64, 33, 5});
    const json verdict = Replay();
    EXPECT_EQ(verdict["kind"], "nothing") << kernel << ": " << verdict["verdict"];
    EXPECT_EQ(outcome_.code, kExitOk);
  }
  Serve(PackageOf(package::kSmallKernels, DiamondProgram()), {50, 5, 64});
  EXPECT_EQ(Replay()["kind"], "nothing");
}

// A step of NextKernel: the last live row reads padding.
json WithNext(package::PackageBuilder& builder) {
  json kernel = builder.manifest["kernels"]["Scale"];
  kernel["parameters"] = {8, 8, 4};
  kernel["targets"][0]["symbol"] = "Next";
  builder.manifest["kernels"]["Next"] = kernel;
  return {{"op", "kernel"},
          {"kernel", "Next"},
          {"grid", package::GridOf("n")},
          {"args", {package::Reads("x"), package::Writes("y"), {{"i32", "n"}}}}};
}

TEST_F(ReplayTest, SaysThatAClaimIsWrongAndWhichKernelLetsPaddingThrough) {
  json program = ProgramOf("Scale");
  package::PackageBuilder builder = PackageOf(package::kSmallKernels + NextKernel(), program);
  program["steps"] = {WithNext(builder)};
  builder.manifest["programs"]["main"] = program;
  Serve(builder, {50, 40});
  const json verdict = Replay({"--shrink", "-o", path("small.coppice-case")});
  EXPECT_EQ(verdict["kind"], "wrong_claim") << verdict["verdict"];
  EXPECT_EQ(verdict["kernel"], "Next");
  EXPECT_EQ(verdict["step"], 0);
  const std::string ptx = package::kSmallKernels + NextKernel();
  EXPECT_EQ(verdict["ptx_line"], LineAt(ptx, FindIn(ptx, "Next", "add.rn.f32 %f3, %f1, %f2;")));
  EXPECT_EQ(verdict["thread"]["thread"][0], 0);
  EXPECT_EQ(outcome_.code, kExitDevice);
  EXPECT_EQ(verdict["extents"][0], 1);
  EXPECT_EQ(verdict["bucket"][0], 2);
}

TEST_F(ReplayTest, FollowsPaddingWhereItChangesNothing) {
  Serve(PackageOf(package::kSmallKernels, ProgramOf("Scale")), {50, 40});
  json verdict = Replay({"--taint"});
  EXPECT_EQ(verdict["kind"], "nothing");
  ASSERT_EQ(verdict["padding"].size(), 2U) << verdict["padding"];
  EXPECT_EQ(verdict["padding"][0]["text"],
            "padding reaches no live element of an output or a temporary");
  EXPECT_EQ(verdict["padding"][0]["call"], 1);
  EXPECT_EQ(verdict["padding"][0]["may_be_anything"], true);
  EXPECT_EQ(verdict["padding"][0]["reaches_output"], false);
  // What a row takes from the row behind it is cleared, whatever it is.
  std::string cleared = NextKernel();
  const std::string sum = "add.rn.f32 %f3, %f1, %f2;";
  cleared.replace(cleared.find(sum), sum.size(),
                  "mov.b32 %r1, %f2; xor.b32 %r1, %r1, %r1; mov.b32 %f2, %r1;\n"
                  "  add.rn.f32 %f3, %f1, %f2;");
  json program = ProgramOf("Scale");
  package::PackageBuilder builder = PackageOf(package::kSmallKernels + cleared, program);
  program["steps"] = {WithNext(builder)};
  builder.manifest["programs"]["main"] = program;
  Serve(builder, {50, 40});
  verdict = Replay({"--taint"});
  EXPECT_EQ(verdict["kind"], "nothing");
  const std::string ptx = package::kSmallKernels + cleared;
  const int line = LineAt(ptx, FindIn(ptx, "Next", sum));
  EXPECT_EQ(verdict["padding"][0]["text"],
            "padding of x reaches y[49] in step 0: kernel Next, PTX line " + std::to_string(line) +
                ", thread (49, 0, 0) of block (0, 0, 0)");
  EXPECT_EQ(verdict["padding"][0]["reaches_output"], true);
  const json& first = verdict["padding"][0]["first"];
  EXPECT_EQ(first["inputs"], json::array({"x"}));
  EXPECT_EQ(first["element"], json::array({49}));
  EXPECT_EQ(first["ptx_line"], line);
  EXPECT_EQ(first["thread"]["thread"][0], 49);
}

// y = 2 x, z = x + w, and v = the sum of eight inputs: more than a run follows at once.
TEST_F(ReplayTest, SaysWhichInputsOutputsDependOn) {
  json program = ProgramOf("Scale");
  program["inputs"] = {"x", "w"};
  program["outputs"] = {"y", "z", "v"};
  program["buffers"]["w"] = FloatBuffer("input", {"n"});
  for (const char* name : {"y", "z", "v"})
    program["buffers"][name] = FloatBuffer("output", {"n"});
  program["steps"] = {package::ScaleStep("x", "y", "n", "2"), package::AddStep("x", "w", "z", "n")};
  std::string sum = "i0";
  for (int i = 0; i < 8; ++i) {
    const std::string input = "i" + std::to_string(i);
    program["inputs"].push_back(input);
    program["buffers"][input] = FloatBuffer("input", {"n"});
    if (i == 0) continue;
    const std::string next = i == 7 ? "v" : "t" + std::to_string(i);
    if (i < 7) program["buffers"][next] = FloatBuffer("temporary", {"n"});
    program["steps"].push_back(package::AddStep(sum, input, next, "n"));
    sum = next;
  }
  PackageOf(package::kSmallKernels, program).WriteZip(path("p.zip"));
  {
    ReplayServer server(path("p.zip"));
    std::vector<Tensor> inputs;
    for (int i = 0; i < 10; ++i)
      inputs.push_back(server.Upload({33}));
    EXPECT_TRUE(server.Run(inputs));
    server.Save(path("x.coppice-case"));
  }
  const json verdict = Replay({"--depends"});
  EXPECT_EQ(verdict["kind"], "nothing") << verdict["verdict"];
  ASSERT_EQ(verdict["depends"].size(), 1U);
  EXPECT_EQ(verdict["depends"][0]["gaps"], json::array());
  const json& outputs = verdict["depends"][0]["outputs"];
  EXPECT_EQ(outputs["y"], json({"x"}));
  EXPECT_EQ(outputs["z"], json({"x", "w"}));
  EXPECT_EQ(outputs["v"], json({"i0", "i1", "i2", "i3", "i4", "i5", "i6", "i7"}));
}

TEST_F(ReplayTest, NamesTheStepThatReadsWhatNobodyWrote) {
  json program = DiamondProgram();
  // Only the first half of `twice` is written.
  program["steps"][0]["args"][2] = {{"i32", "n // 2"}};
  const std::string ptx = package::kSmallKernels;
  Serve(PackageOf(ptx, program), {50});
  const json verdict = Replay();
  EXPECT_EQ(verdict["kind"], "uninitialized") << verdict["verdict"];
  EXPECT_EQ(verdict["kernel"], "Add");
  EXPECT_EQ(verdict["step"], 2);
  EXPECT_EQ(verdict["ptx_line"], LineAt(ptx, FindIn(ptx, "Add", "ld.global.f32 %f1")));
  EXPECT_EQ(verdict["hit"]["buffer"], "twice");
}

// What memory of the emulator holds before anybody writes to it may be a result, too.
TEST_F(ReplayTest, AResultWithTheBitsOfFreshMemoryIsAResult) {
  constexpr uint32_t kFresh = 0xCBCBCBCB;
  std::vector<float> values(7, 3);
  values[4] = std::bit_cast<float>(kFresh) / 2;
  PackageOf(package::kSmallKernels, ProgramOf("Scale")).WriteZip(path("p.zip"));
  {
    ReplayServer server(path("p.zip"));
    EXPECT_TRUE(server.Run({server.UploadValues(values, {7})}));
    server.Save(path("x.coppice-case"));
  }
  const json verdict = Replay();
  EXPECT_EQ(verdict["kind"], "nothing") << verdict["verdict"];
}

TEST_F(ReplayTest, SaysThatAKernelNeverReadsAScalar) {
  json program = ProgramOf("Scale");
  program["scalars"] = {{"alpha", {{"bind", "key"}}}};
  program["steps"][0]["args"][3] = {{"i32", "alpha"}};
  std::string ptx = package::kSmallKernels;
  const std::string load = "ld.param.f32 %f2, [factor];";
  ptx.replace(FindIn(ptx, "Scale", load), load.size(), "mov.f32 %f2, 0f40000000;");
  const package::PackageBuilder builder = PackageOf(ptx, program);
  builder.WriteZip(path("p.zip"));
  {
    ReplayServer server(path("p.zip"));
    EXPECT_TRUE(server.Run({server.Upload({5})}, {3}));
    EXPECT_TRUE(server.Run({server.Upload({5})}, {4}));
    server.Save(path("x.coppice-case"));
  }
  const json verdict = Replay();
  EXPECT_EQ(verdict["kind"], "baked_in") << verdict["verdict"];
  EXPECT_EQ(verdict["kernel"], "Scale");
  EXPECT_EQ(verdict["step"], 0);
}

// y = x + w, where w is bound.
json BoundProgram() {
  json program = ProgramOf("Add");
  program["symbols"]["n"]["max"] = 64;
  program["inputs"] = {"x", "w"};
  program["buffers"]["w"] = FloatBuffer("input", {64});
  program["buffers"]["w"]["static"] = true;
  program["steps"] = {package::AddStep("x", "w", "y", "n")};
  return program;
}

TEST_F(ReplayTest, SaysThatAStaticInputWasFreed) {
  PackageOf(package::kSmallKernels, BoundProgram()).WriteZip(path("p.zip"));
  {
    ReplayServer server(path("p.zip"), {.ring_bytes = 1 << 20, .static_bytes_max = 1024});
    const Tensor x = server.Upload({5});
    const Tensor w = server.Upload({64});
    server.Bind({w});
    EXPECT_TRUE(server.Run({x}));
    server.Free(w);
    EXPECT_FALSE(server.Run({x}));
    server.Save(path("x.coppice-case"));
  }
  const json verdict = Replay();
  EXPECT_EQ(verdict["kind"], "stale_input") << verdict["verdict"];
  EXPECT_EQ(verdict["call"], 2);
  EXPECT_EQ(verdict["hit"]["buffer"], "w");
}

TEST_F(ReplayTest, SaysThatAnInputWasFreed) {
  SaveCallOfFreedInput({.ring_bytes = 1 << 20});
  const json verdict = Replay();
  EXPECT_EQ(verdict["kind"], "stale_input") << verdict["verdict"];
  EXPECT_EQ(verdict["call"], 2);
}

TEST_F(ReplayTest, SaysThatTheCallThatFailedMayNotBeInTheCase) {
  SaveCallOfFreedInput({.ring_bytes = 1 << 20, .copy_ns_max = 1});
  const json verdict = Replay();
  EXPECT_EQ(verdict["kind"], "cannot_replay") << verdict["verdict"];
  EXPECT_THAT(verdict["verdict"].get<std::string>(), HasSubstr("may not be in the case"));
  ASSERT_EQ(verdict["notes"].size(), 1U);
  EXPECT_EQ(verdict["notes"][0],
            "not in the case: 1 call, because of the limit on the time of copies");
}

TEST_F(ReplayTest, SaysThatRecordedOutputsAreNoResultsOfTheseInputs) {
  PackageOf(package::kSmallKernels, ProgramOf("Scale")).WriteZip(path("p.zip"));
  {
    ReplayServer server(path("p.zip"), {.ring_bytes = 1 << 20, .outputs = true});
    EXPECT_TRUE(server.Run({server.Upload({5})}));
    server.Save(path("x.coppice-case"));
  }
  EXPECT_EQ(Replay()["kind"], "nothing");
  absl::StatusOr<Case> value = ReadCase(path("x.coppice-case"));
  ASSERT_OK(value);
  value->tensors.at(value->calls[0].outputs[0]).bytes[6] ^= 0x40;
  ASSERT_OK(WriteCase(*value, path("x.coppice-case")));
  const json verdict = Replay();
  EXPECT_EQ(verdict["kind"], "differs") << verdict["verdict"];
  EXPECT_EQ(verdict["hit"]["buffer"], "y");
}

TEST_F(ReplayTest, WritesTheBuffersOfEachCall) {
  Serve(PackageOf(package::kSmallKernels, DiamondProgram()), {5, 3});
  EXPECT_EQ(Replay({"--buffers", path("values")})["kind"], "nothing");
  for (const auto& [call, n] : std::vector<std::pair<const char*, int64_t>>{{"1", 5}, {"2", 3}}) {
    COPPICE_ASSERT_OK_AND_ASSIGN(
        const HostArray twice,
        ReadArray(path("values") + "/" + call + "/twice.npy", DType::kFloat32));
    EXPECT_EQ(twice.dims, std::vector<int64_t>{n});
    EXPECT_EQ(twice.bytes, BytesOf(n, 2));
  }
  ASSERT_OK(WriteTextFile(path("file"), ""));
  EXPECT_EQ(RunReplay({path("x.coppice-case"), "--buffers", path("file")}).code, kExitOutput);
}

TEST_F(ReplayTest, RefusesAnotherPackageAndFilesThatAreNone) {
  Serve(PackageOf(package::kSmallKernels, ProgramOf("Scale")), {5});
  PackageOf(package::kSmallKernels, ProgramOf("Add")).WriteZip(path("other.zip"));
  EXPECT_EQ(RunReplay({path("x.coppice-case"), "--package", path("other.zip")}).code, kExitUsage);
  EXPECT_EQ(RunReplay({path("nowhere")}).code, kExitUsage);
  EXPECT_EQ(RunReplay({path("p.zip")}).code, kExitUsage);
  EXPECT_EQ(RunReplay({}).code, kExitUsage);
  EXPECT_EQ(RunReplay({path("x.coppice-case"), "--seeds", "0"}).code, kExitUsage);
}

TEST_F(ReplayTest, SaysThatItCannotReplayACaseWithoutItsKernels) {
  Serve(PackageOf(package::kSmallKernels, ProgramOf("Scale")), {5});
  absl::StatusOr<Case> value = ReadCase(path("x.coppice-case"));
  ASSERT_OK(value);
  Case without = *value;
  without.package.clear();
  ASSERT_OK(WriteCase(without, path("x.coppice-case")));
  EXPECT_EQ(Replay()["kind"], "cannot_replay");
  EXPECT_EQ(outcome_.code, kExitDevice);
  EXPECT_EQ(Replay({"--package", path("p.zip")})["kind"], "nothing");
  without.programs[0].package_program.clear();
  ASSERT_OK(WriteCase(without, path("x.coppice-case")));
  EXPECT_EQ(Replay()["kind"], "cannot_replay");
}

}  // namespace
}  // namespace coppice
