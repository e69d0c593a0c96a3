// A warp of a resident block: lanes that part, wait, call and meet again.
//
// Its lanes are in *fragments*: those of one fragment are at the same instruction of the same
// frame, and execute it together. The fragment with the deepest frame runs first, of these the one
// at the lowest instruction, so that lanes meet where their paths do. That order could starve a
// lane for which others spin, so fragments also take turns.
//
// Threads: one thread runs a launch.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "runtime/emulator/ptx/block_state.h"
#include "runtime/emulator/ptx/code.h"
#include "runtime/emulator/ptx/findings.h"
#include "runtime/emulator/ptx/frame.h"
#include "runtime/emulator/ptx/launch_state.h"
#include "runtime/emulator/ptx/observer.h"
#include "runtime/emulator/ptx/special.h"
#include "runtime/emulator/ptx/warp.h"

namespace coppice::ptx {

struct Fragment {
  enum class State : uint8_t { kReady, kGather, kBarrier, kWarpBarrier };

  uint32_t mask = 0;
  uint32_t pc = 0;
  Frame* frame = nullptr;
  State state = State::kReady;
  bool resting = false;      // Sleeps, or spins: others go first.
  bool spinning = false;     // Was seen twice in the same state.
  int barrier = 0;           // That it waits at.
  uint32_t members = 0;      // That it waits for, of the warp.
  int64_t last_turn = 0;     // When it was chosen last, in executed instructions.
  uint64_t fingerprint = 0;  // Of its registers when it slept last.
};

// Why a warp, or a block, stopped to run.
enum class Rest : uint8_t {
  kDone,
  kEnded,     // The launch has.
  kWaiting,   // Every lane does, for another of its block.
  kSpinning,  // Every lane that does not wait executes the same again and again.
  kSlept,     // As kSpinning; some may go on by themselves.
  kQuantum,
};

class ResidentWarp final : public Warp, private Warp::Control {
 public:
  // What a warp asks of its block.
  class Barriers {
   public:
    // What a barrier does for each of those that wait there.
    enum class Result : uint8_t { kNone, kAll, kAny, kCount };
    static constexpr uint8_t kResultMask = 0x03;  // In the flags of instructions that arrive.
    static constexpr int kCount = 16;
    static constexpr int kClusterBarrier = kCount;

    // Lanes that execute arrive at a barrier: `threads` of the block do before it opens, 0: all
    // that have not exited. Where bits of `predicate` are set, the lane's counts.
    virtual Step Arrive(
        ResidentWarp& warp, int barrier, int threads, bool waits, uint32_t predicate) = 0;
    // Lanes that execute arrive at the barrier of the cluster; they wait until it opens.
    virtual Step ArriveAtCluster(ResidentWarp& warp) = 0;
    virtual Step WaitForCluster(ResidentWarp& warp) = 0;
    // The lanes that execute exit.
    virtual void OnExit(ResidentWarp& warp) = 0;

   protected:
    ~Barriers() = default;
  };

  // What is accessed is told to `observer`, if that is not null.
  ResidentWarp(LaunchState& state,
               BlockState& block,
               Barriers& barriers,
               MemoryAccess& memory,
               AccessObserver* observer);
  ResidentWarp(const ResidentWarp&) = delete;
  ResidentWarp& operator=(const ResidentWarp&) = delete;

  // Sets what is the same for warp `index` of every block.
  void InitializeSpecial(int index, int warps);
  // Where a block is: in the grid, its cluster among clusters, and in there.
  struct Position {
    std::array<unsigned, 3> block;
    std::array<unsigned, 3> cluster;
    std::array<unsigned, 3> in_cluster;
  };
  // Places the threads of the lanes of `lanes` of a block at the kernel's beginning.
  void Start(const Position& at, uint32_t lanes);
  // Runs until it rests; kQuantum is after about so many instructions.
  Rest Run(int64_t instructions);

