// Goal: `coppice prof kernels` names the step that launches each kernel of a graph, and says how
// many of its blocks compute padding. Method: a package with a child program and two launches that
// look the same runs in a session with a trace, at drawn sizes; the blocks of its grids are counted
// here. Traces and packages that do not belong together are refused.

#include <map>
#include <string>
#include <vector>

#include "fmt/format.h"

#include "coppice/graphs/session.h"
#include "coppice/runtime/emulator.h"
#include "coppice/runtime/loaded_package.h"
#include "coppice/runtime/stream.h"

#include "tests/package/small_kernels.h"
#include "tests/support/byte_mutator.h"
#include "tests/support/test.h"
#include "tests/support/test_device.h"
#include "tests/tools/command_outcome.h"
#include "tools/support/text_file.h"

namespace coppice {
namespace {

using nlohmann::json;
using package::FloatBuffer;
using package::ScaleStep;
using testing::HasSubstr;

constexpr int64_t kThreads = 128;

// Two equal launches, the second one in a program that the first calls, and a third one with a
// block more: the kernel lets its threads leave.
json PackageManifest(package::PackageBuilder& builder) {
  json& manifest = builder.manifest;
  manifest["kernels"]["Scale"]["source"] = {
      {"front_end", "cuda"}, {"name", "Scale"}, {"file", "scale.cu"}, {"line", 12}};
  manifest["programs"]["inner"] = {
      {"symbols", {{"m", {{"min", 1}, {"max", 1024}}}}},
      {"inputs", {"a"}},
      {"outputs", {"b"}},
      {"buffers", {{"a", FloatBuffer("input", {"m"})}, {"b", FloatBuffer("output", {"m"})}}},
      {"steps", json::array({ScaleStep("a", "b", "m", "2")})}};
  json program = DiamondProgram();
  json more = ScaleStep("u", "y", "n", "2");
  more["grid"][0] = "ceildiv(n, BLOCK) + 1";
  program["buffers"] = {{"x", FloatBuffer("input", {"n"})},
                        {"t", FloatBuffer("temporary", {"n"})},
                        {"u", FloatBuffer("temporary", {"n"})},
                        {"y", FloatBuffer("output", {"n"})}};
  program["steps"] = {ScaleStep("x", "t", "n", "2"),
                      {{"op", "child"},
                       {"program", "inner"},
                       {"symbols", {{"m", "n"}}},
                       {"buffers", {{"a", {{"buffer", "t"}}}, {"b", {{"buffer", "u"}}}}}},
                      more};
  return program;
}

class ProfKernelsTest : public testing::Test {
 protected:
  std::string path(const char* name) const { return folder_ / name; }

  void WritePackage(const char* name, const char* program = "main") {
    package::PackageBuilder builder = package::SmallKernels();
    builder.manifest["programs"][program] = PackageManifest(builder);
    builder.manifest["entry"] = program;
    builder.WriteZip(path(name));
  }

  // Calls of these sizes of the program in p.zip, in t.trace.
  void Trace(const std::vector<int64_t>& sizes,
             const std::vector<std::vector<int64_t>>& warmed = {},
             ExactReplay exact = ExactReplay::kNever) {
    const auto emulator = *Emulator::Create(TestEmulatorOptions());
    const Context context = *Context::Create(emulator->driver());
    const Stream stream = *Stream::Create(emulator->driver());
    const auto loaded = *package::LoadedPackage::Load(
        context, *package::Package::Open(path("p.zip"), {}), {.allow_ptx = true});
    SessionOptions options;
    options.trace.path = path("t.trace");
    const auto session = *Session::Create(context, options);
    PackageProgramOptions package_options;
    package_options.exact = exact;
    const Program* const program = *session->Register(*loaded, "main", package_options);
    ASSERT_OK(session->warming().Warm(*program, nullptr, warmed, {}, {}));
    const DeviceMemory memory = *DeviceMemory::Create(emulator->driver(), 4 * 1024);
    for (const int64_t n : sizes) {
      const Tensor x = FloatsAt(memory.address(), n);
      ASSERT_OK(session->Run({.program = program, .inputs = {&x, 1}, .stream = stream.handle()}));
      ASSERT_OK(stream.Synchronize());
    }
  }

