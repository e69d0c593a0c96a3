// Sorting, joining and comparing regions.

#include "graphs/node/region.h"

#include <algorithm>
#include <utility>

namespace coppice::internal {

void Normalize(std::vector<Region>& regions) {
  std::sort(regions.begin(), regions.end(),
            [](const Region& a, const Region& b) { return a.offset < b.offset; });
  size_t count = 0;
  for (const Region& region : regions) {
    if (count > 0 && region.offset <= regions[count - 1].end()) {
      Region& last = regions[count - 1];
      last.bytes = std::max(last.end(), region.end()) - last.offset;
    } else {
      regions[count++] = region;
    }
  }
  regions.resize(count);
}

void JoinOverlapping(std::vector<Region>& regions) {
  std::sort(regions.begin(), regions.end(), [](const Region& a, const Region& b) {
    return std::pair(a.offset, a.bytes) < std::pair(b.offset, b.bytes);
  });
  size_t count = 0;
  for (const Region& region : regions) {
    if (count > 0 && region.offset < regions[count - 1].end()) {
      Region& last = regions[count - 1];
      last.bytes = std::max(last.end(), region.end()) - last.offset;
    } else {
      regions[count++] = region;
    }
  }
  regions.resize(count);
}

std::vector<Region> Subtract(const std::vector<Region>& regions,
                             const std::vector<Region>& without) {
  std::vector<Region> left;
  for (const Region& region : regions) {
    int64_t begin = region.offset;
    for (const Region& gap : without) {
      if (gap.end() <= begin || gap.offset >= region.end()) continue;
      if (gap.offset > begin) left.push_back({.offset = begin, .bytes = gap.offset - begin});
      begin = gap.end();
    }
    if (begin < region.end()) left.push_back({.offset = begin, .bytes = region.end() - begin});
  }
  return left;
}

bool Meets(const Region& region, const std::vector<Region>& regions) {
  return std::any_of(regions.begin(), regions.end(), [&region](const Region& other) {
    return region.offset < other.end() && other.offset < region.end();
  });
}

bool Overlap(const std::vector<Region>& a, const std::vector<Region>& b) {
  size_t i = 0;
  size_t j = 0;
  while (i < a.size() && j < b.size()) {
    if (a[i].end() <= b[j].offset) {
      ++i;
    } else if (b[j].end() <= a[i].offset) {
      ++j;
    } else {
      return true;
    }
  }
  return false;
}

}  // namespace coppice::internal
