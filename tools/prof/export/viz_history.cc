// `--mode history`: each kind of memory is a segment and a pool of its own.

#include <map>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"

#include "tools/prof/export/memory_history.h"
#include "tools/prof/export/viz_plan_run.h"
#include "tools/prof/export/viz_snapshot.h"

namespace coppice {
namespace {

constexpr int64_t kNsPerUs = 1000;

// What of a kind is in use is told by outputs that are held, or all of it, or nothing.
bool UsedWhole(MemoryKind kind) {
  return kind != MemoryKind::kPlan && kind != MemoryKind::kSpare;
}

class HistoryViz {
 public:
  explicit HistoryViz(const TracedSession& session) : trace_(session.trace) {
    snapshot_.devices.resize(1);
    for (int i = 0; i < kMemoryKindCount; ++i)
      snapshot_.frames.push_back(
          {.name = NameOf(static_cast<MemoryKind>(i)), .file = "coppice://session"});
    for (const TracedNode& node : trace_.nodes)
      snapshot_.frames.push_back(FrameOf(trace_, node));
    for (const TraceEvent& event : session.events) {
      if (event.kind == TraceEventKind::kMark)
        snapshot_.marks.push_back(
            {trace_.marks[static_cast<size_t>(event.mark)], event.time_ns / kNsPerUs});
    }
  }

  VizSnapshot Draw(const TracedSession& session) {
    const MemoryHistory history = HistoryOf(session);
    for (const HistoryStep& step : history.steps)
      Play(step);
    for (int i = 0; i < kMemoryKindCount; ++i)
      AddSegment(static_cast<MemoryKind>(i));
    snapshot_.coppice = OriginOf(session);
    snapshot_.coppice["mode"] = NameOf(VizMode::kHistory);
    snapshot_.coppice["outputs_without_place"] = history.unplaced;
    snapshot_.coppice["leases_of_unknown_size"] = history.elsewhere;
    return std::move(snapshot_);
  }

 private:
  void Play(const HistoryStep& step) {
    const bool whole = UsedWhole(step.memory);
    VizEvent event = {
        .address = step.address, .bytes = step.bytes, .time_us = step.time_ns / kNsPerUs};
    const auto put = [&](VizAction action) {
      event.action = action;
      snapshot_.devices[0].push_back(event);
    };
    switch (step.action) {
      case HistoryAction::kMap:
        mapped_[step.memory] = step.bytes;
        put(VizAction::kSegmentAlloc);
        event.category = VizCategory::kMapped;
        event.frame = static_cast<int>(step.memory);
        if (whole) put(VizAction::kAlloc);
        return;
      case HistoryAction::kUnmap:
        mapped_.erase(step.memory);
        if (whole) put(VizAction::kFree);
        put(VizAction::kSegmentFree);
        return;
      case HistoryAction::kHold:
        event.stream = step.lane;
        event.category = VizCategory::kOutput;
        event.frame = BufferOf(step).frame;
        event.label = BufferOf(step).label;
        event.numbers[static_cast<size_t>(VizNumber::kCall)] = step.call;
        event.numbers[static_cast<size_t>(VizNumber::kLane)] = step.lane;
        event.numbers[static_cast<size_t>(VizNumber::kOutput)] = step.output;
        held_[step.address] = {step.bytes, true, event.frame};
        put(VizAction::kAlloc);
        return;
      case HistoryAction::kDrop:
        event.stream = step.lane;
        held_.erase(step.address);
        put(VizAction::kFree);
        return;
    }
  }

  const VizBuffer& BufferOf(const HistoryStep& step) {
    const auto [named, fresh] = named_.try_emplace(step.node);
    if (fresh) {
      named->second = NameBuffers(trace_.nodes[static_cast<size_t>(step.node)],
                                  kMemoryKindCount + step.node, snapshot_);
    }
    return named->second[step.buffer];
  }

  void AddSegment(MemoryKind kind) {
    const auto mapped = mapped_.find(kind);
    if (mapped == mapped_.end()) return;
    VizSegment segment = {.pool = static_cast<int>(kind) + 1, .address = AddressOf(kind)};
    int64_t top = 0;
    if (kind == MemoryKind::kPlan) {
      for (const auto& [address, block] : held_) {
        const int64_t begin = address - segment.address;
        if (begin > top) segment.blocks.push_back({.bytes = begin - top});
        segment.blocks.push_back(block);
        top = begin + block.bytes;
      }
    }
    if (mapped->second > top) {
      segment.blocks.push_back(
          {mapped->second - top, UsedWhole(kind), UsedWhole(kind) ? static_cast<int>(kind) : -1});
    }
    snapshot_.segments.push_back(std::move(segment));
  }

  const PoolTrace& trace_;
  VizSnapshot snapshot_;
  std::map<MemoryKind, int64_t> mapped_;
  std::map<int64_t, VizBlock> held_;                        // By address.
  absl::flat_hash_map<int, std::vector<VizBuffer>> named_;  // By node.
};

}  // namespace

VizSnapshot HistorySnapshot(const TracedSession& session) {
  return HistoryViz(session).Draw(session);
}

}  // namespace coppice
