// The copies that cp.async.bulk starts, until they land.
//
// A copy to shared memory lands when somebody asks the mbarrier that it completes bytes of, after a
// drawn number of times, and no earlier: code that does not wait reads what was there before. In
// between nobody may look at its bytes. A copy from shared memory reads when its thread waits for
// the group to have read, and writes when the thread waits for the group, or when the block ends.
// One that nobody waits for is lost, as the shared memory that it would read is; so is a load to
// the shared memory of a block that ends. Both are found then.
//
// What is out of bounds of memory is found when a copy starts.
//
// Threads: as Warp; one of these per block.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/emulator/ptx/bulk_box.h"
#include "runtime/emulator/ptx/warp.h"

namespace coppice::ptx {

struct BlockState;

class BulkCopies {
 public:
  // Changes one element in global memory by one of shared memory.
  using Reduce = void (*)(std::byte* to, const std::byte* from);

  // Of one lane of the warp that executes. Both return false if the lane may not; the fault is
  // noted. Addresses of shared memory are offsets. `reduce` is null for a copy. What is loaded goes
  // to a block of the cluster, whose copies these are.
  bool Load(
      Warp& warp, int lane, const BulkBox& box, BlockState& to, uint64_t shared, uint64_t barrier);
  bool Store(Warp& warp, int lane, BulkBox box, uint64_t shared, Reduce reduce);
  // Closes the open groups of the lanes that execute.
  void Commit(Warp& warp);
  // All closed groups of the lanes that execute have read, and unless `reads` written, but the
  // newest `pending`.
  bool Wait(Warp& warp, uint32_t pending, bool reads);
  // Lets the copies land whose mbarrier this is.
  bool Settle(uint64_t barrier);
  // The block ends: writes what was read, and finds what is lost.
  void Finish();
  void Drop();

 private:
  struct Copy {
    Warp* warp = nullptr;  // Of the block whose shared memory it is.
    int lane = 0;
    const Code* code = nullptr;  // Of the instruction that started it, perhaps in another block.
    const Instr* instr = nullptr;
    BulkBox box;
    uint64_t shared = 0;
    std::byte* host = nullptr;  // Of shared[0] of the block.
    uint64_t barrier = 0;       // Of a load, which lands
    uint64_t asks = 0;          // when it has been asked so often.
    Reduce reduce = nullptr;    // Of a store, as the rest.
    uint32_t group = 0;
    bool has_read = false;
    std::vector<std::byte> read;  // What, if it has.
  };
  // Of the stores of a warp: how many groups each lane has closed.
  struct Groups {
    const Warp* warp = nullptr;
    std::array<uint32_t, kLanes> closed = {};
  };

  static void Read(Copy& copy);
  static bool Write(Copy& copy);
  static bool Land(Copy& copy);
  static void ReportLost(const Copy& copy, const char* what);
  Groups& GroupsOf(const Warp& warp);

  std::vector<Copy> loads_;
  std::vector<Copy> stores_;  // In the order in which they were started.
  std::vector<Groups> groups_;
};

}  // namespace coppice::ptx
