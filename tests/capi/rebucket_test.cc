// Goal: coppice.h learns the buckets of a running program again, and replaces them, as its C++
// header says.
// Method: a callable in powers of two gets sizes that those pad by much; what is in force is read
// back as JSON, and calls before and after are right. What is asked of the wrong symbol or with
// wrong options is an error, and changes nothing.

#include "nlohmann/json.hpp"

#include "coppice/coppice.h"

#include "tests/capi/callable_fixture.h"

namespace coppice {
namespace {

using testing::Contains;
using testing::Ge;

coppice_rebucket_options AtAnyTime() {
  coppice_rebucket_options options = {.struct_size = sizeof(options)};
  options.period = -1;
  return options;
}

class RebucketTest : public CallableFixture {
 protected:
  void SetUp() override {
    CallableFixture::SetUp();
    LoadKernels();
    const Body body = [this](coppice_context* context) { return ScaleInput(context, 5); };
    program_ = RegisterBody("observed", body, {"y"},
                            [](Spec& spec) { spec.policy.observe_half_life = HUGE_VAL; });
    unobserved_ = RegisterBody("unobserved", body);
  }

  // Calls of sizes that powers of two pad to 32, three of each.
  void Serve() {
    for (int64_t size = 20; size <= 28; ++size)
      for (int call = 0; call < 3; ++call)
        EXPECT_EQ(RunOn(Ramp(size)), Ramp(size, 5));
  }
  coppice_rebucket_report Rebucket(const coppice_rebucket_options* options) {
    coppice_rebucket_report report = {.struct_size = sizeof(report)};
    EXPECT_C_OK(coppice_rebucket(session_, program_, "n", options, &report));
    return report;
  }
  nlohmann::json Policy() {
    return nlohmann::json::parse(TextOf([this](char* buffer, size_t room, size_t* bytes) {
      return coppice_get_policy(session_, program_, "n", buffer, room, bytes);
    }));
  }
  nlohmann::json Observed() {
    return nlohmann::json::parse(TextOf([this](char* buffer, size_t room, size_t* bytes) {
      return coppice_get_observed(session_, program_, "n", buffer, room, bytes);
    }));
  }

