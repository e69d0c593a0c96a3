// Lists: buckets that come, move and go while that makes the cost less.
//
// Every point knows the two cheapest buckets that hold it. What a bucket's end costs is then the
// sum of the differences of its points, and what a new one saves the sum over the points it holds.

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <queue>
#include <utility>

#include "graphs/padding/joint_problem.h"

namespace coppice {
namespace {

// A step looks at all points for each site, so that there are not too many of either.
constexpr int64_t kListPoints = 8192;
constexpr int64_t kListValues = 64;  // Of the first symbol, unless the second has fewer.
// Where buckets may come: at pairs of these many values of each axis. They move to any value.
constexpr size_t kSitesOfAxis = 48;
constexpr int kReach = 6;             // How many values a bucket moves at once, at most.
constexpr int64_t kRoundsWork = 768;  // Rounds of swaps and moves, times buckets.
constexpr int64_t kRoundsMin = 2;
constexpr int64_t kRoundsMax = 12;
constexpr int kPassesMax = 6;        // Over all buckets, each of which may move.
constexpr double kLeastGain = 1e-9;  // Of the whole cost; less is rounding.

// A bucket by indices of values.
struct Site {
  int32_t a = 0;
  int32_t b = 0;
  double cost = 0;
  double price = 0;
  bool fixed = false;
};

class ListSearch {
 public:
  ListSearch(const JointProblem& problem, std::span<const JointSize> grid)
      : problem_(problem),
        values_(ListValues(problem, grid)),
        points_(problem.Points(values_)),
        ceiling_(problem.CostOf(problem.options().limit)) {
    sites_of_a_ = Spread(values_.a.size());
    sites_of_b_ = Spread(values_.b.size());
  }

  // From these buckets, at most `count`; the fixed ones are added.
  std::vector<JointSize> Improve(std::span<const JointSize> start, size_t count) {
    buckets_.clear();
    for (const JointSize& bucket : problem_.fixed())
      buckets_.push_back(SiteOf(bucket, true));
    for (const JointSize& bucket : start) {
      if (std::find(problem_.fixed().begin(), problem_.fixed().end(), bucket) ==
          problem_.fixed().end())
        buckets_.push_back(SiteOf(bucket, false));
    }
    Assign();
    while (buckets_.size() > count && RemoveLeast()) {
    }
    Fill(count);
    Move();
    RemoveUnpaid();
    const int64_t rounds =
        std::clamp(kRoundsWork / static_cast<int64_t>(count), kRoundsMin, kRoundsMax);
    for (int64_t round = 0; round < rounds && Swap(); ++round)
      Move();
    RemoveUnpaid();
    std::vector<JointSize> improved;
    for (const Site& site : buckets_)
      improved.push_back(SizeOf(site.a, site.b));
    return improved;
  }

 private:
  // The two cheapest buckets that hold a point; -1: none, which costs as much as the limit.
  struct Held {
    double first = 0;
    double second = 0;
    int32_t by = -1;
    int32_t next_by = -1;
  };

  static JointValues ListValues(const JointProblem& problem, std::span<const JointSize> grid) {
    const JointValues all = problem.Values(kListPoints, kListPoints);
    const int64_t of_a =
        std::min(std::max(kListValues, kListPoints / std::ssize(all.b)), std::ssize(all.a));
    return problem.Values(of_a, kListPoints / of_a, grid);
  }

  static std::vector<int32_t> Spread(size_t values) {
    std::vector<int32_t> sites;
    const size_t most = std::min(values, kSitesOfAxis);
    for (size_t i = 1; i <= most; ++i)
      sites.push_back(static_cast<int32_t>(i * values / most) - 1);
    return sites;
  }

  JointSize SizeOf(int32_t a, int32_t b) const {
    return {values_.a[static_cast<size_t>(a)], values_.b[static_cast<size_t>(b)]};
  }

  Site SiteAt(int32_t a, int32_t b) const {
    const JointSize bucket = SizeOf(a, b);
    return {.a = a, .b = b, .cost = problem_.CostOf(bucket), .price = problem_.PriceOf(bucket)};
  }

  Site SiteOf(JointSize bucket, bool fixed) const {
    const auto index = [](const std::vector<int64_t>& values, int64_t extent) {
      return static_cast<int32_t>(std::lower_bound(values.begin(), values.end(), extent) -
                                  values.begin());
    };
    Site site = SiteAt(index(values_.a, bucket.a), index(values_.b, bucket.b));
    site.fixed = fixed;
    return site;
  }

