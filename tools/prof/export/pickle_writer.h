// Pickles of protocol 2, of opcodes that PyTorch's viewers read: numbers, texts, lists, dicts and
// tuples; nothing in them can run.
//
// A text is written once and referred to from then on. Lists come in batches of 1000, because a
// viewer in a browser cannot take many at once. Items are announced before they are written:
//
//   writer.BeginDict();  writer.Text("a"); writer.Int(1);  writer.EndDict();
//   writer.BeginList();  writer.Item(); writer.Int(1);  writer.EndList();
//
// Units: bytes. Threads: one at a time per writer.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "nlohmann/json.hpp"

namespace coppice {

class PickleWriter {
 public:
  PickleWriter();

  void Int(int64_t value);
  void Text(std::string_view text);
  void Bool(bool value) { out_ += value ? '\x88' : '\x89'; }

  // At least one key follows; keys and values alternate.
  void BeginDict() { out_ += "}("; }
  void EndDict() { out_ += 'u'; }

  void BeginList();
  void Item();
  void EndList();

  // After two values: they are a tuple.
  void Tuple2() { out_ += '\x86'; }

  // Remembers what was just written; `Get` writes a reference to it.
  int64_t Memoize();
  void Get(int64_t memo);

  // Any JSON.
  void Value(const nlohmann::ordered_json& json);

  // Ends the pickle.
  std::string Finish();

 private:
  // Looks texts up that are not strings yet.
  struct TextHash {
    using is_transparent = void;
    size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };

  void LittleEndian(uint64_t value, int bytes);

  std::string out_;
  absl::flat_hash_map<std::string, int64_t, TextHash, std::equal_to<>> texts_;  // Their memos.
  std::vector<int64_t> counts_;  // Items in the open batch of each open list.
  int64_t memos_ = 0;
};

}  // namespace coppice
