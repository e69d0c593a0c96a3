// Sets of regions, and their table.

#include "graphs/node/surroundings.h"

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
  for (const Region& region : surroundings.donated)
    mix(region.offset);
  return hash;
}

}  // namespace

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
