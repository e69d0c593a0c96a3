// Goal: whatever the bytes, there is a package or an error that says where, never a crash, and
// never much memory. Method: a package that has everything is changed from a seed, in its bytes, in
// the text of its manifest, or in its manifest as JSON with digests made right, so that all of the
// reader is reached; what opens is walked. COPPICE_MUTATIONS says how many, in place of 12,000.

#include "coppice/runtime/package.h"
#include "coppice/runtime/safetensors.h"

#include "tests/package/manifest_cases.h"
#include "tests/package/manifest_mutator.h"
#include "tests/package/model_walk.h"
#include "tests/package/package_builder.h"
#include "tests/support/sanitized.h"
#include "tests/support/test.h"
#include "tests/support/test_device.h"

namespace coppice::package {
namespace {

using Json = nlohmann::json;

constexpr int64_t kCopies = 12'000;

// That what opens is whole, and that what does not has an error that says where. Returns whether it
// opened.
bool Judge(const std::string& zip) {
  const absl::StatusOr<Package> package = Package::FromMemory(BytesOf(zip), "mutant.zip", {});
  if (package.ok()) {
    WalkModel(package->manifest());
    return package->Verify().ok();
  }
  const absl::Status& status = package.status();
  EXPECT_TRUE(absl::IsInvalidArgument(status) || absl::IsUnimplemented(status)) << status;
  EXPECT_THAT(MessageOf(status), HasSubstr("mutant.zip: "));
  return false;
}

// The shadow memory of a sanitizer counts as the process's own.
#ifdef COPPICE_SANITIZED
constexpr bool kCountsMemory = false;
#else
constexpr bool kCountsMemory = true;
#endif

// The most memory that the process had since the last call of ForgetPeak, in bytes.
int64_t PeakBytes() {
  std::ifstream status("/proc/self/status");
  std::string word;
  while (status >> word && word != "VmHWM:") {
  }
  int64_t kib = 0;
  status >> kib;
  return kib * 1024;
}

void ForgetPeak() {
  std::ofstream("/proc/self/clear_refs") << "5";
}

void ExpectPeakWithin512MiB() {
  if (kCountsMemory) {
    EXPECT_LT(PeakBytes(), int64_t{512} << 20);
  }
}

// Opens a folder with this manifest and nothing else, where nobody else holds the text. Returns
// whether it opened.
bool OpensWithin512MiB(std::string text) {
  const TemporaryFolder folder;
  WriteBytes(folder / "manifest.json", text);
  const std::string begin = text.substr(0, 20);
  text = std::string();
  ForgetPeak();
  const absl::StatusOr<Package> package = Package::Open(folder.path(), {});
  EXPECT_TRUE(package.ok() || !MessageOf(package.status()).empty());
  SCOPED_TRACE(begin);
  ExpectPeakWithin512MiB();
  return package.ok();
}

class MutationTest : public testing::Test {
 protected:
  const uint64_t seed_ = TestSeed();
  const PackageBuilder builder_ = FullPackage();
};

TEST_F(MutationTest, BytesOfAZip) {
  const std::string zip = builder_.Zip();
  for (int64_t i = 0; i < Mutations(kCopies) / 4; ++i) {
    ManifestMutator mutator(seed_ + static_cast<uint64_t>(i));
    ASSERT_FALSE(Judge(mutator.MutateBytes(zip))) << "seed " << seed_ << ", mutation " << i;
    if (HasFailure()) FAIL() << "seed " << seed_ << ", mutation " << i;
  }
}

TEST_F(MutationTest, BytesOfAManifest) {
  const std::string text = builder_.ManifestText();
  for (int64_t i = 0; i < Mutations(kCopies) / 4; ++i) {
    ManifestMutator mutator(seed_ + static_cast<uint64_t>(i));
    const std::string zip = ZipOf({{"manifest.json", mutator.MutateBytes(text)}});
    ASSERT_FALSE(Judge(zip)) << "seed " << seed_ << ", mutation " << i;
    if (HasFailure()) FAIL() << "seed " << seed_ << ", mutation " << i;
  }
}

TEST_F(MutationTest, ManifestsWhoseDigestsAreRight) {
  int64_t opened = 0;
  for (int64_t i = 0; i < Mutations(kCopies) / 2; ++i) {
    ManifestMutator mutator(seed_ + static_cast<uint64_t>(i));
    PackageBuilder builder = builder_;
    mutator.MutateJson(builder.manifest);
    opened += Judge(builder.Zip()) ? 1 : 0;
    if (HasFailure()) FAIL() << "seed " << seed_ << ", mutation " << i;
  }
  // So that refusals are not those of one early check.
  EXPECT_GT(opened, Mutations(kCopies) / 100);
  EXPECT_LT(opened, Mutations(kCopies) / 4);
}

TEST_F(MutationTest, SafetensorsFiles) {
  const std::string file = ReadBytes(COPPICE_PACKAGE_FIXTURES "/tensors.safetensors");
  for (int64_t i = 0; i < Mutations(kCopies) / 4; ++i) {
    ManifestMutator mutator(seed_ + static_cast<uint64_t>(i));
    const std::string bytes = mutator.MutateBytes(file);
    const absl::StatusOr<Safetensors> tensors = Safetensors::FromMemory(BytesOf(bytes), "mutant");
    if (!tensors.ok()) {
      ASSERT_THAT(MessageOf(tensors.status()), HasSubstr("mutant: "));
      continue;
    }
    for (const std::string& name : tensors->names()) {
      const absl::StatusOr<SafeTensor> tensor = tensors->Get(name);
      if (!tensor.ok() || tensor->bytes.empty()) continue;
      ASSERT_GE(tensor->bytes.data(), BytesOf(bytes).data());
      ASSERT_LE(tensor->bytes.data() + tensor->bytes.size(), BytesOf(bytes).data() + bytes.size());
    }
  }
}

// `each` again and again between `before` and `after`, as long as a manifest may be.
std::string Longest(const std::string& before, const std::string& each, const std::string& after) {
  constexpr size_t kBytes = size_t{64} << 20;
  std::string many = each;
  while (many.size() < kBytes)
    many += many;
  many.resize((kBytes - before.size() - after.size()) / each.size() * each.size());
  if (many.ends_with(',')) many.pop_back();
  return before + many + after;
}

TEST_F(MutationTest, LongTextsTakeAtMost512MiB) {
  EXPECT_FALSE(OpensWithin512MiB(Longest("[", "0,", "]")));
  EXPECT_FALSE(OpensWithin512MiB(Longest("[", "\"\",", "]")));
  EXPECT_FALSE(OpensWithin512MiB(Longest("\"", "a", "\"")));
  EXPECT_FALSE(OpensWithin512MiB(Longest("\"", "\\u0001", "\"")));
  EXPECT_FALSE(OpensWithin512MiB(Longest("", "[", "")));
  EXPECT_FALSE(OpensWithin512MiB(Longest("", "1", "")));
  EXPECT_FALSE(OpensWithin512MiB(Longest("{}", " ", "")));
}

// A program of as many steps as its manifest may have values for, each with 1,000 arguments.
TEST_F(MutationTest, ManyArgumentsTakeAtMost512MiB) {
  PackageBuilder builder;
  builder.manifest = TwiceManifest();
  builder.manifest["files"]["bin/a"] = {{"bytes", 0}, {"sha256", Sha256Hex("")}};
  builder.manifest["modules"]["a"] = {{"file", "bin/a"}, {"format", "ptx"}, {"arch", "sm_80"}};
  builder.manifest["kernels"] = {
      {"k",
       {{"parameters", std::vector<int>(1000, 8)},
        {"targets", {{{"module", "a"}, {"symbol", "k"}, {"block", {1, 1, 1}}}}}}}};
  const Json step = {{"op", "kernel"},
                     {"kernel", "k"},
                     {"grid", {1, 1, 1}},
                     {"args", std::vector<Json>(1000, {{"null", true}})}};
  builder.manifest["programs"]["main"]["steps"] = std::vector<Json>(1000, step);
  std::string text = builder.ManifestText();
  builder = PackageBuilder();
  // It is all read: only the file is missing.
  EXPECT_FALSE(OpensWithin512MiB(std::move(text)));
}

TEST_F(MutationTest, LongExpressionsTakeAtMost512MiB) {
  PackageBuilder builder = PackageBuilder::Twice();
  std::string sum = "1";
  while (sum.size() < 1023)
    sum += "+n";
  for (const size_t steps : {8'190, 8'300}) {
    builder.manifest["programs"]["main"]["steps"] = std::vector<Json>(
        steps,
        {{"op", "memset"}, {"to", {{"buffer", "y"}}}, {"value", 0}, {"width", 1}, {"count", sum}});
    const std::string zip = builder.Zip();
    ForgetPeak();
    EXPECT_EQ(Judge(zip), steps == 8'190);
    ExpectPeakWithin512MiB();
  }
}

}  // namespace
}  // namespace coppice::package
