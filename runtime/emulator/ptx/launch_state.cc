// What a launch begins with.

#include "runtime/emulator/ptx/launch_state.h"

#include <algorithm>

namespace coppice::ptx {

uint64_t Draw::Below(uint64_t bound) {
  state_ += 0x9e3779b97f4a7c15;
  uint64_t z = state_;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return (z ^ (z >> 31)) % bound;
}

std::array<unsigned, 3> ClusterOf(const Launch& launch) {
  constexpr std::array<unsigned, 3> kNone = {0, 0, 0};
  if (launch.cluster != kNone) return launch.cluster;
  const std::array<unsigned, 3>& required = launch.kernel->required_cluster;
  return required != kNone ? required : std::array<unsigned, 3>{1, 1, 1};
}

LaunchState::LaunchState(const Launch& of, const Environment& in, WarpOrder order)
    : launch(of),
      environment(in),
      kernel(*of.kernel),
      warp_order(order),
      block_threads(static_cast<int>(of.block[0] * of.block[1] * of.block[2])),
      cluster(ClusterOf(of)),
      block_count(uint64_t{of.grid[0]} * of.grid[1] * of.grid[2]),
      cluster_count(block_count / (cluster[0] * cluster[1] * cluster[2])),
      bank(of.parameters.begin(), of.parameters.end()),
      findings(kernel),
      draw(in.seed) {
  bank.resize(std::max(bank.size(), static_cast<size_t>(kernel.parameter_bytes)));
}

bool LaunchState::IsOwn(const std::byte* host) const {
  const auto inside = [host](const auto& bytes) {
    return host >= bytes.data() && host < bytes.data() + bytes.size();
  };
  return inside(bank) || inside(workspace);
}

}  // namespace coppice::ptx
