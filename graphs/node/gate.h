// The gate of one node: times live calls eager and replayed, and keeps the faster way. Private to
// graphs/.
//
// A round hands out runs in pairs, one eager and one replay; which comes first follows the
// Thue-Morse sequence, so that neither side is favoured by a trend, nor by traffic that repeats
// every 2 or 4 calls. When both sides have kSamples timings, the round closes. The graph is kept
// unless eager's median is lower and Welch's t-test says that its mean is, too. kRecheckCalls calls
// later the next round begins.
//
//   const Gate::Run run = gate.Next();
//   ... run as run.choice says; if run.timed, between two events ...
//   gate.Add(run, microseconds);      // Whenever the events have completed, in any order.
//
// Timings may be outstanding while calls go on. A round hands out at most kRunsMax runs of a side;
// from then until it closes, calls are not timed and run as decided last, replayed before the first
// decision. So kRunsMax - kSamples timings of each side may be lost; of a round that loses more,
// which never closes, the next one begins kRecheckCalls calls later.
//
// Units: microseconds. Threads: one at a time; a node's gate is guarded by its lane's lock.
// Cost: nothing allocates or throws.

#pragma once

#include <array>
#include <cstdint>
#include <optional>

namespace coppice::internal {

class Gate {
 public:
  static constexpr int kSamples = 20;          // Timings of each side that close a round.
  static constexpr int kRunsMax = 24;          // Timed runs of each side in a round.
  static constexpr int kRecheckCalls = 10000;  // Calls from one round to the next.
  static constexpr double kSignificance = 0.01;

  enum class Choice : uint8_t { kReplay, kEager };

  struct Run {
    Choice choice;
    bool timed;      // Whether Add waits for the run's time.
    uint64_t round;  // Which Add compares: a run of an earlier round is too late.
  };

  // What a round found out.
  struct Side {
    int samples = 0;  // kSamples to kRunsMax.
    double median_us = 0;
    double mean_us = 0;
  };
  struct Verdict {
    Choice kept = Choice::kReplay;
    Side replay;
    Side eager;
    double p_value = 1;  // Two-sided, 0 to 1: of means this far apart if the sides were equal.
  };

  // How the next call runs. Cost: while decided, one comparison and one decrement.
  Run Next() {
    if (calls_left_ > 0) [[likely]] {
      --calls_left_;
      return {decision_, false, round_};
    }
    return HandOut();
  }

  // The time of a run, at most once per run. Ignored: what is negative or not finite, which counts
  // as lost; runs that are not timed; runs of a round that is over, or from before a Reset.
  void Add(const Run& run, double microseconds);

  // Forgets everything: for another graph, after an eviction or a re-record.
  void Reset();

  // Whether no round is open. One is open from the construction and from Reset on.
  bool decided() const { return decided_; }
  // How calls run that are not timed: as the last verdict says, replayed before the first.
  Choice decision() const { return decision_; }
  // Of the last round that closed; none before.
  const std::optional<Verdict>& verdict() const { return verdict_; }
  // Timings that the last round to begin has of `side`.
  int samples(Choice side) const { return timings_[static_cast<int>(side)].count; }

 private:
  struct Timings {
    std::array<double, kRunsMax> microseconds{};
    int count = 0;
  };

  Run HandOut();
  void BeginRound();
  void CloseRound();
  static Side Summary(const Timings& timings);

  int calls_left_ = 0;  // Calls that are not timed.
  Choice decision_ = Choice::kReplay;
  bool decided_ = false;
  int handed_out_ = 0;  // Timed runs of this round, both sides.
  uint64_t round_ = 0;
  std::array<Timings, 2> timings_;  // By Choice.
  std::optional<Verdict> verdict_;
};

}  // namespace coppice::internal
