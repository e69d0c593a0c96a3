// Shared memory: of a size that the launch says, as a target of copies, and with barriers of its
// own.

#include <cuda_pipeline.h>
#include <mma.h>

#include <cuda/barrier>

extern "C" __global__ void dynamic_shared(const float* x, float* out) {
  extern __shared__ float row[];
  row[threadIdx.x] = x[blockIdx.x * blockDim.x + threadIdx.x];
  __syncthreads();
  out[blockIdx.x * blockDim.x + threadIdx.x] = row[blockDim.x - 1 - threadIdx.x];
}

extern "C" __global__ void pipeline(const float4* x, float4* out, int stages) {
  __shared__ float4 tiles[2][64];
  const int i = threadIdx.x;
  __pipeline_memcpy_async(&tiles[0][i], &x[i], sizeof(float4));
  __pipeline_commit();
  float4 sum = {0, 0, 0, 0};
  for (int stage = 0; stage < stages; ++stage) {
    if (stage + 1 < stages)
      __pipeline_memcpy_async(&tiles[(stage + 1) % 2][i], &x[(stage + 1) * 64 + i], sizeof(float4));
    __pipeline_commit();
    __pipeline_wait_prior(1);
    __syncthreads();
    const float4 other = tiles[stage % 2][63 - i];
    sum = {sum.x + other.x, sum.y + other.y, sum.z + other.z, sum.w + other.w};
    __syncthreads();
  }
  out[i] = sum;
}

extern "C" __global__ void wmma_product(const __half* a, const __half* b, float* c, int k) {
  namespace wmma = nvcuda::wmma;
  wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> left;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::col_major> right;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;
  wmma::fill_fragment(sum, 0.0f);
  for (int i = 0; i < k; i += 16) {
    wmma::load_matrix_sync(left, a + i, k);
    wmma::load_matrix_sync(right, b + i, k);
    wmma::mma_sync(sum, left, right, sum);
  }
  wmma::store_matrix_sync(c, sum, 16, wmma::mem_row_major);
}

// A warp makes what the others use.
extern "C" __global__ void block_barrier(const int* x, int* out, int rounds) {
  using Barrier = cuda::barrier<cuda::thread_scope_block>;
  __shared__ int tile[32];
#pragma nv_diag_suppress static_var_with_dynamic_init
  __shared__ Barrier full;
  __shared__ Barrier empty;
  if (threadIdx.x == 0) {
    init(&full, blockDim.x);
    init(&empty, blockDim.x);
  }
  __syncthreads();
  int sum = 0;
  for (int round = 0; round < rounds; ++round) {
    if (threadIdx.x < 32) tile[threadIdx.x] = x[round * 32 + threadIdx.x];
    full.arrive_and_wait();
    sum += tile[(threadIdx.x + round) % 32];
    empty.arrive_and_wait();
  }
  out[threadIdx.x] = sum;
}
