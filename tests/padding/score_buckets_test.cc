// Goal: every sentence of score_buckets.h. Method: a histogram that is counted by hand.

#include "coppice/padding/score_buckets.h"

#include "tests/support/test.h"

namespace coppice {
namespace {

SizeHistogram Traffic() {
  const std::vector<SizeCount> counts = {{0, 1}, {1, 10}, {3, 2}, {4, 5}, {9, 4}, {20, 3}};
  return *SizeHistogram::From(counts);
}

PaddingPolicy Ladder(const std::vector<int64_t>& buckets) {
  return *PaddingPolicy::List(buckets, buckets.back());
}

TEST(ScoreBucketsTest, CountsWhatRunsInEachBucket) {
  const PolicyScore score = ScoreBuckets(Traffic(), Ladder({2, 4, 8, 16}));
  ASSERT_EQ(score.per_bucket.size(), 4);
  EXPECT_EQ(score.buckets, 4);
  EXPECT_EQ(score.per_bucket[0].bucket, 2);
  EXPECT_EQ(score.per_bucket[0].calls, 11);
  EXPECT_EQ(score.per_bucket[0].cost, 22);
  EXPECT_EQ(score.per_bucket[0].real_cost, 10);
  EXPECT_EQ(score.per_bucket[1].calls, 7);
  EXPECT_EQ(score.per_bucket[1].cost, 28);
  EXPECT_EQ(score.per_bucket[1].real_cost, 26);
  EXPECT_EQ(score.per_bucket[2].calls, 0);
  EXPECT_EQ(score.per_bucket[3].cost, 64);
  EXPECT_EQ(score.calls, 22);
  EXPECT_EQ(score.beyond, 3);
  EXPECT_EQ(score.refused, 0);
  EXPECT_EQ(score.cost, 114);
  EXPECT_EQ(score.real_cost, 72);
  EXPECT_DOUBLE_EQ(score.waste_pct, 100.0 * 42 / 72);
}

TEST(ScoreBucketsTest, NamesTheSizesThatCostMost) {
  const PolicyScore score = ScoreBuckets(Traffic(), Ladder({2, 4, 8, 16}));
  ASSERT_EQ(score.worst.size(), 3);
  EXPECT_EQ(score.worst[0].size, 9);
  EXPECT_EQ(score.worst[0].bucket, 16);
  EXPECT_EQ(score.worst[0].calls, 4);
  EXPECT_EQ(score.worst[0].cost, 28);
  EXPECT_EQ(score.worst[1].size, 1);
  EXPECT_EQ(score.worst[1].cost, 10);
  // Of equal ones, as sizes 0 and 3 are, the smaller.
  EXPECT_EQ(score.worst[2].size, 0);
  EXPECT_EQ(ScoreBuckets(Traffic(), Ladder({2, 4, 8, 16}), {}, 9).worst.size(), 4);
  EXPECT_TRUE(ScoreBuckets(Traffic(), Ladder({16}), {}, 0).worst.empty());
}

TEST(ScoreBucketsTest, CountsWhatTheGuardRefuses) {
  const PaddingPolicy policy = *Ladder({2, 4, 16}).WithGuard({.max_ratio = 1.5});
  const PolicyScore score = ScoreBuckets(Traffic(), policy);
  EXPECT_EQ(score.refused, 15);  // 0, 1 and 9.
  EXPECT_EQ(score.beyond, 3);
  EXPECT_EQ(score.calls, 7);
  EXPECT_EQ(score.cost, 28);
}

TEST(ScoreBucketsTest, ExactHasABucketPerSizeThatIsCalled) {
  const PolicyScore score = ScoreBuckets(Traffic(), *PaddingPolicy::Exact(100));
  EXPECT_EQ(score.buckets, 5);  // 0 and 1 share one.
  EXPECT_EQ(score.per_bucket[0].bucket, 1);
  EXPECT_EQ(score.per_bucket[4].bucket, 20);
  EXPECT_EQ(score.cost - score.real_cost, 1);
}

TEST(ScoreBucketsTest, TakesAnyCost) {
  const PolicyScore score =
      ScoreBuckets(Traffic(), Ladder({4, 20}), [](int64_t size) { return size > 4 ? 3.0 : 1.0; });
  EXPECT_EQ(score.cost, 18 + 21);
  EXPECT_EQ(score.waste_pct, 0);
}

TEST(ScoreBucketsTest, WithoutACallThereIsNoWaste) {
  const PolicyScore score = ScoreBuckets(SizeHistogram(), Ladder({4}));
  EXPECT_EQ(score.waste_pct, 0);
  EXPECT_EQ(score.per_bucket.size(), 1);
  EXPECT_EQ(ScoreBuckets(Traffic(), Ladder({4}), [](int64_t) { return 0.0; }).waste_pct, 0);
}

}  // namespace
}  // namespace coppice
