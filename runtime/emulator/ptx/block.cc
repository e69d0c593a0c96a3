// Warps take turns; barriers count threads.

#include "runtime/emulator/ptx/block.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "fmt/format.h"

namespace coppice::ptx {
namespace {

// Of a warp, while others of its block have something to do.
constexpr int64_t kWarpQuantum = 1 << 16;
constexpr uint64_t kFewInstructions = 4;

// What shared memory holds before anybody writes it: NaN in every format.
constexpr std::byte kPoison{0xff};

bool WaitsInLoop(Rest rest) {
  return rest == Rest::kSpinning || rest == Rest::kSlept;
}

}  // namespace

Block::Block(LaunchState& state, Memory& memory, Accesses* accesses)
    : state_(state), accesses_(accesses) {
  const Launch& launch = state.launch;
  const Kernel& kernel = state.kernel;
  // Of dynamic memory the place is the kernel's, which leaves room for its alignment.
  shared_.resize(static_cast<size_t>(
      launch.dynamic_shared_bytes == 0
          ? kernel.shared_bytes
          : std::max(kernel.shared_bytes, kernel.dynamic_offset + launch.dynamic_shared_bytes)));
  block_.shared = shared_;
  block_.async = &async_;
  const int warps = (state.block_threads + kLanes - 1) / kLanes;
  for (int i = 0; i < warps; ++i) {
    ResidentWarp& warp = *warps_.emplace_back(
        std::make_unique<ResidentWarp>(state, block_, *this, memory, accesses));
    warp.InitializeSpecial(i, warps);
    order_.push_back(static_cast<size_t>(i));
  }
  if (state.warp_order == WarpOrder::kDescending) std::reverse(order_.begin(), order_.end());
  rests_.resize(warps_.size());
  block_.warp = warps_.front().get();
}

void Block::Start(const std::array<unsigned, 3>& position,
                  const std::array<unsigned, 3>& cluster,
                  const std::array<unsigned, 3>& in_cluster) {
  if (accesses_ != nullptr) accesses_->Start(block_);
  async_.Drop();
  const auto& grid = state_.launch.grid;
  block_.index = position[0] + uint64_t{grid[0]} * (position[1] + uint64_t{grid[1]} * position[2]);
  block_.position = position;
  live_ = state_.block_threads;
  waits_in_loop_ = false;
  std::fill(shared_.begin(), shared_.end(), kPoison);
  if (state_.taint != nullptr) state_.taint->Clear(shared_);
  barriers_ = {};
  arrived_in_.assign(warps_.size() * kLanes, 0);
  block_.running = true;
  for (size_t i = 0; i < warps_.size(); ++i) {
    const int first = static_cast<int>(i) * kLanes;
    const int lanes = std::min(state_.block_threads - first, kLanes);
    warps_[i]->Start({position, cluster, in_cluster},
                     lanes == kLanes ? kAllLanes : (uint32_t{1} << lanes) - 1);
  }
  std::fill(rests_.begin(), rests_.end(), Rest::kQuantum);
  if (state_.warp_order == WarpOrder::kAscending || state_.warp_order == WarpOrder::kDescending)
    return;
  for (size_t i = order_.size(); i > 1; --i)
    std::swap(order_[i - 1], order_[state_.draw.Below(i)]);
}

Rest Block::Run(int64_t instructions) {
  block_.gives_way = false;
  const Rest rest = RunWarps(instructions);
  waits_in_loop_ = WaitsInLoop(rest);
  return rest;
}

Rest Block::RunWarps(int64_t instructions) {
  const bool interleaved = state_.warp_order == WarpOrder::kInterleaved;
  const int64_t& executed = state_.counts.instructions;
  const int64_t end = executed + instructions;
  for (bool ever_progressed = false;;) {
    bool progressed = false;  // Somebody did something else than to wait in a loop.
    Rest rest = Rest::kDone;
    for (const size_t i : order_) {
      if (rests_[i] == Rest::kDone) continue;
      const int64_t before = executed;
      const int64_t quantum = interleaved
                                  ? 1 + static_cast<int64_t>(state_.draw.Below(kFewInstructions))
                                  : kWarpQuantum;
      rests_[i] = warps_[i]->Run(std::min(instructions, quantum));
      if (rests_[i] == Rest::kEnded) return Rest::kEnded;
      progressed = progressed || (executed != before && !WaitsInLoop(rests_[i]));
      rest = std::max(rest, rests_[i]);
    }
    ever_progressed = ever_progressed || progressed;
    if (rest == Rest::kDone) return rest;
    if (progressed && executed < end && !block_.gives_way) continue;
    if (progressed) return Rest::kQuantum;
    // Other blocks may let it go on.
    if (rest == Rest::kWaiting && block_.cluster->members.size() > 1) rest = Rest::kSpinning;
    return rest == Rest::kSpinning && ever_progressed ? Rest::kSlept : rest;
  }
}

Step Block::Arrive(ResidentWarp& warp, int barrier, int threads, bool waits, uint32_t predicate) {
  Barrier& arrived = barriers_[static_cast<size_t>(barrier)];
  arrived.arrived += std::popcount(warp.mask());
  arrived.expected = std::max(arrived.expected, threads);
  arrived.population += std::popcount(predicate & warp.mask());
  arrived.waited = arrived.waited && waits;
  if (accesses_ != nullptr) accesses_->Arrive(warp, arrived.knowledge);
  const Step step = waits ? warp.WaitAtBarrier(barrier) : Step::kNext;
  OpenIfComplete(barrier);
  return step;
}

Step Block::ArriveAtCluster(ResidentWarp& warp) {
  for (uint32_t lanes = warp.mask(); lanes != 0; lanes &= lanes - 1) {
    const int lane = std::countr_zero(lanes);
    uint64_t& arrived_in = arrived_in_[static_cast<size_t>(warp.ThreadOf(lane))];
    if (arrived_in != 0) {
      warp.Fault(
          Finding::Kind::kIllegalInstruction, lane,
          "arrives at the cluster barrier again, but has not waited at it since its last arrival");
      return Step::kStop;
    }
    arrived_in = block_.cluster->phase() + 1;
  }
  block_.cluster->Arrive(std::popcount(warp.mask()));
  return Step::kNext;
}

Step Block::WaitForCluster(ResidentWarp& warp) {
  uint32_t waiting = 0;
  for (uint32_t lanes = warp.mask(); lanes != 0; lanes &= lanes - 1) {
    const int lane = std::countr_zero(lanes);
    const uint64_t arrived_in = arrived_in_[static_cast<size_t>(warp.ThreadOf(lane))];
    if (arrived_in == 0) {
      warp.Fault(Finding::Kind::kIllegalInstruction, lane,
                 "waits at the cluster barrier, but has not arrived at it");
      return Step::kStop;
    }
    waiting |= static_cast<uint32_t>(arrived_in == block_.cluster->phase() + 1) << lane;
  }
  if (waiting == 0) {
    LeaveCluster(warp, warp.mask());
    return Step::kNext;
  }
  if (waiting != warp.mask()) warp.Restrict(waiting);
  return warp.WaitAtBarrier(kClusterBarrier);
}

void Block::LeaveCluster(const ResidentWarp& warp, uint32_t lanes) {
  for (; lanes != 0; lanes &= lanes - 1)
    arrived_in_[static_cast<size_t>(warp.ThreadOf(std::countr_zero(lanes)))] = 0;
}

void Block::OpenClusterBarrier() {
  for (const auto& warp : warps_)
    warp->Release(kClusterBarrier,
                  [&](const Fragment& fragment) { LeaveCluster(*warp, fragment.mask); });
}

void Block::OpenIfComplete(int number) {
  Barrier& barrier = barriers_[static_cast<size_t>(number)];
  const int expected = barrier.expected == 0 ? live_ : barrier.expected;
  if (barrier.arrived == 0 || barrier.arrived < expected) return;
  const bool all = barrier.waited && barrier.arrived >= live_;
  if (accesses_ != nullptr && all) accesses_->MeetAll(block_);
  for (const auto& warp : warps_)
    warp->Release(number, [&](const Fragment& fragment) {
      Finish(barrier, fragment);
      if (accesses_ != nullptr && !all) accesses_->Depart(*warp, barrier.knowledge);
    });
  barrier = {};
}

void Block::Finish(const Barrier& barrier, const Fragment& fragment) {
  const Instr& instr = fragment.frame->code->instrs[fragment.pc];
  const Result result = static_cast<Result>(instr.flags & kResultMask);
  std::byte* const d = fragment.frame->registers + instr.d.offset;
  if (result == Result::kCount) {
    for (uint32_t left = fragment.mask; left != 0; left &= left - 1) {
      const uint32_t population = static_cast<uint32_t>(barrier.population);
      std::memcpy(d + std::countr_zero(left) * sizeof(population), &population, sizeof(population));
    }
  } else if (result != Result::kNone) {
    const bool holds =
        result == Result::kAll ? barrier.population == barrier.arrived : barrier.population != 0;
    uint32_t bits;
    std::memcpy(&bits, d, sizeof(bits));
    bits = holds ? bits | fragment.mask : bits & ~fragment.mask;
    std::memcpy(d, &bits, sizeof(bits));
  }
}

void Block::OnExit(ResidentWarp& warp) {
  const int threads = std::popcount(warp.mask());
  int arrived = 0;
  for (uint32_t lanes = warp.mask(); lanes != 0; lanes &= lanes - 1) {
    const int thread = warp.ThreadOf(std::countr_zero(lanes));
    arrived += arrived_in_[static_cast<size_t>(thread)] == block_.cluster->phase() + 1 ? 1 : 0;
  }
  live_ -= threads;
  if (live_ == 0) {
    async_.bulk.Finish();
    block_.running = false;
  }
  block_.cluster->OnExit(threads, arrived);
  for (int i = 0; i < kCount; ++i)
    OpenIfComplete(i);
}

void Block::FaultDeadlock() const {
  const ResidentWarp* const warp = FindWaiting();
  if (warp == nullptr) return;
  const Fragment& first = warp->fragments()[0];
  const Code& code = *first.frame->code;
  const size_t pc = std::min<size_t>(first.pc, code.instrs.size() - 1);
  state_.findings.Fault(Finding::Kind::kDeadlock,
                        warp->WhereIs(std::countr_zero(first.mask), code, code.instrs[pc]),
                        "waits forever; stuck threads: " + DescribeWaiting());
}

const ResidentWarp* Block::FindWaiting() const {
  for (const auto& warp : warps_)
    if (warp->fragment_count() != 0) return warp.get();
  return nullptr;
}

std::string Block::DescribeWaiting() const {
  constexpr int kNamed = 8;
  std::string text;
  int named = 0;
  int others = 0;
  for (const auto& warp : warps_) {
    for (int i = 0; i < warp->fragment_count(); ++i) {
      const Fragment& fragment = warp->fragments()[static_cast<size_t>(i)];
      if (named == kNamed) {
        others += std::popcount(fragment.mask);
        continue;
      }
      ++named;
      text += fmt::format("{}{}", text.empty() ? "" : "; ", Describe(*warp, fragment));
    }
  }
  if (others != 0) text += fmt::format("; other threads: {}", others);
  return text;
}

std::string Block::Describe(const ResidentWarp& warp, const Fragment& fragment) const {
  const Code& code = *fragment.frame->code;
  const size_t pc = std::min<size_t>(fragment.pc, code.instrs.size() - 1);
  const int first = warp.ThreadOf(std::countr_zero(fragment.mask));
  const int last = warp.ThreadOf(31 - std::countl_zero(fragment.mask));
  std::string who = first == last ? fmt::format("thread {}", first)
                                  : fmt::format("{} threads in the range {} to {}",
                                                std::popcount(fragment.mask), first, last);
  const int line = code.instrs[pc].line;
  switch (fragment.state) {
    case Fragment::State::kBarrier: {
      if (fragment.barrier == kClusterBarrier)
        return fmt::format("{} at line {}, waiting for all threads of the cluster", who, line);
      const Barrier& barrier = barriers_[static_cast<size_t>(fragment.barrier)];
      return fmt::format(
          "{} at line {}, waiting at barrier {}, where {} of {} threads have arrived", who, line,
          fragment.barrier, barrier.arrived, barrier.expected == 0 ? live_ : barrier.expected);
    }
    case Fragment::State::kGather:
    case Fragment::State::kWarpBarrier:
      return fmt::format("{} at line {}, waiting for the lanes in mask {:#010x}", who, line,
                         fragment.members & warp.live());
    case Fragment::State::kReady:
      break;
  }
  return fmt::format("{} at line {}, in a loop", who, line);
}

}  // namespace coppice::ptx
