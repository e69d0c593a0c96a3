// Goal: whatever a case holds, `coppice replay` gives a verdict or says in one line what is wrong
// with the file, and ends soon. Method: a recorded case of two calls, the second of which reads the
// first one's output in place, is changed from a seed: its bytes, values of its manifest, its
// tensors, and bytes, manifest and kernels of its package, with digests made right. The command
// runs each in this process, with options that are drawn. COPPICE_MUTATIONS says how many, in place
// of 400; COPPICE_KEEP_CASES names a file that has the last one.

#include "coppice/graphs/case_file.h"

#include "tests/graphs/case_parts.h"
#include "tests/package/manifest_mutator.h"
#include "tests/package/small_kernels.h"
#include "tests/support/test_device.h"
#include "tests/tools/replay_server.h"

namespace coppice {
namespace {

using nlohmann::json;

int64_t CasesToReplay() {
  const char* const given = std::getenv("COPPICE_MUTATIONS");
  return given == nullptr ? 400 : std::atoll(given);
}

// Everything of a package, to be changed and put together again.
struct PackageParts {
  json manifest;
  std::string ptx;

  std::string Zip() const { return builder().Zip(); }
  std::string sha256() const {
    return json::parse(builder().ManifestText())["integrity"]["manifest_sha256"];
  }
  package::PackageBuilder builder() const {
    package::PackageBuilder builder(manifest);
    builder.AddFile("bin/small.ptx", ptx);
    return builder;
  }
};

// z = 3 (x + w) by way of a temporary, where w is bound and alpha is a key.
PackageParts Recorded() {
  json program = ProgramOf("Add");
  program["scalars"] = {{"alpha", {{"bind", "key"}}}};
  program["symbols"]["n"]["max"] = 64;
  program["inputs"] = {"x", "w"};
  program["buffers"]["w"] = package::FloatBuffer("input", {64});
  program["buffers"]["w"]["static"] = true;
  program["buffers"]["sum"] = package::FloatBuffer("temporary", {"n"});
  program["guards"] = {"n != 63"};
  program["steps"] = {package::AddStep("x", "w", "sum", "n"),
                      package::ScaleStep("sum", "y", "n", "3")};
  program["steps"][1]["args"][3] = {{"i32", "alpha"}};
  PackageParts parts{PackageOf("", program).manifest, package::kSmallKernels};
  parts.manifest["files"] = json::object();
  return parts;
}

class ReplayMutationTest : public testing::Test {
 protected:
  std::string path(const char* name) const { return folder_ / name; }

  Case Record(const PackageParts& parts) {
    parts.builder().WriteZip(path("p.zip"));
    ReplayServer server(path("p.zip"),
                        {.ring_bytes = 1 << 20, .outputs = true, .static_bytes_max = 1024});
    server.Bind({server.Upload({64})});
    EXPECT_TRUE(server.RunTwice(server.Upload({5}), {3}));
    server.Save(path("x.coppice-case"));
    return *ReadCase(path("x.coppice-case"));
  }

  // Options that change nothing outside the folder.
  std::vector<std::string> DrawArguments() {
    std::vector<std::string> arguments = {path("x.coppice-case"), "--json"};
    if (mutator_.Draw(2) == 0)
      arguments.insert(arguments.end(), {"--shrink", "-o", path("small.coppice-case")});
    if (mutator_.Draw(4) == 0) arguments.emplace_back("--taint");
    if (mutator_.Draw(4) == 0) arguments.insert(arguments.end(), {"--buffers", path("buffers")});
    if (mutator_.Draw(2) == 0) arguments.insert(arguments.end(), {"--seeds", "1"});
    return arguments;
  }

  Case WithOtherValues(Case value) {
    auto tensor = value.tensors.begin();
    std::advance(tensor, mutator_.Draw(value.tensors.size()));
    std::string& bytes = tensor->second.bytes;
    for (size_t times = 1 + mutator_.Draw(20); times > 0; --times)
      bytes[mutator_.Draw(bytes.size())] = static_cast<char>(mutator_.Draw(256));
    return value;
  }

