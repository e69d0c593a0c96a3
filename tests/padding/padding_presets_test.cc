// Goal: every sentence of padding_presets.h. Method: counts that have been published of each
// ladder, some ladders written out, and all of them at every small maximum.

#include "coppice/padding/padding_presets.h"

#include "coppice/padding/padding_policy.h"

#include "tests/support/test.h"

namespace coppice {
namespace {

std::vector<int64_t> PresetBuckets(const std::string& name, int64_t maximum) {
  const absl::StatusOr<PaddingPolicy> policy = PaddingPolicy::Parse(name, maximum);
  EXPECT_TRUE(policy.ok()) << policy.status();
  return policy.ok() ? policy->buckets() : std::vector<int64_t>();
}

TEST(PaddingPresetsTest, HaveTheCountsThatHaveBeenPublished) {
  struct Published {
    const char* name;
    int64_t maximum;
    size_t count;
  };
  for (const Published& one : {
           Published{"pow2", 512, 10},
           {"pow2", 16384, 15},
           {"pow2", 131072, 18},
           {"geometric:1.25:1", 512, 25},
           {"geometric:1.25:1", 4096, 34},
           {"geometric:1.25:1", 8192, 37},
           {"geometric:1.25:1", 16384, 41},
           {"geometric:1.25:1", 131072, 50},
           {"linear:128", 4096, 32},
           {"linear:128", 131072, 1024},
           {"vllm", 512, 51},
           {"vllm-interactivity", 512, 76},
           {"sglang", 512, 52},
           {"sglang-spec", 512, 67},
           {"sglang-piecewise", 512, 30},
           {"sglang-piecewise", 2048, 42},
           {"sglang-piecewise", 4096, 50},
           {"sglang-piecewise", 8192, 58},
           {"sglang-piecewise", 16384, 74},
           {"sglang-piecewise", 65536, 170},
           {"sglang-piecewise", 131072, 298},
           {"sglang-piecewise-pre2026", 2048, 42},
           {"sglang-piecewise-pre2026", 8192, 74},
           {"trtllm", 512, 25},
           {"trtllm", 128, 19},
           {"trtllm-pre2026", 512, 21},
           {"trtllm-pre2026", 128, 19},
           {"lmdeploy", 512, 10},
           {"tgi", 32, 6},
           {"lightllm", 512, 62},
           {"fastdeploy", 512, 35},
           {"hpu-exponential", 512, 4},
           {"hpu-exponential", 4096, 13},
           {"hpu-exponential", 8192, 14},
           {"hpu-exponential", 16384, 15},
           {"hpu-exponential", 32768, 16},
           {"hpu-exponential", 65536, 17},
           {"hpu-exponential", 131072, 18},
           {"tpu:256", 512, 6},
           {"tpu:256", 2048, 12},
           {"tpu:256", 4096, 20},
           {"tpu:256", 8192, 36},
           {"tpu:256", 16384, 68},
           {"tpu:256", 131072, 516},
       })
    EXPECT_EQ(PresetBuckets(one.name, one.maximum).size(), one.count)
        << one.name << " " << one.maximum;
}

TEST(PaddingPresetsTest, AreTheLaddersOfTheirSystems) {
  EXPECT_THAT(PresetBuckets("vllm", 40), ElementsAre(1, 2, 4, 8, 16, 24, 32, 40));
  EXPECT_THAT(PresetBuckets("sglang", 40), ElementsAre(1, 2, 4, 8, 12, 16, 24, 32, 40));
  EXPECT_THAT(PresetBuckets("sglang-piecewise", 80),
              ElementsAre(4, 8, 12, 16, 20, 24, 28, 32, 48, 64, 80));
  EXPECT_THAT(PresetBuckets("trtllm-pre2026", 1000).back(), 1000);
  EXPECT_THAT(PresetBuckets("neuron", 600), ElementsAre(128, 256, 512, 600));
  EXPECT_THAT(PresetBuckets("mini-sglang", 20), ElementsAre(1, 2, 4, 8, 16, 20));
  // Sixteen multiples of 128 for twelve places; the first powers fall on the same one.
  EXPECT_THAT(PresetBuckets("hpu-exponential", 2048),
              ElementsAre(128, 256, 384, 512, 640, 768, 896, 1024, 1152, 1280, 1664, 2048));
  EXPECT_THAT(PresetBuckets("hpu-padding-aware", 2048),
              ElementsAre(128, 256, 384, 512, 640, 768, 896, 1024, 1280, 1536, 1920, 2048));
}

TEST(PaddingPresetsTest, TpuDoublesWithinItsGapThenGrowsByIt) {
  EXPECT_THAT(PresetBuckets("tpu:64", 300), ElementsAre(16, 32, 64, 128, 192, 256, 300));
  EXPECT_THAT(PresetBuckets("tpu:100", 300), ElementsAre(16, 32, 64, 164, 264, 300));
  EXPECT_THAT(PresetBuckets("tpu:0", 300), ElementsAre(16, 32, 64, 128, 256, 300));
  EXPECT_EQ(PresetBuckets("tpu", 8192), PresetBuckets("tpu:256", 8192));
  EXPECT_EQ(PaddingPolicy::Parse("tpu", 8192)->name(), "tpu:256");
}

TEST(PaddingPresetsTest, GoUpToAnyMaximumWhichIsTheirLastBucket) {
  for (const PaddingPreset& preset : PaddingPresets()) {
    for (int64_t maximum = 1; maximum < 600; ++maximum) {
      const absl::StatusOr<PaddingPolicy> policy = PaddingPolicy::Parse(preset.name, maximum);
      ASSERT_TRUE(policy.ok()) << policy.status();
      const std::vector<int64_t> buckets = policy->buckets();
      ASSERT_EQ(buckets.back(), maximum) << preset.name;
      ASSERT_GE(buckets.front(), 1) << preset.name;
      for (size_t i = 0; i + 1 < buckets.size(); ++i) {
        ASSERT_LT(buckets[i], buckets[i + 1]) << preset.name << " " << maximum;
        ASSERT_EQ(buckets[i] % preset.align, 0) << preset.name << " " << maximum;
      }
    }
    EXPECT_EQ(PresetBuckets(preset.name, 1 << 20).back(), 1 << 20);
  }
}

TEST(PaddingPresetsTest, SayWhatTheyAre) {
  std::set<std::string> names;
  for (const PaddingPreset& preset : PaddingPresets()) {
    EXPECT_TRUE(names.insert(preset.name).second) << preset.name;
    EXPECT_NE(std::string(preset.rule), "") << preset.name;
    EXPECT_NE(std::string(preset.source), "") << preset.name;
    EXPECT_GE(preset.limit, 0) << preset.name;
    EXPECT_EQ(PaddingPolicy::Parse(preset.name, 4096)->name(), preset.name);
  }
}

TEST(PaddingPresetsTest, AreFoundByNameWithAnyArguments) {
  ASSERT_NE(FindPaddingPreset("vllm"), nullptr);
  EXPECT_STREQ(FindPaddingPreset("vllm")->name, "vllm");
  EXPECT_EQ(FindPaddingPreset("vllm")->limit, 512);
  EXPECT_STREQ(FindPaddingPreset("tpu:512")->name, "tpu:256");
  EXPECT_EQ(FindPaddingPreset("vll"), nullptr);
  EXPECT_EQ(FindPaddingPreset(""), nullptr);
  EXPECT_EQ(FindPaddingPreset("1,2"), nullptr);
}

TEST(PaddingPresetsTest, RejectArgumentsThatTheyDoNotTake) {
  for (const char* text :
       {"vllm:", "vllm:8", "tpu:", "tpu:x", "tpu:-1", "tpu:1:2", "Vllm", "vllm "})
    EXPECT_EQ(PaddingPolicy::Parse(text, 512).status().code(), absl::StatusCode::kInvalidArgument)
        << text;
  EXPECT_FALSE(PaddingPolicy::Parse("vllm", 0).ok());
  EXPECT_FALSE(PaddingPolicy::Parse("vllm", PaddingPolicy::kExtentMax + 1).ok());
}

}  // namespace
}  // namespace coppice
