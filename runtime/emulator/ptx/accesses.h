// What a launch accesses, and what is wrong about it: races, reads of what nobody wrote.
//
// Every access to global and shared memory is told, and every event that orders them. Memory is
// looked at in granules: as small as the narrowest store of the kernel, so that neighbours that two
// threads write are told apart. A store of the bits that are there already changes nothing and
// races with nobody, and lanes that store by one instruction do not race with each other: one of
// them wins. In global memory what a warp does together is ordered before what it does later.
// Atomic operations and accesses that are volatile, relaxed or stronger order what is around them,
// and do not race among themselves. A cp.async writes at any time until it is waited for, so that
// nobody may look at its bytes before.
//
// Units: bytes. Threads: one thread runs a launch.

#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/emulator/ptx/actor.h"
#include "runtime/emulator/ptx/block_state.h"
#include "runtime/emulator/ptx/launch.h"
#include "runtime/emulator/ptx/launch_state.h"
#include "runtime/emulator/ptx/observer.h"
#include "runtime/emulator/ptx/order.h"
#include "runtime/emulator/ptx/resident_warp.h"
#include "runtime/emulator/ptx/shadow.h"

namespace coppice::ptx {

class Accesses final : public AccessObserver {
 public:
  // Null: nothing is to be checked.
  static std::unique_ptr<Accesses> Create(LaunchState& state);

  void Note(ResidentWarp& warp, std::byte* host, int64_t bytes, AccessKind kind, int lane) override;
  void Read(ResidentWarp& warp, const Reach& reach, int64_t bytes, bool strong) override;
  void Write(ResidentWarp& warp,
             const Reach& reach,
             int64_t bytes,
             const std::byte* values,
             bool strong) override;
  void Copy(ResidentWarp& warp,
            uint32_t lanes,
            const LaneWords& hosts,
            int64_t bytes,
            AccessKind kind) override;
  void ReadByProxy(ResidentWarp& warp,
                   uint32_t lanes,
                   const LaneWords& hosts,
                   int64_t bytes) override;
  void LandByProxy(ResidentWarp& warp, const std::byte* host, int64_t bytes) override;

  // Events that order accesses.
  void Start(BlockState& block);
  void MeetAll(BlockState& block);
  void MeetCluster(const std::vector<BlockState*>& blocks);
  void Arrive(ResidentWarp& warp, BlockOrder::Knowledge& barrier);
  void Depart(ResidentWarp& warp, const BlockOrder::Knowledge& barrier);
  void MeetInWarp(ResidentWarp& warp) override;
  void FenceProxy(ResidentWarp& warp) override;

  void Finish(Outcome& outcome);
  // What the launch has written, if races are checked. To be called once, behind Finish.
  LaunchWrites TakeWrites() { return shadow_.TakeWrites(); }

 private:
  // Bytes of shared memory, by their offset, or of global memory.
  struct Access {
    Space space;
    uint64_t address;
    uint64_t bytes;
  };
  struct Location {
    Space space;
    uint64_t address;
  };
  // A lane's write. Where `before` is null, bits may be others without having changed.
  struct Change {
    Access access;
    const std::byte* before = nullptr;
    const std::byte* after = nullptr;
  };
  // Bytes that a handler may write, as they were when it asked.
  struct Pending {
    const std::byte* host = nullptr;
    uint64_t bytes = 0;
    int lane = 0;
    std::array<std::byte, 16> before = {};
  };
  enum class Clash : uint8_t { kReadsWritten, kWritesWritten, kWritesRead, kReadsUnfenced };

  Accesses(LaunchState& state, int shift);

  static Actor ActorOf(ResidentWarp& warp);
  static Actor ActorOf(ResidentWarp& warp, uint32_t now);
  void Acquire(Actor& actor, Space space);
  void Release(Actor& actor, Space space);
  // Global memory, memory of the block, kLocal or kParam: neither.
  Location LocationOf(const Actor& actor, const std::byte* host) const;
  // Where all lanes are: kShared, kGlobal, or kGeneric, which each of them has to be asked for.
  Space SpaceOf(const Actor& actor, const Reach& reach, uint64_t bytes) const;
  // Of an access, which is aligned.
  size_t GranulesOf(uint64_t bytes) const {
    return std::max(static_cast<size_t>(bytes >> shift_), size_t{1});
  }

