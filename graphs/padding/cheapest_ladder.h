// The cheapest ladder of a given number of rungs: the search under LearnBuckets. Private to
// graphs/padding/.
//
// A ladder is a path from 0 to the last of m candidates. The step from rung i to rung j costs
// cost[j] * (mass[j] - mass[i]) + price[j]: all that lies between runs in j. As cost does not fall,
// two steps of which one lies within the other cost no less than the two that cross (the
// inequality of Monge), hence
//
//   * what a fixed toll per rung makes cheapest is found in one sweep, by an envelope of lines;
//   * the least cost falls less and less with the number of rungs, so that tolls find it;
//   * a number of rungs that no toll names is a splice of its two neighbours.
//
// Threads: pure functions.

#pragma once

#include <cstdint>
#include <vector>

namespace coppice {

// Index 0 is where ladders begin, which is no rung; 1 to m are candidates.
struct LadderProblem {
  std::vector<double> cost;   // Of a call in the rung. Not falling; the first is not read.
  std::vector<double> mass;   // Of calls up to the rung, those in it too. Not falling.
  std::vector<double> price;  // Of having the rung. >= 0.
  // The lowest rung from which a step may lead to this one: not falling, and below it. What a step
  // may do, so may each step within it.
  std::vector<int32_t> from_min;
};

using Ladder = std::vector<int32_t>;  // Increasing candidates; the last is m.

// The cost of `ladder` in `problem`. Cost: O(rungs).
double CostOf(const LadderProblem& problem, const Ladder& ladder);

// A ladder with the fewest rungs there can be. Cost: O(m).
Ladder ShortestLadder(const LadderProblem& problem);

// The cheapest ladder of at most `count` rungs, or of any number if it is 0, but for the rounding
// of sums. Of the result no rung can be left out or be a lower candidate at the same cost.
// Requires: a ladder of `count` rungs. Cost: a dozen sweeps, each O(m), or O(m log m) where
// from_min bounds steps; 32 bytes per candidate.
Ladder CheapestLadder(const LadderProblem& problem, int64_t count);

}  // namespace coppice
