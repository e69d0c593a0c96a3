// Parsing by events of nlohmann-json, each compared with its canonical text as it comes.

#include "base/json_document.h"

#include <algorithm>
#include <iterator>
#include <limits>

#include "nlohmann/json.hpp"

#include "coppice/base/check.h"

namespace coppice {
namespace {

constexpr size_t kShownMax = 60;  // Characters of a value in a message.

void AppendEscaped(std::string_view text, std::string& out) {
  const std::string dumped =
      nlohmann::json(text).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  out.append(dumped, 1, dumped.size() - 2);
}

// Whether more digits follow each other than twice this, of which the parser would make many copies
// before it said that no number is so long.
constexpr size_t kDigitsMax = size_t{1} << 20;
bool HasEndlessNumber(std::string_view text) {
  for (size_t end = kDigitsMax; end <= text.size(); end += kDigitsMax) {
    size_t begin = end;
    while (begin > end - kDigitsMax && text[begin - 1] >= '0' && text[begin - 1] <= '9')
      --begin;
    if (begin == end - kDigitsMax) return true;
  }
  return false;
}

bool IsPlain(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return c >= ' ' && c <= '~' && c != '"' && c != '\\'; });
}

}  // namespace

// Takes the parser's events. Each returns false to stop it, with the reason in status_.
class JsonBuilder {
 public:
  JsonBuilder(std::string_view text, JsonDocument& document, const JsonLimits& limits)
      : text_(text), document_(document), limits_(limits) {}

  bool null() { return Add({.kind = JsonKind::kNull}) && Expect("null"); }
  bool boolean(bool value) {
    return Add({.kind = JsonKind::kBool, .integer = value}) && Expect(value ? "true" : "false");
  }
  bool number_integer(int64_t value) {
    return Add({.kind = JsonKind::kInteger, .integer = value}) &&
           (!limits_.canonical || Expect(fmt::format_int(value).c_str()));
  }
  bool number_unsigned(uint64_t value) {
    if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
      return Fail(fmt::format("{} does not fit into a signed 64-bit integer", value));
    return number_integer(static_cast<int64_t>(value));
  }
  bool number_float(double /*value*/, const std::string& text) {
    return Fail(fmt::format("{} is not a 64-bit integer; write a fraction as a string",
                            QuoteText(text, kShownMax)));
  }
  bool string(const std::string& value) {
    const JsonDocument::Text at = Keep(value);
    return Add({.kind = JsonKind::kText, .integer = at.begin | int64_t{at.length} << 32}) &&
           ExpectText(value);
  }
  bool binary(const std::vector<uint8_t>& /*value*/) { return Fail("binary data"); }
  bool start_object(size_t /*elements*/) { return Open(JsonKind::kObject, "{"); }
  bool start_array(size_t /*elements*/) { return Open(JsonKind::kList, "["); }
  bool end_object() { return (limits_.canonical || HasDistinctKeys()) && Close("}"); }
  bool end_array() { return Close("]"); }

  bool key(const std::string& name) {
    JsonDocument::Node& object = document_.nodes_[open_.back()];
    const bool first = object.size == 0;
    if (limits_.canonical && !first && document_.TextOf(key_of_.back()) >= std::string_view(name))
      return Fail(fmt::format(
          "{} comes after {}; sort the names by their bytes, and write each name only once",
          QuoteText(name, kShownMax), QuoteText(document_.TextOf(key_of_.back()), kShownMax)));
    key_of_.back() = Keep(name);
    return (first || Expect(",")) && ExpectText(name) && Expect(":");
  }

  bool parse_error(size_t position, const std::string& token, const nlohmann::json::exception&) {
    if (status_.ok())
      status_ = InvalidArgument("{}: offset {}: JSON cannot continue with {}", document_.name_,
                                position, QuoteText(token, kShownMax));
    return false;
  }

