// Grids: exact programs in one symbol while the ladder of the other stands, in turns.
//
// What rungs cost to have is the same for every start of a group, and what caps and forced rungs
// leave of the starts moves up with j as well. With so many groups, all values of one stretch can
// be the last of a group, and no others.
//
// With the other's rungs r fixed, a group of values (i, j] in the rung j costs
// sum over r of cost(j, r) * (weight of the group at r). As cost does not fall in j, these costs
// are Monge, so that the best start i of a last group moves up with j: divide and conquer finds
// each layer in O(n log n) of them.

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <set>
#include <utility>

#include "coppice/base/units.h"

#include "graphs/padding/joint_problem.h"

namespace coppice {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
// A turn is O(values * log(values) * count), so that more buckets choose among fewer values.
constexpr int64_t kGridWork = int64_t{1} << 18;
constexpr int64_t kGridValuesMin = 512;
constexpr int64_t kGridValuesMax = 4096;
constexpr int kTurnsMax = 12;
// Every number of rungs up to here is tried: a ladder of powers of two has fewer.
constexpr int64_t kEveryCount = 32;
// Values that a cap adds, if its fewest rungs are not more, and of these between two rungs.
constexpr int64_t kCapValues = 2048;
constexpr int64_t kCapPartsMax = 16;

// One axis of the points, with the ladder of the other.
struct Axis {
  std::vector<int64_t> values;
  std::vector<int32_t>
      forced;  // Indices of values that are rungs in every case, the last included.
  // By how many of the values a group ends with: the least number below it. Not falling.
  std::vector<int32_t> below = {};
  bool capped = false;
  int64_t rungs_min = 0;  // That caps and forced values need.
};

// Fills in what `cap` and forced values leave of the groups.
void Restrict(const JointCap& cap, int64_t align, Axis& axis) {
  axis.capped = cap.max_ratio > 0;
  const auto near = [&](int64_t below, int64_t bucket) {
    const int64_t smallest = below + 1;
    return static_cast<double>(bucket) <= cap.max_ratio * static_cast<double>(smallest) ||
           bucket - smallest <= cap.max_gap || bucket <= AlignUp(smallest, align);
  };
  const auto n = static_cast<int32_t>(axis.values.size());
  axis.below.assign(1, 0);
  int32_t first = 0;
  auto forced = axis.forced.begin();
  for (int32_t end = 1; end <= n; ++end) {
    const int64_t bucket = axis.values[static_cast<size_t>(end) - 1];
    while (axis.capped && first < end - 1 &&
           !near(first == 0 ? 0 : axis.values[static_cast<size_t>(first) - 1], bucket))
      ++first;
    axis.below.push_back(first);
    if (forced != axis.forced.end() && *forced == end - 1) {
      first = end;
      ++forced;
    }
  }
  for (int32_t end = 0; end < n; ++axis.rungs_min)
    end = static_cast<int32_t>(std::upper_bound(axis.below.begin(), axis.below.end(), end) -
                               axis.below.begin()) -
          1;
}

// Values with which a cap is kept by as few rungs as it can be, and some more between them.
std::vector<int64_t> CapValues(const JointCap& cap, int64_t align, int64_t limit) {
  std::vector<int64_t> values;
  if (cap.max_ratio == 0) return values;
  const std::vector<int64_t> rungs = CapRungs(cap, align, limit);
  const int64_t parts = std::clamp<int64_t>(kCapValues / std::ssize(rungs), 1, kCapPartsMax);
  int64_t below = 0;
  for (const int64_t rung : rungs) {
    for (int64_t part = 1; part <= parts; ++part) {
      const int64_t value = below + std::max<int64_t>((rung - below) * part / parts, 1);
      values.push_back(std::min(rung, AlignUp(value, align)));
    }
    below = rung;
  }
  return values;
}

// The program in one axis.
class Ladder {
 public:
  // `weight` has, for each value and each rung of the other axis, that up to the value, `cost` what
  // a bucket of that value and rung costs, and `price` what it costs to have those of a value;
  // empty: nothing.
  Ladder(const Axis& axis,
         size_t rungs,
         std::vector<double> weight,
         std::vector<double> cost,
         std::vector<double> price)
      : axis_(axis),
        rungs_(rungs),
        weight_(std::move(weight)),
        cost_(std::move(cost)),
        price_(std::move(price)) {}

