// Traffic served by buckets that are learned again as it goes: waste over time, graphs recorded.
//
// Each size is padded by the ladder of its time; after every period the rule of relearn.h looks at
// what the decaying histogram holds. Graphs are recorded at once, so that a swap serves from the
// next call on.
//
// Units: sizes count elements, half-lives and periods calls. Threads: pure function.

#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"

#include "coppice/padding/relearn.h"

namespace coppice {

struct RelearnRunOptions {
  RelearnOptions relearn;
  int64_t period = 1000;    // Calls. >= 1.
  double half_life = 4000;  // Calls. > 0.
};

struct RelearnSwap {
  int64_t call = 0;  // The first that the new buckets serve.
  Relearned relearned;
};

struct RelearnRun {
  struct Period {
    int64_t calls = 0;
    double real = 0;
    double padded = 0;   // By the ladder of that time.
    double at_rest = 0;  // By the ladder of the start.
  };

  std::vector<Period> periods;
  std::vector<RelearnSwap> swaps;
  std::vector<int64_t> buckets;  // At the end.
  double waste_pct = 0;          // Of all calls up to the limit.
  double waste_at_rest_pct = 0;  // The same, had the ladder stayed.
  int64_t recorded = 0;          // Buckets that swaps added.
  int64_t recorded_most = 0;     // By one swap.
  int64_t beyond = 0;            // Calls above the limit, which have no part.
};

// `start` is increasing and ends at the limit. Errors: those of Relearn and DecayingHistogram.
absl::StatusOr<RelearnRun> RunRelearning(std::span<const int64_t> sizes,
                                         std::span<const int64_t> start,
                                         const RelearnRunOptions& options);

}  // namespace coppice