  absl::Status Finish() {
    if (!status_.ok()) return status_;
    if (limits_.canonical && cursor_ != text_.size())
      Fail("text follows the end of the JSON; remove it, including line ends");
    return status_;
  }

 private:
  bool Fail(const std::string& what) {
    status_ = limits_.canonical
                  ? InvalidArgument("{}: offset {}: {}", document_.name_, cursor_, what)
                  : InvalidArgument("{}: {}", document_.name_, what);
    return false;
  }

  JsonDocument::Text Keep(std::string_view text) {
    const JsonDocument::Text kept = {static_cast<uint32_t>(document_.texts_.size()),
                                     static_cast<uint32_t>(text.size())};
    document_.texts_ += text;
    return kept;
  }

  bool Add(JsonDocument::Node node) {
    if (static_cast<int64_t>(document_.nodes_.size()) >= limits_.values_max)
      return Fail(fmt::format("more than {} values", limits_.values_max));
    if (!open_.empty()) {
      JsonDocument::Node& around = document_.nodes_[open_.back()];
      if (around.kind == JsonKind::kList && around.size > 0 && !Expect(",")) return false;
      if (around.kind == JsonKind::kObject) node.key = key_of_.back();
      ++around.size;
    }
    node.offset = static_cast<uint32_t>(cursor_);
    document_.nodes_.push_back(node);
    document_.nodes_.back().end = static_cast<uint32_t>(document_.nodes_.size());
    return true;
  }

  bool Open(JsonKind kind, const char* bracket) {
    if (static_cast<int>(open_.size()) >= limits_.depth_max)
      return Fail(
          fmt::format("more than {} levels of nested lists and objects", limits_.depth_max));
    if (!Add({.kind = kind}) || !Expect(bracket)) return false;
    open_.push_back(static_cast<uint32_t>(document_.nodes_.size() - 1));
    key_of_.emplace_back();
    return true;
  }

  bool Close(const char* bracket) {
    document_.nodes_[open_.back()].end = static_cast<uint32_t>(document_.nodes_.size());
    open_.pop_back();
    key_of_.pop_back();
    return Expect(bracket);
  }

  bool HasDistinctKeys() {
    document_.nodes_[open_.back()].end = static_cast<uint32_t>(document_.nodes_.size());
    std::vector<std::string_view> keys;
    for (const Json value : Json(&document_, open_.back()))
      keys.push_back(value.key());
    std::sort(keys.begin(), keys.end());
    const auto twice = std::adjacent_find(keys.begin(), keys.end());
    if (twice == keys.end()) return true;
    return Fail(
        fmt::format("the name {} occurs twice in one object", QuoteText(*twice, kShownMax)));
  }

  // That the text goes on with `expected`, if it is to be canonical.
  bool Expect(std::string_view expected) {
    if (!limits_.canonical) return true;
    if (text_.substr(cursor_, expected.size()) != expected)
      return Fail(
          fmt::format("canonical JSON has {} here; write no spaces, and write integers and strings "
                      "like Python's json.dumps",
                      QuoteText(expected, kShownMax)));
    cursor_ += expected.size();
    return true;
  }

  bool ExpectText(std::string_view text) {
    if (!limits_.canonical) return true;
    if (IsPlain(text)) return Expect("\"") && Expect(text) && Expect("\"");
    std::string escaped;
    AppendEscaped(text, escaped);
    return Expect("\"") && Expect(escaped) && Expect("\"");
  }

  const std::string_view text_;
  JsonDocument& document_;
  const JsonLimits limits_;
  size_t cursor_ = 0;  // What of a canonical text has been compared.
  std::vector<uint32_t> open_;
  std::vector<JsonDocument::Text> key_of_;  // Of each open object, the last one.
  absl::Status status_;
};

