// A warp as handlers see it: registers, the lanes that execute, thread memory, faults.
//
// Threads: one thread runs a launch.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "runtime/emulator/ptx/code.h"

namespace coppice::ptx {

struct AsyncWork;

enum class AccessKind : uint8_t {
  kRead,
  kProxyRead,  // By the async proxy, which sees what others wrote behind a fence.proxy.async.
  kWrite,
  kAtomic,
  kBegin,      // A write that happens at any time from now on, until it lands; ...
  kBeginSame,  // ... of the bits that are there as things are.
  kLand,       // It has happened.
};

// An address of each lane: as code has it, or a host's.
using LaneWords = std::array<uint64_t, kLanes>;

class Warp {
 public:
  // The lanes that execute the current instruction: those of the running fragment that its guard
  // lets. Never 0 in a handler.
  uint32_t mask() const { return mask_; }
  // The lanes of the running fragment, whatever the guard says.
  uint32_t active() const { return active_; }
  // The lanes of the warp that have a thread which has not exited.
  uint32_t live() const { return live_; }

  // The 32 lanes of a register; T has its width. Reads of lanes that do not execute are harmless.
  template <typename T>
  const T* From(Slot slot) const {
    return reinterpret_cast<const T*>(areas_[slot.area] + slot.offset);
  }
  template <typename T>
  T* To(Slot slot) {
    return reinterpret_cast<T*>(areas_[slot.area] + slot.offset);
  }
  // Slot i of those from Instr::more on.
  Slot More(const Instr& instr, uint32_t i) const { return slots_[instr.more + i]; }
  // The bits of a predicate.
  uint32_t Predicate(Slot slot) const { return *From<uint32_t>(slot); }
  void SetPredicate(Slot slot, uint32_t bits) {
    uint32_t& predicate = *To<uint32_t>(slot);
    predicate = (predicate & ~mask_) | (bits & mask_);
  }

  // The host bytes of one lane's access to `bytes` bytes at an address of a state space, which is
  // noted. Null: the lane may not; the fault is noted, and the handler returns Step::kStop.
  std::byte* At(Space space, uint64_t address, int64_t bytes, AccessKind kind, int lane) {
    return memory_->At(*this, space, address, bytes, kind, lane);
  }

  // As At, for `lanes` at once: addresses become those of the host. Nothing is noted until it is
  // told. Returns false where At returns null.
  bool FindLanes(
      Space space, uint32_t lanes, int64_t bytes, AccessKind kind, LaneWords& addresses) {
    return memory_->FindLanes(*this, space, lanes, bytes, kind, addresses);
  }
  // Notes accesses to host bytes that were found.
  void Tell(uint32_t lanes, const LaneWords& hosts, int64_t bytes, AccessKind kind) {
    memory_->Tell(*this, lanes, hosts, bytes, kind);
  }

  // Whether an atomic may change these bits of the 32 at the host's bytes, of which a part may
  // belong to nobody. False: the fault is noted.
  bool MayChange(const std::byte* host, uint32_t bits, int lane) {
    return memory_->MayChange(*this, host, bits, lane);
  }

  // Whether anybody looks at what is told.
  bool IsTold() const { return memory_->IsTold(); }

  // For .sync: whether all of `members` that live execute this instruction together; mask() and
  // active() are they then. Else those that do wait here for the others: the handler returns
  // Step::kChoose, and is called again. A lane that is no member of what it executes ends the
  // launch: returns false, and Step::kStop is what `step` says.
  bool Gather(uint32_t members, Step& step) { return control_->Gather(*this, members, step); }

  // Tells what an access gave that may wait for others: a sum of lanes, places and values. Gives
  // what the handler returns.
  Step Poll(const Instr& instr, Space space, uint64_t given) {
    return control_->Poll(instr, space, given);
  }

  // Who resolves addresses, and who moves lanes.
  class MemoryAccess {
   public:
    virtual std::byte* At(
        Warp& warp, Space space, uint64_t address, int64_t bytes, AccessKind kind, int lane) = 0;

    virtual bool FindLanes(Warp& warp,
                           Space space,
                           uint32_t lanes,
                           int64_t bytes,
                           AccessKind kind,
                           LaneWords& addresses) = 0;
    virtual void Tell(
        Warp& warp, uint32_t lanes, const LaneWords& hosts, int64_t bytes, AccessKind kind) = 0;
    virtual bool IsTold() const = 0;
    virtual bool MayChange(Warp& /*warp*/,
                           const std::byte* /*host*/,
                           uint32_t /*bits*/,
                           int /*lane*/) {
      return true;
    }

   protected:
    ~MemoryAccess() = default;
  };
  class Control {
   public:
    virtual bool Gather(Warp& warp, uint32_t members, Step& step) = 0;
    virtual Step Poll(const Instr& instr, Space space, uint64_t given) = 0;

   protected:
    ~Control() = default;
  };

  // What threads of the block have under way.
  AsyncWork& async() { return *async_; }

 protected:
  std::array<std::byte*, kAreas> areas_ = {};
  const Slot* slots_ = nullptr;  // Code::slots of the code that runs.
  uint32_t mask_ = 0;
  uint32_t active_ = 0;
  uint32_t live_ = 0;
  MemoryAccess* memory_ = nullptr;
  Control* control_ = nullptr;
  AsyncWork* async_ = nullptr;
};

}  // namespace coppice::ptx
