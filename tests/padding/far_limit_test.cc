// Goal: how far the limit lies above the sizes that are called does not matter to their padding.
// Method: drawn traffic of several shapes, learned at once and step by step, with limits from 64 to
// 2^20, against the same with the largest size as the limit.

#include "coppice/padding/learn_buckets.h"
#include "coppice/padding/padding_policy.h"
#include "coppice/padding/relearn.h"
#include "coppice/padding/score_buckets.h"
#include "coppice/padding/size_histogram.h"

#include "tests/support/test.h"
#include "tests/support/test_device.h"

namespace coppice {
namespace {

constexpr double kBar = 1.15;
constexpr int64_t kLimitMax = int64_t{1} << 20;
constexpr int64_t kCalls = 4000;

class Draws {
 public:
  Draws() : random_(TestSeed()) {}

  double Uniform() { return (static_cast<double>(random_() >> 11) + 0.5) * 0x1p-53; }
  double Normal() { return std::sqrt(-2 * std::log(Uniform())) * std::cos(2 * M_PI * Uniform()); }
  int64_t Between(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(Uniform() * static_cast<double>(high - low + 1));
  }

 private:
  std::mt19937_64 random_;
};

// By shape, traffic of sizes up to `largest`.
std::map<std::string, std::vector<int64_t>> DrawTraffic(Draws& draw, int64_t largest) {
  std::map<std::string, std::vector<int64_t>> traffic;
  const auto most = static_cast<double>(largest);
  for (int64_t call = 0; call < kCalls; ++call) {
    const auto add = [&](const char* shape, double size) {
      traffic[shape].push_back(std::clamp(static_cast<int64_t>(size), int64_t{1}, largest));
    };
    add("uniform", static_cast<double>(draw.Between(1, largest)));
    add("Zipf", std::pow(draw.Uniform(), -1 / 1.1));
    add("two peaks", (call % 2 == 0 ? most / 12 : most * 0.8) * (1 + draw.Normal() / 10));
    add("one peak", most / 4 * std::exp(0.7 * draw.Normal()));
    // One call of many is far larger than the others.
    add("an outlier", call == kCalls / 2 ? most : most / 50 * (1 + draw.Uniform()));
  }
  return traffic;
}

std::vector<int64_t> LimitsAbove(int64_t largest) {
  std::vector<int64_t> limits;
  for (int64_t limit = 64; limit <= kLimitMax; limit *= 4)
    if (limit > largest) limits.push_back(limit);
  return limits;
}

// That no size above `largest` is padded to more than twice the bucket below.
void ExpectDoubling(const std::vector<int64_t>& buckets, int64_t largest) {
  int64_t below = largest;
  for (const int64_t bucket : buckets) {
    if (bucket <= largest) continue;
    EXPECT_LE(bucket, 2 * below) << "a size that nobody called is padded too much";
    below = bucket;
  }
}

double WasteOf(const SizeHistogram& histogram, const std::vector<int64_t>& buckets) {
  return ScoreBuckets(histogram, *PaddingPolicy::List(buckets, buckets.back())).waste_pct;
}

TEST(FarLimitTest, LearningPadsAsWithTheLargestSizeAsTheLimit) {
  Draws draw;
  for (const int64_t most : {draw.Between(40, 63), draw.Between(500, 5000)}) {
    for (const auto& [shape, sizes] : DrawTraffic(draw, most)) {
      COPPICE_ASSERT_OK_AND_ASSIGN(const SizeHistogram traffic, SizeHistogram::FromSizes(sizes));
      for (const int64_t count : {4, 8, 13, 32}) {
        const int64_t largest = traffic.largest();
        COPPICE_ASSERT_OK_AND_ASSIGN(const LearnedBuckets best,
                                     LearnBuckets(traffic, {.limit = largest, .count = count}));
        for (const int64_t limit : LimitsAbove(largest)) {
          COPPICE_ASSERT_OK_AND_ASSIGN(const LearnedBuckets learned,
                                       LearnBuckets(traffic, {.limit = limit, .count = count}));
          EXPECT_LE(learned.waste_pct, kBar * best.waste_pct)
              << shape << " up to " << largest << ", " << count << " buckets, limit " << limit;
          EXPECT_LE(std::ssize(learned.buckets) - learned.doublings, count);
          EXPECT_EQ(learned.buckets.back(), limit);
          ExpectDoubling(learned.buckets, largest);
        }
      }
    }
  }
}

// The buckets after some times to learn, from powers of two on, while anything is gained. With a
// count of 0 there are as many in all as there were.
std::vector<int64_t> RelearnedFromPow2(const SizeHistogram& traffic, int64_t limit, int64_t count) {
  std::vector<int64_t> buckets = PaddingPolicy::Pow2(limit)->buckets();
  const RelearnOptions options = {
      .learn = {.limit = limit, .count = count > 0 ? count : std::ssize(buckets), .prior = 0.02},
      .counts_uncalled = count == 0,
      .gain_min = 0,
      .gain_each = 0};
  for (int round = 0; round < 6; ++round) {
    const absl::StatusOr<Relearned> relearned = Relearn(traffic, buckets, options);
    EXPECT_OK(relearned);
    if (!relearned.ok()) break;
    buckets = relearned->buckets;
  }
  return buckets;
}

TEST(FarLimitTest, LearningAgainPadsAsWithTheLargestSizeAsTheLimit) {
  Draws draw;
  for (const int64_t most : {draw.Between(40, 63), draw.Between(500, 1000)}) {
    for (const auto& [shape, sizes] : DrawTraffic(draw, most)) {
      COPPICE_ASSERT_OK_AND_ASSIGN(const SizeHistogram traffic, SizeHistogram::FromSizes(sizes));
      const int64_t largest = traffic.largest();
      for (const int64_t count : {0, 8, 16}) {
        // A limit at an outlier is a bucket for its one call, which a swap under any other limit
        // would have to save: learning ends elsewhere. It is compared with the nearest of those.
        const int64_t nearest = shape == "an outlier" ? LimitsAbove(largest).front() : largest;
        const double waste = WasteOf(traffic, RelearnedFromPow2(traffic, nearest, count));
        for (const int64_t limit : LimitsAbove(largest)) {
          const std::vector<int64_t> buckets = RelearnedFromPow2(traffic, limit, count);
          EXPECT_LE(WasteOf(traffic, buckets), kBar * waste)
              << shape << " up to " << largest << ", " << count << " buckets, limit " << limit;
          ExpectDoubling(buckets, largest);
          const int64_t doublings = std::ssize(PaddingPolicy::Pow2(limit)->buckets());
          EXPECT_LE(std::ssize(buckets), count + doublings + 1);
        }
      }
    }
  }
}

}  // namespace
}  // namespace coppice
