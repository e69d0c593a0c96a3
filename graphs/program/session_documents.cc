// Fields are visited as tools/describe lists them, so that a new one is written and read as well.

#include "coppice/graphs/session_documents.h"

#include <concepts>
#include <cstdint>
#include <limits>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "nlohmann/json.hpp"

#include "coppice/base/status.h"

#include "base/json_document.h"
#include "base/json_fields.h"
#include "graphs/described/spec_fields.h"

namespace coppice {
namespace internal {
namespace {

using Written = nlohmann::json;

constexpr const char* kUnknown = "?";  // The word of a number that is no enumerator.

template <typename Value>
concept Enumerator = std::is_enum_v<Value>;

template <typename Value>
concept Listed = requires(Value value) {
  value.push_back(value.front());
}
&&!std::same_as<Value, std::string>;

template <typename Value>
concept Described = requires(Value value) {
  VisitFields(value, [](const char*, auto&) {});
};

// --- writing

template <typename Value>
requires std::same_as<Value, bool> || std::integral<Value> || std::same_as<Value, std::string>
    Written JsonOf(const Value& value) {
  return value;
}
Written JsonOf(double value) {
  return fmt::format("{}", value);
}
Written JsonOf(const Dim& dim) {
  switch (dim.kind) {
    case Dim::Kind::kFixed:
      return dim.size;
    case Dim::Kind::kSymbol:
      return {{"symbol", dim.index}};
    case Dim::Kind::kExtent:
      return {{"extent", dim.index}};
    case Dim::Kind::kRagged:
      return {{"ragged", dim.index}};
  }
  return nullptr;
}
Written JsonOf(Enumerator auto value) {
  return NameOf(value);
}
template <typename Value>
Written JsonOf(const std::optional<Value>& value);
Written JsonOf(const Listed auto& list);
Written JsonOf(const Described auto& value);

template <typename Value>
Written JsonOf(const std::optional<Value>& value) {
  return value.has_value() ? JsonOf(*value) : Written();
}
Written JsonOf(const Listed auto& list) {
  Written json = Written::array();
  for (const auto& value : list)
    json.push_back(JsonOf(value));
  return json;
}
Written JsonOf(const Described auto& value) {
  Written json = Written::object();
  VisitFields(value, [&](const char* name, const auto& field) { json[name] = JsonOf(field); });
  return json;
}

template <typename Value>
std::string DumpOf(const Value& value) {
  // What is not UTF-8 in a name becomes U+FFFD.
  return JsonOf(value).dump(-1, ' ', /*ensure_ascii=*/true, Written::error_handler_t::replace);
}

// --- reading

absl::Status Read(Json json, bool& value) {
  COPPICE_ASSIGN_OR_RETURN(value, BoolOr(json, false));
  return absl::OkStatus();
}
absl::Status Read(Json json, std::integral auto& value) {
  using Limits = std::numeric_limits<std::remove_reference_t<decltype(value)>>;
  COPPICE_ASSIGN_OR_RETURN(const int64_t read, IntegerOf(json, Limits::min(), Limits::max()));
  value = static_cast<std::remove_reference_t<decltype(value)>>(read);
  return absl::OkStatus();
}
absl::Status Read(Json json, double& value) {
  COPPICE_ASSIGN_OR_RETURN(value, FractionOf(json));
  return absl::OkStatus();
}
absl::Status Read(Json json, std::string& value) {
  COPPICE_ASSIGN_OR_RETURN(value, TextOf(json));
  return absl::OkStatus();
}
absl::Status Read(Json json, Dim& dim) {
  if (json.is(JsonKind::kInteger)) {
    dim = Dim::Fixed(json.integer());
    return absl::OkStatus();
  }
  COPPICE_RETURN_IF_ERROR(CheckObject(json, 1, 1));
  const auto named = [&](const char* what, int count, Dim (*make)(int)) -> absl::Status {
    const Json index = json[what];
    if (!index.present()) return absl::OkStatus();
    COPPICE_ASSIGN_OR_RETURN(const int64_t read, IntegerOf(index, 0, count - 1));
    dim = make(static_cast<int>(read));
    return absl::OkStatus();
  };
  dim = {};
  COPPICE_RETURN_IF_ERROR(named("symbol", kSymbolsMax, Dim::Symbol));
  COPPICE_RETURN_IF_ERROR(named("extent", kExtentsMax, Dim::Extent));
  COPPICE_RETURN_IF_ERROR(named("ragged", kRaggedMax, Dim::Ragged));
  if (!dim.is_fixed()) return absl::OkStatus();
  return json.Error("is not a dim; write a size, or {{\"symbol\": 0}}");
}
absl::Status Read(Json json, Enumerator auto& value) {
  using Enum = std::remove_reference_t<decltype(value)>;
  COPPICE_RETURN_IF_ERROR(CheckKind(json, JsonKind::kText));
  for (int number = 0; NameOf(static_cast<Enum>(number)) != std::string_view(kUnknown); ++number) {
    if (json.text() != NameOf(static_cast<Enum>(number))) continue;
    value = static_cast<Enum>(number);
    return absl::OkStatus();
  }
  return json.Error(
      "{} is not a word that this version of coppice knows; use the version that wrote it",
      json.Show());
}
template <typename Value>
absl::Status Read(Json json, std::optional<Value>& value);
absl::Status Read(Json json, Listed auto& list);
absl::Status Read(Json json, Described auto& value);

template <typename Value>
absl::Status Read(Json json, std::optional<Value>& value) {
  value.reset();
  return json.is(JsonKind::kNull) ? absl::OkStatus() : Read(json, value.emplace());
}

template <typename Value>
Value Empty() {
  return {};
}
template <>
SymbolSpec Empty() {
  return {.name = {}, .policy = *PaddingPolicy::Exact(PaddingPolicy::kExtentMax)};
}

absl::Status Read(Json json, Listed auto& list) {
  using Value = typename std::remove_reference_t<decltype(list)>::value_type;
  COPPICE_RETURN_IF_ERROR(CheckKind(json, JsonKind::kList));
  list.clear();
  for (const Json one : json) {
    list.push_back(Empty<Value>());
    COPPICE_RETURN_IF_ERROR(Read(one, list.back()));
  }
  return absl::OkStatus();
}
absl::Status Read(Json json, Described auto& value) {
  COPPICE_RETURN_IF_ERROR(CheckKind(json, JsonKind::kObject));
  absl::Status status;
  VisitFields(value, [&](const char* name, auto& field) {
    if (!status.ok()) return;
    const Json given = json[name];
    status =
        given.present()
            ? Read(given, field)
            : json.Error("has no field \"{}\"; use the version of coppice that wrote the document",
                         name);
  });
  return status;
}

template <typename Value>
absl::StatusOr<Value> ReadDocument(std::string_view text, const std::string& where) {
  constexpr JsonLimits kLimits = {.canonical = false};
  COPPICE_ASSIGN_OR_RETURN(const JsonDocument document, JsonDocument::Parse(text, where, kLimits));
  Value value;
  COPPICE_RETURN_IF_ERROR(Read(document.root(), value));
  return value;
}

}  // namespace
}  // namespace internal

std::string WriteOptionsDocument(const SessionOptions& options) {
  return internal::DumpOf(options);
}

absl::StatusOr<SessionOptions> ReadOptionsDocument(std::string_view text,
                                                   const std::string& where) {
  return internal::ReadDocument<SessionOptions>(text, where);
}

std::string WriteSpecDocument(const ProgramSpec& spec) {
  return internal::DumpOf(spec);
}

absl::StatusOr<ProgramSpec> ReadSpecDocument(std::string_view text, const std::string& where) {
  return internal::ReadDocument<ProgramSpec>(text, where);
}

}  // namespace coppice