  CommandOutcome Kernels(std::vector<std::string> more) {
    more.insert(more.begin(), {"prof", "kernels", path("t.trace")});
    return RunCoppice(more);
  }

  package::TemporaryFolder folder_;
};

TEST_F(ProfKernelsTest, NamesStepsAndCountsBlocksOfPadding) {
  ByteMutator draw(TestSeed(), "x");
  std::vector<int64_t> sizes;
  for (int i = 0; i < 40; ++i)
    sizes.push_back(1 + static_cast<int64_t>(draw.Draw(1024)));
  WritePackage("p.zip");
  Trace(sizes);
  const CommandOutcome outcome = Kernels({"--package", path("p.zip"), "--json"});
  ASSERT_EQ(outcome.code, kExitOk) << outcome.err;
  const json document = json::parse(outcome.out);
  EXPECT_EQ(document["schema"], "coppice.kernels/1");
  // By bucket: blocks of one launch that the calls need.
  std::map<int64_t, std::vector<int64_t>> needed;
  for (const int64_t n : sizes) {
    int64_t bucket = 1;
    while (bucket < n)
      bucket *= 2;
    needed[bucket].push_back((n + kThreads - 1) / kThreads);
  }
  ASSERT_EQ(document["nodes"].size(), needed.size());
  for (const json& node : document["nodes"]) {
    const int64_t bucket = node["bucket"][0];
    const std::vector<int64_t>& blocks = needed.at(bucket);
    EXPECT_EQ(node["calls"], blocks.size());
    double mean = 0;
    for (const int64_t each : blocks)
      mean += static_cast<double>(each) / static_cast<double>(blocks.size());
    const json& kernels = node["kernels"];
    ASSERT_EQ(kernels.size(), 3U);
    const int64_t at_bucket = (bucket + kThreads - 1) / kThreads;
    for (size_t k = 0; k < 3; ++k) {
      const int more = k == 2 ? 1 : 0;
      EXPECT_EQ(kernels[k]["name"], "Scale");
      EXPECT_EQ(kernels[k]["program"], k == 1 ? "inner" : "main");
      EXPECT_EQ(kernels[k]["step"], k == 1 ? 0 : k);
      EXPECT_EQ(kernels[k]["source"], "scale.cu:12");
      EXPECT_EQ(kernels[k]["blocks"], at_bucket + more);
      EXPECT_NEAR(kernels[k]["blocks_needed"].get<double>(), mean + more, 1e-9);
    }
  }
}

TEST_F(ProfKernelsTest, HasATableWithAndWithoutThePackage) {
  WritePackage("p.zip");
  Trace({200, 200, 100, 300});
  EXPECT_THAT(Kernels({}).out, testing::ContainsRegex("main +- +Scale +12 +31 +-"));
  const std::string text = Kernels({"--package", path("p.zip")}).out;
  // Buckets 128, 256 twice, and 512, whose call needs three of its four blocks.
  EXPECT_THAT(text, testing::ContainsRegex("main +1\\.0 +Scale +4 +9 +11\\.1 % +scale.cu:12"));
  EXPECT_THAT(text, testing::ContainsRegex("main +2 +Scale +4 +13 +7\\.7 %"));
}

TEST_F(ProfKernelsTest, GraphsThatNobodyCalledAddNothing) {
  WritePackage("p.zip");
  Trace({200, 200, 100, 300}, {{1024}});
  const std::string text = Kernels({"--package", path("p.zip")}).out;
  EXPECT_THAT(text, testing::ContainsRegex("main +1\\.0 +Scale +4 +9 +11\\.1 %"));
}

TEST_F(ProfKernelsTest, ReplaysAtExactSizesHaveGridsOfTheirOwn) {
  WritePackage("p.zip");
  const std::vector<int64_t> sizes = {200, 300, 300, 100, 130, 140, 900, 1024, 512, 70};
  Trace(sizes, {}, ExactReplay::kAlways);
  EXPECT_THAT(Kernels({"--package", path("p.zip")}).out,
              testing::ContainsRegex("main +1\\.0 +Scale +10 +[0-9]+ +0\\.0 %"));
  const json document = json::parse(Kernels({"--package", path("p.zip"), "--json"}).out);
  // Calls by the blocks of the first kernel, and that all of them need their blocks.
  std::map<int64_t, int64_t> expected;
  std::map<int64_t, int64_t> found;
  int64_t executables = 0;
  for (const int64_t n : sizes)
    ++expected[(n + kThreads - 1) / kThreads];
  for (const json& node : document["nodes"]) {
    executables += node["kernels"].empty() ? 0 : 1;
    int64_t calls = 0;
    for (const json& patched : node["patched"]) {
      const json& grids = patched["grids"];
      ASSERT_EQ(grids.size(), 3U);
      EXPECT_EQ(grids[2][0].get<int64_t>(), grids[0][0].get<int64_t>() + 1);
      EXPECT_EQ(patched["blocks_needed"][0].get<double>(), grids[0][0].get<double>());
      found[grids[0][0]] += patched["calls"].get<int64_t>();
      calls += patched["calls"].get<int64_t>();
    }
    EXPECT_LE(calls, node["calls"]);
    // What is not patched was recorded at these sizes.
    if (node["calls"] > calls)
      found[node["kernels"][0]["grid"][0]] += node["calls"].get<int64_t>() - calls;
  }
  EXPECT_EQ(found, expected);
  EXPECT_LT(executables, std::ssize(document["nodes"]));
}

TEST_F(ProfKernelsTest, HasTheKernelsOfEachPieceBetweenBreaks) {
  WritePackage("p.zip");
  Trace({200});
  std::string trace = *ReadTextFile(path("t.trace"), "a trace");
  EXPECT_EQ(json::parse(Kernels({"--json"}).out)["nodes"][0]["pieces"], json::array({3}));
  const size_t at = trace.find(",\"buffers\":");
  ASSERT_NE(at, std::string::npos);
  for (const auto& [pieces, is_valid] : {std::pair("[1,0,2]", true), std::pair("[1,1]", false),
                                         std::pair("[4]", false), std::pair("[-1,4]", false)}) {
    std::string cut = trace;
    cut.insert(at, fmt::format(",\"pieces\":{}", pieces));
    ASSERT_OK(WriteTextFile(path("t.trace"), cut));
    const CommandOutcome outcome = Kernels({"--json"});
    if (is_valid) {
      EXPECT_EQ(json::parse(outcome.out)["nodes"][0]["pieces"], json::parse(pieces));
    } else {
      EXPECT_EQ(outcome.code, kExitUsage);
      EXPECT_THAT(outcome.err, HasSubstr("pieces"));
    }
  }
}

TEST_F(ProfKernelsTest, GridsOfAnySizeAreCounted) {
  WritePackage("p.zip");
  Trace({200});
  std::string trace = *ReadTextFile(path("t.trace"), "a trace");
  const std::string grid = "\"Scale\",[2,1,1]";
  ASSERT_NE(trace.find(grid), std::string::npos);
  trace.replace(trace.find(grid), grid.size(), "\"Scale\",[9000000000000000,9000000000000000,3]");
  ASSERT_OK(WriteTextFile(path("t.trace"), trace));
  const json document = json::parse(Kernels({"--json"}).out);
  EXPECT_EQ(document["nodes"][0]["kernels"][0]["blocks"], INT64_MAX);
}

TEST_F(ProfKernelsTest, RefusesWhatDoesNotBelongTogether) {
  WritePackage("p.zip");
  Trace({200, 200});
  WritePackage("other.zip", "another");
  CommandOutcome outcome = Kernels({"--package", path("other.zip")});
  EXPECT_EQ(outcome.code, kExitUsage);
  EXPECT_THAT(outcome.err, HasSubstr("it has none of the programs of"));
  package::PackageBuilder changed = package::SmallKernels();
  json program = PackageManifest(changed);
  program["steps"][0]["grid"][0] = "ceildiv(n, BLOCK) + 7";
  changed.manifest["programs"]["main"] = program;
  changed.WriteZip(path("changed.zip"));
  outcome = Kernels({"--package", path("changed.zip")});
  EXPECT_EQ(outcome.code, kExitUsage);
  EXPECT_THAT(outcome.err, HasSubstr("give the package that was traced"));
  EXPECT_EQ(Kernels({"--package", path("nowhere.zip")}).code, kExitUsage);
  EXPECT_EQ(Kernels({"--program", "nobody"}).code, kExitUsage);
}

}  // namespace
}  // namespace coppice
