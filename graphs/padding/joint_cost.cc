// A grid of corners, made monotone, and planes between them.

#include "coppice/padding/joint_cost.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "coppice/base/status.h"

namespace coppice {
namespace {

// Where an extent lies among those of rows: between `low` and the next, by `share`, or, with a
// factor above 1, beyond the last.
struct Place {
  size_t low = 0;
  size_t high = 0;
  double share = 0;
  double factor = 1;
};

Place PlaceOf(const std::vector<int64_t>& extents, int64_t extent) {
  const auto above = std::lower_bound(extents.begin(), extents.end(), extent);
  if (above == extents.begin()) return {};
  const auto high = static_cast<size_t>(above - extents.begin());
  const auto last = static_cast<double>(extents.back());
  if (above == extents.end())
    return {.low = high - 1,
            .high = high - 1,
            .factor = last > 0 ? static_cast<double>(extent) / last : 1};
  return {.low = high - 1,
          .high = high,
          .share = static_cast<double>(extent - extents[high - 1]) /
                   static_cast<double>(extents[high] - extents[high - 1])};
}

class Table {
 public:
  Table(std::vector<int64_t> a, std::vector<int64_t> b)
      : a_(std::move(a)), b_(std::move(b)), costs_(a_.size() * b_.size()) {}

  size_t size() const { return costs_.size(); }
  size_t IndexOf(JointSize size) const {
    const auto at = [](const std::vector<int64_t>& extents, int64_t extent) {
      return static_cast<size_t>(std::lower_bound(extents.begin(), extents.end(), extent) -
                                 extents.begin());
    };
    return at(a_, size.a) * b_.size() + at(b_, size.b);
  }
  JointSize SizeAt(size_t index) const {
    return {.a = a_[index / b_.size()], .b = b_[index % b_.size()]};
  }
  double& At(size_t index) { return costs_[index]; }

  void Smooth() {
    std::vector<double> above = costs_;
    std::vector<double> below = costs_;
    const size_t columns = b_.size();
    for (size_t i = 0; i < costs_.size(); ++i) {
      if (i >= columns) above[i] = std::max(above[i], above[i - columns]);
      if (i % columns > 0) above[i] = std::max(above[i], above[i - 1]);
    }
    for (size_t i = costs_.size(); i-- > 0;) {
      if (i + columns < costs_.size()) below[i] = std::min(below[i], below[i + columns]);
      if (i % columns + 1 < columns) below[i] = std::min(below[i], below[i + 1]);
    }
    for (size_t i = 0; i < costs_.size(); ++i)
      costs_[i] = above[i] / 2 + below[i] / 2;
  }

  double operator()(JointSize size) const {
    const Place a = PlaceOf(a_, size.a);
    const Place b = PlaceOf(b_, size.b);
    const auto along = [&](size_t row) {
      const double* costs = &costs_[row * b_.size()];
      return std::lerp(costs[b.low], costs[b.high], b.share);
    };
    return std::lerp(along(a.low), along(a.high), a.share) * a.factor * b.factor;
  }

 private:
  std::vector<int64_t> a_;
  std::vector<int64_t> b_;
  std::vector<double> costs_;  // By a, then b.
};

void SortOnce(std::vector<int64_t>& extents) {
  std::sort(extents.begin(), extents.end());
  extents.erase(std::unique(extents.begin(), extents.end()), extents.end());
}

}  // namespace

absl::StatusOr<JointCost> JointCostTable(std::span<const JointCostRow> rows) {
  std::vector<int64_t> a;
  std::vector<int64_t> b;
  double most = 0;
  for (const JointCostRow& row : rows) {
    if (row.size.a < 0 || row.size.b < 0)
      return InvalidArgument("JointCostTable: size {}x{} is below 0; give sizes of 0 or more",
                             row.size.a, row.size.b);
    if (!(row.cost >= 0 && std::isfinite(row.cost)))
      return InvalidArgument("JointCostTable: size {}x{} costs {}; give a cost of 0 or more",
                             row.size.a, row.size.b, row.cost);
    most = std::max(most, row.cost);
    a.push_back(row.size.a);
    b.push_back(row.size.b);
  }
  if (most == 0)
    return InvalidArgument("JointCostTable: all costs are 0; give at least one cost above 0");
  SortOnce(a);
  SortOnce(b);
  // Before a grid of them is made: so many pairs are not there.
  if (a.size() > rows.size() || b.size() > rows.size() / a.size())
    return InvalidArgument(
        "JointCostTable: {} rows for {} x {} extents; give a row for each pair of extents",
        rows.size(), a.size(), b.size());
  Table table(std::move(a), std::move(b));
  std::vector<double> counts(table.size());
  for (const JointCostRow& row : rows)
    ++counts[table.IndexOf(row.size)];
  for (size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] == 0)
      return InvalidArgument(
          "JointCostTable: there is no row for {}x{}; give a row for each pair of extents",
          table.SizeAt(i).a, table.SizeAt(i).b);
  }
  for (const JointCostRow& row : rows) {
    const size_t index = table.IndexOf(row.size);
    table.At(index) += row.cost / counts[index];
  }
  table.Smooth();
  return JointCost(std::move(table));
}

}  // namespace coppice
