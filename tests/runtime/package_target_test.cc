// Goal: package_target.h holds: which code runs where, which is taken first, and why others are
// not. Method: tables of architectures and devices, written down from NVIDIA's rules of
// compatibility.

#include "coppice/runtime/package_target.h"

#include "tests/support/test.h"

namespace coppice::package {
namespace {

TEST(PackageTargetTest, ArchitecturesAreReadAndWritten) {
  EXPECT_EQ(ParseArchitecture("sm_80"), (Architecture{80, Features::kPortable}));
  EXPECT_EQ(ParseArchitecture("sm_90a"), (Architecture{90, Features::kExact}));
  EXPECT_EQ(ParseArchitecture("sm_100f"), (Architecture{100, Features::kFamily}));
  for (const char* text : {"sm_75", "sm_90a", "sm_103f", "sm_121"})
    EXPECT_EQ(NameOf(*ParseArchitecture(text)), text);
}

TEST(PackageTargetTest, OtherTextIsNoArchitecture) {
  for (const char* text : {"", "sm_", "sm_9", "sm_09", "sm_1000", "sm_90b", "sm_90aa", "sm_9a",
                           "compute_90", "90", "SM_90", "sm_ 90", "sm_-90", "sm_90 "})
    EXPECT_EQ(ParseArchitecture(text), std::nullopt) << text;
}

Fit FitOn(const char* arch, ImageFormat format, const TargetDevice& device) {
  return FitOf({.name = "m", .format = format, .arch = arch}, device).fit;
}

struct Case {
  const char* arch;
  int capability;
  Fit fit;
};

TEST(PackageTargetTest, CubinsRunWhereNvidiaSaysTheyDo) {
  constexpr Case kCases[] = {{"sm_80", 80, Fit::kMajor},
                             {"sm_80", 86, Fit::kMajor},
                             {"sm_80", 89, Fit::kMajor},
                             {"sm_86", 80, Fit::kNone},
                             {"sm_89", 86, Fit::kNone},
                             {"sm_80", 90, Fit::kNone},
                             {"sm_80", 75, Fit::kNone},
                             {"sm_90", 90, Fit::kMajor},
                             {"sm_90a", 90, Fit::kExact},
                             {"sm_90a", 100, Fit::kNone},
                             {"sm_90", 100, Fit::kNone},
                             {"sm_100", 103, Fit::kMajor},
                             {"sm_100a", 100, Fit::kExact},
                             {"sm_100a", 103, Fit::kNone},
                             {"sm_100f", 100, Fit::kFamily},
                             {"sm_100f", 103, Fit::kFamily},
                             {"sm_103f", 100, Fit::kNone},
                             {"sm_100f", 110, Fit::kNone},
                             {"sm_100f", 101, Fit::kNone},
                             {"sm_120f", 121, Fit::kFamily},
                             {"sm_120", 121, Fit::kMajor},
                             {"sm_121", 120, Fit::kNone},
                             {"sm_120f", 100, Fit::kNone},
                             // Between cards and GPUs inside a processor.
                             {"sm_80", 87, Fit::kNone},
                             {"sm_86", 87, Fit::kNone},
                             {"sm_87", 87, Fit::kMajor},
                             {"sm_87", 89, Fit::kNone},
                             {"sm_70", 72, Fit::kNone},
                             {"sm_110a", 110, Fit::kExact}};
  for (const Case& each : kCases)
    EXPECT_EQ(FitOn(each.arch, ImageFormat::kCubin, TargetDevice::Gpu(each.capability, true)),
              each.fit)
        << each.arch << " on " << each.capability;
}

TEST(PackageTargetTest, PtxRunsOnLaterDevicesUnlessItHasSpecialFeatures) {
  constexpr Case kCases[] = {{"sm_80", 80, Fit::kPtx},    {"sm_80", 120, Fit::kPtx},
                             {"sm_90", 89, Fit::kNone},   {"sm_90a", 90, Fit::kPtx},
                             {"sm_90a", 100, Fit::kNone}, {"sm_90a", 89, Fit::kNone},
                             {"sm_100f", 103, Fit::kPtx}, {"sm_100f", 120, Fit::kNone}};
  for (const Case& each : kCases)
    EXPECT_EQ(FitOn(each.arch, ImageFormat::kPtx, TargetDevice::Gpu(each.capability, true)),
              each.fit)
        << each.arch << " on " << each.capability;
}

TEST(PackageTargetTest, PtxIsTakenOnlyIfItsCallerAllowsIt) {
  EXPECT_EQ(FitOn("sm_80", ImageFormat::kPtx, TargetDevice::Gpu(90, false)), Fit::kNone);
  EXPECT_EQ(FitOn("sm_80", ImageFormat::kPtx, TargetDevice::Gpu(90, true)), Fit::kPtx);
}

TEST(PackageTargetTest, EmulatorTakesPtxUpToItsCapabilityAndSm89) {
  EXPECT_EQ(FitOn("sm_80", ImageFormat::kPtx, TargetDevice::Emulator(90)), Fit::kPtx);
  EXPECT_EQ(FitOn("sm_89", ImageFormat::kPtx, TargetDevice::Emulator(90)), Fit::kPtx);
  EXPECT_EQ(FitOn("sm_90", ImageFormat::kPtx, TargetDevice::Emulator(90)), Fit::kNone);
  EXPECT_EQ(FitOn("sm_90a", ImageFormat::kPtx, TargetDevice::Emulator(90)), Fit::kNone);
  EXPECT_EQ(FitOn("sm_89", ImageFormat::kPtx, TargetDevice::Emulator(80)), Fit::kNone);
  EXPECT_EQ(FitOn("sm_80", ImageFormat::kCubin, TargetDevice::Emulator(80)), Fit::kNone);
}

TEST(PackageTargetTest, FatbinIsItsCubinOrElseItsPtx) {
  EXPECT_EQ(FitOn("sm_80", ImageFormat::kFatbin, TargetDevice::Gpu(86, true)), Fit::kMajor);
  EXPECT_EQ(FitOn("sm_80", ImageFormat::kFatbin, TargetDevice::Gpu(90, true)), Fit::kPtx);
  EXPECT_EQ(FitOn("sm_80", ImageFormat::kFatbin, TargetDevice::Gpu(90, false)), Fit::kNone);
  EXPECT_EQ(FitOn("sm_80", ImageFormat::kFatbin, TargetDevice::Emulator(90)), Fit::kPtx);
}

// A kernel with one target per module, of the variants.
struct Choice {
  Manifest manifest;
  Kernel kernel{.name = "k"};

