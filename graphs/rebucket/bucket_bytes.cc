// Sums over nodes, and lines between them.

#include "graphs/rebucket/bucket_bytes.h"

#include <cmath>
#include <iterator>
#include <memory>
#include <mutex>

namespace coppice::internal {

BucketBytes BucketBytes::Measure(const SessionParts& parts, const Program& program, size_t symbol) {
  std::map<int64_t, int64_t> known;
  for (const std::unique_ptr<Lane>& lane : parts.lanes) {
    const std::lock_guard lock(lane->mutex);
    lane->nodes().Of(program).ForEachNode([&](const Node& node) {
      const int64_t extent = node.key().bucket.words[symbol];
      // Extents that are not padded are nobody's buckets.
      if (!node.unreachable() && program.IsBucket(symbol, extent) &&
          program.Pads(symbol, extent, Observe::kNo))
        known[extent] += node.exec_bytes();
    });
  }
  return BucketBytes(std::move(known));
}

double BucketBytes::Of(int64_t bucket) const {
  const auto above = known_.lower_bound(bucket);
  if (above == known_.end()) return static_cast<double>(std::prev(above)->second);
  if (above->first == bucket || above == known_.begin()) return static_cast<double>(above->second);
  const auto below = std::prev(above);
  const double share =
      static_cast<double>(bucket - below->first) / static_cast<double>(above->first - below->first);
  return std::lerp(static_cast<double>(below->second), static_cast<double>(above->second), share);
}

int64_t BucketBytes::Of(std::span<const int64_t> buckets) const {
  if (empty()) return 0;
  double sum = 0;
  for (const int64_t bucket : buckets)
    sum += Of(bucket);
  return std::llround(sum);
}

}  // namespace coppice::internal
