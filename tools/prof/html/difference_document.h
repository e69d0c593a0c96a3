// The difference of two traces as one JSON document, which its page shows and does not compute
// again.
//
// Its figures are those of `prof diff`; only what changed is in `changes`, and no more of it than
// kDifferenceChanges. Equal traces under equal names give equal documents.
//
//   before, after   findings   kinds   changes   reasons   limits
//
// Units: bytes and counts. Threads: pure functions.

#pragma once

#include <cstddef>
#include <string>

#include "nlohmann/json.hpp"

#include "tools/prof/trace_difference.h"

namespace coppice {

inline constexpr const char* kDifferenceSchema = "coppice.difference/1";
inline constexpr size_t kDifferenceChanges = 20'000;

struct ComparedTraces {
  std::string before_name;  // A path; the document has its last part.
  const TraceSummary& before;
  std::string after_name;
  const TraceSummary& after;
};

nlohmann::ordered_json BuildDifference(const ComparedTraces& traces,
                                       const TraceDifference& difference);

}  // namespace coppice