  // Indices of at most `count` values, the last included. Requires: as many as the axis needs.
  std::vector<int32_t> Solve(int64_t count) {
    const size_t n = axis_.values.size();
    const size_t groups_max = std::min(static_cast<size_t>(count), n);
    previous_.assign(n + 1, kNever);
    previous_[0] = 0;
    std::vector<std::vector<int32_t>> starts;
    size_t groups = 0;
    double least = kNever;
    size_t low = 0;
    size_t high = 0;
    while (starts.size() < groups_max) {
      current_.assign(n + 1, kNever);
      starts_ = &starts.emplace_back(n + 1, -1);
      const auto reach =
          std::upper_bound(axis_.below.begin(), axis_.below.end(), static_cast<int32_t>(high));
      const size_t last = static_cast<size_t>(reach - axis_.below.begin()) - 1;
      Layer(low + 1, last, low, high);
      ++low;
      high = last;
      std::swap(previous_, current_);
      // Without a price another rung never costs more.
      if (previous_[n] == kNever || (!price_.empty() && previous_[n] >= least)) continue;
      least = previous_[n];
      groups = starts.size();
    }
    std::vector<int32_t> rungs;
    int32_t end = static_cast<int32_t>(n);
    for (size_t group = groups; group-- > 0;) {
      rungs.push_back(end - 1);
      end = starts[group][static_cast<size_t>(end)];
    }
    std::reverse(rungs.begin(), rungs.end());
    return rungs;
  }

 private:
  // The values (i, j] as one group, counted from 1, in a bucket as large as the last of them.
  double GroupCost(size_t i, size_t j) const {
    const double* cost = &cost_[(j - 1) * rungs_];
    const double* upper = &weight_[j * rungs_];
    const double* lower = &weight_[i * rungs_];
    double sum = price_.empty() ? 0 : price_[j - 1];
    for (size_t rung = 0; rung < rungs_; ++rung)
      sum += cost[rung] * (upper[rung] - lower[rung]);
    return sum;
  }

  // The best start of the group that ends at each j in [first, last], known to lie in [low, high].
  void Layer(size_t first, size_t last, size_t low, size_t high) {
    if (first > last) return;
    const size_t j = (first + last) / 2;
    int32_t best = -1;
    for (size_t i = std::max(low, static_cast<size_t>(axis_.below[j])); i <= std::min(high, j - 1);
         ++i) {
      if (previous_[i] == kNever) continue;
      const double cost = previous_[i] + GroupCost(i, j);
      if (cost >= current_[j]) continue;
      current_[j] = cost;
      best = static_cast<int32_t>(i);
    }
    (*starts_)[j] = best;
    const size_t split = static_cast<size_t>(std::max(best, 0));
    if (j > first) Layer(first, j - 1, low, best < 0 ? high : split);
    Layer(j + 1, last, best < 0 ? low : split, high);
  }

