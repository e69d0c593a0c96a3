// Goal: every kernel of the project computes the same as host code and as the PTX that nvcc makes
// of it, whatever that is compiled for and however it is optimised; races with nobody; and touches
// no more than it declares. Method: drawn parameters, of the sizes that the project's jobs have;
// both halves on the same arrays.

#include <algorithm>
#include <fstream>
#include <map>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <tuple>
#include <vector>

#include "gtest/gtest.h"

#include "runtime/emulator/ptx/program.h"
#include "tests/ptx/twin_kernels.h"
#include "tests/ptx/twins.h"
#include "tests/support/host_grid.h"
#include "tests/support/test_device.h"
#include "tests/support/test_share.h"

namespace coppice::ptx {
namespace {

constexpr const char* kVariants[] = {"sm_75_O3", "sm_80_O0", "sm_80_O3"};

std::vector<Twin> AllTwins() {
  std::vector<Twin> twins = LibraryTwins();
  for (const auto& more : {ToolTwins(), SampleTwins()})
    twins.insert(twins.end(), more.begin(), more.end());
  return twins;
}

// A unit compiled for a variant, and the memory of its variables.
struct TwinProgram {
  std::unique_ptr<Program> program;
  std::vector<std::byte> memory;
  MemoryRange variables;
};

// Each is read once. Null where it cannot be.
const TwinProgram* ProgramOf(const std::string& unit, const std::string& variant) {
  static std::map<std::string, TwinProgram> programs;
  const std::string name = unit + "." + variant + ".ptx";
  if (const auto found = programs.find(name); found != programs.end()) return &found->second;
  std::ifstream file(std::string(COPPICE_PTX_TWINS) + "/" + name);
  std::ostringstream text;
  text << file.rdbuf();
  auto program = Program::Build(text.str());
  if (!program.ok()) {
    ADD_FAILURE() << name << ": " << program.status().ToString();
    return nullptr;
  }
  constexpr uint64_t kAlignment = 256;
  TwinProgram& twin = programs[name];
  twin.program = *std::move(program);
  const auto bytes = static_cast<uint64_t>(twin.program->global_bytes());
  twin.memory.resize(bytes + kAlignment);
  const auto at = reinterpret_cast<uint64_t>(twin.memory.data());
  twin.variables.begin = (at + kAlignment - 1) / kAlignment * kAlignment;
  twin.variables.end = twin.variables.begin + bytes;
  twin.program->Link(twin.variables.begin, reinterpret_cast<std::byte*>(twin.variables.begin));
  return &twin;
}

#ifdef COPPICE_HAVE_PTX_TWINS
constexpr bool kHavePtx = true;
#else
constexpr bool kHavePtx = false;
#endif

class HostTwinTest : public testing::TestWithParam<std::tuple<Twin, const char*>> {};

TEST_P(HostTwinTest, AgreesWithItsPtx) {
  if (!kHavePtx) GTEST_SKIP() << "built without nvcc: no PTX of the kernels";
  const auto& [twin, variant] = GetParam();
  const TwinProgram* const compiled = ProgramOf(twin.unit, variant);
  ASSERT_NE(compiled, nullptr);
  EXPECT_EQ(compiled->program->capability(), std::stoi(std::string(variant).substr(3, 2)));
  const Kernel* const kernel = compiled->program->FindKernel(twin.kernel);
  ASSERT_NE(kernel, nullptr);
  const HostKernel& host = HostKernelOf(*twin.image, twin.kernel);
  EXPECT_EQ(kernel->parameter_bytes, static_cast<int64_t>(host.parameter_bytes));
  EXPECT_EQ(kernel->max_threads, static_cast<int>(host.block_threads));
  constexpr int64_t kDraws = 12;
  for (int64_t i = 0; i < kDraws; i += std::min<int64_t>(TestShare(), kDraws / 2)) {
    TwinDraw draw(TestSeed() + static_cast<uint64_t>(i));
    TwinScene scene;
    twin.draw(draw, scene);
    ASSERT_EQ(scene.Compare(host, *kernel, compiled->variables, draw.Word()), "") << "draw " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels,
                         HostTwinTest,
                         testing::Combine(testing::ValuesIn(AllTwins()),
                                          testing::ValuesIn(kVariants)),
                         [](const auto& suite) {
                           const Twin& twin = std::get<0>(suite.param);
                           return std::string(twin.unit) + "_" + twin.kernel + "_" +
                                  std::get<1>(suite.param);
                         });

TEST(HostTwinsTest, AreAllKernelsOfTheImagesAndOfThePtx) {
  std::map<std::string, std::set<std::string>> named;
  std::map<std::string, std::set<std::string>> imaged;
  for (const Twin& twin : AllTwins()) {
    EXPECT_TRUE(named[twin.unit].insert(twin.kernel).second) << twin.kernel;
    for (uint32_t i = 0; i < twin.image->kernel_count; ++i)
      imaged[twin.unit].insert(twin.image->kernels[i]->name);
  }
  EXPECT_EQ(named, imaged);
  if (!kHavePtx) GTEST_SKIP() << "built without nvcc: no PTX of the kernels";
  for (const auto& [unit, kernels] : named) {
    const TwinProgram* const compiled = ProgramOf(unit, "sm_80_O3");
    ASSERT_NE(compiled, nullptr);
    std::set<std::string> has;
    for (const Kernel& kernel : compiled->program->kernels())
      has.insert(kernel.code->name);
    EXPECT_EQ(has, kernels) << unit;
  }
}

}  // namespace
}  // namespace coppice::ptx
