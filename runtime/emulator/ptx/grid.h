// The blocks of a launch, and which of them runs.
//
// Blocks of a cluster start together, and a block that is launched without one is a cluster by
// itself. They start in an order drawn from the seed, among the next few that have not: a block may
// wait for those before it, which then have started or are about to. One that waits makes room for
// others. How long one runs until others do is drawn, too, so that blocks meet each other half
// done.
//
// Threads: one thread runs a launch.

#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "runtime/emulator/ptx/accesses.h"
#include "runtime/emulator/ptx/block.h"
#include "runtime/emulator/ptx/cluster.h"
#include "runtime/emulator/ptx/launch.h"
#include "runtime/emulator/ptx/launch_state.h"
#include "runtime/emulator/ptx/memory.h"
#include "runtime/emulator/ptx/taint_tracker.h"

namespace coppice::ptx {

class Grid {
 public:
  Grid(const Launch& launch, const Environment& environment, WarpOrder order);

  // To be called once.
  Outcome Run();

 private:
  // Whether the launch writes the same bits, and prints nothing, in whatever order warps run.
  bool DoubtfulRacesChangeNothing();
  // Starts the next cluster: returns its first block, and appends the others to `resting`.
  Block* StartNext(std::deque<Block*>& resting);
  int64_t DrawQuantum(const Block& block);

  LaunchState state_;
  std::unique_ptr<Accesses> accesses_;  // Null: nothing is checked.
  std::optional<TaintTracker> taint_;
  Memory memory_;

  std::vector<std::unique_ptr<Cluster>> clusters_;
  std::vector<Cluster*> idle_;   // Of clusters_, those that run no cluster.
  std::vector<uint64_t> drawn_;  // Clusters, the next to start.
  uint64_t drawn_to_ = 0;        // All before have been drawn.
};

}  // namespace coppice::ptx
