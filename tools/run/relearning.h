// Buckets that follow the traffic of a run: when they are learned again, and what came of it.
//
// After every so many steps of a program the runner learns its buckets anew
// (SessionPolicies::Rebucket). What a minute is, the virtual clock says, so that the same requests
// bring the same swaps.
//
//   N steps ─► kept ─► N steps ─► swapped ─► N steps ─► swapped ─► N steps ─► kept ─► rest
//   '─ before the first swap ──'                                   '─ after the last ───'
//
// Units: padding as padded_sum.h has it. Threads: one at a time.

#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"

#include "coppice/padding/padding_policy.h"
#include "coppice/padding/relearn.h"

#include "tools/model/step_runner.h"
#include "tools/run/batcher.h"
#include "tools/run/padded_sum.h"

namespace coppice {

inline constexpr int64_t kRelearnPeriod = 1000;  // Steps of a program, if nobody says another.
inline constexpr int64_t kRelearnHalfLives = 4;  // Periods after which a step weighs half.

struct PaddingSum {
  PaddedSum served;   // By the buckets in force.
  PaddedSum at_rest;  // By those that the run began with.
  int64_t steps = 0;
};

struct BucketSwap {
  int64_t step = 0;    // Steps of the program before it.
  int64_t graphs = 0;  // Recorded for it.
  Relearned learned;   // Its waste is that of all calls, as if a guard refused none.
};

// What became of the symbol that a program pads.
struct RelearnedSymbol {
  std::string program;
  std::string name;
  int64_t looks = 0;  // Times that it was learned anew.
  std::vector<BucketSwap> swaps;
  int64_t refused = 0;  // Swaps that would have paid, and were not done; `why` of the last.
  std::string why;
  bool guarded = false;  // Its policy refuses what would be padded too much.
  std::vector<int64_t> buckets_before;
  std::vector<int64_t> buckets_after;
  PaddingSum before;  // The first swap; all steps, if there was none.
  PaddingSum after;   // The last swap.
  PaddingSum all;

  int64_t graphs() const;  // Recorded by all swaps.
};

struct RelearnReport {
  int64_t period = 0;
  std::vector<RelearnedSymbol> symbols;  // Those that are padded.
};

class Relearning {
 public:
  // `runner` observes, and outlives this. Requires: period >= 1 (checked).
  Relearning(StepRunner& runner, int64_t period);

  // Counts a step that the runner has run, and learns if it is time. Errors: as
  // SessionPolicies::Rebucket.
  absl::Status Add(const Step& step);

  RelearnReport Report() const;

 private:
  struct Learner {
    PaddingPolicy at_rest;
    RelearnedSymbol symbol;
    int64_t steps = 0;
  };

  absl::Status Learn(bool prefill, double now_seconds, Learner& learner);

  StepRunner& runner_;
  const int64_t period_;
  std::array<std::optional<Learner>, 2> learners_;  // By whether it is prefill; none: not padded.
};

}  // namespace coppice
