// Plays the trace through a small model of lanes, leases and books.

#include "tools/prof/prof_check.h"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>

#include "absl/container/flat_hash_map.h"
#include "fmt/format.h"

#include "coppice/base/status.h"

#include "tools/prof/bucket_figures.h"

namespace coppice {
namespace {

constexpr int64_t kUnknown = std::numeric_limits<int64_t>::max();

// Outputs of a call that somebody leases.
struct Leased {
  int64_t line = 0;
  int node = -1;           // In whose plan they lie; -1: they have bytes of their own.
  int64_t expired_by = 0;  // The call that wrote over them; 0: none.
};

// `by` covers leased outputs of `call`; the trace should say that they expired.
struct Covered {
  int64_t call = 0;
  int64_t by = 0;
  int64_t line = 0;
};

struct LaneState {
  int64_t last_call = 0;
  // Of calls before this one the trace may have lost something; kUnknown: until the next call.
  int64_t reliable_from = 0;
  absl::flat_hash_map<int64_t, Leased> leases;  // By call.
  std::vector<int64_t> intact;   // Of these, those in the plan window that nothing wrote over.
  std::vector<Covered> covered;  // By the last call.
};

struct NodeState {
  enum class Life : uint8_t { kNone, kLive, kGone };

  Life life = Life::kNone;
  bool reported_unmapped = false;
  std::vector<AddressRange> footprint;
  std::vector<AddressRange> outputs;
};

class TraceChecker {
 public:
  TraceChecker(const PoolTrace& trace, bool strict)
      : trace_(trace),
        strict_(strict),
        lanes_(static_cast<size_t>(trace.lanes)),
        nodes_(trace.nodes.size()) {
    known_.fill(true);
  }

  TraceFindings Check(std::vector<TracedEvent> events) {
    for (size_t i = 0; i < nodes_.size(); ++i)
      CheckPlan(trace_.nodes[i], nodes_[i]);
    const int64_t last_line = events.empty() ? 1 : events.back().line;
    MergeLanes(events);
    for (const TracedEvent& event : events)
      Play(event);
    for (LaneState& lane : lanes_)
      ReportCovered(lane);
    if (trace_.ended) ReportLeaks(last_line);
    if (strict_) ReportGaps(last_line);
    std::stable_sort(found_.findings.begin(), found_.findings.end(),
                     [](const TraceFinding& a, const TraceFinding& b) { return a.line < b.line; });
    return std::move(found_);
  }

 private:
  using Numbers = std::vector<std::pair<const char*, int64_t>>;
  using Life = NodeState::Life;

  void Report(const char* kind, int64_t line, std::string what, Numbers numbers) {
    ++found_.count;
    ++found_.counts[kind];
    if (found_.findings.size() >= kTraceFindingsMax) return;
    found_.findings.push_back({kind, line, std::move(what), std::move(numbers)});
  }

  // The plan itself, whenever it ran.
  void CheckPlan(const TracedNode& node, NodeState& state) {
    state.footprint = FootprintOf(node);
    state.outputs = OutputRangesOf(node);
    const int64_t top = state.footprint.empty() ? 0 : state.footprint.back().end;
    std::vector<Buffer> buffers = node.buffers;
    std::vector<int64_t> offsets = node.offsets;
    int64_t end = top;
    for (const Buffer& donated : node.donated) {
      buffers.push_back(donated);
      offsets.push_back(*donated.fixed_offset);
      end = std::max(end, offsets.back() + donated.bytes);
    }
    if (const absl::Status status = ValidatePlan(buffers, {.offsets = offsets, .height = end});
        !status.ok()) {
      Report("overlap", node.line,
             fmt::format("the plan of node {} is wrong: {}", node.id, MessageOf(status)),
             {{"node", node.id}});
    }
    if (top > node.height) {
      Report("overlap", node.line,
             fmt::format("the plan of node {} ends at byte {}, above its height of {}", node.id,
                         top, node.height),
             {{"node", node.id}, {"end", top}, {"height", node.height}});
    }
    for (const AddressRange& region : node.around) {
      if (!Meet(state.footprint, {region})) continue;
      Report("around", node.line,
             fmt::format("the plan of node {} covers bytes in [{}, {}), which it should avoid",
                         node.id, region.begin, region.end),
             {{"node", node.id}, {"begin", region.begin}, {"end", region.end}});
    }
  }

