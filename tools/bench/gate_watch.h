// What the calls of a gated session show about its gate, from outside.
//
// A gate takes one call each way in turns, in an order in which no three calls in a row go the same
// way, until it has timed enough of both; from then on every call goes the way it chose. So calls
// of both kinds and then a long row of one kind are a decision, and anything else is none; a gate
// that lost too many of its timings and gave up looks as if it had chosen to replay.
//
// Units: microseconds. Threads: one at a time.

#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "coppice/graphs/reason.h"

namespace coppice {

class GateWatch {
 public:
  static constexpr int64_t kSamples = 20;  // Calls of each way that a decision needs, at least.
  static constexpr int64_t kRow = 8;       // Calls in a row that no undecided gate makes.

  // The next call's kind, kReplay or kEager (checked), and its time.
  void Add(RunKind kind, double us);

  // The way that all calls go by now; nullopt while the gate has not decided.
  std::optional<RunKind> decided() const;

  int64_t calls() const { return calls_; }
  // Of the calls so far that went this way; 0 without any.
  double median_us(RunKind kind) const;

 private:
  const std::vector<double>& times(RunKind kind) const {
    return us_[kind == RunKind::kEager ? 1 : 0];
  }

  std::array<std::vector<double>, 2> us_;  // Replayed, eager.
  RunKind last_ = RunKind::kReplay;
  int64_t row_ = 0;  // Calls in a row that went `last_`.
  int64_t calls_ = 0;
};

}  // namespace coppice
