// A sweep over each lane's addresses that knows how many buckets, and the sum of which, use a byte.

#include "tools/prof/address_use.h"

#include <algorithm>
#include <tuple>

namespace coppice {
namespace {

// A bucket's use of the window begins or ends.
struct Edge {
  int64_t address = 0;
  bool begins = false;
  size_t bucket = 0;
};

// Hands each stretch that exactly one bucket uses to that bucket.
void Sweep(std::vector<Edge>& edges, std::vector<AddressUse>& uses) {
  std::sort(edges.begin(), edges.end(), [](const Edge& a, const Edge& b) {
    return std::tie(a.address, a.begins, a.bucket) < std::tie(b.address, b.begins, b.bucket);
  });
  int64_t count = 0;
  size_t sum = 0;  // Of the buckets in use here: where there is one, it is that one.
  int64_t from = 0;
  for (const Edge& edge : edges) {
    if (count == 1 && edge.address > from) uses[sum].exclusive.push_back({from, edge.address});
    count += edge.begins ? 1 : -1;
    sum += edge.begins ? edge.bucket : size_t{0} - edge.bucket;
    from = edge.address;
  }
}

int64_t BytesOf(const std::vector<AddressRange>& ranges) {
  int64_t bytes = 0;
  for (const AddressRange& range : ranges)
    bytes += range.bytes();
  return bytes;
}

}  // namespace

std::vector<AddressRange> AddressUse::Shared() const {
  std::vector<AddressRange> shared;
  auto alone = exclusive.begin();
  for (const AddressRange& range : used) {
    int64_t from = range.begin;
    for (; alone != exclusive.end() && alone->begin < range.end; ++alone) {
      if (alone->begin > from) shared.push_back({from, alone->begin});
      from = alone->end;
    }
    if (from < range.end) shared.push_back({from, range.end});
  }
  return shared;
}

std::vector<AddressUse> FindAddressUse(const PoolTrace& trace) {
  std::vector<AddressUse> uses(trace.buckets.size());
  for (const TracedNode& node : trace.nodes) {
    std::vector<AddressRange>& used = uses[static_cast<size_t>(node.bucket)].used;
    const std::vector<AddressRange> footprint = FootprintOf(node);
    used.insert(used.end(), footprint.begin(), footprint.end());
  }
  std::vector<std::vector<Edge>> edges(static_cast<size_t>(trace.lanes));
  for (size_t i = 0; i < uses.size(); ++i) {
    Normalize(uses[i].used);
    for (const AddressRange& range : uses[i].used) {
      for (const bool begins : {true, false}) {
        edges[static_cast<size_t>(trace.buckets[i].lane)].push_back(
            {.address = begins ? range.begin : range.end, .begins = begins, .bucket = i});
      }
    }
  }
  for (std::vector<Edge>& lane : edges)
    Sweep(lane, uses);
  for (AddressUse& use : uses) {
    Normalize(use.exclusive);
    use.used_bytes = BytesOf(use.used);
    use.exclusive_bytes = BytesOf(use.exclusive);
  }
  return uses;
}

}  // namespace coppice
