// Greedy placement in a few orders. Time is compressed to the sections between lifetime events, in
// which nothing begins or ends; sizes are rounded up to the alignment that all buffers share.

#include "coppice/allocator/planner.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <numeric>
#include <tuple>
#include <utility>
#include <vector>

#include "coppice/base/status.h"
#include "coppice/base/units.h"

namespace coppice {
namespace {

// Sections [lower, upper).
struct Span {
  int32_t lower = 0;
  int32_t upper = 0;
};

struct Item {
  const Buffer* buffer = nullptr;
  absl::InlinedVector<Span, 1> spans;  // The lifetime; sorted, disjoint.
  int64_t extent = 0;                  // Bytes, rounded up to the common alignment.
  double area = 0;                     // Bytes x steps.
  int64_t steps = 0;                   // Length of the lifetime.
  int64_t contention = 0;              // Most bytes live at once during the lifetime.
  int32_t fullest = 0;                 // The first section with so many.
};

struct Problem {
  std::vector<Item> items;  // One per buffer, same order.
  int64_t peak = 0;         // Most bytes live at once, rounded sizes: the lowest reachable height.
};

std::vector<int64_t> SectionBounds(std::span<const Buffer> buffers) {
  std::vector<int64_t> bounds;
  bounds.reserve(2 * buffers.size());
  for (const Buffer& buffer : buffers) {
    for (const Interval& interval : buffer.lifetime) {
      bounds.push_back(interval.lower);
      bounds.push_back(interval.upper);
    }
  }
  std::sort(bounds.begin(), bounds.end());
  bounds.erase(std::unique(bounds.begin(), bounds.end()), bounds.end());
  return bounds;
}

std::vector<Item> MakeItems(std::span<const Buffer> buffers, const std::vector<int64_t>& bounds) {
  int64_t common_alignment = buffers.front().alignment;
  for (const Buffer& buffer : buffers)
    common_alignment = std::min(common_alignment, buffer.alignment);
  const auto section = [&bounds](int64_t step) {
    const auto bound = std::lower_bound(bounds.begin(), bounds.end(), step);
    return static_cast<int32_t>(bound - bounds.begin());
  };
  std::vector<Item> items(buffers.size());
  for (size_t i = 0; i < buffers.size(); ++i) {
    Item& item = items[i];
    item.buffer = &buffers[i];
    item.extent = AlignUp(buffers[i].bytes, common_alignment);
    for (const Interval& interval : buffers[i].lifetime) {
      item.spans.push_back({section(interval.lower), section(interval.upper)});
      item.steps += interval.upper - interval.lower;
    }
    item.area = static_cast<double>(buffers[i].bytes) * static_cast<double>(item.steps);
  }
  return items;
}

Problem MakeProblem(std::span<const Buffer> buffers) {
  const std::vector<int64_t> bounds = SectionBounds(buffers);
  Problem problem{.items = MakeItems(buffers, bounds)};
  std::vector<int64_t> live(bounds.size());  // Bytes per section, first as differences.
  for (const Item& item : problem.items) {
    for (const Span& span : item.spans) {
      live[static_cast<size_t>(span.lower)] += item.extent;
      live[static_cast<size_t>(span.upper)] -= item.extent;
    }
  }
  std::partial_sum(live.begin(), live.end(), live.begin());
  for (Item& item : problem.items) {
    for (const Span& span : item.spans) {
      const auto most = std::max_element(live.begin() + span.lower, live.begin() + span.upper);
      if (*most <= item.contention) continue;
      item.contention = *most;
      item.fullest = static_cast<int32_t>(most - live.begin());
    }
    problem.peak = std::max(problem.peak, item.contention);
  }
  return problem;
}

using Precedes = bool (*)(const Item& a, const Item& b);

bool LargerFirst(const Item& a, const Item& b) {
  return a.extent > b.extent;
}

bool MoreContendedFirst(const Item& a, const Item& b) {
  return std::tie(a.contention, a.area, a.steps) > std::tie(b.contention, b.area, b.steps);
}

bool LargerAreaFirst(const Item& a, const Item& b) {
  return a.area > b.area;
}

// A buffer is placed with the fullest section that it lives in.
bool FullerSectionFirst(const Item& a, const Item& b) {
  return std::tie(a.contention, b.fullest, a.extent) > std::tie(b.contention, a.fullest, b.extent);
}

enum class Fit : uint8_t { kFirst, kBest };

struct Method {
  const char* name;
  Precedes precedes;
  Fit fit;
};

constexpr std::array kMethods = {
    Method{"size", LargerFirst, Fit::kFirst},
    Method{"contention", MoreContendedFirst, Fit::kFirst},
    Method{"area", LargerAreaFirst, Fit::kFirst},
    Method{"breadth", FullerSectionFirst, Fit::kFirst},
    Method{"size, best fit", LargerFirst, Fit::kBest},
    Method{"contention, best fit", MoreContendedFirst, Fit::kBest},
    Method{"area, best fit", LargerAreaFirst, Fit::kBest},
    Method{"breadth, best fit", FullerSectionFirst, Fit::kBest},
};

// The placed buffers in order of their offsets.
//
// Most lifetimes are short, and few of the placed buffers live at the same time. So there is a list
// for each window of time, windows overlap by half, and a buffer that is no longer than half a
// window looks only at the one that it lies in.
class Layout {
 public:
  explicit Layout(const std::vector<Item>& items) {
    int64_t total = 0;
    int32_t sections = 0;
    for (const Item& item : items) {
      total += HullOf(item).upper - HullOf(item).lower;
      sections = std::max(sections, HullOf(item).upper);
    }
    stride_ = static_cast<int32_t>(2 * CeilDivide(total, static_cast<int64_t>(items.size())));
    windows_.resize(static_cast<size_t>(sections / stride_) + 1);
  }