  LaunchState& state() { return state_; }
  BlockState& block() { return block_; }
  Barriers& barriers() { return barriers_; }
  MemoryAccess& memory() { return *memory_; }
  AccessObserver* observer() { return observer_; }
  int index() const { return index_; }
  int ThreadOf(int lane) const { return index_ * kLanes + lane; }
  const SpecialRegisters& special() const { return special_; }
  SpecialRegisters& special() { return special_; }
  // The instruction that is executed, and the frame.
  const Instr& instr() const { return *at_; }
  Frame& frame() const { return *frame_; }
  // Its code; of a warp whose lanes have all exited, which copies may outlive, the kernel's.
  const Code& code() const { return frame_ == nullptr ? *state_.kernel.code : *frame_->code; }
  // Instructions that warps of the launch have executed before it, as the clock of all.
  int64_t Clock() const {
    return state_.counts.instructions + executed_ + (at_ - run_begin_) - counted_;
  }

  Whereabouts WhereIs(int lane) const { return WhereIs(lane, code(), *at_); }
  Whereabouts WhereIs(int lane, const Code& code, const Instr& instr) const;
  // Notes that a lane ends the launch.
  void Fault(Finding::Kind kind, int lane, std::string message, uint64_t address = 0) {
    state_.findings.Fault(kind, WhereIs(lane), std::move(message), address);
  }

  // Whether all of its lanes are at the instruction that is executed, and none has gone a way of
  // its own since they met.
  bool IsTogether() const { return active_ == live_ && !parted_; }

  // Whether host bytes are shared memory of another block of the cluster.
  bool IsOfCluster(const std::byte* host) const;

  // The thread memory of lane 0, and the bytes to that of the next.
  std::byte* thread_memory() { return thread_memory_.data(); }
  int64_t thread_stride() const { return thread_stride_; }
  // The bytes of it that calls of a frame use, and those of its callers.
  static int64_t ThreadBytes(const Frame& frame) { return frame.memory + frame.code->thread_bytes; }

  // What handlers of control flow do to the lanes that execute; each is what the handler returns.
  Step Branch(uint32_t target) {
    if (mask_ == active_) [[likely]] {
      fragments_[running_].pc = target;
      return Step::kChoose;
    }
    return BranchApart(target);
  }
  Step Return();
  Step Exit();
  // Others go first.
  Step Sleep();
  // The same; of other blocks, too, unless it is shared memory that gives the same again and again.
  Step Poll(const Instr& instr, Space space, uint64_t given) override;
  // Waits until all of `members` do, wherever they are.
  Step WaitForWarp(uint32_t members);
  // Waits at a barrier of the block.
  Step WaitAtBarrier(int barrier);
  // Only these of the lanes that execute do it; the others will, on their own.
  void Restrict(uint32_t lanes);
  // Makes a call of the lanes of `lanes`, which execute, and go on in it; other lanes that
  // execute have yet to be moved by another of these. Returns false after it has noted a fault.
  bool Call(const Code& callee, const CallSite& site, uint32_t lanes);

  const std::array<Fragment, kLanes>& fragments() const { return fragments_; }
  int fragment_count() const { return count_; }
  // Those that wait at a barrier go on; `finish` is called with each before.
  template <typename Finish>
  void Release(int barrier, const Finish& finish) {
    for (int i = 0; i < count_; ++i) {
      Fragment& fragment = fragments_[static_cast<size_t>(i)];
      if (fragment.state != Fragment::State::kBarrier || fragment.barrier != barrier) continue;
      finish(fragment);
      fragment.state = Fragment::State::kReady;
      ++fragment.pc;
      parted_ = parted_ && fragment.mask != live_;
    }
  }

 private:
  template <bool follows_taint>
  Step Execute(const Instr& instr);
  template <bool follows_taint>
  Rest RunAs(int64_t instructions);
  bool Gather(Warp& warp, uint32_t members, Step& step) override;
  Step RestRunning();

