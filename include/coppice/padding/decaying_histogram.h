// Counts sizes while traffic runs, and forgets: a call weighs half as much after so many more.
//
// Add is all that a call pays: one atomic increment of a counter that is there already. What was
// counted since the last Fold is young, and young calls weigh 1; Fold makes them old, by decaying
// what was old before by their number, and returns both as a histogram to learn from. Folded every
// few thousand calls, half-lives are exact but for that granularity.
//
//   Add Add Add ──► counters ──Fold──► weights x 2^(-calls / half_life) + counters ──► histogram
//
// Beyond kCountersMax sizes a counter holds several, and counts them as its largest.
//
// Units: sizes count elements, half-lives calls. Threads: any, all of it; Add never waits.

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

#include "coppice/padding/size_histogram.h"

namespace coppice {

class DecayingHistogram {
 public:
  static constexpr int64_t kCountersMax = int64_t{1} << 16;

  struct Options {
    int64_t limit = 0;        // In [1, PaddingPolicy::kExtentMax]. Larger sizes count as beyond.
    double half_life = 4000;  // Calls. > 0; infinite: nothing is forgotten.
  };

  // Errors: kInvalidArgument  an option outside its range. Cost: allocates a counter per size, up
  // to kCountersMax.
  static absl::StatusOr<DecayingHistogram> Create(const Options& options);

  DecayingHistogram(DecayingHistogram&&) noexcept;
  DecayingHistogram& operator=(DecayingHistogram&&) noexcept;
  ~DecayingHistogram();

  // Counts a call. Requires: size >= 0 (checked). Cost: an atomic increment; never allocates.
  void Add(int64_t size);

  // Makes young calls old and returns the weight of every size that has some. Sizes beyond the
  // limit have no part. Cost: O(counters); allocates.
  SizeHistogram Fold();

  int64_t calls() const;   // Added in all, those beyond the limit too; as of the last Fold.
  int64_t beyond() const;  // Of these, those of sizes beyond the limit.
  int64_t align() const;   // Sizes are counted as multiples of it, or as the limit.
  const Options& options() const;

  // Folds, and writes everything on one line, which Read reads back as the same, and `coppice tune`
  // as a trace of the columns size and count:
  //   {"version": 1, "limit": 512, "half_life": "4000", "calls": 3, "beyond": 0,
  //    "sizes": [[1, "1.5"], [64, "1"]]}
  std::string ToJson();

  // Fractions are strings, so that they keep every bit. Errors: kInvalidArgument  no such document,
  // with `where` and the place; kUnimplemented  another version, or none.
  static absl::StatusOr<DecayingHistogram> Read(std::string_view text, const std::string& where);

 private:
  struct State;
  explicit DecayingHistogram(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

}  // namespace coppice
