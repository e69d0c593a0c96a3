// Sweeps for a toll, the search for the toll, and splices.

#include "graphs/padding/cheapest_ladder.h"

#include <algorithm>
#include <cmath>

#include "coppice/base/check.h"

#include "graphs/padding/line_envelope.h"

namespace coppice {
namespace {

// Differences below this share of what is compared are the rounding of sums.
constexpr double kRounding = 1e-13;
// Chords find the toll in a dozen sweeps where costs fall as they do for traffic; from here on
// every other one is a bisection, which bounds the sweeps for any others.
constexpr int kChordsAlone = 12;
constexpr int kSweepsMax = 300;

double StepCost(const LadderProblem& problem, int32_t from, int32_t to) {
  return problem.cost[to] * (problem.mass[to] - problem.mass[from]) + problem.price[to];
}

int32_t LastOf(const LadderProblem& problem) {
  return static_cast<int32_t>(problem.cost.size()) - 1;
}

// The cheapest ladders for one toll after the other, in the same memory.
class TollSweep {
 public:
  explicit TollSweep(const LadderProblem& problem)
      : problem_(problem), total_(problem.cost.size()), parent_(problem.cost.size()) {}

  Ladder Find(double toll) {
    LineEnvelope lines(problem_.mass, total_);
    const int32_t last = LastOf(problem_);
    total_[0] = 0;
    for (int32_t rung = 1; rung <= last; ++rung) {
      lines.Push(rung - 1);
      lines.DropBelow(problem_.from_min[rung]);
      const int32_t from = lines.Find(problem_.cost[rung]);
      parent_[rung] = from;
      total_[rung] = total_[from] + StepCost(problem_, from, rung) + toll;
    }
    Ladder ladder;
    for (int32_t rung = last; rung > 0; rung = parent_[rung])
      ladder.push_back(rung);
    std::reverse(ladder.begin(), ladder.end());
    return ladder;
  }

 private:
  const LadderProblem& problem_;
  std::vector<double> total_;
  std::vector<int32_t> parent_;
};

struct Priced {
  Ladder ladder;
  double cost = 0;
  double toll = 0;  // One for which the ladder is cheapest.

