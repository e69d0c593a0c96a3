// Goal: a package's kernels are loaded once, from the target that fits the device best, and what
// does not fit its image is refused by name.
// Method: small packages on the emulator, right and wrong in one place each.

#include "coppice/runtime/loaded_package.h"

#include "tests/package/small_kernels.h"
#include "tests/support/test.h"
#include "tests/support/test_device.h"

namespace coppice::package {
namespace {

class LoadedPackageTest : public testing::Test {
 protected:
  absl::StatusOr<std::unique_ptr<const LoadedPackage>> Load(const PackageBuilder& builder) {
    zip_ = builder.Zip();
    absl::StatusOr<Package> opened = Package::FromMemory(BytesOf(zip_), "small.zip", {});
    EXPECT_OK(opened);
    return LoadedPackage::Load(device_.context(), *std::move(opened), {});
  }

  // A package of no program, whose loading fails with `code` and a message with `part`.
  void ExpectRefused(const PackageBuilder& builder, absl::StatusCode code, const char* part) {
    const absl::Status status = Load(builder).status();
    EXPECT_THAT(status, StatusIs(code));
    EXPECT_THAT(std::string(status.message()), HasSubstr(part));
  }

  static PackageBuilder Small() {
    PackageBuilder builder = SmallKernels();
    builder.manifest["programs"]["main"] = {
        {"symbols", nlohmann::json::object()},
        {"inputs", {"x"}},
        {"outputs", {"y"}},
        {"buffers", {{"x", FloatBuffer("input", {8})}, {"y", FloatBuffer("output", {8})}}},
        {"steps", nlohmann::json::array({ScaleStep("x", "y", "8", "2")})}};
    return builder;
  }

  TestDevice device_;
  std::string zip_;
};

TEST_F(LoadedPackageTest, FindsEveryKernelAndSaysWhichTargetItIs) {
  COPPICE_ASSERT_OK_AND_ASSIGN(const auto loaded, Load(Small()));
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(loaded->kernel(i).size(), 1U);
    EXPECT_EQ(loaded->kernel(i)[0].kernel.name,
              loaded->manifest().kernels[static_cast<size_t>(i)].name);
    EXPECT_EQ(loaded->kernel(i)[0].fit.fit, Fit::kPtx);
    EXPECT_FALSE(loaded->kernel(i)[0].fit.why.empty());
  }
}

TEST_F(LoadedPackageTest, NoTwoHaveTheSameNumber) {
  uint64_t last = 0;
  for (int i = 0; i < 3; ++i) {  // Each ends before the next, which may get its address.
    COPPICE_ASSERT_OK_AND_ASSIGN(const auto loaded, Load(Small()));
    EXPECT_GT(loaded->number(), last);
    last = loaded->number();
  }
}

TEST_F(LoadedPackageTest, TakesTheBestTargetOfEachVariant) {
  PackageBuilder builder = Small();
  builder.AddModule("newer", "ptx", "sm_89", kSmallKernels);
  builder.AddModule("other", "cubin", "sm_120a", "no image");
  nlohmann::json& targets = builder.manifest["kernels"]["Scale"]["targets"];
  const nlohmann::json first = targets[0];
  for (const char* module : {"newer", "other"}) {
    targets.push_back(first);
    targets.back()["module"] = module;
  }
  targets.push_back(first);
  targets.back()["variant"] = "second";
  COPPICE_ASSERT_OK_AND_ASSIGN(const auto loaded, Load(builder));
  const auto scale = loaded->kernel(2);  // By name: Add, Mask, Scale.
  ASSERT_EQ(scale.size(), 2U);
  EXPECT_EQ(scale[0].fit.target, 1);
  EXPECT_EQ(scale[1].fit.target, 3);
}

TEST(LoadedPackageDevicesTest, TakesWhatFitsTheDeviceOfTheContext) {
  Emulator::Options options = TestEmulatorOptions();
  options.devices = 2;
  COPPICE_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Emulator> emulator, Emulator::Create(options));
  DriverTable table = emulator->driver().table();
  table.DeviceGetAttribute = [](int* value, CuDeviceAttribute attribute, CuDevice device) {
    *value = attribute == CuDeviceAttribute::kComputeCapabilityMajor ? 9 - device : 0;
    return CuResult::kSuccess;
  };
  const Driver driver(table, DriverKind::kEmulator);
  PackageBuilder builder = SmallKernels();
  builder.AddModule("newer", "ptx", "sm_89", kSmallKernels);
  for (nlohmann::json& kernel : builder.manifest["kernels"]) {
    kernel["targets"].push_back(kernel["targets"][0]);
    kernel["targets"].back()["module"] = "newer";
  }
  builder.manifest["programs"]["main"] = DiamondProgram();
  const std::string zip = builder.Zip();
  for (const int ordinal : {1, 0}) {
    COPPICE_ASSERT_OK_AND_ASSIGN(const Context context, Context::Create(driver, ordinal));
    COPPICE_ASSERT_OK_AND_ASSIGN(Package opened, Package::FromMemory(BytesOf(zip), "two.zip", {}));
    COPPICE_ASSERT_OK_AND_ASSIGN(const auto loaded,
                                 LoadedPackage::Load(context, std::move(opened), {}));
    EXPECT_EQ(loaded->kernel(0)[0].fit.target, ordinal == 0 ? 1 : 0);
  }
}