  // Other registers and constants, so that most texts are kernels still.
  void ChangeNumbers(std::string& ptx) {
    for (size_t times = 1 + mutator_.Draw(2); times > 0;) {
      char& digit = ptx[mutator_.Draw(ptx.size())];
      if (std::isdigit(static_cast<unsigned char>(digit)) == 0) continue;
      digit = static_cast<char>('0' + mutator_.Draw(10));
      --times;
    }
  }

  // The bytes of a case that is nearly `good`.
  std::string Mutate(const Case& good, const PackageParts& package);
  // Replays these bytes.
  void Judge(const std::string& bytes);

  package::TemporaryFolder folder_;
  package::ManifestMutator mutator_{TestSeed()};
  std::map<std::string, int64_t> outcomes_;
};

std::string ReplayMutationTest::Mutate(const Case& good, const PackageParts& package) {
  CaseParts parts(good);
  PackageParts changed = package;
  switch (mutator_.Draw(10)) {
    case 0:
      return mutator_.MutateBytes(parts.Zip());
    case 1:
      parts.tensors = mutator_.MutateBytes(parts.tensors);
      return parts.Zip();
    case 2:
      return *FormatCase(WithOtherValues(good));
    case 3:
      parts.package_zip = mutator_.MutateBytes(parts.package_zip);
      return parts.Zip();
    case 4:
      changed.ptx = mutator_.MutateBytes(changed.ptx);
      break;
    case 5:
    case 6:
      ChangeNumbers(changed.ptx);
      break;
    case 7:
      mutator_.MutateJson(changed.manifest["programs"]["main"]);
      break;
    case 8:
      mutator_.MutateJson(changed.manifest["kernels"]);
      break;
    default:
      mutator_.MutateJson(parts.manifest);
      return parts.Zip();
  }
  parts.package_zip = changed.Zip();
  parts.manifest["programs"][0]["package"]["sha256"] = changed.sha256();
  return parts.Zip();
}

void ReplayMutationTest::Judge(const std::string& bytes) {
  package::WriteBytes(path("x.coppice-case"), bytes);
  const CommandOutcome outcome = RunReplay(DrawArguments());
  if (outcome.code == kExitUsage) {
    EXPECT_THAT(outcome.out, IsEmpty());
    EXPECT_THAT(outcome.err, testing::StartsWith("coppice replay: "));
    EXPECT_EQ(std::ranges::count(outcome.err, '\n'), 1) << outcome.err;
    ++outcomes_["refused"];
    return;
  }
  EXPECT_TRUE(outcome.code == kExitOk || outcome.code == kExitDevice) << outcome.code;
  EXPECT_THAT(outcome.err, IsEmpty());
  const json verdict = json::parse(outcome.out, nullptr, /*allow_exceptions=*/false);
  ASSERT_TRUE(verdict.is_object()) << outcome.out;
  EXPECT_EQ(verdict["kind"] == "nothing", outcome.code == kExitOk) << outcome.out;
  ++outcomes_[verdict["kind"]];
}

TEST_F(ReplayMutationTest, ChangedCasesGiveAVerdictOrOneErrorAndEnd) {
  const PackageParts package = Recorded();
  const Case good = Record(package);
  EXPECT_EQ(good.calls.size(), 2U);
  Judge(CaseParts(good).Zip());
  EXPECT_EQ(outcomes_["nothing"], 1) << "the case itself";
  const char* const kept = std::getenv("COPPICE_KEEP_CASES");
  for (int64_t i = 0; i < CasesToReplay() && !HasFailure(); ++i) {
    const std::string bytes = Mutate(good, package);
    if (kept != nullptr) package::WriteBytes(kept, bytes);
    Judge(bytes);
  }
  std::string all;
  for (const auto& [outcome, count] : outcomes_)
    all += fmt::format(" {} {}", count, outcome);
  std::printf("replayed:%s\n", all.c_str());
  EXPECT_GT(outcomes_["nothing"], 1) << "the mutations are too wild";
  EXPECT_GT(outcomes_.size(), 3U) << "few of them reach the kernels";
}

}  // namespace
}  // namespace coppice