  const Axis& axis_;
  const size_t rungs_;
  const std::vector<double> weight_;
  const std::vector<double> cost_;
  const std::vector<double> price_;
  std::vector<double> previous_;
  std::vector<double> current_;
  std::vector<int32_t>* starts_ = nullptr;
};

// Two ladders, as extents.
struct Rungs {
  std::vector<int64_t> a;
  std::vector<int64_t> b;
  double cost = kNever;
};

class GridSearch {
 public:
  explicit GridSearch(const JointProblem& problem) : problem_(problem) {
    const int64_t most = std::clamp(kGridWork / problem.count(), kGridValuesMin, kGridValuesMax);
    const JointOptions& options = problem.options();
    std::vector<JointSize> kept;
    for (const int64_t a : CapValues(options.cap_a, options.align.a, options.limit.a))
      kept.push_back({.a = a, .b = options.limit.b});
    for (const int64_t b : CapValues(options.cap_b, options.align.b, options.limit.b))
      kept.push_back({.a = options.limit.a, .b = b});
    JointValues values = problem.Values(most, most, kept);
    points_ = problem.Points(values);
    a_.values = std::move(values.a);
    b_.values = std::move(values.b);
    std::set<int32_t> forced_a = {static_cast<int32_t>(a_.values.size()) - 1};
    std::set<int32_t> forced_b = {static_cast<int32_t>(b_.values.size()) - 1};
    for (const JointSize& bucket : options.forced) {
      forced_a.insert(IndexOf(a_.values, bucket.a));
      forced_b.insert(IndexOf(b_.values, bucket.b));
    }
    a_.forced.assign(forced_a.begin(), forced_a.end());
    b_.forced.assign(forced_b.begin(), forced_b.end());
    Restrict(options.cap_a, options.align.a, a_);
    Restrict(options.cap_b, options.align.b, b_);
  }

  int64_t values_of_a() const { return std::ssize(a_.values); }
  int64_t values_of_b() const { return std::ssize(b_.values); }

  // From the best of several starts with so many rungs; nothing if more are needed.
  std::optional<Rungs> Best(int64_t count_a, int64_t count_b) const {
    if (count_a < a_.rungs_min || count_b < b_.rungs_min) return std::nullopt;
    Rungs best;
    const auto start = [&](Rungs rungs, bool turn_of_a) {
      rungs = Turns(std::move(rungs), count_a, count_b, turn_of_a, 2);
      if (rungs.cost < best.cost) best = std::move(rungs);
    };
    start({{}, Solve(b_, a_, {a_.values.back()}, count_b)}, true);
    if (!b_.capped) start({{}, Pow2(b_, count_b)}, true);
    start({Solve(a_, b_, {b_.values.back()}, count_a), {}}, false);
    if (!a_.capped) start({Pow2(a_, count_a), {}}, false);
    return Turns(best, count_a, count_b, true, kTurnsMax);
  }

 private:
  static int32_t IndexOf(const std::vector<int64_t>& values, int64_t extent) {
    return static_cast<int32_t>(std::lower_bound(values.begin(), values.end(), extent) -
                                values.begin());
  }

  // The `count` largest powers of two up to the limit, which is one of them, and forced values.
  static std::vector<int64_t> Pow2(const Axis& axis, int64_t count) {
    std::set<int64_t> rungs;
    for (const int32_t index : axis.forced)
      rungs.insert(axis.values[static_cast<size_t>(index)]);
    std::vector<int64_t> powers;
    for (int64_t power = 1; power < axis.values.back(); power *= 2)
      powers.push_back(power);
    for (; !powers.empty() && std::ssize(rungs) < count; powers.pop_back())
      rungs.insert(powers.back());
    return {rungs.begin(), rungs.end()};
  }

  // The best ladder of `axis` while `other` has `rungs`.
  std::vector<int64_t> Solve(const Axis& axis,
                             const Axis& other,
                             const std::vector<int64_t>& rungs,
                             int64_t count) const {
    const bool first = &axis == &a_;
    const size_t n = axis.values.size();
    const size_t m = rungs.size();
    std::vector<double> weight((n + 1) * m, 0);
    for (const JointPoint& point : points_) {
      const size_t at = static_cast<size_t>(first ? point.a : point.b);
      const size_t beside = static_cast<size_t>(first ? point.b : point.a);
      const size_t rung = static_cast<size_t>(IndexOf(rungs, other.values[beside]));
      weight[(at + 1) * m + rung] += point.weight;
    }
    for (size_t i = m; i < weight.size(); ++i)
      weight[i] += weight[i - m];
    std::vector<double> cost(n * m);
    std::vector<double> price(problem_.priced() ? n : 0);
    for (size_t i = 0; i < n; ++i) {
      for (size_t rung = 0; rung < m; ++rung) {
        const JointSize bucket =
            first ? JointSize{axis.values[i], rungs[rung]} : JointSize{rungs[rung], axis.values[i]};
        cost[i * m + rung] = problem_.CostOf(bucket);
        if (!price.empty()) price[i] += problem_.PriceOf(bucket);
      }
    }
    std::vector<int64_t> solved;
    for (const int32_t index :
         Ladder(axis, m, std::move(weight), std::move(cost), std::move(price)).Solve(count))
      solved.push_back(axis.values[static_cast<size_t>(index)]);
    return solved;
  }

