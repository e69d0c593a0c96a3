// Changes files that are good, so that most of what comes out is nearly good, for readers of files.
//
// Threads: one at a time.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <string_view>

namespace coppice {

// Changes single bytes and short pieces. `tokens` are the characters that mean most to the reader.
class ByteMutator {
 public:
  ByteMutator(uint64_t seed, std::string_view tokens) : random_(seed), tokens_(tokens) {}

  // Requires: end > 0.
  size_t Draw(size_t end) { return std::uniform_int_distribution<size_t>(0, end - 1)(random_); }

  std::string Mutate(std::string bytes) {
    for (size_t times = 1 + Draw(4); times > 0 && !bytes.empty(); --times)
      Edit(bytes);
    return bytes;
  }

  void Edit(std::string& bytes) {
    const size_t at = Draw(bytes.size());
    const size_t length = 1 + Draw(std::min<size_t>(bytes.size() - at, 48));
    switch (Draw(8)) {
      case 0:
        bytes.resize(at);
        return;
      case 1:
        bytes.erase(at, length);
        return;
      case 2:
        bytes.insert(Draw(bytes.size()), bytes.substr(at, length));
        return;
      case 3:
        bytes.insert(at, 1 + Draw(8), tokens_[Draw(tokens_.size())]);
        return;
      case 4:
        bytes[at] = static_cast<char>(bytes[at] ^ 1 << Draw(8));
        return;
      case 5:
        bytes[at] = static_cast<char>(Draw(256));
        return;
      default:
        bytes[at] = tokens_[Draw(tokens_.size())];
    }
  }

 private:
  std::mt19937_64 random_;
  std::string_view tokens_;
};

}  // namespace coppice
