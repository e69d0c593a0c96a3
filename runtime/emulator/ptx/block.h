// A resident block: its warps, its shared memory, and its barriers.
//
// Units: bytes. Threads: one thread runs a launch.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/emulator/ptx/accesses.h"
#include "runtime/emulator/ptx/async_work.h"
#include "runtime/emulator/ptx/block_state.h"
#include "runtime/emulator/ptx/launch_state.h"
#include "runtime/emulator/ptx/memory.h"
#include "runtime/emulator/ptx/resident_warp.h"

namespace coppice::ptx {

class Block final : public ResidentWarp::Barriers {
 public:
  // What is accessed is told to `accesses`, if that is not null.
  Block(LaunchState& state, Memory& memory, Accesses* accesses);
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  // Places the threads of the block at `position` in the grid, which is at `in_cluster` in the
  // cluster at `cluster` among clusters.
  void Start(const std::array<unsigned, 3>& position,
             const std::array<unsigned, 3>& cluster,
             const std::array<unsigned, 3>& in_cluster);
  // Runs until it rests; kQuantum is after about so many instructions, or when it gives way.
  Rest Run(int64_t instructions);
  // Whether it waited in a loop when it ran last.
  bool waits_in_loop() const { return waits_in_loop_; }

  BlockState& state() { return block_; }
  // Threads that wait at the cluster's barrier go on.
  void OpenClusterBarrier();

  // Notes, as what ends the launch, that it waits for what never happens.
  void FaultDeadlock() const;

 private:
  struct Barrier {
    bool waited = true;  // All who arrived wait.
    BlockOrder::Knowledge knowledge = {};
    int arrived = 0;
    int expected = 0;    // 0: all that have not exited.
    int population = 0;  // Predicates that held.
  };

  Step Arrive(
      ResidentWarp& warp, int barrier, int threads, bool waits, uint32_t predicate) override;
  Step ArriveAtCluster(ResidentWarp& warp) override;
  Step WaitForCluster(ResidentWarp& warp) override;
  void OnExit(ResidentWarp& warp) override;
  // Lanes of a warp have waited at the cluster's barrier.
  void LeaveCluster(const ResidentWarp& warp, uint32_t lanes);
  Rest RunWarps(int64_t instructions);
  void OpenIfComplete(int barrier);
  static void Finish(const Barrier& barrier, const Fragment& fragment);
  // A warp that waits; null if none does.
  const ResidentWarp* FindWaiting() const;
  // Who waits where.
  std::string DescribeWaiting() const;
  std::string Describe(const ResidentWarp& warp, const Fragment& fragment) const;

  LaunchState& state_;
  Accesses* accesses_;
  AsyncWork async_;
  BlockState block_;
  int live_ = 0;
  bool waits_in_loop_ = false;
  std::vector<std::byte> shared_;
  std::array<Barrier, kCount> barriers_;
  // By thread: one more than the phase of the cluster's barrier that it has arrived in, and not
  // waited for; 0: none.
  std::vector<uint64_t> arrived_in_;
  std::vector<std::unique_ptr<ResidentWarp>> warps_;
  std::vector<size_t> order_;  // Of warps_, as they run.
  std::vector<Rest> rests_;
};

}  // namespace coppice::ptx
