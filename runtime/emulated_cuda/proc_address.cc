// cuGetProcAddress: which function stands for a name at a version of CUDA.

#include <cstdint>

#include "coppice/runtime/cuda_abi.h"

#include "runtime/emulated_cuda/entries.h"
#include "runtime/emulator/device_limits.h"

using coppice::CuResult;
using coppice::emulated_cuda::DefaultStream;
using coppice::emulated_cuda::FindEntry;
using coppice::emulated_cuda::FoundEntry;
using coppice::emulated_cuda::Query;

// A name that is not known and a version that is too old are no errors; the function is null then.
__attribute__((visibility("default"))) CuResult cuGetProcAddress_v2(
    const char* symbol, void** function, int version, uint64_t flags, Query* query) {
  constexpr uint64_t kPerThreadStream = 2;  // A flag, beside kGetProcAddressLegacyStream.
  if (symbol == nullptr || function == nullptr || version > coppice::emulator::kDriverVersion ||
      flags > kPerThreadStream)
    return CuResult::kInvalidValue;
  const FoundEntry found =
      FindEntry(symbol, version,
                flags == kPerThreadStream ? DefaultStream::kPerThread : DefaultStream::kLegacy);
  *function = reinterpret_cast<void*>(found.function);
  if (query != nullptr) {
    *query = found.known ? Query::kVersionTooOld : Query::kNoSymbol;
    if (found.function != nullptr) *query = Query::kFound;
  }
  return CuResult::kSuccess;
}

// That of CUDA 11.3, which has no other way to say that there is no such function.
__attribute__((visibility("default"))) CuResult cuGetProcAddress(const char* symbol,
                                                                 void** function,
                                                                 int version,
                                                                 uint64_t flags) {
  const CuResult result = cuGetProcAddress_v2(symbol, function, version, flags, nullptr);
  return result == CuResult::kSuccess && *function == nullptr ? CuResult::kNotFound : result;
}

__attribute__((visibility("default"))) CuResult cuGetExportTable(const void** /*table*/,
                                                                 const void* /*id*/) {
  return CuResult::kNotSupported;
}
