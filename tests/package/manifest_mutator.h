// Changes the bytes of packages and cases, and their manifests as JSON, from a seed.
//
// Threads: one at a time.

#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "nlohmann/json.hpp"

#include "tests/support/byte_mutator.h"

namespace coppice::package {

class ManifestMutator {
 public:
  explicit ManifestMutator(uint64_t seed) : bytes_(seed, std::string_view("\0\xff{[\"9", 6)) {}

  size_t Draw(size_t end) { return bytes_.Draw(end); }

  // Never the same bytes.
  std::string MutateBytes(const std::string& bytes) {
    std::string changed = bytes;
    while (changed == bytes)
      changed = bytes_.Mutate(bytes);
    return changed;
  }

  // Some values of a manifest replaced, removed, renamed or exchanged.
  void MutateJson(nlohmann::json& manifest) {
    for (size_t times = 1 + Draw(3); times > 0; --times) {
      std::vector<nlohmann::json*> places;
      Collect(manifest, places);
      EditJson(*places[Draw(places.size())], *places[Draw(places.size())]);
    }
  }

 private:
  static void Collect(nlohmann::json& value, std::vector<nlohmann::json*>& places) {
    places.push_back(&value);
    if (!value.is_structured()) return;
    for (nlohmann::json& each : value)
      Collect(each, places);
  }

  nlohmann::json Oddity() {
    static const nlohmann::json* const kOddities = new nlohmann::json(nlohmann::json::parse(R"json([
      null, true, false, 0, 1, -1, 2, 3, 7, 255, 256, 1024, 65535, 65536, 2147483647, 2147483648,
      4294967295, 4294967296, 9223372036854775807, -9223372036854775808, "", "x", "n", "m", "rows",
      "fixed", "main", "inner", "mix", "w", "y", "state", "cache", "draws", "t", "n *", "n // 0",
      "BLOCK", "((((((((((((((((((((((((((((((((((((n", "n + n + n", "0.5", "1e999", "-inf", "nan",
      "f32", "c64", "u8", "bits", "pow2", "kernel", "call", "child", "rw", "w", "ptx", "sm_90a",
      "../x", "/etc", "00ff", [], {}, [[]], [[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[
      ]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]],
      {"buffer": "t"}, {"buffer": "w"}, {"scalar": "rows"}, {"null": true}, {"value": "1.0"},
      [1, 1, 1], ["n", "n"], [0, 0, 0, 0, 0, 0, 0, 0, 0]])json"));
    if (Draw(12) == 0) return std::string(1 + Draw(3000), "na1 (\x01"[Draw(6)]);
    return (*kOddities)[Draw(kOddities->size())];
  }

  void EditJson(nlohmann::json& value, nlohmann::json& other) {
    switch (Draw(6)) {
      case 0:
        RemoveOne(value);
        return;
      case 1: {
        nlohmann::json copy = other;  // One may be inside the other.
        value = std::move(copy);
        return;
      }
      case 2:
        AddOne(value);
        return;
      case 3:
        if (value.is_string()) {
          std::string text = value;
          if (!text.empty()) bytes_.Edit(text);
          // Text that is no UTF-8 is for MutateBytes.
          for (char& c : text)
            c = static_cast<char>(c & 127);
          value = text;
          return;
        }
        [[fallthrough]];
      default:
        value = Oddity();
    }
  }

  void RemoveOne(nlohmann::json& value) {
    if (!value.is_structured() || value.empty()) return;
    auto at = value.begin();
    std::advance(at, Draw(value.size()));
    value.erase(at);
  }

  void AddOne(nlohmann::json& value) {
    if (value.is_array() && !value.empty()) {
      for (size_t times = Draw(20); times > 0; --times)
        value.push_back(value[Draw(value.size())]);
    } else if (value.is_object() && !value.empty()) {
      auto at = value.begin();
      std::advance(at, Draw(value.size()));
      nlohmann::json copy = *at;
      value[at.key() + static_cast<char>(' ' + Draw(95))] = std::move(copy);
    }
  }

  ByteMutator bytes_;
};

}  // namespace coppice::package
