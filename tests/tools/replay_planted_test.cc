// Goal: a fault that is planted in a program is named by `coppice replay`: its kind, its kernel and
// its line; and the shrunken case is at most half as large again as the smallest that fails.
// Method: one table, replay_faults.cc. The text of a kernel, or the program around it, is changed
// in one place. Most kernels are what Triton made of samples/triton_kernels.py. A session with a
// flight recorder runs the program on an emulator that checks as little as it can, and saves a
// case; the command reads it. The programs that faults are planted in give the verdict that nothing
// is wrong.

#include "coppice/graphs/case_file.h"

#include "tests/package/package_builder.h"
#include "tests/tools/replay_faults.h"
#include "tests/tools/replay_programs.h"
#include "tests/tools/replay_server.h"

namespace coppice {
namespace {

using nlohmann::json;

// The sizes of a shape that may name symbols.
std::vector<int64_t> DimsOf(const json& shape,
                            const json& symbols,
                            const std::vector<int64_t>& extents) {
  std::vector<int64_t> dims;
  for (const json& each : shape) {
    if (each.is_number()) {
      dims.push_back(each);
      continue;
    }
    const auto place = std::distance(symbols.begin(), symbols.find(each.get<std::string>()));
    dims.push_back(extents[static_cast<size_t>(place)]);
  }
  return dims;
}

class ReplayPlantedTest : public testing::Test {
 protected:
  std::string path(const char* name) const { return folder_ / name; }

  void Serve(Planting& planting, Mistake mistake) {
    package::PackageBuilder builder(planting.manifest);
    for (const auto& [name, bytes] : planting.files)
      builder.AddFile(name, bytes);
    builder.WriteZip(path("p.zip"));
    ReplayServer server(path("p.zip"), {.ring_bytes = 1 << 22, .static_bytes_max = 1 << 14});
    const json& program = planting.program();
    std::vector<Tensor> bound;
    for (const json& input : program["inputs"]) {
      const json& buffer = program["buffers"][input.get<std::string>()];
      if (buffer.value("static", false))
        bound.push_back(server.Upload(DimsOf(buffer["shape"], {}, {})));
    }
    if (!bound.empty()) server.Bind(bound);
    for (size_t i = 0; i < planting.calls.size(); ++i) {
      const bool is_last = i + 1 == planting.calls.size();
      std::vector<Tensor> inputs;
      for (const json& input : program["inputs"]) {
        const json& buffer = program["buffers"][input.get<std::string>()];
        if (!buffer.value("static", false))
          inputs.push_back(
              server.Upload(DimsOf(buffer["shape"], program["symbols"], planting.calls[i])));
      }
      if (is_last && mistake == Mistake::kFreesTheLastInput) server.Free(inputs.back());
      if (is_last && mistake == Mistake::kFreesTheFirstInput) server.Free(inputs.front());
      if (is_last && mistake == Mistake::kFreesAStaticInput) server.Free(bound.front());
      if (!server.Run(inputs, planting.scalars)) break;
    }
    server.Save(path("x.coppice-case"));
  }

  json Replay(const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {path("x.coppice-case"), "--json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const CommandOutcome outcome = RunReplay(arguments);
    EXPECT_TRUE(outcome.err.empty()) << outcome.err;
    return json::parse(outcome.out, nullptr, /*allow_exceptions=*/false);
  }

  // What of the verdict is not as it should be: "kind", "kernel", "line", "size", "shrunken case".
  std::set<std::string> Misses(const PlantedFault& fault);

  package::TemporaryFolder folder_;
};

std::set<std::string> ReplayPlantedTest::Misses(const PlantedFault& fault) {
  Planting planting = PlantingBases().at(fault.base)();
  for (const auto& [from, to] : fault.edits) {
    std::string& text = planting.text(fault.kernel);
    text.replace(FindIn(text, fault.kernel, from), from.size(), to);
  }
  if (fault.change) fault.change(planting.program());
  if (!fault.calls.empty()) planting.calls = fault.calls;
  Serve(planting, fault.mistake);
  const json verdict = Replay({"--shrink", "-o", path("small.coppice-case")});
  std::set<std::string> misses;
  if (verdict["kind"] != fault.kind) misses.insert("kind");
  const std::string& kernel = fault.shown_in.empty() ? fault.kernel : fault.shown_in;
  if (!kernel.empty() && verdict["kernel"] != kernel) misses.insert("kernel");
  const auto is_at = [&](const std::string& line) {
    const std::string& text = planting.text(kernel);
    return verdict["ptx_line"] == LineAt(text, FindIn(text, kernel, line));
  };
  if (!fault.lines.empty() && std::ranges::none_of(fault.lines, is_at)) misses.insert("line");
  for (size_t i = 0; i < std::min(fault.smallest.size(), verdict["extents"].size()); ++i)
    if (verdict["extents"][i].get<int64_t>() > fault.smallest[i] * 3 / 2) misses.insert("size");
  // The shrunken case shows the same by itself, in one call.
  if (!fault.smallest.empty() && !verdict["shrunk"].is_null()) {
    const absl::StatusOr<Case> small = ReadCase(path("small.coppice-case"));
    const CommandOutcome again = RunReplay({path("small.coppice-case"), "--json"});
    if (!small.ok() || small->calls.size() != 1 ||
        json::parse(again.out)["kind"] != verdict["kind"])
      misses.insert("shrunken case");
  }
  if (misses != fault.missed) std::printf("%s\n", verdict.dump(2).c_str());
  return misses;
}

TEST_F(ReplayPlantedTest, FindsNothingWhereNothingIsPlanted) {
  for (const auto& [name, base] : PlantingBases()) {
    Planting planting = base();
    Serve(planting, Mistake::kNone);
    const json verdict = Replay({});
    EXPECT_EQ(verdict["kind"], "nothing") << name << ": " << verdict["verdict"];
  }
}

TEST_F(ReplayPlantedTest, NamesKernelAndLineAndShrinks) {
  size_t planted = 0;
  size_t named = 0;
  size_t with_kind = 0;
  size_t by_triton = 0;
  for (const PlantedFault& fault : PlantedFaults()) {
    const std::set<std::string> misses = Misses(fault);
    EXPECT_EQ(misses, fault.missed) << fault.base << " " << fault.name << " " << fault.kernel;
    ++planted;
    const bool is_named = !misses.contains("kernel") && !misses.contains("line");
    if (is_named) ++named;
    if (is_named && !misses.contains("kind")) ++with_kind;
    if (PlantingBases().at(fault.base)().triton) ++by_triton;
  }
  std::printf(
      "planted faults: kernel and line named of %zu of %zu, of %zu with the kind; %zu are in "
      "kernels of Triton\n",
      named, planted, with_kind, by_triton);
  EXPECT_GE(planted, 40U);
  EXPECT_GE(2 * by_triton, planted);
  EXPECT_GE(40 * named, 38 * planted);
}

}  // namespace
}  // namespace coppice
