// A block sorts pairs, by CUB.

#include <cub/block/block_radix_sort.cuh>

constexpr int kThreads = 64;

extern "C" __global__ void radix_sort(const short* keys, short* sorted, int* origin) {
  using Sort = cub::BlockRadixSort<short, kThreads, 1, int>;
  __shared__ typename Sort::TempStorage storage;
  const int i = blockIdx.x * kThreads + threadIdx.x;
  short key[1] = {keys[i]};
  int value[1] = {static_cast<int>(threadIdx.x)};
  Sort(storage).Sort(key, value);
  sorted[i] = key[0];
  origin[i] = value[0];
}