TEST_F(LoadedPackageTest, RefusesAKernelWithoutATarget) {
  PackageBuilder builder = Small();
  builder.manifest["modules"]["small"]["arch"] = "sm_120";
  ExpectRefused(builder, absl::StatusCode::kNotFound, "sm_120");
}

TEST_F(LoadedPackageTest, RefusesASymbolThatTheImageLacks) {
  PackageBuilder builder = Small();
  builder.manifest["kernels"]["Add"]["targets"][0]["symbol"] = "Subtract";
  ExpectRefused(builder, absl::StatusCode::kNotFound, "Subtract");
}

TEST_F(LoadedPackageTest, RefusesOtherParameters) {
  PackageBuilder builder = Small();
  builder.manifest["kernels"]["Mask"]["parameters"] = {8, 8, 8, 8};
  ExpectRefused(builder, absl::StatusCode::kInvalidArgument, "/kernels/Mask/parameters/2");
  builder.manifest["kernels"]["Mask"]["parameters"] = {8, 8, 4, 8, 8};
  ExpectRefused(builder, absl::StatusCode::kInvalidArgument, "/kernels/Mask/parameters/4");
}

TEST_F(LoadedPackageTest, RefusesMoreSharedMemoryThanThereIs) {
  PackageBuilder builder = Small();
  builder.manifest["kernels"]["Add"]["targets"][0]["shared_bytes"] = 1 << 20;
  ExpectRefused(builder, absl::StatusCode::kInvalidArgument, "/kernels/Add/targets/0");
}

TEST_F(LoadedPackageTest, RefusesAnImageThatIsNone) {
  PackageBuilder builder = SmallKernels();
  builder.manifest["programs"] = Small().manifest["programs"];
  builder.AddModule("small", "ptx", "sm_80", "not PTX");
  ExpectRefused(builder, absl::StatusCode::kInvalidArgument, "/kernels/Add/targets/0");
}

TEST_F(LoadedPackageTest, ConstantsAreInPlaceAndOfTheirShape) {
  PackageBuilder builder = Small();
  builder.AddConstants("weights", {{.name = "w", .shape = {2}, .bytes = std::string(8, 'w')}});
  COPPICE_ASSERT_OK_AND_ASSIGN(const auto loaded, Load(builder));
  EXPECT_EQ(TextOf(loaded->constant(0)), "wwwwwwww");
  const std::byte* const first = loaded->constant(0).data();
  EXPECT_GE(static_cast<const void*>(first), static_cast<const void*>(zip_.data()));
  EXPECT_LT(static_cast<const void*>(first), static_cast<const void*>(zip_.data() + zip_.size()));
  builder.manifest["constants"]["w"]["shape"] = {4};
  ExpectRefused(builder, absl::StatusCode::kInvalidArgument, "/constants/w");
}

}  // namespace
}  // namespace coppice::package
