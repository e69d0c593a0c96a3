// The portfolio: orderings in turn until one is good enough, and what follows where none is.

#include "coppice/allocator/planner.h"

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <random>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "coppice/base/status.h"

#include "allocator/planner/placement.h"
#include "allocator/planner/plan_ladder.h"
#include "allocator/planner/plan_problem.h"

namespace coppice {
namespace {

using internal::Contention;
using internal::Fit;
using internal::Placement;
using internal::PlacementLimit;
using internal::PlanItem;
using internal::PlanProblem;

// Up to so many items a climb is short, because a search can do more.
constexpr int64_t kSearchItemsMax = 3000;
constexpr int64_t kShortClimbPasses = 64;

// Items are placed by descending keys.
using Key = std::array<double, 3>;

// The first ordering: the others may look at the contention.
Key BySize(const PlanItem& item, const Contention&) {
  return {static_cast<double>(item.extent)};
}

Key ByContention(const PlanItem& item, const Contention& around) {
  return {static_cast<double>(around.live), item.area, static_cast<double>(item.steps)};
}

// An item is placed with the fullest section that it lives in.
Key ByBreadth(const PlanItem& item, const Contention& around) {
  return {static_cast<double>(around.live), -static_cast<double>(around.fullest),
          static_cast<double>(item.extent)};
}

// Sizes within a factor of four count as equal.
Key BySizeClass(const PlanItem& item, const Contention&) {
  return {static_cast<double>(std::bit_width(static_cast<uint64_t>(item.extent)) / 2),
          static_cast<double>(item.steps), static_cast<double>(item.extent)};
}

// size x sqrt(lifetime) x contention^power, as a logarithm.
template <int kPower>
Key ByWeight(const PlanItem& item, const Contention& around) {
  return {std::log2(static_cast<double>(item.extent)) +
          std::log2(static_cast<double>(item.steps)) / 2 +
          kPower * std::log2(static_cast<double>(around.live))};
}

struct Method {
  const char* name;
  Key (*key)(const PlanItem&, const Contention&);
  Fit fit;
};

constexpr std::array kMethods = {
    Method{"size", BySize, Fit::kFirst},        Method{"contention", ByContention, Fit::kFirst},
    Method{"breadth", ByBreadth, Fit::kBest},   Method{"size class", BySizeClass, Fit::kFirst},
    Method{"weight", ByWeight<4>, Fit::kFirst}, Method{"steep weight", ByWeight<16>, Fit::kFirst},
};

// Host time, from its making.
class Deadline {
 public:
  explicit Deadline(int64_t limit_ns) : limit_(limit_ns) {}
  bool passed() const { return std::chrono::steady_clock::now() - start_ >= limit_; }

  // Nothing if it is beyond what the clock can count.
  std::optional<std::chrono::steady_clock::time_point> time() const {
    if (limit_ > std::chrono::steady_clock::time_point::max() - start_) return std::nullopt;
    return start_ + limit_;
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::chrono::nanoseconds limit_;
};

// The lowest plan of a problem so far, and the ways to a lower one.
class Attempt {
 public:
  Attempt(const PlanProblem& problem, int64_t target) : problem_(problem), target_(target) {
    best_.height = std::numeric_limits<int64_t>::max();
  }

  bool done() const { return best_.height <= target_; }
  const Placement& best() const { return best_; }
  const char* method() const { return method_; }

  void Run(const PlannerOptions& options, const Deadline& deadline) {
    TryOrderings(deadline);
    int64_t tries = options.search_tries_max;
    if (std::ssize(order_) <= kSearchItemsMax)
      tries = std::min(tries, kShortClimbPasses * std::ssize(order_));
    Climb(tries, options.seed, deadline);
  }

 private:
  // Places in each of the orderings until the target is met. The first is always tried.
  void TryOrderings(const Deadline& deadline) {
    std::vector<Contention> around(problem_.items.size());
    for (const Method& method : kMethods) {
      if (&method == &kMethods[1]) around = internal::ContentionOf(problem_);
      std::vector<int32_t> order = OrderBy(method.key, around);
      PlacementLimit limit = {.height = best_.height};
      if (&method != &kMethods[0]) limit.deadline = deadline.time();
      std::optional<Placement> placed = internal::PlaceInOrder(problem_, order, method.fit, limit);
      if (placed) {
        best_ = *std::move(placed);
        order_ = std::move(order);
        fit_ = method.fit;
        method_ = method.name;
      }
      if (done() || deadline.passed()) return;
    }
  }

