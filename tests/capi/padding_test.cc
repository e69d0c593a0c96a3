// Goal: coppice.h says what buckets a policy has, and learns policies from sizes.
// Method: ladders in words and in JSON against lists written out; a learned policy against one
// found by hand, read back as any other; what cannot be is an error that says where.

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "coppice/coppice.h"

#include "tests/capi/c_fixture.h"

namespace coppice {
namespace {

using testing::ElementsAre;

coppice_policy PolicyOf(const char* text, int64_t maximum) {
  coppice_policy policy = {};
  policy.struct_size = sizeof(policy);
  policy.text = text;
  policy.maximum = maximum;
  return policy;
}

// The first buckets, as many as `room`; fewer if there are fewer.
std::vector<int64_t> BucketsOf(const char* text, int64_t maximum, size_t room = 64) {
  const coppice_policy policy = PolicyOf(text, maximum);
  std::vector<int64_t> buckets(room, -1);
  int64_t count = 0;
  EXPECT_C_OK(coppice_policy_buckets(&policy, buckets.data(), static_cast<int64_t>(room), &count));
  if (static_cast<size_t>(count) < room) buckets.resize(static_cast<size_t>(count));
  return buckets;
}

coppice_learn_options OptionsOf(int64_t bucket_count, int64_t limit) {
  coppice_learn_options options = {};
  options.struct_size = sizeof(options);
  options.bucket_count = bucket_count;
  options.limit = limit;
  return options;
}

class Learned {
 public:
  Learned(const std::vector<int64_t>& sizes,
          const double* counts,
          const coppice_learn_options& options) {
    const auto learn = [&](char* buffer, size_t buffer_bytes) {
      return coppice_learn_policy(sizes.data(), counts, static_cast<int64_t>(sizes.size()),
                                  &options, buffer, buffer_bytes, &bytes_);
    };
    EXPECT_C_OK(learn(nullptr, 0));
    text_.resize(bytes_ + 1);
    EXPECT_C_OK(learn(text_.data(), text_.size()));
    text_.resize(bytes_);
  }
  const std::string& text() const { return text_; }
  std::vector<int64_t> buckets() const { return nlohmann::json::parse(text_)["buckets"]; }

