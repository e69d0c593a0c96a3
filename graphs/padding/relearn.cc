// Dynamic programming over candidates, in layers by how many buckets there are and how many of
// them are new. Within a layer the cheapest predecessor never moves back as sizes grow, since costs
// are Monge, so that each is found by halving ranges.

#include "coppice/padding/relearn.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <limits>
#include <utility>
#include <vector>

#include "coppice/base/status.h"
#include "coppice/base/units.h"
#include "coppice/padding/score_buckets.h"

#include "graphs/padding/size_prior.h"

namespace coppice {
namespace {

constexpr double kUnreached = std::numeric_limits<double>::infinity();

struct Candidate {
  int64_t size = 0;
  bool added = false;  // Not in the old ladder.
  bool forced = false;
  double cost = 0;    // Of a call.
  double price = 0;   // Of having it.
  double weight = 0;  // Of calls up to its size.
};

// What is at (buckets, added, candidate): the least cost of a ladder that ends there, and the
// candidate before its last; -1: none.
struct LadderEnd {
  double cost = kUnreached;
  int32_t before = -1;
  int32_t added_before = -1;
};

class Ladders {
 public:
  // A ladder ends at the first candidate that holds calls of `largest`, or at a later one.
  Ladders(std::vector<Candidate> candidates,
          int64_t largest,
          const LearnOptions& learn,
          bool capped)
      : candidates_(std::move(candidates)), largest_(largest), learn_(learn), capped_(capped) {
    int64_t first = -1;
    for (size_t i = 0; i < candidates_.size(); ++i) {
      // It never moves back: what is too far below a bucket is too far below a larger one.
      first = FirstBefore(static_cast<int64_t>(i), first);
      first_before_.push_back(first);
      if (candidates_[i].forced) first = static_cast<int64_t>(i);
    }
  }

  // The cheapest ladder of at most `count` buckets, at most `added_max` of them new; empty if the
  // caps allow none.
  std::vector<int64_t> Best(int64_t count, int64_t added_max, double price_added) {
    const size_t size = candidates_.size();
    const auto states = static_cast<size_t>(added_max) + 1;
    layers_.assign(1, std::vector<std::vector<LadderEnd>>(states, std::vector<LadderEnd>(size)));
    for (size_t i = 0; i < size; ++i) {
      const size_t added = candidates_[i].added ? 1 : 0;
      if (added < states && first_before_[i] < 0)
        layers_[0][added][i].cost = Cost(-1, static_cast<int64_t>(i));
    }
    for (int64_t j = 1; j < count; ++j) {
      layers_.emplace_back(states, std::vector<LadderEnd>(size));
      for (size_t added = 0; added < states; ++added)
        Extend(added);
    }
    return Trace(price_added);
  }

 private:
  // The cost of the calls above candidate p (-1: of all) up to candidate i, and of having i.
  double Cost(int64_t p, int64_t i) const {
    const Candidate& bucket = candidates_[static_cast<size_t>(i)];
    const double below = p < 0 ? 0 : candidates_[static_cast<size_t>(p)].weight;
    return (bucket.weight - below) * bucket.cost + bucket.price;
  }

  // The first candidate from `first` on that may come right before candidate i; -1: none need come
  // before it.
  int64_t FirstBefore(int64_t i, int64_t first) const {
    const int64_t bucket = candidates_[static_cast<size_t>(i)].size;
    for (; capped_ && first < i - 1; ++first) {
      const int64_t smallest = (first < 0 ? 0 : candidates_[static_cast<size_t>(first)].size) + 1;
      const bool near =
          static_cast<double>(bucket) <= learn_.max_ratio * static_cast<double>(smallest) ||
          bucket - smallest <= learn_.max_gap;
      if (near || bucket <= AlignUp(smallest, learn_.align)) break;
    }
    return first;
  }

  // Fills the last layer from the ladders of one bucket less, `added` of them new.
  void Extend(size_t added) {
    const std::vector<LadderEnd>& from = layers_[layers_.size() - 2][added];
    ends_.clear();
    for (size_t p = 0; p < from.size(); ++p)
      if (from[p].cost < kUnreached) ends_.push_back(static_cast<int32_t>(p));
    rows_.clear();
    for (size_t i = 0; i < from.size(); ++i) {
      const auto first = std::lower_bound(ends_.begin(), ends_.end(), first_before_[i]);
      if (first != ends_.end() && *first < static_cast<int64_t>(i))
        rows_.push_back(static_cast<int32_t>(i));
    }
    if (rows_.empty()) return;
    ExtendRange(added, 0, rows_.size(), 0, ends_.size());
  }

