// Counts calls of each way, and those in a row.

#include "tools/bench/gate_watch.h"

#include <algorithm>

#include "coppice/base/check.h"

#include "tools/support/statistics.h"

namespace coppice {

void GateWatch::Add(Path path, double us) {
  COPPICE_CHECK(path == Path::kReplay || path == Path::kEager, "a gate replays or runs eagerly");
  us_[path == Path::kEager ? 1 : 0].push_back(us);
  row_ = path == last_ ? row_ + 1 : 1;
  last_ = path;
  ++calls_;
}

std::optional<Path> GateWatch::decided() const {
  const auto fewest = static_cast<int64_t>(std::min(us_[0].size(), us_[1].size()));
  if (fewest < kSamples || row_ < kRow) return std::nullopt;
  return last_;
}

double GateWatch::median_us(Path path) const {
  return Median(times(path));
}

}  // namespace coppice
