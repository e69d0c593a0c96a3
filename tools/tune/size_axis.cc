// Logarithms of one more than the size, so that 0 has a place.

#include "tools/tune/size_axis.h"

#include <algorithm>
#include <cmath>

namespace coppice {
namespace {

constexpr int64_t kLinearMax = 64;  // Sizes up to here are drawn to scale.

}  // namespace

SizeAxis::SizeAxis(int64_t limit, double begin, double end)
    : limit_(limit), begin_(begin), end_(end), logarithmic_(limit > kLinearMax) {}

double SizeAxis::At(int64_t size) const {
  const auto exact = static_cast<double>(size);
  const auto limit = static_cast<double>(limit_);
  const double share = logarithmic_ ? std::log1p(exact) / std::log1p(limit) : exact / limit;
  return begin_ + (end_ - begin_) * std::min(share, 1.0);
}

std::vector<int64_t> SizeAxis::Ticks() const {
  std::vector<int64_t> ticks;
  if (!logarithmic_) {
    const int64_t step = std::max<int64_t>(limit_ / 8, 1);
    for (int64_t tick = 0; tick <= limit_; tick += step)
      ticks.push_back(tick);
    return ticks;
  }
  for (int64_t tick = 1; tick <= limit_; tick *= 2)
    ticks.push_back(tick);
  return ticks;
}

std::vector<int64_t> SizeAxis::Edges(double pixels, const std::vector<int64_t>& kept) const {
  std::vector<int64_t> edges = kept;
  edges.push_back(limit_);
  for (int64_t edge = 0; edge < limit_;) {
    edges.push_back(edge);
    int64_t below = edge;
    int64_t next = limit_;
    while (next - below > 1) {
      const int64_t middle = below + (next - below) / 2;
      const bool far = std::abs(At(middle) - At(edge)) >= pixels;
      (far ? next : below) = middle;
    }
    edge = next;
  }
  std::sort(edges.begin(), edges.end());
  edges.erase(std::unique(edges.begin(), edges.end()), edges.end());
  return edges;
}

}  // namespace coppice
