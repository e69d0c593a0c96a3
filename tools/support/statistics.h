// What the tools say about a list of measurements.
//
// Threads: any; no state.

#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "fmt/format.h"

namespace coppice {

// The value below which the share `probability` of `values` lies, interpolated between the two
// nearest (R type 7, NumPy's default); 0 if there are none. `probability` is in [0, 1].
template <typename Value>
double Quantile(std::vector<Value> values, double probability) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const double rank = probability * static_cast<double>(values.size() - 1);
  const auto lower = static_cast<size_t>(rank);
  const size_t upper = std::min(lower + 1, values.size() - 1);
  const auto low = static_cast<double>(values[lower]);
  return low + (static_cast<double>(values[upper]) - low) * (rank - static_cast<double>(lower));
}

// The value at the middle, the mean of the two if there are two; 0 if `values` is empty.
template <typename Value>
double Median(std::vector<Value> values) {
  return Quantile(std::move(values), 0.5);
}

// "10.25..11.50": what 80 % of `values` lie between, with so many decimals.
inline std::string FormatSpread(const std::vector<double>& values, int decimals) {
  return fmt::format("{:.{}f}..{:.{}f}", Quantile(values, 0.1), decimals, Quantile(values, 0.9),
                     decimals);
}

}  // namespace coppice