  // Puts the events of all lanes in order of time, and leaves each lane's own order as it is.
  void MergeLanes(std::vector<TracedEvent>& events) {
    std::vector<int64_t> latest(static_cast<size_t>(trace_.lanes) + 1);
    for (TracedEvent& event : events) {
      int64_t& last = latest[static_cast<size_t>(event.lane + 1)];
      if (event.time_ns < last) {
        Report("time", event.line,
               fmt::format("time runs backwards on lane {}: {} ns after {} ns", event.lane,
                           event.time_ns, last),
               {{"lane", event.lane}, {"time_ns", event.time_ns}, {"after_ns", last}});
      }
      last = event.time_ns = std::max(last, event.time_ns);
    }
    std::stable_sort(events.begin(), events.end(), [](const TracedEvent& a, const TracedEvent& b) {
      return a.time_ns < b.time_ns;
    });
  }

  void Play(const TracedEvent& event) {
    std::visit(Cases{[&](const CallEvent& call) { PlayCall(event, call, LaneOf(event)); },
                     [&](const RecordEvent& record) { PlayRecord(event, record.node); },
                     [&](const EvictEvent& evict) { PlayEvict(event, evict.node); },
                     [&](const BytesEvent& bytes) { PlayBytes(event, bytes); },
                     [&](const StaticsEvent& statics) { PlayStatics(event, statics); },
                     [&](const OutputsEvent& outputs) { PlayOutputs(event, outputs); },
                     [&](const UseEvent& use) { PlayUse(event, use); },
                     [&](const PartEvent& part) { PlayPart(event, part); },
                     [&](const ReleaseEvent& release) { PlayRelease(event, release); },
                     [&](const ExpireEvent& expire) { PlayExpire(expire, LaneOf(event)); },
                     [&](const SuspendEvent& /*empty*/) { suspended_ = true; },
                     [&](const ResumeEvent& /*empty*/) { suspended_ = false; },
                     [&](const DroppedEvent& /*count*/) { PlayDropped(event); },
                     [](const auto& /*nothing to check*/) {}},
               event.what);
  }

  LaneState& LaneOf(const TracedEvent& event) {
    return lanes_[static_cast<size_t>(std::max(event.lane, 0))];
  }

  void PlayCall(const TracedEvent& event, const CallEvent& call, LaneState& lane) {
    ReportCovered(lane);
    CheckNumber(event, call, lane);
    if (suspended_) {
      Report("suspended", event.line,
             fmt::format("call {} on lane {} ran while the session was suspended", call.call,
                         event.lane),
             {{"lane", event.lane}, {"call", call.call}});
    }
    if (call.path != RunKind::kReplay && call.path != RunKind::kRecord) return;
    if (call.node < 0 || !IsThere(event, call)) {
      Report("no_node", event.line,
             fmt::format("call {} on lane {} launches {}", call.call, event.lane, Fate(call)),
             {{"lane", event.lane}, {"call", call.call}, {"node", IdOf(call.node)}});
    }
    if (call.node < 0) return;
    CheckMapped(event, call);
    for (const int64_t leased_call : lane.intact) {
      const Leased& leased = lane.leases.at(leased_call);
      if (leased_call != call.call && Covers(call.node, leased.node))
        lane.covered.push_back({.call = leased_call, .by = call.call, .line = event.line});
    }
  }

