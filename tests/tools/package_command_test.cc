// Goal: `coppice package lint` says by its exit code whether a package is clean, has findings, or
// cannot be read; `inspect` shows what is in it. Method: the command in this process on the package
// of the linter's tests, and changes of it.

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "tests/package/lint_fixtures.h"
#include "tests/tools/command_outcome.h"

namespace coppice {
namespace {

using package::CleanFiles;
using package::CleanManifest;
using package::LintedFolder;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;

nlohmann::json FaultyManifest() {
  nlohmann::json manifest = CleanManifest();
  manifest["kernels"]["sized"]["targets"][0]["block"] = {32, 1, 1};
  return manifest;
}

TEST(PackageCommandTest, LintOfACleanPackageExitsWith0) {
  const LintedFolder folder(CleanManifest(), CleanFiles());
  const CommandOutcome outcome = RunCoppice({"package", "lint", folder.path()});
  EXPECT_EQ(outcome.code, kExitOk) << outcome.err;
  EXPECT_EQ(outcome.out, "0 errors, 0 warnings, 0 notes\n");
  EXPECT_THAT(outcome.err, IsEmpty());
}

TEST(PackageCommandTest, LintWithFindingsExitsWith1AndPrintsThem) {
  const LintedFolder folder(FaultyManifest(), CleanFiles());
  const CommandOutcome outcome = RunCoppice({"package", "lint", folder.path()});
  EXPECT_EQ(outcome.code, kExitMismatch);
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("manifest.json /kernels/sized/targets/0/block: error "
                                           "block-required: [32, 1, 1]: "),
                                 HasSubstr("1 errors, 0 warnings, 0 notes\n")));
}

TEST(PackageCommandTest, LintPrintsJson) {
  const LintedFolder folder(FaultyManifest(), CleanFiles());
  const CommandOutcome outcome = RunCoppice({"package", "lint", folder.path(), "--json"});
  EXPECT_EQ(outcome.code, kExitMismatch);
  const nlohmann::json json = nlohmann::json::parse(outcome.out);
  EXPECT_EQ(json["errors"], 1);
  EXPECT_EQ(json["findings"].size(), 1U);
  EXPECT_EQ(json["findings"][0]["rule"], "block-required");
  EXPECT_EQ(json["findings"][0]["severity"], "error");
  EXPECT_EQ(json["findings"][0]["pointer"], "/kernels/sized/targets/0/block");
}

TEST(PackageCommandTest, WhatCannotBeReadExitsWith2) {
  for (const char* command : {"lint", "inspect"}) {
    const CommandOutcome missing = RunCoppice({"package", command, "no/such.zip"});
    EXPECT_EQ(missing.code, kExitUsage);
    EXPECT_THAT(missing.err, HasSubstr("no/such.zip"));
    EXPECT_THAT(missing.out, IsEmpty());
  }
}

TEST(PackageCommandTest, DamagedFileExitsWith2) {
  const LintedFolder folder(CleanManifest(), CleanFiles());
  std::fstream file(std::filesystem::path(folder.path()) / "bin/code.ptx",
                    std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(100);
  file.put('~');
  file.close();
  const CommandOutcome outcome = RunCoppice({"package", "lint", folder.path()});
  EXPECT_EQ(outcome.code, kExitUsage);
  EXPECT_THAT(outcome.err, HasSubstr("bin/code.ptx"));
}

TEST(PackageCommandTest, InspectShowsProgramsKernelsAndFiles) {
  const LintedFolder folder(CleanManifest(), CleanFiles());
  const CommandOutcome outcome = RunCoppice({"package", "inspect", folder.path()});
  EXPECT_EQ(outcome.code, kExitOk) << outcome.err;
  EXPECT_THAT(outcome.out,
              AllOf(HasSubstr("program main"), HasSubstr("16 64 256 1024 65536"),
                    HasSubstr("MapFirst"), HasSubstr("sm_90a"), HasSubstr("data/w.safetensors")));
}

TEST(PackageCommandTest, InspectSaysHowMuchIsLiveInABucket) {
  const LintedFolder folder(CleanManifest(), CleanFiles());
  const nlohmann::json json = JsonOf(RunCoppice({"package", "inspect", folder.path(), "--json"}));
  ASSERT_EQ(json["programs"].size(), 2U);
  EXPECT_EQ(json["programs"][1]["name"], "main");
  const nlohmann::json& buckets = json["programs"][1]["buckets"];
  // In step 10, t, u and y: rows x n of f32 each; and sums: rows of f32.
  for (const nlohmann::json& bucket : buckets) {
    if (bucket["sizes"] == "n 1024, rows 64") {
      EXPECT_EQ(bucket["live_bytes_max"], 4 * (3 * 64 * 1024 + 64));
      return;
    }
  }
  FAIL() << buckets;
}

}  // namespace
}  // namespace coppice
