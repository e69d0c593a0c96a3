// Scaling by the greatest common divisor, and time by a sweep that keeps only the fullest moments.

#include "allocator/planner/search_problem.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <numeric>

#include "coppice/base/units.h"

namespace coppice::internal {
namespace {

constexpr int64_t kStackMax = int64_t{1} << 29;
constexpr int64_t kMembersMax = int64_t{1} << 24;

// Tops round up to the least alignment anyhow. Where sizes and fixed offsets are multiples of every
// alignment, so is each offset that a search in their units tries.
int64_t UnitBytes(std::span<const Buffer> buffers, int64_t least_alignment) {
  int64_t unit = 0;
  int64_t widest = 1;
  for (const Buffer& buffer : buffers) {
    unit = std::gcd(unit, AlignUp(buffer.bytes, least_alignment));
    unit = std::gcd(unit, buffer.fixed_offset.value_or(0));
    widest = std::max(widest, buffer.alignment);
  }
  return unit % widest == 0 ? unit : std::gcd(unit, widest);
}

// Fills the items' sizes; false if the numbers are too large.
bool Scale(std::span<const Buffer> buffers, SearchProblem& problem) {
  int64_t least_alignment = buffers.front().alignment;
  for (const Buffer& buffer : buffers)
    least_alignment = std::min(least_alignment, buffer.alignment);
  const int64_t unit = UnitBytes(buffers, least_alignment);
  problem.unit_bytes = unit;
  problem.rounding_bytes = least_alignment;
  int64_t highest = 0;
  for (const Buffer& buffer : buffers) {
    const int64_t size = AlignUp(buffer.bytes, least_alignment) / unit;
    const int64_t alignment = std::max<int64_t>(buffer.alignment / unit, 1);
    const int64_t fixed = buffer.fixed_offset.value_or(0) / unit;
    problem.stack += size + alignment - 1;
    highest = std::max(highest, fixed);
    if (problem.stack + highest > kStackMax) return false;
    SearchItem& item = problem.items.emplace_back();
    item.size = static_cast<int32_t>(size);
    item.alignment = unit % buffer.alignment == 0 ? 1 : static_cast<int32_t>(alignment);
    if (buffer.fixed_offset) item.fixed = static_cast<int32_t>(fixed);
    item.bytes = buffer.bytes;
    for (const Interval& interval : buffer.lifetime)
      item.steps += interval.upper - interval.lower;
  }
  problem.stack += highest;
  return true;
}

struct Event {
  int64_t step = 0;
  bool begins = false;  // Ends sort first.
  int32_t item = 0;
};

std::vector<Event> SortedEvents(std::span<const Buffer> buffers) {
  std::vector<Event> events;
  events.reserve(2 * buffers.size());
  for (size_t i = 0; i < buffers.size(); ++i) {
    for (const Interval& interval : buffers[i].lifetime) {
      events.push_back({interval.lower, true, static_cast<int32_t>(i)});
      events.push_back({interval.upper, false, static_cast<int32_t>(i)});
    }
  }
  std::stable_sort(events.begin(), events.end(), [](const Event& a, const Event& b) {
    return a.step != b.step ? a.step < b.step : a.begins < b.begins;
  });
  return events;
}

// A section is the moment before the first end after a beginning.
void AddSections(std::span<const Buffer> buffers, SearchProblem& problem) {
  std::vector<std::vector<SectionSpan>> spans(buffers.size());
  bool grown = false;
  for (const Event& event : SortedEvents(buffers)) {
    if (!event.begins && grown) ++problem.section_count;
    grown = event.begins;
    std::vector<SectionSpan>& list = spans[static_cast<size_t>(event.item)];
    if (!event.begins) {
      list.back().upper = problem.section_count;
    } else if (list.empty() || list.back().upper < problem.section_count) {
      list.push_back({problem.section_count, problem.section_count});
    }
  }
  for (const std::vector<SectionSpan>& list : spans) {
    for (const SectionSpan& span : list)
      problem.spans.Add(span);
    problem.spans.EndRow();
  }
}

// False if the lifetimes are too long.
bool AddMembers(SearchProblem& problem) {
  int64_t count = 0;
  for (int32_t i = 0; i < problem.count(); ++i)
    for (const SectionSpan& span : problem.spans[i])
      count += span.upper - span.lower;
  if (count > kMembersMax) return false;
  std::vector<std::vector<int32_t>> members(static_cast<size_t>(problem.section_count));
  for (int32_t i = 0; i < problem.count(); ++i)
    for (const SectionSpan& span : problem.spans[i])
      for (int32_t s = span.lower; s < span.upper; ++s)
        members[static_cast<size_t>(s)].push_back(i);
  std::vector<int64_t> load;
  for (const std::vector<int32_t>& list : members) {
    int64_t units = 0;
    for (const int32_t i : list) {
      units += problem.items[static_cast<size_t>(i)].size;
      problem.members.Add(i);
    }
    problem.members.EndRow();
    problem.peak = std::max(problem.peak, units);
    load.push_back(units);
  }
  for (int32_t i = 0; i < problem.count(); ++i)
    for (const SectionSpan& span : problem.spans[i])
      for (int32_t s = span.lower; s < span.upper; ++s) {
        int64_t& total = problem.items[static_cast<size_t>(i)].total;
        total = std::max(total, load[static_cast<size_t>(s)]);
      }
  return true;
}

// The neighbours of an item are those alive when it begins, and those that begin later.
void AddNeighbors(SearchProblem& problem) {
  std::vector<std::vector<int32_t>> begins(static_cast<size_t>(problem.section_count));
  for (int32_t i = 0; i < problem.count(); ++i)
    for (const SectionSpan& span : problem.spans[i])
      begins[static_cast<size_t>(span.lower)].push_back(i);
  std::vector<int32_t> seen_by(problem.items.size(), -1);
  for (int32_t i = 0; i < problem.count(); ++i) {
    const auto add = [&](int32_t other) {
      int32_t& seen = seen_by[static_cast<size_t>(other)];
      if (seen != i) problem.neighbors.Add(other);
      seen = i;
    };
    seen_by[static_cast<size_t>(i)] = i;
    for (const SectionSpan& span : problem.spans[i]) {
      for (const int32_t other : problem.members[span.lower])
        add(other);
      for (int32_t s = span.lower + 1; s < span.upper; ++s)
        for (const int32_t other : begins[static_cast<size_t>(s)])
          add(other);
    }
    problem.neighbors.EndRow();
  }
}

void AddObstacles(SearchProblem& problem) {
  for (int32_t i = 0; i < problem.count(); ++i) {
    std::vector<int32_t> obstacles;
    std::ranges::copy_if(problem.neighbors[i], std::back_inserter(obstacles),
                         [&](int32_t other) { return problem.items[other].fixed >= 0; });
    std::ranges::sort(obstacles, {}, [&](int32_t other) { return problem.items[other].fixed; });
    for (const int32_t obstacle : obstacles)
      problem.obstacles.Add(obstacle);
    problem.obstacles.EndRow();
  }
}

}  // namespace

int64_t SearchProblem::NextHeight(int64_t height) const {
  int64_t next = std::numeric_limits<int64_t>::max();
  for (const SearchItem& item : items) {
    const int64_t step = item.alignment * unit_bytes;
    const int64_t below = item.fixed >= 0       ? item.fixed * unit_bytes
                          : height < item.bytes ? 0
                                                : (height - item.bytes) / step * step + step;
    if (below + item.bytes > height) next = std::min(next, below + item.bytes);
  }
  return next;
}

std::optional<SearchProblem> MakeSearchProblem(std::span<const Buffer> buffers) {
  SearchProblem problem;
  if (buffers.empty()) return problem;
  if (!Scale(buffers, problem)) return std::nullopt;
  AddSections(buffers, problem);
  if (!AddMembers(problem)) return std::nullopt;
  AddNeighbors(problem);
  AddObstacles(problem);
  return problem;
}

}  // namespace coppice::internal
