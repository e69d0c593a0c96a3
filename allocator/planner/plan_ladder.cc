// Every attempt is one run of PlanSearch, or several of one draw of joins; nothing is carried from
// one to the next but heights.

#include "allocator/planner/plan_ladder.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

#include "allocator/planner/joins.h"
#include "allocator/planner/plan_search.h"
#include "allocator/planner/search_problem.h"

namespace coppice::internal {
namespace {

constexpr int kOrders = 6;
constexpr std::array kRungs = {0.5, 0.75, 0.875};  // From the foot to the best.
constexpr int64_t kHeadStart = int64_t{1} << 19;   // Tries at the target before any rung.

constexpr int64_t kJoinedShare = 16;       // Tries of joined buffers, to one of the buffers alone.
constexpr int64_t kJoinedTries = 20;       // A block, in the first draws.
constexpr int kDrawsPerLength = 64;        // Then twice as many.
constexpr int64_t kJoinedBuffersMin = 24;  // Fewer are searched as soon as joined.
constexpr int64_t kJoinedFailuresMax = 1 << 15;
constexpr double kJoinNoise = 3;
constexpr double kLeftOutMax = 0.25;

// In [0, 1).
double Fraction(std::mt19937_64& random) {
  return static_cast<double>(random() >> 11) * 0x1p-53;
}

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

// One problem, searched in one order after the other.
class Searches {
 public:
  explicit Searches(const SearchProblem& problem) : problem_(problem), search_(problem) {}
  Searches(const SearchProblem& problem, int64_t tries)
      : problem_(problem), search_(problem, static_cast<size_t>(tries)) {}

  // The order and the length of the search are those of the turn, to which its tries are added.
  SearchOutcome Run(int64_t height,
                    double noise,
                    std::mt19937_64& random,
                    SearchAllowance allowance,
                    Turn& turn) {
    // A length that no search gets to is as good as any longer one.
    const int doublings = std::min(turn.round / 2, 40);
    const int64_t length = 2 * static_cast<int64_t>(problem_.items.size()) << doublings;
    allowance.tries = std::min(length, allowance.tries);
    const int64_t limit = allowance.tries;
    const std::vector<int32_t> order = Order(turn.order, noise, random);
    const SearchOutcome outcome = search_.Run(height, order, allowance);
    // Heights that are refuted at a glance may be as many as there are bytes.
    turn.tries += std::max<int64_t>(limit - allowance.tries, 1);
    return outcome;
  }

  // Of the last search. Requires: it found one.
  Plan Found() const {
    Plan plan;
    for (int32_t i = 0; i < problem_.count(); ++i) {
      plan.offsets.push_back(search_.offsets()[i] * problem_.unit_bytes);
      plan.height = std::max(plan.height, plan.offsets.back() + problem_.items[i].bytes);
    }
    return plan;
  }

 private:
  std::vector<int32_t> Order(int which, double noise, std::mt19937_64& random) const {
    std::vector<std::array<double, 4>> keys;
    std::vector<int32_t> order(problem_.items.size());
    std::iota(order.begin(), order.end(), 0);
    for (const int32_t i : order) {
      const auto key = KeyOf(problem_, i, which, 1 + noise * (2 * Fraction(random) - 1));
      const double fixed = problem_.items[i].fixed >= 0 ? 1 : 0;
      keys.push_back({fixed, key[0], key[1], key[2]});
    }
    std::ranges::stable_sort(order, [&](int32_t a, int32_t b) { return keys[a] > keys[b]; });
    return order;
  }

  const SearchProblem& problem_;
  PlanSearch search_;
};

class Ladder {
 public:
  Ladder(std::span<const Buffer> buffers,
         const SearchProblem& problem,
         int64_t height,
         const LadderOptions& options)
      : buffers_(buffers),
        options_(options),
        whole_(problem),
        problem_(problem),
        random_(options.seed) {
    result_.bound = 0;
    best_ = height;
    joins_ = problem.count() >= kJoinedBuffersMin;
  }

