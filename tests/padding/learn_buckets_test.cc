// Goal: every sentence of learn_buckets.h. Method: random small cases with all options mixed, each
// against every set of buckets that there is; larger ones against the plain recurrence; what an
// optimum must be by itself; and each bad option by name.

#include "coppice/padding/learn_buckets.h"

#include "coppice/padding/padding_policy.h"

#include "tests/support/test.h"
#include "tests/support/test_device.h"

namespace coppice {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

struct Case {
  std::vector<SizeCount> counts;
  LearnOptions options;
  std::vector<double> cost;   // By size.
  std::vector<double> price;  // By size.

  std::string Show() const {
    std::string text =
        fmt::format("limit {} count {} align {} prior {} ratio {} gap {} forced [{}] price {}\n",
                    options.limit, options.count, options.align, options.prior, options.max_ratio,
                    options.max_gap, fmt::join(options.forced, " "), options.price);
    for (const SizeCount& one : counts)
      text += fmt::format("{}x{} ", one.count, one.size);
    return text + fmt::format("\ncosts {}\nprices {}", fmt::join(cost, " "), fmt::join(price, " "));
  }
};

Case RandomCase(std::mt19937_64& random, int64_t limit_max) {
  const auto draw = [&random](int64_t min, int64_t max) {
    return min + static_cast<int64_t>(random() % static_cast<uint64_t>(max - min + 1));
  };
  Case one;
  LearnOptions& options = one.options;
  options.limit = draw(1, limit_max);
  for (int64_t i = draw(0, 8); i >= 0; --i)
    one.counts.push_back({draw(0, limit_max + 2), static_cast<double>(draw(1, 6))});
  one.counts.push_back({draw(0, options.limit), 1});
  options.align = draw(0, 2) == 0 ? draw(1, 5) : 1;
  if (draw(0, 2) == 0) {
    for (int64_t i = draw(0, 2); i >= 0; --i)
      options.forced.push_back(draw(1, options.limit));
  }
  const double priors[] = {0, 0, 0.05, 0.5, 1};
  options.prior = priors[draw(0, 4)];
  const double ratios[] = {0, 0, 1, 1.25, 1.5, 2, 3};
  options.max_ratio = ratios[draw(0, 6)];
  if (options.max_ratio != 0) options.max_gap = draw(0, 3);
  const int64_t shape = draw(0, 3);
  double cost = static_cast<double>(draw(0, 3));
  for (int64_t size = 0; size <= options.limit + 2; ++size) {
    one.cost.push_back(shape == 0 ? static_cast<double>(size) : cost);
    if (shape == 1) cost += static_cast<double>(draw(0, 4));
    if (shape == 2) cost += draw(0, 3) == 0 ? 10 : 0;
    if (shape == 3) cost += std::sqrt(static_cast<double>(size));
  }
  if (shape != 0) options.cost = [costs = one.cost](int64_t size) { return costs.at(size); };
  options.price = draw(0, 2) == 0 ? static_cast<double>(draw(0, 30)) / 4 : 0;
  one.price.assign(one.cost.size(), options.price);
  if (draw(0, 3) == 0) {
    for (double& price : one.price)
      price = static_cast<double>(draw(0, 20)) / 2;
    options.price_of = [prices = one.price](int64_t size) { return prices.at(size); };
  }
  options.count = draw(1, 6);
  if ((options.price > 0 || options.price_of) && draw(0, 1) == 0) options.count = 0;
  return one;
}

// What a call of each size up to the limit weighs.
std::vector<double> WeightsOf(const Case& one) {
  const LearnOptions& options = one.options;
  std::vector<double> weights(static_cast<size_t>(options.limit) + 1);
  double mass = 0;
  for (const SizeCount& count : one.counts) {
    if (count.size > options.limit) continue;
    mass += count.count;
    weights[count.size] += count.count * (1 - options.prior);
  }
  std::vector<double> prior(weights.size());
  double sum = 0;
  for (int64_t size = 1; size <= options.limit; ++size) {
    for (const SizeCount& count : one.counts) {
      if (count.size > options.limit) continue;
      const auto elements = static_cast<double>(size);
      const double share = std::max(1.0, static_cast<double>(count.size)) / elements;
      prior[size] += count.count * std::min(1.0, share * share) / elements;
    }
    sum += prior[size];
  }
  for (int64_t size = 1; size <= options.limit; ++size)
    weights[size] += mass * options.prior * prior[size] / sum;
  return weights;
}

bool IsCandidate(const LearnOptions& options, int64_t size) {
  return size % options.align == 0 || size == options.limit ||
         std::ranges::find(options.forced, size) != options.forced.end();
}

// Whether a call of `size` may be padded to `bucket`, as the header says.
bool CapAllows(const LearnOptions& options, int64_t size, int64_t bucket) {
  if (options.max_ratio == 0 || size == 0) return true;
  if (static_cast<double>(bucket) <= options.max_ratio * static_cast<double>(size)) return true;
  if (bucket - size <= options.max_gap) return true;
  for (int64_t at = size; at < bucket; ++at) {
    if (IsCandidate(options, at)) return false;
  }
  return true;
}

// The cost of a set of buckets, or kNever if it is not allowed.
double CostOf(const Case& one,
              const std::vector<double>& weights,
              const std::vector<int64_t>& buckets) {
  double cost = 0;
  size_t at = 0;
  for (const int64_t bucket : buckets)
    cost += one.price[bucket];
  for (int64_t size = 0; size <= one.options.limit; ++size) {
    while (buckets[at] < size)
      ++at;
    if (!CapAllows(one.options, size, buckets[at])) return kNever;
    cost += weights[size] * one.cost[buckets[at]];
  }
  return cost;
}

struct Best {
  double cost = kNever;
  int64_t shortest = 0;  // Of all sets that are allowed.
  int64_t candidates = 0;
};

// Tries every set.
Best TryAll(const Case& one) {
  const LearnOptions& options = one.options;
  const std::vector<double> weights = WeightsOf(one);
  std::vector<int64_t> candidates;
  for (int64_t size = 1; size < options.limit; ++size) {
    if (IsCandidate(options, size)) candidates.push_back(size);
  }
  Best best = {.shortest = options.limit + 1,
               .candidates = static_cast<int64_t>(candidates.size()) + 1};
  for (uint64_t set = 0; set < uint64_t{1} << candidates.size(); ++set) {
    std::vector<int64_t> buckets;
    for (size_t i = 0; i < candidates.size(); ++i) {
      if ((set >> i & 1) != 0) buckets.push_back(candidates[i]);
    }
    buckets.push_back(options.limit);
    if (!std::ranges::all_of(options.forced, [&](int64_t size) {
          return std::ranges::binary_search(buckets, size);
        }))
      continue;
    const double cost = CostOf(one, weights, buckets);
    if (cost == kNever) continue;
    const auto count = static_cast<int64_t>(buckets.size());
    best.shortest = std::min(best.shortest, count);
    if (options.count == 0 || count <= options.count) best.cost = std::min(best.cost, cost);
  }
  return best;
}

// That no bucket could be left out, and none be smaller, at less or the same cost.
void ExpectNoSmaller(const Case& one,
                     const std::vector<double>& weights,
                     const std::vector<int64_t>& buckets) {
  const double cost = CostOf(one, weights, buckets);
  const auto is_forced = [&one](int64_t size) {
    return std::ranges::find(one.options.forced, size) != one.options.forced.end();
  };
  const double margin = one.options.prior == 0 ? 0 : 1e-9 * (1 + cost);
  for (size_t i = 0; i + 1 < buckets.size(); ++i) {
    if (is_forced(buckets[i])) continue;
    std::vector<int64_t> other = buckets;
    other.erase(other.begin() + static_cast<std::ptrdiff_t>(i));
    ASSERT_GT(CostOf(one, weights, other), cost - margin) << "without " << buckets[i];
    for (int64_t size = (i == 0 ? 0 : buckets[i - 1]) + 1; size < buckets[i]; ++size) {
      if (!IsCandidate(one.options, size)) continue;
      other = buckets;
      other[i] = size;
      ASSERT_GT(CostOf(one, weights, other), cost - margin) << size << " for " << buckets[i];
    }
  }
}

void ExpectCheapest(const Case& one, double least, const std::vector<int64_t>& buckets) {
  if (one.options.count > 0) {
    ASSERT_LE(std::ssize(buckets), one.options.count);
  }
  const std::vector<double> weights = WeightsOf(one);
  const double cost = CostOf(one, weights, buckets);
  ASSERT_NEAR(cost, least, 1e-9 * (1 + least)) << fmt::format("{}", buckets.size());
  ExpectNoSmaller(one, weights, buckets);
}

// Whether buckets go on by doubling behind the largest size that is called.
bool GoesOn(const LearnOptions& options) {
  return options.prior > 0 && options.max_ratio == 0;
}

// The same calls, up to the largest of them.
Case UpToCalls(Case one) {
  LearnOptions& options = one.options;
  int64_t largest = 1;
  for (const SizeCount& count : one.counts) {
    if (count.size <= options.limit) largest = std::max(largest, count.size);
  }
  while (!IsCandidate({.limit = options.limit, .align = options.align}, largest))
    ++largest;
  const std::set<int64_t> forced(options.forced.begin(), options.forced.end());
  options.forced.clear();
  for (const int64_t size : forced) {
    if (size <= largest)
      options.forced.push_back(size);
    else if (size < options.limit && options.count > 0)
      --options.count;
  }
  options.limit = largest;
  return one;
}

// Takes off what follows `limit`: each bucket is the largest multiple up to twice the one before,
// the next multiple, a forced size, or the last.
void ExpectDoublings(const LearnOptions& options, int64_t limit, std::vector<int64_t>& buckets) {
  const auto tail = std::ranges::find(buckets, limit);
  ASSERT_NE(tail, buckets.end());
  for (auto next = tail + 1; next != buckets.end(); ++next) {
    const int64_t below = *(next - 1);
    if (std::ranges::find(options.forced, *next) != options.forced.end()) continue;
    int64_t doubled = below;
    for (int64_t size = below + 1; size <= options.limit; ++size) {
      if (size > 2 * below && doubled > below) break;
      if (size % options.align == 0 || size == options.limit) doubled = size;
    }
    ASSERT_EQ(*next, doubled) << "behind " << below;
  }
  buckets.erase(tail + 1, buckets.end());
}

void ExpectOptimum(const Case& one, Best (*solve)(const Case&)) {
  const Best best = solve(one);
  const absl::StatusOr<SizeHistogram> histogram = SizeHistogram::From(one.counts);
  ASSERT_TRUE(histogram.ok()) << histogram.status();
  const absl::StatusOr<LearnedBuckets> learned = LearnBuckets(*histogram, one.options);
  if (one.options.count == 0 && one.options.price == 0 && !one.options.price_of) return;
  if (one.options.count > best.candidates || best.cost == kNever) {
    ASSERT_EQ(learned.status().code(), absl::StatusCode::kInvalidArgument);
    if (one.options.count <= best.candidates) {
      ASSERT_THAT(learned.status().ToString(),
                  HasSubstr(fmt::format("at least {}", best.shortest)));
    }
    return;
  }
  ASSERT_TRUE(learned.ok()) << learned.status();
  ASSERT_EQ(learned->buckets.back(), one.options.limit);
  ASSERT_TRUE(std::ranges::is_sorted(learned->buckets, std::less_equal<>()));
  for (const int64_t size : one.options.forced)
    ASSERT_TRUE(std::ranges::binary_search(learned->buckets, size));
  for (const int64_t bucket : learned->buckets)
    ASSERT_TRUE(IsCandidate(one.options, bucket)) << bucket;
  if (!GoesOn(one.options)) return ExpectCheapest(one, best.cost, learned->buckets);
  const Case called = UpToCalls(one);
  std::vector<int64_t> buckets = learned->buckets;
  ASSERT_NO_FATAL_FAILURE(ExpectDoublings(one.options, called.options.limit, buckets));
  ExpectCheapest(called, solve(called).cost, buckets);
}

TEST(LearnBucketsTest, IsTheBestOfAllSetsOfBuckets) {
  std::mt19937_64 random(TestSeed());
  for (int64_t round = 0; round < 10'000 / TestShare(); ++round) {
    const Case one = RandomCase(random, 10);
    ASSERT_NO_FATAL_FAILURE(ExpectOptimum(one, &TryAll)) << "round " << round << "\n" << one.Show();
  }
}

// The recurrence over the last bucket but one, for every count.
Best Recur(const Case& one) {
  const LearnOptions& options = one.options;
  const std::vector<double> weights = WeightsOf(one);
  std::vector<int64_t> rungs = {0};
  for (int64_t size = 1; size <= options.limit; ++size) {
    if (IsCandidate(options, size)) rungs.push_back(size);
  }
  const auto step = [&](int64_t from, int64_t to) {
    double cost = one.price[to];
    for (int64_t size = from == 0 ? 0 : from + 1; size <= to; ++size) {
      if (!CapAllows(options, size, to)) return kNever;
      if (size < to && std::ranges::find(options.forced, size) != options.forced.end())
        return kNever;
      cost += weights[size] * one.cost[to];
    }
    return cost;
  };
  Best best = {.candidates = static_cast<int64_t>(rungs.size()) - 1};
  std::vector<double> costs(rungs.size(), kNever);
  costs[0] = 0;
  for (int64_t count = 1; count <= best.candidates; ++count) {
    std::vector<double> next(rungs.size(), kNever);
    for (size_t to = 1; to < rungs.size(); ++to) {
      for (size_t from = 0; from < to; ++from) {
        if (costs[from] != kNever)
          next[to] = std::min(next[to], costs[from] + step(rungs[from], rungs[to]));
      }
    }
    costs = next;
    if (costs.back() == kNever) continue;
    if (best.shortest == 0) best.shortest = count;
    if (options.count == 0 || count <= options.count) best.cost = std::min(best.cost, costs.back());
  }
  return best;
}

TEST(LearnBucketsTest, IsWhatTheRecurrenceFinds) {
  std::mt19937_64 random(TestSeed() + 1);
  for (int64_t round = 0; round < 200 / TestShare(); ++round) {
    Case one = RandomCase(random, 40);
    if (one.options.count > 0) one.options.count = 1 + static_cast<int64_t>(random() % 25);
    ASSERT_NO_FATAL_FAILURE(ExpectOptimum(one, &Recur)) << "round " << round << "\n" << one.Show();
  }
}

SizeHistogram Of(const std::vector<SizeCount>& counts) {
  return *SizeHistogram::From(counts);
}

TEST(LearnBucketsTest, MakesTheLaddersOfThePicture) {
  const SizeHistogram traffic = Of({{3, 3}, {7, 2}, {40, 1}});
  LearnOptions options = {.limit = 64, .count = 2, .prior = 0};
  EXPECT_THAT(LearnBuckets(traffic, options)->buckets, ElementsAre(7, 64));
  options.count = 3;
  EXPECT_THAT(LearnBuckets(traffic, options)->buckets, ElementsAre(7, 40, 64));
  options.count = 4;
  EXPECT_THAT(LearnBuckets(traffic, options)->buckets, ElementsAre(3, 7, 40, 64));
}

TEST(LearnBucketsTest, SaysWhatTheTrafficCosts) {
  const LearnedBuckets learned =
      *LearnBuckets(Of({{3, 3}, {7, 2}, {40, 1}, {65, 5}}), {.limit = 64, .count = 2, .prior = 0});
  EXPECT_EQ(learned.cost, 5 * 7 + 64);
  EXPECT_EQ(learned.real_cost, 3 * 3 + 2 * 7 + 40);
  EXPECT_DOUBLE_EQ(learned.waste_pct, 100.0 * 36 / 63);
  EXPECT_EQ(learned.mass, 6);
  EXPECT_EQ(learned.beyond, 5);
  // A prior moves buckets, and is no traffic.
  const LearnedBuckets all = *LearnBuckets(Of({{64, 1}}), {.limit = 64, .count = 9, .prior = 0.5});
  EXPECT_EQ(all.waste_pct, 0);
  EXPECT_EQ(LearnBuckets(Of({{0, 1}}), {.limit = 64, .count = 9, .prior = 0.5})->waste_pct, 0);
}

TEST(LearnBucketsTest, APriorPutsBucketsWhereNobodyCalled) {
  const SizeHistogram traffic = Of({{1, 50}, {2, 50}, {64, 1}});
  LearnOptions options = {.limit = 64, .count = 4, .prior = 0};
  EXPECT_THAT(LearnBuckets(traffic, options)->buckets, ElementsAre(1, 2, 64));
  options.prior = 0.05;
  const std::vector<int64_t> buckets = LearnBuckets(traffic, options)->buckets;
  ASSERT_EQ(buckets.size(), 4);
  EXPECT_GT(buckets[2], 2);
}

TEST(LearnBucketsTest, BehindTheLargestSizeCalledBucketsDouble) {
  const SizeHistogram traffic = Of({{1, 5}, {2, 5}, {3, 5}, {5, 5}});
  LearnOptions options = {.limit = 100, .count = 4};
  EXPECT_THAT(LearnBuckets(traffic, options)->buckets,
              ElementsAre(1, 2, 3, 5, 10, 20, 40, 80, 100));
  options.forced = {15, 50};
  options.count = 6;
  EXPECT_THAT(LearnBuckets(traffic, options)->buckets,
              ElementsAre(1, 2, 3, 5, 10, 15, 30, 50, 100));
  options.forced = {};
  options.align = 4;
  EXPECT_THAT(LearnBuckets(traffic, options)->buckets, ElementsAre(4, 8, 16, 32, 64, 100));
  options.align = 64;
  options.count = 2;
  EXPECT_THAT(LearnBuckets(traffic, options)->buckets, ElementsAre(64, 100));
}

TEST(LearnBucketsTest, CapsHoldForSizesThatNobodyCalled) {
  const SizeHistogram traffic = Of({{1, 1000}, {2, 1000}});
  LearnOptions options = {.limit = 512, .count = 25, .max_ratio = 1.25, .max_gap = 2};
  const LearnedBuckets learned = *LearnBuckets(traffic, options);
  const PaddingPolicy policy = *PaddingPolicy::List(learned.buckets, 512);
  for (int64_t size = 1; size <= 512; ++size)
    EXPECT_TRUE(CapAllows(options, size, *policy.Find(size))) << size;
  options.count = 5;
  EXPECT_THAT(LearnBuckets(traffic, options).status().ToString(), HasSubstr("at least 20"));
}

TEST(LearnBucketsTest, AnotherRunFindsTheSame) {
  std::mt19937_64 random(TestSeed() + 2);
  SizeHistogram traffic;
  for (int i = 0; i < 3000; ++i)
    traffic.Add(static_cast<int64_t>(random() % 20'000));
  for (const double ratio : {0.0, 1.5}) {
    const LearnOptions options = {.limit = 16'384, .count = 64, .max_ratio = ratio};
    const LearnedBuckets learned = *LearnBuckets(traffic, options);
    EXPECT_GE(learned.buckets.size(), 64);
    EXPECT_EQ(LearnBuckets(traffic, options)->buckets, learned.buckets);
  }
}

// Costs whose tolls are all the same, fall by powers, or are nothing.
TEST(LearnBucketsTest, FindsEveryCountOfStrangeTraffic) {
  std::vector<SizeCount> even;
  std::vector<SizeCount> powers;
  for (int64_t i = 1; i <= 400; ++i)
    even.push_back({2 * i, 1});
  for (int64_t i = 1; i <= 400; ++i)
    powers.push_back({2 * i, std::pow(0.97, static_cast<double>(i))});
  const auto flat = [](int64_t size) { return size <= 800 ? 0.0 : 1.0; };
  for (int64_t count : {1, 2, 3, 57, 199, 200, 201, 399, 400}) {
    const LearnOptions options = {.limit = 800, .count = count, .prior = 0};
    EXPECT_EQ(LearnBuckets(Of(even), options)->buckets.size(), count);
    EXPECT_EQ(LearnBuckets(Of(powers), options)->buckets.size(), count);
    LearnOptions free = options;
    free.cost = flat;
    EXPECT_THAT(LearnBuckets(Of(even), free)->buckets, ElementsAre(800));
  }
  // 400 sizes in 200 buckets of two: each pads one call by 2.
  const LearnOptions half = {.limit = 800, .count = 200, .prior = 0};
  EXPECT_EQ(LearnBuckets(Of(even), half)->cost - LearnBuckets(Of(even), half)->real_cost, 400);
}

void ExpectInvalid(LearnOptions options, const char* what, absl::StatusCode code) {
  const absl::Status status = LearnBuckets(Of({{3, 1}}), options).status();
  EXPECT_EQ(status.code(), code) << status;
  EXPECT_THAT(status.ToString(), HasSubstr(what));
  EXPECT_EQ(status.ToString().find('\n'), std::string::npos);
}

TEST(LearnBucketsTest, RejectsWhatCannotBeLearned) {
  const LearnOptions good = {.limit = 64, .count = 4};
  ASSERT_TRUE(LearnBuckets(Of({{3, 1}}), good).ok());
  const auto expect = [&good](auto change, const char* what) {
    LearnOptions options = good;
    change(options);
    ExpectInvalid(options, what, absl::StatusCode::kInvalidArgument);
  };
  const double nan = std::nan("");
  expect([](auto& o) { o.limit = 0; }, "limit 0");
  expect([](auto& o) { o.limit = PaddingPolicy::kExtentMax + 1; }, "limit");
  expect([](auto& o) { o.count = -1; }, "the number of buckets is -1");
  expect([](auto& o) { o.count = 0; }, "neither a count nor a price");
  expect([](auto& o) { o.count = 65; }, "65 buckets are requested, but only 64 sizes");
  expect([](auto& o) { o.align = 32, o.count = 3; }, "3 buckets are requested, but only 2 sizes");
  expect([](auto& o) { o.price = -1; }, "price");
  expect([nan](auto& o) { o.price = nan; }, "price");
  expect([](auto& o) { o.price_of = [](int64_t) { return -1.0; }; }, "price of -1");
  expect([](auto& o) { o.align = 0; }, "align 0");
  expect([](auto& o) { o.forced = {0}; }, "forced size 0");
  expect([](auto& o) { o.forced = {65}; }, "forced size 65");
  expect([](auto& o) { o.forced = {1, 2, 3, 4}; }, "at least 5");
  expect([](auto& o) { o.prior = 1.1; }, "prior");
  expect([nan](auto& o) { o.prior = nan; }, "prior");
  expect([](auto& o) { o.max_ratio = 0.9; }, "max_ratio");
  expect([nan](auto& o) { o.max_ratio = nan; }, "max_ratio");
  expect([](auto& o) { o.max_ratio = 2, o.max_gap = -1; }, "max_gap");
  expect([](auto& o) { o.max_gap = 1; }, "max_gap");
  expect([](auto& o) { o.max_ratio = 1.25; }, "at least");
  expect([](auto& o) { o.cost = [](int64_t size) { return -static_cast<double>(size); }; },
         "costs -");
  expect([](auto& o) { o.cost = [](int64_t size) { return 99 - static_cast<double>(size); }; },
         "the cost falls");
  expect([nan](auto& o) { o.cost = [nan](int64_t) { return nan; }; }, "costs nan");
  EXPECT_THAT(LearnBuckets(SizeHistogram(), good).status().ToString(), HasSubstr("no call"));
  EXPECT_THAT(LearnBuckets(Of({{65, 1}}), good).status().ToString(), HasSubstr("no call"));
  ExpectInvalid({.limit = kLearnCandidatesMax + 1, .count = 4}, "align",
                absl::StatusCode::kOutOfRange);
  EXPECT_TRUE(
      LearnBuckets(Of({{3, 1}}), {.limit = PaddingPolicy::kExtentMax, .count = 4, .align = 64})
          .ok());
}

}  // namespace
}  // namespace coppice
