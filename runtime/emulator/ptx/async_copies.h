// The copies that cp.async starts, until they land.
//
// A thread's copies land when it waits for their group, and no earlier: code that does not wait
// reads what was there before. A copy reads its source when it lands, so that a source that is
// written meanwhile shows too. Both addresses are checked and noted when it starts. It is told when
// it begins to write and when it has landed: in between nobody may look at its bytes.
//
// cp.async.mbarrier.arrive leaves an arrival behind the copies that its thread started before. They
// land, and it happens, when somebody asks that mbarrier, or when the thread waits for them: an
// atomic operation of that thread.
//
// Copies that nobody waits for never land.
//
// Threads: as Warp; one of these per block.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/emulator/ptx/warp.h"

namespace coppice::ptx {

class AsyncCopies {
 public:
  // What the lanes copy: `bytes` each, to shared memory; of them `read` from global memory, and 0
  // behind.
  struct Copy {
    LaneWords to;
    LaneWords from;  // Not looked at where nothing is read.
    std::array<uint8_t, kLanes> read;
    uint8_t bytes = 0;  // 4, 8 or 16.
  };

  AsyncCopies();
  ~AsyncCopies();

  // Adds the copies of the lanes that execute to their open groups. Returns false, as all of these,
  // if a lane may not; the fault is noted.
  bool Start(Warp& warp, const Copy& copy);
  // Closes the open groups of the lanes that execute.
  void Commit(Warp& warp);
  // All closed groups of the lanes that execute land, but the newest `pending`.
  bool Wait(Warp& warp, uint32_t pending);
  // Leaves an arrival of each lane that executes, at the mbarrier that is at `addresses`.
  void Arrive(Warp& warp, Space space, const LaneWords& addresses);
  // Drops what never landed, of all warps.
  void Drop();
  // Lets arrivals at an mbarrier happen, of whatever warp.
  bool Settle(Space space, uint64_t address);

 private:
  struct Queue;

  Queue& QueueOf(Warp& warp);

  std::vector<std::unique_ptr<Queue>> queues_;  // Of the warps that have copied.
  bool arrivals_ = false;                       // Some arrival may be left.
};

}  // namespace coppice::ptx