  LadderResult Climb(int64_t bound) {
    result_.bound = bound;
    const int64_t head_start = std::min(kHeadStart, options_.tries_max / 2);
    late_ = IsLate();
    while (best_ > Foot() && result_.tries < options_.tries_max && !late_) {
      const int64_t at_foot = at_foot_.tries + joined_tries_;
      if (at_foot >= head_start && at_foot > between_.tries / 4) {
        const auto span = static_cast<double>(best_ - Foot());
        Attempt(Foot() + static_cast<int64_t>(kRungs[between_.rung] * span), between_);
        between_.Advance(kRungs.size());
      } else if (JoinsNext()) {
        AttemptJoined(Foot());
      } else {
        Attempt(Foot(), at_foot_);
        at_foot_.Advance(1);
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

  // Two draws before all else; more when each order has been tried.
  bool JoinsNext() const {
    if (!joins_ || options_.tries_max - result_.tries <= problem_.count()) return false;
    if (joined_draws_ < 2) return true;
    return at_foot_.round > 0 && joined_tries_ <= kJoinedShare * at_foot_.tries;
  }

  SearchAllowance Allowance() const {
    return {.tries = options_.tries_max - result_.tries, .deadline = options_.deadline};
  }

  void Attempt(int64_t height, Turn& turn) {
    const int64_t before = turn.tries;
    const double noise = NoiseOf(turn.round, height == Foot());
    const SearchOutcome outcome = whole_.Run(height, noise, random_, Allowance(), turn);
    late_ = IsLate();
    result_.tries += turn.tries - before;
    if (outcome == SearchOutcome::kImpossible) result_.bound = problem_.NextHeight(height);
    if (outcome == SearchOutcome::kFound) Keep(whole_.Found());
  }

  // Searches for a plan of some of the buffers joined. The first time it joins what it can.
  void AttemptJoined(int64_t height) {
    const bool first = joined_draws_ == 0;
    JoinOptions options;
    if (joined_draws_ > 1) {
      const double share = Fraction(random_);
      options = {.noise = kJoinNoise, .left_out = kLeftOutMax * share * share, .seed = random_()};
    }
    if (joined_draws_ % 2 == 1) options.fill_below = height;
    const JoinedBuffers joined = JoinBuffers(buffers_, options);
    const std::optional<SearchProblem> problem = MakeSearchProblem(joined.blocks);
    if (!problem || (first && joined.blocks.size() == buffers_.size())) {
      joins_ = false;
      return;
    }
    // Where joins do not help, most tries are left to the rest.
    const int doublings = std::min(joined_draws_++ / kDrawsPerLength, 40);
    const int64_t drawing = problem_.count();  // It takes about as long as so many tries.
    const int64_t limit =
        std::min({kJoinedTries * problem->count() << doublings, options_.tries_max / 8 + 1,
                  options_.tries_max - result_.tries - drawing});
    Searches searches(*problem, std::min(limit, kJoinedFailuresMax));
    SearchOutcome outcome = SearchOutcome::kUndecided;
    Turn turn;
    while (outcome == SearchOutcome::kUndecided && turn.tries < limit && !late_) {
      SearchAllowance allowance = Allowance();
      allowance.tries = limit - turn.tries;
      outcome = searches.Run(height, NoiseOf(turn.round, true), random_, allowance, turn);
      turn.Advance(1);
      late_ = IsLate();
    }
    joined_tries_ += drawing + turn.tries;
    result_.tries += drawing + turn.tries;
    if (outcome == SearchOutcome::kFound) Keep(PlanOfJoined(buffers_, joined, searches.Found()));
  }

  void Keep(Plan plan) {
    best_ = plan.height;
    result_.plan = std::move(plan);
  }

  const std::span<const Buffer> buffers_;
  const LadderOptions& options_;
  Searches whole_;
  const SearchProblem& problem_;
  std::mt19937_64 random_;
  Turn at_foot_;
  Turn between_;
  bool joins_ = false;  // There may be something to join.
  int joined_draws_ = 0;
  int64_t joined_tries_ = 0;
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
  return Ladder(buffers, *problem, height, options).Climb(result.bound);
}

}  // namespace coppice::internal
