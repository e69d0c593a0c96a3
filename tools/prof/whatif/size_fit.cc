// Sums of products, in integers throughout.

#include "tools/prof/whatif/size_fit.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "coppice/base/units.h"

namespace coppice {
namespace {

constexpr int64_t kMost = int64_t{1} << 52;
constexpr size_t kSumsMax = 4096;         // Of equally few terms that meet the points.
constexpr int64_t kFactorsMax = 1 << 11;  // Of a first product that are tried.
constexpr size_t kVaryingMax = 4;         // Sizes, the first ones that vary.

// a * b, held to what no buffer has.
int64_t Times(int64_t a, int64_t b) {
  int64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) return kMost;
  return std::clamp(product, -kMost, kMost);
}

int64_t FloorDivide(int64_t a, int64_t b) {
  const int64_t quotient = a / b;
  return quotient * b > a ? quotient - 1 : quotient;
}

}  // namespace

SizeFit::SizeFit(std::vector<SizePoint> points, int64_t unit)
    : points_(std::move(points)), unit_(unit) {
  const std::vector<Product> products = Products();
  for (const Product& product : products)
    FindOneTerm(product);
  terms_ = sums_.empty() ? 0 : 1;
  if (KeepUnrounded()) return;
  // Where rounding hides a second term, one would do as well.
  for (size_t i = 0; i < products.size(); ++i)
    for (size_t j = 0; j < i; ++j)
      FindTwoTerms(products[i], products[j]);
  if (terms_ == 0 && !sums_.empty()) terms_ = 2;
  KeepUnrounded();
}

// A sum that has every point's bytes as they are is no accident of rounding.
bool SizeFit::KeepUnrounded() {
  for (const Sum& sum : sums_) {
    const Product& last = sum.two ? sum.second : sum.first;
    const auto fixed = [&sum](const SizePoint& point) {
      return sum.two ? Times(sum.factor, ValueOf(sum.first, point.sizes)) : 0;
    };
    const int64_t value = ValueOf(last, points_.front().sizes);
    if (value == 0 || points() <= (sum.two ? 2 : 1)) continue;
    const int64_t factor = (points_.front().bytes - fixed(points_.front())) / value;
    const bool meets = std::ranges::all_of(points_, [&](const SizePoint& point) {
      return fixed(point) + Times(factor, ValueOf(last, point.sizes)) == point.bytes;
    });
    if (!meets) continue;
    Sum kept = sum;
    kept.lower = kept.upper = factor;
    terms_ = kept.two ? 2 : 1;
    too_many_ = false;
    unrounded_ = true;
    sums_ = {std::move(kept)};
    return true;
  }
  return false;
}

// Of sizes that differ between points, lower degrees first; what never changes is in the factors.
std::vector<SizeFit::Product> SizeFit::Products() {
  std::vector<int> varying;
  for (size_t i = 0; i < points_.front().sizes.size(); ++i) {
    const bool varies = std::ranges::any_of(points_, [&](const SizePoint& point) {
      return point.sizes[i] != points_.front().sizes[i];
    });
    if (varies) varying.push_back(static_cast<int>(i));
  }
  // Where all is one bucket, any size might matter.
  if (points_.size() == 1)
    for (size_t i = 0; i < points_.front().sizes.size(); ++i)
      varying.push_back(static_cast<int>(i));
  varying.resize(std::min(varying.size(), kVaryingMax));
  in_sums_.assign(points_.front().sizes.size(), false);
  for (const int size : varying)
    in_sums_[static_cast<size_t>(size)] = true;
  std::vector<Product> products = {{}};
  for (const int a : varying)
    products.push_back({a});
  for (size_t i = 0; i < varying.size(); ++i)
    for (size_t j = i; j < varying.size(); ++j)
      products.push_back({varying[i], varying[j]});
  for (size_t i = 0; i < varying.size(); ++i)
    for (size_t j = i + 1; j < varying.size(); ++j)
      for (size_t k = j + 1; k < varying.size(); ++k)
        products.push_back({varying[i], varying[j], varying[k]});
  return products;
}

int64_t SizeFit::ValueOf(const Product& product, std::span<const int64_t> sizes) {
  int64_t value = 1;
  for (const int size : product)
    value = Times(value, sizes[static_cast<size_t>(size)]);
  return value;
}

int64_t SizeFit::Rounded(int64_t bytes) const {
  return CeilDivide(std::max<int64_t>(bytes, 1), unit_) * unit_;
}

bool SizeFit::RangeOf(const Product& product, std::span<const int64_t> left, Sum& sum) const {
  int64_t lower = -kMost;
  int64_t upper = kMost;
  for (size_t i = 0; i < points_.size(); ++i) {
    // bytes - unit < rest + factor * value <= bytes, but that a buffer has one byte at least.
    const int64_t value = ValueOf(product, points_[i].sizes);
    const int64_t most = left[i];
    const int64_t least = points_[i].bytes == unit_ ? -kMost : most - unit_ + 1;
    if (value == 0) {
      if (most < 0 || least > 0) return false;
      continue;
    }
    upper = std::min(upper, FloorDivide(most, value));
    if (least > -kMost) lower = std::max(lower, -FloorDivide(-least, value));
  }
  sum.lower = lower;
  sum.upper = upper;
  return lower <= upper;
}