  // Rows [first, last), whose predecessors are among ends [low, high).
  void ExtendRange(size_t added, size_t first, size_t last, size_t low, size_t high) {
    const std::vector<LadderEnd>& from = layers_[layers_.size() - 2][added];
    const size_t middle = (first + last) / 2;
    const auto row = static_cast<size_t>(rows_[middle]);
    double least = kUnreached;
    size_t best = low;
    for (size_t e = low; e < high; ++e) {
      const auto p = static_cast<size_t>(ends_[e]);
      if (p >= row) break;
      if (static_cast<int64_t>(p) < first_before_[row]) continue;
      const double cost = from[p].cost + Cost(static_cast<int64_t>(p), static_cast<int64_t>(row));
      if (cost < least) {
        least = cost;
        best = e;
      }
    }
    const size_t to = added + (candidates_[row].added ? 1 : 0);
    if (to < layers_.back().size() && least < layers_.back()[to][row].cost)
      layers_.back()[to][row] = {
          .cost = least, .before = ends_[best], .added_before = static_cast<int32_t>(added)};
    if (first < middle) ExtendRange(added, first, middle, low, best + 1);
    if (middle + 1 < last) ExtendRange(added, middle + 1, last, best, high);
  }

  // Back from the cheapest ladder that may end, if each new bucket costs `price_added`; of equals,
  // the one of fewer buckets and fewer new ones.
  std::vector<int64_t> Trace(double price_added) const {
    double least = kUnreached;
    size_t layer = 0;
    size_t added = 0;
    size_t last = 0;
    for (size_t j = 0; j < layers_.size(); ++j) {
      for (size_t a = 0; a < layers_[j].size(); ++a) {
        for (size_t i = candidates_.size(); i-- > 0 && candidates_[i].size >= largest_;) {
          const double cost = layers_[j][a][i].cost + price_added * static_cast<double>(a);
          if (cost >= least) continue;
          least = cost;
          layer = j;
          added = a;
          last = i;
        }
      }
    }
    std::vector<int64_t> buckets;
    if (least == kUnreached) return buckets;
    for (size_t i = last;; --layer) {
      buckets.push_back(candidates_[i].size);
      const LadderEnd& end = layers_[layer][added][i];
      if (end.before < 0) break;
      i = static_cast<size_t>(end.before);
      added = static_cast<size_t>(end.added_before);
    }
    std::reverse(buckets.begin(), buckets.end());
    return buckets;
  }

