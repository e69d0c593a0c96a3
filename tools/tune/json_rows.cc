// JSON lines: an object per line, whose values are found by name or by path.

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "nlohmann/json.hpp"

#include "tools/support/text_file.h"
#include "tools/tune/trace_rows.h"

namespace coppice {
namespace {

using JsonValue = nlohmann::json;

// The value that `path` names in `object`: a key, or keys with dots between.
const JsonValue* FindValue(const JsonValue& object, std::string_view path) {
  if (const auto whole = object.find(path); whole != object.end()) return &*whole;
  const size_t dot = path.find('.');
  if (dot == std::string_view::npos) return nullptr;
  const auto part = object.find(path.substr(0, dot));
  if (part == object.end() || !part->is_object()) return nullptr;
  return FindValue(*part, path.substr(dot + 1));
}

std::string TextOf(const JsonValue& value) {
  if (value.is_null()) return {};
  return value.is_string() ? value.get<std::string>() : value.dump();
}

absl::Status ReadObject(const JsonValue& object, TraceRows& rows) {
  rows.Begin();
  for (size_t i = 0; i < rows.wanted().size(); ++i) {
    for (const std::string& name : rows.wanted()[i].names) {
      const JsonValue* const value = FindValue(object, name);
      if (value == nullptr) continue;
      COPPICE_RETURN_IF_ERROR(rows.SetText(i, name, TextOf(*value)));
      break;
    }
  }
  rows.End();
  return absl::OkStatus();
}

// Pairs of a size and how often it was seen, as a histogram is exported.
absl::Status ReadSizes(const JsonValue& sizes, TraceRows& rows) {
  for (const JsonValue& pair : sizes) {
    if (!pair.is_array() || pair.size() != 2)
      return rows.Error("'sizes' has an element that is not a pair",
                        "give pairs of a size and its count");
    COPPICE_RETURN_IF_ERROR(ReadObject({{"size", pair[0]}, {"count", pair[1]}}, rows));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ReadJsonRows(TraceRows& rows) {
  bool first = true;
  while (!rows.done()) {
    const std::string_view line = rows.NextLine();
    if (line.find_first_not_of(" \t") == std::string_view::npos) continue;
    const JsonValue object = JsonValue::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!object.is_object())
      return rows.Error(fmt::format("{} is not a JSON object", Quote(line)),
                        "give one object on each line");
    if (std::exchange(first, false)) {
      std::vector<std::string> keys;
      for (const auto& [key, value] : object.items())
        keys.push_back(key);
      rows.SetKeys(std::move(keys));
    }
    const auto sizes = object.find("sizes");
    COPPICE_RETURN_IF_ERROR(sizes != object.end() && sizes->is_array() ? ReadSizes(*sizes, rows)
                                                                       : ReadObject(object, rows));
  }
  return absl::OkStatus();
}

}  // namespace coppice
