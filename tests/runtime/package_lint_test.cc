// Goal: package_lint.h holds: a package without fault has no finding, findings say where and what,
// and the order of them. Method: the clean package of lint_fixtures.h, and changes of it.

#include "coppice/runtime/package_lint.h"

#include "nlohmann/json.hpp"

#include "coppice/runtime/package.h"

#include "tests/package/lint_fixtures.h"
#include "tests/support/test.h"

namespace coppice::package {
namespace {

using Pointer = nlohmann::json::json_pointer;

std::vector<Finding> FindingsOf(nlohmann::json manifest, const LintOptions& options) {
  const LintedFolder folder(std::move(manifest), CleanFiles());
  const auto package = Package::Open(folder.path(), {});
  EXPECT_OK(package);
  return package.ok() ? Lint(*package, options) : std::vector<Finding>{};
}

TEST(PackageLintTest, CleanPackageHasNoFinding) {
  for (const Finding& finding : FindingsOf(CleanManifest(), {}))
    ADD_FAILURE() << ToText(finding);
}

TEST(PackageLintTest, FindingNamesFilePlaceValueSizesAndRemedy) {
  nlohmann::json manifest = CleanManifest();
  manifest[Pointer("/programs/main/steps/1/grid")] = {1, "n", 1};
  manifest[Pointer("/kernels/plain/targets/0/values")] = nlohmann::json::object();
  manifest[Pointer("/kernels/plain/targets/1/values")] = nlohmann::json::object();
  const std::vector<Finding> findings = FindingsOf(std::move(manifest), {});
  ASSERT_THAT(findings, SizeIs(1));
  EXPECT_EQ(findings[0].severity, Severity::kError);
  EXPECT_EQ(findings[0].rule, "grid-limit");
  EXPECT_EQ(findings[0].file, "manifest.json");
  EXPECT_EQ(findings[0].pointer, "/programs/main/steps/1/grid/1");
  EXPECT_EQ(findings[0].value, "65536");
  EXPECT_THAT(findings[0].what, HasSubstr("n = 65536"));
  EXPECT_FALSE(findings[0].advice.empty());
  EXPECT_THAT(ToText(findings[0]),
              HasSubstr("manifest.json /programs/main/steps/1/grid/1: error grid-limit: 65536: "));
}

TEST(PackageLintTest, FindingOfAnImageNamesItsFile) {
  nlohmann::json manifest = CleanManifest();
  manifest["modules"]["code_80"]["arch"] = "sm_86";
  const std::vector<Finding> findings = FindingsOf(std::move(manifest), {});
  ASSERT_THAT(findings, SizeIs(1));
  EXPECT_EQ(findings[0].file, "bin/code.ptx");
}

TEST(PackageLintTest, PointersEscapeWhatNamesHave) {
  nlohmann::json manifest = CleanManifest();
  manifest["kernels"]["a/b~c"] = manifest["kernels"]["sized"];
  const std::vector<Finding> findings = FindingsOf(manifest, {});
  ASSERT_THAT(findings, SizeIs(1));
  EXPECT_EQ(findings[0].pointer, "/kernels/a~1b~0c");
  EXPECT_TRUE(manifest.contains(Pointer(findings[0].pointer)));
}

TEST(PackageLintTest, ErrorsComeFirst) {
  nlohmann::json manifest = CleanManifest();
  manifest["kernels"]["a_first"] = manifest["kernels"]["sized"];
  manifest[Pointer("/programs/main/symbols/rows")].erase("claim");
  manifest[Pointer("/programs/main/steps/4/grid/0")] = 3;
  const std::vector<Finding> findings = FindingsOf(std::move(manifest), {});
  ASSERT_THAT(findings, SizeIs(3));
  EXPECT_EQ(findings[0].severity, Severity::kError);
  EXPECT_EQ(findings[1].severity, Severity::kWarning);
  EXPECT_EQ(findings[2].severity, Severity::kNote);
}

TEST(PackageLintTest, FunctionsAreAskedForOnlyIfSomeAreNamed) {
  EXPECT_THAT(FindingsOf(CleanManifest(), {.functions = {"row_sum"}}), IsEmpty());
  const std::vector<Finding> findings = FindingsOf(CleanManifest(), {.functions = {"column_sum"}});
  ASSERT_THAT(findings, SizeIs(1));
  EXPECT_EQ(findings[0].rule, "function-unknown");
}

TEST(PackageLintTest, FewPointsStillTryTheCorners) {
  nlohmann::json manifest = CleanManifest();
  manifest[Pointer("/programs/main/steps/1/args/2/i32")] = "rows * n * 1024";
  const std::vector<Finding> findings = FindingsOf(std::move(manifest), {.points_max = 16});
  ASSERT_THAT(findings, SizeIs(1));
  EXPECT_EQ(findings[0].rule, "int-overflow");
}

TEST(PackageLintTest, DamagedFileIsAFinding) {
  const LintedFolder folder(CleanManifest(), CleanFiles());
  COPPICE_ASSERT_OK_AND_ASSIGN(const Package package, Package::Open(folder.path(), {}));
  const auto read = [&](const std::string& name) -> absl::StatusOr<std::span<const std::byte>> {
    if (name == "bin/code.ptx") return absl::NotFoundError("gone");
    return package.Read(name);
  };
  const std::vector<Finding> findings = LintManifest(package.manifest(), read, {});
  ASSERT_THAT(findings, SizeIs(1));
  EXPECT_EQ(findings[0].rule, "file-unreadable");
  EXPECT_EQ(findings[0].file, "bin/code.ptx");
}

TEST(PackageLintTest, ArchitectureThatIsNoneIsAFinding) {
  const LintedFolder folder(CleanManifest(), CleanFiles());
  COPPICE_ASSERT_OK_AND_ASSIGN(const Package package, Package::Open(folder.path(), {}));
  Manifest manifest = package.manifest();
  manifest.modules[0].arch = "hopper";
  const auto read = [&](const std::string& name) { return package.Read(name); };
  const std::vector<Finding> findings = LintManifest(manifest, read, {});
  ASSERT_THAT(findings, SizeIs(1));
  EXPECT_EQ(findings[0].rule, "module-arch");
}

TEST(PackageLintTest, SeveritiesHaveNames) {
  EXPECT_STREQ(NameOf(Severity::kError), "error");
  EXPECT_STREQ(NameOf(Severity::kWarning), "warning");
  EXPECT_STREQ(NameOf(Severity::kNote), "note");
}

}  // namespace
}  // namespace coppice::package
