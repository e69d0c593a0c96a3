// The definition of a correct plan, checked two ways: by a sweep over sequential steps, and by
// reachability where a graph orders its steps only in part.

#include "coppice/allocator/plan.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <tuple>

#include "coppice/base/status.h"

namespace coppice {
namespace {

// A lifetime begins or ends at `step`. Ends sort first: a buffer that ends where another begins
// does not meet it.
struct Change {
  int64_t step = 0;
  bool begins = false;
  size_t buffer = 0;

  friend bool operator<(const Change& a, const Change& b) {
    return std::tie(a.step, a.begins, a.buffer) < std::tie(b.step, b.begins, b.buffer);
  }
};

std::vector<Change> SortedChanges(std::span<const Buffer> buffers) {
  std::vector<Change> changes;
  changes.reserve(2 * buffers.size());
  for (size_t i = 0; i < buffers.size(); ++i) {
    for (const Interval& interval : buffers[i].lifetime) {
      changes.push_back({interval.lower, true, i});
      changes.push_back({interval.upper, false, i});
    }
  }
  std::sort(changes.begin(), changes.end());
  return changes;
}

absl::Status ValidateBuffer(const Buffer& buffer, size_t index) {
  if (buffer.bytes < 1) {
    return InvalidArgument("ValidateBuffers: buffer {} has {} bytes; give at least 1", index,
                           buffer.bytes);
  }
  if (!IsPowerOfTwo(buffer.alignment)) {
    return InvalidArgument("ValidateBuffers: buffer {} has alignment {}; use a power of two", index,
                           buffer.alignment);
  }
  if (buffer.fixed_offset &&
      (*buffer.fixed_offset < 0 || *buffer.fixed_offset % buffer.alignment != 0)) {
    return InvalidArgument(
        "ValidateBuffers: buffer {} is fixed at offset {}; use a non-negative multiple of its "
        "alignment {}",
        index, *buffer.fixed_offset, buffer.alignment);
  }
  if (buffer.lifetime.empty())
    return InvalidArgument("ValidateBuffers: buffer {} has no lifetime; give an interval", index);
  int64_t step = 0;
  for (const Interval& interval : buffer.lifetime) {
    if (interval.lower < step || interval.upper <= interval.lower) {
      return InvalidArgument(
          "ValidateBuffers: buffer {} has the interval [{}, {}), which must not be empty or begin "
          "before step {}; list disjoint intervals in order",
          index, interval.lower, interval.upper, step);
    }
    step = interval.upper;
  }
  return absl::OkStatus();
}

// The group of each buffer, named by the member that begins its chain; empty if no buffer is in a
// group of several.
using Groups = std::vector<size_t>;

bool SameGroup(const Groups& groups, size_t a, size_t b) {
  return !groups.empty() && groups[a] == groups[b];
}

absl::StatusOr<Groups> GroupsOf(std::span<const Buffer> buffers) {
  const auto alone = [](const Buffer& buffer) { return !buffer.in_place_with; };
  if (std::all_of(buffers.begin(), buffers.end(), alone)) return Groups();
  const size_t unknown = buffers.size();
  Groups groups(buffers.size(), unknown);
  std::vector<size_t> chain;
  for (size_t i = 0; i < buffers.size(); ++i) {
    chain.clear();
    size_t at = i;
    for (; groups[at] == unknown && !alone(buffers[at]); at = *buffers[at].in_place_with) {
      if (*buffers[at].in_place_with >= buffers.size() || chain.size() == buffers.size()) {
        return InvalidArgument(
            "ValidateBuffers: in_place_with of buffer {} is {}, which does not exist or closes a "
            "cycle; name one of the {} buffers that does not form a cycle",
            at, *buffers[at].in_place_with, buffers.size());
      }
      chain.push_back(at);
    }
    if (groups[at] == unknown) groups[at] = at;
    for (const size_t member : chain)
      groups[member] = groups[at];
  }
  return groups;
}

// One offset fixes a whole group.
absl::Status ValidateGroups(std::span<const Buffer> buffers) {
  COPPICE_ASSIGN_OR_RETURN(const Groups groups, GroupsOf(buffers));
  std::vector<std::optional<size_t>> fixed(groups.size());  // A fixed member of each group.
  for (size_t i = 0; i < groups.size(); ++i)
    if (buffers[i].fixed_offset && !fixed[groups[i]]) fixed[groups[i]] = i;
  for (size_t i = 0; i < groups.size(); ++i) {
    if (!fixed[groups[i]]) continue;
    const int64_t offset = *buffers[*fixed[groups[i]]].fixed_offset;
    if (buffers[i].fixed_offset.value_or(offset) != offset || offset % buffers[i].alignment != 0) {
      return InvalidArgument(
          "ValidateBuffers: buffer {}, aligned to {}, must begin at the offset of buffer {}, which "
          "is fixed at {}; fix both at the same multiple of both alignments",
          i, buffers[i].alignment, *fixed[groups[i]], offset);
    }
  }
  return absl::OkStatus();
}

// All that can be said of one buffer's place without regard to time, and the height.
absl::Status ValidateOffsets(std::span<const Buffer> buffers, const Plan& plan) {
  if (plan.offsets.size() != buffers.size()) {
    return InvalidArgument("ValidatePlan: {} offsets for {} buffers; give one offset per buffer",
                           plan.offsets.size(), buffers.size());
  }
  int64_t height = 0;
  for (size_t i = 0; i < buffers.size(); ++i) {
    const Buffer& buffer = buffers[i];
    const int64_t offset = plan.offsets[i];
    if (offset < 0 || offset % buffer.alignment != 0 || offset > INT64_MAX - buffer.bytes) {
      return InvalidArgument(
          "ValidatePlan: buffer {} of {} bytes lies at offset {}; use a non-negative multiple of "
          "its alignment {}",
          i, buffer.bytes, offset, buffer.alignment);
    }
    if (buffer.fixed_offset && offset != *buffer.fixed_offset) {
      return InvalidArgument("ValidatePlan: buffer {} lies at offset {}, but it is fixed at {}", i,
                             offset, *buffer.fixed_offset);
    }
    if (buffer.in_place_with && offset != plan.offsets[*buffer.in_place_with]) {
      return InvalidArgument(
          "ValidatePlan: buffer {} lies at offset {}, but it must begin at the offset of buffer "
          "{}, which is {}",
          i, offset, *buffer.in_place_with, plan.offsets[*buffer.in_place_with]);
    }
    height = std::max(height, offset + buffer.bytes);
  }
  if (plan.height != height) {
    return InvalidArgument(
        "ValidatePlan: the height is {} bytes, but the highest buffer ends at {}", plan.height,
        height);
  }
  return absl::OkStatus();
}

absl::Status OverlapError(size_t a, size_t b, int64_t step) {
  return InvalidArgument("ValidatePlan: buffers {} and {} share bytes at step {}; move one of them",
                         std::min(a, b), std::max(a, b), step);
}

// Sweeps over time with the live buffers in address order, where only neighbours can meet: at one
// offset lies one group, its largest member last.
absl::Status ValidateSequential(std::span<const Buffer> buffers,
                                const Plan& plan,
                                const Groups& groups) {
  struct Live {
    int64_t offset = 0;
    int64_t bytes = 0;
    size_t buffer = 0;
    bool operator<(const Live& other) const {
      return std::tie(offset, bytes, buffer) < std::tie(other.offset, other.bytes, other.buffer);
    }
  };
  std::set<Live> live;
  for (const Change& change : SortedChanges(buffers)) {
    const Live here{plan.offsets[change.buffer], buffers[change.buffer].bytes, change.buffer};
    if (!change.begins) {
      live.erase(here);
      continue;
    }
    auto above = live.lower_bound({.offset = here.offset});
    if (above != live.begin()) {
      const auto below = std::prev(above);
      if (below->offset + below->bytes > here.offset)
        return OverlapError(below->buffer, change.buffer, change.step);
    }
    if (above != live.end() && above->offset == here.offset &&
        SameGroup(groups, above->buffer, change.buffer)) {
      above = live.lower_bound({.offset = here.offset + 1});
    }
    if (above != live.end() && above->offset < here.offset + here.bytes)
      return OverlapError(above->buffer, change.buffer, change.step);
    live.insert(above, here);
  }
  return absl::OkStatus();
}

// A set of steps, one bit each.
using StepSet = std::span<uint64_t>;
using ConstStepSet = std::span<const uint64_t>;

// Sets of the steps of one order, in one piece.
class StepSets {
 public:
  StepSets(size_t count, const StepOrder& order)
      : words_(static_cast<size_t>(CeilDivide(order.step_count, 64))), bits_(count * words_) {}

