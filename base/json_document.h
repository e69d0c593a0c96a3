// JSON as a flat list of nodes: what a manifest and the header of a safetensors file are read from.
//
// A node stands before what is in it, so that a document is two allocations, whatever its shape. A
// view knows its place: errors name the file, the JSON pointer and the value. A canonical document
// is read by comparing each event of the parser with the text that canonical JSON has for it.
//
// Units: bytes of the text. Threads: a document is immutable once parsed, but for its one setter.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "fmt/format.h"

#include "coppice/base/status.h"

namespace coppice {

enum class JsonKind : uint8_t { kNull, kBool, kInteger, kText, kList, kObject };

// "an object", "a list".
const char* NameOf(JsonKind kind);

struct JsonLimits {
  bool canonical = true;  // FORMAT.md says what that is.
  int depth_max = 32;     // Lists and objects inside each other.
  int64_t values_max = int64_t{2} << 20;
};

class JsonDocument;

// A value in a document, or none. Requires: the document lives, and stays where it is.
class Json {
 public:
  Json() = default;
  Json(const JsonDocument* document, uint32_t index) : document_(document), index_(index) {}

  bool present() const { return document_ != nullptr; }
  JsonKind kind() const;
  bool is(JsonKind kind) const { return present() && this->kind() == kind; }

  // Requires of each: the kind (checked).
  int64_t integer() const;
  bool boolean() const;
  std::string_view text() const;
  // Of a list or an object: how many values are in it. Otherwise 0.
  uint32_t size() const;
  // Its name in the object around it; empty in a list.
  std::string_view key() const;
  // The value of that name, or none; also where this is no object. Cost: O(size()).
  Json operator[](std::string_view key) const;
  // Where it begins in the text; of a canonical document only.
  uint32_t offset() const;

  class Iterator {
   public:
    Iterator(const JsonDocument* document, uint32_t index) : document_(document), index_(index) {}
    Json operator*() const { return {document_, index_}; }
    Iterator& operator++();
    bool operator!=(const Iterator& other) const { return index_ != other.index_; }

   private:
    const JsonDocument* document_;
    uint32_t index_;
  };
  // What is in it, in order.
  Iterator begin() const;
  Iterator end() const;

  const JsonDocument& document() const { return *document_; }
  // What people read: a short text in quotes, a number, or "a list of length 3".
  std::string Show() const;
  // "/programs/main/steps/0". Cost: O(document).
  std::string Pointer() const;

  // kInvalidArgument that begins with the file and the pointer.
  template <typename... Args>
  absl::Status Error(fmt::format_string<Args...> format, Args&&... args) const {
    return ErrorOf(fmt::format(format, std::forward<Args>(args)...));
  }

 private:
  absl::Status ErrorOf(const std::string& what) const;

  const JsonDocument* document_ = nullptr;
  uint32_t index_ = 0;
};

class JsonDocument {
 public:
  // Reads all of `text`; `name` is for messages. Errors: kInvalidArgument with the place, also for
  // names that are twice in an object, numbers that are no int64, and what is beyond the limits.
  static absl::StatusOr<JsonDocument> Parse(std::string_view text,
                                            const std::string& name,
                                            const JsonLimits& limits);

  Json root() const { return {this, 0}; }
  const std::string& name() const { return name_; }
  // Whether fields that nobody knows are ignored: those of a newer minor version.
  bool ignores_unknown() const { return ignores_unknown_; }
  void IgnoreUnknown() { ignores_unknown_ = true; }

 private:
  friend class Json;
  friend class JsonBuilder;

  struct Text {
    uint32_t begin = 0;
    uint32_t length = 0;
  };
  struct Node {
    JsonKind kind = JsonKind::kNull;
    uint32_t offset = 0;
    uint32_t size = 0;
    uint32_t end = 0;  // The node behind all that is in it.
    Text key;
    int64_t integer = 0;  // Of a text: where it begins in texts_, and in the upper half its length.
  };

  std::string_view TextOf(Text text) const {
    return std::string_view(texts_).substr(text.begin, text.length);
  }

  std::string name_;
  std::vector<Node> nodes_;
  std::string texts_;
  bool ignores_unknown_ = false;
};

// `text` as a JSON string in ASCII, quotes included; a long one is cut, and ends in "...".
std::string QuoteText(std::string_view text, size_t characters_max);

}  // namespace coppice