  coppice_program* unobserved_ = nullptr;
};

TEST_F(RebucketTest, BucketsFollowTheTraffic) {
  Serve();
  const nlohmann::json before = Policy();
  EXPECT_EQ(before["ladder"], "pow2");
  const coppice_rebucket_options options = AtAnyTime();
  const coppice_rebucket_report report = Rebucket(&options);
  EXPECT_EQ(report.outcome, COPPICE_REBUCKET_SWAPPED);
  EXPECT_EQ(report.calls, 27);
  EXPECT_GE(report.added, 1);
  EXPECT_GE(report.graphs, 1);
  EXPECT_LT(report.waste_after_pct, report.waste_before_pct);
  EXPECT_STREQ(report.why, "");
  const std::vector<int64_t> buckets = Policy()["buckets"];
  EXPECT_THAT(buckets, Contains(28));
  EXPECT_EQ(buckets.back(), 256);
  int32_t kind = -1;
  EXPECT_EQ(RunOn(Ramp(28), &kind), Ramp(28, 5));
  EXPECT_EQ(kind, COPPICE_RUN_REPLAY) << "the new bucket was recorded before the swap";
  Serve();
}

TEST_F(RebucketTest, AnOptionOf0IsTheDefaultAndOneBelow0IsNone) {
  Serve();
  EXPECT_EQ(Rebucket(nullptr).outcome, COPPICE_REBUCKET_NOT_DUE) << "before 2,000 calls";
  coppice_rebucket_options options = AtAnyTime();
  options.added_max = -1;
  EXPECT_EQ(Rebucket(&options).outcome, COPPICE_REBUCKET_KEPT);
  options = AtAnyTime();
  options.gain_min = 1000;
  EXPECT_EQ(Rebucket(&options).outcome, COPPICE_REBUCKET_KEPT);
  options = AtAnyTime();
  options.graphs_max = -1;
  EXPECT_EQ(Rebucket(&options).outcome, COPPICE_REBUCKET_LIMITED);
  options = AtAnyTime();
  options.dry_run = 1;
  EXPECT_EQ(Rebucket(&options).outcome, COPPICE_REBUCKET_WOULD_SWAP);
  EXPECT_EQ(Policy()["ladder"], "pow2") << "nothing has changed";
}

TEST_F(RebucketTest, UnderPressureFewerBucketsWin) {
  for (const int64_t size : {8, 16, 32, 64, 128, 256})
    for (int call = 0; call < 3; ++call)
      EXPECT_EQ(RunOn(Ramp(size)), Ramp(size, 5));
  coppice_rebucket_options options = AtAnyTime();
  EXPECT_EQ(Rebucket(&options).outcome, COPPICE_REBUCKET_KEPT) << "nothing is padded";
  options.cost_per_byte = 1;  // No graph is worth as much.
  EXPECT_EQ(Rebucket(&options).outcome, COPPICE_REBUCKET_SWAPPED);
  EXPECT_THAT(Policy()["buckets"], ElementsAre(256));
  for (const double cost : {-1.0, std::nan(""), HUGE_VAL}) {
    options.cost_per_byte = cost;
    coppice_rebucket_report report = {.struct_size = sizeof(report)};
    EXPECT_C_ERROR(COPPICE_INVALID_ARGUMENT, "per byte",
                   coppice_rebucket(session_, program_, "n", &options, &report));
  }
}

TEST_F(RebucketTest, APolicyIsReplaced) {
  EXPECT_EQ(RunOn(Ramp(20)), Ramp(20, 5));
  coppice_policy policy = {.struct_size = sizeof(policy)};
  policy.text = R"({"version": 1, "buckets": [24, 256]})";
  ASSERT_C_OK(coppice_set_policy(session_, program_, "n", &policy));
  EXPECT_THAT(Policy()["buckets"], ElementsAre(24, 256));
  for (int call = 0; call < 3; ++call)
    EXPECT_EQ(RunOn(Ramp(20)), Ramp(20, 5));
  std::vector<int64_t> served;
  for (const nlohmann::json& bucket : Buckets())
    if (bucket["program"] == "observed") served.push_back(bucket["bucket"][0]);
  EXPECT_THAT(served, Contains(24));
}

TEST_F(RebucketTest, WhatWasObservedIsWrittenAndReadBack) {
  Serve();
  const nlohmann::json observed = Observed();
  EXPECT_EQ(observed["calls"], 27);
  ASSERT_EQ(observed["sizes"].size(), 9U);
  std::vector<int64_t> sizes;
  for (const nlohmann::json& pair : observed["sizes"])
    sizes.push_back(pair[0]);
  EXPECT_THAT(sizes, Each(Ge(20)));
  ASSERT_C_OK(coppice_set_observed(session_, program_, "n", observed.dump().c_str()));
  EXPECT_EQ(Observed(), observed);
  EXPECT_C_ERROR(COPPICE_INVALID_ARGUMENT, "", coppice_set_observed(session_, program_, "n", "{"));
  EXPECT_C_ERROR(COPPICE_INVALID_ARGUMENT, "null",
                 coppice_set_observed(session_, program_, "n", nullptr));
  EXPECT_EQ(Observed(), observed);
}

TEST_F(RebucketTest, WhatCannotBeIsAnErrorAndChangesNothing) {
  const nlohmann::json before = Policy();
  coppice_rebucket_report report = {.struct_size = sizeof(report)};
  const coppice_rebucket_options options = AtAnyTime();
  EXPECT_C_ERROR(COPPICE_INVALID_ARGUMENT, "has no symbol 'm'",
                 coppice_rebucket(session_, program_, "m", &options, &report));
  EXPECT_C_ERROR(COPPICE_INVALID_ARGUMENT, "observe",
                 coppice_rebucket(session_, unobserved_, "n", &options, &report));
  EXPECT_C_ERROR(COPPICE_INVALID_ARGUMENT, "observe",
                 coppice_get_observed(session_, unobserved_, "n", nullptr, 0, nullptr));
  for (const coppice_status status : {
           coppice_rebucket(nullptr, program_, "n", &options, &report),
           coppice_rebucket(session_, nullptr, "n", &options, &report),
           coppice_rebucket(session_, program_, nullptr, &options, &report),
           coppice_rebucket(session_, program_, "n", &options, nullptr),
           coppice_set_policy(nullptr, program_, "n", nullptr),
           coppice_set_policy(session_, program_, "n", nullptr),
           coppice_get_policy(session_, nullptr, "n", nullptr, 0, nullptr),
           coppice_get_observed(nullptr, program_, "n", nullptr, 0, nullptr),
       }) {
    EXPECT_EQ(status, COPPICE_INVALID_ARGUMENT);
  }
  coppice_policy policy = {.struct_size = sizeof(policy)};
  policy.text = "pow2";
  policy.maximum = 128;
  EXPECT_C_ERROR(COPPICE_INVALID_ARGUMENT, "128",
                 coppice_set_policy(session_, program_, "n", &policy));
  EXPECT_EQ(Policy(), before);
}

}  // namespace
}  // namespace coppice
