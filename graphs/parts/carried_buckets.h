// What loaded profiles said about buckets: counts that this session's own are added to. Private to
// graphs/.
//
// Units: bytes. Threads: any.

#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "coppice/graphs/program.h"

#include "graphs/node/bucket_figures.h"
#include "graphs/program/program.h"

namespace coppice::internal {

// Largest count of a profile: sums of a few fit an int64, and a double has it exactly.
inline constexpr int64_t kLaunchesMax = int64_t{1} << 53;

// Padded extents, key scalars.
using ProfileKey = std::pair<std::vector<int64_t>, std::vector<int64_t>>;

class CarriedBuckets {
 public:
  // Keeps what a profile said. Of several profiles, or one that is loaded twice, the larger count
  // stays: they are of one history.
  void Keep(const Program& program, const ProfileKey& key, const BucketFigures& figures) {
    const std::lock_guard<std::mutex> lock(mutex_);
    BucketFigures& kept = buckets_[&program][key];
    if (kept.launches <= figures.launches) kept = figures;
  }

  void Forget(const Program& program) {
    const std::lock_guard<std::mutex> lock(mutex_);
    buckets_.erase(&program);
  }

  std::map<ProfileKey, BucketFigures> Of(const Program& program) const {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = buckets_.find(&program);
    return found == buckets_.end() ? std::map<ProfileKey, BucketFigures>() : found->second;
  }

 private:
  mutable std::mutex mutex_;
  std::map<const Program*, std::map<ProfileKey, BucketFigures>> buckets_;
};

}  // namespace coppice::internal
