// What options and reports of learning while serving are like.

#include <algorithm>

#include "coppice/base/units.h"
#include "coppice/graphs/rebucket.h"

namespace coppice {
namespace {

constexpr int64_t kBucketsMax = 256;  // A swap looks at so many ladders at least.
constexpr int64_t kSmallLimit = 512;

// The fewest buckets that keep a cap.
int64_t CountOf(const LearnOptions& learn) {
  int64_t count = 0;
  for (int64_t size = 1; size <= learn.limit; ++count) {
    const auto scaled = static_cast<int64_t>(learn.max_ratio * static_cast<double>(size));
    const int64_t farthest = std::max(scaled, size + learn.max_gap);
    // No bucket lies between a size and the multiple above it.
    const int64_t bucket =
        std::max(farthest / learn.align * learn.align, AlignUp(size, learn.align));
    size = bucket + 1;
  }
  return count;
}

}  // namespace

RelearnOptions RelearnFor(const PaddingPolicy& policy, int64_t multiple_of, int64_t count) {
  RelearnOptions options = {.counts_uncalled = true};
  LearnOptions& learn = options.learn;
  learn.limit = policy.maximum();
  learn.align = multiple_of;
  const int64_t own =
      policy.is_exact() ? policy.maximum() : static_cast<int64_t>(policy.buckets().size());
  learn.count = std::min(std::max(own, count), kBucketsMax);
  learn.prior = 0.02;
  learn.max_ratio = learn.limit <= kSmallLimit ? 1.25 : 1.5;
  learn.max_gap = learn.limit <= kSmallLimit ? 2 : 1;
  if (CountOf(learn) <= std::min(own, learn.count)) return options;
  learn.max_ratio = 0;
  learn.max_gap = 0;
  return options;
}

const char* NameOf(Rebucketed outcome) {
  switch (outcome) {
    case Rebucketed::kNotDue:
      return "not due";
    case Rebucketed::kKept:
      return "kept";
    case Rebucketed::kLimited:
      return "limited";
    case Rebucketed::kNotRecorded:
      return "not recorded";
    case Rebucketed::kWouldSwap:
      return "would swap";
    case Rebucketed::kSwapped:
      return "swapped";
  }
  return "?";
}

}  // namespace coppice
