// Blocks of a cooperative launch meet: each adds what its neighbour had before.

#include <cooperative_groups.h>

extern "C" __global__ void grid_sync(int* x, int rounds) {
  const auto grid = cooperative_groups::this_grid();
  const unsigned long long i = grid.thread_rank();
  const unsigned long long next = (i + blockDim.x) % grid.size();
  for (int round = 0; round < rounds; ++round) {
    const int other = x[next];
    grid.sync();
    x[i] += other;
    grid.sync();
  }
}
