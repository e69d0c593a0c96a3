// Plans of whole chains, from what a chain did when it was run without graphs. Private to graphs/.
//
// A graph that is planned when its call comes along cannot know which outputs before it are about
// to be dropped. The first pass of a chain, whose calls warm up, tells which
// programs follow each other and how long their outputs are leased. When the chain's first graph is
// recorded, all of them are planned together, and the recordings that follow take their parts of
// that plan for as long as the chain does what it did before. If planning call by call gives no
// higher window, nothing is kept.
//
// Threads: under the lane's lock.

#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "absl/status/statusor.h"

#include "coppice/allocator/plan.h"
#include "coppice/allocator/tree_plan.h"

#include "graphs/lane/node_tables.h"
#include "graphs/lane/slot_table.h"
#include "graphs/node/allocation_script.h"
#include "graphs/node/node_key.h"
#include "graphs/node/region.h"

namespace coppice::internal {

class ChainPlanner {
 public:
  // Of a lane, whose slots and nodes these are; both outlive it.
  ChainPlanner(const SlotTable& slots, const NodeTables& nodes) : slots_(slots), nodes_(nodes) {}

  // A chain begins, and ends. Throw nothing.
  void Open();
  void Close();
  bool open() const { return open_; }
  bool begun() const { return begun_; }  // The open chain had a call.

  // An output that a call is given and reads: `output` of call `number`, as input `input` of the
  // spec.
  struct Gift {
    uint64_t number = 0;
    size_t output = 0;
    int input = 0;
  };

  // A call of the open chain is about to run, whose number is going to be `number`: if the one
  // noted last has it, that one failed, and is forgotten.
  void Reach(uint64_t number);

  // Notes that call; `note` says of a chain's first call whether the chain is to be noted at all.
  void Note(const Program& program,
            const BucketKey& key,
            uint64_t number,
            bool note,
            std::vector<Gift> gifts);

  // The plan of the call noted last, around `live` and what it is given, as part of its chain's;
  // null if there is none.
  const Plan* FindPlan(const std::vector<Region>& live, const std::vector<Region>& donated);

 private:
  struct ChainCall {
    const Program* program = nullptr;
    BucketKey key;
    uint64_t number = 0;
    std::vector<int> levels;  // Per output: of calls behind it during which it was leased.
    std::vector<Gift> gifts;  // Of calls before it.
  };
  using Chain = std::vector<ChainCall>;
  // A chain as the planner sees it.
  struct Given {
    size_t node = 0;
    size_t output = 0;  // Index into its node's outputs.
  };
  struct Problem {
    std::vector<TreeNode> nodes;
    std::vector<std::vector<Given>> given;  // Per node: of nodes before it.
  };

  static bool SameBucket(const ChainCall& a, const ChainCall& b) {
    return a.program == b.program && a.key == b.key;
  }
  void Begin();
  void Keep();
  // Nothing if a bucket of it is not known well enough, or it is too large.
  std::optional<Problem> ProblemOf(const Chain& chain) const;
  void PlanChain(const Chain& chain);
  // Where the outputs of the nodes before `node` lie that live during it, but for those it is
  // given; and those, each for its steps.
  struct Around {
    std::vector<Region> live;
    std::vector<Donation> given;
  };
  static Around AroundNode(const Problem& problem, const std::vector<Plan>& plans, size_t node);
  // The window's height if every node is planned when its call comes along.
  static absl::StatusOr<int64_t> HeightCallByCall(const Problem& problem);

  const SlotTable& slots_;
  const NodeTables& nodes_;
  bool open_ = false;
  bool begun_ = false;
  bool noting_ = false;
  Chain calls_;                                          // Of the open chain, if it is noted.
  std::unordered_multimap<size_t, Chain> noted_chains_;  // By the hash of their first bucket.

  // The joint plan of the open chain, from its first recording on; empty if there is none.
  Chain planned_;
  Problem problem_;
  std::vector<Plan> plans_;
};

}  // namespace coppice::internal
