// The heights of each lane's plans, in order, and who would serve whose calls.

#include "tools/prof/bucket_drops.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "coppice/base/units.h"
#include "coppice/graphs/program.h"
#include "coppice/graphs/session_documents.h"

namespace coppice {
namespace {

// The elements of a bucket's extents.
double VolumeOf(const TracedBucket& bucket) {
  double volume = 1;
  for (const int64_t extent : bucket.extents)
    volume *= static_cast<double>(std::max<int64_t>(extent, 1));
  return volume;
}

// The symbols that may be padded, by a program's spec, be their policies what they are; empty also
// where the trace does not say it.
std::vector<int> ClaimedSymbols(const TracedProgram& program) {
  std::vector<int> claimed;
  const absl::StatusOr<ProgramSpec> spec = ReadSpecDocument(program.spec, "the spec");
  if (!spec.ok()) return claimed;
  for (size_t i = 0; i < std::min(spec->symbols.size(), program.symbols.size()); ++i) {
    const auto symbol = static_cast<int>(i);
    if (spec->symbols[i].kind != SymbolKind::kStatic && ClaimOf(*spec, symbol))
      claimed.push_back(symbol);
  }
  return claimed;
}

// The buckets of the one symbol of a program that is padded.
struct Ladder {
  int symbol = 0;
  std::vector<int64_t> buckets;
  PaddingGuard guard;

  // The bucket that serves calls of this one when it is gone.
  std::optional<int64_t> After(int64_t bucket) const {
    const auto next = std::ranges::upper_bound(buckets, bucket);
    if (next == buckets.end()) return std::nullopt;
    const bool padded_too_much =
        guard.max_ratio != 0 && bucket >= guard.min_replay_size &&
        static_cast<double>(*next) > guard.max_ratio * static_cast<double>(bucket);
    const auto place = static_cast<size_t>(next - buckets.begin());
    const bool below = !guard.lower_bounds.empty() && bucket < guard.lower_bounds[place];
    if (padded_too_much || below) return std::nullopt;
    return *next;
  }
};

// Nothing if none is padded, or several are, or two together.
std::optional<Ladder> LadderOf(const PoolTrace& trace, const LatestPolicies& latest, int program) {
  const TracedProgram& traced = trace.programs[static_cast<size_t>(program)];
  if (!traced.joint.empty()) return std::nullopt;
  std::optional<Ladder> ladder;
  for (const int symbol : ClaimedSymbols(traced)) {
    const std::optional<PaddingPolicy> policy = latest.Find(trace, program, symbol);
    if (!policy) return std::nullopt;
    if (policy->is_exact()) continue;
    if (ladder.has_value()) return std::nullopt;
    ladder = Ladder{.symbol = symbol, .buckets = policy->buckets(), .guard = policy->guard()};
  }
  return ladder;
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
  Ranking(const PoolTrace& trace,
          const std::vector<BucketFigures>& figures,
          const LatestPolicies& latest)
      : trace_(trace), figures_(figures), latest_(latest) {
    for (const BucketFigures& bucket : figures)
      if (HasGraph(bucket.bucket)) heights_[LaneOf(bucket.bucket)].push_back(bucket.height);
    for (auto& [lane, heights] : heights_)
      std::ranges::sort(heights, std::ranges::greater());
  }

  // Of the buckets that have a graph, the most bytes per call that it served first.
  std::vector<BucketDrop> Rank() const {
    std::vector<BucketDrop> drops;
    std::map<int, std::vector<size_t>> of_program;  // Places in `drops`.
    for (const BucketFigures& bucket : figures_) {
      if (!HasGraph(bucket.bucket)) continue;
      of_program[BucketAt(bucket.bucket).program].push_back(drops.size());
      drops.push_back(DropOf(bucket));
    }
    // A ladder may have millions of buckets, so that one is there at a time.
    for (const auto& [program, places] : of_program) {
      const std::optional<Ladder> ladder = LadderOf(trace_, latest_, program);
      for (const size_t place : places)
        FindServer(ladder, drops[place]);
    }
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
  const TracedBucket& BucketAt(int bucket) const {
    return trace_.buckets[static_cast<size_t>(bucket)];
  }
  int LaneOf(int bucket) const { return BucketAt(bucket).lane; }
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
    return drop;
  }

  void FindServer(const std::optional<Ladder>& ladder, BucketDrop& drop) const {
    const std::vector<int64_t>& extents = BucketAt(drop.bucket).extents;
    if (ladder.has_value() && static_cast<size_t>(ladder->symbol) < extents.size()) {
      FindByPolicy(*ladder, drop);
    } else {
      FindRecorded(drop);
    }
  }

  void FindByPolicy(const Ladder& ladder, BucketDrop& drop) const {
    drop.policy_known = true;
    TracedBucket server = BucketAt(drop.bucket);
    int64_t& extent = server.extents[static_cast<size_t>(ladder.symbol)];
    const std::optional<int64_t> next = ladder.After(extent);
    if (!next.has_value()) return;
    drop.padding_factor =
        static_cast<double>(*next) / static_cast<double>(std::max<int64_t>(extent, 1));
    extent = *next;
    for (int other = 0; other < static_cast<int>(trace_.buckets.size()); ++other) {
      const TracedBucket& bucket = BucketAt(other);
      if (HasGraph(other) && Holds(bucket, server) && bucket.extents == server.extents)
        drop.served_by = other;
    }
    drop.served_extents = std::move(server.extents);
    if (drop.records_another()) drop.mapped_bytes = drop.exec_bytes = 0;
  }

  void FindRecorded(BucketDrop& drop) const {
    const TracedBucket& small = BucketAt(drop.bucket);
    double best = 0;
    for (int other = 0; other < static_cast<int>(trace_.buckets.size()); ++other) {
      const TracedBucket& large = BucketAt(other);
      if (other == drop.bucket || !HasGraph(other) || !Holds(large, small)) continue;
      const double volume = VolumeOf(large);
      if (drop.served_by >= 0 && volume >= best) continue;
      best = volume;
      drop.served_by = other;
      drop.padding_factor = volume / VolumeOf(small);
    }
    if (drop.served_by >= 0) drop.served_extents = BucketAt(drop.served_by).extents;
  }

  const PoolTrace& trace_;
  const std::vector<BucketFigures>& figures_;
  const LatestPolicies& latest_;
  std::map<int, std::vector<int64_t>> heights_;  // By lane; the highest first.
};

}  // namespace

std::vector<BucketDrop> RankDrops(const PoolTrace& trace,
                                  const std::vector<BucketFigures>& figures,
                                  const LatestPolicies& latest) {
  return Ranking(trace, figures, latest).Rank();
}

}  // namespace coppice
