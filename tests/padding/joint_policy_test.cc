// Goal: every sentence of joint_policy.h. Method: the header's picture, 10,000 random policies
// against a linear search over all their buckets, and each bad spelling and argument by name.

#include "coppice/padding/joint_policy.h"

#include "tests/support/test.h"
#include "tests/support/test_device.h"

namespace coppice {

void PrintTo(const JointSize& size, std::ostream* out) {
  *out << size.a << "x" << size.b;
}

namespace {

JointPolicy Parsed(const std::string& text, JointSize limit) {
  const absl::StatusOr<JointPolicy> policy = JointPolicy::Parse(text, limit);
  EXPECT_OK(policy);
  return *policy;
}

// By the header's words: the cheapest of those that hold the size and obey the rule.
std::optional<JointSize> Search(const std::vector<JointSize>& buckets, JointSize size) {
  std::optional<JointSize> best;
  for (const JointSize& bucket : buckets) {
    if (!bucket.Holds(size)) continue;
    if (!best || bucket.elements() < best->elements() ||
        (bucket.elements() == best->elements() && bucket < *best))
      best = bucket;
  }
  return best;
}

// Every size up to one beyond the limit where those are few, otherwise so many, at and beside
// buckets.
void ExpectFinds(const JointPolicy& policy,
                 const std::vector<JointSize>& buckets,
                 std::mt19937_64& random,
                 std::optional<JointSize> (*search)(const std::vector<JointSize>&, JointSize)) {
  const JointSize limit = policy.limit();
  if (limit.elements() <= 100) {
    for (int64_t a = 0; a <= limit.a + 1; ++a) {
      for (int64_t b = 0; b <= limit.b + 1; ++b)
        ASSERT_EQ(policy.Find(a, b), search(buckets, {a, b})) << a << "x" << b;
    }
    return;
  }
  for (int i = 0; i < 30; ++i) {
    const JointSize& one = buckets[random() % buckets.size()];
    const JointSize& other = buckets[random() % buckets.size()];
    const int64_t a = std::max<int64_t>(0, one.a + static_cast<int64_t>(random() % 3) - 1);
    const int64_t b = std::max<int64_t>(0, other.b + static_cast<int64_t>(random() % 3) - 1);
    ASSERT_EQ(policy.Find(a, b), search(buckets, {a, b})) << a << "x" << b;
  }
}

struct RandomList {
  std::vector<JointSize> buckets;
  JointSize limit;
  int64_t budget = 0;
};

RandomList DrawList(std::mt19937_64& random) {
  const int64_t most = random() % 4 == 0 ? 3000 : 12;
  const auto draw = [&random](int64_t largest) {
    return 1 + static_cast<int64_t>(random() % static_cast<uint64_t>(largest));
  };
  RandomList list;
  list.limit = {draw(most), draw(most)};
  if (random() % 3 == 0)
    list.budget = std::max(list.limit.a, list.limit.b) + draw(list.limit.elements()) - 1;
  const int64_t count = draw(30);
  for (int64_t i = 0; i < count; ++i) {
    JointSize bucket = {draw(list.limit.a), draw(list.limit.b)};
    if (list.budget > 0) bucket.b = std::min(bucket.b, list.budget / bucket.a);
    list.buckets.push_back(bucket);
  }
  return list;
}

std::vector<JointSize> WithLimit(const RandomList& list) {
  std::vector<JointSize> all = list.buckets;
  if (list.budget == 0 || list.limit.elements() <= list.budget) {
    all.push_back(list.limit);
  } else {
    all.push_back({list.limit.a, list.budget / list.limit.a});
    all.push_back({list.budget / list.limit.b, list.limit.b});
  }
  return all;
}

TEST(JointPolicyTest, HasTheBucketsOfThePicture) {
  const JointPolicy grid = Parsed("pow2/64,256,1024", {4, 1024});
  EXPECT_TRUE(grid.is_grid());
  EXPECT_THAT(grid.buckets(), ElementsAre(JointSize{1, 64}, JointSize{1, 256}, JointSize{1, 1024},
                                          JointSize{2, 64}, JointSize{2, 256}, JointSize{2, 1024},
                                          JointSize{4, 64}, JointSize{4, 256}, JointSize{4, 1024}));
  EXPECT_EQ(grid.Find(3, 65), (JointSize{4, 256}));
  const JointPolicy list = Parsed("1x1024,2x256,4x64,4x1024", {4, 1024});
  EXPECT_FALSE(list.is_grid());
  EXPECT_EQ(list.Find(1, 200), (JointSize{2, 256}));
  EXPECT_EQ(list.Find(1, 257), (JointSize{1, 1024}));
  EXPECT_EQ(list.Find(2, 257), (JointSize{4, 1024}));
}

TEST(JointPolicyTest, ARuleLeavesBucketsOutAndSizesBeyondItHaveNone) {
  const JointPolicy grid = Parsed("pow2/64,256,1024/budget:1024", {4, 1024});
  EXPECT_EQ(grid.count(), 7);
  EXPECT_THAT(grid.buckets(), SizeIs(7));
  EXPECT_EQ(grid.Find(1, 1024), (JointSize{1, 1024}));
  EXPECT_EQ(grid.Find(4, 256), (JointSize{4, 256}));
  EXPECT_EQ(grid.Find(2, 600), std::nullopt);  // Beyond the rule.
  EXPECT_EQ(grid.Find(2, 257), std::nullopt);  // Within it, but not what would hold it.
}

TEST(JointPolicyTest, AListHasWhatTheLimitNeeds) {
  const std::vector<JointSize> one = {{2, 2}};
  EXPECT_THAT(JointPolicy::List(one, {7, 9})->buckets(),
              ElementsAre(JointSize{2, 2}, JointSize{7, 9}));
  EXPECT_THAT(JointPolicy::List(one, {7, 9}, 63)->buckets(),
              ElementsAre(JointSize{2, 2}, JointSize{7, 9}));
  EXPECT_THAT(JointPolicy::List(one, {7, 9}, 20)->buckets(),
              ElementsAre(JointSize{2, 2}, JointSize{7, 2}, JointSize{2, 9}));
}

TEST(JointPolicyTest, FindsTheCheapestBucketOfRandomListsByLinearSearch) {
  const uint64_t seed = TestSeed();
  for (int64_t i = 0; i < 10000 / TestShare(); ++i) {
    SCOPED_TRACE(fmt::format("COPPICE_TEST_SEED={} case {}", seed, i));
    std::mt19937_64 random(seed + static_cast<uint64_t>(i));
    const RandomList list = DrawList(random);
    COPPICE_ASSERT_OK_AND_ASSIGN(const JointPolicy policy,
                                 JointPolicy::List(list.buckets, list.limit, list.budget));
    const std::vector<JointSize> all = WithLimit(list);
    ASSERT_NO_FATAL_FAILURE(ExpectFinds(policy, all, random, Search));
    // Each is found at its own size, so none is there for nothing.
    for (const JointSize& bucket : policy.buckets())
      ASSERT_EQ(policy.Find(bucket.a, bucket.b), bucket);
    ASSERT_EQ(policy.count(), std::ssize(policy.buckets()));
    COPPICE_ASSERT_OK_AND_ASSIGN(const JointPolicy again,
                                 JointPolicy::Parse(policy.name(), list.limit));
    ASSERT_EQ(again.name(), policy.name());
    ASSERT_EQ(again.buckets(), policy.buckets());
    ASSERT_EQ(again.budget(), policy.budget());
  }
}

TEST(JointPolicyTest, FindsTheFirstBucketOfRandomOrderedLists) {
  const uint64_t seed = TestSeed();
  const auto first = [](const std::vector<JointSize>& buckets, JointSize size) {
    const auto found = std::find_if(buckets.begin(), buckets.end(),
                                    [size](const JointSize& bucket) { return bucket.Holds(size); });
    return found == buckets.end() ? std::optional<JointSize>() : *found;
  };
  for (int64_t i = 0; i < 10000 / TestShare(); ++i) {
    SCOPED_TRACE(fmt::format("COPPICE_TEST_SEED={} case {}", seed, i));
    std::mt19937_64 random(seed + static_cast<uint64_t>(i));
    const RandomList list = DrawList(random);
    COPPICE_ASSERT_OK_AND_ASSIGN(const JointPolicy policy,
                                 JointPolicy::Ordered(list.buckets, list.limit, list.budget));
    ASSERT_NO_FATAL_FAILURE(ExpectFinds(policy, WithLimit(list), random, first));
    COPPICE_ASSERT_OK_AND_ASSIGN(const JointPolicy again,
                                 JointPolicy::Parse(policy.name(), list.limit));
    ASSERT_EQ(again.buckets(), policy.buckets());
    ASSERT_EQ(again.is_ordered(), policy.is_ordered());
  }
}

TEST(JointPolicyTest, FindsTheCheapestBucketOfRandomGridsByLinearSearch) {
  const uint64_t seed = TestSeed();
  const char* const kLadders[] = {"exact",    "pow2", "linear:3", "geometric:1.5:2",
                                  "ramp:2:8", "5",    "linear:1", "1,3,4"};
  for (int64_t i = 0; i < 10000 / TestShare(); ++i) {
    SCOPED_TRACE(fmt::format("COPPICE_TEST_SEED={} case {}", seed, i));
    std::mt19937_64 random(seed + static_cast<uint64_t>(i));
    const JointSize limit = {5 + static_cast<int64_t>(random() % 10),
                             5 + static_cast<int64_t>(random() % 60)};
    std::string text = fmt::format("{}/{}", kLadders[random() % 8], kLadders[random() % 8]);
    COPPICE_ASSERT_OK_AND_ASSIGN(const JointPolicy whole, JointPolicy::Parse(text, limit));
    int64_t budget = 0;
    if (random() % 2 == 0)
      budget = 1 + static_cast<int64_t>(random() % static_cast<uint64_t>(limit.elements()));
    if (budget > 0) text += fmt::format("/budget:{}", budget);
    std::vector<JointSize> obey;
    bool reaches_a = false;
    bool reaches_b = false;
    for (const JointSize& bucket : whole.buckets()) {
      if (budget > 0 && bucket.elements() > budget) continue;
      obey.push_back(bucket);
      reaches_a |= bucket.a == limit.a;
      reaches_b |= bucket.b == limit.b;
    }
    const absl::StatusOr<JointPolicy> policy = JointPolicy::Parse(text, limit);
    if (!reaches_a || !reaches_b) {
      ASSERT_THAT(policy, StatusIs(kWrongArgument)) << text;
      continue;
    }
    ASSERT_OK(policy) << text;
    ASSERT_EQ(policy->buckets(), obey) << text;
    ASSERT_EQ(policy->count(), std::ssize(obey)) << text;
    ASSERT_EQ(policy->name(), Parsed(policy->name(), limit).name());
    ASSERT_NO_FATAL_FAILURE(ExpectFinds(*policy, obey, random, Search)) << text;
  }
}

TEST(JointPolicyTest, ACostMakesTheOrder) {
  const std::vector<JointSize> buckets = {{512, 8}, {256, 64}};
  const JointSize limit = {512, 64};
  EXPECT_EQ(JointPolicy::List(buckets, limit)->Find(200, 4), (JointSize{512, 8}));
  const JointCost tokens = [](JointSize bucket) {
    return static_cast<double>(bucket.a) + 0.1 * static_cast<double>(bucket.b);
  };
  const JointPolicy policy = *JointPolicy::List(buckets, limit, 0, tokens);
  EXPECT_EQ(policy.Find(200, 4), (JointSize{256, 64}));
  EXPECT_TRUE(policy.is_ordered());
  EXPECT_EQ(policy.name(), "ordered:256x64,512x8,512x64");
  EXPECT_EQ(Parsed(policy.name(), limit).Find(200, 4), (JointSize{256, 64}));
}

TEST(JointPolicyTest, DropsWhatIsNeverFound) {
  const std::vector<JointSize> buckets = {{3, 3}, {1, 2}, {3, 3}};
  EXPECT_THAT(JointPolicy::Ordered(buckets, {4, 4})->buckets(),
              ElementsAre(JointSize{3, 3}, JointSize{4, 4}));
  const std::vector<JointSize> limit_first = {{4, 4}, {1, 1}};
  EXPECT_EQ(JointPolicy::Ordered(limit_first, {4, 4})->count(), 1);
}

TEST(JointPolicyTest, FindsNothingBeyondTheLimit) {
  for (const char* text : {"pow2/pow2", "exact/exact", "2x3", "ordered:2x3"}) {
    const JointPolicy policy = Parsed(text, {4, 6});
    EXPECT_EQ(policy.Find(4, 6), (JointSize{4, 6})) << text;
    for (const JointSize beyond :
         {JointSize{5, 1}, JointSize{1, 7}, JointSize{INT64_MAX, INT64_MAX}}) {
      EXPECT_EQ(policy.Find(beyond.a, beyond.b), std::nullopt) << text;
      EXPECT_EQ(policy.WhyNone(beyond.a, beyond.b), NoBucket::kBeyondMaximum) << text;
    }
  }
}

TEST(JointPolicyTest, AGuardRefusesWhatIsPaddedTooMuch) {
  for (const char* text : {"pow2/pow2", "1x1,2x8,16x64"}) {
    const JointPolicy policy = Parsed(text, {16, 64});
    COPPICE_ASSERT_OK_AND_ASSIGN(const JointPolicy guarded,
                                 policy.WithGuard({.max_ratio = 1.5, .min_replay_elements = 17}));
    EXPECT_EQ(guarded.guard(), (JointGuard{1.5, 17}));
    EXPECT_EQ(guarded.name(), policy.name());
    EXPECT_EQ(guarded.buckets(), policy.buckets());
    for (int64_t a = 0; a <= 17; ++a) {
      for (int64_t b = 0; b <= 65; ++b) {
        const std::optional<JointSize> bucket = policy.Find(a, b);
        const bool refused =
            bucket && bucket->elements() >= 17 &&
            static_cast<double>(bucket->elements()) > 1.5 * static_cast<double>(a * b);
        ASSERT_EQ(guarded.Find(a, b), refused ? std::nullopt : bucket) << a << "x" << b;
        ASSERT_EQ(guarded.FindUnguarded(a, b), bucket) << a << "x" << b;
        if (!guarded.Find(a, b)) {
          ASSERT_EQ(guarded.WhyNone(a, b),
                    refused ? NoBucket::kPaddedTooMuch : NoBucket::kBeyondMaximum);
        }
      }
    }
    EXPECT_EQ(guarded.WithGuard({})->Find(9, 33), policy.Find(9, 33));
    for (const JointGuard& bad :
         {JointGuard{0.5, 0}, JointGuard{-1, 0}, JointGuard{std::nan(""), 0},
          JointGuard{HUGE_VAL, 0}, JointGuard{2, -1}})
      EXPECT_THAT(policy.WithGuard(bad), StatusIs(kWrongArgument));
  }
}

TEST(JointPolicyDeathTest, ChecksItsExtents) {
  const JointPolicy policy = Parsed("pow2/pow2", {4, 4});
  EXPECT_DEATH(policy.Find(-1, 1), "an extent is negative");
  EXPECT_DEATH(policy.Find(1, -1), "an extent is negative");
  EXPECT_DEATH(policy.FindUnguarded(-1, 1), "an extent is negative");
  EXPECT_DEATH(policy.FindUnguarded(1, -1), "an extent is negative");
  EXPECT_DEATH(policy.WhyNone(1, 1), "there is a bucket");
  const JointPolicy huge = Parsed("exact/exact", {int64_t{1} << 13, int64_t{1} << 12});
  EXPECT_EQ(huge.count(), int64_t{1} << 25);
  EXPECT_DEATH(huge.buckets(), "too many buckets");
}

TEST(JointPolicyTest, HoldsTheLargestListAndTheLargestLimit) {
  const int64_t extent_max = PaddingPolicy::kExtentMax;
  std::vector<JointSize> buckets;
  for (int64_t i = 1; i <= JointPolicy::kListMax; ++i)
    buckets.push_back({i * 4096, (JointPolicy::kListMax + 1 - i) * 4096});
  COPPICE_ASSERT_OK_AND_ASSIGN(const JointPolicy policy,
                               JointPolicy::List(buckets, {extent_max, extent_max}));
  EXPECT_EQ(policy.count(), JointPolicy::kListMax + 1);
  for (const JointSize& bucket : buckets)
    ASSERT_EQ(policy.Find(bucket.a, bucket.b), bucket);
  EXPECT_EQ(policy.Find(extent_max, extent_max), (JointSize{extent_max, extent_max}));
  buckets.push_back({1, 1});
  EXPECT_THAT(JointPolicy::List(buckets, {extent_max, extent_max}), StatusIs(kWrongArgument));
}

TEST(JointPolicyTest, RejectsArgumentsOutOfRange) {
  const std::vector<JointSize> one = {{1, 1}};
  for (const JointSize limit : {JointSize{0, 1}, JointSize{1, 0}, JointSize{-1, 5},
                                JointSize{1, PaddingPolicy::kExtentMax + 1}})
    EXPECT_THAT(JointPolicy::List(one, limit), StatusIs(kWrongArgument));
  for (const JointSize bucket :
       {JointSize{0, 1}, JointSize{1, 0}, JointSize{5, 1}, JointSize{1, 5}, JointSize{-1, -1}}) {
    const std::vector<JointSize> buckets = {{1, 1}, bucket};
    EXPECT_THAT(JointPolicy::List(buckets, {4, 4}), StatusIs(kWrongArgument));
    EXPECT_THAT(JointPolicy::Ordered(buckets, {4, 4}), StatusIs(kWrongArgument));
  }
  EXPECT_THAT(JointPolicy::List({}, {4, 4}), StatusIs(kWrongArgument));
  EXPECT_THAT(JointPolicy::List(one, {4, 4}, -1), StatusIs(kWrongArgument));
  EXPECT_THAT(JointPolicy::List(one, {4, 4}, 3), StatusIs(kWrongArgument));
  const std::vector<JointSize> beyond = {{3, 3}};
  EXPECT_THAT(JointPolicy::List(beyond, {4, 4}, 8), StatusIs(kWrongArgument));
  for (const double price : {-1.0, std::nan(""), HUGE_VAL})
    EXPECT_THAT(JointPolicy::List(one, {4, 4}, 0, [price](JointSize) { return price; }),
                StatusIs(kWrongArgument));
  const PaddingPolicy pow2 = *PaddingPolicy::Pow2(8);
  EXPECT_THAT(JointPolicy::Grid(pow2, pow2, -1), StatusIs(kWrongArgument));
  EXPECT_THAT(JointPolicy::Grid(pow2, pow2, 7), StatusIs(kWrongArgument));
  EXPECT_OK(JointPolicy::Grid(pow2, pow2, 8));
  EXPECT_THAT(JointPolicy::Grid(pow2, *pow2.WithGuard({.max_ratio = 2})), StatusIs(kWrongArgument));
}

TEST(JointPolicyTest, ParseQuotesWhatItCannotReadWhole) {
  for (const char* text : {"",
                           "pow2",
                           "/",
                           "pow2/",
                           "/pow2",
                           "pow2/pow2/",
                           "pow2/pow2/pow2",
                           "pow2 / pow2",
                           "1",
                           "x",
                           "1x",
                           "x1",
                           "1x2,",
                           ",1x2",
                           "1x2x3",
                           "1X2",
                           "1x-2",
                           "+1x2",
                           "1 x 2",
                           "1x2;1x3",
                           "0x1",
                           "9x1",
                           "ordered:",
                           "ordered",
                           "ordered:pow2/pow2",
                           "ordered 1x2",
                           "1x2/budget",
                           "1x2/budget:",
                           "1x2/budget:0",
                           "1x2/budget:x",
                           "1x2/budget:-5",
                           "1x2/budget:7",
                           "8x8/budget:8",
                           "pow2/pow2/budget:8/budget:8",
                           "pow2/pow2/budget:3",
                           "99999999999999999999x1"}) {
    const absl::StatusOr<JointPolicy> policy = JointPolicy::Parse(text, {8, 8});
    ASSERT_THAT(policy, StatusIs(kWrongArgument)) << text;
    EXPECT_THAT(policy.status().ToString(), HasSubstr(fmt::format("\"{}\"", text)));
    EXPECT_THAT(policy.status().ToString(), HasSubstr("pow2/linear:128"));
  }
}

TEST(JointPolicyTest, ParseReadsTheSpellingsOfBothLadders) {
  const JointPolicy policy = Parsed("geometric:1.5:8/ramp/budget:4096", {48, 128});
  EXPECT_EQ(policy.name(), "geometric:1.5:8/ramp:4:16/budget:4096");
  EXPECT_THAT(policy.axes(), SizeIs(2));
  EXPECT_EQ(policy.axes()[1].name(), "ramp:4:16");
  EXPECT_EQ(policy.limit(), (JointSize{48, 128}));
  EXPECT_EQ(policy.budget(), 4096);
}

}  // namespace
}  // namespace coppice
