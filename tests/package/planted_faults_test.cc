// Goal: the linter finds each kind of fault, and names it. Method: faults are planted one by one in
// a package that has none, by changing its manifest; the finding has to have the rule and the place
// of the fault.

#include <algorithm>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "coppice/runtime/package.h"
#include "coppice/runtime/package_lint.h"

#include "tests/package/lint_fixtures.h"
#include "tests/support/status_matchers.h"

namespace coppice::package {
namespace {

using nlohmann::json;

struct Edit {
  const char* pointer;
  const char* value;  // JSON; null: removed.
};

struct Fault {
  const char* name;
  std::vector<Edit> edits;
  const char* rule;
  const char* pointer;  // Of the finding.
};

void Apply(const Edit& edit, json& manifest) {
  const json::json_pointer pointer(edit.pointer);
  if (edit.value != nullptr) {
    manifest[pointer] = json::parse(edit.value);
    return;
  }
  json& parent = manifest[pointer.parent_pointer()];
  if (parent.is_array())
    parent.erase(std::stoul(pointer.back()));
  else
    parent.erase(pointer.back());
}

#define PROGRAM "/programs/main"
#define STEP(i) PROGRAM "/steps/" #i
#define BUFFER(name) PROGRAM "/buffers/" name
#define SYMBOL(name) PROGRAM "/symbols/" name
#define KERNEL(name) "/kernels/" name
#define TARGET(name, i) KERNEL(name) "/targets/" #i

const std::vector<Fault>& Faults() {
  static const std::vector<Fault> faults = {
      // Targets beside their images.
      {"OneParameterTooMany",
       {{KERNEL("plain/parameters"), "[8, 8, 4, 8]"}, {STEP(1) "/args/3", R"({"null": true})"}},
       "parameter-count",
       KERNEL("plain/parameters")},
      {"ParameterOfOtherSize",
       {{KERNEL("plain/parameters"), "[8, 8, 8]"}, {STEP(1) "/args/2", R"({"i64": "rows * n"})"}},
       "parameter-bytes",
       KERNEL("plain/parameters/2")},
      {"SymbolThatIsNotInThePtx",
       {{TARGET("plain", 0) "/symbol", R"("Plane")"}},
       "symbol-missing",
       TARGET("plain", 0) "/symbol"},
      {"SymbolThatIsNotInTheCubin",
       {{TARGET("plain", 1) "/symbol", R"("plain")"}},
       "symbol-missing",
       TARGET("plain", 1) "/symbol"},
      {"SymbolThatIsNotInTheFatbin",
       {{TARGET("bounded", 1) "/symbol", R"("Unbounded")"}},
       "symbol-missing",
       TARGET("bounded", 1) "/symbol"},
      {"BlockTooDeep",
       {{TARGET("scratched", 1) "/block", "[1, 1, 128]"}},
       "block-limit",
       TARGET("scratched", 1) "/block/2"},
      {"BlockOtherThanTheRequiredOne",
       {{TARGET("sized", 0) "/block", "[128, 1, 1]"}},
       "block-required",
       TARGET("sized", 0) "/block"},
      {"BlockBeyondLaunchBoundsOfTheCubin",
       {{TARGET("bounded", 1) "/block", "[512, 1, 1]"}},
       "block-bounds",
       TARGET("bounded", 1) "/block"},
      {"BlockBeyondLaunchBoundsOfThePtx",
       {{TARGET("bounded", 0) "/block", "[257, 1, 1]"}},
       "block-bounds",
       TARGET("bounded", 0) "/block"},
      {"MoreRegistersThanABlockHas",
       {{TARGET("many", 0) "/block", "[1024, 1, 1]"}},
       "block-registers",
       TARGET("many", 0) "/block"},
      {"MoreSharedMemoryThanSm90Has",
       {{TARGET("scratched", 1) "/shared_bytes", "232449"}},
       "shared-limit",
       TARGET("scratched", 1) "/shared_bytes"},
      {"MoreSharedMemoryThanSm80HasWithStaticBytes",
       {{TARGET("bounded", 0) "/shared_bytes", "166000"}},
       "shared-limit",
       TARGET("bounded", 0) "/shared_bytes"},
      {"ClusterOtherThanTheCompiledOne",
       {{TARGET("clustered", 0) "/cluster", "[1, 2, 1]"}, {STEP(4) "/grid", "[2, 2, 1]"}},
       "cluster-required",
       TARGET("clustered", 0) "/cluster"},
      {"ClusterThatSomeDevicesDoNotRun",
       {{TARGET("many", 0) "/cluster", "[16, 1, 1]"}, {STEP(8) "/grid", "[16, 1, 1]"}},
       "cluster-portable",
       TARGET("many", 0) "/cluster"},
      {"ClusterBeforeSm90",
       {{TARGET("bounded", 0) "/cluster", "[2, 1, 1]"}, {STEP(5) "/grid", "[2, 1, 1]"}},
       "cluster-architecture",
       TARGET("bounded", 0) "/cluster"},
      {"ProgrammaticLaunchBeforeSm90",
       {{TARGET("bounded", 0) "/programmatic", "true"}},
       "programmatic-architecture",
       TARGET("bounded", 0) "/programmatic"},
      {"ScratchOfBlocksThatIsNotAligned",
       {{TARGET("scratched", 0) "/scratch/0/bytes_per_block", "100"}},
       "scratch-align",
       TARGET("scratched", 0) "/scratch/0/bytes_per_block"},
      {"PtxThatIsCalledACubin",
       {{"/modules/code_80/format", R"("cubin")"}},
       "module-image",
       "/modules/code_80"},
      {"PtxOfAnotherTarget",
       {{"/modules/code_80/arch", R"("sm_80a")"}},
       "module-image",
       "/modules/code_80"},
      {"CubinOfAnotherArchitecture",
       {{"/modules/code_90/arch", R"("sm_100a")"}},
       "module-image",
       "/modules/code_90"},
      {"FatbinWithoutTheArchitecture",
       {{"/modules/code_fat/arch", R"("sm_120a")"}},
       "module-image",
       "/modules/code_fat"},
      {"TargetThatIsNeverTaken",
       {{TARGET("bounded", 2),
         R"({"module": "code_80", "symbol": "Bounded", "block": [64, 1, 1]})"}},
       "target-twice",
       TARGET("bounded", 2)},
      // Launches.
      {"GridTooHighAtTheLargestBucket",
       {{STEP(6) "/grid", R"(["rows", "n", 1])"}},
       "grid-limit",
       STEP(6) "/grid/1"},
      {"GridTooWide",
       {{STEP(6) "/grid/0", R"("rows * n * 4096")"}},
       "grid-limit",
       STEP(6) "/grid/0"},
      {"GridBelowZeroAtTheSmallestBucket",
       {{STEP(6) "/grid/0", R"("n - 32")"}},
       "grid-limit",
       STEP(6) "/grid/0"},
      {"GridThatIsNotWholeClusters", {{STEP(4) "/grid/0", "3"}}, "grid-cluster", STEP(4) "/grid/0"},
      {"GridThatDividesByZeroAtOneBucket",
       {{STEP(6) "/grid/0", R"-("n // (n - 64)")-"},
        {SYMBOL("n/min"), "64"},
        {SYMBOL("n/buckets"), "[64, 1024]"}},
       "arithmetic",
       STEP(6) "/grid/0"},
      {"ArgumentThatOverflowsInt64",
       {{STEP(1) "/args/2/i32", R"("rows * n * 1099511627776 * 1024")"}},
       "arithmetic",
       STEP(1) "/args/2"},
      {"ArgumentThatOverflowsInt32",
       {{STEP(1) "/args/2/i32", R"("rows * n * 1024")"}},
       "int-overflow",
       STEP(1) "/args/2"},
      {"ArgumentBelowZeroWithoutSign",
       {{STEP(5) "/args/2", R"({"u16": "rows - 2"})"}},
       "int-overflow",
       STEP(5) "/args/2"},
      {"MemberThatOverflowsInAStruct",
       {{STEP(5) "/args/1/struct/0", R"({"i32": "n * 65536"})"}},
       "int-overflow",
       STEP(5) "/args/1/struct/0"},
      {"DescriptorOfAnEmptyDimension",
       {{STEP(3) "/args/0/tensormap/dims", R"([64, "rows - 1"])"}},
       "tensormap-size",
       STEP(3) "/args/0/tensormap/dims/1"},
      {"DescriptorWithAnUnalignedStride",
       {{STEP(3) "/args/0/tensormap/strides", "[260]"}},
       "tensormap-stride",
       STEP(3) "/args/0/tensormap/strides/0"},
      {"DescriptorAtAnUnalignedAddress",
       {{STEP(3) "/args/0/tensormap/offset", "8"}},
       "tensormap-address",
       STEP(3) "/args/0/tensormap/offset"},
      {"DescriptorWhoseBoxHasUnalignedRows",
       {{STEP(3) "/args/0/tensormap/box", "[3, 32]"}},
       "tensormap-box",
       STEP(3) "/args/0/tensormap/box/0"},
      {"DescriptorWhoseBoxIsWiderThanItsSwizzle",
       {{STEP(3) "/args/0/tensormap/swizzle", R"("64B")"}},
       "tensormap-box",
       STEP(3) "/args/0/tensormap/box/0"},
      {"MemsetOfUnalignedElements",
       {{STEP(0) "/to/offset", "2"}, {STEP(0) "/count", R"("rows * n - 1")"}},
       "memset-align",
       STEP(0) "/to/offset"},
      {"ViewOfUnalignedElements",
       {{STEP(9) "/inputs/0/offset", "2"}, {STEP(9) "/inputs/0/shape", R"(["rows", "n - 1"])"}},
       "view-align",
       STEP(9) "/inputs/0/offset"},
      // Memory.
      {"CopyBeyondTheEnd",
       {{STEP(2) "/bytes", R"("4 * rows * n + 4")"}},
       "out-of-bounds",
       STEP(2) "/from"},
      {"MemsetBeyondTheEnd",
       {{STEP(0) "/count", R"("rows * n + 1")"}},
       "out-of-bounds",
       STEP(0) "/to"},
      {"KernelWhoseAddressIsBehindTheBuffer",
       {{STEP(1) "/args/0/offset", R"("4 * rows * n")"}},
       "out-of-bounds",
       STEP(1) "/args/0"},
      {"ViewBeyondTheEnd",
       {{STEP(9) "/outputs/0/shape", R"(["rows + 1"])"}},
       "out-of-bounds",
       STEP(9) "/outputs/0"},
      {"AliasBeyondItsBuffer",
       {{BUFFER("first/alias/offset"), R"("4 * n")"}},
       "alias-bounds",
       BUFFER("first/alias")},
      {"SizeBelowZero",
       {{BUFFER("u/shape"), R"(["rows", "n - 17"])"}},
       "negative-size",
       BUFFER("u/shape/1")},
      {"SizeThatOverflows",
       {{BUFFER("t/bytes"), R"("4 * rows * n * 9007199254740992")"}},
       "arithmetic",
       BUFFER("t/shape/0")},
      {"CopyOntoItself",
       {{STEP(11) "/from", R"({"buffer": "y", "offset": "2 * n"})"}},
       "memcpy-overlap",
       STEP(11)},
      {"TemporaryThatNobodyWroteBefore",
       {{STEP(0), nullptr}},
       "read-before-write",
       STEP(0) "/args/1"},
      {"TemporaryOfWhichHalfIsWritten",
       {{STEP(0) "/count", R"("rows * n // 2")"}, {STEP(1) "/args/1/access", R"("r")"}},
       "read-before-write",
       STEP(2) "/from"},
      {"TemporaryThatIsWrittenTooLate",
       {{STEP(2) "/from/buffer", R"("u")"}},
       "read-before-write",
       STEP(2) "/from"},
      {"TemporaryThatIsWrittenOnACondition",
       {{STEP(0) "/if", R"("n > 16")"}},
       "read-before-write",
       STEP(1) "/args/1"},
      {"OutputOfWhichAPartIsWritten",
       {{STEP(2) "/bytes", R"("4 * rows * n - 4")"}},
       "output-unwritten",
       BUFFER("y")},
      {"OutputThatNoStepWrites", {{STEP(9) "/outputs", "[]"}}, "output-unwritten", BUFFER("sums")},
      {"ChildAtASizeThatItDoesNotAllow",
       {{"/programs/half/symbols/k/max", "1048576"}},
       "child-size",
       STEP(10) "/symbols/k"},
      {"ChildWhoseGuardFails",
       {{"/programs/half/guards", R"(["k != 1024"])"}},
       "child-guard",
       STEP(10) "/program"},
      // Promises.
      {"NoGuardForAMultiple",
       {{PROGRAM "/guards/0", nullptr}, {STEP(1) "/assumes", nullptr}},
       "guard-missing",
       STEP(1) "/args/2/divisible_by"},
      {"NoGuardForWhatAKernelAssumes",
       {{STEP(1) "/assumes", R"(["rows != 1"])"}},
       "guard-missing",
       STEP(1) "/assumes/0"},
      {"NoGuardForAnOffset",
       {{STEP(1) "/args/0/offset", R"("4 * rows")"}},
       "guard-missing",
       STEP(1) "/args/0/divisible_by"},
      {"BucketThatAKernelWasNotCompiledFor",
       {{SYMBOL("n/buckets"), "[24, 64]"}},
       "bucket-specialised",
       STEP(1) "/assumes/0"},
      {"AddressThatIsNotAligned",
       {{STEP(1) "/args/0/divisible_by", "32"}},
       "address-align",
       STEP(1) "/args/0/divisible_by"},
      {"SumOverPaddingWithoutLengths",
       {{STEP(9) "/inputs/1", nullptr}},
       "claim-reader",
       SYMBOL("n/claim")},
      {"FillThatNobodyWrites",
       {{SYMBOL("n/claim/padding"), R"("fill")"}, {BUFFER("x/fill"), R"("undefined")"}},
       "claim-fill",
       BUFFER("x/fill")},
      {"ToleranceOfNothing",
       {{SYMBOL("rows/claim/equal"), R"({"relative": "0"})"}},
       "claim-tolerance",
       SYMBOL("rows/claim/equal")},
      {"BucketsWithoutAClaim",
       {{SYMBOL("rows/claim"), nullptr}},
       "bucket-claim",
       SYMBOL("rows/buckets")},
      {"NoPowerOfTwoInTheRange",
       {{SYMBOL("rows/min"), "33"}, {SYMBOL("rows/max"), "63"}},
       "bucket-range",
       SYMBOL("rows/buckets")},
      {"NoMultipleInTheRange",
       {{SYMBOL("n/multiple_of"), "131072"}, {SYMBOL("n/buckets"), nullptr}},
       "symbol-range",
       SYMBOL("n")},
      {"GuardsThatNothingPasses",
       {{PROGRAM "/guards/2", R"("n < 16")"}},
       "no-sizes",
       PROGRAM "/guards"},
      {"RealSizeOfWhatIsNeverPadded",
       {{SYMBOL("rows/claim"), nullptr},
        {SYMBOL("rows/buckets"), nullptr},
        {STEP(7) "/args/0", R"({"real": "rows"})"},
        {STEP(8) "/args/0", R"({"buffer": "noise", "access": "r"})"}},
       "real-unpadded",
       STEP(7)},
      // What nothing uses.
      {"KernelThatNoStepRuns", {{STEP(8), nullptr}}, "kernel-unused", KERNEL("many")},
      {"ModuleWithoutATarget",
       {{"/modules/other", R"({"file": "bin/code.ptx", "format": "ptx", "arch": "sm_80"})"}},
       "module-unused",
       "/modules/other"},
      {"FileWithoutAModule",
       {{"/constants/w/data", nullptr}},
       "file-unused",
       "/files/data~1w.safetensors"},
      {"ConstantWithoutABuffer",
       {{"/constants/v", R"({"dtype": "f32", "shape": [1]})"}},
       "constant-unused",
       "/constants/v"},
      {"ValueThatNothingReads",
       {{STEP(1) "/grid/0", R"("rows * n")"}},
       "value-unused",
       TARGET("plain", 0) "/values/BLOCK"},
      {"ScratchThatNoArgumentIs",
       {{STEP(6) "/args/0", R"({"null": true})"}},
       "scratch-unused",
       TARGET("scratched", 0) "/scratch/0"},
      {"TemporaryThatNothingNames",
       {{BUFFER("v"), R"({"role": "temporary", "bytes": 16})"}},
       "temporary-unused",
       BUFFER("v")},
      {"SeedThatNothingReads",
       {{STEP(7) "/args/0", R"({"null": true})"}},
       "buffer-unused",
       BUFFER("noise")},
      {"InputThatNothingReads",
       {{BUFFER("z"), R"({"role": "input", "dtype": "f32", "shape": ["rows"]})"},
        {PROGRAM "/inputs/3", R"("z")"}},
       "input-unused",
       BUFFER("z")},
      {"MutatedInputThatNothingWrites",
       {{BUFFER("lengths/mutated"), "true"}},
       "mutated-unwritten",
       BUFFER("lengths/mutated")},
      {"ScalarThatNothingReads",
       {{PROGRAM "/scalars/unread", R"({"bind": "key"})"}},
       "scalar-unused",
       PROGRAM "/scalars/unread"}};
  return faults;
}

void PrintTo(const Fault& fault, std::ostream* out) {
  *out << fault.name;
}

class PlantedFaultTest : public testing::TestWithParam<Fault> {};

TEST_P(PlantedFaultTest, IsFoundAndNamed) {
  const Fault& fault = GetParam();
  json manifest = CleanManifest();
  for (const Edit& edit : fault.edits)
    Apply(edit, manifest);
  const LintedFolder folder(manifest, CleanFiles());
  COPPICE_ASSERT_OK_AND_ASSIGN(const Package package, Package::Open(folder.path(), {}));
  const std::vector<Finding> findings = Lint(package, {});
  const bool found = std::any_of(findings.begin(), findings.end(), [&](const Finding& finding) {
    return finding.rule == fault.rule && finding.pointer == fault.pointer;
  });
  std::string all;
  for (const Finding& finding : findings)
    all += ToText(finding) + "\n";
  EXPECT_TRUE(found) << fault.rule << " at " << fault.pointer << " is not among:\n" << all;
  for (const Finding& finding : findings) {
    EXPECT_FALSE(finding.file.empty() || finding.pointer.empty() || finding.value.empty() ||
                 finding.what.empty() || finding.advice.empty())
        << ToText(finding);
  }
}

INSTANTIATE_TEST_SUITE_P(Faults,
                         PlantedFaultTest,
                         testing::ValuesIn(Faults()),
                         [](const auto& fault) { return std::string(fault.param.name); });

TEST(PlantedFaultsTest, CompressedKernelsAreSaidToBeUnread) {
  std::map<std::string, std::string> files = CleanFiles();
  files["bin/code.fatbin"] = ReadFixture("compressed.fatbin");
  const LintedFolder folder(CleanManifest(), files);
  COPPICE_ASSERT_OK_AND_ASSIGN(const Package package, Package::Open(folder.path(), {}));
  const std::vector<Finding> findings = Lint(package, {});
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].rule, "module-compressed");
}

// Rules of LINT.md: the first column of its tables.
std::set<std::string> DocumentedRules() {
  std::ifstream page(COPPICE_LINT_PAGE);
  std::set<std::string> rules;
  for (std::string line; std::getline(page, line);)
    if (line.starts_with("| `")) rules.insert(line.substr(3, line.find('`', 3) - 3));
  return rules;
}

TEST(PlantedFaultsTest, EveryDocumentedRuleIsPlantedAndNoOther) {
  // Asked for by other tests: they are no changes of a manifest.
  std::set<std::string> rules = {"file-unreadable", "function-unknown", "module-arch",
                                 "module-compressed"};
  for (const Fault& fault : Faults())
    rules.insert(fault.rule);
  EXPECT_THAT(rules, testing::ContainerEq(DocumentedRules()));
}

}  // namespace
}  // namespace coppice::package