  StepSet operator[](size_t i) { return std::span(bits_).subspan(i * words_, words_); }
  ConstStepSet operator[](size_t i) const { return std::span(bits_).subspan(i * words_, words_); }

 private:
  size_t words_;
  std::vector<uint64_t> bits_;
};

void Insert(StepSet set, int64_t step) {
  set[static_cast<size_t>(step) / 64] |= uint64_t{1} << (step % 64);
}

bool Contains(ConstStepSet set, int64_t step) {
  return (set[static_cast<size_t>(step) / 64] >> (step % 64) & 1) != 0;
}

bool IsSubset(ConstStepSet inner, ConstStepSet outer) {
  for (size_t word = 0; word < inner.size(); ++word)
    if ((inner[word] & ~outer[word]) != 0) return false;
  return true;
}

absl::Status ValidateOrder(const StepOrder& order) {
  if (order.step_count < 0) {
    return InvalidArgument("StepOrder: {} steps; the count must not be negative", order.step_count);
  }
  for (const auto& [from, to] : order.edges) {
    if (std::min(from, to) < 0 || std::max(from, to) >= order.step_count) {
      return InvalidArgument("StepOrder: the edge {} -> {} is outside the steps [0, {})", from, to,
                             order.step_count);
    }
  }
  return absl::OkStatus();
}

absl::Status ValidateSteps(std::span<const Buffer> buffers, const StepOrder& order) {
  for (size_t i = 0; i < buffers.size(); ++i) {
    const int64_t upper = buffers[i].lifetime.back().upper;
    if (upper > order.step_count) {
      return InvalidArgument(
          "StepOrder: buffer {} lives until step {}, but the number of steps is {}", i, upper,
          order.step_count);
    }
  }
  return absl::OkStatus();
}

// For each step the steps after it along the edges, itself excluded. Requires: a valid order.
absl::StatusOr<StepSets> StepsAfterEach(const StepOrder& order) {
  const size_t count = static_cast<size_t>(order.step_count);
  std::vector<std::pair<int64_t, int64_t>> edges = order.edges;
  std::sort(edges.begin(), edges.end());
  std::vector<size_t> first(count + 1);  // Of the edges from each step.
  std::vector<int64_t> blockers(count);
  for (const auto& [from, to] : edges) {
    ++first[static_cast<size_t>(from) + 1];
    ++blockers[static_cast<size_t>(to)];
  }
  std::partial_sum(first.begin(), first.end(), first.begin());
  const auto edges_from = [&](size_t step) {
    return std::span(edges).subspan(first[step], first[step + 1] - first[step]);
  };
  std::vector<size_t> sorted;
  sorted.reserve(count);
  for (size_t step = 0; step < count; ++step)
    if (blockers[step] == 0) sorted.push_back(step);
  for (size_t done = 0; done < sorted.size(); ++done)
    for (const auto& [from, to] : edges_from(sorted[done]))
      if (--blockers[static_cast<size_t>(to)] == 0) sorted.push_back(static_cast<size_t>(to));
  if (sorted.size() < count) {
    const auto stuck = std::find_if(blockers.begin(), blockers.end(), [](int64_t n) { return n; });
    return InvalidArgument(
        "StepOrder: step {} is on a cycle of edges or follows one; remove the cycle",
        stuck - blockers.begin());
  }
  StepSets after(count, order);
  for (size_t i = count; i-- > 0;) {
    const StepSet set = after[sorted[i]];
    for (const auto& [from, to] : edges_from(sorted[i])) {
      const ConstStepSet beyond = after[static_cast<size_t>(to)];
      for (size_t word = 0; word < set.size(); ++word)
        set[word] |= beyond[word];
      Insert(set, to);
    }
  }
  return after;
}

// One buffer's place on the address axis, and in the order of steps.
struct Footprint {
  size_t buffer = 0;
  int64_t lower = 0;
  int64_t upper = 0;
  StepSet uses;   // The steps of its lifetime.
  StepSet after;  // The steps that come after every one of them.

