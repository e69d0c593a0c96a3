// The part of CUDA's driver ABI that coppice uses, declared without <cuda.h>.
//
// The build needs no CUDA Toolkit. Handles are the Toolkit's own opaque types, so an application
// that includes <cuda.h> can pass its CUstream directly. Enums and structs have coppice's spelling
// and CUDA's layout. If a Toolkit is found, tests/runtime/cuda_abi_test.cc compares every size,
// offset and value with the real header.
//
// Source of the facts: cuda.h of CUDA 13.0. Threads: types only.

#pragma once

#include <cstddef>
#include <cstdint>

struct CUctx_st;
struct CUstream_st;
struct CUevent_st;
struct CUgraph_st;
struct CUgraphNode_st;
struct CUgraphExec_st;
struct CUlib_st;
struct CUkern_st;
struct CUfunc_st;

namespace coppice {

using CuDevice = int;
using CuDeviceAddress = unsigned long long;  // NOLINT(google-runtime-int)
using CuMemoryHandle = unsigned long long;   // NOLINT(google-runtime-int)
using CuContext = CUctx_st*;
using CuStream = CUstream_st*;
using CuEvent = CUevent_st*;
using CuGraph = CUgraph_st*;
using CuGraphNode = CUgraphNode_st*;
using CuGraphExec = CUgraphExec_st*;
using CuLibrary = CUlib_st*;
using CuKernel = CUkern_st*;
using CuFunction = CUfunc_st*;
using CuHostFunction = void (*)(void* user_data);

enum class CuResult : int {
  kSuccess = 0,
  kInvalidValue = 1,
  kOutOfMemory = 2,
  kNotInitialized = 3,
  kDeinitialized = 4,
  kStubLibrary = 34,
  kNoDevice = 100,
  kInvalidDevice = 101,
  kInvalidImage = 200,
  kInvalidContext = 201,
  kNoBinaryForGpu = 209,
  kInvalidPtx = 218,
  kUnsupportedPtxVersion = 222,
  kInvalidHandle = 400,
  kIllegalState = 401,
  kLossyQuery = 402,
  kNotFound = 500,
  kNotReady = 600,
  kIllegalAddress = 700,
  kLaunchOutOfResources = 701,
  kLaunchTimeout = 702,
  kAssert = 710,
  kIllegalInstruction = 715,
  kMisalignedAddress = 716,
  kLaunchFailed = 719,
  kCooperativeLaunchTooLarge = 720,
  kNotPermitted = 800,
  kNotSupported = 801,
  kStreamCaptureUnsupported = 900,
  kStreamCaptureInvalidated = 901,
  kStreamCaptureMerge = 902,
  kStreamCaptureUnmatched = 903,
  kStreamCaptureUnjoined = 904,
  kStreamCaptureIsolation = 905,
  kStreamCaptureImplicit = 906,
  kCapturedEvent = 907,
  kStreamCaptureWrongThread = 908,
  kTimeout = 909,
  kGraphExecUpdateFailure = 910,
  kInvalidClusterSize = 912,
  kUnknown = 999,
};

enum class CuDeviceAttribute : int {
  kMaxThreadsPerBlock = 1,
  kMaxSharedMemoryPerBlock = 8,
  kMultiprocessorCount = 16,
  kComputeCapabilityMajor = 75,
  kComputeCapabilityMinor = 76,
  kMaxSharedMemoryPerBlockOptin = 97,
  kVirtualMemoryManagementSupported = 102,
};

enum class CuFunctionAttribute : int {
  kMaxThreadsPerBlock = 0,
  kStaticSharedBytes = 1,
  kRegisters = 4,
  kMaxDynamicSharedBytes = 8,
  kNonPortableClusterSizeAllowed = 14,
};

enum class CuJitOption : int {
  kErrorLog = 5,       // A char buffer for the messages of the PTX compiler.
  kErrorLogBytes = 6,  // Its size, passed as the value itself; replaced by the number of bytes
                       // written.
};

enum class CuLaunchAttributeId : int {
  kIgnore = 0,
  kCooperative = 2,
  kClusterDimension = 4,
  kProgrammaticStreamSerialization = 6,
};

enum class CuTensorMapDataType : int {
  kUInt8 = 0,
  kUInt16 = 1,
  kUInt32 = 2,
  kInt32 = 3,
  kUInt64 = 4,
  kInt64 = 5,
  kFloat16 = 6,
  kFloat32 = 7,
  kFloat64 = 8,
  kBFloat16 = 9,
};
enum class CuTensorMapInterleave : int { kNone = 0, k16Bytes = 1, k32Bytes = 2 };
enum class CuTensorMapSwizzle : int { kNone = 0, k32Bytes = 1, k64Bytes = 2, k128Bytes = 3 };
enum class CuTensorMapL2Promotion : int { kNone = 0, k64Bytes = 1, k128Bytes = 2, k256Bytes = 3 };
enum class CuTensorMapFloatOobFill : int { kNone = 0, kNanRequestZeroFma = 1 };

// Flags that are plain unsigned integers in the ABI.
inline constexpr unsigned kStreamNonBlocking = 1;
inline constexpr unsigned kEventDefault = 0;
inline constexpr unsigned kEventDisableTiming = 2;
inline constexpr unsigned kAddCaptureDependencies = 0;
inline constexpr unsigned kSetCaptureDependencies = 1;

// A 64-bit flag of cuGetProcAddress: entries for which stream 0 is the legacy default stream.
inline constexpr uint64_t kGetProcAddressLegacyStream = 1;

enum class CuCaptureMode : int { kGlobal = 0, kThreadLocal = 1, kRelaxed = 2 };
enum class CuCaptureStatus : int { kNone = 0, kActive = 1, kInvalidated = 2 };

enum class CuGraphNodeType : int {
  kKernel = 0,
  kMemcpy = 1,
  kMemset = 2,
  kHost = 3,
  kGraph = 4,
  kEmpty = 5,
  kWaitEvent = 6,
  kEventRecord = 7,
};

enum class CuGraphExecUpdateResult : int {
  kSuccess = 0,
  kError = 1,
  kTopologyChanged = 2,
  kNodeTypeChanged = 3,
  kFunctionChanged = 4,
  kParametersChanged = 5,
  kNotSupported = 6,
  kAttributesChanged = 8,
};

enum class CuMemoryType : int { kHost = 1, kDevice = 2, kArray = 3, kUnified = 4 };
enum class CuMemLocationType : int { kInvalid = 0, kDevice = 1 };
enum class CuMemAllocationType : int { kInvalid = 0, kPinned = 1 };
enum class CuMemAccessFlags : int { kNone = 0, kRead = 1, kReadWrite = 3 };
enum class CuMemGranularity : int { kMinimum = 0, kRecommended = 1 };
enum class CuPointerAttribute : int { kBufferId = 7 };

struct CuMemLocation {
  CuMemLocationType type = CuMemLocationType::kInvalid;
  int id = 0;
};

struct CuMemAllocationProperties {
  CuMemAllocationType type = CuMemAllocationType::kInvalid;
  int requested_handle_types = 0;
  CuMemLocation location;
  void* win32_handle_metadata = nullptr;
  unsigned char compression_type = 0;
  unsigned char gpu_direct_rdma_capable = 0;
  unsigned short usage = 0;  // NOLINT(google-runtime-int)
  unsigned char reserved[4] = {};
};

struct CuMemAccessDescriptor {
  CuMemLocation location;
  CuMemAccessFlags flags = CuMemAccessFlags::kNone;
};

struct CuKernelNodeParams {
  CuFunction function = nullptr;
  unsigned grid_x = 1;
  unsigned grid_y = 1;
  unsigned grid_z = 1;
  unsigned block_x = 1;
  unsigned block_y = 1;
  unsigned block_z = 1;
  unsigned shared_bytes = 0;
  void** kernel_params = nullptr;
  void** extra = nullptr;
  CuKernel kernel = nullptr;
  CuContext context = nullptr;
};

union alignas(8) CuLaunchAttributeValue {
  char padding[64] = {};
  int cooperative;  // Not 0: a cooperative launch.
  struct {
    unsigned x;
    unsigned y;
    unsigned z;
  } cluster;         // Blocks.
  int programmatic;  // Not 0: may start before the stream's last kernel has ended.
};

struct CuLaunchAttribute {
  CuLaunchAttributeId id = CuLaunchAttributeId::kIgnore;
  CuLaunchAttributeValue value = {};
};

// A TMA descriptor, opaque to all but the driver. Aligned to 64 bytes before CUDA 13.
struct alignas(128) CuTensorMap {
  uint64_t opaque[16] = {};
};

struct CuLaunchConfig {
  unsigned grid_x = 1;
  unsigned grid_y = 1;
  unsigned grid_z = 1;
  unsigned block_x = 1;
  unsigned block_y = 1;
  unsigned block_z = 1;
  unsigned shared_bytes = 0;
  CuStream stream = nullptr;
  CuLaunchAttribute* attributes = nullptr;
  unsigned attribute_count = 0;
};

struct CuMemcpyParams {
  size_t source_x = 0;
  size_t source_y = 0;
  size_t source_z = 0;
  size_t source_lod = 0;
  CuMemoryType source_type = CuMemoryType::kDevice;
  const void* source_host = nullptr;
  CuDeviceAddress source_device = 0;
  void* source_array = nullptr;
  void* reserved0 = nullptr;
  size_t source_pitch = 0;
  size_t source_height = 0;
  size_t target_x = 0;
  size_t target_y = 0;
  size_t target_z = 0;
  size_t target_lod = 0;
  CuMemoryType target_type = CuMemoryType::kDevice;
  void* target_host = nullptr;
  CuDeviceAddress target_device = 0;
  void* target_array = nullptr;
  void* reserved1 = nullptr;
  size_t target_pitch = 0;
  size_t target_height = 0;
  size_t width_bytes = 0;
  size_t height = 1;
  size_t depth = 1;
};

struct CuMemsetNodeParams {
  CuDeviceAddress target = 0;
  size_t pitch = 0;
  unsigned value = 0;
  unsigned element_size = 1;  // 1, 2 or 4.
  size_t width = 0;           // Elements per row.
  size_t height = 1;          // Rows.
};

struct CuHostNodeParams {
  CuHostFunction function = nullptr;
  void* user_data = nullptr;
};

struct CuGraphExecUpdateResultInfo {
  CuGraphExecUpdateResult result = CuGraphExecUpdateResult::kSuccess;
  CuGraphNode error_node = nullptr;
  CuGraphNode error_from_node = nullptr;
};

// How one node depends on another. All zeros: it begins after the other node ends, and sees what
// that node wrote.
struct CuGraphEdgeData {
  unsigned char from_port = 0;
  unsigned char to_port = 0;
  unsigned char type = 0;
  unsigned char reserved[5] = {};
};

// For an edge between kernels of which the later may start before the earlier has ended.
inline constexpr unsigned char kProgrammaticPort = 1;
inline constexpr unsigned char kProgrammaticEdge = 1;

}  // namespace coppice
