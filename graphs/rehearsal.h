// Plans of whole chains, from what a chain did when it was run without graphs. Private to graphs/.
//
// A graph that is planned when its call comes along cannot know which outputs before it are about
// to be dropped. The first pass of a chain, whose calls warm up, is its rehearsal: it tells which
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

#include "graphs/node.h"

namespace coppice::internal {

struct Lane;

class Rehearsal {
 public:
  // A chain begins, and ends. Throw nothing.
  void Open();
  void Close();

  // Notes the next call of the open chain, whose number is going to be `number`; `rehearse` says of
  // a chain's first call whether the chain is to be noted at all.
  void Note(const Lane& lane,
            const Program& program,
            const BucketKey& key,
            uint64_t number,
            bool rehearse);
  bool begun() const { return begun_; }  // The open chain had a call.

  // The plan of the call noted last, around `live`, as part of its chain's; null if there is none.
  const Plan* FindPlan(const Lane& lane, const std::vector<Region>& live);

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
  void Keep();
  void PlanChain(const Lane& lane, const Chain& chain);

  bool begun_ = false;
  bool noting_ = false;
  Chain calls_;                                       // Of the open chain, if it is noted.
  std::unordered_multimap<size_t, Chain> rehearsed_;  // By the hash of their first bucket.

  // The joint plan of the open chain, from its first recording on; empty if there is none.
  Chain planned_;
  std::vector<TreeNode> nodes_;
  std::vector<Plan> plans_;
};

}  // namespace coppice::internal
