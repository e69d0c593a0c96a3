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
#include <unordered_map>
#include <vector>

#include "coppice/allocator/plan.h"
#include "coppice/allocator/tree_plan.h"

#include "graphs/lane/node_tables.h"
#include "graphs/lane/slot_table.h"
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

  // Notes the next call of the open chain, whose number is going to be `number`; `note` says of
  // a chain's first call whether the chain is to be noted at all.
  void Note(const Program& program, const BucketKey& key, uint64_t number, bool note);

  // The plan of the call noted last, around `live`, as part of its chain's; null if there is none.
  const Plan* FindPlan(const std::vector<Region>& live);

 private:
  struct ChainCall {
    const Program* program = nullptr;
    BucketKey key;
    uint64_t number = 0;
    int levels = 0;  // Of calls behind it during which its outputs were leased.
  };
  using Chain = std::vector<ChainCall>;

  static bool SameBucket(const ChainCall& a, const ChainCall& b) {
    return a.program == b.program && a.key == b.key;
  }
  void Begin();
  void Keep();
  void PlanChain(const Chain& chain);

  const SlotTable& slots_;
  const NodeTables& nodes_;
  bool open_ = false;
  bool begun_ = false;
  bool noting_ = false;
  Chain calls_;                                          // Of the open chain, if it is noted.
  std::unordered_multimap<size_t, Chain> noted_chains_;  // By the hash of their first bucket.

  // The joint plan of the open chain, from its first recording on; empty if there is none.
  Chain planned_;
  std::vector<TreeNode> tree_;
  std::vector<Plan> plans_;
};

}  // namespace coppice::internal
