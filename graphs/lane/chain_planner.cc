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

// The slot of call `number`, where a graph or a warm-up wrote its outputs and somebody leases them;
// null if there is none.
const Slot* FindLeased(const SlotTable& slots, uint64_t number) {
  for (const MemoryKind window : {MemoryKind::kPlan, MemoryKind::kEager}) {
    for (const Slot* slot : slots.ListOf(window)) {
      const bool kept = slot->kind == Slot::Kind::kWindow || slot->kind == Slot::Kind::kEager;
      if (slot->call == number && kept) return slot->leased() && !slot->expired() ? slot : nullptr;
    }
  }
  return nullptr;
}

// Of those that have a buffer; `places` gets the index of each output of the program among them.
std::vector<TreeOutput> OutputsOf(const AllocationScript& script,
                                  const std::vector<int>& levels,
                                  std::vector<int>& places) {
  std::vector<TreeOutput> outputs;
  places.assign(levels.size(), -1);
  for (const ScriptEvent& event : script.events) {
    if (event.kind != ScriptEvent::Kind::kOutput) continue;
    const auto output = static_cast<size_t>(event.output);
    places[output] = static_cast<int>(outputs.size());
    outputs.push_back({.buffer = static_cast<size_t>(event.buffer), .levels = levels[output]});
  }
  return outputs;
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

void ChainPlanner::Reach(uint64_t number) {
  if (!calls_.empty() && calls_.back().number == number) calls_.pop_back();
}

void ChainPlanner::Note(const Program& program,
                        const BucketKey& key,
                        uint64_t number,
                        bool note,
                        std::vector<Gift> gifts) {
  if (!std::exchange(begun_, true)) noting_ = note;
  if (!noting_) return;
  for (size_t i = 0; i < calls_.size(); ++i) {
    const Slot* slot = FindLeased(slots_, calls_[i].number);
    for (size_t output = 0; slot != nullptr && output < calls_[i].levels.size(); ++output) {
      if (slot->keeps(output)) calls_[i].levels[output] = static_cast<int>(calls_.size() - i);
    }
  }
  calls_.push_back({.program = &program,
                    .key = key,
                    .number = number,
                    .levels = std::vector<int>(program.spec.outputs.size()),
                    .gifts = std::move(gifts)});
  noting_ = calls_.size() <= kCallsMax;
}

std::optional<ChainPlanner::Problem> ChainPlanner::ProblemOf(const Chain& chain) const {
  Problem problem;
  std::vector<std::vector<int>> places(chain.size());
  size_t buffers = 0;
  for (size_t i = 0; i < chain.size(); ++i) {
    const ChainCall& call = chain[i];
    const Bucket* bucket = nodes_.FindBucket(*call.program, call.key);
    if (bucket == nullptr || bucket->warmups() == 0) return std::nullopt;
    // What a call takes from the one before it mostly lies in place, and so do its aliases.
    const AllocationScript script = ScriptOf(bucket->script(), /*layout=*/{});
    buffers += static_cast<size_t>(script.buffer_count);
    if (buffers > kBuffersMax) return std::nullopt;
    problem.nodes.push_back({.parent = static_cast<int>(i) - 1,
                             .buffers = BuffersOf(script),
                             .outputs = OutputsOf(script, call.levels, places[i])});
    std::vector<Given>& given = problem.given.emplace_back();
    for (const Gift& gift : call.gifts) {
      const auto from = std::ranges::find(chain, gift.number, &ChainCall::number);
      const auto node = static_cast<size_t>(from - chain.begin());
      if (node >= i || places[node][gift.output] < 0) continue;
      const auto output = static_cast<size_t>(places[node][gift.output]);
      TreeOutput& made = problem.nodes[node].outputs[output];
      const int64_t steps = std::max<int64_t>(LastReadOf(bucket->script(), script, gift.input), 1);
      const bool known = std::ranges::any_of(
          given, [&](const Given& each) { return each.node == node && each.output == output; });
      made.levels = static_cast<int>(i - node);
      made.last_steps = known ? std::max(made.last_steps, steps) : steps;
      if (!known) given.push_back({.node = node, .output = output});
    }
  }
  return problem;
}

ChainPlanner::Around ChainPlanner::AroundNode(const Problem& problem,
                                              const std::vector<Plan>& plans,
                                              size_t node) {
  Around around;
  for (size_t earlier = 0; earlier < node; ++earlier) {
    const TreeNode& made = problem.nodes[earlier];
    for (size_t i = 0; i < made.outputs.size(); ++i) {
      const TreeOutput& output = made.outputs[i];
      if (static_cast<size_t>(output.levels) < node - earlier) continue;
      const Region region{.offset = plans[earlier].offsets[output.buffer],
                          .bytes = made.buffers[output.buffer].bytes};
      const bool given = std::ranges::any_of(problem.given[node], [&](const Given& each) {
        return each.node == earlier && each.output == i;
      });
      if (given)
        around.given.push_back({.region = region, .until = output.last_steps});
      else
        around.live.push_back(region);
    }
  }
  Normalize(around.live);
  return around;
}

absl::StatusOr<int64_t> ChainPlanner::HeightCallByCall(const Problem& problem) {
  std::vector<Plan> plans;
  int64_t height = 0;
  for (size_t i = 0; i < problem.nodes.size(); ++i) {
    std::vector<Buffer> buffers = problem.nodes[i].buffers;
    const Around around = AroundNode(problem, plans, i);
    AppendDonations(around.given, buffers);
    COPPICE_ASSIGN_OR_RETURN(PlannerResult planned, PlanAround(std::move(buffers), around.live));
    height = std::max(height, planned.plan.height);
    plans.push_back(std::move(planned.plan));
  }
  return height;
}

void ChainPlanner::PlanChain(const Chain& chain) {
  std::optional<Problem> problem = ProblemOf(chain);
  if (!problem) return;
  // A plan that cannot be made here is an error of the recording that follows.
  absl::StatusOr<TreePlan> joint = PlanTree(problem->nodes);
  const absl::StatusOr<int64_t> call_by_call = HeightCallByCall(*problem);
  if (!joint.ok() || !call_by_call.ok() || joint->height >= *call_by_call) return;
  planned_ = chain;
  problem_ = *std::move(problem);
  plans_ = std::move(joint->nodes);
}

const Plan* ChainPlanner::FindPlan(const std::vector<Region>& live,
                                   const std::vector<Region>& donated) {
  if (!noting_) return nullptr;
  if (calls_.size() == 1) {
    const auto [first, last] = noted_chains_.equal_range(KeyHash()(calls_.front().key));
    for (auto entry = first; entry != last; ++entry) {
      if (SameBucket(entry->second.front(), calls_[0])) PlanChain(entry->second);
    }
  }
  const size_t index = calls_.size() - 1;
  if (index >= planned_.size() || !SameBucket(planned_[index], calls_[index])) return nullptr;
  const Around around = AroundNode(problem_, plans_, index);
  std::vector<Region> given;
  for (const Donation& each : around.given)
    given.push_back(each.region);
  JoinOverlapping(given);
  return around.live == live && given == donated ? &plans_[index] : nullptr;
}

}  // namespace coppice::internal
