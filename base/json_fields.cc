// Reading fields: kinds, ranges, words and fractions.

#include "base/json_fields.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <system_error>

#include "coppice/base/units.h"

namespace coppice {
namespace {

bool IsPrintable(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= ' ' && c <= '~'; });
}

bool IsPrintableName(std::string_view text) {
  return !text.empty() && text.size() <= kNameMax && IsPrintable(text);
}

// Whether it is written as JSON writes a number.
bool IsNumber(std::string_view text) {
  size_t at = text.starts_with('-') ? 1 : 0;
  const auto digits = [&] {
    const size_t first = at;
    while (at < text.size() && text[at] >= '0' && text[at] <= '9')
      ++at;
    return at - first;
  };
  const size_t whole = at;
  const size_t length = digits();
  if (length == 0 || (length > 1 && text[whole] == '0')) return false;
  if (at < text.size() && text[at] == '.') {
    ++at;
    if (digits() == 0) return false;
  }
  if (at < text.size() && (text[at] == 'e' || text[at] == 'E')) {
    ++at;
    if (at < text.size() && (text[at] == '+' || text[at] == '-')) ++at;
    if (digits() == 0) return false;
  }
  return at == text.size();
}

absl::Status CheckSize(Json value, int64_t min, int64_t max) {
  if (value.size() >= min && value.size() <= max) return absl::OkStatus();
  return min == max ? value.Error("{}; write {} values", value.Show(), min)
                    : value.Error("{}; write {} to {} values", value.Show(), min, max);
}

}  // namespace

absl::Status CheckFields(Json object, std::initializer_list<std::string_view> names) {
  COPPICE_RETURN_IF_ERROR(CheckKind(object, JsonKind::kObject));
  const auto bare = [](std::string_view name) {
    return name.ends_with('?') ? name.substr(0, name.size() - 1) : name;
  };
  for (const Json value : object) {
    const std::string_view key = value.key();
    if (key.starts_with("x-")) continue;
    const auto* const found = std::find_if(
        names.begin(), names.end(), [&](std::string_view name) { return bare(name) == key; });
    if (found == names.end() && !object.document().ignores_unknown())
      return value.Error(
          "no field of this name is allowed here; remove it, or start its name with x- (allowed "
          "fields, ? marks an optional one: {})",
          fmt::join(names, ", "));
  }
  for (const std::string_view name : names) {
    if (!name.ends_with('?') && !object[name].present())
      return object.Error("has no field \"{}\"; add it", name);
  }
  return absl::OkStatus();
}

absl::Status CheckKind(Json value, JsonKind kind) {
  if (value.is(kind)) return absl::OkStatus();
  return value.Error("{}; write {}", value.Show(), NameOf(kind));
}

absl::Status CheckObject(Json value, int64_t size_min, int64_t size_max) {
  COPPICE_RETURN_IF_ERROR(CheckKind(value, JsonKind::kObject));
  return CheckSize(value, size_min, size_max);
}

absl::Status CheckList(Json value, int64_t size_min, int64_t size_max) {
  COPPICE_RETURN_IF_ERROR(CheckKind(value, JsonKind::kList));
  return CheckSize(value, size_min, size_max);
}

absl::Status CheckName(Json value) {
  if (IsPrintableName(value.key())) return absl::OkStatus();
  return value.Error("the name has {} bytes; names must have 1 to {} printable ASCII characters",
                     value.key().size(), kNameMax);
}

absl::StatusOr<int64_t> IntegerOf(Json value, int64_t min, int64_t max) {
  COPPICE_RETURN_IF_ERROR(CheckKind(value, JsonKind::kInteger));
  if (value.integer() < min || value.integer() > max)
    return value.Error("{}; write an integer from {} to {}", value.Show(), min, max);
  return value.integer();
}

absl::StatusOr<int64_t> IntegerOr(Json value, int64_t otherwise, int64_t min, int64_t max) {
  if (!value.present()) return otherwise;
  return IntegerOf(value, min, max);
}

absl::StatusOr<bool> BoolOr(Json value, bool otherwise) {
  if (!value.present()) return otherwise;
  COPPICE_RETURN_IF_ERROR(CheckKind(value, JsonKind::kBool));
  return value.boolean();
}

absl::StatusOr<std::string> TextOf(Json value) {
  COPPICE_RETURN_IF_ERROR(CheckKind(value, JsonKind::kText));
  return std::string(value.text());
}

absl::StatusOr<std::string> TextOr(Json value, const char* otherwise) {
  if (!value.present()) return std::string(otherwise);
  return TextOf(value);
}

absl::StatusOr<std::string> NameOf(Json value) {
  COPPICE_RETURN_IF_ERROR(CheckKind(value, JsonKind::kText));
  if (!IsPrintableName(value.text()))
    return value.Error("{}; write 1 to {} printable ASCII characters", value.Show(), kNameMax);
  return std::string(value.text());
}

absl::StatusOr<int> WordOf(Json value, std::span<const char* const> words) {
  COPPICE_RETURN_IF_ERROR(CheckKind(value, JsonKind::kText));
  const auto found = std::find(words.begin(), words.end(), value.text());
  if (found == words.end())
    return value.Error("{}; write one of {}", value.Show(), fmt::join(words, ", "));
  return static_cast<int>(found - words.begin());
}

absl::StatusOr<int> WordOr(Json value, int otherwise, std::span<const char* const> words) {
  if (!value.present()) return otherwise;
  return WordOf(value, words);
}

absl::StatusOr<DType> DTypeOf(Json value) {
  std::vector<const char*> names;
  for (const coppice::internal::DTypeFacts& facts : coppice::internal::kDTypeFacts)
    names.push_back(facts.name);
  COPPICE_ASSIGN_OR_RETURN(const int index, WordOf(value, names));
  return static_cast<DType>(index);
}

absl::StatusOr<int64_t> PowerOfTwoOr(Json value, int64_t otherwise, int64_t max) {
  COPPICE_ASSIGN_OR_RETURN(const int64_t power, IntegerOr(value, otherwise, 1, max));
  if (!IsPowerOfTwo(power)) return value.Error("{}; write a power of two", power);
  return power;
}

absl::StatusOr<double> FractionOf(Json value) {
  COPPICE_RETURN_IF_ERROR(CheckKind(value, JsonKind::kText));
  const std::string_view text = value.text();
  if (text == "nan") return std::numeric_limits<double>::quiet_NaN();
  if (text == "inf") return std::numeric_limits<double>::infinity();
  if (text == "-inf") return -std::numeric_limits<double>::infinity();
  double number = 0;
  const char* const end = text.data() + text.size();
  if (!IsNumber(text) || std::from_chars(text.data(), end, number).ec != std::errc())
    return value.Error(
        "{}; write a number such as \"0.5\", \"1e-05\", \"inf\", \"-inf\" or \"nan\"",
        value.Show());
  return number;
}

absl::StatusOr<double> FractionOr(Json value, double otherwise) {
  if (!value.present()) return otherwise;
  return FractionOf(value);
}

}  // namespace coppice
