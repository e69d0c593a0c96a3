// Plays bytes and leases; what does not fit waits until it does.

#include "tools/prof/export/memory_history.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"

namespace coppice {
namespace {

constexpr int64_t kKindAddresses = int64_t{1} << 44;
constexpr size_t kWaitingMax = 1024;
constexpr int kProbesMax = 4096;  // Holes that are looked at for one output.

struct HeldOutput {
  int lane = 0;
  int node = 0;
  int64_t call = 0;
  int64_t output = 0;
  size_t buffer = 0;
  int64_t offset = 0;  // In the lane's plan window.
  int64_t bytes = 0;
  bool placed = false;  // It was, at some time.
};

class HistoryPlayer {
 public:
  explicit HistoryPlayer(const PoolTrace& trace) : trace_(trace) {}

  void Play(const TraceEvent& event) {
    now_ = event.time_ns;
    switch (event.kind) {
      case TraceEventKind::kBytes:
        return PlayBytes(event.memory, event.first);
      case TraceEventKind::kOutputs:
        return PlayOutputs(event);
      case TraceEventKind::kPart:
        return Drop(event.lane, event.call, event.first);
      case TraceEventKind::kRelease:
      case TraceEventKind::kExpire:
        return Drop(event.lane, event.call, std::nullopt);
      default:
        return;
    }
  }

  MemoryHistory Finish() {
    for (const HeldOutput& held : waiting_)
      history_.unplaced += held.placed ? 0 : 1;
    return std::move(history_);
  }

 private:
  using Places = std::map<int64_t, HeldOutput>;  // By first byte in the range of the plan windows.

  void PlayBytes(MemoryKind memory, int64_t bytes) {
    int64_t& mapped = mapped_[static_cast<size_t>(memory)];
    if (bytes == mapped) return;
    const auto step = [&](HistoryAction action, int64_t of) {
      history_.steps.push_back({.action = action,
                                .memory = memory,
                                .address = AddressOf(memory),
                                .bytes = of,
                                .time_ns = now_});
    };
    const bool plans = memory == MemoryKind::kPlan;
    if (plans && bytes < mapped) Displace(bytes);
    if (mapped > 0) step(HistoryAction::kUnmap, mapped);
    if (bytes > 0) step(HistoryAction::kMap, bytes);
    const bool grew = bytes > mapped;
    mapped = bytes;
    if (plans && grew) PlaceWaiting();
  }

  void PlayOutputs(const TraceEvent& event) {
    if (event.node < 0) {
      ++history_.elsewhere;
      return;
    }
    const TracedNode& node = trace_.nodes[static_cast<size_t>(event.node)];
    if (held_.contains({event.lane, event.call})) return;
    for (size_t i = 0; i < node.buffers.size(); ++i) {
      if (node.outputs[i] < 0) continue;
      HeldOutput held = {.lane = event.lane,
                         .node = event.node,
                         .call = event.call,
                         .output = node.outputs[i],
                         .buffer = i,
                         .offset = node.offsets[i],
                         .bytes = node.buffers[i].bytes};
      if (Place(held)) continue;
      Wait(held);
    }
  }

  void Wait(const HeldOutput& held) {
    if (waiting_.size() < kWaitingMax) {
      waiting_.push_back(held);
    } else {
      history_.unplaced += held.placed ? 0 : 1;
    }
  }

  int64_t PlanBytes() const { return mapped_[static_cast<size_t>(MemoryKind::kPlan)]; }

  // Where it lies, or nothing if no such bytes are mapped and free.
  std::optional<int64_t> FindPlace(const HeldOutput& held) const {
    if (trace_.lanes == 1)
      return Free(held.offset, held.bytes) ? std::optional(held.offset) : std::nullopt;
    int64_t begin = 0;
    int probes = 0;
    for (const auto& [at, other] : places_) {
      if (at - begin >= held.bytes || ++probes > kProbesMax) break;
      begin = at + other.bytes;
    }
    return Free(begin, held.bytes) ? std::optional(begin) : std::nullopt;
  }

  bool Free(int64_t begin, int64_t bytes) const {
    if (bytes > PlanBytes() || begin > PlanBytes() - bytes) return false;
    const auto next = places_.lower_bound(begin);
    if (next != places_.end() && next->first < begin + bytes) return false;
    return next == places_.begin() ||
           std::prev(next)->first + std::prev(next)->second.bytes <= begin;
  }

  bool Place(HeldOutput& held) {
    const std::optional<int64_t> place = FindPlace(held);
    if (!place) return false;
    held.placed = true;
    places_.emplace(*place, held);
    held_[{held.lane, held.call}].push_back(*place);
    Note(HistoryAction::kHold, *place, held);
    return true;
  }

  void Note(HistoryAction action, int64_t place, const HeldOutput& held) {
    history_.steps.push_back({.action = action,
                              .memory = MemoryKind::kPlan,
                              .lane = held.lane,
                              .node = held.node,
                              .call = held.call,
                              .output = held.output,
                              .buffer = held.buffer,
                              .address = AddressOf(MemoryKind::kPlan) + place,
                              .bytes = held.bytes,
                              .time_ns = now_});
  }

  // Of the call's outputs this one, or all.
  void Drop(int lane, int64_t call, std::optional<int64_t> output) {
    const auto meant = [&](const HeldOutput& held) {
      return held.lane == lane && held.call == call && (!output || held.output == *output);
    };
    const auto gone = std::ranges::remove_if(waiting_, [&](const HeldOutput& held) {
      if (!meant(held)) return false;
      history_.unplaced += held.placed ? 0 : 1;
      return true;
    });
    waiting_.erase(gone.begin(), gone.end());
    const auto found = held_.find({lane, call});
    if (found == held_.end()) return;
    std::erase_if(found->second, [&](int64_t place) {
      const auto at = places_.find(place);
      if (!meant(at->second)) return false;
      Note(HistoryAction::kDrop, place, at->second);
      places_.erase(at);
      return true;
    });
    if (found->second.empty()) held_.erase(found);
  }

  // A suspended session gives its memory back; what is leased waits on the host.
  void Displace(int64_t bytes) {
    while (!places_.empty()) {
      const auto last = std::prev(places_.end());
      if (last->first + last->second.bytes <= bytes) return;
      const HeldOutput held = last->second;
      Note(HistoryAction::kDrop, last->first, held);
      std::erase(held_[{held.lane, held.call}], last->first);
      places_.erase(last);
      Wait(held);
    }
  }

  void PlaceWaiting() {
    std::vector<HeldOutput> still;
    for (HeldOutput& held : waiting_)
      if (!Place(held)) still.push_back(held);
    waiting_ = std::move(still);
  }

  const PoolTrace& trace_;
  MemoryHistory history_;
  std::array<int64_t, kMemoryKindCount> mapped_{};
  Places places_;
  absl::flat_hash_map<std::pair<int, int64_t>, std::vector<int64_t>> held_;  // By lane and call.
  std::vector<HeldOutput> waiting_;
  int64_t now_ = 0;
};

}  // namespace

int64_t AddressOf(MemoryKind kind) {
  return (static_cast<int64_t>(kind) + 1) * kKindAddresses;
}

MemoryHistory HistoryOf(const TracedSession& session) {
  HistoryPlayer player(session.trace);
  for (const TraceEvent& event : session.events)
    player.Play(event);
  return player.Finish();
}

}  // namespace coppice
