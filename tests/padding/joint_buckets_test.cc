// Goal: every sentence of joint_buckets.h. Method: on small random histograms, with printed seeds,
// learned grids against every ladder in place of one of theirs and against every grid; lists
// against every list; both, and large ones, against the invariants.

#include "coppice/padding/joint_buckets.h"

#include "tests/support/test.h"
#include "tests/support/test_device.h"

namespace coppice {
namespace {

JointHistogram HistogramOf(const std::vector<JointCount>& counts) {
  return *JointHistogram::From(counts);
}

JointHistogram Draw(std::mt19937_64& random, JointSize limit, size_t sizes) {
  std::vector<JointCount> counts;
  for (size_t i = 0; i < sizes; ++i) {
    counts.push_back({{1 + static_cast<int64_t>(random() % static_cast<uint64_t>(limit.a)),
                       1 + static_cast<int64_t>(random() % static_cast<uint64_t>(limit.b))},
                      1 + static_cast<double>(random() % 9)});
  }
  return HistogramOf(counts);
}

// What the traffic costs; calls without a bucket as much as the limit.
double CostWith(const JointHistogram& histogram,
                const JointPolicy& policy,
                const JointCost& cost = {}) {
  const JointScore score = ScoreJoint(histogram, policy, cost);
  const double limit = cost ? cost(policy.limit()) : static_cast<double>(policy.limit().elements());
  return score.cost + score.beyond * limit;
}

// Every ladder of `count` rungs up to the limit.
std::vector<std::vector<int64_t>> Ladders(int64_t limit, int64_t count) {
  std::vector<std::vector<int64_t>> ladders;
  for (uint64_t set = 0; set < uint64_t{1} << (limit - 1); ++set) {
    std::vector<int64_t> ladder;
    for (int64_t rung = 1; rung < limit; ++rung) {
      if (set >> (rung - 1) & 1) ladder.push_back(rung);
    }
    ladder.push_back(limit);
    if (std::ssize(ladder) == count) ladders.push_back(ladder);
  }
  return ladders;
}

JointPolicy GridOf(const std::vector<int64_t>& a, const std::vector<int64_t>& b) {
  return *JointPolicy::Grid(*PaddingPolicy::List(a, a.back()), *PaddingPolicy::List(b, b.back()));
}

// What every policy that is learned keeps.
void ExpectInvariants(const JointHistogram& histogram,
                      const JointOptions& options,
                      const LearnedJoint& learned) {
  const JointPolicy& policy = learned.policy;
  ASSERT_LE(policy.count() - learned.doublings, options.count);
  ASSERT_EQ(policy.limit(), options.limit);
  ASSERT_EQ(policy.budget(), options.budget);
  ASSERT_TRUE(policy.Find(options.limit.a, 1));
  ASSERT_TRUE(policy.Find(1, options.limit.b));
  const bool whole = options.budget == 0 || options.limit.elements() <= options.budget;
  if (whole) {
    ASSERT_EQ(policy.Find(options.limit.a, options.limit.b), options.limit);
  }
  for (const JointSize& forced : options.forced)
    ASSERT_EQ(policy.Find(forced.a, forced.b), forced);
  for (const JointCount& entry : histogram.counts()) {
    const std::optional<JointSize> bucket = policy.Find(entry.size.a, entry.size.b);
    if (bucket) {
      ASSERT_TRUE(bucket->Holds(entry.size));
    }
    if (whole) {
      ASSERT_EQ(bucket.has_value(), options.limit.Holds(entry.size));
    }
  }
  for (const JointSize& bucket : policy.buckets()) {
    if (options.budget > 0) {
      ASSERT_LE(bucket.elements(), options.budget);
    }
    const auto aligned = [&](int64_t extent, int64_t align, int64_t limit, int64_t JointSize::*of) {
      return extent % align == 0 || extent == limit || !whole ||
             std::any_of(options.forced.begin(), options.forced.end(),
                         [&](const JointSize& forced) { return forced.*of == extent; });
    };
    ASSERT_TRUE(aligned(bucket.a, options.align.a, options.limit.a, &JointSize::a)) << bucket.a;
    ASSERT_TRUE(aligned(bucket.b, options.align.b, options.limit.b, &JointSize::b)) << bucket.b;
  }
  COPPICE_ASSERT_OK_AND_ASSIGN(const LearnedJoint again, LearnJoint(histogram, options));
  ASSERT_EQ(again.policy.name(), policy.name());
  ASSERT_EQ(again.expected, learned.expected);
}

TEST(JointBucketsTest, ALearnedGridIsExactInEachSymbolWhileTheOtherStands) {
  const uint64_t seed = TestSeed();
  for (int64_t i = 0; i < 300 / TestShare(); ++i) {
    SCOPED_TRACE(fmt::format("COPPICE_TEST_SEED={} case {}", seed, i));
    std::mt19937_64 random(seed + static_cast<uint64_t>(i));
    const JointHistogram histogram = Draw(random, {6, 8}, 1 + random() % 12);
    const JointOptions options = {.limit = {6, 8},
                                  .count = 1 + static_cast<int64_t>(random() % 12),
                                  .prior = 0,
                                  .shape = JointShape::kGrid};
    COPPICE_ASSERT_OK_AND_ASSIGN(const LearnedJoint learned, LearnJoint(histogram, options));
    ASSERT_NO_FATAL_FAILURE(ExpectInvariants(histogram, options, learned));
    const double cost = CostWith(histogram, learned.policy);
    ASSERT_EQ(cost, learned.score.cost);
    ASSERT_NEAR(learned.expected * histogram.mass(), cost, 1e-9 * cost);
    const std::vector<int64_t> a = learned.policy.axes()[0].buckets();
    const std::vector<int64_t> b = learned.policy.axes()[1].buckets();
    for (const std::vector<int64_t>& other : Ladders(6, std::ssize(a)))
      ASSERT_LE(cost, CostWith(histogram, GridOf(other, b)) * (1 + 1e-9));
    for (const std::vector<int64_t>& other : Ladders(8, std::ssize(b)))
      ASSERT_LE(cost, CostWith(histogram, GridOf(a, other)) * (1 + 1e-9));
  }
}

TEST(JointBucketsTest, LearnedGridsAreMostlyTheBestThereAre) {
  const uint64_t seed = TestSeed();
  int64_t best = 0;
  const int64_t cases = std::max<int64_t>(20, 100 / TestShare());
  for (int64_t i = 0; i < cases; ++i) {
    SCOPED_TRACE(fmt::format("COPPICE_TEST_SEED={} case {}", seed, i));
    std::mt19937_64 random(seed + static_cast<uint64_t>(i));
    const JointHistogram histogram = Draw(random, {5, 6}, 2 + random() % 10);
    const int64_t count = 2 + static_cast<int64_t>(random() % 7);
    COPPICE_ASSERT_OK_AND_ASSIGN(
        const LearnedJoint learned,
        LearnJoint(histogram,
                   {.limit = {5, 6}, .count = count, .prior = 0, .shape = JointShape::kGrid}));
    double least = std::numeric_limits<double>::infinity();
    for (int64_t rungs = 1; rungs <= std::min<int64_t>(count, 5); ++rungs) {
      for (const std::vector<int64_t>& a : Ladders(5, rungs)) {
        for (const std::vector<int64_t>& b : Ladders(6, std::min<int64_t>(6, count / rungs)))
          least = std::min(least, CostWith(histogram, GridOf(a, b)));
      }
    }
    const double cost = learned.score.cost;
    ASSERT_GE(cost, least * (1 - 1e-9));
    ASSERT_LE(cost, least * 1.15);
    best += cost <= least * (1 + 1e-9) ? 1 : 0;
  }
  EXPECT_GE(best, cases * 9 / 10);
}

TEST(JointBucketsTest, LearnedGridsAreNeverWorseThanPowersOfTwo) {
  const uint64_t seed = TestSeed();
  for (int64_t i = 0; i < 60 / TestShare(); ++i) {
    SCOPED_TRACE(fmt::format("COPPICE_TEST_SEED={} case {}", seed, i));
    std::mt19937_64 random(seed + static_cast<uint64_t>(i));
    const JointSize limit = {1 + static_cast<int64_t>(random() % 32),
                             1 + static_cast<int64_t>(random() % 2000)};
    const JointHistogram histogram = Draw(random, limit, 1 + random() % 60);
    const JointPolicy pow2 = *JointPolicy::Parse("pow2/pow2", limit);
    JointOptions options = {.limit = limit, .count = pow2.count(), .prior = 0};
    COPPICE_ASSERT_OK_AND_ASSIGN(const LearnedJoint any, LearnJoint(histogram, options));
    options.shape = JointShape::kGrid;
    COPPICE_ASSERT_OK_AND_ASSIGN(const LearnedJoint grid, LearnJoint(histogram, options));
    ASSERT_LE(grid.score.cost, CostWith(histogram, pow2) * (1 + 1e-9));
    ASSERT_LE(any.score.cost, grid.score.cost * (1 + 1e-9));
  }
}

TEST(JointBucketsTest, LearnedListsAreNearTheBestThereAre) {
  const uint64_t seed = TestSeed();
  int64_t best = 0;
  const int64_t cases = std::max<int64_t>(20, 100 / TestShare());
  for (int64_t i = 0; i < cases; ++i) {
    SCOPED_TRACE(fmt::format("COPPICE_TEST_SEED={} case {}", seed, i));
    std::mt19937_64 random(seed + static_cast<uint64_t>(i));
    const JointSize limit = {4, 4};
    const JointHistogram histogram = Draw(random, limit, 1 + random() % 10);
    const int64_t count = 1 + static_cast<int64_t>(random() % 4);
    COPPICE_ASSERT_OK_AND_ASSIGN(
        const LearnedJoint learned,
        LearnJoint(histogram,
                   {.limit = limit, .count = count, .prior = 0, .shape = JointShape::kList}));
    double least = std::numeric_limits<double>::infinity();
    for (uint32_t set = 0; set < 1u << 15; ++set) {
      if (std::popcount(set) != count - 1) continue;
      std::vector<JointSize> buckets = {limit};
      for (int64_t cell = 0; cell < 15; ++cell) {
        if (set >> cell & 1) buckets.push_back({cell / 4 + 1, cell % 4 + 1});
      }
      least = std::min(least, CostWith(histogram, *JointPolicy::List(buckets, limit)));
    }
    ASSERT_GE(learned.score.cost, least * (1 - 1e-9));
    ASSERT_LE(learned.score.cost, least * 1.25);
    best += learned.score.cost <= least * (1 + 1e-9) ? 1 : 0;
  }
  EXPECT_GE(best, cases * 8 / 10);
}

TEST(JointBucketsTest, KeepsItsInvariantsWithEveryOption) {
  const uint64_t seed = TestSeed();
  for (int64_t i = 0; i < 60 / TestShare(); ++i) {
    SCOPED_TRACE(fmt::format("COPPICE_TEST_SEED={} case {}", seed, i));
    std::mt19937_64 random(seed + static_cast<uint64_t>(i));
    const auto draw = [&random](int64_t least, int64_t most) {
      return least + static_cast<int64_t>(random() % static_cast<uint64_t>(most - least + 1));
    };
    JointOptions options;
    options.limit = {draw(1, 24), draw(1, 3000)};
    options.count = draw(6, 60);
    options.align = {draw(1, 4), draw(1, 32)};
    options.prior = static_cast<double>(draw(0, 10)) / 10;
    options.shape = static_cast<JointShape>(draw(0, 2));
    if (draw(0, 2) == 0)
      options.budget = draw(std::max(options.limit.a, options.limit.b), options.limit.elements());
    for (int64_t forced = draw(0, 2); forced > 0; --forced) {
      JointSize bucket = {draw(1, options.limit.a), draw(1, options.limit.b)};
      if (options.budget > 0) bucket.b = std::min(bucket.b, options.budget / bucket.a);
      options.forced.push_back(bucket);
    }
    if (draw(0, 1) == 0)
      options.cost = [](JointSize bucket) {
        return 10 + 3.0 * static_cast<double>(bucket.a) + 0.01 * static_cast<double>(bucket.b) +
               std::max(0.0, static_cast<double>(bucket.elements()) - 500);
      };
    std::vector<JointCount> counts = Draw(random, options.limit, 1 + random() % 80).counts();
    counts.push_back({{1, 1}, 1});
    counts.push_back({{options.limit.a + 1, 1}, 1});
    const JointHistogram histogram = HistogramOf(counts);
    const absl::StatusOr<LearnedJoint> learned = LearnJoint(histogram, options);
    if (options.shape == JointShape::kGrid && !learned.ok()) continue;  // Too few, or a tight rule.
    ASSERT_OK(learned);
    ASSERT_NO_FATAL_FAILURE(ExpectInvariants(histogram, options, *learned));
  }
}

TEST(JointBucketsTest, TakesTheCheaperOfGridAndList) {
  std::mt19937_64 random(TestSeed());
  for (int64_t i = 0; i < 20; ++i) {
    const JointHistogram histogram = Draw(random, {8, 500}, 40);
    JointOptions options = {.limit = {8, 500}, .count = 12};
    const double any = LearnJoint(histogram, options)->expected;
    options.shape = JointShape::kGrid;
    const double grid = LearnJoint(histogram, options)->expected;
    options.shape = JointShape::kList;
    const double list = LearnJoint(histogram, options)->expected;
    EXPECT_EQ(any, std::min(grid, list));
  }
}

TEST(JointBucketsTest, FindsWhatAHandFinds) {
  const JointHistogram histogram =
      HistogramOf({{{1, 1000}, 10}, {{8, 10}, 10}, {{2, 100}, 10}, {{8, 1000}, 1}});
  COPPICE_ASSERT_OK_AND_ASSIGN(const LearnedJoint list,
                               LearnJoint(histogram, {.limit = {8, 1000}, .count = 4, .prior = 0}));
  EXPECT_THAT(list.policy.buckets(), UnorderedElementsAre(JointSize{1, 1000}, JointSize{8, 10},
                                                          JointSize{2, 100}, JointSize{8, 1000}));
  EXPECT_FALSE(list.policy.is_grid());
  EXPECT_EQ(list.score.waste_pct, 0);
  COPPICE_ASSERT_OK_AND_ASSIGN(const LearnedJoint one,
                               LearnJoint(histogram, {.limit = {8, 1000}, .count = 1}));
  EXPECT_THAT(one.policy.buckets(), ElementsAre(JointSize{8, 1000}));
}

TEST(JointBucketsTest, ARuleNeedsTwoBucketsAndKeepsSizesWithinItServed) {
  const JointHistogram histogram =
      HistogramOf({{{1, 100}, 5}, {{2, 50}, 5}, {{4, 25}, 5}, {{8, 12}, 5}, {{8, 100}, 7}});
  COPPICE_ASSERT_OK_AND_ASSIGN(
      const LearnedJoint learned,
      LearnJoint(histogram, {.limit = {8, 100}, .count = 4, .budget = 100}));
  EXPECT_THAT(learned.policy.buckets(), UnorderedElementsAre(JointSize{1, 100}, JointSize{2, 50},
                                                             JointSize{4, 25}, JointSize{8, 12}));
  EXPECT_EQ(learned.score.beyond, 7);
  EXPECT_THAT(LearnJoint(histogram, {.limit = {8, 100}, .count = 1, .budget = 100}),
              StatusIs(kWrongArgument));
}

TEST(JointBucketsTest, ACostDecidesWhereBucketsLie) {
  // The second extent costs nothing, so that no bucket is spent on it.
  const JointHistogram histogram =
      HistogramOf({{{1, 1}, 1}, {{2, 50}, 1}, {{3, 7}, 1}, {{4, 100}, 1}});
  const JointCost rows = [](JointSize bucket) { return static_cast<double>(bucket.a); };
  COPPICE_ASSERT_OK_AND_ASSIGN(
      const LearnedJoint learned,
      LearnJoint(histogram, {.limit = {4, 100}, .count = 4, .prior = 0, .cost = rows}));
  EXPECT_EQ(learned.score.waste_pct, 0);
  EXPECT_EQ(learned.expected, 2.5);
}

// What caps say of one extent in a ladder.
bool Keeps(const std::vector<int64_t>& ladder, const JointCap& cap, int64_t align) {
  if (cap.max_ratio == 0) return true;
  int64_t below = 0;
  for (const int64_t bucket : ladder) {
    const int64_t size = below + 1;
    const bool near = static_cast<double>(bucket) <= cap.max_ratio * static_cast<double>(size) ||
                      bucket - size <= cap.max_gap || (size + align - 1) / align * align >= bucket;
    if (!near) return false;
    below = bucket;
  }
  return true;
}

TEST(JointBucketsTest, WithCapsAGridIsTheBestOfThoseThatKeepThem) {
  const uint64_t seed = TestSeed();
  int64_t learned_any = 0;
  for (int64_t i = 0; i < std::max<int64_t>(40, 200 / TestShare()); ++i) {
    SCOPED_TRACE(fmt::format("COPPICE_TEST_SEED={} case {}", seed, i));
    std::mt19937_64 random(seed + static_cast<uint64_t>(i));
    const JointHistogram histogram = Draw(random, {6, 8}, 1 + random() % 12);
    JointOptions options = {.limit = {6, 8},
                            .count = 2 + static_cast<int64_t>(random() % 20),
                            .align = {1, 1 + static_cast<int64_t>(random() % 2)},
                            .prior = 0};
    if (random() % 3 > 0) options.cap_a = {1 + static_cast<double>(random() % 4) / 4, 1};
    if (random() % 3 > 0 || options.cap_a.max_ratio == 0)
      options.cap_b = {1 + static_cast<double>(random() % 4) / 2,
                       static_cast<int64_t>(random() % 3)};
    if (random() % 3 == 0) options.forced = {{2, 3}};
    const absl::StatusOr<LearnedJoint> learned = LearnJoint(histogram, options);
    int64_t within = 0;  // Grids that are allowed.
    double least_beside = std::numeric_limits<double>::infinity();
    for (int64_t rungs = 1; rungs <= 6; ++rungs) {
      for (const std::vector<int64_t>& a : Ladders(6, rungs)) {
        if (!Keeps(a, options.cap_a, options.align.a)) continue;
        for (int64_t others = 1; others <= std::min<int64_t>(8, options.count / rungs); ++others) {
          for (const std::vector<int64_t>& b : Ladders(8, others)) {
            const JointPolicy grid = GridOf(a, b);
            const bool aligned = std::all_of(b.begin(), b.end(), [&](int64_t bucket) {
              return bucket % options.align.b == 0 || bucket == 8 ||
                     (bucket == 3 && !options.forced.empty());
            });
            if (!Keeps(b, options.cap_b, options.align.b) || !aligned) continue;
            if (!options.forced.empty() && grid.Find(2, 3) != JointSize{2, 3}) continue;
            ++within;
            least_beside = std::min(least_beside, CostWith(histogram, grid));
          }
        }
      }
    }
    if (!learned.ok()) {
      ASSERT_EQ(within, 0) << learned.status();
      continue;
    }
    ++learned_any;
    ASSERT_NO_FATAL_FAILURE(ExpectInvariants(histogram, options, *learned));
    ASSERT_TRUE(learned->policy.is_grid());
    ASSERT_TRUE(Keeps(learned->policy.axes()[0].buckets(), options.cap_a, options.align.a));
    ASSERT_TRUE(Keeps(learned->policy.axes()[1].buckets(), options.cap_b, options.align.b));
    ASSERT_LE(learned->score.cost, least_beside * 1.15);
  }
  EXPECT_GT(learned_any, 20);
}

TEST(JointBucketsTest, CapsHoldForSizesThatNobodySaw) {
  JointOptions options = {.limit = {32, 8192},
                          .count = 400,
                          .align = {1, 16},
                          .cap_a = {.max_ratio = 1.5, .max_gap = 1},
                          .cap_b = {.max_ratio = 1.25, .max_gap = 64}};
  for (const double prior : {0.0, 0.05}) {
    options.prior = prior;
    COPPICE_ASSERT_OK_AND_ASSIGN(const LearnedJoint learned,
                                 LearnJoint(HistogramOf({{{7, 4000}, 100}}), options));
    for (int64_t a = 1; a <= 32; ++a) {
      for (int64_t b = 1; b <= 8192; ++b) {
        const std::optional<JointSize> bucket = learned.policy.Find(a, b);
        ASSERT_TRUE(bucket);
        ASSERT_TRUE(2 * bucket->a <= 3 * a || bucket->a - a <= 1) << a << " in " << bucket->a;
        ASSERT_TRUE(4 * bucket->b <= 5 * b || bucket->b - b <= 64) << b << " in " << bucket->b;
      }
    }
  }
  options.count = 100;
  EXPECT_THAT(LearnJoint(HistogramOf({{{7, 4000}, 1}}), options), StatusIs(kWrongArgument));
}

TEST(JointBucketsTest, ABucketHasToPayItsPrice) {
  const uint64_t seed = TestSeed();
  for (int64_t i = 0; i < std::max<int64_t>(20, 100 / TestShare()); ++i) {
    SCOPED_TRACE(fmt::format("COPPICE_TEST_SEED={} case {}", seed, i));
    std::mt19937_64 random(seed + static_cast<uint64_t>(i));
    const JointHistogram histogram = Draw(random, {4, 4}, 1 + random() % 10);
    const double price = static_cast<double>(1 + random() % 60);
    JointOptions options = {.limit = {4, 4}, .price = price, .prior = 0};
    if (random() % 2 == 0)
      options.price_of = [price](JointSize bucket) {
        return price * static_cast<double>(bucket.b);
      };
    const auto price_of = [&](JointSize bucket) {
      return options.price_of ? options.price_of(bucket) : price;
    };
    COPPICE_ASSERT_OK_AND_ASSIGN(const LearnedJoint learned, LearnJoint(histogram, options));
    double prices = 0;
    for (const JointSize& bucket : learned.policy.buckets())
      prices += price_of(bucket);
    ASSERT_NEAR(learned.price, prices, 1e-9 * prices);
    // Of all lists of up to three buckets none is much better.
    double least = std::numeric_limits<double>::infinity();
    for (uint32_t set = 0; set < 1u << 15; ++set) {
      if (std::popcount(set) > 2) continue;
      std::vector<JointSize> buckets = {{4, 4}};
      for (int64_t cell = 0; cell < 15; ++cell)
        if (set >> cell & 1) buckets.push_back({cell / 4 + 1, cell % 4 + 1});
      double whole = CostWith(histogram, *JointPolicy::List(buckets, {4, 4}));
      for (const JointSize& bucket : buckets)
        whole += price_of(bucket);
      least = std::min(least, whole);
    }
    ASSERT_LE(learned.score.cost + learned.price, least * 1.15);
  }
}

TEST(JointBucketsTest, APriceFindsTheCountOfAGridToo) {
  const JointHistogram histogram = HistogramOf({{{1, 100}, 50}, {{8, 100}, 50}, {{8, 1000}, 50}});
  const auto learn = [&](double price) {
    return LearnJoint(histogram,
                      {.limit = {8, 1000}, .price = price, .prior = 0, .shape = JointShape::kGrid})
        ->policy.count();
  };
  EXPECT_EQ(learn(1), 4);
  EXPECT_EQ(learn(1e9), 1);
  EXPECT_LE(LearnJoint(histogram, {.limit = {8, 1000}, .price = 1e-9})->policy.count(),
            kJointPricedMax);
}

TEST(JointBucketsTest, APriorKeepsSizesThatWereNotSeenFromTheLimit) {
  const JointHistogram histogram = HistogramOf({{{2, 100}, 1000}});
  const auto found = [&](double prior) {
    return LearnJoint(histogram, {.limit = {16, 8192}, .count = 16, .prior = prior})
        ->policy.Find(4, 1000)
        ->elements();
  };
  EXPECT_EQ(found(0), 16 * 8192);
  EXPECT_LT(found(0.05), 16 * 8192 / 4);
}

TEST(JointBucketsTest, HowFarTheLimitLiesDoesNotMatterToPadding) {
  std::mt19937_64 random(TestSeed());
  for (const JointShape shape : {JointShape::kGrid, JointShape::kList}) {
    for (int i = 0; i < 4; ++i) {
      JointOptions options = {.limit = {7, 500}, .count = 12, .shape = shape};
      std::vector<JointCount> counts = Draw(random, options.limit, 40).counts();
      counts.push_back({{7, 1}, 1});
      counts.push_back({{1, 500}, 1});
      const JointHistogram histogram = HistogramOf(counts);
      if (i % 2 == 1) options.budget = 1 << 12;
      COPPICE_ASSERT_OK_AND_ASSIGN(const LearnedJoint best, LearnJoint(histogram, options));
      for (const JointSize limit : {JointSize{8, 512}, {64, 500}, {7, 1 << 12}, {512, 1 << 12}}) {
        options.limit = limit;
        COPPICE_ASSERT_OK_AND_ASSIGN(const LearnedJoint learned, LearnJoint(histogram, options));
        EXPECT_EQ(learned.score.waste_pct, best.score.waste_pct);
        EXPECT_EQ(ScoreJoint(histogram, learned.policy).waste_pct, best.score.waste_pct);
        EXPECT_LE(learned.policy.count() - learned.doublings, options.count);
        if (options.budget > 0) continue;
        for (const JointSize size :
             {JointSize{limit.a, 1}, {1, limit.b}, {limit.a, limit.b}, {6, limit.b / 2 + 1}}) {
          const std::optional<JointSize> bucket = learned.policy.Find(size.a, size.b);
          ASSERT_TRUE(bucket);
          if (best.policy.limit().Holds(size) || shape == JointShape::kGrid) continue;
          EXPECT_LE(bucket->a, 2 * size.a) << size.a << 'x' << size.b;
          EXPECT_LE(bucket->b, 2 * size.b) << size.a << 'x' << size.b;
        }
      }
    }
  }
}

TEST(JointBucketsTest, RejectsOptionsOutOfRange) {
  const JointHistogram histogram = HistogramOf({{{2, 3}, 1}});
  const JointOptions good = {.limit = {4, 8}, .count = 4};
  EXPECT_OK(LearnJoint(histogram, good));
  const auto expect_invalid = [&](auto change) {
    JointOptions options = good;
    change(options);
    for (const JointShape shape : {JointShape::kAny, JointShape::kGrid, JointShape::kList}) {
      options.shape = shape;
      EXPECT_THAT(LearnJoint(histogram, options), StatusIs(kWrongArgument));
    }
  };
  expect_invalid([](JointOptions& options) { options.limit = {0, 8}; });
  expect_invalid([](JointOptions& options) { options.limit.b = PaddingPolicy::kExtentMax + 1; });
  expect_invalid([](JointOptions& options) { options.limit = {1, 8}; });  // No call within it.
  expect_invalid([](JointOptions& options) { options.count = 0; });
  expect_invalid([](JointOptions& options) { options.count = JointPolicy::kListMax + 1; });
  expect_invalid([](JointOptions& options) { options.count = -1; });
  for (const double price : {-1.0, std::nan(""), HUGE_VAL}) {
    expect_invalid([price](JointOptions& options) { options.price = price; });
    expect_invalid([price](JointOptions& options) {
      options.price_of = [price](JointSize) { return price; };
    });
  }
  for (const double ratio : {-1.0, 0.5, std::nan(""), HUGE_VAL}) {
    expect_invalid([ratio](JointOptions& options) { options.cap_a.max_ratio = ratio; });
    expect_invalid([ratio](JointOptions& options) { options.cap_b.max_ratio = ratio; });
  }
  expect_invalid([](JointOptions& options) { options.cap_a.max_gap = 1; });
  expect_invalid([](JointOptions& options) { options.cap_b = {.max_ratio = 2, .max_gap = -1}; });
  JointOptions list = good;
  list.shape = JointShape::kList;
  list.cap_b.max_ratio = 8;
  EXPECT_THAT(LearnJoint(histogram, list), StatusIs(kWrongArgument)) << "a list keeps no caps";
  list.shape = JointShape::kAny;
  EXPECT_OK(LearnJoint(histogram, list));
  expect_invalid([](JointOptions& options) { options.budget = -1; });
  expect_invalid([](JointOptions& options) { options.budget = 7; });
  expect_invalid([](JointOptions& options) { options.align.a = 0; });
  expect_invalid([](JointOptions& options) { options.align.b = -1; });
  for (const double prior : {-0.1, 1.1, std::nan("")})
    expect_invalid([prior](JointOptions& options) { options.prior = prior; });
  expect_invalid([](JointOptions& options) { options.forced = {{5, 1}}; });
  expect_invalid([](JointOptions& options) { options.forced = {{1, 0}}; });
  expect_invalid([](JointOptions& options) {
    options.forced = {{1, 1}, {2, 2}, {3, 3}, {4, 4}, {4, 8}};
  });
  for (const double cost : {-1.0, std::nan(""), HUGE_VAL})
    expect_invalid(
        [cost](JointOptions& options) { options.cost = [cost](JointSize) { return cost; }; });
  EXPECT_THAT(LearnJoint(JointHistogram(), good), StatusIs(kWrongArgument));
}

}  // namespace
}  // namespace coppice
