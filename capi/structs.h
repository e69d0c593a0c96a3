// Structs of callers who may have been compiled with an older or a later header. Private to capi/.
//
// Threads: pure functions.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <typeinfo>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "coppice/base/status.h"
#include "coppice/coppice.h"

namespace coppice::capi {

inline constexpr int64_t kElementsMax = 1 << 16;    // Of an array that a caller gives.
inline constexpr uint32_t kStructBytesMax = 65536;  // More is no size of a struct.

// What C calls a struct, which the names of types end in.
template <typename Struct>
const char* NameOfStruct() {
  return std::strstr(typeid(Struct).name(), "coppice_");
}

template <typename Struct>
absl::Status CheckStruct(const Struct* given, size_t bytes_min = sizeof(uint32_t)) {
  const char* const name = NameOfStruct<Struct>();
  if (given == nullptr) return InvalidArgument("{}: null; give a struct", name);
  const uint32_t size = given->struct_size;
  if (size >= bytes_min && size <= kStructBytesMax) return absl::OkStatus();
  return InvalidArgument("{}: struct_size is {}; set it to sizeof({})", name, size, name);
}

// A copy of what the caller has of `given`, the rest zeros.
template <typename Struct>
absl::StatusOr<Struct> ReadStruct(const Struct* given) {
  COPPICE_RETURN_IF_ERROR(CheckStruct(given));
  Struct read{};
  std::memcpy(static_cast<void*>(&read), given,
              std::min<size_t>(given->struct_size, sizeof(Struct)));
  return read;
}

// The same, where null is all zeros.
template <typename Struct>
absl::StatusOr<Struct> ReadOptions(const Struct* given) {
  if (given == nullptr) return Struct{};
  return ReadStruct(given);
}

// Whether `count` elements may lie at `first`.
inline absl::Status CheckArray(const void* first, int64_t count, const char* name) {
  if (count < 0 || count > kElementsMax)
    return InvalidArgument("{}: {} elements; give a number from 0 to {}", name, count,
                           kElementsMax);
  if (first == nullptr && count > 0)
    return InvalidArgument("{}: null, but its count is {}", name, count);
  return absl::OkStatus();
}

// `count` elements that lie at `first`.
template <typename Element>
absl::StatusOr<std::span<Element>> SpanOf(Element* first, int64_t count, const char* name) {
  COPPICE_RETURN_IF_ERROR(CheckArray(first, count, name));
  return std::span(first, static_cast<size_t>(count));
}

// Copies of an array of structs, which lie as far apart as the first says.
template <typename Struct>
absl::StatusOr<std::vector<Struct>> ReadArray(const Struct* first, int64_t count) {
  const char* const name = NameOfStruct<Struct>();
  COPPICE_RETURN_IF_ERROR(CheckArray(first, count, name));
  std::vector<Struct> read;
  if (count == 0) return read;
  const uint32_t stride = first->struct_size;
  const auto* at = reinterpret_cast<const std::byte*>(first);
  for (int64_t i = 0; i < count; ++i, at += stride) {
    COPPICE_ASSIGN_OR_RETURN(Struct element, ReadStruct(reinterpret_cast<const Struct*>(at)));
    if (element.struct_size != stride)
      return InvalidArgument("{}: element {} has a struct_size of {}, but the first element has {}",
                             name, i, element.struct_size, stride);
    read.push_back(element);
  }
  return read;
}

// Fills in what the caller's struct has of `value`, and zeros what this library does not know.
// Requires: CheckStruct.
template <typename Struct>
void WriteStruct(Struct value, Struct* out) {
  const uint32_t size = out->struct_size;
  value.struct_size = size;
  std::memset(static_cast<void*>(out), 0, size);
  std::memcpy(static_cast<void*>(out), &value, std::min<size_t>(size, sizeof(Struct)));
}

inline std::string TextOf(const char* text) {
  return text == nullptr ? std::string() : text;
}

// A name that has to be there.
inline absl::StatusOr<std::string> NameIn(const char* text, const char* what) {
  if (text == nullptr || *text == '\0') return InvalidArgument("{}: give a name", what);
  return std::string(text);
}

// The enumerator of a C number that lies in [0, count).
template <typename Enum>
absl::StatusOr<Enum> EnumOf(int32_t number, int count, const char* what) {
  if (number < 0 || number >= count)
    return InvalidArgument("{}: {} is not one of its {} values", what, number, count);
  return static_cast<Enum>(number);
}

// How many enumerators an enum has, of those in capi/described/session_fields.h.
template <typename Enum>
inline constexpr int kCountOf = 0;

template <typename Enum>
absl::StatusOr<Enum> EnumOf(int32_t number, const char* what) {
  static_assert(kCountOf<Enum> > 0, "include capi/described/session_fields.h");
  return EnumOf<Enum>(number, kCountOf<Enum>, what);
}

// The name of a C number, for functions that cannot fail.
template <typename Enum>
const char* NameOfNumber(int32_t number) {
  return number < 0 || number >= kCountOf<Enum> ? "unknown" : NameOf(static_cast<Enum>(number));
}

}  // namespace coppice::capi
