// Counts calls of each way, and those in a row.

#include "tools/bench/gate_watch.h"

#include <algorithm>

#include "coppice/base/check.h"

#include "tools/support/statistics.h"

namespace coppice {

void GateWatch::Add(RunKind kind, double us) {
  COPPICE_CHECK(kind == RunKind::kReplay || kind == RunKind::kEager,
                "a gate replays or runs eagerly");
  us_[kind == RunKind::kEager ? 1 : 0].push_back(us);
  row_ = kind == last_ ? row_ + 1 : 1;
  last_ = kind;
  ++calls_;
}

std::optional<RunKind> GateWatch::decided() const {
  const auto fewest = static_cast<int64_t>(std::min(us_[0].size(), us_[1].size()));
  if (fewest < kSamples || row_ < kRow) return std::nullopt;
  return last_;
}

double GateWatch::median_us(RunKind kind) const {
  return Median(times(kind));
}

}  // namespace coppice
