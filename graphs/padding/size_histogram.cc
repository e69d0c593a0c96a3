// Histograms: sorted counts.

#include "coppice/padding/size_histogram.h"

#include <algorithm>
#include <cmath>

#include "coppice/base/check.h"
#include "coppice/base/status.h"

namespace coppice {
namespace {

bool IsBelow(const SizeCount& one, int64_t size) {
  return one.size < size;
}

}  // namespace

absl::StatusOr<SizeHistogram> SizeHistogram::From(std::span<const SizeCount> counts) {
  SizeHistogram histogram;
  histogram.counts_.assign(counts.begin(), counts.end());
  std::vector<SizeCount>& sorted = histogram.counts_;
  // Stable, so that equal input adds up in the same order everywhere.
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const SizeCount& a, const SizeCount& b) { return a.size < b.size; });
  size_t kept = 0;
  for (const SizeCount& one : sorted) {
    if (one.size < 0)
      return InvalidArgument("SizeHistogram: size {} is below 0; leave it out", one.size);
    if (!(one.count > 0 && std::isfinite(one.count)))
      return InvalidArgument("SizeHistogram: size {} has a count of {}; give a count above 0",
                             one.size, one.count);
    histogram.mass_ += one.count;
    if (kept > 0 && sorted[kept - 1].size == one.size)
      sorted[kept - 1].count += one.count;
    else
      sorted[kept++] = one;
  }
  sorted.resize(kept);
  if (!std::isfinite(histogram.mass_))
    return InvalidArgument("SizeHistogram: the counts add up to {}; give smaller counts",
                           histogram.mass_);
  return histogram;
}

absl::StatusOr<SizeHistogram> SizeHistogram::FromSizes(std::span<const int64_t> sizes) {
  std::vector<SizeCount> counts;
  counts.reserve(sizes.size());
  for (const int64_t size : sizes)
    counts.push_back({.size = size, .count = 1});
  return From(counts);
}

void SizeHistogram::Add(int64_t size, double count) {
  COPPICE_CHECK(size >= 0, "a size is negative");
  COPPICE_CHECK(count > 0 && std::isfinite(count), "a count is not above 0");
  const auto found = std::lower_bound(counts_.begin(), counts_.end(), size, IsBelow);
  if (found != counts_.end() && found->size == size)
    found->count += count;
  else
    counts_.insert(found, {.size = size, .count = count});
  mass_ += count;
}

}  // namespace coppice
