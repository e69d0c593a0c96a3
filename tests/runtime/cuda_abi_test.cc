// Goal: cuda_abi.h and driver_entries.inc describe the same ABI as the Toolkit's headers.
// Method: static assertions over every type, value, offset and signature, where a Toolkit is found.

#include "coppice/runtime/cuda_abi.h"

#include <type_traits>

#include "coppice/runtime/driver.h"

#include "runtime/cublas_lt_abi.h"
#include "tests/support/test.h"

#if __has_include(<cuda.h>) && __has_include(<cudaTypedefs.h>)
#define COPPICE_HAS_TOOLKIT 1
#include <cuda.h>
#include <cudaTypedefs.h>
#endif
#if __has_include(<cublasLt.h>)
#define COPPICE_HAS_CUBLAS_LT 1
#include <cublasLt.h>
#endif

namespace coppice {
namespace {

#ifdef COPPICE_HAS_CUBLAS_LT

static_assert(kCublasSuccess == CUBLAS_STATUS_SUCCESS);
static_assert(kCublasTranspose == CUBLAS_OP_T);
static_assert(kCublasCompute32 == CUBLAS_COMPUTE_32F);
static_assert(kCublasCompute64 == CUBLAS_COMPUTE_64F);
static_assert(kCudaReal32 == CUDA_R_32F);
static_assert(kCudaReal64 == CUDA_R_64F);
static_assert(kCudaReal16 == CUDA_R_16F);
static_assert(kCudaBrain16 == CUDA_R_16BF);
static_assert(kCublasLtTransposeA == CUBLASLT_MATMUL_DESC_TRANSA);
static_assert(kCublasLtTransposeB == CUBLASLT_MATMUL_DESC_TRANSB);
static_assert(kCublasLtBatchCount == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT);
static_assert(kCublasLtBatchOffset == CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET);
static_assert(kCublasLtWorkspaceMax == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES);
static_assert(kCublasLtAlignmentOfA == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES);
static_assert(kCublasLtAlignmentOfA + 3 == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES);
static_assert(sizeof(CublasLtHeuristic) == sizeof(cublasLtMatmulHeuristicResult_t));
static_assert(offsetof(CublasLtHeuristic, algorithm) ==
              offsetof(cublasLtMatmulHeuristicResult_t, algo));
static_assert(offsetof(CublasLtHeuristic, workspace_bytes) ==
              offsetof(cublasLtMatmulHeuristicResult_t, workspaceSize));
static_assert(offsetof(CublasLtHeuristic, state) ==
              offsetof(cublasLtMatmulHeuristicResult_t, state));

#endif  // COPPICE_HAS_CUBLAS_LT

#ifdef COPPICE_HAS_TOOLKIT

// True if a value of either type is passed, and if a pointer read through, in the same way.
template <typename Ours, typename Theirs>
constexpr bool SameAbi() {
  using A = std::remove_cv_t<Ours>;
  using B = std::remove_cv_t<Theirs>;
  constexpr bool kNumbers =
      (std::is_integral_v<A> || std::is_enum_v<A>)&&(std::is_integral_v<B> || std::is_enum_v<B>);
  constexpr bool kStructs =
      (std::is_class_v<A> && std::is_class_v<B>) || (std::is_union_v<A> && std::is_union_v<B>);
  if constexpr (std::is_same_v<A, B>) {
    return true;
  } else if constexpr (std::is_pointer_v<A> && std::is_pointer_v<B>) {
    return SameAbi<std::remove_pointer_t<A>, std::remove_pointer_t<B>>();
  } else if constexpr (kNumbers || kStructs) {
    return sizeof(A) == sizeof(B) && alignof(A) % alignof(B) == 0;
  } else {
    return false;
  }
}

template <typename Ours, typename Theirs>
struct Signature {
  static constexpr bool kSame = false;  // Another number of parameters, or no functions at all.
};
template <typename OurResult, typename... Ours, typename TheirResult, typename... Theirs>
requires(sizeof...(Ours) ==
         sizeof...(Theirs)) struct Signature<OurResult (*)(Ours...), TheirResult (*)(Theirs...)> {
  static constexpr bool kSame =
      SameAbi<OurResult, TheirResult>() && (SameAbi<Ours, Theirs>() && ...);
};

// The comparison itself can say no.
static_assert(!Signature<int (*)(int), int (*)()>::kSame);
static_assert(!Signature<int (*)(int), int (*)(long)>::kSame);
static_assert(!Signature<int (*)(int*), int (*)(int)>::kSame);
static_assert(!Signature<int (*)(int**), int (*)(int*)>::kSame);
static_assert(!Signature<int (*)(size_t*), int (*)(unsigned*)>::kSame);

#define X(member, version, parameters)                                                        \
  static_assert(Signature<decltype(DriverTable::member), PFN_cu##member##_v##version>::kSame, \
                "cu" #member " has another signature at version " #version);
#include "coppice/runtime/driver_entries.inc"
#undef X

#define COPPICE_SAME_VALUE(ours, theirs) \
  static_assert(static_cast<long long>(ours) == static_cast<long long>(theirs), #ours)

COPPICE_SAME_VALUE(CuResult::kSuccess, CUDA_SUCCESS);
COPPICE_SAME_VALUE(CuResult::kInvalidValue, CUDA_ERROR_INVALID_VALUE);
COPPICE_SAME_VALUE(CuResult::kOutOfMemory, CUDA_ERROR_OUT_OF_MEMORY);
COPPICE_SAME_VALUE(CuResult::kNotInitialized, CUDA_ERROR_NOT_INITIALIZED);
COPPICE_SAME_VALUE(CuResult::kDeinitialized, CUDA_ERROR_DEINITIALIZED);
COPPICE_SAME_VALUE(CuResult::kStubLibrary, CUDA_ERROR_STUB_LIBRARY);
COPPICE_SAME_VALUE(CuResult::kNoDevice, CUDA_ERROR_NO_DEVICE);
COPPICE_SAME_VALUE(CuResult::kInvalidDevice, CUDA_ERROR_INVALID_DEVICE);
COPPICE_SAME_VALUE(CuResult::kInvalidImage, CUDA_ERROR_INVALID_IMAGE);
COPPICE_SAME_VALUE(CuResult::kInvalidContext, CUDA_ERROR_INVALID_CONTEXT);
COPPICE_SAME_VALUE(CuResult::kNoBinaryForGpu, CUDA_ERROR_NO_BINARY_FOR_GPU);
COPPICE_SAME_VALUE(CuResult::kInvalidPtx, CUDA_ERROR_INVALID_PTX);
COPPICE_SAME_VALUE(CuResult::kUnsupportedPtxVersion, CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
COPPICE_SAME_VALUE(CuResult::kInvalidHandle, CUDA_ERROR_INVALID_HANDLE);
COPPICE_SAME_VALUE(CuResult::kIllegalState, CUDA_ERROR_ILLEGAL_STATE);
COPPICE_SAME_VALUE(CuResult::kLossyQuery, CUDA_ERROR_LOSSY_QUERY);
COPPICE_SAME_VALUE(CuResult::kNotFound, CUDA_ERROR_NOT_FOUND);
COPPICE_SAME_VALUE(CuResult::kNotReady, CUDA_ERROR_NOT_READY);
COPPICE_SAME_VALUE(CuResult::kIllegalAddress, CUDA_ERROR_ILLEGAL_ADDRESS);
COPPICE_SAME_VALUE(CuResult::kLaunchOutOfResources, CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
COPPICE_SAME_VALUE(CuResult::kLaunchTimeout, CUDA_ERROR_LAUNCH_TIMEOUT);
COPPICE_SAME_VALUE(CuResult::kAssert, CUDA_ERROR_ASSERT);
COPPICE_SAME_VALUE(CuResult::kIllegalInstruction, CUDA_ERROR_ILLEGAL_INSTRUCTION);
COPPICE_SAME_VALUE(CuResult::kMisalignedAddress, CUDA_ERROR_MISALIGNED_ADDRESS);
COPPICE_SAME_VALUE(CuResult::kLaunchFailed, CUDA_ERROR_LAUNCH_FAILED);
COPPICE_SAME_VALUE(CuResult::kCooperativeLaunchTooLarge, CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
COPPICE_SAME_VALUE(CuResult::kNotPermitted, CUDA_ERROR_NOT_PERMITTED);
COPPICE_SAME_VALUE(CuResult::kNotSupported, CUDA_ERROR_NOT_SUPPORTED);
COPPICE_SAME_VALUE(CuResult::kStreamCaptureUnsupported, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
COPPICE_SAME_VALUE(CuResult::kStreamCaptureInvalidated, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
COPPICE_SAME_VALUE(CuResult::kStreamCaptureMerge, CUDA_ERROR_STREAM_CAPTURE_MERGE);
COPPICE_SAME_VALUE(CuResult::kStreamCaptureUnmatched, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
COPPICE_SAME_VALUE(CuResult::kStreamCaptureUnjoined, CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
COPPICE_SAME_VALUE(CuResult::kStreamCaptureIsolation, CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
COPPICE_SAME_VALUE(CuResult::kStreamCaptureImplicit, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
COPPICE_SAME_VALUE(CuResult::kCapturedEvent, CUDA_ERROR_CAPTURED_EVENT);
COPPICE_SAME_VALUE(CuResult::kStreamCaptureWrongThread, CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
COPPICE_SAME_VALUE(CuResult::kTimeout, CUDA_ERROR_TIMEOUT);
COPPICE_SAME_VALUE(CuResult::kGraphExecUpdateFailure, CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
COPPICE_SAME_VALUE(CuResult::kInvalidClusterSize, CUDA_ERROR_INVALID_CLUSTER_SIZE);
COPPICE_SAME_VALUE(CuResult::kUnknown, CUDA_ERROR_UNKNOWN);

COPPICE_SAME_VALUE(CuDeviceAttribute::kMaxThreadsPerBlock,
                   CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
COPPICE_SAME_VALUE(CuDeviceAttribute::kMaxSharedMemoryPerBlock,
                   CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK);
COPPICE_SAME_VALUE(CuDeviceAttribute::kMultiprocessorCount,
                   CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
COPPICE_SAME_VALUE(CuDeviceAttribute::kComputeCapabilityMajor,
                   CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
COPPICE_SAME_VALUE(CuDeviceAttribute::kComputeCapabilityMinor,
                   CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
COPPICE_SAME_VALUE(CuDeviceAttribute::kMaxSharedMemoryPerBlockOptin,
                   CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
COPPICE_SAME_VALUE(CuDeviceAttribute::kVirtualMemoryManagementSupported,
                   CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED);

COPPICE_SAME_VALUE(CuFunctionAttribute::kMaxThreadsPerBlock,
                   CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
COPPICE_SAME_VALUE(CuFunctionAttribute::kStaticSharedBytes, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES);
COPPICE_SAME_VALUE(CuFunctionAttribute::kRegisters, CU_FUNC_ATTRIBUTE_NUM_REGS);
COPPICE_SAME_VALUE(CuJitOption::kErrorLog, CU_JIT_ERROR_LOG_BUFFER);
COPPICE_SAME_VALUE(CuJitOption::kErrorLogBytes, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES);
COPPICE_SAME_VALUE(CuFunctionAttribute::kMaxDynamicSharedBytes,
                   CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
COPPICE_SAME_VALUE(CuFunctionAttribute::kNonPortableClusterSizeAllowed,
                   CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED);
COPPICE_SAME_VALUE(CuLaunchAttributeId::kIgnore, CU_LAUNCH_ATTRIBUTE_IGNORE);
COPPICE_SAME_VALUE(CuLaunchAttributeId::kCooperative, CU_LAUNCH_ATTRIBUTE_COOPERATIVE);
COPPICE_SAME_VALUE(CuLaunchAttributeId::kClusterDimension, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION);
COPPICE_SAME_VALUE(CuLaunchAttributeId::kProgrammaticStreamSerialization,
                   CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION);
COPPICE_SAME_VALUE(CuTensorMapDataType::kUInt8, CU_TENSOR_MAP_DATA_TYPE_UINT8);
COPPICE_SAME_VALUE(CuTensorMapDataType::kUInt16, CU_TENSOR_MAP_DATA_TYPE_UINT16);
COPPICE_SAME_VALUE(CuTensorMapDataType::kUInt32, CU_TENSOR_MAP_DATA_TYPE_UINT32);
COPPICE_SAME_VALUE(CuTensorMapDataType::kInt32, CU_TENSOR_MAP_DATA_TYPE_INT32);
COPPICE_SAME_VALUE(CuTensorMapDataType::kUInt64, CU_TENSOR_MAP_DATA_TYPE_UINT64);
COPPICE_SAME_VALUE(CuTensorMapDataType::kInt64, CU_TENSOR_MAP_DATA_TYPE_INT64);
COPPICE_SAME_VALUE(CuTensorMapDataType::kFloat16, CU_TENSOR_MAP_DATA_TYPE_FLOAT16);
COPPICE_SAME_VALUE(CuTensorMapDataType::kFloat32, CU_TENSOR_MAP_DATA_TYPE_FLOAT32);
COPPICE_SAME_VALUE(CuTensorMapDataType::kFloat64, CU_TENSOR_MAP_DATA_TYPE_FLOAT64);
COPPICE_SAME_VALUE(CuTensorMapDataType::kBFloat16, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16);
COPPICE_SAME_VALUE(CuTensorMapInterleave::kNone, CU_TENSOR_MAP_INTERLEAVE_NONE);
COPPICE_SAME_VALUE(CuTensorMapInterleave::k16Bytes, CU_TENSOR_MAP_INTERLEAVE_16B);
COPPICE_SAME_VALUE(CuTensorMapInterleave::k32Bytes, CU_TENSOR_MAP_INTERLEAVE_32B);
COPPICE_SAME_VALUE(CuTensorMapSwizzle::kNone, CU_TENSOR_MAP_SWIZZLE_NONE);
COPPICE_SAME_VALUE(CuTensorMapSwizzle::k32Bytes, CU_TENSOR_MAP_SWIZZLE_32B);
COPPICE_SAME_VALUE(CuTensorMapSwizzle::k64Bytes, CU_TENSOR_MAP_SWIZZLE_64B);
COPPICE_SAME_VALUE(CuTensorMapSwizzle::k128Bytes, CU_TENSOR_MAP_SWIZZLE_128B);
COPPICE_SAME_VALUE(CuTensorMapL2Promotion::kNone, CU_TENSOR_MAP_L2_PROMOTION_NONE);
COPPICE_SAME_VALUE(CuTensorMapL2Promotion::k64Bytes, CU_TENSOR_MAP_L2_PROMOTION_L2_64B);
COPPICE_SAME_VALUE(CuTensorMapL2Promotion::k128Bytes, CU_TENSOR_MAP_L2_PROMOTION_L2_128B);
COPPICE_SAME_VALUE(CuTensorMapL2Promotion::k256Bytes, CU_TENSOR_MAP_L2_PROMOTION_L2_256B);
COPPICE_SAME_VALUE(CuTensorMapFloatOobFill::kNone, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
COPPICE_SAME_VALUE(CuTensorMapFloatOobFill::kNanRequestZeroFma,
                   CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA);

COPPICE_SAME_VALUE(kStreamNonBlocking, CU_STREAM_NON_BLOCKING);
COPPICE_SAME_VALUE(kEventDefault, CU_EVENT_DEFAULT);
COPPICE_SAME_VALUE(kEventDisableTiming, CU_EVENT_DISABLE_TIMING);
COPPICE_SAME_VALUE(kAddCaptureDependencies, CU_STREAM_ADD_CAPTURE_DEPENDENCIES);
COPPICE_SAME_VALUE(kSetCaptureDependencies, CU_STREAM_SET_CAPTURE_DEPENDENCIES);
COPPICE_SAME_VALUE(kGetProcAddressLegacyStream, CU_GET_PROC_ADDRESS_LEGACY_STREAM);

COPPICE_SAME_VALUE(CuCaptureMode::kGlobal, CU_STREAM_CAPTURE_MODE_GLOBAL);
COPPICE_SAME_VALUE(CuCaptureMode::kThreadLocal, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
COPPICE_SAME_VALUE(CuCaptureMode::kRelaxed, CU_STREAM_CAPTURE_MODE_RELAXED);
COPPICE_SAME_VALUE(CuCaptureStatus::kNone, CU_STREAM_CAPTURE_STATUS_NONE);
COPPICE_SAME_VALUE(CuCaptureStatus::kActive, CU_STREAM_CAPTURE_STATUS_ACTIVE);
COPPICE_SAME_VALUE(CuCaptureStatus::kInvalidated, CU_STREAM_CAPTURE_STATUS_INVALIDATED);

COPPICE_SAME_VALUE(CuGraphNodeType::kKernel, CU_GRAPH_NODE_TYPE_KERNEL);
COPPICE_SAME_VALUE(CuGraphNodeType::kMemcpy, CU_GRAPH_NODE_TYPE_MEMCPY);
COPPICE_SAME_VALUE(CuGraphNodeType::kMemset, CU_GRAPH_NODE_TYPE_MEMSET);
COPPICE_SAME_VALUE(CuGraphNodeType::kHost, CU_GRAPH_NODE_TYPE_HOST);
COPPICE_SAME_VALUE(CuGraphNodeType::kGraph, CU_GRAPH_NODE_TYPE_GRAPH);
COPPICE_SAME_VALUE(CuGraphNodeType::kEmpty, CU_GRAPH_NODE_TYPE_EMPTY);
COPPICE_SAME_VALUE(CuGraphNodeType::kWaitEvent, CU_GRAPH_NODE_TYPE_WAIT_EVENT);
COPPICE_SAME_VALUE(CuGraphNodeType::kEventRecord, CU_GRAPH_NODE_TYPE_EVENT_RECORD);
COPPICE_SAME_VALUE(CuGraphExecUpdateResult::kSuccess, CU_GRAPH_EXEC_UPDATE_SUCCESS);
COPPICE_SAME_VALUE(CuGraphExecUpdateResult::kError, CU_GRAPH_EXEC_UPDATE_ERROR);
COPPICE_SAME_VALUE(CuGraphExecUpdateResult::kTopologyChanged,
                   CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED);
COPPICE_SAME_VALUE(CuGraphExecUpdateResult::kNodeTypeChanged,
                   CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED);
COPPICE_SAME_VALUE(CuGraphExecUpdateResult::kFunctionChanged,
                   CU_GRAPH_EXEC_UPDATE_ERROR_FUNCTION_CHANGED);
COPPICE_SAME_VALUE(CuGraphExecUpdateResult::kParametersChanged,
                   CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED);
COPPICE_SAME_VALUE(CuGraphExecUpdateResult::kNotSupported,
                   CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED);
COPPICE_SAME_VALUE(CuGraphExecUpdateResult::kAttributesChanged,
                   CU_GRAPH_EXEC_UPDATE_ERROR_ATTRIBUTES_CHANGED);
COPPICE_SAME_VALUE(kProgrammaticPort, CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC);
COPPICE_SAME_VALUE(kProgrammaticEdge, CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC);

COPPICE_SAME_VALUE(CuMemoryType::kHost, CU_MEMORYTYPE_HOST);
COPPICE_SAME_VALUE(CuMemoryType::kDevice, CU_MEMORYTYPE_DEVICE);
COPPICE_SAME_VALUE(CuMemoryType::kArray, CU_MEMORYTYPE_ARRAY);
COPPICE_SAME_VALUE(CuMemoryType::kUnified, CU_MEMORYTYPE_UNIFIED);
COPPICE_SAME_VALUE(CuMemLocationType::kInvalid, CU_MEM_LOCATION_TYPE_INVALID);
COPPICE_SAME_VALUE(CuMemLocationType::kDevice, CU_MEM_LOCATION_TYPE_DEVICE);
COPPICE_SAME_VALUE(CuMemAllocationType::kInvalid, CU_MEM_ALLOCATION_TYPE_INVALID);
COPPICE_SAME_VALUE(CuMemAllocationType::kPinned, CU_MEM_ALLOCATION_TYPE_PINNED);
COPPICE_SAME_VALUE(CuMemAccessFlags::kNone, CU_MEM_ACCESS_FLAGS_PROT_NONE);
COPPICE_SAME_VALUE(CuMemAccessFlags::kRead, CU_MEM_ACCESS_FLAGS_PROT_READ);
COPPICE_SAME_VALUE(CuMemAccessFlags::kReadWrite, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
COPPICE_SAME_VALUE(CuMemGranularity::kMinimum, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
COPPICE_SAME_VALUE(CuMemGranularity::kRecommended, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED);
COPPICE_SAME_VALUE(CuPointerAttribute::kBufferId, CU_POINTER_ATTRIBUTE_BUFFER_ID);

static_assert(std::is_same_v<CuDeviceAddress, CUdeviceptr>);
static_assert(std::is_same_v<CuMemoryHandle, CUmemGenericAllocationHandle>);
static_assert(std::is_same_v<CuDevice, CUdevice>);
static_assert(std::is_same_v<CuContext, CUcontext>);
static_assert(std::is_same_v<CuStream, CUstream>);
static_assert(std::is_same_v<CuEvent, CUevent>);
static_assert(std::is_same_v<CuGraph, CUgraph>);
static_assert(std::is_same_v<CuGraphNode, CUgraphNode>);
static_assert(std::is_same_v<CuGraphExec, CUgraphExec>);
static_assert(std::is_same_v<CuLibrary, CUlibrary>);
static_assert(std::is_same_v<CuKernel, CUkernel>);
static_assert(std::is_same_v<CuFunction, CUfunction>);
static_assert(std::is_same_v<CuHostFunction, CUhostFn>);

#define COPPICE_SAME_STRUCT(ours, theirs) \
  static_assert(sizeof(ours) == sizeof(theirs) && alignof(ours) == alignof(theirs), #ours)
#define COPPICE_SAME_FIELD(ours, our_field, theirs, their_field)                         \
  static_assert(offsetof(ours, our_field) == offsetof(theirs, their_field) &&            \
                    SameAbi<decltype(ours::our_field), decltype(theirs::their_field)>(), \
                #ours "::" #our_field)

COPPICE_SAME_STRUCT(CuMemLocation, CUmemLocation);
COPPICE_SAME_FIELD(CuMemLocation, type, CUmemLocation, type);
COPPICE_SAME_FIELD(CuMemLocation, id, CUmemLocation, id);

COPPICE_SAME_STRUCT(CuMemAllocationProperties, CUmemAllocationProp);
COPPICE_SAME_FIELD(CuMemAllocationProperties, type, CUmemAllocationProp, type);
COPPICE_SAME_FIELD(CuMemAllocationProperties,
                   requested_handle_types,
                   CUmemAllocationProp,
                   requestedHandleTypes);
COPPICE_SAME_FIELD(CuMemAllocationProperties, location, CUmemAllocationProp, location);
COPPICE_SAME_FIELD(CuMemAllocationProperties,
                   win32_handle_metadata,
                   CUmemAllocationProp,
                   win32HandleMetaData);
static_assert(offsetof(CuMemAllocationProperties, compression_type) ==
              offsetof(CUmemAllocationProp, allocFlags.compressionType));
static_assert(offsetof(CuMemAllocationProperties, gpu_direct_rdma_capable) ==
              offsetof(CUmemAllocationProp, allocFlags.gpuDirectRDMACapable));
static_assert(offsetof(CuMemAllocationProperties, usage) ==
              offsetof(CUmemAllocationProp, allocFlags.usage));
static_assert(offsetof(CuMemAllocationProperties, reserved) ==
              offsetof(CUmemAllocationProp, allocFlags.reserved));

COPPICE_SAME_STRUCT(CuMemAccessDescriptor, CUmemAccessDesc);
COPPICE_SAME_FIELD(CuMemAccessDescriptor, location, CUmemAccessDesc, location);
COPPICE_SAME_FIELD(CuMemAccessDescriptor, flags, CUmemAccessDesc, flags);

using KernelNode = CUDA_KERNEL_NODE_PARAMS_v2;
COPPICE_SAME_STRUCT(CuKernelNodeParams, KernelNode);
COPPICE_SAME_FIELD(CuKernelNodeParams, function, KernelNode, func);
COPPICE_SAME_FIELD(CuKernelNodeParams, grid_x, KernelNode, gridDimX);
COPPICE_SAME_FIELD(CuKernelNodeParams, grid_y, KernelNode, gridDimY);
COPPICE_SAME_FIELD(CuKernelNodeParams, grid_z, KernelNode, gridDimZ);
COPPICE_SAME_FIELD(CuKernelNodeParams, block_x, KernelNode, blockDimX);
COPPICE_SAME_FIELD(CuKernelNodeParams, block_y, KernelNode, blockDimY);
COPPICE_SAME_FIELD(CuKernelNodeParams, block_z, KernelNode, blockDimZ);
COPPICE_SAME_FIELD(CuKernelNodeParams, shared_bytes, KernelNode, sharedMemBytes);
COPPICE_SAME_FIELD(CuKernelNodeParams, kernel_params, KernelNode, kernelParams);
COPPICE_SAME_FIELD(CuKernelNodeParams, extra, KernelNode, extra);
COPPICE_SAME_FIELD(CuKernelNodeParams, kernel, KernelNode, kern);
COPPICE_SAME_FIELD(CuKernelNodeParams, context, KernelNode, ctx);

COPPICE_SAME_STRUCT(CuLaunchAttributeValue, CUlaunchAttributeValue);
static_assert(offsetof(CuLaunchAttributeValue, cluster.x) ==
              offsetof(CUlaunchAttributeValue, clusterDim.x));
static_assert(offsetof(CuLaunchAttributeValue, cluster.y) ==
              offsetof(CUlaunchAttributeValue, clusterDim.y));
static_assert(offsetof(CuLaunchAttributeValue, cluster.z) ==
              offsetof(CUlaunchAttributeValue, clusterDim.z));
COPPICE_SAME_FIELD(CuLaunchAttributeValue, cooperative, CUlaunchAttributeValue, cooperative);
COPPICE_SAME_FIELD(CuLaunchAttributeValue,
                   programmatic,
                   CUlaunchAttributeValue,
                   programmaticStreamSerializationAllowed);

COPPICE_SAME_STRUCT(CuLaunchAttribute, CUlaunchAttribute);
COPPICE_SAME_FIELD(CuLaunchAttribute, id, CUlaunchAttribute, id);
COPPICE_SAME_FIELD(CuLaunchAttribute, value, CUlaunchAttribute, value);

COPPICE_SAME_STRUCT(CuLaunchConfig, CUlaunchConfig);
COPPICE_SAME_FIELD(CuLaunchConfig, grid_x, CUlaunchConfig, gridDimX);
COPPICE_SAME_FIELD(CuLaunchConfig, grid_y, CUlaunchConfig, gridDimY);
COPPICE_SAME_FIELD(CuLaunchConfig, grid_z, CUlaunchConfig, gridDimZ);
COPPICE_SAME_FIELD(CuLaunchConfig, block_x, CUlaunchConfig, blockDimX);
COPPICE_SAME_FIELD(CuLaunchConfig, block_y, CUlaunchConfig, blockDimY);
COPPICE_SAME_FIELD(CuLaunchConfig, block_z, CUlaunchConfig, blockDimZ);
COPPICE_SAME_FIELD(CuLaunchConfig, shared_bytes, CUlaunchConfig, sharedMemBytes);
COPPICE_SAME_FIELD(CuLaunchConfig, stream, CUlaunchConfig, hStream);
COPPICE_SAME_FIELD(CuLaunchConfig, attributes, CUlaunchConfig, attrs);
COPPICE_SAME_FIELD(CuLaunchConfig, attribute_count, CUlaunchConfig, numAttrs);

COPPICE_SAME_STRUCT(CuMemcpyParams, CUDA_MEMCPY3D);
COPPICE_SAME_FIELD(CuMemcpyParams, source_x, CUDA_MEMCPY3D, srcXInBytes);
COPPICE_SAME_FIELD(CuMemcpyParams, source_y, CUDA_MEMCPY3D, srcY);
COPPICE_SAME_FIELD(CuMemcpyParams, source_z, CUDA_MEMCPY3D, srcZ);
COPPICE_SAME_FIELD(CuMemcpyParams, source_lod, CUDA_MEMCPY3D, srcLOD);
COPPICE_SAME_FIELD(CuMemcpyParams, source_type, CUDA_MEMCPY3D, srcMemoryType);
COPPICE_SAME_FIELD(CuMemcpyParams, source_host, CUDA_MEMCPY3D, srcHost);
COPPICE_SAME_FIELD(CuMemcpyParams, source_device, CUDA_MEMCPY3D, srcDevice);
static_assert(offsetof(CuMemcpyParams, source_array) == offsetof(CUDA_MEMCPY3D, srcArray));
COPPICE_SAME_FIELD(CuMemcpyParams, reserved0, CUDA_MEMCPY3D, reserved0);
COPPICE_SAME_FIELD(CuMemcpyParams, source_pitch, CUDA_MEMCPY3D, srcPitch);
COPPICE_SAME_FIELD(CuMemcpyParams, source_height, CUDA_MEMCPY3D, srcHeight);
COPPICE_SAME_FIELD(CuMemcpyParams, target_x, CUDA_MEMCPY3D, dstXInBytes);
COPPICE_SAME_FIELD(CuMemcpyParams, target_y, CUDA_MEMCPY3D, dstY);
COPPICE_SAME_FIELD(CuMemcpyParams, target_z, CUDA_MEMCPY3D, dstZ);
COPPICE_SAME_FIELD(CuMemcpyParams, target_lod, CUDA_MEMCPY3D, dstLOD);
COPPICE_SAME_FIELD(CuMemcpyParams, target_type, CUDA_MEMCPY3D, dstMemoryType);
COPPICE_SAME_FIELD(CuMemcpyParams, target_host, CUDA_MEMCPY3D, dstHost);
COPPICE_SAME_FIELD(CuMemcpyParams, target_device, CUDA_MEMCPY3D, dstDevice);
static_assert(offsetof(CuMemcpyParams, target_array) == offsetof(CUDA_MEMCPY3D, dstArray));
COPPICE_SAME_FIELD(CuMemcpyParams, reserved1, CUDA_MEMCPY3D, reserved1);
COPPICE_SAME_FIELD(CuMemcpyParams, target_pitch, CUDA_MEMCPY3D, dstPitch);
COPPICE_SAME_FIELD(CuMemcpyParams, target_height, CUDA_MEMCPY3D, dstHeight);
COPPICE_SAME_FIELD(CuMemcpyParams, width_bytes, CUDA_MEMCPY3D, WidthInBytes);
COPPICE_SAME_FIELD(CuMemcpyParams, height, CUDA_MEMCPY3D, Height);
COPPICE_SAME_FIELD(CuMemcpyParams, depth, CUDA_MEMCPY3D, Depth);

COPPICE_SAME_STRUCT(CuMemsetNodeParams, CUDA_MEMSET_NODE_PARAMS);
COPPICE_SAME_FIELD(CuMemsetNodeParams, target, CUDA_MEMSET_NODE_PARAMS, dst);
COPPICE_SAME_FIELD(CuMemsetNodeParams, pitch, CUDA_MEMSET_NODE_PARAMS, pitch);
COPPICE_SAME_FIELD(CuMemsetNodeParams, value, CUDA_MEMSET_NODE_PARAMS, value);
COPPICE_SAME_FIELD(CuMemsetNodeParams, element_size, CUDA_MEMSET_NODE_PARAMS, elementSize);
COPPICE_SAME_FIELD(CuMemsetNodeParams, width, CUDA_MEMSET_NODE_PARAMS, width);
COPPICE_SAME_FIELD(CuMemsetNodeParams, height, CUDA_MEMSET_NODE_PARAMS, height);

COPPICE_SAME_STRUCT(CuHostNodeParams, CUDA_HOST_NODE_PARAMS);
COPPICE_SAME_FIELD(CuHostNodeParams, function, CUDA_HOST_NODE_PARAMS, fn);
COPPICE_SAME_FIELD(CuHostNodeParams, user_data, CUDA_HOST_NODE_PARAMS, userData);

COPPICE_SAME_STRUCT(CuGraphExecUpdateResultInfo, CUgraphExecUpdateResultInfo);
COPPICE_SAME_FIELD(CuGraphExecUpdateResultInfo, result, CUgraphExecUpdateResultInfo, result);
COPPICE_SAME_FIELD(CuGraphExecUpdateResultInfo, error_node, CUgraphExecUpdateResultInfo, errorNode);
COPPICE_SAME_FIELD(CuGraphExecUpdateResultInfo,
                   error_from_node,
                   CUgraphExecUpdateResultInfo,
                   errorFromNode);

COPPICE_SAME_STRUCT(CuGraphEdgeData, CUgraphEdgeData);
COPPICE_SAME_FIELD(CuGraphEdgeData, from_port, CUgraphEdgeData, from_port);
COPPICE_SAME_FIELD(CuGraphEdgeData, to_port, CUgraphEdgeData, to_port);
COPPICE_SAME_FIELD(CuGraphEdgeData, type, CUgraphEdgeData, type);
static_assert(offsetof(CuGraphEdgeData, reserved) == offsetof(CUgraphEdgeData, reserved));

TEST(CudaAbiTest, AgreesWithTheToolkit) {
  RecordProperty("toolkit_cuda_version", CUDA_VERSION);
  EXPECT_GE(CUDA_VERSION, 12040) << "the entries' signatures are those of CUDA 12.4 and later";
}

#else

TEST(CudaAbiTest, AgreesWithTheToolkit) {
  GTEST_SKIP()
      << "no CUDA Toolkit found: cuda.h is needed to compare the ABI; set COPPICE_CUDA_INCLUDE";
}

#endif

}  // namespace
}  // namespace coppice
