// Learning: what may be a bucket, what each would cost, and the cheapest ladder of them.

#include "coppice/padding/learn_buckets.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "coppice/base/status.h"
#include "coppice/base/units.h"
#include "coppice/padding/padding_policy.h"

#include "graphs/padding/cheapest_ladder.h"
#include "graphs/padding/size_prior.h"

namespace coppice {
namespace {

bool IsAmount(double value) {
  return value >= 0 && std::isfinite(value);
}

absl::Status CheckOptions(const LearnOptions& options) {
  if (options.limit < 1 || options.limit > PaddingPolicy::kExtentMax)
    return InvalidArgument("LearnBuckets: limit {} is outside [1, {}]", options.limit,
                           PaddingPolicy::kExtentMax);
  if (options.count < 0)
    return InvalidArgument("LearnBuckets: the number of buckets is {}; give 0 or more",
                           options.count);
  if (!IsAmount(options.price))
    return InvalidArgument("LearnBuckets: price is {}; give 0 or more", options.price);
  if (options.count == 0 && options.price == 0 && !options.price_of)
    return InvalidArgument("LearnBuckets: there is neither a count nor a price; give one of them");
  if (options.align < 1) return InvalidArgument("LearnBuckets: align {} is below 1", options.align);
  for (const int64_t size : options.forced) {
    if (size < 1 || size > options.limit)
      return InvalidArgument(
          "LearnBuckets: forced size {} is outside the range from 1 to the limit, {}", size,
          options.limit);
  }
  if (!(options.prior >= 0 && options.prior <= 1))
    return InvalidArgument("LearnBuckets: prior {} is outside [0, 1]", options.prior);
  if (options.max_ratio != 0 && !(options.max_ratio >= 1 && std::isfinite(options.max_ratio)))
    return InvalidArgument("LearnBuckets: max_ratio {} must be 0, or at least 1",
                           options.max_ratio);
  if (options.max_gap < 0 || (options.max_gap > 0 && options.max_ratio == 0))
    return InvalidArgument(
        "LearnBuckets: max_gap is {}; give 0 or more, and give max_ratio as well", options.max_gap);
  return absl::OkStatus();
}

// The sizes that are buckets whatever they cost, sorted, each once: the forced ones and the limit.
std::vector<int64_t> FixedSizes(const LearnOptions& options) {
  std::vector<int64_t> fixed = options.forced;
  fixed.push_back(options.limit);
  std::sort(fixed.begin(), fixed.end());
  fixed.erase(std::unique(fixed.begin(), fixed.end()), fixed.end());
  return fixed;
}

int64_t CountCandidates(const LearnOptions& options, const std::vector<int64_t>& fixed) {
  int64_t count = options.limit / options.align;
  for (const int64_t size : fixed)
    count += size % options.align != 0;
  return count;
}

// Sorted. A size that no call has is never cheaper than the next smaller one that some have, unless
// the price says so; caps may need it all the same.
std::vector<int64_t> Candidates(const SizeHistogram& histogram,
                                const LearnOptions& options,
                                const std::vector<int64_t>& fixed) {
  std::vector<int64_t> sizes;
  if (options.prior > 0 || options.max_ratio != 0 || options.price_of) {
    for (int64_t size = options.align; size <= options.limit; size += options.align)
      sizes.push_back(size);
  } else {
    for (const SizeCount& one : histogram.counts()) {
      const int64_t size = AlignUp(std::max<int64_t>(one.size, 1), options.align);
      if (size <= options.limit) sizes.push_back(size);
    }
  }
  const auto middle = static_cast<std::ptrdiff_t>(sizes.size());
  sizes.insert(sizes.end(), fixed.begin(), fixed.end());
  std::inplace_merge(sizes.begin(), sizes.begin() + middle, sizes.end());
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  return sizes;
}

// Where each call, and the prior, goes if every candidate is a bucket.
std::vector<double> MassOf(const SizeHistogram& histogram,
                           double mass,
                           const LearnOptions& options,
                           const std::vector<int64_t>& sizes) {
  std::vector<double> weights(sizes.size() + 1);
  size_t at = 0;
  for (const SizeCount& one : histogram.counts()) {
    if (one.size > options.limit) break;
    while (sizes[at] < one.size)
      ++at;
    weights[at + 1] += one.count * (1 - options.prior);
  }
  if (options.prior > 0) {
    SizePrior prior(histogram, options.limit, mass * options.prior);
    at = 0;
    for (int64_t size = 1; size <= options.limit; ++size) {
      if (sizes[at] < size) ++at;
      weights[at + 1] += prior.Next();
    }
  }
  for (size_t i = 1; i < weights.size(); ++i)
    weights[i] += weights[i - 1];
  return weights;
}

absl::Status FillCosts(const BucketCost& cost,
                       const LearnOptions& options,
                       const std::vector<int64_t>& sizes,
                       LadderProblem& problem) {
  problem.cost.assign(1, 0);
  problem.price.assign(1, 0);
  for (size_t i = 0; i < sizes.size(); ++i) {
    const double one = cost(sizes[i]);
    if (!IsAmount(one))
      return InvalidArgument("LearnBuckets: size {} costs {}; give 0 or more", sizes[i], one);
    if (one < problem.cost.back())
      return InvalidArgument(
          "LearnBuckets: the cost falls from {} at size {} to {} at size {}; a larger size must "
          "not cost less",
          problem.cost.back(), sizes[i - 1], one, sizes[i]);
    problem.cost.push_back(one);
    const double price = options.price_of ? options.price_of(sizes[i]) : options.price;
    if (!IsAmount(price))
      return InvalidArgument("LearnBuckets: bucket {} has a price of {}; give 0 or more", sizes[i],
                             price);
    problem.price.push_back(price);
  }
  return absl::OkStatus();
}

// The largest size that a call of `size` may be padded to.
int64_t PaddedMax(int64_t size, const LearnOptions& options) {
  if (options.max_ratio == 0) return options.limit;
  const double scaled = std::floor(options.max_ratio * static_cast<double>(size));
  if (scaled >= static_cast<double>(options.limit)) return options.limit;
  return std::max(static_cast<int64_t>(scaled), size + std::min(options.max_gap, options.limit));
}

// A step passes no fixed size, and no cap of the smallest call in it; the next candidate is always
// in reach.
void FillReach(const LearnOptions& options,
               const std::vector<int64_t>& sizes,
               const std::vector<int64_t>& fixed,
               LadderProblem& problem) {
  problem.from_min.assign(1, 0);
  auto passed = fixed.begin();
  int32_t from = 0;
  int32_t fixed_rung = 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    const auto rung = static_cast<int32_t>(i) + 1;
    from = std::max(from, fixed_rung);
    while (from < rung - 1 && PaddedMax((from == 0 ? 0 : sizes[static_cast<size_t>(from) - 1]) + 1,
                                        options) < sizes[i])
      ++from;
    problem.from_min.push_back(from);
    if (sizes[i] == *passed) {
      fixed_rung = rung;
      ++passed;
    }
  }
}

absl::Status TooFewForForced(const LearnOptions& options, size_t forced) {
  return InvalidArgument(
      "LearnBuckets: a bucket count of {} is too small for {} forced sizes (the limit counts as "
      "one); give at least {}",
      options.count, forced, forced);
}

absl::Status CheckCount(const LearnOptions& options,
                        const std::vector<int64_t>& fixed,
                        const LadderProblem& problem) {
  if (options.count == 0) return absl::OkStatus();
  const auto shortest = static_cast<int64_t>(ShortestLadder(problem).size());
  if (options.count >= shortest) return absl::OkStatus();
  if (options.max_ratio == 0) return TooFewForForced(options, fixed.size());
  return InvalidArgument(
      "LearnBuckets: a bucket count of {} is too small for a max_ratio of {} and a max_gap of {} "
      "at sizes up to {}; give a count of at least {}, or larger caps",
      options.count, options.max_ratio, options.max_gap, options.limit, shortest);
}

absl::StatusOr<std::vector<int64_t>> CheapestBuckets(const SizeHistogram& histogram,
                                                     double mass,
                                                     const BucketCost& cost,
                                                     const LearnOptions& options) {
  const std::vector<int64_t> fixed = FixedSizes(options);
  const std::vector<int64_t> sizes = Candidates(histogram, options, fixed);
  LadderProblem problem;
  COPPICE_RETURN_IF_ERROR(FillCosts(cost, options, sizes, problem));
  problem.mass = MassOf(histogram, mass, options, sizes);
  FillReach(options, sizes, fixed, problem);
  COPPICE_RETURN_IF_ERROR(CheckCount(options, fixed, problem));
  std::vector<int64_t> buckets;
  for (const int32_t rung : CheapestLadder(problem, options.count))
    buckets.push_back(sizes[static_cast<size_t>(rung) - 1]);
  return buckets;
}

// The problem up to the largest size that was called, which takes its place in the count from the
// limit.
LearnOptions UpToCalls(const SizeHistogram& histogram,
                       const LearnOptions& options,
                       const std::vector<int64_t>& fixed) {
  LearnOptions called = options;
  called.limit =
      std::min(options.limit, AlignUp(LargestCalled(histogram, options.limit), options.align));
  const auto beyond = std::upper_bound(fixed.begin(), fixed.end(), called.limit);
  called.forced.assign(fixed.begin(), beyond);
  if (options.count == 0) return called;
  const int64_t forced_beyond = std::max<int64_t>(fixed.end() - beyond - 1, 0);  // But the limit.
  called.count = std::min(options.count - forced_beyond, CountCandidates(called, called.forced));
  return called;
}

// Goes on behind `buckets` by doubling, through forced sizes, to the limit.
void GoOn(const LearnOptions& options,
          const std::vector<int64_t>& fixed,
          std::vector<int64_t>& buckets) {
  while (buckets.back() < options.limit) {
    const int64_t forced = *std::upper_bound(fixed.begin(), fixed.end(), buckets.back());
    buckets.push_back(std::min(forced, Doubled(buckets.back(), options.align, options.limit)));
  }
}

// What the calls of `histogram` cost in `learned`, and without padding.
void Account(const SizeHistogram& histogram, const BucketCost& cost, LearnedBuckets& learned) {
  auto bucket = learned.buckets.begin();
  for (const SizeCount& one : histogram.counts()) {
    while (bucket != learned.buckets.end() && *bucket < one.size)
      ++bucket;
    if (bucket == learned.buckets.end()) {
      learned.beyond += one.count;
      continue;
    }
    learned.mass += one.count;
    learned.cost += one.count * cost(*bucket);
    learned.real_cost += one.count * cost(one.size);
  }
  if (learned.real_cost > 0)
    learned.waste_pct = 100 * (learned.cost - learned.real_cost) / learned.real_cost;
}

}  // namespace