  void CheckNumber(const TracedEvent& event, const CallEvent& call, LaneState& lane) {
    const Numbers numbers = {{"lane", event.lane}, {"call", call.call}, {"after", lane.last_call}};
    const bool lossy = lane.reliable_from == kUnknown;
    if (call.call <= lane.last_call) {
      Report("calls", event.line,
             fmt::format("call {} follows call {} on lane {}, but call numbers must increase",
                         call.call, lane.last_call, event.lane),
             numbers);
    } else if (strict_ && call.call > lane.last_call + 1 && !lossy) {
      Report("incomplete", event.line,
             fmt::format("call {} follows call {} on lane {}: the calls between them failed to "
                         "launch, or their events are lost",
                         call.call, lane.last_call, event.lane),
             numbers);
    }
    if (lossy) lane.reliable_from = call.call;
    lane.last_call = std::max(lane.last_call, call.call);
  }

  const TracedNode& Traced(int node) const { return trace_.nodes[static_cast<size_t>(node)]; }
  int64_t IdOf(int node) const { return node < 0 ? -1 : Traced(node).id; }

  bool IsThere(const TracedEvent& event, const CallEvent& call) {
    NodeState& node = nodes_[static_cast<size_t>(call.node)];
    // Its `record` may be among what was dropped; that it runs shows that it is there.
    if (node.life == Life::kNone && graphs_dropped_) Live(call.node);
    return node.life == Life::kLive && Traced(call.node).bucket == call.bucket &&
           trace_.LaneOf(Traced(call.node)) == event.lane;
  }

  // What is wrong with the node that a call launches.
  std::string Fate(const CallEvent& call) const {
    if (call.node < 0) return "a graph, but names none";
    const int64_t id = IdOf(call.node);
    switch (nodes_[static_cast<size_t>(call.node)].life) {
      case Life::kNone:
        return fmt::format("node {}, which was never recorded", id);
      case Life::kGone:
        return fmt::format("node {}, which was evicted", id);
      case Life::kLive:
        return fmt::format("node {}, which belongs to another bucket or lane", id);
    }
    return {};
  }

  void CheckMapped(const TracedEvent& event, const CallEvent& call) {
    NodeState& node = nodes_[static_cast<size_t>(call.node)];
    const size_t nodes_kind = static_cast<size_t>(MemoryKind::kPlan);
    if (!known_[nodes_kind] || node.reported_unmapped) return;
    // The books count all lanes together, and what no call needs at the moment may be unmapped.
    if (Traced(call.node).height <= bytes_[nodes_kind]) return;
    node.reported_unmapped = true;
    Report("unmapped", event.line,
           fmt::format("call {} on lane {} launches node {} of height {}, but only {} bytes are "
                       "mapped for graphs",
                       call.call, event.lane, IdOf(call.node), Traced(call.node).height,
                       bytes_[nodes_kind]),
           {{"lane", event.lane},
            {"call", call.call},
            {"node", IdOf(call.node)},
            {"height", Traced(call.node).height},
            {"mapped", bytes_[nodes_kind]}});
  }

  // Whether the plan of `writer` covers an output of `reader` that it was not planned around.
  bool Covers(int writer, int reader) {
    const auto [found, is_new] = covers_.try_emplace(std::pair(writer, reader), false);
    if (is_new) {
      const std::vector<AddressRange>& footprint = nodes_[static_cast<size_t>(writer)].footprint;
      const std::vector<AddressRange>& around = Traced(writer).around;
      // What was planned around is judged with the plan; an output may be a part of its buffer.
      for (const AddressRange& output : nodes_[static_cast<size_t>(reader)].outputs) {
        const bool avoided =
            std::any_of(around.begin(), around.end(), [&](const AddressRange& region) {
              return region.begin < output.end && output.begin < region.end;
            });
        found->second = found->second || (!avoided && Meet(footprint, {output}));
      }
    }
    return found->second;
  }