  bool Choose() {
    if (count_ == 1 && executed_ < check_at_) [[likely]] {
      Fragment& only = fragments_[0];
      if (only.state == Fragment::State::kReady && !only.resting) {
        Enter(0, nullptr);
        return true;
      }
    }
    return ChooseOfMany();
  }
  void BeginRun(int64_t instructions);
  void Enter(int index, const Instr* stop);
  bool ChooseOfMany();
  Rest WhyNoneRuns();
  void JoinReady();
  int PickReady();
  // Where a fragment stops that runs: where it meets another, or its quantum ends; null: nowhere.
  const Instr* StopOf(const Fragment& fragment, int64_t left) const;
  void LookForSpinning();
  void WatchLater(int64_t pause);
  uint64_t Fingerprint(const Frame& frame) const;
  uint64_t StateFingerprint() const;
  void EnterFrame(Frame& frame);
  uint32_t GuardOf(const Instr& instr) const {
    const uint32_t bits =
        *reinterpret_cast<const uint32_t*>(areas_[static_cast<size_t>(Area::kFrame)] + instr.guard);
    return active_ & (instr.guard_negated ? ~bits : bits);
  }

  Step BranchApart(uint32_t target);
  // The frame of a call that other lanes have made here, and are still in; null: there is none.
  Frame* FindCall(const Code& callee, const CallSite& site) const;
  Fragment& Running() { return fragments_[static_cast<size_t>(running_)]; }
  // A new fragment of lanes that no other has any more.
  Fragment& Add(uint32_t mask, uint32_t pc, Frame* frame);
  void Remove(int index);
  // Takes the lanes that execute out of the running fragment; the rest of it goes on behind the
  // instruction.
  void TakeExecuting();
  void DropFrame(Frame* frame);
  bool IsMember(uint32_t members);
  void ReleaseWarpBarrier(uint32_t members);
  bool GrowThreadMemory(int64_t bytes);
  uint32_t pc() const { return static_cast<uint32_t>(at_ - frame_->code->instrs.data()); }

  LaunchState& state_;
  BlockState& block_;
  Barriers& barriers_;
  AccessObserver* observer_;
  int index_ = 0;
  SpecialRegisters special_ = {};
  std::vector<std::byte> thread_memory_;
  int64_t thread_stride_ = 0;

  std::array<Fragment, kLanes> fragments_;
  int count_ = 0;
  bool parted_ = false;  // There have been several since its lanes met.
  int running_ = 0;
  Frame* frame_ = nullptr;            // Of the running fragment ...
  const Instr* at_ = nullptr;         // ... its instruction ...
  const Instr* run_begin_ = nullptr;  // ... the first since it was chosen ...
  const Instr* stop_ = nullptr;       // ... and where it may meet another.
  int active_lanes_ = 0;              // Of active(), when it was chosen.
  int64_t executed_ = 0;              // Instructions, up to run_begin_ ...
  int64_t counted_ = 0;               // ... and up to Run().
  int64_t kept_out_ = 0;              // Lanes of active_lanes_ that did not execute, since then.

  Rest rest_ = Rest::kDone;
  int64_t check_at_ = 0;    // Executed instructions at which a lone fragment is looked at ...
  int64_t end_at_ = 0;      // ... the quantum ends ...
  int64_t turn_end_ = 0;    // ... and another fragment may be chosen.
  bool fair_turn_ = false;  // Of the fragment that waited longest.

  // The state that is looked for again, to see that a fragment spins.
  struct Watch {
    int64_t from = 0;   // Executed instructions at which it begins ...
    int64_t pause = 0;  // ... this long after the last.
    int chances = 0;    // Choices that are left; 0: nothing is watched.
    int compares = 0;
    Fragment fragment;
    uint64_t fingerprint = 0;
  };
  Watch watch_;
  // An access that may be waiting, and what it gave.
  struct Polled {
    const Instr* instr = nullptr;
    uint64_t given = 0;
    int repeats = 0;
  };
  std::array<Polled, 4> polled_ = {};
  std::array<uint64_t, 16> seen_ = {};  // States in which all that was ready spun.
  size_t seen_count_ = 0;
};

}  // namespace coppice::ptx
