// Notes chains, and plans them as a whole.

#include "graphs/rehearsal.h"

#include <algorithm>
#include <new>
#include <utility>

#include "coppice/allocator/planner.h"
#include "coppice/allocator/tree_plan.h"
#include "coppice/base/status.h"

#include "graphs/lane.h"
#include "graphs/recorder.h"

namespace coppice::internal {
namespace {

// Longer or larger chains are planned call by call: a recording must not take long.
constexpr size_t kCallsMax = 64;
constexpr size_t kBuffersMax = 8192;

// Whether the outputs of call `number` are leased, where a graph or a warm-up wrote them.
bool IsLeased(const Lane& lane, uint64_t number) {
  for (const auto* slots : {&lane.window, &lane.parked}) {
    for (const Slot* slot : *slots) {
      const bool kept = slot->kind == Slot::Kind::kWindow || slot->kind == Slot::Kind::kEager;
      if (slot->call == number && kept) return slot->leased() && !slot->expired();
    }
  }
  return false;
}

std::vector<TreeOutput> OutputsOf(const Trace& trace, int levels) {
  std::vector<TreeOutput> outputs;
  for (const TraceEvent& event : trace.events) {
    if (event.kind == TraceEvent::Kind::kOutput)
      outputs.push_back({.buffer = static_cast<size_t>(event.buffer), .levels = levels});
  }
  return outputs;
}

// Where the outputs of the nodes before `node` lie that live during it.
std::vector<Region> LiveDuring(const std::vector<TreeNode>& nodes,
                               const std::vector<Plan>& plans,
                               size_t node) {
  std::vector<Region> live;
  for (size_t earlier = 0; earlier < node; ++earlier) {
    for (const TreeOutput& output : nodes[earlier].outputs) {
      if (static_cast<size_t>(output.levels) < node - earlier) continue;
      live.push_back({.offset = plans[earlier].offsets[output.buffer],
                      .bytes = nodes[earlier].buffers[output.buffer].bytes});
    }
  }
  Normalize(live);
  return live;
}

// The window's height if every node is planned when its call comes along.
absl::StatusOr<int64_t> HeightCallByCall(const std::vector<TreeNode>& nodes) {
  std::vector<Plan> plans;
  int64_t height = 0;
  for (size_t i = 0; i < nodes.size(); ++i) {
    COPPICE_ASSIGN_OR_RETURN(PlannerResult planned,
                             PlanAround(nodes[i].buffers, LiveDuring(nodes, plans, i)));
    height = std::max(height, planned.plan.height);
    plans.push_back(std::move(planned.plan));
  }
  return height;
}

}  // namespace

void Rehearsal::Open() {
  begun_ = noting_ = false;
  calls_.clear();
  planned_.clear();
  plans_.clear();
}

void Rehearsal::Close() {
  if (noting_ && calls_.size() > 1) Keep();
  Open();
}

void Rehearsal::Keep() {
  try {
    const auto [first, last] = rehearsed_.equal_range(KeyHash()(calls_.front().key));
    const auto known = std::find_if(first, last, [&](const auto& entry) {
      return SameBucket(entry.second.front(), calls_[0]);
    });
    if (known != last) rehearsed_.erase(known);
    rehearsed_.emplace(KeyHash()(calls_.front().key), std::move(calls_));
  } catch (const std::bad_alloc&) {
    // Without a rehearsal the chain is planned call by call.
  }
}

void Rehearsal::Note(const Lane& lane,
                     const Program& program,
                     const BucketKey& key,
                     uint64_t number,
                     bool rehearse) {
  if (!std::exchange(begun_, true)) noting_ = rehearse;
  if (!noting_) return;
  // A call that failed left its number to this one.
  if (!calls_.empty() && calls_.back().number == number) calls_.pop_back();
  for (size_t i = 0; i < calls_.size(); ++i) {
    if (IsLeased(lane, calls_[i].number)) calls_[i].levels = static_cast<int>(calls_.size() - i);
  }
  calls_.push_back({.program = &program, .key = key, .number = number});
  noting_ = calls_.size() <= kCallsMax;
}

void Rehearsal::PlanChain(const Lane& lane, const Chain& chain) {
  std::vector<TreeNode> nodes;
  size_t buffers = 0;
  for (const ChainCall& call : chain) {
    const NodeTable& table = call.program->lanes[static_cast<size_t>(lane.index)];
    const auto bucket = table.buckets.find(call.key);
    if (bucket == table.buckets.end() || bucket->second->warmups == 0) return;
    const Trace& trace = bucket->second->trace;
    buffers += static_cast<size_t>(trace.buffer_count);
    if (buffers > kBuffersMax) return;
    nodes.push_back({.parent = static_cast<int>(nodes.size()) - 1,
                     .buffers = BuffersOf(trace),
                     .outputs = OutputsOf(trace, call.levels)});
  }
  // A plan that cannot be made here is an error of the recording that follows.
  absl::StatusOr<TreePlan> joint = PlanTree(nodes);
  const absl::StatusOr<int64_t> call_by_call = HeightCallByCall(nodes);
  if (!joint.ok() || !call_by_call.ok() || joint->height >= *call_by_call) return;
  planned_ = chain;
  nodes_ = std::move(nodes);
  plans_ = std::move(joint->nodes);
}

const Plan* Rehearsal::FindPlan(const Lane& lane, const std::vector<Region>& live) {
  if (!noting_) return nullptr;
  if (calls_.size() == 1) {
    const auto [first, last] = rehearsed_.equal_range(KeyHash()(calls_.front().key));
    for (auto entry = first; entry != last; ++entry) {
      if (SameBucket(entry->second.front(), calls_[0])) PlanChain(lane, entry->second);
    }
  }
  const size_t index = calls_.size() - 1;
  if (index >= planned_.size() || !SameBucket(planned_[index], calls_[index])) return nullptr;
  return LiveDuring(nodes_, plans_, index) == live ? &plans_[index] : nullptr;
}

}  // namespace coppice::internal
