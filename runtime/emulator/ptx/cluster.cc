// Where the blocks of a cluster are in the grid, and when its barrier opens.

#include "runtime/emulator/ptx/cluster.h"

namespace coppice::ptx {
namespace {

using Dimensions = std::array<unsigned, 3>;

// The place of number `index` in a box, x first.
Dimensions PlaceIn(const Dimensions& box, uint64_t index) {
  return {static_cast<unsigned>(index % box[0]), static_cast<unsigned>(index / box[0] % box[1]),
          static_cast<unsigned>(index / box[0] / box[1])};
}

}  // namespace

Cluster::Cluster(LaunchState& state, Memory& memory, Accesses* accesses)
    : state_(state), accesses_(accesses) {
  const Dimensions& size = state.cluster;
  const unsigned count = size[0] * size[1] * size[2];
  for (unsigned rank = 0; rank < count; ++rank) {
    Block& block = *blocks_.emplace_back(std::make_unique<Block>(state, memory, accesses));
    block.state().cluster = this;
    block.state().rank = rank;
    members.push_back(&block.state());
  }
}

void Cluster::Start(uint64_t index) {
  const Dimensions& size = state_.cluster;
  const Dimensions& grid = state_.launch.grid;
  const Dimensions at = PlaceIn({grid[0] / size[0], grid[1] / size[1], grid[2] / size[2]}, index);
  running_ = blocks_.size();
  live_ = static_cast<int>(blocks_.size()) * state_.block_threads;
  arrived_ = 0;
  phase_ = 0;
  for (size_t rank = 0; rank < blocks_.size(); ++rank) {
    const Dimensions in = PlaceIn(size, rank);
    blocks_[rank]->Start(
        {at[0] * size[0] + in[0], at[1] * size[1] + in[1], at[2] * size[2] + in[2]}, at, in);
  }
}

void Cluster::Arrive(int threads) {
  arrived_ += threads;
  OpenIfComplete();
}

void Cluster::OnExit(int threads, int arrived) {
  live_ -= threads;
  arrived_ -= arrived;
  OpenIfComplete();
}

void Cluster::OpenIfComplete() {
  if (arrived_ == 0 || arrived_ < live_) return;
  arrived_ = 0;
  ++phase_;
  if (accesses_ != nullptr) accesses_->MeetCluster(members);
  for (const auto& block : blocks_)
    block->OpenClusterBarrier();
}

}  // namespace coppice::ptx
