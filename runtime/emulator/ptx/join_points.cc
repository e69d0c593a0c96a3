// Post-dominators of blocks, as Cooper, Harvey and Kennedy find them.

#include "runtime/emulator/ptx/join_points.h"

#include <algorithm>
#include <numeric>
#include <string_view>
#include <utility>

#include "runtime/emulator/ptx/form_table.h"

namespace coppice::ptx {
namespace {

enum class Flow : uint8_t { kOn, kBranch, kIndexed, kEnd };

Flow FlowOf(const Instr& instr) {
  const std::string_view name = AllForms()[instr.form].name;
  if (name == "bra") return Flow::kBranch;
  if (name == "brx.idx") return Flow::kIndexed;
  return name == "ret" || name == "exit" || name == "trap" ? Flow::kEnd : Flow::kOn;
}

// A function's blocks, with one more at the end that everything leads to.
class Blocks {
 public:
  explicit Blocks(const Code& code) : code_(code) {
    const auto count = static_cast<uint32_t>(code.instrs.size());
    std::vector<bool> begins(count + 1);
    begins[0] = true;
    for (uint32_t i = 0; i < count; ++i) {
      flows_.push_back(FlowOf(code.instrs[i]));
      if (flows_[i] == Flow::kOn) continue;
      begins[i + 1] = true;
      for (const uint32_t target : TargetsOf(i))
        begins[target] = true;
    }
    for (uint32_t i = 0; i < count; ++i) {
      if (begins[i]) firsts_.push_back(i);
      block_of_.push_back(static_cast<uint32_t>(firsts_.size()) - 1);
    }
  }

  uint32_t end() const { return static_cast<uint32_t>(firsts_.size()); }
  uint32_t first(uint32_t block) const { return firsts_[block]; }
  uint32_t last(uint32_t block) const {
    return (block + 1 < end() ? firsts_[block + 1] : static_cast<uint32_t>(code_.instrs.size())) -
           1;
  }
  Flow FlowAt(uint32_t instr) const { return flows_[instr]; }

  std::vector<uint32_t> Successors(uint32_t block) const {
    const uint32_t instr = last(block);
    std::vector<uint32_t> successors;
    for (const uint32_t target : TargetsOf(instr))
      successors.push_back(block_of_[target]);
    const bool guarded = code_.instrs[instr].guard != Instr::kUnguarded;
    if (flows_[instr] == Flow::kEnd) successors.push_back(end());
    if (flows_[instr] == Flow::kOn || guarded) successors.push_back(block + 1);  // Or end().
    return successors;
  }

 private:
  std::vector<uint32_t> TargetsOf(uint32_t instr) const {
    if (flows_[instr] == Flow::kBranch) return {code_.instrs[instr].target};
    if (flows_[instr] == Flow::kIndexed) return code_.target_lists[code_.instrs[instr].target];
    return {};
  }

  const Code& code_;
  std::vector<Flow> flows_;         // Of instructions.
  std::vector<uint32_t> firsts_;    // Of blocks.
  std::vector<uint32_t> block_of_;  // Of instructions.
};

// Blocks from the end backwards, each behind those that it leads to, but for loops.
std::vector<uint32_t> OrderFromEnd(const std::vector<std::vector<uint32_t>>& predecessors,
                                   uint32_t end) {
  std::vector<uint32_t> order;  // Backwards.
  std::vector<bool> seen(end + 1);
  std::vector<std::pair<uint32_t, size_t>> path = {{end, 0}};
  seen[end] = true;
  while (!path.empty()) {
    auto& [block, next] = path.back();
    if (next == predecessors[block].size()) {
      order.push_back(block);
      path.pop_back();
      continue;
    }
    const uint32_t predecessor = predecessors[block][next++];
    if (seen[predecessor]) continue;
    seen[predecessor] = true;
    path.emplace_back(predecessor, 0);
  }
  std::ranges::reverse(order);
  return order;
}

}  // namespace

std::vector<uint32_t> JoinPoints(const Code& code) {
  const Blocks blocks(code);
  const uint32_t end = blocks.end();
  std::vector<std::vector<uint32_t>> predecessors(end + 1);
  for (uint32_t block = 0; block < end; ++block)
    for (const uint32_t successor : blocks.Successors(block))
      predecessors[successor].push_back(block);
  const std::vector<uint32_t> order = OrderFromEnd(predecessors, end);
  std::vector<uint32_t> rank(end + 1, kNoJoin);  // Of blocks that lead to the end.
  for (uint32_t i = 0; i < order.size(); ++i)
    rank[order[i]] = i;
  std::vector<uint32_t> joins(end + 1, kNoJoin);  // A block's next that all its ways come to.
  joins[end] = end;
  for (bool changed = true; changed;) {
    changed = false;
    for (const uint32_t block : order) {
      if (block == end) continue;
      uint32_t join = kNoJoin;
      for (uint32_t successor : blocks.Successors(block)) {
        if (joins[successor] == kNoJoin) continue;  // Not known yet, or it never ends.
        if (join == kNoJoin) {
          join = successor;
          continue;
        }
        while (join != successor) {
          if (rank[join] > rank[successor])
            join = joins[join];
          else
            successor = joins[successor];
        }
      }
      changed = changed || joins[block] != join;
      joins[block] = join;
    }
  }
  std::vector<uint32_t> by_instr(code.instrs.size(), kNoJoin);
  for (uint32_t block = 0; block < end; ++block) {
    const uint32_t instr = blocks.last(block);
    if (blocks.FlowAt(instr) == Flow::kOn || joins[block] == kNoJoin || joins[block] == end)
      continue;
    by_instr[instr] = blocks.first(joins[block]);
  }
  return by_instr;
}

std::vector<uint32_t> InstructionsBetween(const Code& code, uint32_t branch, uint32_t join) {
  std::vector<bool> seen(code.instrs.size() + 1);
  std::vector<uint32_t> found;
  std::vector<uint32_t> next;
  const auto add = [&](uint32_t instr) {
    if (instr >= code.instrs.size() || instr == join || seen[instr]) return;
    seen[instr] = true;
    found.push_back(instr);
    next.push_back(instr);
  };
  const auto add_behind = [&](uint32_t at) {
    const Instr& instr = code.instrs[at];
    const Flow flow = FlowOf(instr);
    if (flow == Flow::kOn || instr.guard != Instr::kUnguarded) add(at + 1);
    if (flow == Flow::kBranch) add(instr.target);
    if (flow == Flow::kIndexed) std::ranges::for_each(code.target_lists[instr.target], add);
  };
  add_behind(branch);
  while (!next.empty()) {
    const uint32_t at = next.back();
    next.pop_back();
    add_behind(at);
  }
  return found;
}

}  // namespace coppice::ptx
