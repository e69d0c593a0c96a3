// A cell is the leading bits of a number: as wide as 1/64 of its power of two.

#include "tools/prof/duration_histogram.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace coppice {
namespace {

constexpr int kBits = 6;

size_t CellOf(int64_t ns) {
  const auto number = static_cast<uint64_t>(ns);
  const int shift = std::max(0, static_cast<int>(std::bit_width(number)) - kBits - 1);
  return (static_cast<size_t>(shift) << kBits) + static_cast<size_t>(number >> shift);
}

// The largest number of the cell.
int64_t EndOf(size_t cell) {
  constexpr size_t kHalf = size_t{1} << kBits;
  if (cell < 2 * kHalf) return static_cast<int64_t>(cell);
  const auto shift = static_cast<int>(cell / kHalf) - 1;
  const auto leading = static_cast<int64_t>(cell % kHalf + kHalf);
  return ((leading + 1) << shift) - 1;
}

}  // namespace

void DurationHistogram::Add(int64_t ns) {
  const size_t cell = CellOf(ns);
  if (cell >= counts_.size()) counts_.resize(cell + 1);
  ++counts_[cell];
  ++count_;
  most_ = std::max(most_, ns);
}

int64_t DurationHistogram::Percentile(double percent) const {
  const auto wanted = static_cast<int64_t>(std::ceil(percent / 100 * static_cast<double>(count_)));
  int64_t seen = 0;
  for (size_t cell = 0; cell < counts_.size(); ++cell) {
    seen += counts_[cell];
    if (seen >= wanted) return std::min(EndOf(cell), most_);
  }
  return most_;
}

}  // namespace coppice