 private:
  size_t bytes_ = 0;
  std::string text_;
};

TEST(CPaddingTest, LaddersInWordsAndInJsonHaveTheirBuckets) {
  EXPECT_THAT(BucketsOf("pow2", 24), ElementsAre(1, 2, 4, 8, 16, 24));
  EXPECT_THAT(BucketsOf("4,2,9", 9), ElementsAre(2, 4, 9));
  EXPECT_THAT(BucketsOf(R"({"version": 1, "buckets": [3, 8]})", 0), ElementsAre(3, 8));
  EXPECT_THAT(BucketsOf(R"({"version": 1, "ladder": "linear:8", "maximum": 20})", 0),
              ElementsAre(8, 16, 20));
  EXPECT_THAT(BucketsOf("exact", 4), ElementsAre(1, 2, 3, 4));
}

TEST(CPaddingTest, APresetHasAMaximumOfItsOwn) {
  EXPECT_EQ(BucketsOf("vllm", 0, 100).back(), 512);
  EXPECT_EQ(BucketsOf("vllm", 64, 100).back(), 64);
}

TEST(CPaddingTest, NoMoreIsWrittenThanThereIsRoomForAndTheCountIsOfAll) {
  for (const char* const text : {"pow2", "exact"}) {
    const coppice_policy policy = PolicyOf(text, 1 << 20);
    int64_t buckets[3] = {0, 0, -7};
    int64_t count = 0;
    ASSERT_C_OK(coppice_policy_buckets(&policy, buckets, 2, &count));
    EXPECT_THAT(buckets, ElementsAre(1, 2, -7)) << text;
    EXPECT_EQ(count, text == std::string("exact") ? 1 << 20 : 21);
    ASSERT_C_OK(coppice_policy_buckets(&policy, nullptr, 0, &count));
  }
}

TEST(CPaddingTest, WhatIsNoPolicyIsAnError) {
  int64_t count = 7;
  coppice_policy policy = PolicyOf("pow3", 64);
  EXPECT_C_ERROR(COPPICE_INVALID_ARGUMENT, "pow3",
                 coppice_policy_buckets(&policy, nullptr, 0, &count));
  EXPECT_EQ(count, 0);
  policy = PolicyOf("pow2", 0);
  EXPECT_C_ERROR(COPPICE_INVALID_ARGUMENT, "give its maximum",
                 coppice_policy_buckets(&policy, nullptr, 0, &count));
  policy = PolicyOf(R"({"version": 2, "buckets": [1]})", 0);
  EXPECT_C_ERROR(COPPICE_UNIMPLEMENTED, "version",
                 coppice_policy_buckets(&policy, nullptr, 0, &count));
  policy = PolicyOf("pow2", 64);
  EXPECT_C_ERROR(COPPICE_INVALID_ARGUMENT, "room",
                 coppice_policy_buckets(&policy, nullptr, 1, &count));
  EXPECT_C_ERROR(COPPICE_INVALID_ARGUMENT, "room",
                 coppice_policy_buckets(&policy, nullptr, -1, &count));
  policy.struct_size = 0;
  EXPECT_C_ERROR(COPPICE_INVALID_ARGUMENT, "sizeof(coppice_policy)",
                 coppice_policy_buckets(&policy, nullptr, 0, &count));
}

// By hand: of 3 calls of 3 and one of 7 and 40 each, two buckets pad 3 by 4 at the least.
TEST(CPaddingTest, TheBucketsThatPadTheLeastAreLearned) {
  const std::vector<int64_t> sizes = {3, 3, 3, 7, 40};
  coppice_learn_options options = OptionsOf(3, 0);
  options.prior = -1;
  const Learned learned(sizes, nullptr, options);
  EXPECT_THAT(learned.buckets(), ElementsAre(3, 7, 40));
  EXPECT_THAT(BucketsOf(learned.text().c_str(), 0), ElementsAre(3, 7, 40));
  options.bucket_count = 2;
  EXPECT_THAT(Learned(sizes, nullptr, options).buckets(), ElementsAre(7, 40));
}

TEST(CPaddingTest, CountsWeighSizesAndOptionsBoundBuckets) {
  const std::vector<int64_t> sizes = {10, 20, 10};
  const double counts[] = {1, 1000, 1};
  coppice_learn_options options = OptionsOf(2, 64);
  EXPECT_THAT(Learned(sizes, counts, options).buckets(), ElementsAre(20, 64));
  const int64_t forced[] = {33};
  options.bucket_count = 3;
  options.forced = forced;
  options.forced_count = 1;
  options.align = 8;
  EXPECT_THAT(Learned(sizes, counts, options).buckets(), ElementsAre(24, 33, 64));
  options = OptionsOf(0, 64);
  options.price = 1e9;
  EXPECT_THAT(Learned(sizes, counts, options).buckets(), ElementsAre(64));
  options = OptionsOf(7, 64);
  options.max_ratio = 2;
  int64_t before = 0;
  for (const int64_t bucket : Learned(sizes, counts, options).buckets()) {
    EXPECT_LE(bucket, 2 * (before + 1));
    before = bucket;
  }
}

TEST(CPaddingTest, WhatNothingIsLearnedFromIsAnError) {
  const std::vector<int64_t> sizes = {5, 9};
  const auto learn = [&](const coppice_learn_options* options, const double* counts = nullptr) {
    return coppice_learn_policy(sizes.data(), counts, 2, options, nullptr, 0, nullptr);
  };
  EXPECT_C_ERROR(COPPICE_INVALID_ARGUMENT, "neither a count nor a price", learn(nullptr));
  coppice_learn_options options = OptionsOf(2, 0);
  EXPECT_C_ERROR(COPPICE_INVALID_ARGUMENT, "no call",
                 coppice_learn_policy(nullptr, nullptr, 0, &options, nullptr, 0, nullptr));
  EXPECT_C_ERROR(COPPICE_INVALID_ARGUMENT, "null, but",
                 coppice_learn_policy(nullptr, nullptr, 3, &options, nullptr, 0, nullptr));
  EXPECT_C_ERROR(COPPICE_INVALID_ARGUMENT, "sizes: -1",
                 coppice_learn_policy(sizes.data(), nullptr, -1, &options, nullptr, 0, nullptr));
  for (const double count : {0.0, -1.0, std::numeric_limits<double>::quiet_NaN()}) {
    const double counts[] = {1, count};
    EXPECT_C_ERROR(COPPICE_INVALID_ARGUMENT, "count", learn(&options, counts));
  }
  options.bucket_count = 100;
  EXPECT_C_ERROR(COPPICE_INVALID_ARGUMENT, "", learn(&options));
  options = OptionsOf(2, -4);
  EXPECT_C_ERROR(COPPICE_INVALID_ARGUMENT, "limit", learn(&options));
  options = OptionsOf(2, 0);
  options.forced_count = 1;
  EXPECT_C_ERROR(COPPICE_INVALID_ARGUMENT, "forced", learn(&options));
  options.struct_size = 2;
  EXPECT_C_ERROR(COPPICE_INVALID_ARGUMENT, "sizeof(coppice_learn_options)", learn(&options));
}

}  // namespace
}  // namespace coppice
