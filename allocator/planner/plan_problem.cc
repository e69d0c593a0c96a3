// Compression of time and sizes, groups of buffers that begin together, and the sweep for the
// bound.

#include "allocator/planner/plan_problem.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <set>

#include "coppice/base/units.h"

namespace coppice::internal {
namespace {

// From steps to sections.
class SectionMap {
 public:
  explicit SectionMap(std::span<const Buffer> buffers) {
    int64_t last = 0;
    size_t intervals = 0;
    for (const Buffer& buffer : buffers) {
      last = std::max(last, buffer.lifetime.back().upper);
      intervals += buffer.lifetime.size();
    }
    if (last < static_cast<int64_t>(8 * intervals)) {
      FillTable(buffers, static_cast<size_t>(last) + 1);
    } else {
      FillBounds(buffers, intervals);
    }
  }

  int32_t Find(int64_t step) const {
    if (!table_.empty()) return table_[static_cast<size_t>(step)];
    return static_cast<int32_t>(std::lower_bound(bounds_.begin(), bounds_.end(), step) -
                                bounds_.begin());
  }

  int32_t count() const { return count_; }

 private:
  void FillTable(std::span<const Buffer> buffers, size_t steps) {
    table_.resize(steps);
    for (const Buffer& buffer : buffers)
      for (const Interval& interval : buffer.lifetime)
        table_[static_cast<size_t>(interval.lower)] = table_[static_cast<size_t>(interval.upper)] =
            1;
    for (int32_t& entry : table_) {
      const int32_t next = count_ + entry;
      entry = count_;
      count_ = next;
    }
  }

  void FillBounds(std::span<const Buffer> buffers, size_t intervals) {
    bounds_.reserve(2 * intervals);
    for (const Buffer& buffer : buffers) {
      for (const Interval& interval : buffer.lifetime) {
        bounds_.push_back(interval.lower);
        bounds_.push_back(interval.upper);
      }
    }
    std::sort(bounds_.begin(), bounds_.end());
    bounds_.erase(std::unique(bounds_.begin(), bounds_.end()), bounds_.end());
    count_ = static_cast<int32_t>(bounds_.size());
  }

  std::vector<int32_t> table_;  // Per step, where steps are dense.
  std::vector<int64_t> bounds_;
  int32_t count_ = 0;
};

// The buffer that begins the chain of each, itself without one.
std::vector<int32_t> RootOfEach(std::span<const Buffer> buffers) {
  std::vector<int32_t> roots(buffers.size(), -1);
  std::vector<size_t> chain;
  for (size_t i = 0; i < buffers.size(); ++i) {
    chain.clear();
    size_t at = i;
    while (roots[at] < 0 && buffers[at].in_place_with) {
      chain.push_back(at);
      at = *buffers[at].in_place_with;
    }
    if (roots[at] < 0) roots[at] = static_cast<int32_t>(at);
    for (const size_t member : chain)
      roots[member] = roots[at];
  }
  return roots;
}

// The buffers of each item; item i has members[begins[i], begins[i + 1]).
struct Groups {
  std::vector<int32_t> begins;
  std::vector<int32_t> members;
};

// Numbers the items, all but their parts.
Groups GroupBuffers(std::span<const Buffer> buffers, PlanProblem& problem) {
  const std::vector<int32_t> roots = RootOfEach(buffers);
  std::vector<int32_t> item_of_root(buffers.size(), -1);
  problem.items.reserve(buffers.size());
  problem.item_of.reserve(buffers.size());
  Groups groups{.begins = {0}};
  groups.begins.reserve(buffers.size() + 1);
  for (size_t i = 0; i < buffers.size(); ++i) {
    const Buffer& buffer = buffers[i];
    int32_t& index = item_of_root[static_cast<size_t>(roots[i])];
    if (index < 0) {
      index = static_cast<int32_t>(problem.items.size());
      problem.items.emplace_back();
      groups.begins.push_back(0);
    }
    PlanItem& item = problem.items[static_cast<size_t>(index)];
    item.alignment = std::max(item.alignment, buffer.alignment);
    item.low = item.low || buffer.low;
    if (buffer.fixed_offset) item.fixed_offset = buffer.fixed_offset;
    problem.item_of.push_back(index);
    ++groups.begins[static_cast<size_t>(index) + 1];
  }
  std::partial_sum(groups.begins.begin(), groups.begins.end(), groups.begins.begin());
  groups.members.resize(buffers.size());
  std::vector<int32_t> next = groups.begins;
  for (size_t i = 0; i < buffers.size(); ++i)
    groups.members[static_cast<size_t>(next[static_cast<size_t>(problem.item_of[i])]++)] =
        static_cast<int32_t>(i);
  return groups;
}

// Appends the largest of `parts` at each section.
void AppendLargest(const std::vector<PlanPart>& parts, std::vector<PlanPart>& to) {
  struct Event {
    int32_t section;
    int64_t extent;
    bool begins;
  };
  std::vector<Event> events;
  for (const PlanPart& part : parts) {
    events.push_back({part.lower, part.extent, true});
    events.push_back({part.upper, part.extent, false});
  }
  std::sort(events.begin(), events.end(),
            [](const Event& a, const Event& b) { return a.section < b.section; });
  const size_t first = to.size();
  std::multiset<int64_t> live;
  for (size_t i = 0; i < events.size(); ++i) {
    const Event& event = events[i];
    if (event.begins) {
      live.insert(event.extent);
    } else {
      live.erase(live.find(event.extent));
    }
    if (i + 1 == events.size() || events[i + 1].section == event.section || live.empty()) continue;
    const int64_t extent = *live.rbegin();
    if (to.size() > first && to.back().upper == event.section && to.back().extent == extent) {
      to.back().upper = events[i + 1].section;
    } else {
      to.push_back({event.section, events[i + 1].section, extent});
    }
  }
}

// Makes `live` the sums of the parts' extents per section, and returns the largest.
int64_t SumParts(const std::vector<PlanPart>& parts, std::vector<int64_t>& live) {
  std::fill(live.begin(), live.end(), 0);
  for (const PlanPart& part : parts) {
    live[static_cast<size_t>(part.lower)] += part.extent;
    live[static_cast<size_t>(part.upper)] -= part.extent;
  }
  std::partial_sum(live.begin(), live.end(), live.begin());
  return *std::max_element(live.begin(), live.end());
}

// Where the largest of a range of sections is: a tree of maxima.
class FullestSection {
 public:
  explicit FullestSection(const std::vector<int64_t>& live)
      : live_(live), leaves_(std::bit_ceil(live.size())), tree_(2 * leaves_) {
    for (size_t i = 0; i < leaves_; ++i)
      tree_[leaves_ + i] = static_cast<int32_t>(std::min(i, live.size() - 1));
    for (size_t i = leaves_ - 1; i > 0; --i)
      tree_[i] = Fuller(tree_[2 * i], tree_[2 * i + 1]);
  }

