// Values of a document as C++ values, each error with its place, the value and what is right.
//
// Threads: stateless.

#pragma once

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "coppice/base/status.h"
#include "coppice/base/tensor.h"

#include "base/json_document.h"

namespace coppice {

inline constexpr size_t kNameMax = 255;

// That it is an object with all fields of `names`, but those that end in `?`, and with no others
// but those that begin with "x-".
absl::Status CheckFields(Json object, std::initializer_list<std::string_view> names);

absl::Status CheckKind(Json value, JsonKind kind);
// That it is an object or a list of as many values.
absl::Status CheckObject(Json value, int64_t size_min, int64_t size_max);
absl::Status CheckList(Json value, int64_t size_min, int64_t size_max);
// That the key of `value` is a name: 1 to 255 printable ASCII characters.
absl::Status CheckName(Json value);

absl::StatusOr<int64_t> IntegerOf(Json value, int64_t min, int64_t max);
// `otherwise` where there is no value. Of the others too, whose names end in Or.
absl::StatusOr<int64_t> IntegerOr(Json value, int64_t otherwise, int64_t min, int64_t max);
absl::StatusOr<bool> BoolOr(Json value, bool otherwise);
absl::StatusOr<std::string> TextOf(Json value);
absl::StatusOr<std::string> TextOr(Json value, const char* otherwise);
// A text of 1 to 255 printable ASCII characters.
absl::StatusOr<std::string> NameOf(Json value);
// The index of the word that it is.
absl::StatusOr<int> WordOf(Json value, std::span<const char* const> words);
absl::StatusOr<int> WordOr(Json value, int otherwise, std::span<const char* const> words);
absl::StatusOr<DType> DTypeOf(Json value);
// A power of two, at most `max`.
absl::StatusOr<int64_t> PowerOfTwoOr(Json value, int64_t otherwise, int64_t max);
// A number in a string: "0.5", "1e-05", "inf", "-inf", "nan".
absl::StatusOr<double> FractionOf(Json value);
absl::StatusOr<double> FractionOr(Json value, double otherwise);

// Where `entries`, sorted by name, has the name, or -1.
template <typename Entry>
int IndexOf(const std::vector<Entry>& entries, std::string_view name) {
  size_t first = 0;
  size_t last = entries.size();
  while (first < last) {
    const size_t middle = first + (last - first) / 2;
    if (entries[middle].name < name)
      first = middle + 1;
    else
      last = middle;
  }
  return first < entries.size() && entries[first].name == name ? static_cast<int>(first) : -1;
}

// Where `entries` has the name that `value` is; `what` says what they are.
template <typename Entry>
absl::StatusOr<int> ReferenceOf(Json value, const std::vector<Entry>& entries, const char* what) {
  COPPICE_RETURN_IF_ERROR(CheckKind(value, JsonKind::kText));
  const int index = IndexOf(entries, value.text());
  if (index < 0)
    return value.Error("{} is not one of the {}; add it, or use the name of an existing one",
                       value.Show(), what);
  return index;
}

}  // namespace coppice
