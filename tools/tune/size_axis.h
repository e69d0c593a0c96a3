// An axis of sizes in a picture, to scale or logarithmic where sizes span much.
//
// Units: sizes count elements, places are pixels. Threads: immutable once made.

#pragma once

#include <cstdint>
#include <vector>

namespace coppice {

class SizeAxis {
 public:
  // From size 0 at `begin` to `limit` at `end`, which may be on either side of it.
  SizeAxis(int64_t limit, double begin, double end);

  // A size beyond the limit is at the end.
  double At(int64_t size) const;
  // Where numbers stand. Increasing, up to the limit.
  std::vector<int64_t> Ticks() const;
  // Sizes, increasing from 0 to the limit, which lie at least so many pixels apart, but for those
  // of `kept`, that are among them all. Requires: `kept` in [0, limit].
  std::vector<int64_t> Edges(double pixels, const std::vector<int64_t>& kept) const;

 private:
  const int64_t limit_;
  const double begin_;
  const double end_;
  const bool logarithmic_;
};

}  // namespace coppice