absl::StatusOr<JsonDocument> JsonDocument::Parse(std::string_view text,
                                                 const std::string& name,
                                                 const JsonLimits& limits) {
  if (text.size() > std::numeric_limits<uint32_t>::max() / 2)
    return InvalidArgument("{}: {} bytes are too many", name, text.size());
  if (HasEndlessNumber(text))
    return InvalidArgument("{}: a number has more than a million digits; write 64-bit integers",
                           name);
  JsonDocument document;
  document.name_ = name;
  document.texts_.reserve(text.size());
  JsonBuilder builder(text, document, limits);
  nlohmann::json::sax_parse(text.data(), text.data() + text.size(), &builder);
  COPPICE_RETURN_IF_ERROR(builder.Finish());
  return document;
}

const char* NameOf(JsonKind kind) {
  constexpr const char* kNames[] = {"null",     "true or false", "an integer",
                                    "a string", "a list",        "an object"};
  return kNames[static_cast<size_t>(kind)];
}

std::string QuoteText(std::string_view text, size_t characters_max) {
  std::string quoted = "\"";
  AppendEscaped(text.substr(0, characters_max), quoted);
  return quoted + (text.size() > characters_max ? "...\"" : "\"");
}

JsonKind Json::kind() const {
  return document_->nodes_[index_].kind;
}

int64_t Json::integer() const {
  COPPICE_CHECK(is(JsonKind::kInteger), "an integer");
  return document_->nodes_[index_].integer;
}

bool Json::boolean() const {
  COPPICE_CHECK(is(JsonKind::kBool), "true or false");
  return document_->nodes_[index_].integer != 0;
}

std::string_view Json::text() const {
  COPPICE_CHECK(is(JsonKind::kText), "a text");
  const auto at = static_cast<uint64_t>(document_->nodes_[index_].integer);
  return document_->TextOf({static_cast<uint32_t>(at), static_cast<uint32_t>(at >> 32)});
}

uint32_t Json::size() const {
  return document_->nodes_[index_].size;
}

std::string_view Json::key() const {
  return document_->TextOf(document_->nodes_[index_].key);
}

Json Json::operator[](std::string_view key) const {
  if (!is(JsonKind::kObject)) return {};
  for (const Json value : *this) {
    if (value.key() == key) return value;
  }
  return {};
}

uint32_t Json::offset() const {
  return document_->nodes_[index_].offset;
}

Json::Iterator& Json::Iterator::operator++() {
  index_ = document_->nodes_[index_].end;
  return *this;
}

Json::Iterator Json::begin() const {
  return {document_, index_ + 1};
}

Json::Iterator Json::end() const {
  return {document_, document_->nodes_[index_].end};
}

std::string Json::Show() const {
  switch (kind()) {
    case JsonKind::kNull:
      return "null";
    case JsonKind::kBool:
      return boolean() ? "true" : "false";
    case JsonKind::kInteger:
      return std::to_string(integer());
    case JsonKind::kText:
      return QuoteText(text(), kShownMax);
    case JsonKind::kList:
      return fmt::format("a list of length {}", size());
    case JsonKind::kObject:
      break;
  }
  return fmt::format("an object of size {}", size());
}

std::string Json::Pointer() const {
  std::string pointer;
  uint32_t at = 0;
  while (at != index_) {
    uint32_t position = 0;
    uint32_t child = at + 1;
    for (; document_->nodes_[child].end <= index_; child = document_->nodes_[child].end)
      ++position;
    const bool list = document_->nodes_[at].kind == JsonKind::kList;
    pointer += '/';
    std::string name = list ? std::to_string(position) : std::string();
    if (!list) AppendEscaped(document_->TextOf(document_->nodes_[child].key), name);
    for (const char c : name)
      pointer += c == '~' ? "~0" : c == '/' ? "~1" : std::string(1, c);
    at = child;
  }
  return pointer;
}

absl::Status Json::ErrorOf(const std::string& what) const {
  const std::string pointer = Pointer();
  return InvalidArgument("{}: {}: {}", document_->name_, pointer.empty() ? "the root" : pointer,
                         what);
}

}  // namespace coppice