  void ReportCovered(LaneState& lane) {
    for (const Covered& covered : lane.covered) {
      const auto found = lane.leases.find(covered.call);
      if (found == lane.leases.end() || found->second.expired_by != 0) continue;
      Report("overwritten", covered.line,
             fmt::format("the plan of call {} covers the outputs of call {}, leased in line {}, "
                         "but no event says that they expired",
                         covered.by, covered.call, found->second.line),
             {{"call", covered.by}, {"outputs_of", covered.call}});
      Expire(lane, covered.call, covered.by);
    }
    lane.covered.clear();
  }

  void Live(int node) { nodes_[static_cast<size_t>(node)].life = Life::kLive; }

  void PlayRecord(const TracedEvent& event, int node) {
    if (nodes_[static_cast<size_t>(node)].life == Life::kNone) return Live(node);
    Report("no_node", event.line, fmt::format("node {} is recorded twice", IdOf(node)),
           {{"node", IdOf(node)}});
  }

  void PlayEvict(const TracedEvent& event, int evicted) {
    NodeState& node = nodes_[static_cast<size_t>(evicted)];
    if (node.life == Life::kNone && graphs_dropped_) Live(evicted);
    if (node.life != Life::kLive) {
      Report("no_node", event.line,
             fmt::format("node {} is evicted, but does not exist", IdOf(evicted)),
             {{"node", IdOf(evicted)}});
      return;
    }
    node.life = Life::kGone;
  }

  void PlayBytes(const TracedEvent& event, const BytesEvent& bytes) {
    const size_t kind = static_cast<size_t>(bytes.kind);
    bytes_[kind] = bytes.bytes;
    known_[kind] = true;
    const int64_t sum = std::accumulate(bytes_.begin(), bytes_.end(), int64_t{0});
    const bool all_known = std::find(known_.begin(), known_.end(), false) == known_.end();
    if (all_known && sum != bytes.total_bytes) {
      Report("conservation", event.line,
             fmt::format(
                 "the total is {} bytes, but the sum of all kinds is {}, after '{}' was set to {}",
                 bytes.total_bytes, sum, NameOf(bytes.kind), bytes.bytes),
             {{"total", bytes.total_bytes}, {"sum", sum}, {"difference", bytes.total_bytes - sum}});
    }
    if (trace_.budget > 0 && bytes.total_bytes > trace_.budget) {
      Report("over_budget", event.line,
             fmt::format("the total is {} bytes, but the budget is {}", bytes.total_bytes,
                         trace_.budget),
             {{"total", bytes.total_bytes}, {"budget", trace_.budget}});
    }
  }

  void PlayStatics(const TracedEvent& event, const StaticsEvent& statics) {
    if (statics.bytes <= statics.total_bytes) return;
    Report("conservation", event.line,
           fmt::format("the statics of program '{}' take {} bytes, but the statics of all "
                       "programs take only {}",
                       LabelOfProgram(trace_, statics.program), statics.bytes, statics.total_bytes),
           {{"total", statics.total_bytes},
            {"sum", statics.bytes},
            {"difference", statics.total_bytes - statics.bytes}});
  }

  void PlayOutputs(const TracedEvent& event, const OutputsEvent& outputs) {
    LaneState& lane = LaneOf(event);
    const Leased leased = {.line = event.line, .node = outputs.node};
    const bool is_new = lane.leases.try_emplace(outputs.call, leased).second;
    if (!is_new) {
      Report("not_leased", event.line,
             fmt::format("the outputs of call {} on lane {} are leased twice", outputs.call,
                         event.lane),
             {{"lane", event.lane}, {"outputs_of", outputs.call}});
      return;
    }
    if (outputs.node >= 0 && !nodes_[static_cast<size_t>(outputs.node)].outputs.empty())
      lane.intact.push_back(outputs.call);
  }

  // The lease of a call's outputs; null, and reported, if there is none.
  Leased* FindLease(LaneState& lane, int64_t call, const TracedEvent& event, const char* verb) {
    const auto found = lane.leases.find(call);
    if (found != lane.leases.end()) return &found->second;
    if (call >= lane.reliable_from) {
      Report("not_leased", event.line,
             fmt::format("outputs of call {} on lane {} are {}, but they are not leased", call,
                         event.lane, verb),
             {{"lane", event.lane}, {"outputs_of", call}});
    }
    return nullptr;
  }

