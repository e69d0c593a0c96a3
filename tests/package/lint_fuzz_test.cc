// Goal: whatever a manifest says, as long as it can be read, the linter ends with findings and does
// not crash. Method: from a seed, values of a manifest without fault are replaced by odd ones,
// removed, and exchanged, all with right digests; images of the package are changed, too.

#include "nlohmann/json.hpp"

#include "coppice/runtime/package.h"
#include "coppice/runtime/package_lint.h"

#include "tests/package/lint_fixtures.h"
#include "tests/support/test.h"
#include "tests/support/test_device.h"

namespace coppice::package {
namespace {

using nlohmann::json;

// What stands for any value: sizes at the edges, and expressions that have faults.
json OddValue(std::mt19937_64& random) {
  static const json values[] = {0,
                                1,
                                -1,
                                2,
                                3,
                                255,
                                65536,
                                4294967296,
                                INT64_MAX,
                                INT64_MIN,
                                INT64_MAX - 1,
                                "n",
                                "rows",
                                "0 - n",
                                "n // (rows - 1)",
                                "9223372036854775807 * n",
                                "n - 9223372036854775807",
                                "rows * n * 1000000000",
                                "select(n > 64, 0 - 1, n)",
                                "mode",
                                true,
                                false,
                                json::array(),
                                json::array({1}),
                                json::array({"n", "n", "n"}),
                                "w",
                                "r",
                                "rw",
                                "t",
                                "y",
                                "x",
                                "pow2",
                                "f16",
                                "any",
                                nullptr};
  return values[random() % std::size(values)];
}

// Pointers to every value below `of`.
void Collect(const json& of, const json::json_pointer& at, std::vector<json::json_pointer>& all) {
  all.push_back(at);
  if (of.is_object())
    for (const auto& [key, value] : of.items())
      Collect(value, at / key, all);
  if (of.is_array())
    for (size_t i = 0; i < of.size(); ++i)
      Collect(of[i], at / i, all);
}

void Change(json& manifest, std::mt19937_64& random) {
  std::vector<json::json_pointer> places;
  for (const char* part : {"programs", "programs", "kernels", "constants"})
    Collect(manifest[part], json::json_pointer("/" + std::string(part)), places);
  const json::json_pointer& place = places[random() % places.size()];
  switch (random() % 8) {
    case 0: {
      const json other = manifest[places[random() % places.size()]];
      manifest[place] = other;
      break;
    }
    case 1: {
      json& parent = manifest[place.parent_pointer()];
      if (parent.is_object()) parent.erase(place.back());
      break;
    }
    default:
      manifest[place] = OddValue(random);
  }
}

TEST(LintFuzzTest, ManifestsThatCanBeReadAreLinted) {
  std::mt19937_64 random(TestSeed());
  const int64_t wanted = std::max<int64_t>(40 / TestShare(), 2);
  const std::map<std::string, std::string> files = CleanFiles();
  int64_t with_findings = 0;
  for (int64_t cases = 0; with_findings < wanted; ++cases) {
    ASSERT_LT(cases, 500 * wanted) << "almost nothing that is read has a finding";
    json manifest = CleanManifest();
    for (uint64_t changes = 1 + random() % 3; changes > 0; --changes)
      Change(manifest, random);
    const std::string zip = LintedZip(manifest, files);
    const auto package = Package::FromMemory(BytesOf(zip), "fuzzed", {});
    if (!package.ok()) continue;
    const std::vector<Finding> findings = Lint(*package, {.points_max = 200});
    if (!findings.empty()) ++with_findings;
    for (const Finding& finding : findings)
      ASSERT_FALSE(ToText(finding).empty());
  }
}

TEST(LintFuzzTest, DamagedImagesAreFindingsOrRead) {
  std::mt19937_64 random(TestSeed());
  const int64_t cases = std::max<int64_t>(40 / TestShare(), 2);
  for (int64_t i = 0; i < cases; ++i) {
    std::map<std::string, std::string> files = CleanFiles();
    for (auto& [name, bytes] : files) {
      for (uint64_t changes = random() % 4; changes > 0; --changes)
        bytes[random() % bytes.size()] = static_cast<char>(random());
      if (random() % 4 == 0) bytes.resize(random() % bytes.size());
    }
    const std::string zip = LintedZip(CleanManifest(), files);
    COPPICE_ASSERT_OK_AND_ASSIGN(const Package package,
                                 Package::FromMemory(BytesOf(zip), "fuzzed", {}));
    for (const Finding& finding : Lint(package, {.points_max = 16}))
      ASSERT_FALSE(ToText(finding).empty());
  }
}

}  // namespace
}  // namespace coppice::package
