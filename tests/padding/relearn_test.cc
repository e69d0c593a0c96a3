// Goal: a swap adds no more buckets than it may, saves what it says, and is the best there is.
// Method: every ladder of small cases, tried one by one; traffic that moves; bad input.

#include "coppice/padding/relearn.h"

#include "coppice/padding/padding_policy.h"
#include "coppice/padding/score_buckets.h"

#include "tests/support/test.h"
#include "tests/support/test_device.h"

namespace coppice {
namespace {

SizeHistogram TrafficOf(const std::vector<SizeCount>& counts) {
  absl::StatusOr<SizeHistogram> histogram = SizeHistogram::From(counts);
  EXPECT_OK(histogram);
  return *std::move(histogram);
}

// No prior, no caps, and every gain is worth a swap.
RelearnOptions Plain(int64_t limit, int64_t count, int64_t added_max) {
  return {.learn = {.limit = limit, .count = count, .prior = 0},
          .added_max = added_max,
          .gain_min = 0,
          .gain_each = 0};
}

// Whether nothing but calls and their prior judges buckets.
bool OnlyCallsJudge(const LearnOptions& learn) {
  return learn.prior > 0 && learn.max_ratio == 0 && learn.price == 0 && !learn.price_of;
}

int64_t LargestOf(const SizeHistogram& histogram) {
  return std::max<int64_t>(histogram.largest(), 1);
}

// What the calls cost, and the prior's, padded by `buckets`. Requires: no call above the limit.
double CostOf(const SizeHistogram& histogram,
              const std::vector<int64_t>& buckets,
              const LearnOptions& learn) {
  std::vector<double> prior = {0};
  double sum = 0;
  for (int64_t size = 1; size <= (OnlyCallsJudge(learn) ? LargestOf(histogram) : learn.limit);
       ++size) {
    const auto elements = static_cast<double>(size);
    prior.push_back(0);
    for (const SizeCount& each : histogram.counts()) {
      const double share = std::max(static_cast<double>(each.size), 1.0) / elements;
      prior.back() += each.count * std::min(1.0, share * share) / elements;
    }
    sum += prior.back();
  }
  double cost = 0;
  for (int64_t size = 0; size < std::ssize(prior); ++size) {
    double weight = prior[static_cast<size_t>(size)] * learn.prior * histogram.mass() / sum;
    for (const SizeCount& each : histogram.counts())
      if (each.size == size) weight += (1 - learn.prior) * each.count;
    cost += weight * static_cast<double>(*std::lower_bound(buckets.begin(), buckets.end(), size));
  }
  return cost;
}

bool KeepsCaps(const std::vector<int64_t>& buckets, const LearnOptions& learn) {
  if (learn.max_ratio == 0) return true;
  int64_t before = 0;
  for (const int64_t bucket : buckets) {
    const int64_t smallest = before + 1;
    const bool near =
        static_cast<double>(bucket) <= learn.max_ratio * static_cast<double>(smallest) ||
        bucket - smallest <= learn.max_gap || bucket == smallest;
    if (!near) return false;
    before = bucket;
  }
  return true;
}

int64_t AddedTo(const std::vector<int64_t>& old, const std::vector<int64_t>& buckets) {
  return std::count_if(buckets.begin(), buckets.end(), [&](int64_t bucket) {
    return !std::binary_search(old.begin(), old.end(), bucket);
  });
}

double PriceOf(const std::vector<int64_t>& buckets, const LearnOptions& learn) {
  double price = 0;
  for (const int64_t bucket : buckets)
    price += learn.price_of ? learn.price_of(bucket) : learn.price;
  return price;
}

// Of the old buckets those that follow `below`: each the largest up to twice the one before, or the
// next one.
std::vector<int64_t> RestOf(const std::vector<int64_t>& old, int64_t below) {
  std::vector<int64_t> rest;
  for (size_t i = 0; i < old.size(); ++i) {
    if (old[i] <= below || (i + 1 < old.size() && old[i + 1] <= 2 * below)) continue;
    rest.push_back(old[i]);
    below = old[i];
  }
  return rest;
}

// How many buckets there may be up to the old one that holds `largest`.
int64_t RoomOf(const std::vector<int64_t>& old, int64_t largest, const RelearnOptions& options) {
  const int64_t count = options.learn.count;
  if (!options.counts_uncalled) return count;
  const auto end = std::lower_bound(old.begin(), old.end(), largest);
  return std::max(count - std::ssize(RestOf(old, *end)),
                  std::min<int64_t>(count, end - old.begin() + 1));
}

// The least cost of all ladders that the options allow, prices included, or infinity.
double LeastCost(const SizeHistogram& histogram,
                 const std::vector<int64_t>& old,
                 const RelearnOptions& options) {
  double least = std::numeric_limits<double>::infinity();
  const std::vector<int64_t>& must = options.learn.forced;
  int64_t first = options.learn.limit;
  int64_t last = first;
  if (OnlyCallsJudge(options.learn)) {
    // A ladder is judged up to the largest size, or to the old bucket that holds it.
    first = std::max(LargestOf(histogram), must.empty() ? 0 : *std::ranges::max_element(must));
    last = *std::lower_bound(old.begin(), old.end(), first);
  }
  const int64_t room = RoomOf(old, first, options);
  for (uint64_t set = 1; set < uint64_t{1} << last; ++set) {
    std::vector<int64_t> buckets;
    for (int64_t size = 1; size <= last; ++size)
      if ((set >> (size - 1) & 1) != 0) buckets.push_back(size);
    if (buckets.back() < first || std::ssize(buckets) > room ||
        AddedTo(old, buckets) > options.added_max || !KeepsCaps(buckets, options.learn))
      continue;
    const bool forced = std::all_of(must.begin(), must.end(), [&](int64_t size) {
      return std::binary_search(buckets.begin(), buckets.end(), size);
    });
    if (forced)
      least = std::min(least,
                       CostOf(histogram, buckets, options.learn) + PriceOf(buckets, options.learn));
  }
  return least;
}

// That there are no more buckets than may be up to the one that holds the largest size and what is
// forced, and that the old ones follow it.
void ExpectRoom(const SizeHistogram& histogram,
                const std::vector<int64_t>& old,
                const std::vector<int64_t>& buckets,
                const RelearnOptions& options) {
  const LearnOptions& learn = options.learn;
  if (!OnlyCallsJudge(learn)) {
    EXPECT_LE(std::ssize(buckets), learn.count);
    return;
  }
  int64_t largest = LargestOf(histogram);
  for (const int64_t size : learn.forced)
    largest = std::max(largest, size);
  const auto last = std::lower_bound(buckets.begin(), buckets.end(), largest);
  EXPECT_LE(last - buckets.begin() + 1, RoomOf(old, largest, options));
  EXPECT_EQ(std::vector<int64_t>(last + 1, buckets.end()), RestOf(old, *last));
}

TEST(RelearnTest, EqualsTheBestOfAllLadders) {
  std::mt19937_64 random(TestSeed());
  for (int i = 0; i < 400; ++i) {
    const auto draw = [&](int64_t low, int64_t high) {
      return low + static_cast<int64_t>(random() % static_cast<uint64_t>(high - low + 1));
    };
    const int64_t limit = draw(4, 11);
    std::vector<SizeCount> counts;
    for (int64_t j = draw(1, 6); j > 0; --j)
      counts.push_back({.size = draw(0, draw(2, limit)), .count = static_cast<double>(draw(1, 9))});
    std::vector<int64_t> old;
    for (int64_t size = 1; size < limit; ++size)
      if (draw(0, 2) == 0) old.push_back(size);
    old.push_back(limit);
    RelearnOptions options =
        Plain(limit, draw(static_cast<int64_t>(old.size()), limit), draw(0, 3));
    options.counts_uncalled = draw(0, 1) == 0;
    options.learn.prior = draw(0, 1) == 0 ? 0 : 0.05;
    if (draw(0, 2) == 0) options.learn.forced = {draw(1, limit)};
    if (draw(0, 2) == 0) options.learn.price = static_cast<double>(draw(1, 8));
    if (draw(0, 3) == 0)
      options.learn.price_of = [each = draw(0, 5)](int64_t bucket) {
        return static_cast<double>((each * bucket) % 7);
      };
    const SizeHistogram histogram = TrafficOf(counts);

    const absl::StatusOr<Relearned> relearned = Relearn(histogram, old, options);
    if (!relearned.ok()) continue;  // A count that the forced sizes do not fit.
    EXPECT_LE(AddedTo(old, relearned->buckets), options.added_max);
    if (relearned->swap) ExpectRoom(histogram, old, relearned->buckets, options);
    const double before = relearned->waste_before_pct + relearned->price_before_pct;
    const double after = relearned->waste_after_pct + relearned->price_after_pct;
    EXPECT_EQ(relearned->swap, after < before);
    const double least = LeastCost(histogram, old, options);
    if (!relearned->swap) continue;
    EXPECT_NEAR(CostOf(histogram, relearned->buckets, options.learn) +
                    PriceOf(relearned->buckets, options.learn),
                least, 1e-9 * least);
  }
}

TEST(RelearnTest, BucketsThatNobodyCallsStayBesideTheCount) {
  const SizeHistogram histogram = TrafficOf({{20, 100}, {22, 100}, {28, 100}});
  RelearnOptions options = Plain(4096, 3, 4);
  options.learn.prior = 0.02;
  const std::vector<int64_t> old = {24, 32, 64, 70, 80, 128, 256, 512, 1024, 2048, 4096};
  COPPICE_ASSERT_OK_AND_ASSIGN(Relearned relearned, Relearn(histogram, old, options));
  EXPECT_THAT(relearned.buckets, ElementsAre(20, 22, 28, 32, 64, 128, 256, 512, 1024, 2048, 4096));
  options.learn.forced = {40};
  COPPICE_ASSERT_OK_AND_ASSIGN(relearned, Relearn(histogram, old, options));
  EXPECT_THAT(relearned.buckets, ElementsAre(22, 28, 40, 80, 128, 256, 512, 1024, 2048, 4096));
}

TEST(RelearnTest, BucketsThatNobodyCallsMayCountAndLeaveRoom) {
  const SizeHistogram histogram = TrafficOf({{20, 100}, {22, 100}, {28, 100}});
  RelearnOptions options = Plain(4096, 11, 4);
  options.counts_uncalled = true;
  options.learn.prior = 0.02;
  const std::vector<int64_t> old = {24, 32, 64, 70, 80, 128, 256, 512, 1024, 2048, 4096};
  COPPICE_ASSERT_OK_AND_ASSIGN(Relearned relearned, Relearn(histogram, old, options));
  EXPECT_THAT(relearned.buckets,
              ElementsAre(6, 20, 22, 28, 32, 64, 128, 256, 512, 1024, 2048, 4096));
  options.learn.forced = {40};
  COPPICE_ASSERT_OK_AND_ASSIGN(relearned, Relearn(histogram, old, options));
  EXPECT_THAT(relearned.buckets,
              ElementsAre(20, 22, 24, 28, 40, 80, 128, 256, 512, 1024, 2048, 4096));
}

TEST(RelearnTest, WithCapsItEqualsTheBestOfThoseThatKeepThem) {
  std::mt19937_64 random(TestSeed());
  const std::vector<int64_t> old = {1, 2, 3, 5, 7, 9, 12};
  for (int i = 0; i < 100; ++i) {
    RelearnOptions options = Plain(12, 8, static_cast<int64_t>(random() % 4));
    options.learn.max_ratio = 1.25;
    options.learn.max_gap = 2;
    std::vector<SizeCount> counts;
    for (int j = 0; j < 4; ++j)
      counts.push_back({.size = 1 + static_cast<int64_t>(random() % 12),
                        .count = 1 + static_cast<double>(random() % 9)});
    const SizeHistogram histogram = TrafficOf(counts);
    COPPICE_ASSERT_OK_AND_ASSIGN(const Relearned relearned, Relearn(histogram, old, options));
    EXPECT_TRUE(KeepsCaps(relearned.buckets, options.learn));
    if (!relearned.swap) continue;
    const double least = LeastCost(histogram, old, options);
    EXPECT_NEAR(CostOf(histogram, relearned.buckets, options.learn), least, 1e-9 * least);
  }
}

TEST(RelearnTest, WhatSavesTooLittleIsNoSwap) {
  const SizeHistogram histogram = TrafficOf({{9, 1}, {16, 100}});
  const std::vector<int64_t> old = {8, 16};
  RelearnOptions options = Plain(16, 2, 1);
  COPPICE_ASSERT_OK_AND_ASSIGN(const Relearned worth, Relearn(histogram, old, options));
  EXPECT_THAT(worth.buckets, ElementsAre(9, 16));
  EXPECT_THAT(worth.dropped, ElementsAre(8));
  options.gain_min = 1;
  COPPICE_ASSERT_OK_AND_ASSIGN(const Relearned noise, Relearn(histogram, old, options));
  EXPECT_FALSE(noise.swap);
  EXPECT_EQ(noise.buckets, old);
  EXPECT_THAT(noise.added, IsEmpty());
  EXPECT_THAT(noise.dropped, IsEmpty());
  EXPECT_EQ(noise.waste_after_pct, noise.waste_before_pct);
}

TEST(RelearnTest, EachNewBucketHasToSaveItsPart) {
  // One new bucket saves much, a second one next to nothing.
  const SizeHistogram histogram = TrafficOf({{9, 1000}, {13, 1}, {16, 10}});
  const std::vector<int64_t> old = {8, 16};
  RelearnOptions options = Plain(16, 4, 2);
  COPPICE_ASSERT_OK_AND_ASSIGN(const Relearned both, Relearn(histogram, old, options));
  EXPECT_THAT(both.added, ElementsAre(9, 13));
  options.gain_each = 0.25;
  COPPICE_ASSERT_OK_AND_ASSIGN(const Relearned one, Relearn(histogram, old, options));
  EXPECT_THAT(one.added, ElementsAre(9));
}

TEST(RelearnTest, PricesCountAsWasteDoesOnBothSides) {
  // 8 saves 100 x 8 elements, of 1,600 real ones that is 50 points.
  const SizeHistogram histogram = TrafficOf({{8, 100}, {16, 50}});
  const std::vector<int64_t> old = {8, 16};
  RelearnOptions options = Plain(16, 2, 1);
  options.learn.price = 799;
  COPPICE_ASSERT_OK_AND_ASSIGN(const Relearned kept, Relearn(histogram, old, options));
  EXPECT_FALSE(kept.swap);
  EXPECT_DOUBLE_EQ(kept.price_before_pct, 100 * 2 * 799 / 1600.0);
  EXPECT_EQ(kept.price_after_pct, kept.price_before_pct);
  options.learn.price = 801;
  COPPICE_ASSERT_OK_AND_ASSIGN(const Relearned fewer, Relearn(histogram, old, options));
  EXPECT_TRUE(fewer.swap);
  EXPECT_THAT(fewer.buckets, ElementsAre(16));
  EXPECT_EQ(fewer.waste_before_pct, 0);
  EXPECT_EQ(fewer.waste_after_pct, 50) << "more waste, and the better ladder";
  EXPECT_DOUBLE_EQ(fewer.price_after_pct, 100 * 801 / 1600.0);
  options.gain_min = 0.1;
  EXPECT_FALSE(Relearn(histogram, old, options)->swap) << "it saves 1 of 1,600 elements";
  options.gain_min = 0;
  options.learn.price_of = [](int64_t bucket) { return bucket == 8 ? 1 : 1e6; };
  EXPECT_FALSE(Relearn(histogram, old, options)->swap) << "each bucket has its own price";
}

TEST(RelearnTest, WithoutElementsPricesAreNoPoints) {
  RelearnOptions options = Plain(16, 2, 1);
  options.learn.price = 10;
  COPPICE_ASSERT_OK_AND_ASSIGN(const Relearned relearned,
                               Relearn(TrafficOf({{0, 5}}), std::vector<int64_t>{8, 16}, options));
  EXPECT_EQ(relearned.price_before_pct, 0);
  EXPECT_FALSE(relearned.swap);
}

TEST(RelearnTest, MoreBucketsThanThereMayBeGoWhateverThatCosts) {
  const SizeHistogram histogram = TrafficOf({{2, 10}, {4, 10}, {8, 10}, {16, 10}});
  const std::vector<int64_t> old = {2, 4, 8, 16};
  COPPICE_ASSERT_OK_AND_ASSIGN(const Relearned relearned, Relearn(histogram, old, Plain(16, 3, 1)));
  EXPECT_TRUE(relearned.swap);
  EXPECT_EQ(relearned.buckets.size(), 3U);
  EXPECT_GT(relearned.waste_after_pct, relearned.waste_before_pct);
}

TEST(RelearnTest, WithoutACountThereAreAsManyAsPayTheirPrice) {
  const SizeHistogram histogram = TrafficOf({{2, 100}, {4, 100}, {8, 100}, {16, 100}});
  RelearnOptions options = Plain(16, 0, 3);
  options.learn.price = 1;
  COPPICE_ASSERT_OK_AND_ASSIGN(Relearned relearned,
                               Relearn(histogram, std::vector<int64_t>{16}, options));
  EXPECT_THAT(relearned.buckets, ElementsAre(2, 4, 8, 16));
  // More than that are there, and going saves next to nothing.
  options.gain_min = 1;
  const std::vector<int64_t> five = {2, 3, 4, 8, 16};
  EXPECT_FALSE(Relearn(histogram, five, options)->swap);
  options.learn.price = 1e4;
  COPPICE_ASSERT_OK_AND_ASSIGN(relearned, Relearn(histogram, five, options));
  EXPECT_THAT(relearned.buckets, ElementsAre(16));
}

TEST(RelearnTest, CapsThatFewNewBucketsCannotMendHaveNoPart) {
  const SizeHistogram histogram = TrafficOf({{100, 10}});
  RelearnOptions options = Plain(512, 25, 1);
  options.learn.max_ratio = 1.25;
  options.learn.max_gap = 2;
  COPPICE_ASSERT_OK_AND_ASSIGN(const Relearned relearned,
                               Relearn(histogram, std::vector<int64_t>{64, 512}, options));
  EXPECT_THAT(relearned.added, ElementsAre(100));
}

TEST(RelearnTest, StepByStepItReachesWhatLearningAtOnceFinds) {
  std::mt19937_64 random(TestSeed());
  std::vector<SizeCount> counts;
  for (int i = 0; i < 40; ++i)
    counts.push_back({.size = 1 + static_cast<int64_t>(random() % 512),
                      .count = 1 + static_cast<double>(random() % 50)});
  const SizeHistogram histogram = TrafficOf(counts);
  RelearnOptions options = Plain(512, 12, 4);
  COPPICE_ASSERT_OK_AND_ASSIGN(const LearnedBuckets best, LearnBuckets(histogram, options.learn));
  std::vector<int64_t> buckets = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512};
  double waste = 1e300;
  for (int i = 0; i < 6; ++i) {
    COPPICE_ASSERT_OK_AND_ASSIGN(const Relearned relearned, Relearn(histogram, buckets, options));
    EXPECT_LE(relearned.added.size(), 4U);
    EXPECT_LE(relearned.waste_after_pct, waste);
    buckets = relearned.buckets;
    waste = relearned.waste_after_pct;
  }
  EXPECT_NEAR(waste, best.waste_pct, 1e-9 * best.waste_pct);
}

TEST(RelearnTest, ManyCandidatesAreChosenAmong) {
  std::vector<SizeCount> counts;
  for (int64_t size = 1; size <= 100'000; size += 7)
    counts.push_back({.size = size, .count = 1e5 / static_cast<double>(size)});
  const SizeHistogram histogram = TrafficOf(counts);
  RelearnOptions options = Plain(131072, 32, 8);
  options.learn.align = 16;
  std::vector<int64_t> buckets;
  for (int64_t size = 16; size <= 131072; size *= 2)
    buckets.push_back(size);
  for (int i = 0; i < 6; ++i) {
    COPPICE_ASSERT_OK_AND_ASSIGN(const Relearned relearned, Relearn(histogram, buckets, options));
    buckets = relearned.buckets;
    for (const int64_t bucket : relearned.added)
      EXPECT_EQ(bucket % 16, 0);
  }
  COPPICE_ASSERT_OK_AND_ASSIGN(const LearnedBuckets best, LearnBuckets(histogram, options.learn));
  COPPICE_ASSERT_OK_AND_ASSIGN(const PaddingPolicy policy, PaddingPolicy::List(buckets, 131072));
  EXPECT_LT(ScoreBuckets(histogram, policy).waste_pct, 1.05 * best.waste_pct);
}

TEST(RelearnTest, RefusesLaddersAndOptionsThatAreNone) {
  const SizeHistogram histogram = TrafficOf({{3, 1}});
  for (const std::vector<int64_t>& old :
       {std::vector<int64_t>{}, {0, 16}, {8}, {8, 32}, {8, 4, 16}, {4, 4, 16}})
    EXPECT_THAT(Relearn(histogram, old, Plain(16, 4, 1)), StatusIs(kWrongArgument));
  EXPECT_THAT(Relearn(histogram, std::vector<int64_t>{16}, Plain(16, 4, -1)),
              StatusIs(kWrongArgument));
  EXPECT_THAT(Relearn(SizeHistogram(), std::vector<int64_t>{16}, Plain(16, 4, 1)),
              StatusIs(kWrongArgument));
}

}  // namespace
}  // namespace coppice
