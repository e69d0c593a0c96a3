// Sets of regions, and their table.

#include "graphs/surroundings.h"

#include <algorithm>

namespace coppice::internal {
namespace {

uint64_t HashOf(const Surroundings& surroundings) {
  uint64_t hash = surroundings.live.size();
  const auto mix = [&hash](int64_t word) {
    hash = (hash ^ static_cast<uint64_t>(word)) * 0x9e3779b97f4a7c15;
    hash ^= hash >> 32;
  };
  for (const Region& region : surroundings.live) {
    mix(region.offset);
    mix(region.bytes);
  }
  for (const int64_t offset : surroundings.in_place)
    mix(offset);
  return hash;
}

}  // namespace

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

bool Surroundings::empty() const {
  return live.empty() &&
         std::all_of(in_place.begin(), in_place.end(), [](int64_t offset) { return offset < 0; });
}

const Surroundings* SurroundingsTable::Find(const Surroundings& surroundings) const {
  const auto [begin, end] = by_hash_.equal_range(HashOf(surroundings));
  for (auto it = begin; it != end; ++it) {
    if (*it->second == surroundings) return it->second.get();
  }
  return nullptr;
}

const Surroundings* SurroundingsTable::Intern(const Surroundings& surroundings) {
  if (const Surroundings* found = Find(surroundings)) return found;
  return by_hash_.emplace(HashOf(surroundings), std::make_unique<const Surroundings>(surroundings))
      ->second.get();
}

}  // namespace coppice::internal