  void PlayUse(const TracedEvent& event, const UseEvent& use) {
    const Leased* leased = FindLease(LaneOf(event), use.other_call, event, "read");
    if (leased == nullptr || leased->expired_by == 0) return;
    Report("stale", event.line,
           fmt::format("call {} on lane {} reads outputs of call {}, which call {} overwrote",
                       use.call, event.lane, use.other_call, leased->expired_by),
           {{"lane", event.lane},
            {"call", use.call},
            {"outputs_of", use.other_call},
            {"expired_by", leased->expired_by}});
  }

  // Its plan does not say any more what of it is leased.
  void PlayPart(const TracedEvent& event, const PartEvent& part) {
    LaneState& lane = LaneOf(event);
    if (FindLease(lane, part.call, event, "given up in part") != nullptr) Forget(lane, part.call);
  }

  void PlayRelease(const TracedEvent& event, const ReleaseEvent& release) {
    LaneState& lane = LaneOf(event);
    if (FindLease(lane, release.call, event, "given up") == nullptr) return;
    Forget(lane, release.call);
    lane.leases.erase(release.call);
  }

  static void PlayExpire(const ExpireEvent& expire, LaneState& lane) {
    if (lane.leases.contains(expire.call)) Expire(lane, expire.call, expire.other_call);
  }

  static void Expire(LaneState& lane, int64_t call, int64_t by) {
    lane.leases.at(call).expired_by = by;
    Forget(lane, call);
  }

  static void Forget(LaneState& lane, int64_t call) {
    const auto found = std::find(lane.intact.begin(), lane.intact.end(), call);
    if (found != lane.intact.end()) lane.intact.erase(found);
  }

  void PlayDropped(const TracedEvent& event) {
    graphs_dropped_ = true;
    if (event.lane < 0) {
      known_.fill(false);
      suspended_ = false;
      return;
    }
    LaneState& lane = LaneOf(event);
    lane.leases.clear();
    lane.intact.clear();
    lane.covered.clear();
    lane.reliable_from = kUnknown;
  }

  void ReportLeaks(int64_t line) {
    for (size_t i = 0; i < lanes_.size(); ++i) {
      std::vector<std::pair<int64_t, Leased>> left(lanes_[i].leases.begin(),
                                                   lanes_[i].leases.end());
      std::sort(left.begin(), left.end(),
                [](const auto& a, const auto& b) { return a.first < b.first; });
      for (const auto& [call, leased] : left) {
        Report(
            "leak", line,
            fmt::format("the outputs of call {} on lane {}, leased in line {}, were never released",
                        call, i, leased.line),
            {{"lane", static_cast<int64_t>(i)},
             {"outputs_of", call},
             {"leased_line", leased.line}});
      }
    }
  }

  void ReportGaps(int64_t line) {
    if (trace_.dropped > 0) {
      Report("incomplete", line, fmt::format("dropped events: {}", trace_.dropped),
             {{"dropped", trace_.dropped}});
    }
    if (!trace_.ended) Report("incomplete", line, "the trace has no end", {});
  }

  const PoolTrace& trace_;
  const bool strict_;
  std::vector<LaneState> lanes_;
  std::vector<NodeState> nodes_;
  absl::flat_hash_map<std::pair<int, int>, bool> covers_;
  std::array<int64_t, kMemoryKindCount> bytes_{};
  std::array<bool, kMemoryKindCount> known_{};
  bool suspended_ = false;
  bool graphs_dropped_ = false;
  TraceFindings found_;
};

}  // namespace

TraceFindings CheckTrace(const PoolTrace& trace, std::vector<TracedEvent> events, bool strict) {
  return TraceChecker(trace, strict).Check(std::move(events));
}

}  // namespace coppice
