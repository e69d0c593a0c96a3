// Grids: exact programs in one symbol while the ladder of the other stands, in turns.
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

// One axis of the points, with the ladder of the other.
struct Axis {
  std::vector<int64_t> values;
  std::vector<int32_t>
      forced;  // Indices of values that are rungs in every case, the last included.
};

// The program in one axis.
class Ladder {
 public:
  // `by_rung` has, for each value and each rung of the other axis, the weight up to that value, and
  // `cost` what a bucket of that value and rung costs.
  Ladder(const Axis& axis, size_t rungs, std::vector<double> weight, std::vector<double> cost)
      : axis_(axis), rungs_(rungs), weight_(std::move(weight)), cost_(std::move(cost)) {
    below_.resize(axis.values.size() + 1, 0);
    for (size_t j = 1, next = 0; j < below_.size(); ++j) {
      below_[j] = next == 0 ? 0 : axis.forced[next - 1] + 1;
      if (next < axis.forced.size() && axis.forced[next] == static_cast<int32_t>(j) - 1) ++next;
    }
  }

  // Indices of at most `count` values, the last included; empty if the forced ones are more.
  std::vector<int32_t> Solve(int64_t count) {
    const size_t n = axis_.values.size();
    const size_t groups = std::min(static_cast<size_t>(count), n);
    if (groups < axis_.forced.size()) return {};
    previous_.assign(n + 1, kNever);
    previous_[0] = 0;
    std::vector<std::vector<int32_t>> starts(groups);
    for (size_t group = 0; group < groups; ++group) {
      current_.assign(n + 1, kNever);
      starts[group].assign(n + 1, -1);
      starts_ = &starts[group];
      Layer(1, n, 0, n - 1);
      std::swap(previous_, current_);
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
    double sum = 0;
    for (size_t rung = 0; rung < rungs_; ++rung)
      sum += cost[rung] * (upper[rung] - lower[rung]);
    return sum;
  }

  // The best start of the group that ends at each j in [first, last], known to lie in [low, high].
  void Layer(size_t first, size_t last, size_t low, size_t high) {
    if (first > last) return;
    const size_t j = (first + last) / 2;
    int32_t best = -1;
    for (size_t i = std::max(low, static_cast<size_t>(below_[j])); i <= std::min(high, j - 1);
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
  std::vector<int32_t> below_;  // The least start of a group that ends there: after a forced value.
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
    const int64_t most =
        std::clamp(kGridWork / problem.options().count, kGridValuesMin, kGridValuesMax);
    JointValues values = problem.Values(most, most);
    points_ = problem.Points(values);
    a_.values = std::move(values.a);
    b_.values = std::move(values.b);
    std::set<int32_t> forced_a = {static_cast<int32_t>(a_.values.size()) - 1};
    std::set<int32_t> forced_b = {static_cast<int32_t>(b_.values.size()) - 1};
    for (const JointSize& bucket : problem.options().forced) {
      forced_a.insert(IndexOf(a_.values, bucket.a));
      forced_b.insert(IndexOf(b_.values, bucket.b));
    }
    a_.forced.assign(forced_a.begin(), forced_a.end());
    b_.forced.assign(forced_b.begin(), forced_b.end());
  }

  int64_t values_of_a() const { return std::ssize(a_.values); }
  int64_t values_of_b() const { return std::ssize(b_.values); }

  // From the best of several starts with so many rungs; nothing if forced ones are more.
  std::optional<Rungs> Best(int64_t count_a, int64_t count_b) const {
    if (count_a < std::ssize(a_.forced) || count_b < std::ssize(b_.forced)) return std::nullopt;
    Rungs best;
    const auto start = [&](Rungs rungs, bool turn_of_a) {
      rungs = Turns(std::move(rungs), count_a, count_b, turn_of_a, 2);
      if (rungs.cost < best.cost) best = std::move(rungs);
    };
    start({{}, Solve(b_, a_, {a_.values.back()}, count_b)}, true);
    start({{}, Pow2(b_, count_b)}, true);
    start({Solve(a_, b_, {b_.values.back()}, count_a), {}}, false);
    start({Pow2(a_, count_a), {}}, false);
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
    for (size_t i = 0; i < n; ++i) {
      for (size_t rung = 0; rung < m; ++rung)
        cost[i * m + rung] = problem_.CostOf(first ? JointSize{axis.values[i], rungs[rung]}
                                                   : JointSize{rungs[rung], axis.values[i]});
    }
    std::vector<int64_t> solved;
    for (const int32_t index : Ladder(axis, m, std::move(weight), std::move(cost)).Solve(count))
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
  const GridSearch search(problem);
  double least = kNever;
  std::optional<JointPolicy> best;
  std::set<std::pair<int64_t, int64_t>> tried;
  for (int64_t count_a = 1; count_a <= std::min(options.count, search.values_of_a());
       count_a += count_a < kEveryCount ? 1 : count_a / 8) {
    // Where the rule leaves cells out, more rungs fit.
    for (const double more : {1.0, 1.25, 1.5, 2.0}) {
      if (options.budget == 0 && more > 1) break;
      const int64_t count_b =
          std::min(static_cast<int64_t>(more * static_cast<double>(options.count / count_a)),
                   search.values_of_b());
      if (!tried.emplace(count_a, count_b).second) continue;
      const std::optional<Rungs> rungs = search.Best(count_a, count_b);
      if (!rungs) continue;
      absl::StatusOr<PaddingPolicy> a = PaddingPolicy::List(rungs->a, options.limit.a);
      absl::StatusOr<PaddingPolicy> b = PaddingPolicy::List(rungs->b, options.limit.b);
      if (!a.ok() || !b.ok()) continue;
      absl::StatusOr<JointPolicy> grid =
          JointPolicy::Grid(*std::move(a), *std::move(b), options.budget);
      if (!grid.ok() || grid->count() > options.count) continue;
      const double expected = problem.Expected(*grid);
      if (!(expected < least)) continue;
      least = expected;
      best = *std::move(grid);
    }
  }
  return best;
}

}  // namespace coppice
