// Comparing figures, by name.

#include "tools/prof/whatif/whatif_figures.h"

#include <numeric>

#include "fmt/format.h"

#include "tools/support/text_table.h"

namespace coppice {

int64_t WhatIfFigures::calls() const {
  return std::accumulate(paths.begin(), paths.end(), int64_t{0});
}

double WhatIfFigures::padded_share_pct() const {
  return Percent(padded_elements - real_elements, padded_elements);
}

std::vector<std::string> WhatIfFigures::DifferencesFrom(const WhatIfFigures& other) const {
  std::vector<std::string> differences;
  const auto compare = [&](const std::string& what, int64_t mine, int64_t theirs) {
    if (mine != theirs)
      differences.push_back(fmt::format("{} {} instead of {}", what, mine, theirs));
  };
  compare("height", height, other.height);
  for (int i = 0; i < kMemoryKindCount; ++i) {
    const auto kind = static_cast<size_t>(i);
    const char* const name = NameOf(static_cast<MemoryKind>(i));
    compare(fmt::format("bytes of {}", name), bytes[kind], other.bytes[kind]);
    compare(fmt::format("peak of {}", name), peaks[kind], other.peaks[kind]);
  }
  compare("bytes in all", total, other.total);
  compare("peak in all", total_peak, other.total_peak);
  compare("graphs recorded", recorded, other.recorded);
  compare("graphs evicted", evicted, other.evicted);
  for (int i = 0; i < kRunKindCount; ++i)
    compare(fmt::format("calls by {}", NameOf(static_cast<RunKind>(i))),
            paths[static_cast<size_t>(i)], other.paths[static_cast<size_t>(i)]);
  for (int i = 1; i < kReasonCount; ++i)
    compare(fmt::format("calls for {}", NameOf(static_cast<Reason>(i))),
            reasons[static_cast<size_t>(i)], other.reasons[static_cast<size_t>(i)]);
  compare("calls refused", refused, other.refused);
  compare("staged elements", real_elements, other.real_elements);
  compare("padded elements", padded_elements, other.padded_elements);
  return differences;
}

}  // namespace coppice