void SizeFit::FindOneTerm(const Product& product) {
  std::vector<int64_t> left;
  for (const SizePoint& point : points_)
    left.push_back(point.bytes);
  Sum sum{.first = product};
  if (!RangeOf(product, left, sum) || sum.upper < 1) return;
  sum.lower = std::max<int64_t>(sum.lower, product.empty() ? 1 : 0);
  sums_.push_back(std::move(sum));
}

// The pair of points that tells the factors best bounds the first one; each that is left is tried.
void SizeFit::FindTwoTerms(const Product& first, const Product& second) {
  struct Row {
    double a = 0;
    double b = 0;
    double bytes = 0;
  };
  std::vector<Row> rows;
  for (const SizePoint& point : points_)
    rows.push_back({static_cast<double>(ValueOf(first, point.sizes)),
                    static_cast<double>(ValueOf(second, point.sizes)),
                    static_cast<double>(point.bytes)});
  const double slack = static_cast<double>(unit_);
  double least = -static_cast<double>(kMost);
  double most = static_cast<double>(kMost);
  // Against the extreme points alone: pairs of all points would be quadratic.
  const auto [low, high] = std::ranges::minmax_element(rows, {}, &Row::a);
  for (const Row& anchor : {*low, *high}) {
    for (const Row& row : rows) {
      const double determinant = row.a * anchor.b - anchor.a * row.b;
      if (determinant == 0) continue;
      const double middle = (row.bytes * anchor.b - anchor.bytes * row.b) / determinant;
      const double reach = slack * (std::abs(anchor.b) + std::abs(row.b)) / std::abs(determinant);
      least = std::max(least, middle - reach);
      most = std::min(most, middle + reach);
    }
  }
  if (!(most - least < static_cast<double>(kFactorsMax)) || sums_.size() >= kSumsMax) {
    too_many_ = true;
    return;
  }
  std::vector<int64_t> left(points_.size());
  for (auto factor = static_cast<int64_t>(std::ceil(least - 1e-6));
       static_cast<double>(factor) <= most + 1e-6 && sums_.size() < kSumsMax; ++factor) {
    if (factor == 0) continue;
    for (size_t i = 0; i < points_.size(); ++i)
      left[i] = points_[i].bytes - Times(factor, ValueOf(first, points_[i].sizes));
    Sum sum{.first = first, .second = second, .two = true, .factor = factor};
    if (RangeOf(second, left, sum)) sums_.push_back(std::move(sum));
  }
}

int64_t SizeFit::Nearest(std::span<const int64_t> sizes) const {
  const auto volume = [](std::span<const int64_t> of) {
    double product = 1;
    for (const int64_t size : of)
      product *= static_cast<double>(std::max<int64_t>(size, 1));
    return product;
  };
  const double wanted = volume(sizes);
  const SizePoint* nearest = &points_.front();
  for (const SizePoint& point : points_)
    if (std::abs(std::log(volume(point.sizes) / wanted)) <
        std::abs(std::log(volume(nearest->sizes) / wanted)))
      nearest = &point;
  return static_cast<int64_t>(static_cast<double>(nearest->bytes) * wanted /
                              volume(nearest->sizes));
}

// Rows have some power of two of bytes, more likely a large one.
int64_t SizeFit::Likeliest(std::span<const int64_t> sizes) const {
  const Sum& sum = sums_.front();
  int64_t factor = sum.upper;
  for (int64_t step = 2; step <= kMost; step *= 2) {
    const int64_t rounder = FloorDivide(sum.upper, step) * step;
    if (rounder < sum.lower || rounder == 0) break;
    factor = rounder;
  }
  const int64_t fixed = sum.two ? Times(sum.factor, ValueOf(sum.first, sizes)) : 0;
  return Rounded(fixed + Times(factor, ValueOf(sum.two ? sum.second : sum.first, sizes)));
}

// Whether only sizes differ from those of the points that are in the sums.
bool SizeFit::Covers(std::span<const int64_t> sizes) const {
  for (size_t i = 0; i < sizes.size(); ++i)
    if (!in_sums_[i] && sizes[i] != points_.front().sizes[i]) return false;
  return true;
}

SizeFit::Size SizeFit::At(std::span<const int64_t> sizes) const {
  for (const SizePoint& point : points_)
    if (std::ranges::equal(point.sizes, sizes)) return {.bytes = point.bytes, .exact = true};
  if (sums_.empty()) return {.bytes = Rounded(Nearest(sizes))};
  int64_t least = std::numeric_limits<int64_t>::max();
  int64_t most = 0;
  bool known = true;
  for (const Sum& sum : sums_) {
    const int64_t fixed = sum.two ? Times(sum.factor, ValueOf(sum.first, sizes)) : 0;
    const int64_t value = ValueOf(sum.two ? sum.second : sum.first, sizes);
    // A term that is rounded up to this one's meets the points as well, where the other is whole.
    if (unrounded_ && sum.two) known = (fixed + Times(sum.lower, value)) % unit_ == 0;
    least = std::min(least, Rounded(fixed + Times(sum.lower, value)));
    most = std::max(most, Rounded(fixed + Times(sum.upper, value)));
  }
  if (least == most)
    return {.bytes = least, .exact = known && points() > terms_ && !too_many_ && Covers(sizes)};
  return {.bytes = points_.size() == 1 ? Rounded(Nearest(sizes)) : Likeliest(sizes)};
}

}  // namespace coppice
