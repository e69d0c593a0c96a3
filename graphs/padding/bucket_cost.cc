// Costs out of measurements: the nearest non-decreasing table, and the line between its rows.

#include "coppice/padding/bucket_cost.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "coppice/base/status.h"

namespace coppice {
namespace {

// Neighbours that share a cost.
struct Pool {
  double sum = 0;
  double rows = 0;
  size_t sizes = 0;

  double mean() const { return sum / rows; }
};

// Merges pools from the end until their means rise.
void Settle(std::vector<Pool>& pools) {
  while (pools.size() > 1 && pools[pools.size() - 2].mean() > pools.back().mean()) {
    const Pool last = pools.back();
    pools.pop_back();
    pools.back().sum += last.sum;
    pools.back().rows += last.rows;
    pools.back().sizes += last.sizes;
  }
}

// Sorted rows, several of a size allowed, as one row per size of which none is below the one ahead.
std::vector<CostRow> NonDecreasing(const std::vector<CostRow>& rows) {
  std::vector<CostRow> table;
  std::vector<Pool> pools;
  for (size_t first = 0; first < rows.size();) {
    Pool one = {.sizes = 1};
    size_t row = first;
    for (; row < rows.size() && rows[row].size == rows[first].size; ++row) {
      one.sum += rows[row].cost;
      one.rows += 1;
    }
    table.push_back({.size = rows[first].size});
    pools.push_back(one);
    Settle(pools);
    first = row;
  }
  size_t at = 0;
  for (const Pool& pool : pools) {
    for (size_t i = 0; i < pool.sizes; ++i)
      table[at++].cost = pool.mean();
  }
  return table;
}

double CostIn(const std::vector<CostRow>& table, int64_t size) {
  const auto above =
      std::lower_bound(table.begin(), table.end(), size,
                       [](const CostRow& row, int64_t wanted) { return row.size < wanted; });
  if (above == table.begin()) return above->cost;
  const CostRow& below = *(above - 1);
  if (above == table.end()) {
    if (below.size == 0) return below.cost;
    return below.cost * (static_cast<double>(size) / static_cast<double>(below.size));
  }
  const double part =
      static_cast<double>(size - below.size) / static_cast<double>(above->size - below.size);
  return std::min(above->cost, below.cost + part * (above->cost - below.cost));
}

}  // namespace

absl::StatusOr<BucketCost> CostTable(std::span<const CostRow> rows) {
  if (rows.empty()) return InvalidArgument("CostTable: there are no rows");
  bool any = false;
  for (const CostRow& row : rows) {
    if (row.size < 0) return InvalidArgument("CostTable: size {} is below 0", row.size);
    if (!(row.cost >= 0 && std::isfinite(row.cost)))
      return InvalidArgument("CostTable: size {} costs {}; give a cost of 0 or more", row.size,
                             row.cost);
    any = any || row.cost > 0;
  }
  if (!any) return InvalidArgument("CostTable: all costs are 0; give at least one cost above 0");
  std::vector<CostRow> sorted(rows.begin(), rows.end());
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const CostRow& a, const CostRow& b) { return a.size < b.size; });
  return BucketCost([table = NonDecreasing(sorted)](int64_t size) { return CostIn(table, size); });
}

}  // namespace coppice
