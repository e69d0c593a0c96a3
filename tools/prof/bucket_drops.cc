// The heights of each lane's plans, in order, and who would serve whose calls.

#include "tools/prof/bucket_drops.h"

#include <algorithm>
#include <map>

#include "coppice/base/units.h"

namespace coppice {
namespace {

// The elements of a bucket's extents.
double VolumeOf(const TracedBucket& bucket) {
  double volume = 1;
  for (const int64_t extent : bucket.extents)
    volume *= static_cast<double>(std::max<int64_t>(extent, 1));
  return volume;
}

// Whether the calls of `small` fit into `large`.
bool Holds(const TracedBucket& large, const TracedBucket& small) {
  if (large.program != small.program || large.lane != small.lane ||
      large.scalars != small.scalars || large.extents.size() != small.extents.size())
    return false;
  for (size_t i = 0; i < large.extents.size(); ++i)
    if (large.extents[i] < small.extents[i]) return false;
  return true;
}

class Ranking {
 public:
  Ranking(const PoolTrace& trace, const std::vector<BucketFigures>& figures)
      : trace_(trace), figures_(figures) {
    for (const BucketFigures& bucket : figures)
      if (HasGraph(bucket.bucket)) heights_[LaneOf(bucket.bucket)].push_back(bucket.height);
    for (auto& [lane, heights] : heights_)
      std::ranges::sort(heights, std::ranges::greater());
  }

  // Of the buckets that have a graph, the most bytes per call that it served first.
  std::vector<BucketDrop> Rank() const {
    std::vector<BucketDrop> drops;
    for (const BucketFigures& bucket : figures_)
      if (HasGraph(bucket.bucket)) drops.push_back(DropOf(bucket));
    std::ranges::stable_sort(drops, std::ranges::greater(), [](const BucketDrop& drop) {
      return static_cast<double>(drop.freed_bytes()) /
             static_cast<double>(std::max<int64_t>(drop.calls, 1));
    });
    return drops;
  }

 private:
  bool HasGraph(int bucket) const {
    const BucketFigures& figures = figures_[static_cast<size_t>(bucket)];
    return figures.recorded > figures.evicted;
  }
  int LaneOf(int bucket) const { return trace_.buckets[static_cast<size_t>(bucket)].lane; }
  int64_t Mapped(int64_t height) const { return AlignUp(height, trace_.granularity); }

  BucketDrop DropOf(const BucketFigures& figures) const {
    const std::vector<int64_t>& heights = heights_.at(LaneOf(figures.bucket));
    const int64_t highest = Mapped(heights.front());
    BucketDrop drop{
        .bucket = figures.bucket, .calls = figures.calls(), .exec_bytes = figures.exec_bytes};
    const bool is_highest = figures.height == heights.front();
    const int64_t next = heights.size() > 1 ? heights[1] : 0;
    if (is_highest) drop.mapped_bytes = highest - Mapped(next);
    const auto lower =
        std::ranges::find_if(heights, [&](int64_t height) { return height < figures.height; });
    drop.with_higher = highest - Mapped(lower == heights.end() ? 0 : *lower);
    FindServer(figures.bucket, drop);
    return drop;
  }

  void FindServer(int bucket, BucketDrop& drop) const {
    const TracedBucket& small = trace_.buckets[static_cast<size_t>(bucket)];
    double best = 0;
    for (int other = 0; other < static_cast<int>(trace_.buckets.size()); ++other) {
      const TracedBucket& large = trace_.buckets[static_cast<size_t>(other)];
      if (other == bucket || !HasGraph(other) || !Holds(large, small)) continue;
      const double volume = VolumeOf(large);
      if (drop.served_by >= 0 && volume >= best) continue;
      best = volume;
      drop.served_by = other;
      drop.padding_factor = volume / VolumeOf(small);
    }
  }

  const PoolTrace& trace_;
  const std::vector<BucketFigures>& figures_;
  std::map<int, std::vector<int64_t>> heights_;  // By lane; the highest first.
};

}  // namespace

std::vector<BucketDrop> RankDrops(const PoolTrace& trace,
                                  const std::vector<BucketFigures>& figures) {
  return Ranking(trace, figures).Rank();
}

}  // namespace coppice
