// What nodes are found by. Private to graphs/.
//
// Threads: plain values.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "coppice/graphs/program.h"

#include "graphs/node/surroundings.h"
#include "graphs/program/program.h"

namespace coppice::internal {

// Padded extent of each symbol, then each key scalar; compared in full.
struct BucketKey {
  // NOLINTNEXTLINE(*-use-equals-default, *-member-init): leaves the words unset, for speed.
  BucketKey() {}

  int word_count = 0;
  std::array<int64_t, kSymbolsMax + kScalarsMax> words;  // Those from word_count on are not set.

  friend bool operator==(const BucketKey& a, const BucketKey& b) {
    return a.word_count == b.word_count &&
           std::memcmp(a.words.data(), b.words.data(),
                       sizeof(int64_t) * static_cast<size_t>(a.word_count)) == 0;
  }
};

// Everything a graph of one program depends on, per lane; compared in full.
struct NodeKey {
  const StaticVersion* statics = nullptr;
  const Surroundings* surroundings = nullptr;  // Null for a root.
  BucketKey bucket;

  friend bool operator==(const NodeKey& a, const NodeKey& b) = default;
};

struct KeyHash {
  size_t operator()(const BucketKey& key) const { return Mix(key, 0); }
  size_t operator()(const NodeKey& key) const {
    return Mix(key.bucket, (reinterpret_cast<uintptr_t>(key.statics) >> 4) ^
                               reinterpret_cast<uintptr_t>(key.surroundings));
  }

 private:
  static size_t Mix(const BucketKey& key, uint64_t hash) {
    for (int i = 0; i < key.word_count; ++i) {
      hash = (hash ^ static_cast<uint64_t>(key.words[static_cast<size_t>(i)])) * 0x9e3779b97f4a7c15;
      hash ^= hash >> 32;
    }
    return hash;
  }
};

}  // namespace coppice::internal
