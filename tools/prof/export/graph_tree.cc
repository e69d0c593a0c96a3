// Nodes of the tree, and how often a call went from one to another.

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "fmt/format.h"

#include "tools/prof/export/text_formats.h"
#include "tools/support/byte_text.h"
#include "tools/support/text_table.h"

namespace coppice {
namespace {

// What ran a call: a graph, or a bucket without one, or neither.
struct CallPlace {
  int node = -1;
  int bucket = -1;
  auto operator<=>(const CallPlace&) const = default;
};

// The text inside the quotes of a DOT string.
std::string DotText(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '"' || c == '\\') escaped += '\\';
    escaped += static_cast<unsigned char>(c) < 0x20 || c == 0x7F ? ' ' : c;
  }
  return escaped;
}

class GraphTree {
 public:
  explicit GraphTree(const TracedSession& session) : session_(session), trace_(session.trace) {
    for (const TracedEvent& event : session.events)
      Play(event);
  }

  std::string Draw() const {
    const TraceSummary summary = SummaryOf(session_);
    std::string text = fmt::format(
        "digraph \"{0}\" {{\n  graph [labelloc=t, fontname=monospace, label=\"{0}\\l{1} "
        "recorded, {2} evicted\\l{3} bytes at most, {4} at the end\\l\"];\n"
        "  node [shape=box, fontname=monospace];\n  edge [fontname=monospace];\n",
        DotText("coppice on " + trace_.device), Counted(summary.calls.recorded, "graph"),
        summary.calls.evicted, summary.total.peak, summary.total.at_end);
    for (int lane = 0; lane < trace_.lanes; ++lane)
      text += DrawLane(lane);
    for (const auto& [edge, calls] : edges_) {
      text +=
          fmt::format("  {} -> {} [label=\"{}\"];\n", IdOf(edge.first), IdOf(edge.second), calls);
    }
    return text + "}\n";
  }

 private:
  // A call reads outputs before it is told itself.
  void Play(const TracedEvent& event) {
    if (const auto* const evict = event.As<EvictEvent>()) evicted_[evict->node] = true;
    if (const auto* const use = event.As<UseEvent>()) {
      auto& [call, reads] = reads_[event.lane];
      if (call != use->call) reads.clear();
      call = use->call;
      reads.push_back(use->other_call);
    }
    if (const auto* const call = event.As<CallEvent>(); call != nullptr && call->bucket >= 0)
      PlayCall(event.lane, *call);
  }

  void PlayCall(int lane, const CallEvent& call) {
    const CallPlace place = {call.node, call.node < 0 ? call.bucket.value : -1};
    ++calls_[place];
    auto& [reader, reads] = reads_[lane];
    if (reader == call.call) {
      std::ranges::sort(reads);
      const auto repeats = std::ranges::unique(reads);
      reads.erase(repeats.begin(), repeats.end());
      for (const int64_t read : reads) {
        const auto parent = places_.find({lane, read});
        if (parent != places_.end()) ++edges_[{parent->second, place}];
      }
    }
    places_[{lane, call.call}] = place;
  }

  std::string IdOf(const CallPlace& place) const {
    return place.node >= 0 ? fmt::format("node{}", trace_.nodes[static_cast<size_t>(place.node)].id)
                           : fmt::format("bucket{}", BucketOf(place).id);
  }

  const TracedBucket& BucketOf(const CallPlace& place) const {
    const int bucket =
        place.node >= 0 ? trace_.nodes[static_cast<size_t>(place.node)].bucket : place.bucket;
    return trace_.buckets[static_cast<size_t>(bucket)];
  }

  std::string DrawLane(int lane) const {
    std::string text = fmt::format("  subgraph cluster_{0} {{\n    label=\"lane {0}\";\n", lane);
    for (size_t i = 0; i < trace_.nodes.size(); ++i) {
      const TracedNode& node = trace_.nodes[i];
      if (trace_.LaneOf(node) != lane) continue;
      const CallPlace place = {.node = static_cast<int>(i)};
      int64_t around = 0;
      for (const AddressRange& region : node.around)
        around += region.bytes();
      const bool gone = evicted_.contains(place.node);
      text += fmt::format(
          "    {} [label=\"{}\\lnode {}, {}\\lplan of {}, around {} of live "
          "outputs\\l\"{}];\n",
          IdOf(place), DotText(NameOfBucket(trace_, node.bucket)), node.id,
          Counted(CallsOf(place), "call"), FormatBytes(node.height), FormatBytes(around),
          gone ? ", style=dashed" : "");
    }
    for (const auto& [place, calls] : calls_) {
      if (place.node >= 0 || BucketOf(place).lane != lane) continue;
      text += fmt::format("    {} [label=\"{}\\l{} without a graph\\l\", shape=ellipse];\n",
                          IdOf(place), DotText(NameOfBucket(trace_, place.bucket)),
                          Counted(calls, "call"));
    }
    return text + "  }\n";
  }

  int64_t CallsOf(const CallPlace& place) const {
    const auto found = calls_.find(place);
    return found == calls_.end() ? 0 : found->second;
  }

  const TracedSession& session_;
  const PoolTrace& trace_;
  std::map<CallPlace, int64_t> calls_;
  std::map<std::pair<CallPlace, CallPlace>, int64_t> edges_;
  absl::flat_hash_map<int, bool> evicted_;
  absl::flat_hash_map<std::pair<int, int64_t>, CallPlace> places_;  // By lane and call.
  absl::flat_hash_map<int, std::pair<int64_t, std::vector<int64_t>>> reads_;
};

}  // namespace

std::string GraphTreeOf(const TracedSession& session) {
  return GraphTree(session).Draw();
}

}  // namespace coppice