  // Moves everything that reaches above the target forward in the best order, by one factor drawn
  // each time, and places again; what is no higher is kept. `tries` limits the placements.
  void Climb(int64_t tries, uint64_t seed, const Deadline& deadline) {
    std::mt19937_64 random(seed);
    const auto count = static_cast<int64_t>(order_.size());
    for (; tries >= count && !done() && !deadline.passed(); tries -= count) {
      const double factor = static_cast<double>(random() >> 11) * 0x1p-53;
      std::vector<int32_t> order = MoveForward(factor);
      std::optional<Placement> placed = internal::PlaceInOrder(
          problem_, order, fit_, {.height = best_.height + 1, .deadline = deadline.time()});
      if (!placed) continue;
      if (placed->height < best_.height) method_ = "climb";
      best_ = *std::move(placed);
      order_ = std::move(order);
    }
  }

  std::vector<int32_t> OrderBy(Key (*key)(const PlanItem&, const Contention&),
                               const std::vector<Contention>& around) const {
    struct Entry {
      bool low;
      Key key;
      int32_t item;
    };
    std::vector<Entry> entries;
    entries.reserve(problem_.items.size());
    for (size_t i = 0; i < problem_.items.size(); ++i) {
      const PlanItem& item = problem_.items[i];
      const auto index = static_cast<int32_t>(i);
      if (!item.fixed_offset) entries.push_back({item.low, key(item, around[i]), index});
    }
    std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
      return std::tie(a.low, a.key, b.item) > std::tie(b.low, b.key, a.item);
    });
    std::vector<int32_t> order(entries.size());
    std::transform(entries.begin(), entries.end(), order.begin(),
                   [](const Entry& entry) { return entry.item; });
    return order;
  }

  std::vector<int32_t> MoveForward(double factor) const {
    struct Entry {
      bool high;
      double position;
      int32_t item;
    };
    std::vector<Entry> entries;
    entries.reserve(order_.size());
    for (const int32_t i : order_) {
      const PlanItem& item = problem_.items[static_cast<size_t>(i)];
      const int64_t end = best_.offsets[static_cast<size_t>(i)] + item.extent - item.overhang;
      const auto position = static_cast<double>(entries.size());
      entries.push_back({!item.low, end > target_ ? position * factor - 0.5 : position, i});
    }
    std::stable_sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
      return std::tie(a.high, a.position) < std::tie(b.high, b.position);
    });
    std::vector<int32_t> order(entries.size());
    std::transform(entries.begin(), entries.end(), order.begin(),
                   [](const Entry& entry) { return entry.item; });
    return order;
  }

  const PlanProblem& problem_;
  const int64_t target_;
  Placement best_;
  std::vector<int32_t> order_;  // Of the best plan, and how it was placed.
  Fit fit_ = Fit::kFirst;
  const char* method_ = nullptr;
};

// The height that no plan can be below, or that is good enough.
int64_t TargetHeight(const PlanProblem& problem, const PlannerOptions& options) {
  int64_t target = std::max(problem.peak, options.height_target);
  for (const PlanItem& item : problem.items) {
    if (item.fixed_offset)
      target = std::max(target, *item.fixed_offset + item.extent - item.overhang);
  }
  return target;
}

// Low buffers stay where the orderings put them.
void Search(std::span<const Buffer> buffers,
            int64_t target,
            const PlannerOptions& options,
            const Deadline& deadline,
            PlannerResult& result) {
  std::vector<Buffer> searched(buffers.begin(), buffers.end());
  for (size_t i = 0; i < searched.size(); ++i)
    if (searched[i].low) searched[i].fixed_offset = result.plan.offsets[i];
  internal::LadderResult lower = internal::SearchBelow(searched, result.plan.height,
                                                       {.height_target = target,
                                                        .tries_max = options.search_tries_max,
                                                        .deadline = deadline.time(),
                                                        .seed = options.seed});
  if (!lower.plan) return;
  result.plan = *std::move(lower.plan);
  result.method = "search";
}

}  // namespace

absl::StatusOr<PlannerResult> PlanBuffers(std::span<const Buffer> buffers,
                                          const PlannerOptions& options) {
  COPPICE_RETURN_IF_ERROR(ValidateBuffers(buffers));
  PlannerResult result;
  result.method = "empty";
  if (buffers.empty()) return result;
  const Deadline deadline(options.time_limit_ns);
  const PlanProblem problem = internal::MakePlanProblem(buffers);
  const int64_t target = TargetHeight(problem, options);
  Attempt attempt(problem, target);
  attempt.Run(options, deadline);

  result.bound = problem.bound;
  result.method = attempt.method();
  result.plan.height = attempt.best().height;
  result.plan.offsets.reserve(buffers.size());
  for (const int32_t item : problem.item_of)
    result.plan.offsets.push_back(attempt.best().offsets[static_cast<size_t>(item)]);
  if (!attempt.done()) Search(buffers, target, options, deadline, result);
  // What is placed here never overlaps; two fixed buffers may.
  COPPICE_RETURN_IF_ERROR(ValidatePlan(buffers, result.plan));
  return result;
}

}  // namespace coppice
