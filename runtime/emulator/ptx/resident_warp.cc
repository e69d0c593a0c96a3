// The loop that executes, and what lanes wait for.

#include "runtime/emulator/ptx/resident_warp.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "fmt/format.h"

#include "runtime/emulator/ptx/windows.h"

namespace coppice::ptx {
namespace {

// So often an access may give the same again until others go first.
constexpr int kPollsMax = 4;

}  // namespace

ResidentWarp::ResidentWarp(LaunchState& state,
                           BlockState& block,
                           Barriers& barriers,
                           MemoryAccess& memory,
                           AccessObserver* observer)
    : state_(state), block_(block), barriers_(barriers), observer_(observer) {
  memory_ = &memory;
  control_ = this;
  async_ = block.async;
  areas_[static_cast<size_t>(Area::kSpecial)] = reinterpret_cast<std::byte*>(&special_);
}

void ResidentWarp::InitializeSpecial(int index, int warps) {
  index_ = index;
  const Launch& launch = state_.launch;
  for (size_t i = 0; i < SpecialRegisters::kDimensions; ++i) {
    special_.ntid[i].fill(launch.block[i]);
    special_.nctaid[i].fill(launch.grid[i]);
    special_.nclusterid[i].fill(launch.grid[i] / state_.cluster[i]);
    special_.cluster_nctaid[i].fill(state_.cluster[i]);
  }
  for (uint32_t lane = 0; lane < kLanes; ++lane) {
    const uint32_t thread = static_cast<uint32_t>(index) * kLanes + lane;
    special_.tid[0][lane] = thread % launch.block[0];
    special_.tid[1][lane] = thread / launch.block[0] % launch.block[1];
    special_.tid[2][lane] = thread / launch.block[0] / launch.block[1];
    const uint32_t bit = uint32_t{1} << lane;
    special_.laneid[lane] = lane;
    special_.lanemask_eq[lane] = bit;
    special_.lanemask_lt[lane] = bit - 1;
    special_.lanemask_le[lane] = bit | (bit - 1);
    special_.lanemask_ge[lane] = ~(bit - 1);
    special_.lanemask_gt[lane] = ~(bit | (bit - 1));
  }
  special_.warpid.fill(static_cast<uint32_t>(index));
  special_.nwarpid.fill(static_cast<uint32_t>(warps));
  special_.nsmid.fill(1);
  special_.total_smem_size.fill(static_cast<uint32_t>(block_.shared.size()));
  special_.dynamic_smem_size.fill(static_cast<uint32_t>(launch.dynamic_shared_bytes));
  special_.gridid.fill(1);
  const unsigned blocks = state_.cluster[0] * state_.cluster[1] * state_.cluster[2];
  special_.cluster_nctarank.fill(blocks);
  special_.is_explicit_cluster = blocks > 1 ? kAllLanes : 0;
  if (launch.cooperative) {
    const uint64_t workspace = reinterpret_cast<uint64_t>(state_.workspace.data());
    special_.envreg[1].fill(static_cast<uint32_t>(workspace >> 32));
    special_.envreg[2].fill(static_cast<uint32_t>(workspace));
  }
}

Whereabouts ResidentWarp::WhereIs(int lane, const Code& code, const Instr& instr) const {
  const size_t i = static_cast<size_t>(lane);
  return {.block = block_.position,
          .thread = {special_.tid[0][i], special_.tid[1][i], special_.tid[2][i]},
          .code = code,
          .instr = instr};
}

bool ResidentWarp::IsOfCluster(const std::byte* host) const {
  const std::vector<BlockState*>& members = block_.cluster->members;
  return members.size() > 1 && std::ranges::any_of(members, [&](const BlockState* member) {
           const std::span<std::byte> shared = member->shared;
           return member != &block_ && host >= shared.data() &&
                  host < shared.data() + shared.size();
         });
}

void ResidentWarp::Start(const Position& at, uint32_t lanes) {
  for (size_t i = 0; i < SpecialRegisters::kDimensions; ++i) {
    special_.ctaid[i].fill(at.block[i]);
    special_.clusterid[i].fill(at.cluster[i]);
    special_.cluster_ctaid[i].fill(at.in_cluster[i]);
  }
  special_.cluster_ctarank.fill(block_.rank);
  polled_ = {};
  seen_ = {};
  live_ = lanes;
  executed_ = 0;
  frame_ = nullptr;
  count_ = 0;
  const Code& code = *state_.kernel.code;
  run_begin_ = at_ = code.instrs.data();
  if (code.thread_bytes > thread_stride_) GrowThreadMemory(code.thread_bytes);
  Frame* const frame = state_.frames.Take(code);
  frame->caller = nullptr;
  frame->site = nullptr;
  frame->lanes = lanes;
  frame->depth = 0;
  frame->memory = 0;
  if (state_.taint != nullptr) {
    state_.taint->Start(*this);
    state_.taint->Start(*frame);
    state_.taint->Clear(thread_memory_);
  }
  Add(lanes, 0, frame);
  parted_ = false;
}

Rest ResidentWarp::Run(int64_t instructions) {
  return state_.taint == nullptr ? RunAs<false>(instructions) : RunAs<true>(instructions);
}

template <bool follows_taint>
Step ResidentWarp::Execute(const Instr& instr) {
  if constexpr (follows_taint) return state_.taint->Execute(*this, instr);
  return instr.handler(*this, instr);
}

template <bool follows_taint>
Rest ResidentWarp::RunAs(int64_t instructions) {
  counted_ = executed_;
  BeginRun(instructions);
  rest_ = Rest::kQuantum;
  int64_t lane_instructions = 0;
  while (Choose()) {
    const Instr* instr = run_begin_;
    Step step;
    for (;;) {
      at_ = instr;
      if (instr->guard == Instr::kUnguarded) [[likely]] {
        step = Execute<follows_taint>(*instr);
      } else {
        step = Step::kNext;
        const uint32_t lanes = GuardOf(*instr);
        if (lanes == active_) {
          step = Execute<follows_taint>(*instr);
        } else {
          kept_out_ += active_lanes_ - std::popcount(lanes);
          if (lanes != 0) {
            mask_ = lanes;
            step = Execute<follows_taint>(*instr);
            mask_ = active_;
          } else if constexpr (follows_taint) {
            state_.taint->Skip(*this, *instr);
          }
        }
      }
      if (step != Step::kNext) break;
      ++instr;
      if (instr == stop_) break;
    }
    const int64_t count = at_ - run_begin_ + 1;
    executed_ += count;
    lane_instructions += count * active_lanes_ - kept_out_;
    kept_out_ = 0;
    run_begin_ = at_;
    if (step == Step::kNext) {
      Running().pc = pc() + 1;
    } else if (step == Step::kStop) {
      rest_ = Rest::kEnded;
      break;
    }
  }
  state_.counts.instructions += executed_ - counted_;
  state_.counts.lane_instructions += lane_instructions;
  return rest_;
}

void ResidentWarp::EnterFrame(Frame& frame) {
  frame_ = &frame;
  areas_[static_cast<size_t>(Area::kFrame)] = frame.registers;
  // Nobody writes there: slots of constants are read only.
  areas_[static_cast<size_t>(Area::kConstants)] =
      const_cast<std::byte*>(frame.code->constants.data());
  slots_ = frame.code->slots.data();
  special_.thread_memory.fill(kThreadWindow + static_cast<uint64_t>(frame.memory));
  special_.thread_memory_low.fill(static_cast<uint32_t>(frame.memory));
}

Fragment& ResidentWarp::Add(uint32_t mask, uint32_t pc, Frame* frame) {
  Fragment& added = fragments_[static_cast<size_t>(count_++)];
  added = {.mask = mask, .pc = pc, .frame = frame};
  parted_ = true;
  return added;
}

void ResidentWarp::Remove(int index) {
  --count_;
  fragments_[static_cast<size_t>(index)] = fragments_[static_cast<size_t>(count_)];
  if (running_ == index) {
    running_ = -1;
  } else if (running_ == count_) {
    running_ = index;
  }
}

Step ResidentWarp::BranchApart(uint32_t target) {
  TakeExecuting();
  Running().pc = target;
  return Step::kChoose;
}

void ResidentWarp::TakeExecuting() {
  const uint32_t rest = active_ & ~mask_;
  Running().mask = mask_;
  if (rest != 0) Add(rest, pc() + 1, frame_);
}

void ResidentWarp::Restrict(uint32_t lanes) {
  const uint32_t others = mask_ & ~lanes;
  TakeExecuting();
  if (others != 0) Add(others, pc(), frame_);
  const uint32_t kept = mask_ & lanes;
  kept_out_ += std::popcount(others);
  Running().mask = active_ = mask_ = kept;
  stop_ = at_ + 1;
}

bool ResidentWarp::Gather(Warp&, uint32_t members, Step& step) {
  const uint32_t wanted = members & live_;
  if (active_ == wanted && mask_ == active_) [[likely]]
    return true;
  step = Step::kChoose;
  if (!IsMember(members)) {
    step = Step::kStop;
    return false;
  }
  if (mask_ != active_ || (mask_ & ~members) != 0) Restrict(members);
  uint32_t gathered = mask_;
  const auto waits_here = [&](const Fragment& other) {
    return other.state == Fragment::State::kGather && other.frame == frame_ &&
           other.pc == Running().pc && other.members == members;
  };
  Running().pc = pc();
  for (int i = 0; i < count_; ++i) {
    const Fragment& other = fragments_[static_cast<size_t>(i)];
    if (i != running_ && waits_here(other)) gathered |= other.mask;
  }
  if (gathered != wanted) {
    Running().state = Fragment::State::kGather;
    Running().members = members;
    return false;
  }
  for (int i = count_; i-- > 0;)
    if (i != running_ && waits_here(fragments_[static_cast<size_t>(i)])) Remove(i);
  kept_out_ -= std::popcount(gathered) - std::popcount(mask_);
  Running().mask = active_ = mask_ = gathered;
  stop_ = at_ + 1;
  return true;
}

bool ResidentWarp::IsMember(uint32_t members) {
  const int lane = std::countr_zero(mask_);
  if ((members >> lane & 1) != 0) return true;
  Fault(
      Finding::Kind::kIllegalInstruction, lane,
      fmt::format("executes an instruction whose member mask {:#010x} does not include this thread",
                  members));
  return false;
}

Step ResidentWarp::WaitForWarp(uint32_t members) {
  if (active_ == (members & live_) && mask_ == active_) [[likely]] {
    parted_ = parted_ && active_ != live_;
    if (observer_ != nullptr) observer_->MeetInWarp(*this);
    return Step::kNext;
  }
  if (!IsMember(members)) return Step::kStop;
  Restrict(members);
  Running().pc = pc();
  Running().state = Fragment::State::kWarpBarrier;
  Running().members = members;
  ReleaseWarpBarrier(members);
  return Step::kChoose;
}

void ResidentWarp::ReleaseWarpBarrier(uint32_t members) {
  const auto waits = [&](const Fragment& fragment) {
    return fragment.state == Fragment::State::kWarpBarrier && fragment.members == members;
  };
  uint32_t arrived = 0;
  const Fragment* first = nullptr;
  bool in_one_place = true;
  for (int i = 0; i < count_; ++i) {
    const Fragment& fragment = fragments_[static_cast<size_t>(i)];
    if (!waits(fragment)) continue;
    arrived |= fragment.mask;
    if (first == nullptr) first = &fragment;
    in_one_place &= fragment.pc == first->pc && fragment.frame == first->frame;
  }
  if ((members & live_ & ~arrived) != 0) return;
  parted_ = parted_ && !(arrived == live_ && in_one_place);
  if (observer_ != nullptr) observer_->MeetInWarp(*this);
  for (int i = 0; i < count_; ++i) {
    Fragment& fragment = fragments_[static_cast<size_t>(i)];
    if (!waits(fragment)) continue;
    fragment.state = Fragment::State::kReady;
    ++fragment.pc;
  }
}

Step ResidentWarp::WaitAtBarrier(int barrier) {
  TakeExecuting();
  Running().pc = pc();
  Running().state = Fragment::State::kBarrier;
  Running().barrier = barrier;
  return Step::kChoose;
}

Step ResidentWarp::Sleep() {
  TakeExecuting();
  return RestRunning();
}

// Counted in what the kernel does, so that it is the same on every machine.
Step ResidentWarp::Poll(const Instr& instr, Space space, uint64_t given) {
  Polled& polled = polled_[pc() % polled_.size()];
  if (polled.instr != &instr || polled.given != given) {
    polled = {&instr, given, 0};
    return Step::kNext;
  }
  if (++polled.repeats < kPollsMax) return Step::kNext;
  polled.repeats = 0;
  if (space != Space::kShared) block_.gives_way = true;
  // Lanes of the warp that have something to do take their turns; without these they might run
  // ahead to where all shall be together.
  for (int i = 0; i < count_; ++i) {
    const Fragment& other = fragments_[static_cast<size_t>(i)];
    if (i != running_ && other.state == Fragment::State::kReady) return Step::kNext;
  }
  // Lanes that the guard keeps out are in the loop, too.
  return RestRunning();
}

Step ResidentWarp::RestRunning() {
  Fragment& fragment = Running();
  fragment.pc = pc() + 1;
  fragment.resting = true;
  const uint64_t fingerprint = Fingerprint(*frame_);
  fragment.spinning = fingerprint == fragment.fingerprint;
  fragment.fingerprint = fingerprint;
  return Step::kChoose;
}

}  // namespace coppice::ptx
