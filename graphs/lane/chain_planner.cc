// Notes chains, and plans them as a whole.

#include "graphs/lane/chain_planner.h"

#include <algorithm>
#include <new>
#include <utility>

#include "coppice/allocator/planner.h"
#include "coppice/allocator/tree_plan.h"
#include "coppice/base/status.h"

#include "graphs/node/allocation_script.h"
#include "graphs/node/plan_around.h"

namespace coppice::internal {
namespace {

// Longer or larger chains are planned call by call: a recording must not take long.
constexpr size_t kCallsMax = 64;
constexpr size_t kBuffersMax = 8192;
// Noted at once; those that come again are noted again.
constexpr size_t kChainsMax = 1024;

// Whether the outputs of call `number` are leased, where a graph or a warm-up wrote them.
bool IsLeased(const SlotTable& slots, uint64_t number) {
  for (const MemoryKind window : {MemoryKind::kPlan, MemoryKind::kEager}) {
    for (const Slot* slot : slots.ListOf(window)) {
      const bool kept = slot->kind == Slot::Kind::kWindow || slot->kind == Slot::Kind::kEager;
      if (slot->call == number && kept) return slot->leased() && !slot->expired();
    }
  }
  return false;
}

std::vector<TreeOutput> OutputsOf(const AllocationScript& script, int levels) {
  std::vector<TreeOutput> outputs;
  for (const ScriptEvent& event : script.events) {
    if (event.kind == ScriptEvent::Kind::kOutput)
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

void ChainPlanner::Open() {
  open_ = true;
  Begin();
}

void ChainPlanner::Begin() {
  begun_ = noting_ = false;
  calls_.clear();
  planned_.clear();
  plans_.clear();
}

void ChainPlanner::Close() {
  if (noting_ && calls_.size() > 1) Keep();
  Begin();
  open_ = false;
}

void ChainPlanner::Keep() {
  try {
    const auto [first, last] = noted_chains_.equal_range(KeyHash()(calls_.front().key));
    const auto known = std::find_if(first, last, [&](const auto& entry) {
      return SameBucket(entry.second.front(), calls_[0]);
    });
    if (known != last) noted_chains_.erase(known);
    if (noted_chains_.size() >= kChainsMax) noted_chains_.clear();
    noted_chains_.emplace(KeyHash()(calls_.front().key), std::move(calls_));
  } catch (const std::bad_alloc&) {
    // Without its first pass noted, the chain is planned call by call.
  }
}

void ChainPlanner::Note(const Program& program, const BucketKey& key, uint64_t number, bool note) {
  if (!std::exchange(begun_, true)) noting_ = note;
  if (!noting_) return;
  // A call that failed left its number to this one.
  if (!calls_.empty() && calls_.back().number == number) calls_.pop_back();
  for (size_t i = 0; i < calls_.size(); ++i) {
    if (IsLeased(slots_, calls_[i].number)) calls_[i].levels = static_cast<int>(calls_.size() - i);
  }
  calls_.push_back({.program = &program, .key = key, .number = number});
  noting_ = calls_.size() <= kCallsMax;
}

void ChainPlanner::PlanChain(const Chain& chain) {
  std::vector<TreeNode> tree;
  size_t buffers = 0;
  for (const ChainCall& call : chain) {
    const Bucket* bucket = nodes_.FindBucket(*call.program, call.key);
    if (bucket == nullptr || bucket->warmups() == 0) return;
    // What a call takes from the one before it mostly lies in place, and so do its aliases.
    const AllocationScript script = ScriptOf(bucket->script(), /*layout=*/{});
    buffers += static_cast<size_t>(script.buffer_count);
    if (buffers > kBuffersMax) return;
    tree.push_back({.parent = static_cast<int>(tree.size()) - 1,
                    .buffers = BuffersOf(script),
                    .outputs = OutputsOf(script, call.levels)});
  }
  // A plan that cannot be made here is an error of the recording that follows.
  absl::StatusOr<TreePlan> joint = PlanTree(tree);
  const absl::StatusOr<int64_t> call_by_call = HeightCallByCall(tree);
  if (!joint.ok() || !call_by_call.ok() || joint->height >= *call_by_call) return;
  planned_ = chain;
  tree_ = std::move(tree);
  plans_ = std::move(joint->nodes);
}

const Plan* ChainPlanner::FindPlan(const std::vector<Region>& live) {
  if (!noting_) return nullptr;
  if (calls_.size() == 1) {
    const auto [first, last] = noted_chains_.equal_range(KeyHash()(calls_.front().key));
    for (auto entry = first; entry != last; ++entry) {
      if (SameBucket(entry->second.front(), calls_[0])) PlanChain(entry->second);
    }
  }
  const size_t index = calls_.size() - 1;
  if (index >= planned_.size() || !SameBucket(planned_[index], calls_[index])) return nullptr;
  return LiveDuring(tree_, plans_, index) == live ? &plans_[index] : nullptr;
}

}  // namespace coppice::internal
