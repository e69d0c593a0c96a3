// Prefix sums over blocks in one pass: each publishes its sum, and then looks at those of the
// blocks before it, a warp at a time, until it finds one that knows all before.

constexpr unsigned kNothing = 0;
constexpr unsigned kOwn = 1;   // The sum of the block.
constexpr unsigned kUpTo = 2;  // Of all blocks up to it.

__device__ unsigned long long Pack(unsigned state, int sum) {
  return static_cast<unsigned long long>(state) << 32 | static_cast<unsigned>(sum);
}

__device__ int LookBack(const volatile unsigned long long* states, int block) {
  const int lane = threadIdx.x;
  int sum = 0;
  for (int last = block - 1; last >= 0; last -= 32) {
    const int at = last - lane;
    unsigned long long seen = Pack(kUpTo, 0);
    do {
      if (at >= 0) seen = states[at];
    } while (__any_sync(~0u, seen >> 32 == kNothing));
    const unsigned knows = __ballot_sync(~0u, seen >> 32 == kUpTo);
    const int end = knows == 0 ? 31 : __ffs(knows) - 1;
    int part = lane <= end ? static_cast<int>(seen) : 0;
    for (int step = 16; step > 0; step /= 2)
      part += __shfl_xor_sync(~0u, part, step);
    sum += part;
    if (knows != 0) break;
  }
  return sum;
}

extern "C" __global__ void look_back(const int* x,
                                     int* sums,
                                     unsigned long long* states,
                                     int* ticket) {
  __shared__ int parts[8];
  __shared__ int before;
  __shared__ int block;
  if (threadIdx.x == 0) block = atomicAdd(ticket, 1);
  __syncthreads();
  const int i = block * blockDim.x + threadIdx.x;
  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x / 32;
  int sum = x[i];
  for (int step = 1; step < 32; step *= 2) {
    const int other = __shfl_up_sync(~0u, sum, step);
    if (lane >= step) sum += other;
  }
  if (lane == 31) parts[warp] = sum;
  __syncthreads();
  int whole = 0;
  for (int w = 0; w < blockDim.x / 32; ++w) {
    if (w < warp) sum += parts[w];
    whole += parts[w];
  }
  if (warp == 0) {
    volatile unsigned long long* const all = states;
    if (lane == 0) {
      __threadfence();
      all[block] = Pack(block == 0 ? kUpTo : kOwn, whole);
    }
    __syncwarp();
    const int found = LookBack(all, block);
    if (lane == 0) {
      before = found;
      __threadfence();
      all[block] = Pack(kUpTo, found + whole);
    }
  }
  __syncthreads();
  sums[i] = before + sum;
}
