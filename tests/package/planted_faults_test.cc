// Goal: the linter finds each kind of fault, and names it. Method: faults are planted one by one in
// a package that has none, by changing its manifest; the finding has to have the rule and the place
// of the fault.

#include "nlohmann/json.hpp"

#include "coppice/runtime/package.h"
#include "coppice/runtime/package_lint.h"

#include "tests/package/lint_fixtures.h"
#include "tests/support/test.h"

namespace coppice::package {
namespace {

using nlohmann::json;

struct Edit {
  const char* pointer;
  const char* value;  // JSON; null: removed.
};

struct Fault {
  const char* name;
  const char* rule;
  const char* place;  // What is changed, and to what.
  const char* value;
  const char* other_place = "";  // Of the finding, if it is not where the change is.
  std::vector<Edit> more = {};

  std::string_view pointer() const { return *other_place == 0 ? place : other_place; }
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
       "parameter-count",
       KERNEL("plain/parameters"),
       "[8, 8, 4, 8]",
       "",
       {{STEP(1) "/args/3", R"({"null": true})"}}},
      {"ParameterOfOtherSize",
       "parameter-bytes",
       KERNEL("plain/parameters"),
       "[8, 8, 8]",
       KERNEL("plain/parameters/2"),
       {{STEP(1) "/args/2", R"({"i64": "rows * n"})"}}},
      {"SymbolThatIsNotInThePtx", "symbol-missing", TARGET("plain", 0) "/symbol", R"("Plane")"},
      {"SymbolThatIsNotInTheCubin", "symbol-missing", TARGET("plain", 1) "/symbol", R"("plain")"},
      {"SymbolThatIsNotInTheFatbin", "symbol-missing", TARGET("bounded", 1) "/symbol",
       R"("Unbounded")"},
      {"BlockTooDeep", "block-limit", TARGET("scratched", 1) "/block", "[1, 1, 128]",
       TARGET("scratched", 1) "/block/2"},
      {"BlockOtherThanTheRequiredOne", "block-required", TARGET("sized", 0) "/block",
       "[128, 1, 1]"},
      {"BlockBeyondLaunchBoundsOfTheCubin", "block-bounds", TARGET("bounded", 1) "/block",
       "[512, 1, 1]"},
      {"BlockBeyondLaunchBoundsOfThePtx", "block-bounds", TARGET("bounded", 0) "/block",
       "[257, 1, 1]"},
      {"MoreRegistersThanABlockHas", "block-registers", TARGET("many", 0) "/block", "[1024, 1, 1]"},
      {"MoreSharedMemoryThanSm90Has", "shared-limit", TARGET("scratched", 1) "/shared_bytes",
       "232449"},
      {"MoreSharedMemoryThanSm80HasWithStaticBytes", "shared-limit",
       TARGET("bounded", 0) "/shared_bytes", "166000"},
      {"ClusterOtherThanTheCompiledOne",
       "cluster-required",
       TARGET("clustered", 0) "/cluster",
       "[1, 2, 1]",
       "",
       {{STEP(4) "/grid", "[2, 2, 1]"}}},
      {"ClusterThatSomeDevicesDoNotRun",
       "cluster-portable",
       TARGET("many", 0) "/cluster",
       "[16, 1, 1]",
       "",
       {{STEP(8) "/grid", "[16, 1, 1]"}}},
      {"ClusterBeforeSm90",
       "cluster-architecture",
       TARGET("bounded", 0) "/cluster",
       "[2, 1, 1]",
       "",
       {{STEP(5) "/grid", "[2, 1, 1]"}}},
      {"ProgrammaticLaunchBeforeSm90", "programmatic-architecture",
       TARGET("bounded", 0) "/programmatic", "true"},
      {"ScratchOfBlocksThatIsNotAligned", "scratch-align",
       TARGET("scratched", 0) "/scratch/0/bytes_per_block", "100"},
      {"PtxThatIsCalledACubin", "module-image", "/modules/code_80/format", R"("cubin")",
       "/modules/code_80"},
      {"PtxOfAnotherTarget", "module-image", "/modules/code_80/arch", R"("sm_80a")",
       "/modules/code_80"},
      {"CubinOfAnotherArchitecture", "module-image", "/modules/code_90/arch", R"("sm_100a")",
       "/modules/code_90"},
      {"FatbinWithoutTheArchitecture", "module-image", "/modules/code_fat/arch", R"("sm_120a")",
       "/modules/code_fat"},
      {"TargetThatIsNeverTaken", "target-twice", TARGET("bounded", 2),
       R"({"module": "code_80", "symbol": "Bounded", "block": [64, 1, 1]})"},
      // Launches.
      {"GridTooHighAtTheLargestBucket", "grid-limit", STEP(6) "/grid", R"(["rows", "n", 1])",
       STEP(6) "/grid/1"},
      {"GridTooWide", "grid-limit", STEP(6) "/grid/0", R"("rows * n * 4096")"},
      {"GridBelowZeroAtTheSmallestBucket", "grid-limit", STEP(6) "/grid/0", R"("n - 32")"},
      {"GridThatIsNotWholeClusters", "grid-cluster", STEP(4) "/grid/0", "3"},
      {"GridThatDividesByZeroAtOneBucket",
       "arithmetic",
       STEP(6) "/grid/0",
       R"-("n // (n - 64)")-",
       "",
       {{SYMBOL("n/min"), "64"}, {SYMBOL("n/buckets"), "[64, 1024]"}}},
      {"ArgumentThatOverflowsInt64", "arithmetic", STEP(1) "/args/2/i32",
       R"("rows * n * 1099511627776 * 1024")", STEP(1) "/args/2"},
      {"ArgumentThatOverflowsInt32", "int-overflow", STEP(1) "/args/2/i32", R"("rows * n * 1024")",
       STEP(1) "/args/2"},
      {"ArgumentBelowZeroWithoutSign", "int-overflow", STEP(5) "/args/2", R"({"u16": "rows - 2"})"},
      {"MemberThatOverflowsInAStruct", "int-overflow", STEP(5) "/args/1/struct/0",
       R"({"i32": "n * 65536"})"},
      {"DescriptorOfAnEmptyDimension", "tensormap-size", STEP(3) "/args/0/tensormap/dims",
       R"([64, "rows - 1"])", STEP(3) "/args/0/tensormap/dims/1"},
      {"DescriptorWithAnUnalignedStride", "tensormap-stride", STEP(3) "/args/0/tensormap/strides",
       "[260]", STEP(3) "/args/0/tensormap/strides/0"},
      {"DescriptorAtAnUnalignedAddress", "tensormap-address", STEP(3) "/args/0/tensormap/offset",
       "8"},
      {"DescriptorWhoseBoxHasUnalignedRows", "tensormap-box", STEP(3) "/args/0/tensormap/box",
       "[3, 32]", STEP(3) "/args/0/tensormap/box/0"},
      {"DescriptorWhoseBoxIsWiderThanItsSwizzle", "tensormap-box",
       STEP(3) "/args/0/tensormap/swizzle", R"("64B")", STEP(3) "/args/0/tensormap/box/0"},
      {"MemsetOfUnalignedElements",
       "memset-align",
       STEP(0) "/to/offset",
       "2",
       "",
       {{STEP(0) "/count", R"("rows * n - 1")"}}},
      {"ViewOfUnalignedElements",
       "view-align",
       STEP(9) "/inputs/0/offset",
       "2",
       "",
       {{STEP(9) "/inputs/0/shape", R"(["rows", "n - 1"])"}}},
      // Memory.
      {"CopyBeyondTheEnd", "out-of-bounds", STEP(2) "/bytes", R"("4 * rows * n + 4")",
       STEP(2) "/from"},
      {"MemsetBeyondTheEnd", "out-of-bounds", STEP(0) "/count", R"("rows * n + 1")", STEP(0) "/to"},
      {"KernelWhoseAddressIsBehindTheBuffer", "out-of-bounds", STEP(1) "/args/0/offset",
       R"("4 * rows * n")", STEP(1) "/args/0"},
      {"ViewBeyondTheEnd", "out-of-bounds", STEP(9) "/outputs/0/shape", R"(["rows + 1"])",
       STEP(9) "/outputs/0"},
      {"AliasBeyondItsBuffer", "alias-bounds", BUFFER("first/alias/offset"), R"("4 * n")",
       BUFFER("first/alias")},
      {"SizeBelowZero", "negative-size", BUFFER("u/shape"), R"(["rows", "n - 17"])",
       BUFFER("u/shape/1")},
      {"SizeThatOverflows", "arithmetic", BUFFER("t/bytes"), R"("4 * rows * n * 9007199254740992")",
       BUFFER("t/shape/0")},
      {"CopyOntoItself", "memcpy-overlap", STEP(11) "/from",
       R"({"buffer": "y", "offset": "2 * n"})", STEP(11)},
      {"TemporaryThatNobodyWroteBefore", "read-before-write", STEP(0), nullptr, STEP(0) "/args/1"},
      {"TemporaryOfWhichHalfIsWritten",
       "read-before-write",
       STEP(0) "/count",
       R"("rows * n // 2")",
       STEP(2) "/from",
       {{STEP(1) "/args/1/access", R"("r")"}}},
      {"TemporaryThatIsWrittenTooLate", "read-before-write", STEP(2) "/from/buffer", R"("u")",
       STEP(2) "/from"},
      {"TemporaryThatIsWrittenOnACondition", "read-before-write", STEP(0) "/if", R"("n > 16")",
       STEP(1) "/args/1"},
      {"OutputOfWhichAPartIsWritten", "output-unwritten", STEP(2) "/bytes", R"("4 * rows * n - 4")",
       BUFFER("y")},
      {"OutputThatNoStepWrites", "output-unwritten", STEP(9) "/outputs", "[]", BUFFER("sums")},
      {"ChildAtASizeThatItDoesNotAllow", "child-size", "/programs/half/symbols/k/max", "1048576",
       STEP(10) "/symbols/k"},
      {"ChildWhoseGuardFails", "child-guard", "/programs/half/guards", R"(["k != 1024"])",
       STEP(10) "/program"},
      // Promises.
      {"NoGuardForAMultiple",
       "guard-missing",
       PROGRAM "/guards/0",
       nullptr,
       STEP(1) "/args/2/divisible_by",
       {{STEP(1) "/assumes", nullptr}}},
      {"NoGuardForWhatAKernelAssumes", "guard-missing", STEP(1) "/assumes", R"(["rows != 1"])",
       STEP(1) "/assumes/0"},
      {"NoGuardForAnOffset", "guard-missing", STEP(1) "/args/0/offset", R"("4 * rows")",
       STEP(1) "/args/0/divisible_by"},
      {"BucketThatAKernelWasNotCompiledFor", "bucket-specialised", SYMBOL("n/buckets"), "[24, 64]",
       STEP(1) "/assumes/0"},
      {"AddressThatIsNotAligned", "address-align", STEP(1) "/args/0/divisible_by", "32"},
      {"SumOverPaddingWithoutLengths", "claim-reader", STEP(9) "/inputs/1", nullptr,
       SYMBOL("n/claim")},
      {"FillThatNobodyWrites",
       "claim-fill",
       SYMBOL("n/claim/padding"),
       R"("fill")",
       BUFFER("x/fill"),
       {{BUFFER("x/fill"), R"("undefined")"}}},
      {"ToleranceOfNothing", "claim-tolerance", SYMBOL("rows/claim/equal"), R"({"relative": "0"})"},
      {"BucketsWithoutAClaim", "bucket-claim", SYMBOL("rows/claim"), nullptr,
       SYMBOL("rows/buckets")},
      {"NoPowerOfTwoInTheRange",
       "bucket-range",
       SYMBOL("rows/min"),
       "33",
       SYMBOL("rows/buckets"),
       {{SYMBOL("rows/max"), "63"}}},
      {"NoMultipleInTheRange",
       "symbol-range",
       SYMBOL("n/multiple_of"),
       "131072",
       SYMBOL("n"),
       {{SYMBOL("n/buckets"), nullptr}}},
      {"GuardsThatNothingPasses", "no-sizes", PROGRAM "/guards/2", R"("n < 16")",
       PROGRAM "/guards"},
      {"RealSizeOfWhatIsNeverPadded",
       "real-unpadded",
       SYMBOL("rows/claim"),
       nullptr,
       STEP(7),
       {{SYMBOL("rows/buckets"), nullptr},
        {STEP(7) "/args/0", R"({"real": "rows"})"},
        {STEP(8) "/args/0", R"({"buffer": "noise", "access": "r"})"}}},
      // What nothing uses.
      {"KernelThatNoStepRuns", "kernel-unused", STEP(8), nullptr, KERNEL("many")},
      {"ModuleWithoutATarget", "module-unused", "/modules/other",
       R"({"file": "bin/code.ptx", "format": "ptx", "arch": "sm_80"})"},
      {"FileWithoutAModule", "file-unused", "/constants/w/data", nullptr,
       "/files/data~1w.safetensors"},
      {"ConstantWithoutABuffer", "constant-unused", "/constants/v",
       R"({"dtype": "f32", "shape": [1]})"},
      {"ValueThatNothingReads", "value-unused", STEP(1) "/grid/0", R"("rows * n")",
       TARGET("plain", 0) "/values/BLOCK"},
      {"ScratchThatNoArgumentIs", "scratch-unused", STEP(6) "/args/0", R"({"null": true})",
       TARGET("scratched", 0) "/scratch/0"},
      {"TemporaryThatNothingNames", "temporary-unused", BUFFER("v"),
       R"({"role": "temporary", "bytes": 16})"},
      {"SeedThatNothingReads", "buffer-unused", STEP(7) "/args/0", R"({"null": true})",
       BUFFER("noise")},
      {"InputThatNothingReads",
       "input-unused",
       BUFFER("z"),
       R"({"role": "input", "dtype": "f32", "shape": ["rows"]})",
       "",
       {{PROGRAM "/inputs/3", R"("z")"}}},
      {"MutatedInputThatNothingWrites", "mutated-unwritten", BUFFER("lengths/mutated"), "true"},
      {"ScalarThatNothingReads", "scalar-unused", PROGRAM "/scalars/unread", R"({"bind": "key"})"}};
  return faults;
}

void PrintTo(const Fault& fault, std::ostream* out) {
  *out << fault.name;
}

class PlantedFaultTest : public testing::TestWithParam<Fault> {};

TEST_P(PlantedFaultTest, IsFoundAndNamed) {
  const Fault& fault = GetParam();
  json manifest = CleanManifest();
  Apply({fault.place, fault.value}, manifest);
  for (const Edit& edit : fault.more)
    Apply(edit, manifest);
  const LintedFolder folder(manifest, CleanFiles());
  COPPICE_ASSERT_OK_AND_ASSIGN(const Package package, Package::Open(folder.path(), {}));
  const std::vector<Finding> findings = Lint(package, {});
  const bool found = std::any_of(findings.begin(), findings.end(), [&](const Finding& finding) {
    return finding.rule == fault.rule && finding.pointer == fault.pointer();
  });
  std::string all;
  for (const Finding& finding : findings)
    all += ToText(finding) + "\n";
  EXPECT_TRUE(found) << fault.rule << " at " << fault.pointer() << " is not among:\n" << all;
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
