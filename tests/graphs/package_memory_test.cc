// Goal: steps of a package share memory by what they touch: buffers of which some touch a part
// alone are planned and ordered right, and no kernel reaches what its arguments do not stand for.
// Method: packages of small PTX kernels on the emulator, against sums computed here; kernels that
// access too much, however they run.

#include <tuple>

#include "coppice/graphs/session.h"

#include "tests/graphs/package_fixture.h"

namespace coppice {
namespace {

using nlohmann::json;
using package::FloatBuffer;
using package::PackageBuilder;
using package::ScaleStep;
using package::SmallKernels;

json CopyStep(const json& from, const json& to) {
  return {{"op", "memcpy"}, {"from", from}, {"to", to}, {"bytes", "4 * n"}};
}

class PackageMemoryTest : public PackageFixture {
 protected:
  // Registers a program of these at sizes that are not padded.
  const Program* Register(Session& session,
                          std::vector<std::string> outputs,
                          json buffers,
                          json steps) {
    buffers["x"] = FloatBuffer("input", {"n"});
    return *session.Register(LoadProgram({{"symbols", {{"n", {{"min", 1}, {"max", 1024}}}}},
                                          {"inputs", {"x"}},
                                          {"outputs", std::move(outputs)},
                                          {"buffers", std::move(buffers)},
                                          {"steps", std::move(steps)}}),
                             "main", {});
  }
};

// The second half of a temporary has the bytes of another, which no step touches before the end.
TEST_F(PackageMemoryTest, BuffersOfWhichNoStepTouchesAPartAreRecorded) {
  const json half = {{"buffer", "wide"}, {"offset", "4 * n"}};
  const std::unique_ptr<Session> session = MakeSession();
  const Program* const main = Register(*session, {"y", "z"},
                                       {{"narrow", FloatBuffer("temporary", {"n"})},
                                        {"wide", FloatBuffer("temporary", {"2 * n"})},
                                        {"y", FloatBuffer("output", {"2 * n"})},
                                        {"z", FloatBuffer("output", {"n"})}},
                                       {{{"op", "memset"},
                                         {"to", {{"buffer", "y"}}},
                                         {"value", 0},
                                         {"width", 4},
                                         {"count", "2 * n"}},
                                        CopyStep({{"buffer", "x"}}, half),
                                        CopyStep(half, {{"buffer", "z"}}),
                                        CopyStep({{"buffer", "x"}}, {{"buffer", "narrow"}}),
                                        CopyStep({{"buffer", "narrow"}}, {{"buffer", "y"}})});
  for (const int64_t n : {1, 4, 64, 512}) {
    std::vector<float> padded = Ramp(n);
    padded.resize(static_cast<size_t>(2 * n));
    for (const RunKind kind : {RunKind::kRecord, RunKind::kReplay}) {
      COPPICE_ASSERT_OK_AND_ASSIGN(const Lease lease, Run(*session, *main, {Upload(Ramp(n))}));
      EXPECT_EQ(lease.kind(), kind) << NameOf(lease.kind());
      EXPECT_EQ(Read(lease, 0), padded);
      EXPECT_EQ(Read(lease, 1), Ramp(n));
    }
  }
  for (const NodeInfo& node : session->nodes())
    EXPECT_FALSE(node.serial);
}

// A kernel may touch all of a buffer of which a copy wrote a half: nothing orders its reads of the
// other half behind the kernel that read what was there before.
TEST_F(PackageMemoryTest, StepsThatTheirBytesDoNotOrderAsThePlanNeedsRunInSeries) {
  const json half = {{"buffer", "wide"}, {"offset", "4 * n"}};
  json scale_half = ScaleStep("wide", "z", "n", "3");
  scale_half["args"][0]["offset"] = "4 * n";
  const std::unique_ptr<Session> session = MakeSession();
  const Program* const main = Register(
      *session, {"y", "z"},
      {{"narrow", FloatBuffer("temporary", {"n"})},
       {"wide", FloatBuffer("temporary", {"2 * n"})},
       {"y", FloatBuffer("output", {"n"})},
       {"z", FloatBuffer("output", {"n"})}},
      {{{"op", "memset"}, {"to", {{"buffer", "z"}}}, {"value", 0}, {"width", 4}, {"count", "n"}},
       CopyStep({{"buffer", "x"}}, {{"buffer", "narrow"}}),
       ScaleStep("narrow", "y", "n", "2"),
       CopyStep({{"buffer", "x"}}, half),
       scale_half});
  for (const RunKind kind : {RunKind::kRecord, RunKind::kReplay}) {
    COPPICE_ASSERT_OK_AND_ASSIGN(const Lease lease, Run(*session, *main, {Upload(Ramp(128))}));
    EXPECT_EQ(lease.kind(), kind) << NameOf(lease.kind());
    EXPECT_EQ(Read(lease, 0), Times(Ramp(128), 2));
    EXPECT_EQ(Read(lease, 1), Times(Ramp(128), 3));
  }
  ASSERT_EQ(session->nodes().size(), 1U);
  EXPECT_TRUE(session->nodes()[0].serial);
  EXPECT_EQ(session->nodes()[0].plan_height, 4 * 512) << "temporaries share bytes";
}

// Scale, which also does this to what its thread writes at y.
PackageBuilder ScaleThat(const std::string& does) {
  constexpr char kWrite[] = "st.global.f32 [%rd5], %f3;";
  std::string kernels = package::kSmallKernels;
  kernels.insert(kernels.find(kWrite) + sizeof(kWrite) - 1, does);
  PackageBuilder builder;
  builder.AddModule("small", "ptx", "sm_80", kernels);
  builder.manifest["kernels"] = SmallKernels().manifest["kernels"];
  const json one = {
      {"symbols", {{"n", {{"min", 1}, {"max", 1024}}}}},
      {"inputs", {"x"}},
      {"outputs", {"y"}},
      {"buffers", {{"x", FloatBuffer("input", {"n"})}, {"y", FloatBuffer("output", {"n"})}}},
      {"steps", json::array({ScaleStep("x", "y", "n", "2")})}};
  builder.manifest["programs"]["main"] = one;
  return builder;
}

// A kernel of one argument too far, at each way to run.
struct Escape {
  const char* does = "";
  const char* said = "";
};

class KernelBoundsTest : public testing::TestWithParam<std::tuple<Escape, Stance>> {};

TEST_P(KernelBoundsTest, AccessOfWhatNoArgumentStandsForEndsTheKernel) {
  const auto& [escape, stance] = GetParam();
  TestDevice device;
  const std::string zip = ScaleThat(escape.does).Zip();
  COPPICE_ASSERT_OK_AND_ASSIGN(package::Package opened,
                               package::Package::FromMemory(package::BytesOf(zip), "test.zip", {}));
  COPPICE_ASSERT_OK_AND_ASSIGN(
      const auto loaded, package::LoadedPackage::Load(device.context(), std::move(opened), {}));
  const std::string good_zip = ScaleThat("").Zip();
  COPPICE_ASSERT_OK_AND_ASSIGN(
      package::Package good_opened,
      package::Package::FromMemory(package::BytesOf(good_zip), "good.zip", {}));
  COPPICE_ASSERT_OK_AND_ASSIGN(
      const auto good, package::LoadedPackage::Load(device.context(), std::move(good_opened), {}));
  COPPICE_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Session> session,
                               Session::Create(device.context(), {.stance = stance}));
  COPPICE_ASSERT_OK_AND_ASSIGN(const Program* const neighbour,
                               session->Register(*good, "main", {.name = "good"}));
  COPPICE_ASSERT_OK_AND_ASSIGN(const Program* const main, session->Register(*loaded, "main", {}));
  COPPICE_ASSERT_OK_AND_ASSIGN(const DeviceMemory values,
                               device.Upload(std::vector<float>(128, 1)));
  const Tensor x = FloatsAt(values.address(), 128);
  const auto run = [&](const Program* program) {
    return session->Run({.program = program, .inputs = {&x, 1}, .stream = device.stream()});
  };
  ASSERT_OK(run(neighbour));
  ASSERT_OK(device.Synchronize());
  EXPECT_EQ(device.emulator().fault(), "");
  ASSERT_OK(run(main));
  EXPECT_FALSE(device.Synchronize().ok());
  EXPECT_THAT(device.emulator().fault(), HasSubstr("kernel Scale"));
  EXPECT_THAT(device.emulator().fault(), HasSubstr("line "));
  EXPECT_THAT(device.emulator().fault(), HasSubstr(escape.said));
}

INSTANTIATE_TEST_SUITE_P(
    ,
    KernelBoundsTest,
    testing::Combine(testing::Values(Escape{"st.global.f32 [%rd5+512], %f3;",
                                            "past the end of argument 1 (y), a range of 512 bytes"},
                                     Escape{"st.global.f32 [%rd5+65536], %f3;",
                                            "past the end of argument 1 (y)"},
                                     Escape{"st.global.f32 [%rd5+-512], %f3;",
                                            "before argument 1 (y), a range of 512 bytes"},
                                     Escape{"ld.global.f32 %f1, [%rd5+512];", "reads 4 bytes"},
                                     Escape{"st.global.f32 [%rd4], %f3;", "inside argument 0 (x)"}),
                     testing::Values(Stance::kRecord, Stance::kEager)));

}  // namespace
}  // namespace coppice