  const std::vector<Candidate> candidates_;
  const int64_t largest_;
  const LearnOptions& learn_;
  const bool capped_;
  std::vector<int64_t> first_before_;
  std::vector<std::vector<std::vector<LadderEnd>>> layers_;  // By buckets - 1, then by added.
  std::vector<int32_t> ends_;  // Candidates at which a ladder ends that is extended.
  std::vector<int32_t> rows_;  // Candidates that it may be extended to.
};

bool Holds(std::span<const int64_t> sorted, int64_t size) {
  return std::binary_search(sorted.begin(), sorted.end(), size);
}

// Sizes that cut the calls into `parts` of equal weight.
std::vector<int64_t> EqualParts(const SizeHistogram& histogram, int64_t parts) {
  std::vector<int64_t> sizes;
  double seen = 0;
  double next = 0;
  for (const SizeCount& each : histogram.counts()) {
    seen += each.count;
    if (seen < next) continue;
    sizes.push_back(each.size);
    next = seen + histogram.mass() / static_cast<double>(parts);
  }
  return sizes;
}

std::vector<int64_t> CandidateSizes(const SizeHistogram& histogram,
                                    std::span<const int64_t> old,
                                    std::span<const int64_t> target,
                                    const LearnOptions& learn) {
  std::vector<int64_t> sizes(old.begin(), old.end());
  sizes.insert(sizes.end(), target.begin(), target.end());
  if (learn.limit / learn.align <= kRelearnCandidatesMax) {
    for (int64_t size = learn.align; size < learn.limit; size += learn.align)
      sizes.push_back(size);
  } else {
    for (const int64_t size : EqualParts(histogram, kRelearnCandidatesMax / 2))
      sizes.push_back(std::min(AlignUp(std::max<int64_t>(size, 1), learn.align), learn.limit));
  }
  std::sort(sizes.begin(), sizes.end());
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  return sizes;
}

// Weight of the calls and of the prior, which ends at `last`, up to each candidate.
std::vector<double> WeightsUpTo(const SizeHistogram& histogram,
                                const std::vector<int64_t>& sizes,
                                int64_t last,
                                const LearnOptions& learn) {
  double mass = 0;
  for (const SizeCount& each : histogram.counts())
    if (each.size <= learn.limit) mass += each.count;
  SizePrior prior(histogram, last, learn.prior * mass);

  std::vector<double> weights;
  weights.reserve(sizes.size());
  double weight = 0;
  int64_t spread = 1;
  auto each = histogram.counts().begin();
  for (const int64_t size : sizes) {
    for (; each != histogram.counts().end() && each->size <= size; ++each)
      weight += (1 - learn.prior) * each->count;
    for (; spread <= std::min(size, last); ++spread)
      weight += prior.Next();
    weights.push_back(weight);
  }
  return weights;
}

double PriceOf(const LearnOptions& learn, int64_t bucket) {
  return learn.price_of ? learn.price_of(bucket) : learn.price;
}

std::vector<Candidate> CandidatesOf(const SizeHistogram& histogram,
                                    std::span<const int64_t> old,
                                    std::span<const int64_t> target,
                                    int64_t last,
                                    const LearnOptions& learn) {
  const std::vector<int64_t> sizes = CandidateSizes(histogram, old, target, learn);
  const std::vector<double> weights = WeightsUpTo(histogram, sizes, last, learn);
  std::vector<Candidate> candidates;
  candidates.reserve(sizes.size());
  for (size_t i = 0; i < sizes.size(); ++i) {
    const int64_t size = sizes[i];
    const bool forced =
        std::find(learn.forced.begin(), learn.forced.end(), size) != learn.forced.end();
    candidates.push_back({.size = size,
                          .added = !Holds(old, size),
                          .forced = forced,
                          .cost = learn.cost ? learn.cost(size) : static_cast<double>(size),
                          .price = PriceOf(learn, size),
                          .weight = weights[i]});
  }
  return candidates;
}

struct LadderScore {
  double real_cost = 0;
  double waste_pct = 0;
  double price_pct = 0;

