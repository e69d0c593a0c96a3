// Counts sizes while traffic runs, and lets old calls fade: after `half_life` more calls, a call
// weighs half as much.
//
// Each call pays only for Add, one atomic increment of an existing counter. Calls since the last
// Fold are young and weigh 1. Fold decays the older calls by the number of young ones, makes the
// young ones old, and returns all calls as a histogram to learn from. Call Fold after every few
// thousand calls; half-lives are exact to that granularity.
//
//   Add Add Add ──► counters ──Fold──► weights x 2^(-calls / half_life) + counters ──► histogram
//
// Beyond kCountersMax sizes, a counter holds several sizes, and counts them as its largest.
//
// Units: sizes count elements, half-lives count calls. Threads: every method from any thread; Add
// never waits.

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
    int64_t limit = 0;  // In [1, PaddingPolicy::kExtentMax]. Larger sizes are counted in beyond().
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

  // Decays old calls, makes the young ones old, and returns the weight of every size whose weight
  // is not 0. Sizes beyond the limit are left out. Cost: O(counters); allocates.
  SizeHistogram Fold();

  int64_t calls() const;   // All calls that were added before the last Fold, including those beyond
                           // the limit.
  int64_t beyond() const;  // Calls of sizes beyond the limit.
  int64_t align() const;   // Sizes are counted as multiples of this, or as the limit.
  const Options& options() const;

  // Folds, and writes everything on one line. Read makes an equal histogram from it. `coppice tune`
  // reads it as a table with the columns size and count:
  //   {"version": 1, "limit": 512, "half_life": "4000", "calls": 3, "beyond": 0,
  //    "sizes": [[1, "1.5"], [64, "1"]]}
  std::string ToJson();

  // Reads what ToJson wrote. Fractions are strings, so that they keep every bit. Errors:
  // kInvalidArgument the text is not such a document (the message has `where` and the place of the
  // error); kUnimplemented it has another version, or none.
  static absl::StatusOr<DecayingHistogram> Read(std::string_view text, const std::string& where);

 private:
  struct State;
  explicit DecayingHistogram(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

}  // namespace coppice
