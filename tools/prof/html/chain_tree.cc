// Paths: which graphs read what which graphs made, and what each keeps alive.

#include <algorithm>
#include <map>
#include <utility>

#include "absl/container/flat_hash_map.h"

#include "tools/prof/html/report_document.h"

namespace coppice {
namespace {

using Json = nlohmann::ordered_json;

// What a trace says of one graph in its paths.
struct Link {
  int64_t replays = 0;
  int64_t reads = 0;       // Outputs of others that its calls read in place.
  int64_t leases = 0;      // Calls whose outputs somebody kept ...
  int64_t kept_ns = 0;     // ... and for how long, all together.
  int64_t longest_ns = 0;  // The longest of them.
  int64_t around_bytes = 0;
  int64_t output_bytes = 0;
};

int64_t BytesOf(const std::vector<AddressRange>& ranges) {
  int64_t bytes = 0;
  for (const AddressRange& range : ranges)
    bytes = AddUpTo(bytes, range.bytes());
  return bytes;
}

std::vector<Link> LinksOf(const ReportFacts& facts) {
  std::vector<Link> links(facts.trace.nodes.size());
  for (size_t i = 0; i < links.size(); ++i) {
    const TracedNode& node = facts.trace.nodes[i];
    links[i].around_bytes = BytesOf(node.around);
    std::vector<AddressRange> outputs = OutputRangesOf(node);
    Normalize(outputs);
    links[i].output_bytes = BytesOf(outputs);
  }
  for (const ReportCall& call : facts.calls)
    if (call.node >= 0 && call.path == RunKind::kReplay)
      ++links[static_cast<size_t>(call.node)].replays;
  for (const ReportLease& lease : facts.leases) {
    if (lease.node < 0) continue;
    Link& link = links[static_cast<size_t>(lease.node)];
    const int64_t until = lease.until_ns < 0 ? facts.trace.last_ns : lease.until_ns;
    const int64_t kept = std::max<int64_t>(until - lease.from_ns, 0);
    ++link.leases;
    link.kept_ns = AddUpTo(link.kept_ns, kept);
    link.longest_ns = std::max(link.longest_ns, kept);
  }
  return links;
}

// How often calls of a graph read what calls of another made; -1: a run without a graph made it.
std::map<std::pair<int, int>, int64_t> EdgesOf(const ReportFacts& facts) {
  absl::flat_hash_map<std::pair<int, int64_t>, int> nodes;
  if (facts.reads.empty()) return {};
  nodes.reserve(facts.calls.size());
  for (const ReportCall& call : facts.calls)
    nodes[{call.lane, call.call}] = call.node;
  const auto node_of = [&](int lane, int64_t call) {
    const auto found = nodes.find({lane, call});
    return found == nodes.end() ? -1 : found->second;
  };
  std::map<std::pair<int, int>, int64_t> edges;
  for (const ReportUse& read : facts.reads) {
    const int reader = node_of(read.lane, read.call);
    if (reader >= 0) ++edges[{node_of(read.lane, read.maker), reader}];
  }
  return edges;
}

}  // namespace

Json PathsOf(const ReportFacts& facts, const ReportLimits& limits, Json& left_out) {
  std::vector<Link> links = LinksOf(facts);
  const std::map<std::pair<int, int>, int64_t> edges = EdgesOf(facts);
  std::vector<bool> child(links.size());
  for (const auto& [edge, count] : edges) {
    links[static_cast<size_t>(edge.second)].reads += count;
    if (edge.first >= 0 && edge.first != edge.second)
      child[static_cast<size_t>(edge.second)] = true;
  }
  Json graphs = Json::array();
  std::vector<int> place(links.size(), -1);
  for (size_t i = 0; i < links.size(); ++i) {
    if (graphs.size() >= limits.chain_graphs) continue;
    const TracedNode& node = facts.trace.nodes[i];
    place[i] = static_cast<int>(graphs.size());
    graphs.push_back({{"node", node.id},
                      {"name", facts.NameOf(node.bucket)},
                      {"lane", facts.trace.LaneOf(node)},
                      {"reason", NameOf(node.reason)},
                      {"root", !child[i]},
                      {"replays", links[i].replays},
                      {"reads", links[i].reads},
                      {"leases", links[i].leases},
                      {"kept_ns", links[i].kept_ns},
                      {"longest_ns", links[i].longest_ns},
                      {"height_bytes", node.height},
                      {"around_bytes", links[i].around_bytes},
                      {"output_bytes", links[i].output_bytes}});
  }
  Json reads = Json::array();  // [maker or -1, reader, times], by place in `graphs`.
  for (const auto& [edge, count] : edges) {
    const int maker = edge.first < 0 ? -1 : place[static_cast<size_t>(edge.first)];
    const int reader = place[static_cast<size_t>(edge.second)];
    if (reader >= 0 && (maker >= 0 || edge.first < 0)) reads.push_back({maker, reader, count});
  }
  if (graphs.size() < links.size())
    left_out["graphs"] = {{"shown", graphs.size()}, {"of", links.size()}};
  return {{"graphs", std::move(graphs)}, {"reads", std::move(reads)}};
}

}  // namespace coppice
