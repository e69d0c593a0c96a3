// Merges over sorted ranges.

#include "tools/prof/address_range.h"

#include <algorithm>
#include <utility>

namespace coppice {

void Normalize(std::vector<AddressRange>& ranges) {
  std::sort(ranges.begin(), ranges.end(), [](const AddressRange& a, const AddressRange& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  size_t kept = 0;
  for (const AddressRange& range : ranges) {
    if (kept > 0 && range.begin <= ranges[kept - 1].end) {
      ranges[kept - 1].end = std::max(ranges[kept - 1].end, range.end);
    } else {
      ranges[kept++] = range;
    }
  }
  ranges.resize(kept);
}

bool Meet(const std::vector<AddressRange>& a, const std::vector<AddressRange>& b) {
  for (size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    if (a[i].begin < b[j].end && b[j].begin < a[i].end) return true;
    ++(a[i].end < b[j].end ? i : j);
  }
  return false;
}

}  // namespace coppice
