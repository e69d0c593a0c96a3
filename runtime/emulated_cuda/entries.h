// The entries as clients call them: the emulator's, behind what is special to a library.
//
// Threads: any thread.

#pragma once

#include <cstdint>

#include "coppice/runtime/driver.h"

namespace coppice::emulated_cuda {

// Exported<&DriverTable::MemAlloc>::Call is cuMemAlloc. Until cuInit it returns kNotInitialized.
template <auto member>
struct Exported;

// True if `image` starts as an image of host code, which no device takes. Looks at no byte behind
// the first that differs.
bool IsHostCode(const void* image);

// What stream 0 means to a client.
enum class DefaultStream : uint8_t { kLegacy, kPerThread };

using Function = void (*)();

// What cuGetProcAddress knows: the entry of a name that has the newest ABI which is not newer than
// `version`.
struct FoundEntry {
  Function function = nullptr;  // Null: none is that old, or there is no such name.
  bool known = false;           // Whether there is such a name.
};
FoundEntry FindEntry(const char* symbol, int version, DefaultStream default_stream);

// What a look-up found.
enum class Query : int { kFound = 0, kNoSymbol = 1, kVersionTooOld = 2 };

}  // namespace coppice::emulated_cuda

// CUDA's own two ways in.
extern "C" {
coppice::CuResult cuGetProcAddress(const char* symbol,
                                   void** function,
                                   int version,
                                   uint64_t flags);
coppice::CuResult cuGetProcAddress_v2(const char* symbol,
                                      void** function,
                                      int version,
                                      uint64_t flags,
                                      coppice::emulated_cuda::Query* query);
// Tables of functions that are documented nowhere, which CUDA's runtime asks for: there are none.
// Clients look for this entry, and take its absence for worse than its refusal.
coppice::CuResult cuGetExportTable(const void** table, const void* id);
}
