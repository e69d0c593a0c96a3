// Wrong drivers: the driver, its device and contexts; plain memory, its ids, copies and fills.

#include <cstring>
#include <iterator>

#include "tests/conformance/mutation.h"

namespace coppice::mutation {
namespace {

using enum CuResult;

// Initialisation, device, context.

template <typename Member>
struct Forgiving;
template <typename... Args>
struct Forgiving<CuResult (*DriverTable::*)(Args...)> {
  template <auto entry>
  static CuResult Initializing(Args... args) {
    const CuResult result = (right.*entry)(args...);
    if (result != kNotInitialized) return result;
    right.Init(0);
    return (right.*entry)(args...);
  }
  template <auto entry>
  static CuResult Adopting(Args... args) {
    const CuResult result = (right.*entry)(args...);
    if (result != kInvalidContext || notes.context == nullptr) return result;
    right.CtxSetCurrent(notes.context);
    return (right.*entry)(args...);
  }
};

CuResult RetainAndNote(CuContext* context, CuDevice device) {
  const CuResult result = right.DevicePrimaryCtxRetain(context, device);
  if (result == kSuccess) notes.context = *context;
  return result;
}
template <auto... entries>
void InitializeAtFirstUse(T& cu) {
  ((cu.*entries = &Forgiving<decltype(entries)>::template Initializing<entries>), ...);
}
template <auto... entries>
void AdoptTheContext(T& cu) {
  cu.DevicePrimaryCtxRetain = RetainAndNote;
  ((cu.*entries = &Forgiving<decltype(entries)>::template Adopting<entries>), ...);
}

CuResult SetCurrentForAll(CuContext context) {
  const CuResult result = right.CtxSetCurrent(context);
  if (result == kSuccess) notes.context = context;
  return result;
}
CuResult GetCurrentOfAll(CuContext* context) {
  const CuResult result = right.CtxGetCurrent(context);
  if (result == kSuccess) *context = notes.context;
  return result;
}
CuResult SetCurrentKeepsTheLast(CuContext context) {
  return context == nullptr ? kSuccess : right.CtxSetCurrent(context);
}
CuResult RetainMakesCurrent(CuContext* context, CuDevice device) {
  const CuResult result = right.DevicePrimaryCtxRetain(context, device);
  if (result == kSuccess) right.CtxSetCurrent(*context);
  return result;
}
CuResult RetainOnce(CuContext* context, CuDevice device) {
  if (notes.context == nullptr || context == nullptr || device != 0)
    return RetainAndNote(context, device);
  *context = notes.context;
  return kSuccess;
}
CuResult ReleaseLeavesCurrent(CuDevice device) {
  const CuResult result = right.DevicePrimaryCtxRelease(device);
  right.CtxSetCurrent(nullptr);
  return result;
}
CuResult NameOverrunsItsEnd(char* name, int capacity, CuDevice device) {
  const CuResult result = right.DeviceGetName(name, capacity, device);
  if (result == kSuccess && std::strlen(name) + 1 == static_cast<size_t>(capacity))
    name[capacity] = '\0';
  return result;
}
CuResult NameAnyError(CuResult error, const char** text) {
  const CuResult result = right.GetErrorName(error, text);
  if (text != nullptr && *text == nullptr) *text = "CUDA_ERROR_UNKNOWN";
  return text == nullptr ? result : kSuccess;
}
CuResult NoVirtualMemory(int* value, CuDeviceAttribute attribute, CuDevice device) {
  const CuResult result = right.DeviceGetAttribute(value, attribute, device);
  if (result == kSuccess && attribute == CuDeviceAttribute::kVirtualMemoryManagementSupported)
    *value = 0;
  return result;
}

// Allocations.

CuResult AllocateNothing(CuDeviceAddress* address, size_t bytes) {
  return bytes == 0 ? kSuccess : right.MemAlloc(address, bytes);
}
CuResult AllocateUnaligned(CuDeviceAddress* address, size_t bytes) {
  constexpr size_t kShift = 8;
  if (bytes == 0) return right.MemAlloc(address, bytes);
  const CuResult result = right.MemAlloc(address, bytes + kShift);
  if (result != kSuccess) return result;
  *address += kShift;
  notes.allocations[*address] = kShift;
  return result;
}
CuResult FreeUnaligned(CuDeviceAddress address) {
  const auto found = notes.allocations.find(address);
  return right.MemFree(found == notes.allocations.end() ? address : address - found->second);
}
CuResult AllocateAndNote(CuDeviceAddress* address, size_t bytes) {
  const CuResult result = right.MemAlloc(address, bytes);
  if (result == kSuccess) notes.allocations[*address] = bytes;
  return result;
}
CuResult FreeAnyPart(CuDeviceAddress address) {
  const auto after = notes.allocations.upper_bound(address);
  if (after == notes.allocations.begin()) return right.MemFree(address);
  const auto& [start, bytes] = *std::prev(after);
  return address > start && address < start + bytes ? kSuccess : right.MemFree(address);
}
CuResult FreeAgain(CuDeviceAddress address) {
  const CuResult result = right.MemFree(address);
  const auto* const key = reinterpret_cast<const void*>(address);
  if (result == kSuccess) notes.seen.insert(key);
  return result == kInvalidValue && notes.seen.contains(key) ? kSuccess : result;
}
CuResult FailToAllocateAndLose(CuDeviceAddress* address, size_t bytes) {
  const CuResult result = right.MemAlloc(address, bytes);
  if (result == kOutOfMemory) notes.lost_bytes += bytes / 1024;
  return result;
}
CuResult FreeBytesOfNothing(size_t* free_bytes, size_t* total_bytes) {
  const CuResult result = right.MemGetInfo(free_bytes, total_bytes);
  if (result == kSuccess) *free_bytes = *total_bytes;
  return result;
}

// Ids.

CuResult AllocateWithTheLeastId(CuDeviceAddress* address, size_t bytes) {
  const CuResult result = right.MemAlloc(address, bytes);
  if (result != kSuccess) return result;
  std::set<uint64_t> taken;
  for (const auto& [start, id] : notes.ids)
    taken.insert(id);
  uint64_t& least = notes.ids[*address];
  for (least = 1; taken.contains(least);)
    ++least;
  return result;
}
CuResult FreeWithItsId(CuDeviceAddress address) {
  const CuResult result = right.MemFree(address);
  if (result == kSuccess) notes.ids.erase(address);
  return result;
}
CuResult LeastId(void* data, CuPointerAttribute attribute, CuDeviceAddress address) {
  const CuResult result = right.PointerGetAttribute(data, attribute, address);
  const auto after = notes.ids.upper_bound(address);
  if (result == kSuccess && after != notes.ids.begin())
    *static_cast<uint64_t*>(data) = std::prev(after)->second;
  return result;
}
CuResult OneIdForAll(void* data, CuPointerAttribute attribute, CuDeviceAddress address) {
  const CuResult result = right.PointerGetAttribute(data, attribute, address);
  if (result == kSuccess) *static_cast<uint64_t*>(data) = 1;
  return result;
}
CuResult IdOfEachByte(void* data, CuPointerAttribute attribute, CuDeviceAddress address) {
  const CuResult result = right.PointerGetAttribute(data, attribute, address);
  if (result == kSuccess) *static_cast<uint64_t*>(data) += address & 7;
  return result;
}
CuResult AnyAttribute(void* data, CuPointerAttribute /*attribute*/, CuDeviceAddress address) {
  return right.PointerGetAttribute(data, CuPointerAttribute::kBufferId, address);
}
CuResult NoIdOfMappings(void* data, CuPointerAttribute attribute, CuDeviceAddress address) {
  const CuResult result = right.PointerGetAttribute(data, attribute, address);
  const auto after = notes.mappings.upper_bound(address);
  const bool is_mapped = after != notes.mappings.begin() &&
                         address - std::prev(after)->first < std::prev(after)->second.bytes;
  return is_mapped ? kInvalidValue : result;
}

// Copies and fills.

CuResult CopyWholeWords(CuDeviceAddress target, const void* source, size_t bytes, CuStream stream) {
  return right.MemcpyHtoDAsync(target, source, bytes / 4 * 4, stream);
}
CuResult CopyBackWholeWords(void* target, CuDeviceAddress source, size_t bytes, CuStream stream) {
  return right.MemcpyDtoHAsync(target, source, bytes / 4 * 4, stream);
}
CuResult CopyBackAtOnce(void* target, CuDeviceAddress source, size_t bytes, CuStream stream) {
  const auto copy = [&](CuStream on) { return right.MemcpyDtoHAsync(target, source, bytes, on); };
  return StatusOf(stream) == CuCaptureStatus::kNone ? Aside(copy, true) : copy(stream);
}
CuResult CopyAtOnce(CuDeviceAddress target, CuDeviceAddress source, size_t bytes, CuStream stream) {
  const auto copy = [&](CuStream on) { return right.MemcpyDtoDAsync(target, source, bytes, on); };
  return StatusOf(stream) == CuCaptureStatus::kNone ? Aside(copy, true) : copy(stream);
}
CuResult FillAtOnce(CuDeviceAddress target, unsigned char value, size_t count, CuStream stream) {
  const auto fill = [&](CuStream on) { return right.MemsetD8Async(target, value, count, on); };
  return StatusOf(stream) == CuCaptureStatus::kNone ? Aside(fill, true) : fill(stream);
}
CuResult CopyNothing(CuDeviceAddress target, const void* source, size_t bytes, CuStream stream) {
  return bytes == 0 ? kInvalidValue : right.MemcpyHtoDAsync(target, source, bytes, stream);
}
CuResult FillNothing(CuDeviceAddress target, unsigned char value, size_t count, CuStream stream) {
  return count == 0 ? kInvalidValue : right.MemsetD8Async(target, value, count, stream);
}
CuResult FillByBytes(CuDeviceAddress target, unsigned value, size_t count, CuStream stream) {
  return right.MemsetD32Async(target, value, count / sizeof(value), stream);
}
CuResult FillWithOneByte(CuDeviceAddress target, unsigned value, size_t count, CuStream stream) {
  constexpr unsigned kEveryByte = 0x01010101;
  return right.MemsetD32Async(target, (value & 0xFF) * kEveryByte, count, stream);
}
CuResult FillUnaligned(CuDeviceAddress target, unsigned value, size_t count, CuStream stream) {
  return right.MemsetD32Async(target / sizeof(value) * sizeof(value), value, count, stream);
}

}  // namespace

std::vector<Mutant> ContextMutants() {
  return {
      {"init_with_flags", "cuInit takes no flags.", Misreport<&T::Init, kInvalidValue>},
      {"init_at_first_use", "Nothing works before cuInit: 3.",
       InitializeAtFirstUse<&T::DeviceGetCount, &T::DeviceGet, &T::DevicePrimaryCtxRetain,
                            &T::CtxGetCurrent, &T::CtxSetCurrent, &T::MemAlloc, &T::MemGetInfo,
                            &T::StreamCreate, &T::CtxSynchronize, &T::EventCreate, &T::GraphCreate,
                            &T::DeviceTotalMem, &T::DeviceGetName>},
      {"context_is_adopted", "A thread without a context can do nothing: 201.",
       AdoptTheContext<&T::MemAlloc, &T::StreamCreate, &T::CtxSynchronize>},
      {"context_of_all_threads", "Every thread has a current context of its own.",
       [](T& cu) {
         cu.CtxSetCurrent = SetCurrentForAll;
         cu.CtxGetCurrent = GetCurrentOfAll;
       }},
      {"context_stays_current", "A thread may give up its current context.",
       Change<&T::CtxSetCurrent, SetCurrentKeepsTheLast>},
      {"retain_makes_current", "Retaining a context does not make it current.",
       Change<&T::DevicePrimaryCtxRetain, RetainMakesCurrent>},
      {"retain_once", "The primary context counts how often it is retained.",
       Change<&T::DevicePrimaryCtxRetain, RetainOnce>},
      {"release_leaves_current", "Releasing a context does not take it from the thread.",
       Change<&T::DevicePrimaryCtxRelease, ReleaseLeavesCurrent>},
      {"release_without_retain", "A context that nobody retained cannot be released: 201.",
       Misreport<&T::DevicePrimaryCtxRelease, kInvalidContext>},
      {"device_out_of_range", "An ordinal outside the count is an invalid device: 101.",
       Misreport<&T::DeviceGet, kInvalidDevice, kInvalidValue>},
      {"device_name_overruns", "A device's name ends within the capacity.",
       Change<&T::DeviceGetName, NameOverrunsItsEnd>},
      {"any_error_has_a_name", "An unknown error has no name.",
       Change<&T::GetErrorName, NameAnyError>},
      {"no_virtual_memory", "The device has virtual memory management.",
       Change<&T::DeviceGetAttribute, NoVirtualMemory>},
  };
}

std::vector<Mutant> PlainMemoryMutants() {
  return {
      {"alloc_nothing", "An allocation is not empty.", Change<&T::MemAlloc, AllocateNothing>},
      {"alloc_unaligned", "An allocation starts at the alignment of buffers.",
       [](T& cu) {
         cu.MemAlloc = AllocateUnaligned;
         cu.MemFree = FreeUnaligned;
       }},
      {"alloc_beyond_the_device", "An allocation beyond the device is out of memory: 2.",
       Misreport<&T::MemAlloc, kOutOfMemory, kInvalidValue>},
      {"failed_alloc_loses_bytes", "An allocation that failed costs nothing.",
       [](T& cu) {
         cu.MemAlloc = FailToAllocateAndLose;
         cu.MemGetInfo = FreeBytesWithoutTheLost;
       }},
      {"alloc_costs_nothing", "What is allocated is missing from the free memory.",
       Change<&T::MemGetInfo, FreeBytesOfNothing>},
      {"free_any_part", "An allocation is freed at its start.",
       [](T& cu) {
         cu.MemAlloc = AllocateAndNote;
         cu.MemFree = FreeAnyPart;
       }},
      {"free_twice", "An allocation is freed once.", Change<&T::MemFree, FreeAgain>},
      {"free_nothing", "Freeing gives the memory back.", Skip<&T::MemFree>},
      {"id_is_given_out_again", "The id of freed memory is never given out again.",
       [](T& cu) {
         cu.MemAlloc = AllocateWithTheLeastId;
         cu.MemFree = FreeWithItsId;
         cu.PointerGetAttribute = LeastId;
       }},
      {"one_id_for_all", "Every allocation has an id of its own.",
       Change<&T::PointerGetAttribute, OneIdForAll>},
      {"id_of_each_byte", "All bytes of an allocation have one id.",
       Change<&T::PointerGetAttribute, IdOfEachByte>},
      {"freed_memory_has_an_id", "Freed memory has no id: 1.",
       Misreport<&T::PointerGetAttribute, kInvalidValue>},
      {"any_pointer_attribute", "An unknown attribute of a pointer is refused.",
       Change<&T::PointerGetAttribute, AnyAttribute>},
      {"mappings_have_no_id", "Mapped memory has an id.",
       [](T& cu) {
         NoteMemory(cu);
         cu.PointerGetAttribute = NoIdOfMappings;
       }},
      {"copy_in_whole_words", "A copy to the device moves every byte.",
       Change<&T::MemcpyHtoDAsync, CopyWholeWords>},
      {"copy_back_in_whole_words", "A copy from the device moves every byte.",
       Change<&T::MemcpyDtoHAsync, CopyBackWholeWords>},
      {"copy_back_at_once", "A copy to the host follows the stream's earlier work.",
       Change<&T::MemcpyDtoHAsync, CopyBackAtOnce>},
      {"copy_at_once", "A copy on the device follows the stream's earlier work.",
       Change<&T::MemcpyDtoDAsync, CopyAtOnce>},
      {"copy_nothing", "A copy of no bytes succeeds.", Change<&T::MemcpyHtoDAsync, CopyNothing>},
      {"copy_unmapped", "A copy to addresses without memory is refused.",
       Misreport<&T::MemcpyDtoDAsync, kInvalidValue>},
      {"fill_at_once", "A fill follows the stream's earlier work.",
       Change<&T::MemsetD8Async, FillAtOnce>},
      {"fill_nothing", "A fill of no bytes succeeds.", Change<&T::MemsetD8Async, FillNothing>},
      {"fill_counts_bytes", "A fill by words counts words.",
       Change<&T::MemsetD32Async, FillByBytes>},
      {"fill_with_one_byte", "A fill by words writes the whole word.",
       Change<&T::MemsetD32Async, FillWithOneByte>},
      {"fill_unaligned", "A fill by words starts at a word.",
       Change<&T::MemsetD32Async, FillUnaligned>},
  };
}

}  // namespace coppice::mutation
