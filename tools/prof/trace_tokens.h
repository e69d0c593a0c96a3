// The pieces of a trace's lines: tokens of an event, fields of a definition. Private to tools/prof.
//
// Threads: plain values.

#pragma once

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "nlohmann/json.hpp"

#include "tools/support/printable.h"

namespace coppice {

// So many bytes, elements or nanoseconds nothing has; sums of a few stay far from overflow.
inline constexpr int64_t kNumberMax = int64_t{1} << 53;

// Sets `value` to the enumerator called `name`; false if there is none.
template <typename Enum>
bool FindNamed(std::string_view name, int count, Enum& value) {
  for (int i = 0; i < count; ++i) {
    if (name != NameOf(static_cast<Enum>(i))) continue;
    value = static_cast<Enum>(i);
    return true;
  }
  return false;
}

// Takes the tokens of one line.
class Scanner {
 public:
  explicit Scanner(std::string_view line) : rest_(line) {}

  bool At(char token) {
    SkipSpace();
    return rest_.starts_with(token);
  }

  bool Take(char token) {
    if (!At(token)) return false;
    rest_.remove_prefix(1);
    return true;
  }

  bool TakeInteger(int64_t least, int64_t& value) {
    SkipSpace();
    const char* const last = rest_.data() + rest_.size();
    const auto [end, error] = std::from_chars(rest_.data(), last, value);
    if (error != std::errc() || value < least || value > kNumberMax) return false;
    // 1.5 and 1e3 are no whole numbers, and 01 is no number of JSON.
    if (end != last && (*end == '.' || *end == 'e' || *end == 'E')) return false;
    const char* const digits = rest_.data() + (rest_.front() == '-' ? 1 : 0);
    if (*digits == '0' && end - digits > 1) return false;
    rest_.remove_prefix(static_cast<size_t>(end - rest_.data()));
    return true;
  }

  // No name that a trace has needs an escape.
  bool TakeText(std::string_view& text) {
    if (!Take('"')) return false;
    const size_t end = rest_.find('"');
    if (end == std::string_view::npos) return false;
    text = rest_.substr(0, end);
    rest_.remove_prefix(end + 1);
    return true;
  }

  bool AtEnd() {
    SkipSpace();
    return rest_.empty();
  }
  std::string_view rest() const { return rest_; }

 private:
  void SkipSpace() {
    while (!rest_.empty() && (rest_.front() == ' ' || rest_.front() == '\t'))
      rest_.remove_prefix(1);
  }

  std::string_view rest_;
};

// How deep lists and objects of a text of JSON lie in each other; of any other text, some number.
inline int64_t DepthOf(std::string_view text) {
  int64_t depth = 0;
  int64_t deepest = 0;
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char token = text[i];
    if (token == '"') {
      quoted = !quoted;
    } else if (quoted) {
      if (token == '\\') ++i;
    } else if (token == '[' || token == '{') {
      deepest = std::max(deepest, ++depth);
    } else if (token == ']' || token == '}') {
      --depth;
    }
  }
  return deepest;
}

inline bool IsWhole(const nlohmann::json& value, int64_t least) {
  if (value.is_number_unsigned() && value.get<uint64_t>() > uint64_t{kNumberMax}) return false;
  return value.is_number_integer() && value.get<int64_t>() >= least &&
         value.get<int64_t>() <= kNumberMax;
}

// Reads the fields of a definition, its texts made printable; what is wrong with the first bad one
// stays in `wrong`.
class Fields {
 public:
  explicit Fields(const nlohmann::json& object) : object_(object) {}

  int64_t Integer(const char* key, int64_t least, int64_t most = kNumberMax) {
    const nlohmann::json* value = Find(key);
    if (value != nullptr && IsWhole(*value, least) && value->get<int64_t>() <= most)
      return value->get<int64_t>();
    Refuse(key, fmt::format("a whole number from {} to {}", least, most));
    return least;
  }

  std::string Text(const char* key) {
    const nlohmann::json* value = Find(key);
    if (value != nullptr && value->is_string())
      return Printable(value->get_ref<const std::string&>());
    Refuse(key, "a string");
    return {};
  }

  // The list under `key`, or an empty one.
  const nlohmann::json& List(const char* key, const char* of) {
    static const nlohmann::json empty = nlohmann::json::array();
    const nlohmann::json* value = Find(key);
    if (value != nullptr && value->is_array()) return *value;
    Refuse(key, fmt::format("a list of {}", of));
    return empty;
  }

  std::vector<int64_t> Integers(const char* key) {
    return Values<int64_t>(key, "whole numbers",
                           [](const nlohmann::json& value) { return IsWhole(value, 0); });
  }
  // Of any size and sign, as 64 bits hold them.
  std::vector<int64_t> Words(const char* key) {
    constexpr auto kMost = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
    return Values<int64_t>(key, "words", [](const nlohmann::json& value) {
      return value.is_number_integer() &&
             !(value.is_number_unsigned() && value.get<uint64_t>() > kMost);
    });
  }
  // The object under `key` as JSON.
  std::string ObjectText(const char* key) {
    const nlohmann::json* value = Find(key);
    if (value != nullptr && value->is_object()) return value->dump();
    Refuse(key, "an object");
    return {};
  }
  std::vector<std::string> ObjectTexts(const char* key) {
    std::vector<std::string> texts;
    const nlohmann::json& list = List(key, "objects");
    texts.reserve(list.size());
    for (const nlohmann::json& value : list) {
      if (!value.is_object()) Refuse(key, "a list of objects");
      texts.push_back(value.dump());
    }
    return texts;
  }
  std::vector<std::string> Texts(const char* key) {
    std::vector<std::string> texts = Values<std::string>(
        key, "strings", [](const nlohmann::json& value) { return value.is_string(); });
    for (std::string& text : texts)
      text = Printable(text);
    return texts;
  }

  bool Has(const char* key) const { return Find(key) != nullptr; }

  void Refuse(const char* key, const std::string& wanted) {
    if (wrong_.empty()) wrong_ = fmt::format("'{}' is not {}", key, wanted);
  }
  const std::string& wrong() const { return wrong_; }

 private:
  template <typename Value, typename IsRight>
  std::vector<Value> Values(const char* key, const char* of, IsRight is_right) {
    std::vector<Value> values;
    const nlohmann::json& list = List(key, of);
    values.reserve(list.size());
    for (const nlohmann::json& value : list) {
      if (!is_right(value)) {
        Refuse(key, fmt::format("a list of {}", of));
        return {};
      }
      values.push_back(value.get<Value>());
    }
    return values;
  }

  const nlohmann::json* Find(const char* key) const {
    const auto found = object_.find(key);
    return found == object_.end() ? nullptr : &*found;
  }

  const nlohmann::json& object_;
  std::string wrong_;
};

}  // namespace coppice
