// Every attempt is one run of PlanSearch; nothing is carried from one to the next but heights.

#include "allocator/planner/plan_ladder.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

#include "allocator/planner/plan_search.h"
#include "allocator/planner/search_problem.h"

namespace coppice::internal {
namespace {

constexpr int kOrders = 6;
constexpr std::array kRungs = {0.5, 0.75, 0.875};  // From the foot to the best.
constexpr int64_t kHeadStart = int64_t{1} << 19;   // Tries at the target before any rung.

// How far keys are perturbed. Some programs fall to orders that are far off, but at their bound
// only.
double NoiseOf(int round, bool at_foot) {
  if (round == 0) return 0;
  return at_foot && round % 2 == 0 ? 0.2 : 0.02;
}

// Larger keys go first.
std::array<double, 3> KeyOf(const SearchProblem& problem, int32_t i, int order, double factor) {
  const SearchItem& item = problem.items[i];
  const SectionSpan hull = problem.HullOf(i);
  const double contention = static_cast<double>(item.total);
  const double sections = factor * (hull.upper - hull.lower);
  const double area = factor * static_cast<double>(item.steps) * item.size;
  switch (order) {
    case 0:
      return {sections, area, contention};
    case 1:
      return {contention, area, sections};
    case 2:
      return {contention, sections, area};
    case 3:
      return {contention, factor * static_cast<double>(problem.neighbors[i].size()), area};
    case 4:
      return {factor * static_cast<double>(problem.neighbors[i].size()), contention, area};
    default:
      return {factor * hull.upper, contention, area};
  }
}

// Searches at one height, or up and down the rungs: what comes next, and what it took so far.
struct Turn {
  int order = 0;
  size_t rung = 0;
  int round = 0;
  int64_t tries = 0;

  void Advance(size_t rungs) {
    if (++order < kOrders) return;
    order = 0;
    if (++rung < rungs) return;
    rung = 0;
    ++round;
  }
};

class Ladder {
 public:
  Ladder(const SearchProblem& problem, int64_t height, const LadderOptions& options)
      : problem_(problem), options_(options), search_(problem), random_(options.seed) {
    result_.bound = 0;
    best_ = height;
  }

  LadderResult Climb(int64_t bound) {
    result_.bound = bound;
    const int64_t head_start = std::min(kHeadStart, options_.tries_max / 2);
    late_ = IsLate();
    while (best_ > Foot() && result_.tries < options_.tries_max && !late_) {
      if (at_foot_.tries < head_start || at_foot_.tries <= between_.tries / 4) {
        Attempt(Foot(), at_foot_);
        at_foot_.Advance(1);
      } else {
        const auto span = static_cast<double>(best_ - Foot());
        Attempt(Foot() + static_cast<int64_t>(kRungs[between_.rung] * span), between_);
        between_.Advance(kRungs.size());
      }
    }
    return std::move(result_);
  }

 private:
  bool IsLate() const {
    return options_.deadline && std::chrono::steady_clock::now() >= *options_.deadline;
  }

  // The lowest height worth trying.
  int64_t Foot() const { return std::max(result_.bound, options_.height_target); }

  std::vector<int32_t> Order(int which, double noise) {
    std::vector<std::array<double, 4>> keys;
    std::vector<int32_t> order(problem_.items.size());
    std::iota(order.begin(), order.end(), 0);
    for (const int32_t i : order) {
      const double draw = static_cast<double>(random_() >> 11) * 0x1p-53;  // In [0, 1).
      const auto key = KeyOf(problem_, i, which, 1 + noise * (2 * draw - 1));
      const double fixed = problem_.items[i].fixed >= 0 ? 1 : 0;
      keys.push_back({fixed, key[0], key[1], key[2]});
    }
    std::ranges::stable_sort(order, [&](int32_t a, int32_t b) { return keys[a] > keys[b]; });
    return order;
  }

  void Attempt(int64_t height, Turn& turn) {
    // A length that no search gets to is as good as any longer one.
    const int doublings = std::min(turn.round / 2, 40);
    const int64_t limit = std::min(2 * static_cast<int64_t>(problem_.items.size()) << doublings,
                                   options_.tries_max - result_.tries);
    const std::vector<int32_t> order = Order(turn.order, NoiseOf(turn.round, height == Foot()));
    SearchAllowance allowance{.tries = limit, .deadline = options_.deadline};
    const SearchOutcome outcome = search_.Run(height, order, allowance);
    late_ = IsLate();
    // Heights that are refuted at a glance may be as many as there are bytes.
    const int64_t spent = std::max<int64_t>(limit - allowance.tries, 1);
    result_.tries += spent;
    turn.tries += spent;
    if (outcome == SearchOutcome::kImpossible) result_.bound = problem_.NextHeight(height);
    if (outcome == SearchOutcome::kFound) Keep();
  }

  void Keep() {
    Plan plan;
    for (int32_t i = 0; i < problem_.count(); ++i) {
      plan.offsets.push_back(search_.offsets()[i] * problem_.unit_bytes);
      plan.height = std::max(plan.height, plan.offsets.back() + problem_.items[i].bytes);
    }
    best_ = plan.height;
    result_.plan = std::move(plan);
  }

  const SearchProblem& problem_;
  const LadderOptions& options_;
  PlanSearch search_;
  std::mt19937_64 random_;
  Turn at_foot_;
  Turn between_;
  int64_t best_ = 0;
  bool late_ = false;
  LadderResult result_;
};

}  // namespace

LadderResult SearchBelow(std::span<const Buffer> buffers,
                         int64_t height,
                         const LadderOptions& options) {
  LadderResult result{.bound = MaxLiveBytes(buffers)};
  const bool in_place = std::ranges::any_of(
      buffers, [](const Buffer& buffer) { return buffer.in_place_with.has_value(); });
  if (in_place || static_cast<int64_t>(buffers.size()) > kSearchedBuffersMax) return result;
  if (height <= std::max(result.bound, options.height_target) || options.tries_max <= 0)
    return result;
  const std::optional<SearchProblem> problem = MakeSearchProblem(buffers);
  if (!problem) return result;
  return Ladder(*problem, height, options).Climb(result.bound);
}

}  // namespace coppice::internal
