// What cublasLt.h, cublas_api.h and library_types.h say of the functions that coppice calls.
// tests/runtime/cuda_abi_test.cc compares it with them, where a Toolkit is found.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace coppice {

inline constexpr int kCublasSuccess = 0;        // cublasStatus_t
inline constexpr int32_t kCublasTranspose = 1;  // cublasOperation_t
inline constexpr int kCublasCompute32 = 68;     // cublasComputeType_t
inline constexpr int kCublasCompute64 = 70;
inline constexpr int kCudaReal32 = 0;  // cudaDataType_t
inline constexpr int kCudaReal64 = 1;
inline constexpr int kCudaReal16 = 2;
inline constexpr int kCudaBrain16 = 14;
inline constexpr int kCublasLtTransposeA = 3;  // cublasLtMatmulDescAttributes_t
inline constexpr int kCublasLtTransposeB = 4;
inline constexpr int kCublasLtBatchCount = 5;  // cublasLtMatrixLayoutAttribute_t
inline constexpr int kCublasLtBatchOffset = 6;
inline constexpr int kCublasLtWorkspaceMax = 1;  // cublasLtMatmulPreferenceAttributes_t
inline constexpr int kCublasLtAlignmentOfA = 5;  // Of B, C and D behind it.

struct CublasLtHeuristic {  // cublasLtMatmulHeuristicResult_t
  std::array<uint64_t, 8> algorithm;
  size_t workspace_bytes;
  int state;
  float waves;
  int reserved[4];
};

}  // namespace coppice
