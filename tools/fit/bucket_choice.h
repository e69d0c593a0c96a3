// Which buckets programs may have, from few with much padding to many with little, and which of
// these are best for a goal.
//
// All programs share one price: what a byte of graphs is worth in elements of padding. At each
// price the buckets of every program are those of the least cost (LearnBuckets). Without a prior,
// no other choice of as many bytes pads less: the choices are the lower hull of padding over bytes.
//
// Units: bytes of executable graphs, elements, calls. Threads: pure functions; `graph_bytes` is
// called from the caller's thread only.

#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "coppice/padding/padding_policy.h"
#include "coppice/padding/size_histogram.h"

#include "tools/fit/fit.h"

namespace coppice {

// What is chosen for.
struct SizedProgram {
  std::string name;     // "decode.batch".
  SizeHistogram sizes;  // Of calls; some is at most the limit.
  int64_t limit = 1;    // The last bucket; larger calls run without a graph.
  int64_t align = 1;    // Buckets are multiples of it, but for the limit.
  std::function<double(int64_t bucket)> graph_bytes;  // Of a graph in that bucket, all lanes.
};

struct BucketChoice {
  std::string name;                           // "learned 3", or a ladder's.
  std::vector<PaddingPolicy> policies;        // Of each program: those of its buckets that are
  std::vector<std::vector<int64_t>> buckets;  // called, and the last; increasing.
  double padded = 0;                          // Elements of all calls that have a bucket ...
  double real = 0;                            // ... and without padding.
  double calls = 0;                           // Of all sizes ...
  double in_buckets = 0;                      // ... and those that have a bucket.

  double padding_pct() const { return real > 0 ? 100 * (padded - real) / real : 0; }
  double replay_pct() const { return calls > 0 ? 100 * in_buckets / calls : 0; }
};

struct ChoiceOptions {
  int64_t buckets_max = 64;  // Of a program. >= 1.
  double prior = 0.05;
};

// In order of falling padding, each with other buckets than the one before. Errors: as
// LearnBuckets.
absl::StatusOr<std::vector<BucketChoice>> ChooseBuckets(const std::vector<SizedProgram>& programs,
                                                        const ChoiceOptions& options);

// The same of one policy for all programs, of which each takes what is below its limit: a ladder of
// another system. Errors: as ParseFittingPolicy.
absl::StatusOr<BucketChoice> ChoiceOf(const std::string& ladder,
                                      const std::vector<SizedProgram>& programs);

// What a goal looks at of a choice.
struct ChoiceFigures {
  double padding_pct = 0;
  double replay_pct = 100;
  int64_t left_bytes = 0;
  int64_t graphs = 0;
};

// What is asked of a choice.
struct ChoiceBounds {
  double padding_max = 100;  // In %; not of the goal kPadding.
  double replays_min = 0;    // In %.
  int64_t left_min = 0;      // Bytes.
};

// The index of the best for `goal`, of equal ones that of the fewest graphs; nothing if none is
// within the bounds.
std::optional<size_t> BestOf(const std::vector<ChoiceFigures>& choices,
                             FitGoal goal,
                             const ChoiceBounds& bounds);

}  // namespace coppice
