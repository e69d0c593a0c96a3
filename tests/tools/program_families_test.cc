// Goal: the built-in programs are the published families bit for bit. Method: counts, bounds and
// checksums.

#include "tools/plan/program_families.h"

#include <algorithm>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "coppice/base/status.h"

#include "tests/support/status_matchers.h"
#include "tests/tools/built_in_programs.h"

namespace coppice {
namespace {

using testing::ElementsAre;

constexpr uint64_t kChecksumBasis = 0xcbf29ce484222325;  // FNV-1a over whole numbers.

uint64_t Checksum(uint64_t checksum, const std::vector<Buffer>& buffers) {
  for (const Buffer& buffer : buffers) {
    for (const int64_t number : {buffer.lifetime[0].lower, buffer.lifetime[0].upper, buffer.bytes})
      checksum = (checksum ^ static_cast<uint64_t>(number)) * 0x100000001b3;
  }
  return checksum;
}

struct FamilyFacts {
  const char* name;
  size_t buckets;
  size_t buffers;
  int64_t bound;
  uint64_t checksum;
};

constexpr FamilyFacts kFamilyFacts[] = {
    {"bert_large_eager_bxs60", 60, 30720, 604045312, 0x8535efb56d6a5fb5},
    {"bert_large_eager_seq32", 32, 16384, 604045312, 0x591c3742ae4b2ca5},
    {"bert_large_sdpa_seq32", 32, 14080, 302055424, 0x9919cd503c0ab8a5},
    {"llama70b_fp8_tp8_decode67", 67, 93282, 402391040, 0xe099acfabc89503c},
    {"llama8b_eager_decode19", 19, 28329, 2166685696, 0x0091ed3407cc500f},
    {"llama8b_fused_decode67", 67, 15599, 398196736, 0x444e39bd1079ca11},
    {"llama8b_nologits_decode67", 67, 15398, 48234496, 0x014ca41b04903da0},
    {"llama8b_prefill28", 28, 6412, 6371147776, 0xf4a8e1c7171e4ac5},
    {"mixtral_decode67", 67, 32751, 102498304, 0x7e7c1adf7c428d51},
    {"t5_base_seq32", 32, 32128, 830472192, 0xe257078ced197ba5},
    {"unet_sd15_24", 24, 21960, 671098880, 0x4880131d82a68ed5}};

struct ProgramFacts {
  const char* name;
  size_t buffers;
  int64_t bound;
  uint64_t checksum;
};

constexpr ProgramFacts kProgramFacts[] = {{"long_1000", 1000, 171225088, 0x2a4150e391129ba3},
                                          {"long_20000", 20000, 2904555008, 0xef034770978f1eee},
                                          {"long_5000", 5000, 676784128, 0xb4bd78d02adfdc61},
                                          {"mix_1000", 1000, 34778112, 0xc1f47c4b464ab999},
                                          {"mix_20000", 20000, 348709888, 0x77a2578665532763},
                                          {"mix_5000", 5000, 259171840, 0x37c9404f3d1dd25f},
                                          {"short_1000", 1000, 117255168, 0x7f3b723d88385c0f},
                                          {"short_20000", 20000, 226827776, 0xa69ef2149c06bef4},
                                          {"short_5000", 5000, 59484672, 0x24b48ffc9a689b3d},
                                          {"gpt_L12", 560, 2959884480, 0x3f9af70e20956069},
                                          {"gpt_L120", 5528, 18396759936, 0xffb4852a77179901},
                                          {"gpt_L360", 16568, 52700927616, 0x10caeb0bab464361},
                                          {"gpt_L48", 2216, 8105509632, 0x21534e56a67047b1},
                                          {"gptckpt_L240", 15848, 6350831616, 0xf22cee50ded9be57},
                                          {"gptckpt_L48", 3176, 1647329280, 0x919935f3494afc17}};

TEST(ProgramFamiliesTest, BuiltInFamiliesAreThePublishedOnes) {
  ASSERT_EQ(BuiltInFamilies().size(), std::size(kFamilyFacts));
  for (size_t i = 0; i < std::size(kFamilyFacts); ++i) {
    const FamilyFacts& facts = kFamilyFacts[i];
    EXPECT_EQ(BuiltInFamilies()[i].name, facts.name);
    const auto buckets = BuiltInFamilies()[i].Unpack();
    size_t buffers = 0;
    int64_t bound = 0;
    uint64_t checksum = kChecksumBasis;
    for (const std::vector<Buffer>& bucket : buckets) {
      EXPECT_THAT(ValidateBuffers(bucket), IsOk());
      buffers += bucket.size();
      bound = std::max(bound, MaxLiveBytes(bucket));
      checksum = Checksum(checksum, bucket);
    }
    EXPECT_EQ(buckets.size(), facts.buckets) << facts.name;
    EXPECT_EQ(buffers, facts.buffers) << facts.name;
    EXPECT_EQ(bound, facts.bound) << facts.name;
    EXPECT_EQ(checksum, facts.checksum) << facts.name;
  }
}

TEST(ProgramFamiliesTest, BuiltInProgramsAreThePublishedOnes) {
  ASSERT_EQ(BuiltInPrograms().size(), std::size(kProgramFacts));
  for (size_t i = 0; i < std::size(kProgramFacts); ++i) {
    const ProgramFacts& facts = kProgramFacts[i];
    EXPECT_EQ(BuiltInPrograms()[i].name, facts.name);
    const auto programs = BuiltInPrograms()[i].Unpack();
    ASSERT_EQ(programs.size(), 1U) << facts.name;
    const std::vector<Buffer>& buffers = programs.front();
    EXPECT_THAT(ValidateBuffers(buffers), IsOk());
    EXPECT_EQ(buffers.size(), facts.buffers) << facts.name;
    EXPECT_EQ(MaxLiveBytes(buffers), facts.bound) << facts.name;
    EXPECT_EQ(Checksum(kChecksumBasis, buffers), facts.checksum) << facts.name;
  }
}

TEST(ProgramFamiliesTest, AModelNeedsMoreForMoreTokens) {
  const auto bound_of = [](const char* name, size_t bucket) {
    return MaxLiveBytes(UnpackBuiltIn(name).at(bucket));
  };
  EXPECT_LT(bound_of("llama8b_fused_decode67", 3), bound_of("llama8b_fused_decode67", 4));
  EXPECT_LT(bound_of("bert_large_eager_bxs60", 1), bound_of("bert_large_eager_bxs60", 11));
  EXPECT_LT(bound_of("bert_large_sdpa_seq32", 31), bound_of("bert_large_eager_seq32", 31));
}

TEST(PackedProgramsTest, BuffersShareLifetimesAndSizesAndBeginAfterTheOneBeforeOrEarlier) {
  const PackedPrograms packed = {
      .name = "p",
      .text = "shape 3 4 1 -2 10 0 5 1 1\nsizes 8 16\nsizes 9 17\nshape 0 1 0\nsizes 1\n"};
  const auto programs = packed.Unpack();
  ASSERT_EQ(programs.size(), 3U);
  for (size_t i = 0; i < 2; ++i) {
    ASSERT_EQ(programs[i].size(), 3U);
    EXPECT_THAT(programs[i][0].lifetime, ElementsAre(Interval{.lower = 3, .upper = 7}));
    EXPECT_THAT(programs[i][1].lifetime, ElementsAre(Interval{.lower = 1, .upper = 11}));
    EXPECT_THAT(programs[i][2].lifetime, ElementsAre(Interval{.lower = 6, .upper = 7}));
    const int64_t more = static_cast<int64_t>(i);
    EXPECT_EQ(programs[i][0].bytes, 16 + more);
    EXPECT_EQ(programs[i][1].bytes, 8 + more);
    EXPECT_EQ(programs[i][2].bytes, 16 + more);
  }
  ASSERT_EQ(programs[2].size(), 1U);
  EXPECT_THAT(programs[2][0].lifetime, ElementsAre(Interval{.lower = 0, .upper = 1}));
  EXPECT_TRUE((PackedPrograms{}.Unpack().empty()));
}

TEST(PackedProgramsDeathTest, TextThatNoScriptWroteAborts) {
  for (const char* text :
       {"shape 0 1\nsizes 1\n", "shape 0 1 1\nsizes 1\n", "sizes x\n", "0 1 2\n"})
    EXPECT_DEATH((PackedPrograms{.name = "p", .text = text}.Unpack()), "check failed") << text;
}

}  // namespace
}  // namespace coppice