  bool Before(const Footprint& other) const { return IsSubset(other.uses, after); }
};

// `sets` has two for each buffer, empty.
std::vector<Footprint> FootprintsByAddress(std::span<const Buffer> buffers,
                                           const Plan& plan,
                                           const StepSets& after_each,
                                           StepSets& sets) {
  std::vector<Footprint> footprints;
  footprints.reserve(buffers.size());
  for (size_t i = 0; i < buffers.size(); ++i) {
    Footprint footprint;
    footprint.buffer = i;
    footprint.lower = plan.offsets[i];
    footprint.upper = plan.offsets[i] + buffers[i].bytes;
    footprint.uses = sets[2 * i];
    footprint.after = sets[2 * i + 1];
    std::ranges::fill(footprint.after, ~uint64_t{0});
    for (const Interval& interval : buffers[i].lifetime) {
      for (int64_t step = interval.lower; step < interval.upper; ++step) {
        Insert(footprint.uses, step);
        const ConstStepSet after = after_each[static_cast<size_t>(step)];
        for (size_t word = 0; word < after.size(); ++word)
          footprint.after[word] &= after[word];
      }
    }
    footprints.push_back(std::move(footprint));
  }
  std::sort(footprints.begin(), footprints.end(), [](const Footprint& a, const Footprint& b) {
    return std::tie(a.lower, a.buffer) < std::tie(b.lower, b.buffer);
  });
  return footprints;
}

// Sweeps over addresses; every pair of different groups that shares a byte must be ordered
// completely. That covers buffers that share a step too: no step comes after itself.
absl::Status ValidateOrdered(std::span<const Buffer> buffers,
                             const Plan& plan,
                             const Groups& groups,
                             const StepOrder& order) {
  COPPICE_RETURN_IF_ERROR(ValidateOrder(order));
  COPPICE_RETURN_IF_ERROR(ValidateSteps(buffers, order));
  COPPICE_ASSIGN_OR_RETURN(const StepSets after_each, StepsAfterEach(order));
  std::vector<const Footprint*> live;
  StepSets sets(2 * buffers.size(), order);
  const std::vector<Footprint> footprints = FootprintsByAddress(buffers, plan, after_each, sets);
  for (const Footprint& footprint : footprints) {
    std::erase_if(live, [&](const Footprint* other) { return other->upper <= footprint.lower; });
    for (const Footprint* other : live) {
      if (SameGroup(groups, footprint.buffer, other->buffer)) continue;
      if (!footprint.Before(*other) && !other->Before(footprint)) {
        return InvalidArgument(
            "ValidatePlan: buffers {} and {} share bytes, but the edges do not put all steps of "
            "one before all steps of the other; move one of them or add edges",
            std::min(footprint.buffer, other->buffer), std::max(footprint.buffer, other->buffer));
      }
    }
    live.push_back(&footprint);
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ValidateBuffers(std::span<const Buffer> buffers) {
  // A plan need never be higher than everything stacked on the highest fixed buffer, each with the
  // worst gap below it; if that fits, no sum of offsets and sizes overflows.
  int64_t stack = 0;
  for (size_t i = 0; i < buffers.size(); ++i) {
    COPPICE_RETURN_IF_ERROR(ValidateBuffer(buffers[i], i));
    stack = std::max(stack, buffers[i].fixed_offset.value_or(0));
  }
  for (size_t i = 0; i < buffers.size(); ++i) {
    const int64_t gap = buffers[i].alignment - 1;
    if (buffers[i].bytes > INT64_MAX - gap || stack > INT64_MAX - gap - buffers[i].bytes) {
      return InvalidArgument(
          "ValidateBuffers: the sum of the sizes overflows at buffer {} of {} bytes, aligned to "
          "{}; it must stay below 2^63 bytes",
          i, buffers[i].bytes, buffers[i].alignment);
    }
    stack += gap + buffers[i].bytes;
  }
  return ValidateGroups(buffers);
}

int64_t MaxLiveBytes(std::span<const Buffer> buffers) {
  const absl::StatusOr<Groups> groups = GroupsOf(buffers);
  COPPICE_CHECK(groups.ok(), "MaxLiveBytes needs valid buffers");
  std::vector<std::multiset<int64_t>> members(groups->size());  // Sizes of the live, per group.
  int64_t live = 0;
  int64_t most = 0;
  for (const Change& change : SortedChanges(buffers)) {
    const int64_t bytes = buffers[change.buffer].bytes;
    if (groups->empty()) {
      live += change.begins ? bytes : -bytes;
    } else {
      std::multiset<int64_t>& sizes = members[(*groups)[change.buffer]];
      live -= sizes.empty() ? 0 : *sizes.rbegin();
      if (change.begins) {
        sizes.insert(bytes);
      } else {
        sizes.erase(sizes.find(bytes));
      }
      live += sizes.empty() ? 0 : *sizes.rbegin();
    }
    most = std::max(most, live);
  }
  return most;
}

absl::Status ValidatePlan(std::span<const Buffer> buffers,
                          const Plan& plan,
                          const StepOrder* order) {
  COPPICE_RETURN_IF_ERROR(ValidateBuffers(buffers));
  COPPICE_RETURN_IF_ERROR(ValidateOffsets(buffers, plan));
  COPPICE_ASSIGN_OR_RETURN(const Groups groups, GroupsOf(buffers));
  return order == nullptr ? ValidateSequential(buffers, plan, groups)
                          : ValidateOrdered(buffers, plan, groups, *order);
}

absl::Status ExtendToJoins(const StepOrder& order, std::vector<Buffer>& buffers) {
  COPPICE_RETURN_IF_ERROR(ValidateBuffers(buffers));
  COPPICE_RETURN_IF_ERROR(ValidateOrder(order));
  COPPICE_RETURN_IF_ERROR(ValidateSteps(buffers, order));
  for (const auto& [from, to] : order.edges) {
    if (from >= to) {
      return InvalidArgument(
          "ExtendToJoins: the edge {} -> {} leads backwards; number steps in a topological order",
          from, to);
    }
  }
  COPPICE_ASSIGN_OR_RETURN(const StepSets after_each, StepsAfterEach(order));
  // joins[s]: the first step after s from which on every step comes after s.
  std::vector<int64_t> joins(static_cast<size_t>(order.step_count));
  for (int64_t step = 0; step < order.step_count; ++step) {
    const size_t i = static_cast<size_t>(step);
    joins[i] = order.step_count;
    while (joins[i] > step + 1 && Contains(after_each[i], joins[i] - 1))
      --joins[i];
  }
  for (Buffer& buffer : buffers) {
    const int64_t lower = buffer.lifetime.front().lower;
    const int64_t upper = buffer.lifetime.back().upper;
    const int64_t join = *std::max_element(joins.begin() + lower, joins.begin() + upper);
    buffer.lifetime = {{lower, std::max(upper, join)}};
  }
  return absl::OkStatus();
}

}  // namespace coppice
