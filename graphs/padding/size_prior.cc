// Weights of sizes in order, from two sums over the calls.

#include "graphs/padding/size_prior.h"

#include <algorithm>

#include "coppice/base/units.h"

namespace coppice {

int64_t LargestCalled(const SizeHistogram& histogram, int64_t limit) {
  int64_t largest = 1;
  for (const SizeCount& one : histogram.counts())
    if (one.size <= limit) largest = std::max(largest, one.size);
  return largest;
}

SizePrior::SizePrior(const SizeHistogram& histogram, int64_t last, double weight)
    : histogram_(histogram) {
  for (const SizeCount& one : histogram.counts())
    mass_ += one.size <= last ? one.count : 0;
  Rewind();
  double sum = 0;
  for (int64_t size = 1; size <= last; ++size)
    sum += Next();
  unit_ = weight / sum;
  Rewind();
}

void SizePrior::Rewind() {
  size_ = 0;
  passed_ = 0;
  above_ = mass_;
  squares_ = 0;
}

double SizePrior::Next() {
  ++size_;
  const std::vector<SizeCount>& counts = histogram_.counts();
  for (; passed_ < counts.size() && counts[passed_].size < size_; ++passed_) {
    // An empty call is as one of a single element.
    const auto elements = static_cast<double>(std::max<int64_t>(counts[passed_].size, 1));
    above_ = std::max(above_ - counts[passed_].count, 0.0);
    squares_ += counts[passed_].count * elements * elements;
  }
  const auto size = static_cast<double>(size_);
  return unit_ * (above_ + squares_ / (size * size)) / size;
}

int64_t Doubled(int64_t below, int64_t align, int64_t limit) {
  if (2 * below >= limit) return limit;
  return std::min(limit, std::max(2 * below / align * align, AlignUp(below + 1, align)));
}

}  // namespace coppice
