// The softmax of each row, one block per row: shuffles inside a warp, shared memory between warps.
// softmax.ptx is made of it by
//
//   nvcc -std=c++20 -O3 -arch=sm_80 -ptx softmax.cu -o softmax.ptx

#include <cmath>

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;

struct Maximum {
  __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
};
struct Sum {
  __device__ float operator()(float a, float b) const { return a + b; }
};

// Over all threads of the block, who all get the result.
template <typename Join>
__device__ float Reduce(float value, float* warps, Join join) {
  for (int distance = 16; distance > 0; distance /= 2)
    value = join(value, __shfl_xor_sync(0xffffffff, value, distance));
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = value;
  __syncthreads();
  value = warps[0];
  for (int warp = 1; warp < kWarps; ++warp)
    value = join(value, warps[warp]);
  __syncthreads();  // The next reduction writes there again.
  return value;
}

extern "C" __global__ void __launch_bounds__(kThreads)
    RowSoftmax(const float* x, float* y, int columns) {
  __shared__ float warps[kWarps];
  const float* const from = x + static_cast<long long>(blockIdx.x) * columns;
  float* const to = y + static_cast<long long>(blockIdx.x) * columns;
  float highest = -INFINITY;
  for (int i = static_cast<int>(threadIdx.x); i < columns; i += kThreads)
    highest = fmaxf(highest, from[i]);
  highest = Reduce(highest, warps, Maximum{});
  float total = 0;
  for (int i = static_cast<int>(threadIdx.x); i < columns; i += kThreads)
    total += __expf(from[i] - highest);
  const float share = 1.0F / Reduce(total, warps, Sum{});
  for (int i = static_cast<int>(threadIdx.x); i < columns; i += kThreads)
    to[i] = __expf(from[i] - highest) * share;
}