  static bool Holds(const Site& site, const JointPoint& point) {
    return point.a <= site.a && point.b <= site.b;
  }

  void Offer(size_t point, int32_t bucket) {
    const Site& site = buckets_[static_cast<size_t>(bucket)];
    Held& held = held_[point];
    if (!Holds(site, points_[point])) return;
    if (held.by < 0 || site.cost < held.first) {
      held.second = held.first;
      held.next_by = held.by;
      held.first = site.cost;
      held.by = bucket;
    } else if (held.next_by < 0 || site.cost < held.second) {
      held.second = site.cost;
      held.next_by = bucket;
    }
  }

  void AssignPoint(size_t point) {
    held_[point] = {ceiling_, ceiling_, -1, -1};
    for (size_t bucket = 0; bucket < buckets_.size(); ++bucket)
      Offer(point, static_cast<int32_t>(bucket));
  }

  void Assign() {
    held_.resize(points_.size());
    for (size_t point = 0; point < points_.size(); ++point)
      AssignPoint(point);
  }

  double Cost() const {
    double sum = 0;
    for (size_t point = 0; point < points_.size(); ++point)
      sum += points_[point].weight * held_[point].first;
    for (const Site& site : buckets_)
      sum += site.price;
    return sum;
  }

  // Puts `site` in the place of a bucket.
  void Replace(int32_t bucket, const Site& site) {
    buckets_[static_cast<size_t>(bucket)] = site;
    for (size_t point = 0; point < points_.size(); ++point) {
      if (held_[point].by == bucket || held_[point].next_by == bucket)
        AssignPoint(point);
      else
        Offer(point, bucket);
    }
  }

  // Drops buckets that save less than they cost to have.
  void RemoveUnpaid() {
    while (problem_.priced() && RemoveLeast(0)) {
    }
  }

  // Drops the bucket whose end costs the least. False if all are fixed, or if that is more than
  // `most`.
  bool RemoveLeast(double most = std::numeric_limits<double>::infinity()) {
    std::vector<double> loss(buckets_.size(), 0);
    for (size_t i = 0; i < buckets_.size(); ++i)
      loss[i] = -buckets_[i].price;
    for (size_t point = 0; point < points_.size(); ++point) {
      const Held& held = held_[point];
      if (held.by >= 0)
        loss[static_cast<size_t>(held.by)] += points_[point].weight * (held.second - held.first);
    }
    std::optional<size_t> least;
    for (size_t i = 0; i < buckets_.size(); ++i) {
      if (!buckets_[i].fixed && (!least || loss[i] < loss[*least])) least = i;
    }
    if (!least || loss[*least] > most) return false;
    const int32_t gone = static_cast<int32_t>(*least);
    const int32_t last = static_cast<int32_t>(buckets_.size()) - 1;
    std::swap(buckets_[*least], buckets_.back());
    buckets_.pop_back();
    const auto moved = [gone, last](int32_t bucket) { return bucket == last ? gone : bucket; };
    for (size_t point = 0; point < points_.size(); ++point) {
      Held& held = held_[point];
      if (held.by == gone || held.next_by == gone) {
        AssignPoint(point);
      } else {
        held.by = moved(held.by);
        held.next_by = moved(held.next_by);
      }
    }
    return true;
  }

  // What a bucket there saves, beyond its price.
  double GainOf(const Site& site) const {
    double gain = -site.price;
    for (size_t point = 0; point < points_.size(); ++point) {
      if (points_[point].a > site.a) break;  // Points are sorted by a.
      const double saved = held_[point].first - site.cost;
      if (points_[point].b <= site.b && saved > 0) gain += points_[point].weight * saved;
    }
    return gain;
  }

  std::vector<Site> Sites() const {
    std::vector<Site> sites;
    for (const int32_t a : sites_of_a_) {
      for (const int32_t b : sites_of_b_) {
        const JointSize size = SizeOf(a, b);
        if (problem_.Obeys(size)) sites.push_back(SiteAt(a, b));
      }
    }
    return sites;
  }

  void Add(const Site& site) {
    buckets_.push_back(site);
    for (size_t point = 0; point < points_.size(); ++point)
      Offer(point, static_cast<int32_t>(buckets_.size()) - 1);
  }

  // False if none saves anything.
  bool AddBest() {
    std::optional<Site> best;
    double most = kLeastGain * ceiling_;
    for (const Site& site : Sites()) {
      const double gain = GainOf(site);
      if (gain <= most) continue;
      most = gain;
      best = site;
    }
    if (best) Add(*best);
    return best.has_value();
  }

