// Follows taint through the instructions of a launch.
//
// Registers have words as memory does: part p of lane i, which is bits [16 p, 16 p + 16), at
// [p][i]. Control counts too: if a lane's guard depends on padding, so does what the guarded
// instruction writes; if it guards a branch, so does all that the lane writes until the ways of the
// branch meet again.
//
// Threads: one thread runs a launch.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <unordered_map>
#include <vector>

#include "runtime/emulator/ptx/code.h"
#include "runtime/emulator/ptx/frame.h"
#include "runtime/emulator/ptx/join_points.h"
#include "runtime/emulator/ptx/resident_warp.h"
#include "runtime/emulator/ptx/taint.h"
#include "runtime/emulator/ptx/taint_observer.h"
#include "runtime/emulator/ptx/taint_rules.h"

namespace coppice::ptx {

class TaintTracker final : public TaintObserver {
 public:
  explicit TaintTracker(Taint& taint) : taint_(taint) {}

  void Start(const ResidentWarp& warp) override { controls_.erase(&warp); }
  void Start(const Frame& frame) override;
  void Clear(std::span<const std::byte> host) override;
  void Copy(const std::byte* from, const std::byte* to, size_t bytes) override;
  Step Execute(ResidentWarp& warp, const Instr& instr) override;
  void Skip(ResidentWarp& warp, const Instr& instr) override;

 private:
  using Lanes = std::array<TaintWord, kLanes>;
  struct FrameTaint {
    std::vector<TaintWord> registers;                // At half of the offset of a slot.
    std::unordered_map<uint32_t, Lanes> predicates;  // By offset.
  };
  // A branch that depends on padding: so does what its lanes do until its ways meet again.
  struct Control {
    const Frame* frame;
    int depth;      // Of the frame.
    uint32_t join;  // kNoJoin: nowhere.
    uint32_t lanes;
    Lanes words;
  };
  // What a branch decides: what is written behind it, on any way.
  struct Branch {
    uint32_t join;
    std::vector<TaintWritten> written;
    bool stores;
  };
  // What an instruction writes once it has been executed.
  struct Write {
    static constexpr size_t kPartsMax = 8;
    Slot slot;
    TaintOperand to;
    std::array<Lanes, kPartsMax> parts;
  };

  // --- registers
  TaintWord Read(const TaintOperand& operand, Slot slot, int part, int lane) const;
  void ReadAll(const TaintOperand& operand, Slot slot, int lane, JoinedTaint& joined) const;
  bool IsTainted(const TaintOperand& operand, Slot slot) const;
  // Whether what the instruction reads is, or its guard.
  bool IsAnyTainted(const TaintRule& rule) const;
  Write& Writes(Slot slot, const TaintOperand& to);
  void WriteAll(const TaintRule& rule, const Lanes& words);
  void Commit(uint32_t lanes);

  // --- one instruction, of the warp
  void Begin(ResidentWarp& warp, const Instr& instr, const TaintRule& rule);
  Slot SlotOf(size_t index) const;
  TaintWord Finish(const JoinedTaint& joined, int lane);
  TaintWord Stored(TaintWord word, int lane);  // With a meeting, if it is padding.
  TaintWord Meeting(int lane);
  // What a lane does depends on the guard, and on its control.
  void Guard(int lane, JoinedTaint& joined) const {
    if (is_guarded_) joined.Add(guard_[static_cast<size_t>(lane)]);
  }
  // Begins the control of a branch whose guard, or index, is tainted.
  void TakeBranch();
  const Branch& BranchAt(const Code& code);
  // Joins the words of the branches that lanes are behind. Forgets those that have ended.
  void TakeControl();
  // What lanes would write into memory that the guard keeps out.
  void StoreKeptOut(const TaintRule& rule, uint32_t lanes);
  // Notes what the instruction writes. False: an access faults.
  bool Follow(const TaintRule& rule);
  void FollowLanes(const TaintRule& rule);
  void FollowParts(const TaintRule& rule);
  void FollowPack(const TaintRule& rule);
  void FollowPermute(const TaintRule& rule);
  void FollowMove(const TaintRule& rule);
  void FollowConvert();
  void FollowWarp(const TaintRule& rule);
  void FollowMatrix(const TaintRule& rule);
  bool FollowLoad(const TaintRule& rule);
  bool FollowStore(const TaintRule& rule);
  bool FollowAtomic(const TaintRule& rule);
  bool FollowMatrices(const TaintRule& rule);
  bool FollowCopy();
  Step Shuffle(const TaintRule& rule);
  // What decides that a lane accesses memory, and where, by the address in slot a.
  JoinedTaint PlaceOf(const TaintOperand& base, int lane) const;
  // Memory that padding decides the place of cannot be followed. True: it does.
  bool CheckPlace(const TaintOperand& base, Slot slot, int lane);
  // Of a load or a store: what it writes or reads.
  int ElementsOf() const;
  Slot ElementSlot(int element) const;
  TaintOperand ElementRegister(bool written) const;
  // Host addresses of what lanes access by the address of a load or store. False: a fault.
  bool FindAccess(int64_t bytes, AccessKind kind, LaneWords& hosts) const;
  void AddMemory(uint64_t host, int bytes, JoinedTaint& joined) const;
  // 16 bits of an operand, or whether a predicate holds: 0 or 0xffff.
  uint16_t ValueOf(const TaintOperand& operand, Slot slot, int part, int lane) const;
  bool IsZero(const TaintOperand& operand, Slot slot, int lane) const;

  Taint& taint_;
  std::unordered_map<const Frame*, FrameTaint> frames_;
  std::unordered_map<const ResidentWarp*, std::vector<Control>> controls_;
  std::unordered_map<const Instr*, Branch> branches_;
  std::unordered_map<const Code*, std::vector<uint32_t>> joins_;
  std::unordered_map<const Instr*, TaintWord> meetings_;

  ResidentWarp* warp_ = nullptr;
  const Instr* instr_ = nullptr;
  FrameTaint* registers_ = nullptr;
  Lanes guard_ = {};         // And the lane's control.
  bool is_guarded_ = false;  // There is a word of it.
  std::deque<Write> writes_;
  size_t write_count_ = 0;
};

}  // namespace coppice::ptx
