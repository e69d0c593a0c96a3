// A cluster of blocks: they run at the same time, meet at a barrier of their own, and reach each
// other's shared memory.
//
// Threads: one thread runs a launch.

#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "runtime/emulator/ptx/accesses.h"
#include "runtime/emulator/ptx/block.h"
#include "runtime/emulator/ptx/launch_state.h"
#include "runtime/emulator/ptx/memory.h"

namespace coppice::ptx {

class Cluster final : public ClusterState {
 public:
  // `accesses` may be null, as a block's.
  Cluster(LaunchState& state, Memory& memory, Accesses* accesses);
  Cluster(const Cluster&) = delete;
  Cluster& operator=(const Cluster&) = delete;

  // Places the blocks of a cluster of the grid, by its index: x first.
  void Start(uint64_t index);
  const std::vector<std::unique_ptr<Block>>& blocks() const { return blocks_; }
  // One of its blocks has ended. Returns whether it was the last.
  bool EndBlock() { return --running_ == 0; }

  void Arrive(int threads) override;
  void OnExit(int threads, int arrived) override;

 private:
  void OpenIfComplete();

  LaunchState& state_;
  Accesses* accesses_;
  std::vector<std::unique_ptr<Block>> blocks_;  // By rank.
  size_t running_ = 0;
  int live_ = 0;     // Threads.
  int arrived_ = 0;  // In this phase.
};

}  // namespace coppice::ptx
