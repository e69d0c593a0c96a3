// Which block runs.

#include "runtime/emulator/ptx/grid.h"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/emulator/ptx/argument_ranges.h"

namespace coppice::ptx {
namespace {

// Of a block, while others wait for their turn.
constexpr int64_t kBlockQuantum = 2'000'000;
// One in so many is short: of 1 to 512 instructions, as many as a critical section has, and short
// ones as often as long ones.
constexpr uint64_t kShortOneIn = 4;
constexpr uint64_t kShortQuantumLeast = 8;
constexpr uint64_t kShortQuantumDoublings = 7;
// Blocks are drawn from so many that follow each other.
constexpr uint64_t kDrawnAtOnce = 64;
constexpr size_t kResidentMax = 1024;
// So often may all blocks be seen to spin, each in the same state as before, until it is a
// deadlock.
constexpr int kIdleRoundsMax = 64;
// Orders of warps in which a launch is run again that has doubtful races.
constexpr int kReruns = 10;

}  // namespace

Grid::Grid(const Launch& launch, const Environment& environment, WarpOrder order)
    : state_(launch, environment, order),
      accesses_(Accesses::Create(state_)),
      memory_(state_, accesses_.get()) {
  if (environment.taint == nullptr) return;
  taint_.emplace(*environment.taint);
  state_.taint = &*taint_;
}

Outcome Grid::Run() {
  const size_t resident_max =
      state_.launch.cooperative ? static_cast<size_t>(state_.block_count) : kResidentMax;
  std::deque<Block*> resting;  // The one that rests longest is first.
  size_t idle = 0;             // Blocks in a row that had nothing to do.
  int idle_rounds = 0;
  bool prefer_next = true;
  while (!state_.findings.HasFault()) {
    const bool can_start = drawn_to_ < state_.cluster_count || !drawn_.empty();
    Block* block = nullptr;
    if (can_start && resting.size() < resident_max && (prefer_next || resting.empty())) {
      block = StartNext(resting);
    } else if (!resting.empty()) {
      block = resting.front();
      resting.pop_front();
    } else {
      break;
    }
    // Those that rest are asked between starts, so that they end before there are many.
    prefer_next = !prefer_next;
    const Rest rest = block->Run(DrawQuantum(*block));
    if (rest == Rest::kEnded) break;
    if (rest == Rest::kDone) {
      Cluster* const cluster = static_cast<Cluster*>(block->state().cluster);
      if (cluster->EndBlock()) idle_.push_back(cluster);
      idle = 0;
      continue;
    }
    if (rest == Rest::kWaiting) {
      block->FaultDeadlock();
      break;
    }
    resting.push_back(block);
    idle = rest == Rest::kSpinning ? idle + 1 : 0;
    if (idle == 0) idle_rounds = 0;
    if (idle < resting.size() || (can_start && resting.size() < resident_max)) continue;
    idle = 0;
    if (++idle_rounds >= kIdleRoundsMax) block->FaultDeadlock();
  }
  Outcome outcome;
  outcome.counts = state_.counts;
  if (accesses_ != nullptr) accesses_->Finish(outcome);
  if (state_.findings.HasDoubtful() && state_.warp_order == WarpOrder::kDrawn &&
      !state_.findings.HasFault() && DoubtfulRacesChangeNothing())
    state_.findings.DropDoubtful();
  state_.findings.MoveTo(outcome);
  return outcome;
}

bool Grid::DoubtfulRacesChangeNothing() {
  using enum WarpOrder;
  LaunchWrites writes = accesses_->TakeWrites();
  writes.Exchange();
  Environment again = state_.environment;
  again.taint = nullptr;  // It is known.
  bool same = true;
  again.print = [&same](std::string_view) { same = false; };  // What is printed may differ.
  for (int i = 0; i < kReruns && same; ++i) {
    const WarpOrder order = i == 0 ? kAscending : i == 1 ? kDescending : kInterleaved;
    ++again.seed;
    Grid grid(state_.launch, again, order);
    const Outcome outcome = grid.Run();
    LaunchWrites others = grid.accesses_->TakeWrites();
    others.Exchange();
    same = same && !outcome.fault.has_value() && others == writes;
  }
  writes.Exchange();
  return same;
}

Block* Grid::StartNext(std::deque<Block*>& resting) {
  if (drawn_.empty()) {
    const uint64_t count = std::min(kDrawnAtOnce, state_.cluster_count - drawn_to_);
    for (uint64_t i = 0; i < count; ++i)
      drawn_.push_back(drawn_to_ + i);
    drawn_to_ += count;
    for (uint64_t i = count; i > 1; --i)
      std::swap(drawn_[i - 1], drawn_[state_.draw.Below(i)]);
  }
  if (idle_.empty())
    idle_.push_back(
        clusters_.emplace_back(std::make_unique<Cluster>(state_, memory_, accesses_.get())).get());
  Cluster* const cluster = idle_.back();
  idle_.pop_back();
  cluster->Start(drawn_.back());
  drawn_.pop_back();
  const auto& blocks = cluster->blocks();
  for (size_t i = 1; i < blocks.size(); ++i)
    resting.push_back(blocks[i].get());
  return blocks.front().get();
}

// A block that waits in a loop is left in it long enough to see whether it can go on.
int64_t Grid::DrawQuantum(const Block& block) {
  if (state_.block_count == 1 || state_.warp_order != WarpOrder::kDrawn ||
      state_.draw.Below(kShortOneIn) != 0 || block.waits_in_loop())
    return kBlockQuantum;
  const uint64_t most = kShortQuantumLeast << state_.draw.Below(kShortQuantumDoublings);
  return static_cast<int64_t>(1 + state_.draw.Below(most));
}

Outcome Run(const Launch& launch, const Environment& environment) {
  if (environment.arguments.empty()) return Grid(launch, environment, WarpOrder::kDrawn).Run();
  const std::vector<MemoryRange> memory = Within(environment.memory, environment.arguments);
  Environment bounded = environment;
  bounded.memory = memory;
  return Grid(launch, bounded, WarpOrder::kDrawn).Run();
}

}  // namespace coppice::ptx
