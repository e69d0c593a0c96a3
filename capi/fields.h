// Members of C++ from fields of C, and the other way round. Private to capi/.
//
// What is 0 or null leaves a member as it is: the default of options.
//
// Threads: pure functions.

#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <string>
#include <tuple>

#include "absl/status/status.h"

#include "coppice/base/status.h"

#include "capi/structs.h"

namespace coppice::capi {

template <typename Given, typename Number>
void Set(Given given, Number& number) {
  if (given != 0) number = static_cast<Number>(given);
}

inline void Set(const char* given, std::string& text) {
  text = TextOf(given);
}

// Of a number whose default is not 0: -1 is 0.
inline void SetLimit(int32_t given, int& limit) {
  if (given != 0) limit = given == -1 ? 0 : given;
}

template <typename Enum>
absl::Status SetEnum(int32_t given, const char* what, Enum& member) {
  COPPICE_ASSIGN_OR_RETURN(member, EnumOf<Enum>(given, what));
  return absl::OkStatus();
}

// Of an enum whose 0 in C is a default of the field's own.
template <typename Enum>
absl::Status SetEnumOr(int32_t given, const char* what, Enum& member) {
  COPPICE_ASSIGN_OR_RETURN(const int read, EnumOf<int>(given, kCountOf<Enum> + 1, what));
  if (read != 0) member = static_cast<Enum>(read - 1);
  return absl::OkStatus();
}

template <typename From, typename To>
void CopyInto(const From& from, To& to) {
  static_assert(std::tuple_size_v<From> <= std::size(To{}));
  std::copy(from.begin(), from.end(), std::begin(to));
}

}  // namespace coppice::capi
