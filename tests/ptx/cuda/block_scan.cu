// Prefix sums and the sum of a block, by CUB.

#include <cub/block/block_reduce.cuh>
#include <cub/block/block_scan.cuh>

constexpr int kThreads = 128;

extern "C" __global__ void block_scan(const int* x, int* sums, int* total) {
  using Scan = cub::BlockScan<int, kThreads>;
  __shared__ typename Scan::TempStorage storage;
  const int i = blockIdx.x * kThreads + threadIdx.x;
  int sum;
  int whole;
  Scan(storage).ExclusiveSum(x[i], sum, whole);
  sums[i] = sum;
  if (threadIdx.x == 0) total[blockIdx.x] = whole;
}

extern "C" __global__ void block_reduce(const int* x, int* largest, int n) {
  using Reduce = cub::BlockReduce<int, kThreads>;
  __shared__ typename Reduce::TempStorage storage;
  const int i = blockIdx.x * kThreads + threadIdx.x;
  const auto larger = [](int a, int b) { return a > b ? a : b; };
  const int value = Reduce(storage).Reduce(i < n ? x[i] : -1000000, larger);
  if (threadIdx.x == 0) largest[blockIdx.x] = value;
}