  double CostOf(const Rungs& rungs) const {
    double sum = 0;
    for (const JointPoint& point : points_) {
      const int32_t a = IndexOf(rungs.a, a_.values[static_cast<size_t>(point.a)]);
      const int32_t b = IndexOf(rungs.b, b_.values[static_cast<size_t>(point.b)]);
      sum += point.weight *
             problem_.CostOf({rungs.a[static_cast<size_t>(a)], rungs.b[static_cast<size_t>(b)]});
    }
    if (!problem_.priced()) return sum;
    for (const int64_t a : rungs.a)
      for (const int64_t b : rungs.b)
        sum += problem_.PriceOf({a, b});
    return sum;
  }

  // From one ladder, the other and it in turns until neither makes the cost less. A start need not
  // consist of its axis's values.
  Rungs Turns(Rungs rungs, int64_t count_a, int64_t count_b, bool turn_of_a, int turns_max) const {
    int idle = 0;
    for (int turn = 0; turn < turns_max && idle < 2; ++turn, turn_of_a = !turn_of_a) {
      Rungs next = rungs;
      if (turn_of_a)
        next.a = Solve(a_, b_, rungs.b, count_a);
      else
        next.b = Solve(b_, a_, rungs.a, count_b);
      next.cost = CostOf(next);
      idle = next.cost < rungs.cost ? 0 : idle + 1;
      if (idle == 0) rungs = std::move(next);
    }
    return rungs;
  }

  const JointProblem& problem_;
  std::vector<JointPoint> points_;
  Axis a_;
  Axis b_;
};

}  // namespace

std::optional<JointPolicy> LearnJointGrid(const JointProblem& problem) {
  const JointOptions& options = problem.options();
  const auto keeps = [&](const JointCap& cap, int64_t align, int64_t limit) {
    return cap.max_ratio == 0 || std::ssize(CapRungs(cap, align, limit)) <= problem.count();
  };
  // Else there are as many values as the limit is large.
  if (!keeps(options.cap_a, options.align.a, options.limit.a) ||
      !keeps(options.cap_b, options.align.b, options.limit.b))
    return std::nullopt;
  const GridSearch search(problem);
  double least = kNever;
  std::optional<JointPolicy> best;
  std::set<std::pair<int64_t, int64_t>> tried;
  for (int64_t count_a = 1; count_a <= std::min(problem.count(), search.values_of_a());
       count_a += count_a < kEveryCount ? 1 : count_a / 8) {
    const int64_t even = problem.count() / count_a;
    // Where the rule leaves cells out, more rungs fit.
    for (const double more : {1.0, 1.25, 1.5, 2.0}) {
      if (options.budget == 0 && more > 1) break;
      const int64_t count_b =
          std::min(static_cast<int64_t>(more * static_cast<double>(even)), search.values_of_b());
      if (!tried.emplace(count_a, count_b).second) continue;
      const std::optional<Rungs> rungs = search.Best(count_a, count_b);
      if (!rungs) continue;
      absl::StatusOr<PaddingPolicy> a = PaddingPolicy::List(rungs->a, options.limit.a);
      absl::StatusOr<PaddingPolicy> b = PaddingPolicy::List(rungs->b, options.limit.b);
      if (!a.ok() || !b.ok()) continue;
      absl::StatusOr<JointPolicy> grid =
          JointPolicy::Grid(*std::move(a), *std::move(b), options.budget);
      if (!grid.ok() || grid->count() > problem.count()) continue;
      const double whole = problem.Whole(*grid);
      if (!(whole < least)) continue;
      least = whole;
      best = *std::move(grid);
    }
  }
  return best;
}

}  // namespace coppice
