// Wrong drivers: the driver, its device and contexts; plain memory, its ids, copies and fills.

#include <cstring>
#include <iterator>

#include "tests/conformance/mutation.h"

namespace coppice::mutation {
namespace {

using enum CuResult;

constexpr auto kWholeWords = [](auto given) { return given / 4 * 4; };

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
CuResult NameAnyError(CuResult error, const char** text) {
  const CuResult result = right.GetErrorName(error, text);
  if (text != nullptr && *text == nullptr) *text = "CUDA_ERROR_UNKNOWN";
  return text == nullptr ? result : kSuccess;
}

// Allocations.

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
CuResult NoIdOfMappings(void* data, CuPointerAttribute attribute, CuDeviceAddress address) {
  const CuResult result = right.PointerGetAttribute(data, attribute, address);
  const auto after = notes.mappings.upper_bound(address);
  const bool is_mapped = after != notes.mappings.begin() &&
                         address - std::prev(after)->first < std::prev(after)->second.bytes;
  return is_mapped ? kInvalidValue : result;
}

// Copies and fills.

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
CuResult FillWithOneByte(CuDeviceAddress target, unsigned value, size_t count, CuStream stream) {
  constexpr unsigned kEveryByte = 0x01010101;
  return right.MemsetD32Async(target, (value & 0xFF) * kEveryByte, count, stream);
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
       AnswerWhen<&T::CtxSetCurrent, kSuccess,
                  [](CuContext context) { return context == nullptr; }>},
      {"retain_makes_current", "Retaining a context does not make it current.",
       Then<&T::DevicePrimaryCtxRetain,
            [](CuContext* context, auto) { right.CtxSetCurrent(*context); }>},
      {"retain_once", "The primary context counts how often it is retained.",
       Change<&T::DevicePrimaryCtxRetain, RetainOnce>},
      {"release_leaves_current", "Releasing a context does not take it from the thread.",
       Change<&T::DevicePrimaryCtxRelease, ReleaseLeavesCurrent>},
      {"release_without_retain", "A context that nobody retained cannot be released: 201.",
       Misreport<&T::DevicePrimaryCtxRelease, kInvalidContext>},
      {"device_out_of_range", "An ordinal outside the count is an invalid device: 101.",
       Misreport<&T::DeviceGet, kInvalidDevice, kInvalidValue>},
      {"device_name_overruns", "A device's name ends within the capacity.",
       Then<&T::DeviceGetName,
            [](char* name, int capacity, auto) {
              if (std::strlen(name) + 1 == static_cast<size_t>(capacity)) name[capacity] = '\0';
            }>},
      {"any_error_has_a_name", "An unknown error has no name.",
       Change<&T::GetErrorName, NameAnyError>},
      {"no_virtual_memory", "The device has virtual memory management.",
       Then<&T::DeviceGetAttribute,
            [](int* value, CuDeviceAttribute attribute, auto) {
              if (attribute == CuDeviceAttribute::kVirtualMemoryManagementSupported) *value = 0;
            }>},
  };
}

std::vector<Mutant> PlainMemoryMutants() {
  return {
      {"alloc_nothing", "An allocation is not empty.",
       AnswerWhen<&T::MemAlloc, kSuccess, [](auto, size_t bytes) { return bytes == 0; }>},
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
       Then<&T::MemGetInfo,
            [](size_t* free_bytes, size_t* total_bytes) { *free_bytes = *total_bytes; }>},
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
       Then<&T::PointerGetAttribute,
            [](void* data, auto...) { *static_cast<uint64_t*>(data) = 1; }>},
      {"id_of_each_byte", "All bytes of an allocation have one id.",
       Then<&T::PointerGetAttribute,
            [](void* data, auto, CuDeviceAddress address) {
              *static_cast<uint64_t*>(data) += address & 7;
            }>},
      {"freed_memory_has_an_id", "Freed memory has no id: 1.",
       Misreport<&T::PointerGetAttribute, kInvalidValue>},
      {"any_pointer_attribute", "An unknown attribute of a pointer is refused.",
       Pass<&T::PointerGetAttribute, 1, [](auto) { return CuPointerAttribute::kBufferId; }>},
      {"mappings_have_no_id", "Mapped memory has an id.",
       [](T& cu) {
         NoteMemory(cu);
         cu.PointerGetAttribute = NoIdOfMappings;
       }},
      {"copy_in_whole_words", "A copy to the device moves every byte.",
       Pass<&T::MemcpyHtoDAsync, 2, kWholeWords>},
      {"copy_back_in_whole_words", "A copy from the device moves every byte.",
       Pass<&T::MemcpyDtoHAsync, 2, kWholeWords>},
      {"copy_back_at_once", "A copy to the host follows the stream's earlier work.",
       Change<&T::MemcpyDtoHAsync, CopyBackAtOnce>},
      {"copy_at_once", "A copy on the device follows the stream's earlier work.",
       Change<&T::MemcpyDtoDAsync, CopyAtOnce>},
      {"copy_nothing", "A copy of no bytes succeeds.",
       AnswerWhen<&T::MemcpyHtoDAsync, kInvalidValue,
                  [](auto, auto, size_t bytes, auto) { return bytes == 0; }>},
      {"copy_unmapped", "A copy to addresses without memory is refused.",
       Misreport<&T::MemcpyDtoDAsync, kInvalidValue>},
      {"fill_at_once", "A fill follows the stream's earlier work.",
       Change<&T::MemsetD8Async, FillAtOnce>},
      {"fill_nothing", "A fill of no bytes succeeds.",
       AnswerWhen<&T::MemsetD8Async, kInvalidValue,
                  [](auto, auto, size_t count, auto) { return count == 0; }>},
      {"fill_counts_bytes", "A fill by words counts words.",
       Pass<&T::MemsetD32Async, 2, [](size_t count) { return count / 4; }>},
      {"fill_with_one_byte", "A fill by words writes the whole word.",
       Change<&T::MemsetD32Async, FillWithOneByte>},
      {"fill_unaligned", "A fill by words starts at a word.",
       Pass<&T::MemsetD32Async, 0, kWholeWords>},
  };
}

}  // namespace coppice::mutation