  // The first of the fullest in [lower, upper).
  int32_t Find(int32_t lower, int32_t upper) const {
    int32_t fullest = lower;
    size_t i = leaves_ + static_cast<size_t>(lower);
    size_t end = leaves_ + static_cast<size_t>(upper);
    for (; i < end; i /= 2, end /= 2) {
      if (i % 2 == 1) fullest = Fuller(fullest, tree_[i++]);
      if (end % 2 == 1) fullest = Fuller(fullest, tree_[--end]);
    }
    return fullest;
  }

 private:
  int32_t Fuller(int32_t a, int32_t b) const {
    const int64_t in_a = live_[static_cast<size_t>(a)];
    const int64_t in_b = live_[static_cast<size_t>(b)];
    if (in_a != in_b) return in_a > in_b ? a : b;
    return std::min(a, b);
  }

  const std::vector<int64_t>& live_;
  size_t leaves_;
  std::vector<int32_t> tree_;
};

}  // namespace

PlanProblem MakePlanProblem(std::span<const Buffer> buffers) {
  const SectionMap sections(buffers);
  PlanProblem problem;
  const Groups groups = GroupBuffers(buffers, problem);
  problem.parts.reserve(buffers.size());
  std::vector<PlanPart> parts;
  for (size_t i = 0; i < problem.items.size(); ++i) {
    parts.clear();
    for (int32_t k = groups.begins[i]; k < groups.begins[i + 1]; ++k) {
      const Buffer& buffer = buffers[static_cast<size_t>(groups.members[static_cast<size_t>(k)])];
      for (const Interval& interval : buffer.lifetime)
        parts.push_back(
            {sections.Find(interval.lower), sections.Find(interval.upper), buffer.bytes});
    }
    problem.items[i].parts_begin = static_cast<int32_t>(problem.parts.size());
    if (groups.begins[i + 1] - groups.begins[i] == 1) {
      problem.parts.insert(problem.parts.end(), parts.begin(), parts.end());
    } else {
      AppendLargest(parts, problem.parts);
    }
    problem.items[i].parts_end = static_cast<int32_t>(problem.parts.size());
  }
  problem.live.resize(static_cast<size_t>(sections.count()));
  problem.bound = SumParts(problem.parts, problem.live);

  int64_t alignment = buffers.front().alignment;
  for (const Buffer& buffer : buffers)
    alignment = std::min(alignment, buffer.alignment);
  for (PlanItem& item : problem.items) {
    int64_t bytes = 0;
    for (int32_t i = item.parts_begin; i < item.parts_end; ++i) {
      PlanPart& part = problem.parts[static_cast<size_t>(i)];
      bytes = std::max(bytes, part.extent);
      part.extent = AlignUp(part.extent, alignment);
      item.extent = std::max(item.extent, part.extent);
      item.steps += part.upper - part.lower;
      item.area += static_cast<double>(part.extent) * (part.upper - part.lower);
    }
    item.overhang = item.extent - bytes;
  }
  problem.peak = SumParts(problem.parts, problem.live);
  return problem;
}

std::vector<Contention> ContentionOf(const PlanProblem& problem) {
  const FullestSection fullest(problem.live);
  std::vector<Contention> result(problem.items.size());
  for (size_t i = 0; i < result.size(); ++i) {
    for (const PlanPart& part : problem.PartsOf(problem.items[i])) {
      const int32_t section = fullest.Find(part.lower, part.upper);
      const int64_t live = problem.live[static_cast<size_t>(section)];
      if (live > result[i].live) result[i] = {live, section};
    }
  }
  return result;
}

}  // namespace coppice::internal