  void Add(const char* arch, ImageFormat format, const char* variant = "") {
    kernel.targets.push_back(
        {.module = static_cast<int>(manifest.modules.size()), .symbol = "k", .variant = variant});
    manifest.modules.push_back({.name = arch, .format = format, .arch = arch});
  }
  std::vector<int> Order(const TargetDevice& device) const {
    std::vector<int> order;
    for (const TargetFit& fit : OrderTargets(manifest, kernel, device))
      order.push_back(fit.target);
    return order;
  }
};

TEST(PackageTargetTest, OrderIsExactFamilyMajorPtxThenWhatDoesNotFit) {
  Choice choice;
  choice.Add("sm_80", ImageFormat::kPtx);
  choice.Add("sm_90a", ImageFormat::kCubin);
  choice.Add("sm_100", ImageFormat::kCubin);
  choice.Add("sm_100f", ImageFormat::kCubin);
  choice.Add("sm_103a", ImageFormat::kCubin);
  EXPECT_THAT(choice.Order(TargetDevice::Gpu(103, true)), ElementsAre(4, 3, 2, 0, 1));
  EXPECT_THAT(choice.Order(TargetDevice::Gpu(100, true)), ElementsAre(3, 2, 0, 4, 1));
}

TEST(PackageTargetTest, NearestArchitectureComesFirstAmongEquals) {
  Choice choice;
  choice.Add("sm_75", ImageFormat::kPtx);
  choice.Add("sm_80", ImageFormat::kCubin);
  choice.Add("sm_80", ImageFormat::kPtx);
  choice.Add("sm_86", ImageFormat::kCubin);
  EXPECT_THAT(choice.Order(TargetDevice::Gpu(89, true)), ElementsAre(3, 1, 2, 0));
}

TEST(PackageTargetTest, EqualsKeepTheManifestsOrder) {
  Choice choice;
  choice.Add("sm_90a", ImageFormat::kCubin, "wide");
  choice.Add("sm_90a", ImageFormat::kCubin, "narrow");
  EXPECT_THAT(choice.Order(TargetDevice::Gpu(90, true)), ElementsAre(0, 1));
}

TEST(PackageTargetTest, EachVariantHasItsBestTarget) {
  Choice choice;
  choice.Add("sm_80", ImageFormat::kPtx, "wide");
  choice.Add("sm_80", ImageFormat::kPtx, "narrow");
  choice.Add("sm_90a", ImageFormat::kCubin, "narrow");
  choice.Add("sm_100a", ImageFormat::kCubin, "deep");
  COPPICE_ASSERT_OK_AND_ASSIGN(
      const std::vector<TargetFit> chosen,
      ChooseTargets(choice.manifest, choice.kernel, TargetDevice::Gpu(90, true)));
  ASSERT_EQ(chosen.size(), 2U);
  EXPECT_EQ(chosen[0].target, 0);
  EXPECT_EQ(chosen[0].fit, Fit::kPtx);
  EXPECT_EQ(chosen[1].target, 2);
  EXPECT_EQ(chosen[1].fit, Fit::kExact);
}

TEST(PackageTargetTest, NoTargetIsAnErrorThatSaysWhyOfEach) {
  Choice choice;
  choice.Add("sm_90a", ImageFormat::kCubin);
  choice.Add("sm_100f", ImageFormat::kCubin);
  choice.Add("sm_80", ImageFormat::kPtx);
  EXPECT_THAT(ChooseTargets(choice.manifest, choice.kernel, TargetDevice::Gpu(89, false)),
              StatusIs(absl::StatusCode::kNotFound,
                       AllOf(HasSubstr("8.9"), HasSubstr("target 0: sm_90a runs on 9.0 only"),
                             HasSubstr("target 1: sm_100f"), HasSubstr("target 2: PTX of sm_80"))));
}

TEST(PackageTargetTest, FitsAreExplained) {
  const Module cubin{.name = "m", .format = ImageFormat::kCubin, .arch = "sm_80"};
  EXPECT_EQ(FitOf(cubin, TargetDevice::Gpu(89, false)).why, "sm_80 runs on 8.9");
  const Module none{.name = "m", .format = ImageFormat::kCubin, .arch = "hopper"};
  EXPECT_THAT(FitOf(none, TargetDevice::Gpu(89, false)).why, HasSubstr("'hopper' of module m"));
  EXPECT_STREQ(NameOf(Fit::kExact), "exact");
  EXPECT_STREQ(NameOf(Fit::kFamily), "family");
  EXPECT_STREQ(NameOf(Fit::kMajor), "major");
  EXPECT_STREQ(NameOf(Fit::kPtx), "PTX");
  EXPECT_STREQ(NameOf(Fit::kNone), "none");
}

}  // namespace
}  // namespace coppice::package