absl::StatusOr<LearnedBuckets> LearnBuckets(const SizeHistogram& histogram,
                                            const LearnOptions& options) {
  COPPICE_RETURN_IF_ERROR(CheckOptions(options));
  const BucketCost cost =
      options.cost ? options.cost : [](int64_t size) { return static_cast<double>(size); };
  double mass = 0;
  for (const SizeCount& one : histogram.counts())
    mass += one.size <= options.limit ? one.count : 0;
  if (mass == 0)
    return InvalidArgument(
        "LearnBuckets: the histogram has no call of a size up to the limit, {}; give traffic with "
        "such sizes",
        options.limit);
  const std::vector<int64_t> fixed = FixedSizes(options);
  const int64_t candidates = CountCandidates(options, fixed);
  if (options.count > candidates)
    return InvalidArgument(
        "LearnBuckets: {} buckets are requested, but only {} sizes can be buckets; give a smaller "
        "number",
        options.count, candidates);
  if (candidates > kLearnCandidatesMax)
    return MakeError(
        absl::StatusCode::kOutOfRange,
        "LearnBuckets: {} sizes can be buckets, but at most {} are allowed; give a larger align",
        candidates, kLearnCandidatesMax);
  LearnedBuckets learned;
  // Caps need their buckets whether sizes are called or not.
  if (options.prior > 0 && options.max_ratio == 0) {
    if (options.count > 0 && options.count < std::ssize(fixed))
      return TooFewForForced(options, fixed.size());
    COPPICE_ASSIGN_OR_RETURN(
        learned.buckets,
        CheapestBuckets(histogram, mass, cost, UpToCalls(histogram, options, fixed)));
    const int64_t count = std::ssize(learned.buckets);
    GoOn(options, fixed, learned.buckets);
    learned.doublings = std::ssize(learned.buckets) - count;
  } else {
    COPPICE_ASSIGN_OR_RETURN(learned.buckets, CheapestBuckets(histogram, mass, cost, options));
  }
  Account(histogram, cost, learned);
  return learned;
}

}  // namespace coppice
