// Atomic operations on shared and global memory.

__device__ void Apply(int* places, int value) {
  atomicAdd(&places[0], value);
  atomicMin(&places[1], value);
  atomicMax(&places[2], value);
  atomicAnd(&places[3], value);
  atomicOr(&places[4], value);
  atomicXor(&places[5], value);
  atomicSub(&places[6], value);
  atomicInc(reinterpret_cast<unsigned*>(&places[7]), 99);
  atomicDec(reinterpret_cast<unsigned*>(&places[8]), 99);
  int seen = atomicAdd(&places[9], 0);
  int before;
  do {
    before = seen;
    seen = atomicCAS(&places[9], before, before + 2 * value);
  } while (seen != before);
  if (atomicExch(&places[10], 1) == 0) atomicAdd(&places[11], 1);
}

extern "C" __global__ void atomics(
    const int* x, int* out, float* sum, double* wide_sum, unsigned long long* wide) {
  __shared__ int places[12];
  if (threadIdx.x < 12) places[threadIdx.x] = threadIdx.x == 3 ? -1 : 0;
  __syncthreads();
  const int value = x[blockIdx.x * blockDim.x + threadIdx.x];
  Apply(places, value);
  Apply(out + 12, value);
  atomicAdd(sum, 0.5f * value);
  atomicAdd(wide_sum, 0.5 * value);
  atomicMax(wide, static_cast<unsigned long long>(value) << 33);
  __syncthreads();
  if (threadIdx.x < 12) atomicAdd(&out[threadIdx.x], places[threadIdx.x]);
}
