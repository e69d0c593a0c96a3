// C = A B of f16, row by row in memory, sums in f32: tiles arrive by cp.async while those before
// them are multiplied by mma.sync, whose fragments ldmatrix loads. matmul.ptx is made of it by
//
//   nvcc -std=c++20 -O3 -arch=sm_80 -ptx matmul.cu -o matmul.ptx
//
// Extents are multiples of those of a tile: 64 rows, 64 columns, 32 deep.

#include <cstdint>
#include <cuda_fp16.h>

constexpr int kTile = 64;   // Rows and columns of C that a block computes: a quarter each warp.
constexpr int kDepth = 32;  // Of A's columns and B's rows at once.
constexpr int kThreads = 128;
constexpr int kRoom = 8;   // Behind each row in shared memory, so that rows differ in their banks.
constexpr int kChunk = 8;  // Halves of a copy: 16 bytes.
constexpr int kRowsA = 2;  // Fragments of a warp: 2 x 16 rows ...
constexpr int kColumnsB = 4;  // ... by 4 x 8 columns.

struct Tiles {
  __half a[kTile][kDepth + kRoom];
  __half b[kDepth][kTile + kRoom];
};

__device__ uint32_t SharedAddress(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

__device__ void CopyChunk(__half* shared, const __half* global) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(SharedAddress(shared)),
               "l"(global));
}

// Starts to copy the tiles at `depth` for the block.
__device__ void CopyTiles(Tiles& tiles, const __half* a, const __half* b, int n, int k, int depth) {
  const int thread = static_cast<int>(threadIdx.x);
  for (int i = thread; i < kTile * kDepth / kChunk; i += kThreads) {
    const int row = i / (kDepth / kChunk);
    const int column = i % (kDepth / kChunk) * kChunk;
    CopyChunk(&tiles.a[row][column], a + row * k + depth + column);
  }
  for (int i = thread; i < kDepth * kTile / kChunk; i += kThreads) {
    const int row = i / (kTile / kChunk);
    const int column = i % (kTile / kChunk) * kChunk;
    CopyChunk(&tiles.b[row][column], b + (depth + row) * n + column);
  }
  asm volatile("cp.async.commit_group;");
}

__device__ void LoadA(uint32_t (&fragment)[4], const __half* at) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(fragment[0]), "=r"(fragment[1]), "=r"(fragment[2]), "=r"(fragment[3])
               : "r"(SharedAddress(at)));
}

// Two fragments that are neighbours.
__device__ void LoadB(uint32_t (&left)[2], uint32_t (&right)[2], const __half* at) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(left[0]), "=r"(left[1]), "=r"(right[0]), "=r"(right[1])
               : "r"(SharedAddress(at)));
}

__device__ void Multiply(float (&sum)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// Adds the product of a warp's part of the tiles.
__device__ void MultiplyTiles(float (&sums)[kRowsA][kColumnsB][4],
                              const Tiles& tiles,
                              int warp_row,
                              int warp_column) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int depth = 0; depth < kDepth; depth += 16) {
    uint32_t a[kRowsA][4];
    uint32_t b[kColumnsB][2];
#pragma unroll
    for (int i = 0; i < kRowsA; ++i)
      LoadA(a[i], &tiles.a[warp_row + i * 16 + lane % 16][depth + lane / 16 * 8]);
#pragma unroll
    for (int j = 0; j < kColumnsB; j += 2)
      LoadB(b[j], b[j + 1], &tiles.b[depth + lane % 16][warp_column + j * 8 + lane / 16 * 8]);
#pragma unroll
    for (int i = 0; i < kRowsA; ++i) {
#pragma unroll
      for (int j = 0; j < kColumnsB; ++j)
        Multiply(sums[i][j], a[i], b[j]);
    }
  }
}

extern "C" __global__ void __launch_bounds__(kThreads)
    Matmul(const __half* a, const __half* b, __half* c, int n, int k) {
  __shared__ __align__(16) Tiles tiles[2];
  const int row = static_cast<int>(blockIdx.y) * kTile;
  const int column = static_cast<int>(blockIdx.x) * kTile;
  a += static_cast<long long>(row) * k;
  b += column;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int warp_row = warp / 2 * 32;
  const int warp_column = warp % 2 * 32;
  float sums[kRowsA][kColumnsB][4] = {};
  CopyTiles(tiles[0], a, b, n, k, 0);
  for (int depth = 0; depth < k; depth += kDepth) {
    const int current = depth / kDepth % 2;
    if (depth + kDepth < k) {
      CopyTiles(tiles[1 - current], a, b, n, k, depth + kDepth);
      asm volatile("cp.async.wait_group 1;");
    } else {
      asm volatile("cp.async.wait_group 0;");
    }
    __syncthreads();
    MultiplyTiles(sums, tiles[current], warp_row, warp_column);
    __syncthreads();  // These tiles are the next to be written.
  }
  const int lane = static_cast<int>(threadIdx.x) % 32;
  for (int i = 0; i < kRowsA; ++i) {
    for (int j = 0; j < kColumnsB; ++j) {
      const int x = column + warp_column + j * 8 + lane % 4 * 2;
      const int y = row + warp_row + i * 16 + lane / 4;
      __half2* const upper = reinterpret_cast<__half2*>(c + static_cast<long long>(y) * n + x);
      __half2* const lower = reinterpret_cast<__half2*>(c + static_cast<long long>(y + 8) * n + x);
      *upper = __floats2half2_rn(sums[i][j][0], sums[i][j][1]);
      *lower = __floats2half2_rn(sums[i][j][2], sums[i][j][3]);
    }
  }
}
