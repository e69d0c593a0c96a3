// The smallest case that still shows what is wrong: fewest calls, then smallest sizes.
//
// Whatever is left out or made smaller is looked at again in the way that showed it. Calls go
// first: what a call read in place becomes values that it is given. Then each size is tried from
// its least one on, at itself and in the next larger buckets, so sizes that need not be multiples
// of anything end at the smallest one that fails among the first, and within a quarter of it among
// the others. Inputs keep their leading elements.
//
// Units: elements. Threads: one at a time.

#pragma once

#include <cstdint>

#include "absl/status/statusor.h"

#include "coppice/graphs/case_file.h"

#include "tools/replay/examination.h"
#include "tools/replay/verdict.h"
#include "tools/support/console.h"

namespace coppice {

struct Shrunken {
  Case value;
  Verdict verdict;    // Of the shrunken case.
  int64_t looks = 0;  // Plays that it took.
};

// Requires: `found` is about a call of `value`. Errors: as Examination::LookAgain.
absl::StatusOr<Shrunken> ShrinkCase(const Examination& examination,
                                    const Case& value,
                                    const Verdict& found,
                                    const Console& console);

}  // namespace coppice