  // Of a lane. A read that is not kept clashes with no later write.
  void ReadLane(Actor& actor, const std::byte* host, uint64_t bytes, bool keep);
  void ReadGlobal(Actor& actor, uint64_t address, uint64_t bytes, bool keep);
  void ReadShared(Actor& actor, uint64_t offset, uint64_t bytes, bool keep);
  // Of the lanes of one instruction all changes are checked before any is kept.
  Change ChangeOf(const Actor& actor,
                  const std::byte* host,
                  uint64_t bytes,
                  const std::byte* before,
                  const std::byte* after) const;
  void CheckChange(Actor& actor, const Change& change);
  void CheckGlobalChange(Actor& actor, const Change& change);
  void CheckSharedChange(Actor& actor, const Change& change);
  void KeepChange(Actor& actor, const Change& change);
  // Of host bytes that a lane is about to write.
  void BeginWrite(const Actor& actor, const std::byte* host, uint64_t bytes);
  void KeepGlobalChange(Actor& actor, const Change& change);
  void KeepSharedChange(Actor& actor, const Change& change);
  // Whose a granule is that lanes of one instruction have changed, of which any may have won.
  static Stamp SeveralOf(const Actor& actor) { return {actor.now, Stamp::kSeveral}; }
  void CheckWritten(Actor& actor, uint64_t offset, uint64_t bytes);
  // Of bytes that the launch has not written.
  void AskWritten(Actor& actor, GlobalShadow::Page& page, uint64_t address, uint64_t bytes);
  void ReportUnwritten(Actor& actor, const Access& access);
  // That what is read by the async proxy was written by it, or fenced.
  void CheckFenced(Actor& actor, uint64_t offset, uint64_t bytes);
  // A copy to shared memory: from here on it may write.
  void BeginCopy(Actor& actor, uint64_t offset, uint64_t bytes, bool changes);

  // Of all lanes, one behind the other. Returns false, having done nothing, if there may be
  // something to find.
  bool ReadRow(Actor& actor, const Reach& reach, uint64_t bytes);
  // Of the lanes that execute, wherever they are: in shared memory, in global, or anywhere.
  void ReadSharedLanes(Actor& actor, const Reach& reach, uint64_t bytes, bool keep);
  void ReadGlobalLanes(Actor& actor, const Reach& reach, uint64_t bytes, bool keep);
  bool WriteRow(Actor& actor, const Reach& reach, uint64_t bytes, const std::byte* values);
  void WriteLanes(Actor& actor, const Reach& reach, uint64_t bytes, const std::byte* values);

  bool IsChecked(Space space) const;
  void Settle();
  static bool IsBefore(const Actor& actor, Stamp stamp);  // In the block.
  bool IsBefore(const Actor& actor, Visitor visitor) const;
  // Who has read, once the actor has too.
  Visitor Joined(const Actor& actor, Visitor reader) const;
  static Visitor InBlock(const Actor& actor, Stamp stamp);
  void ReportRace(Actor& actor,
                  const Access& access,
                  Clash clash,
                  Visitor other,
                  Finding::Kind kind = Finding::Kind::kRace);

  LaunchState& state_;
  bool races_;
  bool record_;
  bool uninitialized_;
  bool asks_written_;  // Of global memory.
  int shift_;          // A granule has 1 << shift_ bytes.
  GlobalShadow shadow_;
  GridOrder order_;
  // What a handler has asked to write, until something else happens.
  ResidentWarp* pending_warp_ = nullptr;
  const Code* pending_code_ = nullptr;
  const Instr* pending_instr_ = nullptr;
  int64_t pending_clock_ = 0;
  bool pending_together_ = false;
  std::vector<Pending> pending_;
  // The atomic operation whose lanes are told, until something else is.
  struct AtomicTurn {
    const ResidentWarp* warp = nullptr;
    int64_t clock = 0;
    Space space = Space::kGeneric;
    uint32_t now = 0;
  };
  AtomicTurn atomic_;
};

}  // namespace coppice::ptx