  void Insert(const Item& item, int64_t offset) {
    const Placed placed{
        .offset = offset, .end = offset + item.extent, .hull = HullOf(item), .item = &item};
    InsertInto(all_, placed);
    for (int32_t i = std::max(placed.hull.lower / stride_ - 1, 0);
         i <= (placed.hull.upper - 1) / stride_; ++i)
      InsertInto(windows_[static_cast<size_t>(i)], placed);
  }

  // The lowest offset (kFirst), or the lowest of the tightest holes (kBest), where `item` meets
  // nothing that lives at the same time.
  int64_t FindOffset(const Item& item, Fit fit) const {
    const Span hull = HullOf(item);
    int64_t lowest = 0;  // Everything that lives with `item` and was passed ends at or below this.
    int64_t best = -1;
    int64_t best_slack = std::numeric_limits<int64_t>::max();
    for (const Placed& placed : PlacedAround(hull)) {
      if (placed.hull.lower >= hull.upper || placed.hull.upper <= hull.lower) continue;
      if (!LiveTogether(item, *placed.item)) continue;
      const int64_t slack = placed.offset - lowest - item.extent;
      if (slack >= 0 && slack < best_slack) {
        best = lowest;
        best_slack = slack;
        if (fit == Fit::kFirst) break;
      }
      if (placed.end > lowest) lowest = AlignUp(placed.end, item.buffer->alignment);
    }
    return best >= 0 ? best : lowest;
  }

 private:
  struct Placed {
    int64_t offset = 0;
    int64_t end = 0;
    Span hull;
    const Item* item = nullptr;
  };

  // From the first section of the lifetime to the last: rules most buffers out.
  static Span HullOf(const Item& item) {
    return {item.spans.front().lower, item.spans.back().upper};
  }

  static bool LiveTogether(const Item& a, const Item& b) {
    for (const Span& x : a.spans)
      for (const Span& y : b.spans)
        if (x.lower < y.upper && y.lower < x.upper) return true;
    return false;
  }

  static void InsertInto(std::vector<Placed>& list, const Placed& placed) {
    const auto above =
        std::upper_bound(list.begin(), list.end(), placed.offset,
                         [](int64_t offset, const Placed& other) { return offset < other.offset; });
    list.insert(above, placed);
  }

  const std::vector<Placed>& PlacedAround(const Span& hull) const {
    const int32_t window = hull.lower / stride_;
    const bool inside = hull.upper <= (window + 2) * stride_;
    return inside ? windows_[static_cast<size_t>(window)] : all_;
  }

  int32_t stride_ = 1;                        // Half of a window's sections.
  std::vector<std::vector<Placed>> windows_;  // Number i: sections [i, i + 2) * stride_.
  std::vector<Placed> all_;
};

Plan PlaceInOrder(const Problem& problem, const Method& method) {
  const size_t count = problem.items.size();
  Plan plan{.offsets = std::vector<int64_t>(count)};
  Layout layout(problem.items);
  const auto place = [&](size_t i, int64_t offset) {
    layout.Insert(problem.items[i], offset);
    plan.offsets[i] = offset;
    plan.height = std::max(plan.height, offset + problem.items[i].buffer->bytes);
  };
  std::vector<size_t> order;
  order.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    const std::optional<int64_t>& fixed = problem.items[i].buffer->fixed_offset;
    if (fixed) {
      place(i, *fixed);
    } else {
      order.push_back(i);
    }
  }
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return method.precedes(problem.items[a], problem.items[b]);
  });
  for (const size_t i : order)
    place(i, layout.FindOffset(problem.items[i], method.fit));
  return plan;
}

// The height that no plan can be below, or that is good enough.
int64_t TargetHeight(const Problem& problem, const PlannerOptions& options) {
  int64_t target = std::max(problem.peak, options.height_target);
  for (const Item& item : problem.items) {
    if (item.buffer->fixed_offset)
      target = std::max(target, *item.buffer->fixed_offset + item.buffer->bytes);
  }
  return target;
}

}  // namespace

absl::StatusOr<PlannerResult> PlanBuffers(std::span<const Buffer> buffers,
                                          const PlannerOptions& options) {
  COPPICE_RETURN_IF_ERROR(ValidateBuffers(buffers));
  PlannerResult result;
  result.method = "empty";
  if (buffers.empty()) return result;
  const Problem problem = MakeProblem(buffers);
  const int64_t target = TargetHeight(problem, options);
  result.bound = MaxLiveBytes(buffers);
  for (const Method& method : kMethods) {
    Plan plan = PlaceInOrder(problem, method);
    if (result.plan.offsets.empty() || plan.height < result.plan.height) {
      result.plan = std::move(plan);
      result.method = method.name;
    }
    if (result.plan.height <= target) break;
  }
  // What is placed here never overlaps; two fixed buffers may.
  COPPICE_RETURN_IF_ERROR(ValidatePlan(buffers, result.plan));
  return result;
}

}  // namespace coppice