  auto rungs() const { return static_cast<int64_t>(ladder.size()); }
};

// A ladder of `count` rungs out of two that are cheapest for one toll, one of more and one of
// fewer: the fewer's up to a step that contains the step so many rungs on of the other, whose rungs
// follow.
Ladder Splice(const Ladder& more, const Ladder& fewer, int64_t count) {
  const size_t ahead = more.size() - static_cast<size_t>(count);
  size_t step = 0;
  while (more[step + ahead] > fewer[step])
    ++step;
  Ladder ladder(fewer.begin(), fewer.begin() + static_cast<std::ptrdiff_t>(step));
  ladder.insert(ladder.end(), more.begin() + static_cast<std::ptrdiff_t>(step + ahead), more.end());
  return ladder;
}

// Between a ladder of more rungs and one of fewer, narrows down to one of exactly `count`.
Ladder Search(
    const LadderProblem& problem, TollSweep& sweep, Priced more, Priced fewer, int64_t count) {
  for (int round = 0; round < kSweepsMax; ++round) {
    const double chord =
        (fewer.cost - more.cost) / static_cast<double>(more.rungs() - fewer.rungs());
    const bool bisect = round >= kChordsAlone && round % 2 == 1;
    const double toll =
        bisect ? std::sqrt(std::max(more.toll, fewer.toll * 1e-9) * fewer.toll) : chord;
    Priced found = {.ladder = sweep.Find(toll), .toll = toll};
    found.cost = CostOf(problem, found.ladder);
    if (found.rungs() == count) return found.ladder;
    if (!bisect) {
      const auto with_toll = [toll](const Priced& one) {
        return one.cost + toll * static_cast<double>(one.rungs());
      };
      // Nothing lies below the chord: its ends are cheapest for its toll, and so is a splice.
      const bool between = found.rungs() < more.rungs() && found.rungs() > fewer.rungs();
      if (!between || with_toll(found) >= with_toll(more) * (1 - kRounding)) break;
    }
    Priced& end = found.rungs() > count ? more : fewer;
    // Sweeps that differ by rounding do not widen what is left.
    const bool inside =
        found.rungs() > count ? found.rungs() <= more.rungs() : found.rungs() >= fewer.rungs();
    if (inside) end = std::move(found);
  }
  return Splice(more.ladder, fewer.ladder, count);
}

// Leaves out rungs that save nothing.
bool LeaveOut(const LadderProblem& problem, Ladder& ladder) {
  const size_t before = ladder.size();
  Ladder kept;
  for (size_t i = 0; i + 1 < ladder.size(); ++i) {
    const int32_t below = kept.empty() ? 0 : kept.back();
    const int32_t above = ladder[i + 1];
    if (problem.from_min[above] > below ||
        StepCost(problem, below, above) >
            StepCost(problem, below, ladder[i]) + StepCost(problem, ladder[i], above))
      kept.push_back(ladder[i]);
  }
  kept.push_back(ladder.back());
  ladder = std::move(kept);
  return ladder.size() < before;
}

// Moves each rung to the lowest candidate above the rung below that costs no more.
bool MoveDown(const LadderProblem& problem, Ladder& ladder) {
  bool moved = false;
  for (size_t i = 0; i + 1 < ladder.size(); ++i) {
    const int32_t below = i == 0 ? 0 : ladder[i - 1];
    const int32_t above = ladder[i + 1];
    double least = StepCost(problem, below, ladder[i]) + StepCost(problem, ladder[i], above);
    int32_t best = ladder[i];
    for (int32_t at = ladder[i] - 1; at > std::max(below, problem.from_min[above] - 1); --at) {
      const double cost = StepCost(problem, below, at) + StepCost(problem, at, above);
      if (cost > least) continue;
      least = cost;
      best = at;
    }
    moved = moved || best != ladder[i];
    ladder[i] = best;
  }
  return moved;
}

}  // namespace

double CostOf(const LadderProblem& problem, const Ladder& ladder) {
  double cost = 0;
  int32_t below = 0;
  for (const int32_t rung : ladder) {
    cost += StepCost(problem, below, rung);
    below = rung;
  }
  return cost;
}

Ladder ShortestLadder(const LadderProblem& problem) {
  const int32_t last = LastOf(problem);
  Ladder ladder;
  int32_t below = 0;
  for (int32_t rung = 1; rung <= last; ++rung) {
    // The longest step ends ahead of the first rung that it does not reach.
    if (problem.from_min[rung] <= below) continue;
    below = rung - 1;
    ladder.push_back(below);
  }
  ladder.push_back(last);
  return ladder;
}

Ladder CheapestLadder(const LadderProblem& problem, int64_t count) {
  TollSweep sweep(problem);
  Priced any = {.ladder = sweep.Find(0)};
  any.cost = CostOf(problem, any.ladder);
  Ladder ladder;
  if (count == 0 || any.rungs() <= count) {
    ladder = std::move(any.ladder);
  } else {
    const Ladder shortest = ShortestLadder(problem);
    COPPICE_CHECK(static_cast<int64_t>(shortest.size()) <= count, "no ladder is that short");
    // With this toll a rung more never pays.
    const double cost_max = CostOf(problem, shortest);
    Priced fewest = {.toll = cost_max > 0 ? 2 * cost_max : 1};
    fewest.ladder = sweep.Find(fewest.toll);
    fewest.cost = CostOf(problem, fewest.ladder);
    ladder = fewest.rungs() == count
                 ? std::move(fewest.ladder)
                 : Search(problem, sweep, std::move(any), std::move(fewest), count);
  }
  while (LeaveOut(problem, ladder) || MoveDown(problem, ladder)) {
  }
  return ladder;
}

}  // namespace coppice
