// The search keeps its own stack: a program of thousands of buffers is as many frames deep. What a
// placement changes is undone from logs, never copied.

#include "allocator/planner/plan_search.h"

#include <algorithm>
#include <limits>

#include "coppice/base/units.h"

namespace coppice::internal {
namespace {

constexpr int32_t kPlaced = std::numeric_limits<int32_t>::max();
constexpr int64_t kTriesPerLookAtClock = 16;

// The lowest offset at or above `offset` where the alignment and the fixed neighbors let `item` be.
int32_t LowestFrom(const SearchProblem& problem, int32_t item, int32_t offset) {
  const SearchItem& moved = problem.items[item];
  const auto align = [&](int32_t low) {
    return (low + moved.alignment - 1) / moved.alignment * moved.alignment;
  };
  offset = align(offset);
  if (moved.fixed >= 0) return offset;
  for (const int32_t obstacle : problem.obstacles[item]) {
    const SearchItem& fixed = problem.items[obstacle];
    if (fixed.fixed >= offset + moved.size) break;
    if (fixed.fixed + fixed.size > offset) offset = align(fixed.fixed + fixed.size);
  }
  return offset;
}

bool AreAlike(const SearchProblem& problem, int32_t a, int32_t b) {
  const SearchItem& x = problem.items[a];
  const SearchItem& y = problem.items[b];
  return x.bytes == y.bytes && x.alignment == y.alignment && x.fixed < 0 && y.fixed < 0 &&
         std::ranges::equal(problem.spans[a], problem.spans[b]);
}

// Mixes all bits of an item and its lowest offset: sums of such make a hash.
uint64_t Mix(int32_t item, int32_t low) {
  uint64_t x = static_cast<uint64_t>(item) << 32 | static_cast<uint32_t>(low);
  for (int round = 0; round < 2; ++round)
    x = (x ^ x >> 32) * 0xd6e8feb86659fd93;
  return x ^ x >> 32;
}

}  // namespace

PlanSearch::PlanSearch(const SearchProblem& problem, size_t failures)
    : problem_(problem),
      rank_(problem.items.size()),
      twin_(problem.items.size()),
      highest_(problem.items.size()),
      low_(problem.items.size()),
      bound_(problem.items.size()),
      offsets_(problem.items.size()),
      remaining_(problem.section_count),
      bridges_(problem.section_count),
      witnesses_(problem.section_count),
      scratch_(problem.items.size()),
      failures_(failures) {}

SearchOutcome PlanSearch::Run(int64_t capacity,
                              std::span<const int32_t> order,
                              SearchAllowance& allowance) {
  if (!Begin(capacity, order)) return SearchOutcome::kImpossible;
  while (true) {
    const Frame& last = frames_.back();
    if (pending_.size() == last.pending) {  // All parts are solved.
      frames_.pop_back();
      if (frames_.empty()) return SearchOutcome::kFound;
      continue;
    }
    const Part part = pending_.back();
    pending_.pop_back();
    Enter(part, last.last);
    while (!PlaceNext(frames_.back(), allowance)) {
      if (allowance.IsSpent()) return SearchOutcome::kUndecided;
      const Failure& failure = frames_.back().failure;
      failures_[failure.key % failures_.size()] = failure;
      frames_.pop_back();
      if (frames_.size() == 1) return SearchOutcome::kImpossible;
      Unplace(frames_.back());
    }
  }
}

// False if it is plain that no plan is that low.
bool PlanSearch::Begin(int64_t capacity, std::span<const int32_t> order) {
  const int64_t unit = problem_.unit_bytes;
  if (capacity < 0) return false;
  capacity = std::min(capacity, problem_.stack * unit);
  const int64_t units = AlignUp(capacity, problem_.rounding_bytes) / unit;
  if (problem_.peak > units) return false;
  capacity_ = static_cast<int32_t>(units);
  std::ranges::fill(remaining_, 0);
  std::ranges::fill(bridges_, 0);
  for (int32_t i = 0; i < problem_.count(); ++i) {
    const SearchItem& item = problem_.items[i];
    if (item.bytes > capacity) return false;
    highest_[i] = static_cast<int32_t>((capacity - item.bytes) / unit);
    if (item.fixed > highest_[i]) return false;
    if (item.fixed >= 0) highest_[i] = item.fixed;
    low_[i] = bound_[i] = LowestFrom(problem_, i, std::max(item.fixed, 0));
    if (low_[i] > highest_[i]) return false;
    for (const SectionSpan& span : problem_.spans[i])
      for (int32_t s = span.lower; s < span.upper; ++s)
        remaining_[s] += item.size;
    const SectionSpan hull = problem_.HullOf(i);
    for (int32_t s = hull.lower; s < hull.upper - 1; ++s)
      ++bridges_[s];
    rank_[order[i]] = i;
  }
  FindTwins(order);
  list_.assign(order.begin(), order.end());
  frames_.assign(1, Frame{});
  pending_.clear();
  raises_.clear();
  placed_.clear();
  ++run_;
  AddPending({0, problem_.count(), {0, problem_.section_count}});
  return true;
}

void PlanSearch::FindTwins(std::span<const int32_t> order) {
  for (const int32_t i : order) {
    twin_[i] = -1;
    for (const int32_t other : problem_.members[problem_.spans[i].front().lower]) {
      const bool nearer = twin_[i] < 0 || rank_[other] > rank_[twin_[i]];
      if (rank_[other] < rank_[i] && nearer && AreAlike(problem_, i, other)) twin_[i] = other;
    }
  }
}

void PlanSearch::Enter(const Part& part, Position last) {
  int32_t most = 0;
  for (int32_t s = part.sections.lower; s < part.sections.upper; ++s)
    most = std::max(most, remaining_[s]);
  int32_t limit = capacity_ - most;
  uint64_t key = run_;
  for (int32_t at = part.begin; at < part.end; ++at) {
    const int32_t i = list_[at];
    const SearchItem& item = problem_.items[i];
    limit = std::min(limit, low_[i] + item.size - 1);
    if (item.fixed >= 0) limit = std::min(limit, item.fixed);
    key += Mix(i, low_[i]);
  }
  key *= 0x9e3779b97f4a7c15;
  const Failure& failure = failures_[key % failures_.size()];
  if (failure.key == key && failure.beyond <= last) limit = -1;
  frames_.push_back({.part = part,
                     .last = last,
                     .limit = limit,
                     .failure = {key, last},
                     .raises = raises_.size(),
                     .placed = placed_.size(),
                     .pending = pending_.size()});
}

// Finds the frame's next candidate. False if there is none.
bool PlanSearch::Advance(Frame& frame) const {
  int32_t best = frame.limit + 1;
  int32_t best_at = -1;
  for (int32_t at = frame.part.begin; at < frame.part.end; ++at) {
    const int32_t i = list_[at];
    if (low_[i] >= best || bound_[i] > low_[i] || Position{low_[i], rank_[i]} <= frame.last)
      continue;
    if (twin_[i] >= 0 && low_[twin_[i]] != kPlaced) continue;
    best = low_[i];
    best_at = at;
  }
  if (best_at < 0) return false;
  frame.home = best_at;
  frame.last = {best, rank_[list_[best_at]]};
  return true;
}

// Places the frame's next candidate that is not refuted at once, and adds the parts of the rest to
// those pending. False if there is none, or the allowance is spent.
bool PlanSearch::PlaceNext(Frame& frame, SearchAllowance& allowance) {
  const auto begin = list_.begin() + frame.part.begin;
  const Part rest{frame.part.begin + 1, frame.part.end, frame.part.sections};
  while (Advance(frame)) {
    if (allowance.IsSpent()) return false;
    --allowance.tries;
    if (allowance.deadline && allowance.tries % kTriesPerLookAtClock == 0)
      allowance.late = std::chrono::steady_clock::now() >= *allowance.deadline;
    const auto home = list_.begin() + frame.home;
    std::rotate(begin, home, home + 1);
    const int32_t item = *begin;
    const size_t raises = raises_.size();
    Place(item);
    if (RaiseNeighbors(item) && SectionsFit(raises, frame.last.offset) &&
        RaiseUnsupported(rest, frame.last)) {
      frame.split = AddPending(rest);
      return true;
    }
    Unplace(frame);
  }
  return false;
}

void PlanSearch::Place(int32_t item) {
  offsets_[item] = low_[item];
  placed_.push_back(item);
  raises_.push_back({item, low_[item], bound_[item]});
  low_[item] = bound_[item] = kPlaced;
  const int32_t size = problem_.items[item].size;
  for (const SectionSpan& span : problem_.spans[item])
    for (int32_t s = span.lower; s < span.upper; ++s)
      remaining_[s] -= size;
  const SectionSpan hull = problem_.HullOf(item);
  for (int32_t s = hull.lower; s < hull.upper - 1; ++s)
    --bridges_[s];
}

// Takes back the frame's candidate and all that was placed after it.
void PlanSearch::Unplace(Frame& frame) {
  for (; raises_.size() > frame.raises; raises_.pop_back()) {
    const Raise& raise = raises_.back();
    low_[raise.item] = raise.low;
    bound_[raise.item] = raise.bound;
  }
  for (; placed_.size() > frame.placed; placed_.pop_back()) {
    const int32_t item = placed_.back();
    const int32_t size = problem_.items[item].size;
    for (const SectionSpan& span : problem_.spans[item])
      for (int32_t s = span.lower; s < span.upper; ++s)
        remaining_[s] += size;
    const SectionSpan hull = problem_.HullOf(item);
    for (int32_t s = hull.lower; s < hull.upper - 1; ++s)
      ++bridges_[s];
  }
  pending_.resize(frame.pending);
  const auto begin = list_.begin() + frame.part.begin;
  if (frame.split) {
    std::sort(begin + 1, list_.begin() + frame.part.end,
              [this](int32_t a, int32_t b) { return rank_[a] < rank_[b]; });
    frame.split = false;
  }
  std::rotate(begin, begin + 1, list_.begin() + frame.home + 1);
}

// False if a neighbour cannot lie as high as on top of `item`.
bool PlanSearch::RaiseNeighbors(int32_t item) {
  const int32_t top = offsets_[item] + problem_.items[item].size;
  for (const int32_t neighbor : problem_.neighbors[item]) {
    if (low_[neighbor] >= top) continue;
    raises_.push_back({neighbor, low_[neighbor], bound_[neighbor]});
    low_[neighbor] = LowestFrom(problem_, neighbor, top);
    bound_[neighbor] = std::max(bound_[neighbor], low_[neighbor]);
    if (bound_[neighbor] > highest_[neighbor]) return false;
  }
  return true;
}

bool PlanSearch::RaiseBound(int32_t item, int32_t bound) {
  if (bound <= bound_[item]) return true;
  raises_.push_back({item, low_[item], bound_[item]});
  bound_[item] = LowestFrom(problem_, item, bound);
  return bound_[item] <= highest_[item];
}

// Looks at the items that can no longer be placed where they could lie by what is below them. False
// if nothing to come keeps one of them from dropping there.
bool PlanSearch::RaiseUnsupported(const Part& rest, Position last) {
  const size_t raises = raises_.size();
  for (int32_t at = rest.begin; at < rest.end; ++at) {
    const int32_t item = list_[at];
    if (Position{low_[item], rank_[item]} > last) continue;
    int32_t lowest = kPlaced;
    int32_t top = kPlaced;
    for (const int32_t neighbor : problem_.neighbors[item]) {
      if (low_[neighbor] == kPlaced) continue;
      const int32_t offset = std::max(bound_[neighbor], last.offset);
      lowest = std::min(lowest, offset);
      top = std::min(top, offset + problem_.items[neighbor].size);
    }
    if (lowest >= low_[item] + problem_.items[item].size) return false;
    if (!RaiseBound(item, top)) return false;
  }
  return SectionsFit(raises, last.offset);
}

// Whether what remains of a section fits above its floor.
bool PlanSearch::SectionFits(int32_t section, int32_t floor) {
  const int32_t highest = capacity_ - remaining_[section];
  const auto can_be_lowest = [&](int32_t item) { return bound_[item] <= highest; };
  auto& [first, second] = witnesses_[section];
  if (first != second && can_be_lowest(first) && can_be_lowest(second)) return true;
  const std::span<const int32_t> members = problem_.members[section];
  auto found = std::ranges::find_if(members, can_be_lowest);
  if (found == members.end()) return false;
  first = *found;
  found = std::find_if(found + 1, members.end(), can_be_lowest);
  second = found == members.end() ? first : *found;
  if (second != first) return true;
  const int32_t top = std::max(bound_[first], floor) + problem_.items[first].size;
  return std::ranges::all_of(members,
                             [&](int32_t item) { return item == first || RaiseBound(item, top); });
}

// The same for all sections in which something was raised since there were so many `raises`.
bool PlanSearch::SectionsFit(size_t raises, int32_t floor) {
  while (raises < raises_.size()) {
    SectionSpan hull{problem_.section_count, 0};
    for (; raises < raises_.size(); ++raises) {
      const SectionSpan one = problem_.HullOf(raises_[raises].item);
      hull = {std::min(hull.lower, one.lower), std::max(hull.upper, one.upper)};
    }
    for (int32_t s = hull.lower; s < hull.upper; ++s)
      if (remaining_[s] > 0 && !SectionFits(s, floor)) return false;
  }
  return true;
}

// Adds the parts of `rest` to those pending, the smallest last. False if there is at most one.
bool PlanSearch::AddPending(const Part& rest) {
  if (rest.begin == rest.end) return false;
  const auto bridges = bridges_.begin();
  const auto last = bridges + rest.sections.upper - 1;
  if (std::find(bridges + rest.sections.lower, last, 0) == last) {
    pending_.push_back(rest);
    return false;
  }
  const size_t before = pending_.size();
  std::copy(list_.begin() + rest.begin, list_.begin() + rest.end, scratch_.begin());
  Part part{.begin = rest.begin, .end = rest.begin, .sections = rest.sections};
  while (part.end < rest.end) {
    part.sections.upper =
        static_cast<int32_t>(std::find(bridges + part.sections.lower, last, 0) - bridges) + 1;
    for (int32_t k = 0; k < rest.end - rest.begin; ++k) {
      const int32_t begins = problem_.spans[scratch_[k]].front().lower;
      if (begins >= part.sections.lower && begins < part.sections.upper)
        list_[part.end++] = scratch_[k];
    }
    if (part.begin < part.end) pending_.push_back(part);
    part.begin = part.end;
    part.sections.lower = part.sections.upper;
  }
  std::stable_sort(pending_.begin() + static_cast<ptrdiff_t>(before), pending_.end(),
                   [](const Part& a, const Part& b) { return a.end - a.begin > b.end - b.begin; });
  return pending_.size() > before + 1;
}

}  // namespace coppice::internal
