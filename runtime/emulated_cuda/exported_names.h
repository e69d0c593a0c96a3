// The names that libcuda exports where they are not cu<member>: those of entries that replaced an
// older ABI. cuGetProcAddress knows an entry by its name without the suffix.
//
// Threads: macros only.

#pragma once

// EXPORTED_NAME(MemAlloc) is cuMemAlloc_v2, EXPORTED_NAME(Init) is cuInit: what is defined below as
// `~, suffix` moves the suffix to where the empty one would be.
#define EXPORTED_NAME_PASTE(member, suffix) cu##member##suffix
#define EXPORTED_NAME_JOIN(member, suffix) EXPORTED_NAME_PASTE(member, suffix)
#define EXPORTED_NAME_SECOND(member, first, second, ...) EXPORTED_NAME_JOIN(member, second)
#define EXPORTED_NAME_PICK(member, ...) EXPORTED_NAME_SECOND(member, __VA_ARGS__, , )
#define EXPORTED_NAME(member) EXPORTED_NAME_PICK(member, SUFFIX_OF_##member)

#define SUFFIX_OF_DevicePrimaryCtxRelease ~, _v2
#define SUFFIX_OF_DeviceTotalMem ~, _v2
#define SUFFIX_OF_EventDestroy ~, _v2
#define SUFFIX_OF_GraphAddKernelNode ~, _v2
#define SUFFIX_OF_GraphExecKernelNodeSetParams ~, _v2
#define SUFFIX_OF_GraphExecUpdate ~, _v2
#define SUFFIX_OF_GraphGetEdges ~, _v2
#define SUFFIX_OF_GraphKernelNodeGetParams ~, _v2
#define SUFFIX_OF_MemAlloc ~, _v2
#define SUFFIX_OF_MemFree ~, _v2
#define SUFFIX_OF_MemGetInfo ~, _v2
#define SUFFIX_OF_MemcpyDtoDAsync ~, _v2
#define SUFFIX_OF_MemcpyDtoHAsync ~, _v2
#define SUFFIX_OF_MemcpyHtoDAsync ~, _v2
#define SUFFIX_OF_StreamBeginCapture ~, _v2
#define SUFFIX_OF_StreamDestroy ~, _v2
#define SUFFIX_OF_StreamGetCaptureInfo ~, _v3
#define SUFFIX_OF_StreamUpdateCaptureDependencies ~, _v2
