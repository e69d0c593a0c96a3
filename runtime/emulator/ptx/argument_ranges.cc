// Joins the ranges of arguments, and cuts what is mapped by them.

#include "runtime/emulator/ptx/argument_ranges.h"

#include <algorithm>

namespace coppice::ptx {

std::vector<MemoryRange> Within(std::span<const MemoryRange> memory,
                                std::span<const ArgumentRange> arguments) {
  std::vector<MemoryRange> joined;
  for (const ArgumentRange& argument : arguments) {
    const auto& [begin, end, writable] = argument.range;
    if (begin < end) joined.push_back({begin, end, writable});
  }
  std::ranges::sort(joined, {}, &MemoryRange::begin);
  size_t last = 0;
  for (size_t i = 1; i < joined.size(); ++i) {
    // What only touches stays apart: no access is of two arguments.
    if (joined[i].begin < joined[last].end) {
      joined[last].end = std::max(joined[last].end, joined[i].end);
      joined[last].writable |= joined[i].writable;
    } else {
      joined[++last] = joined[i];
    }
  }
  joined.resize(std::min(joined.size(), last + 1));
  std::vector<MemoryRange> within;
  for (const MemoryRange& range : joined) {
    auto mapped = std::ranges::upper_bound(memory, range.begin, {}, &MemoryRange::end);
    for (; mapped != memory.end() && mapped->begin < range.end; ++mapped)
      within.push_back({.begin = std::max(mapped->begin, range.begin),
                        .end = std::min(mapped->end, range.end),
                        .writable = mapped->writable && range.writable});
  }
  return within;
}

}  // namespace coppice::ptx
