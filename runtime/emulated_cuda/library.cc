// The names that the library exports, and what cuGetProcAddress finds: the driver's table, entry by
// entry.

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "coppice/runtime/driver.h"
#include "coppice/runtime/kernel_image.h"

#include "runtime/emulated_cuda/admissions.h"
#include "runtime/emulated_cuda/client_entries.h"
#include "runtime/emulated_cuda/entries.h"
#include "runtime/emulated_cuda/exported_names.h"
#include "runtime/emulated_cuda/start.h"
#include "runtime/emulator/device_limits.h"
#include "runtime/emulator/entries.h"

namespace coppice::emulated_cuda {
bool IsHostCode(const void* image) {
  for (size_t i = 0; i < sizeof(KernelImage::kMagic); ++i)
    if (static_cast<const unsigned char*>(image)[i] !=
        static_cast<unsigned char>(KernelImage::kMagic >> (8 * i)))
      return false;
  return true;
}

template <typename... Args, CuResult (*DriverTable::*member)(Args...)>
struct Exported<member> {
  static CuResult Call(Args... args) {
    const DriverTable* const table = FindTable();
    return table == nullptr ? CuResult::kNotInitialized : (table->*member)(args...);
  }
};

// The same of a client's entry.
template <Admission admission, auto entry>
struct Client;

template <Admission admission, typename... Args, CuResult (*entry)(Args...)>
struct Client<admission, entry> {
  static CuResult Call(Args... args) {
    if (FindTable() == nullptr) return CuResult::kNotInitialized;
    return emulator::Admitted<admission, entry>::Call(args...);
  }
};

// Of what works before cuInit there is one, which needs no emulator.
template <>
struct Client<kAnytime, &GetErrorString> {
  static CuResult Call(CuResult error, const char** text) { return GetErrorString(error, text); }
};

template <>
struct Exported<&DriverTable::Init> {
  static CuResult Call(unsigned flags) {
    const CuResult result = Start();
    return result == CuResult::kSuccess ? FindTable()->Init(flags) : result;
  }
};

template <>
struct Exported<&DriverTable::DriverGetVersion> {
  static CuResult Call(int* version) {
    if (version == nullptr) return CuResult::kInvalidValue;
    *version = emulator::kDriverVersion;
    return CuResult::kSuccess;
  }
};

template <>
struct Exported<&DriverTable::GetErrorName> {
  static CuResult Call(CuResult error, const char** text) {
    return emulator::GetErrorName(error, text);
  }
};

template <>
struct Exported<&DriverTable::LibraryLoadData> {
  static CuResult Call(CuLibrary* library,  // NOLINT(readability-function-size)
                       const void* image,
                       CuJitOption* jit_options,
                       void** jit_values,
                       unsigned jit_count,
                       int* library_options,
                       void** library_values,
                       unsigned library_count) {
    const DriverTable* const table = FindTable();
    if (table == nullptr) return CuResult::kNotInitialized;
    if (image != nullptr && IsHostCode(image)) return CuResult::kInvalidImage;
    return table->LibraryLoadData(library, image, jit_options, jit_values, jit_count,
                                  library_options, library_values, library_count);
  }
};

// Objects that clients destroy wherever they come to it, on threads without a context too.
constexpr Admission Destroying(EntryId entry) {
  return {.orphan = true, .releases = true, .as = entry};
}

template <>
struct Exported<&DriverTable::StreamDestroy>
    : Client<Destroying(EntryId::kStreamDestroy), &emulator::StreamDestroy> {};
template <>
struct Exported<&DriverTable::EventDestroy>
    : Client<Destroying(EntryId::kEventDestroy), &emulator::EventDestroy> {};
template <>
struct Exported<&DriverTable::GraphDestroy>
    : Client<Destroying(EntryId::kGraphDestroy), &emulator::GraphDestroy> {};
template <>
struct Exported<&DriverTable::GraphExecDestroy>
    : Client<Destroying(EntryId::kGraphExecDestroy), &emulator::GraphExecDestroy> {};
template <>
struct Exported<&DriverTable::LibraryUnload>
    : Client<Destroying(EntryId::kLibraryUnload), &emulator::LibraryUnload> {};

template <>
struct Exported<&DriverTable::PointerGetAttribute> {
  static CuResult Call(void* data, CuPointerAttribute attribute, CuDeviceAddress address) {
    return Client<kContext, &PointerGetAnyAttribute>::Call(data, attribute, address);
  }
};

namespace {

// The same entry, to which stream 0 is the calling thread's own.
template <typename Arg>
Arg ForThread(Arg arg) {
  return arg;
}
CuStream ForThread(CuStream stream) {
  constexpr uintptr_t kPerThread = 2;
  // NOLINTNEXTLINE(performance-no-int-to-ptr)
  return stream == nullptr ? reinterpret_cast<CuStream>(kPerThread) : stream;
}

template <auto legacy>
struct PerThread;

template <typename... Args, CuResult (*legacy)(Args...)>
struct PerThread<legacy> {
  static CuResult Call(Args... args) { return legacy(ForThread(args)...); }
};

template <>
struct PerThread<&Exported<&DriverTable::LaunchKernelEx>::Call> {
  static CuResult Call(const CuLaunchConfig* config,
                       CuFunction function,
                       void** kernel_params,
                       void** extra) {
    CuLaunchConfig own;
    if (config != nullptr) {
      own = *config;
      own.stream = ForThread(own.stream);
    }
    return Exported<&DriverTable::LaunchKernelEx>::Call(config == nullptr ? nullptr : &own,
                                                        function, kernel_params, extra);
  }
};

struct Entry {
  std::string_view symbol;
  int version = 0;
  Function legacy = nullptr;
  Function per_thread = nullptr;
};

template <auto legacy>
Entry EntryOf(std::string_view symbol, int version) {
  return {symbol, version, reinterpret_cast<Function>(legacy),
          reinterpret_cast<Function>(&PerThread<legacy>::Call)};
}

const Entry kEntries[] = {
#define X(member, version, parameters) \
  EntryOf<&Exported<&DriverTable::member>::Call>("cu" #member, version),
#include "coppice/runtime/driver_entries.inc"
#undef X
#define X(member, name, exported, version, admission, parameters) \
  EntryOf<&Client<admission, &member>::Call>(name, version),
#include "runtime/emulated_cuda/client_entries.inc"
#undef X
    // Other names, and newer versions with the same ABI.
    EntryOf<&Exported<&DriverTable::GraphInstantiateWithFlags>::Call>("cuGraphInstantiate", 12000),
    EntryOf<&Exported<&DriverTable::EventElapsedTime>::Call>("cuEventElapsedTime", 12080),
    {"cuGetExportTable", 3000, reinterpret_cast<Function>(&cuGetExportTable),
     reinterpret_cast<Function>(&cuGetExportTable)},
    {"cuGetProcAddress", 12000, reinterpret_cast<Function>(&cuGetProcAddress_v2),
     reinterpret_cast<Function>(&cuGetProcAddress_v2)},
    {"cuGetProcAddress", 11030, reinterpret_cast<Function>(&cuGetProcAddress),
     reinterpret_cast<Function>(&cuGetProcAddress)},
};

}  // namespace

FoundEntry FindEntry(const char* symbol, int version, DefaultStream default_stream) {
  FoundEntry found;
  int found_version = 0;
  for (const Entry& entry : kEntries) {
    if (entry.symbol != symbol) continue;
    found.known = true;
    if (entry.version > version || entry.version < found_version) continue;
    found_version = entry.version;
    found.function = default_stream == DefaultStream::kLegacy ? entry.legacy : entry.per_thread;
  }
  return found;
}

// What the dynamic linker sees. A macro has parameters by name only, so that no function forwards
// to the entry: the symbol is resolved to it. clang finds a resolver by its name for the linker, so
// that it is none of this file's alone.
extern "C" {
#define X(member, version, parameters)                                                       \
  Function coppice_find_##member() {                                                         \
    return reinterpret_cast<Function>(&Exported<&DriverTable::member>::Call);                \
  }                                                                                          \
  __attribute__((visibility("default"), ifunc("coppice_find_" #member))) void EXPORTED_NAME( \
      member)();
#include "coppice/runtime/driver_entries.inc"
#undef X
#define X(member, name, exported, version, admission, parameters)         \
  Function coppice_find_client_##member() {                               \
    return reinterpret_cast<Function>(&Client<admission, &member>::Call); \
  }                                                                       \
  __attribute__((visibility("default"), ifunc("coppice_find_client_" #member))) void exported();
#include "runtime/emulated_cuda/client_entries.inc"
#undef X
}

}  // namespace coppice::emulated_cuda