  double both_pct() const { return waste_pct + price_pct; }
};

absl::StatusOr<LadderScore> ScoreOf(const SizeHistogram& histogram,
                                    std::span<const int64_t> buckets,
                                    const LearnOptions& learn) {
  COPPICE_ASSIGN_OR_RETURN(const PaddingPolicy policy, PaddingPolicy::List(buckets, learn.limit));
  const PolicyScore score = ScoreBuckets(histogram, policy, learn.cost);
  double price = 0;
  for (const int64_t bucket : buckets)
    price += PriceOf(learn, bucket);
  return LadderScore{.real_cost = score.real_cost,
                     .waste_pct = score.waste_pct,
                     .price_pct = score.real_cost > 0 ? 100 * price / score.real_cost : 0};
}

// What a swap may change.
struct Part {
  std::span<const int64_t> old;  // The old buckets of it.
  int64_t largest = 0;           // Its ladders hold all up to here.
  int64_t prior_last = 0;        // The largest size that the prior has.
};

// All, where caps or prices judge buckets that nobody calls, or nothing weighs them; else up to the
// old bucket that holds the largest size that is called, or forced.
Part PartOf(const SizeHistogram& histogram,
            std::span<const int64_t> old,
            const LearnOptions& learn) {
  if (learn.prior == 0 || learn.max_ratio > 0 || learn.price > 0 || learn.price_of)
    return {.old = old, .largest = learn.limit, .prior_last = learn.limit};
  const int64_t called = LargestCalled(histogram, learn.limit);
  int64_t largest = called;
  for (const int64_t size : learn.forced)
    largest = std::max(largest, size);
  const auto end = std::lower_bound(old.begin(), old.end(), largest) + 1;
  return {.old = old.first(static_cast<size_t>(end - old.begin())),
          .largest = largest,
          .prior_last = std::min(AlignUp(called, learn.align), *(end - 1))};
}

// Of the old buckets above `below` few enough that each is at most twice the one before, where they
// were so.
std::vector<int64_t> Rest(std::span<const int64_t> old, int64_t below) {
  std::vector<int64_t> rest;
  while (below < old.back()) {
    const auto next = std::upper_bound(old.begin(), old.end(), below);
    const auto last = std::upper_bound(next, old.end(), 2 * below);
    below = last == next ? *next : *(last - 1);
    rest.push_back(below);
  }
  return rest;
}

// The best ladder that keeps the caps, or else the best one.
std::vector<int64_t> BestOf(const std::vector<Candidate>& candidates,
                            int64_t largest,
                            const LearnOptions& learn,
                            int64_t count,
                            int64_t added_max,
                            double price_added) {
  std::vector<int64_t> best;
  const auto find = [&](bool capped) {
    best = Ladders(candidates, largest, learn, capped).Best(count, added_max, price_added);
  };
  if (learn.max_ratio > 0) find(/*capped=*/true);
  if (best.empty()) find(/*capped=*/false);
  return best;
}

absl::Status CheckOld(std::span<const int64_t> old, const RelearnOptions& options) {
  if (old.empty() || old.front() < 1 || old.back() != options.learn.limit)
    return InvalidArgument(
        "Relearn: the old buckets do not end at the limit {}; give buckets from 1 up to the limit",
        options.learn.limit);
  if (std::adjacent_find(old.begin(), old.end(), std::greater_equal<>()) != old.end())
    return InvalidArgument("Relearn: the old buckets do not increase; sort them");
  if (options.added_max < 0 || !(options.gain_min >= 0) || !(options.gain_each >= 0))
    return InvalidArgument(
        "Relearn: added_max is {}, gain_min is {} and gain_each is {}; give 0 or more for each",
        options.added_max, options.gain_min, options.gain_each);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Relearned> Relearn(const SizeHistogram& histogram,
                                  std::span<const int64_t> old,
                                  const RelearnOptions& options) {
  COPPICE_RETURN_IF_ERROR(CheckOld(old, options));
  const LearnOptions& learn = options.learn;
  COPPICE_ASSIGN_OR_RETURN(const LearnedBuckets target, LearnBuckets(histogram, learn));
  const int64_t count = learn.count > 0 ? learn.count : static_cast<int64_t>(target.buckets.size());
  COPPICE_ASSIGN_OR_RETURN(const LadderScore before, ScoreOf(histogram, old, learn));
  const double price_added = options.gain_each / 100 * before.real_cost;
  const Part part = PartOf(histogram, old, learn);
  LearnOptions within = learn;
  within.limit = part.old.back();
  std::vector<int64_t> wanted = target.buckets;
  std::erase_if(wanted, [&](int64_t bucket) { return bucket > within.limit; });
  const int64_t room = options.counts_uncalled
                           ? std::max(count - std::ssize(Rest(old, within.limit)),
                                      std::min(count, std::ssize(part.old)))
                           : count;
  std::vector<int64_t> best =
      BestOf(CandidatesOf(histogram, part.old, wanted, part.prior_last, within), part.largest,
             within, room, std::min(options.added_max, room), price_added);
  if (!best.empty()) std::ranges::copy(Rest(old, best.back()), std::back_inserter(best));

  Relearned result = {.buckets = {old.begin(), old.end()},
                      .waste_before_pct = before.waste_pct,
                      .waste_after_pct = before.waste_pct,
                      .price_before_pct = before.price_pct,
                      .price_after_pct = before.price_pct};
  if (best.empty()) return result;  // A forced size is new, and none may be.
  COPPICE_ASSIGN_OR_RETURN(const LadderScore after, ScoreOf(histogram, best, learn));
  // A ladder of more buckets than there may be has to go, whatever that costs.
  const int64_t counted = std::ssize(options.counts_uncalled ? std::span(old) : part.old);
  const bool too_many = learn.count > 0 && counted > learn.count && best.size() < old.size();
  result.swap = too_many || before.both_pct() - after.both_pct() > options.gain_min;
  if (!result.swap) return result;
  result.waste_after_pct = after.waste_pct;
  result.price_after_pct = after.price_pct;
  result.buckets = std::move(best);
  std::set_difference(result.buckets.begin(), result.buckets.end(), old.begin(), old.end(),
                      std::back_inserter(result.added));
  std::set_difference(old.begin(), old.end(), result.buckets.begin(), result.buckets.end(),
                      std::back_inserter(result.dropped));
  return result;
}

}  // namespace coppice
