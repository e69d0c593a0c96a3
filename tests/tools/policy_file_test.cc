// Goal: policies are read out of files, and cut to a maximum, as the header says. Method: documents
// in the test's own folder.

#include "tools/support/policy_file.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/support/status_matchers.h"
#include "tests/tools/trace_builder.h"

namespace coppice {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(PolicyFileTest, IsWhatEndsAsOne) {
  EXPECT_TRUE(IsPolicyFile("some/policy.json"));
  EXPECT_FALSE(IsPolicyFile("pow2"));
  EXPECT_FALSE(IsPolicyFile("1,2,4"));
}

TEST(PolicyFileTest, HasItsOwnMaximumOrTheOneGiven) {
  const TemporaryFile list(R"({"version": 1, "buckets": [4, 64]})", "list.json");
  COPPICE_ASSERT_OK_AND_ASSIGN(const PaddingPolicy buckets, ReadPolicyFile(list.path()));
  EXPECT_EQ(buckets.maximum(), 64);
  const TemporaryFile ladder(R"({"version": 1, "ladder": "pow2"})", "ladder.json");
  COPPICE_ASSERT_OK_AND_ASSIGN(const PaddingPolicy pow2, ReadPolicyFile(ladder.path(), 8));
  EXPECT_THAT(pow2.buckets(), ElementsAre(1, 2, 4, 8));
}

TEST(PolicyFileTest, IsRefusedWithItsPath) {
  const TemporaryFile other(R"({"version": 2, "buckets": [4]})", "other.json");
  for (const std::string& path : {std::string("/nowhere/p.json"), other.path()}) {
    const absl::StatusOr<PaddingPolicy> policy = ReadPolicyFile(path);
    ASSERT_FALSE(policy.ok());
    EXPECT_THAT(policy.status().message(), HasSubstr(path));
  }
}

TEST(PolicyFileTest, FitsAnotherMaximumWithItsGuard) {
  COPPICE_ASSERT_OK_AND_ASSIGN(const PaddingPolicy list, PaddingPolicy::Parse("2,4,64", 64));
  COPPICE_ASSERT_OK_AND_ASSIGN(const PaddingPolicy policy, list.WithGuard({.max_ratio = 8}));
  COPPICE_ASSERT_OK_AND_ASSIGN(const PaddingPolicy smaller, FitPolicy(policy, 16));
  EXPECT_THAT(smaller.buckets(), ElementsAre(2, 4, 16));
  EXPECT_EQ(smaller.guard(), policy.guard());
  COPPICE_ASSERT_OK_AND_ASSIGN(const PaddingPolicy larger, FitPolicy(policy, 128));
  EXPECT_THAT(larger.buckets(), ElementsAre(2, 4, 64, 128));
  COPPICE_ASSERT_OK_AND_ASSIGN(const PaddingPolicy exact, PaddingPolicy::Exact(64));
  COPPICE_ASSERT_OK_AND_ASSIGN(const PaddingPolicy fitted, FitPolicy(exact, 16));
  EXPECT_TRUE(fitted.is_exact());
  EXPECT_EQ(fitted.maximum(), 16);
}

TEST(PolicyFileTest, BoundsOfBucketsFitTheirMaximumAlone) {
  COPPICE_ASSERT_OK_AND_ASSIGN(const PaddingPolicy list, PaddingPolicy::Parse("2,64", 64));
  COPPICE_ASSERT_OK_AND_ASSIGN(const PaddingPolicy policy,
                               list.WithGuard({.lower_bounds = {0, 16}}));
  EXPECT_OK(FitPolicy(policy, 64));
  EXPECT_THAT(FitPolicy(policy, 16), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(PolicyFileTest, ATextFitsTheMaximumOfEachWhoTakesIt) {
  COPPICE_ASSERT_OK_AND_ASSIGN(const PaddingPolicy list, ParseFittingPolicy("2,4,64", 16));
  EXPECT_THAT(list.buckets(), ElementsAre(2, 4, 16));
  COPPICE_ASSERT_OK_AND_ASSIGN(const PaddingPolicy ladder, ParseFittingPolicy("pow2", 6));
  EXPECT_THAT(ladder.buckets(), ElementsAre(1, 2, 4, 6));
  EXPECT_THAT(ParseFittingPolicy("2,x", 16), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(ParseFittingPolicy("none.json", 16), StatusIs(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace coppice
