// How many bytes a buffer has as a function of the sizes of its bucket, out of recorded buckets.
//
//   rows   8    16    24                      a plan knows bytes in units of 256
//   bytes  768  1536  2304     96 * rows      held by three points, of which one would have done
//
// A size is a sum of one or two products of up to three sizes, with whole factors, rounded up. All
// such sums that meet every recorded bucket, in integers, are looked at: what all of them say of a
// bucket is known, and where they differ it is an estimate, by one of the fewest terms. One that
// needs no rounding at any of more buckets than it has terms is taken to be the right one; if it
// has two terms, where it needs none either.
//
// Units: bytes, elements. Threads: immutable once made.

#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace coppice {

struct SizePoint {
  std::vector<int64_t> sizes;
  int64_t bytes = 0;  // Rounded up to the unit; >= 1.
};

class SizeFit {
 public:
  struct Size {
    int64_t bytes = 0;
    bool exact = false;
  };

  // Points of equally many sizes, each of a bucket of its own; at least one. The unit is >= 1.
  // Cost: O(points) for each of some hundred sums.
  SizeFit(std::vector<SizePoint> points, int64_t unit);

  // What a bucket of these sizes has. Exact at every point, and elsewhere where there are more
  // points than the fewest terms and every sum that meets all points says the same.
  Size At(std::span<const int64_t> sizes) const;

  int points() const { return static_cast<int>(points_.size()); }
  int terms() const { return terms_; }  // The fewest; 0: no sum meets the points.

 private:
  // A product of sizes, by their index: of none it is 1.
  using Product = std::vector<int>;
  // Factors that meet all points: of the first product one, of the second a range; without a
  // second, a range of the first.
  struct Sum {
    Product first;
    Product second;
    bool two = false;
    int64_t factor = 0;  // Of `first`, if there are two.
    int64_t lower = 0;
    int64_t upper = 0;
  };

  static int64_t ValueOf(const Product& product, std::span<const int64_t> sizes);
  int64_t Rounded(int64_t bytes) const;
  bool Covers(std::span<const int64_t> sizes) const;
  std::vector<Product> Products();
  void FindOneTerm(const Product& product);
  void FindTwoTerms(const Product& first, const Product& second);
  // Keeps nothing but a sum that meets more points than it has terms without being rounded up, if
  // there is one.
  bool KeepUnrounded();
  // Factors of `product` with which it makes up what is left of every point.
  bool RangeOf(const Product& product, std::span<const int64_t> left, Sum& sum) const;
  // By one of the sums that meet them; as near as can be told where none does.
  int64_t Likeliest(std::span<const int64_t> sizes) const;
  int64_t Nearest(std::span<const int64_t> sizes) const;

  const std::vector<SizePoint> points_;
  const int64_t unit_;
  std::vector<bool> in_sums_;  // Sizes that are in some product.
  int terms_ = 0;
  bool too_many_ = false;   // More sums meet the points than were looked at.
  bool unrounded_ = false;  // What KeepUnrounded kept.
  std::vector<Sum> sums_;
};

}  // namespace coppice