  // Adds the best bucket again and again. What one saves only falls as others come, so that what it
  // saved before is a bound.
  void Fill(size_t count) {
    struct Bound {
      double gain = 0;
      size_t site = 0;
      bool operator<(const Bound& other) const {
        return gain != other.gain ? gain < other.gain : site > other.site;
      }
    };
    const std::vector<Site> sites = Sites();
    std::priority_queue<Bound> bounds;
    for (size_t i = 0; buckets_.size() < count && i < sites.size(); ++i)
      bounds.push({GainOf(sites[i]), i});
    while (buckets_.size() < count && !bounds.empty()) {
      Bound best = bounds.top();
      bounds.pop();
      best.gain = GainOf(sites[best.site]);
      if (best.gain <= kLeastGain * ceiling_) continue;
      if (!bounds.empty() && best < bounds.top())
        bounds.push(best);
      else
        Add(sites[best.site]);
    }
  }

  // Whether one more bucket and one fewer made the cost less.
  bool Swap() {
    bool better = false;
    for (size_t tried = 0; tried < buckets_.size(); ++tried) {
      const double cost = Cost();
      const std::vector<Site> buckets = buckets_;
      if (!AddBest()) break;
      RemoveLeast();
      if (Cost() < cost * (1 - kLeastGain)) {
        better = true;
        continue;
      }
      buckets_ = buckets;
      Assign();
      break;
    }
    return better;
  }

  // Moves each bucket to where the cost is least, until none moves.
  void Move() {
    bool moved = true;
    for (int pass = 0; pass < kPassesMax && moved; ++pass) {
      moved = false;
      for (size_t bucket = 0; bucket < buckets_.size(); ++bucket) {
        if (buckets_[bucket].fixed) continue;
        moved |= MoveOne(static_cast<int32_t>(bucket), &Site::a, values_.a.size());
        moved |= MoveOne(static_cast<int32_t>(bucket), &Site::b, values_.b.size());
      }
    }
  }

  bool MoveOne(int32_t bucket, int32_t Site::*axis, size_t values) {
    const Site here = buckets_[static_cast<size_t>(bucket)];
    std::vector<double> without(points_.size());
    for (size_t point = 0; point < points_.size(); ++point)
      without[point] = held_[point].by == bucket ? held_[point].second : held_[point].first;
    const auto saved_at = [&](const Site& site) {
      double saved = -site.price;
      for (size_t point = 0; point < points_.size(); ++point) {
        if (points_[point].a > site.a) break;
        if (points_[point].b <= site.b)
          saved += points_[point].weight * std::max(0.0, without[point] - site.cost);
      }
      return saved;
    };
    const double before = saved_at(here);
    double most = before + kLeastGain * ceiling_;
    Site best = here;
    for (int step = -kReach; step <= kReach; ++step) {
      Site site = here;
      site.*axis += step;
      if (step == 0 || site.*axis < 0 || static_cast<size_t>(site.*axis) >= values) continue;
      if (!problem_.Obeys(SizeOf(site.a, site.b))) continue;
      site = SiteAt(site.a, site.b);
      if (const double saved = saved_at(site); saved > most) {
        most = saved;
        best = site;
      }
    }
    if (best.*axis == here.*axis) return false;
    Replace(bucket, best);
    return true;
  }

  const JointProblem& problem_;
  const JointValues values_;
  const std::vector<JointPoint> points_;
  const double ceiling_;
  std::vector<int32_t> sites_of_a_;
  std::vector<int32_t> sites_of_b_;
  std::vector<Site> buckets_;
  std::vector<Held> held_;
};

}  // namespace

absl::StatusOr<JointPolicy> LearnJointList(const JointProblem& problem,
                                           std::span<const JointSize> grid) {
  const JointOptions& options = problem.options();
  ListSearch search(problem, grid);
  std::optional<JointPolicy> best;
  double least = std::numeric_limits<double>::infinity();
  for (const std::span<const JointSize> start : {grid, std::span<const JointSize>()}) {
    const std::vector<JointSize> buckets =
        search.Improve(start, static_cast<size_t>(problem.count()));
    absl::StatusOr<JointPolicy> list =
        JointPolicy::List(buckets, options.limit, options.budget, options.cost);
    if (!list.ok()) return list;
    const double whole = problem.Whole(*list);
    if (best && !(whole < least)) continue;
    least = whole;
    best = *std::move(list);
  }
  return *std::move(best);
}

}  // namespace coppice
