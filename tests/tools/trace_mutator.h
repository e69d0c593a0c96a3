// Changes traces that are good, for readers of traces.
//
// Threads: one at a time.

#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "tests/support/byte_mutator.h"

namespace coppice {

// Changes bytes, and lines, names and numbers, so that many stay traces, of things that no session
// does.
class TraceMutator {
 public:
  explicit TraceMutator(uint64_t seed) : bytes_(seed, {kTokens.data(), kTokens.size()}) {}

  size_t Draw(size_t end) { return bytes_.Draw(end); }

  std::string Mutate(std::string text) {
    // One change, as half of the copies have, leaves most of them traces; several reach further.
    const size_t count = Draw(2) == 0 ? 1 : 1 + Draw(4);
    for (size_t times = count; times > 0 && !text.empty(); --times) {
      const size_t kind = Draw(20);
      if (kind == 0) {
        bytes_.Edit(text);
      } else if (kind < 12) {
        ChangeNumber(text);
      } else if (kind < 15) {
        ChangeWord(text);
      } else if (kind == 15) {
        ChangeText(text);
      } else {
        ChangeLine(text);
      }
    }
    return text;
  }

  // One number is another, of those that are near ends of what readers take.
  void ChangeNumber(std::string& text) {
    static constexpr std::array<std::string_view, 24> kNumbers = {
        "0",          "1",          "2",
        "3",          "5",          "7",
        "2048",       "4096",       "6000",
        "65536",      "1000000",    "2147483647",
        "2147483648", "4294967296", "1099511627776",
        "-1",         "-2",         "9007199254740992",
        "01",         "1.5",        "9007199254740993",
        "1e9",        "-0",         "99999999999999999999999"};
    // Most are of those that everybody takes.
    const size_t chosen = Draw(4) > 0 ? Draw(9) : Draw(kNumbers.size());
    const size_t begin = text.find_first_of("0123456789", Draw(text.size()));
    if (begin == std::string::npos) return;
    const size_t end = std::min(text.find_first_not_of("0123456789", begin), text.size());
    text.replace(begin, end - begin, kNumbers[chosen]);
  }

  // A line is gone, is somewhere else, or is there twice.
  void ChangeLine(std::string& text) {
    const size_t at = Draw(text.size());
    const size_t begin = at == 0 ? 0 : text.rfind('\n', at - 1) + 1;
    const size_t end = std::min(text.find('\n', at), text.size() - 1) + 1;
    const std::string line = text.substr(begin, end - begin);
    if (Draw(2) == 0) text.erase(begin, end - begin);
    if (text.empty() || Draw(2) == 0) return;
    const size_t to = text.find('\n', Draw(text.size()));
    if (to != std::string::npos) text.insert(to + 1, line);
  }

  // A word in quotes is another word of the same trace.
  void ChangeWord(std::string& text) {
    const auto word = WordFrom(text, Draw(text.size()));
    if (word.empty()) return;
    const std::string other(WordFrom(text, Draw(text.size())));
    text.replace(static_cast<size_t>(word.data() - text.data()), word.size(), other);
  }

  // A text or a list has something in it that few have.
  void ChangeText(std::string& text) {
    static constexpr std::array<std::string_view, 9> kPieces = {
        "\xff\xfe",   "\xed\xa0\x80", "\\ud800", "\\u0000", "</script>",
        "\\u001b[2J", "\xe2\x80\xae", "\"\\\"",  "%s%n"};
    if (Draw(4) == 0) {
      const size_t depth = size_t{1} << Draw(18);
      const size_t at = text.find_first_of("[{", Draw(text.size()));
      if (at != std::string::npos) text.insert(at, std::string(depth, text[at]));
      return;
    }
    const size_t at = text.find('"', Draw(text.size()));
    if (at == std::string::npos) return;
    if (Draw(4) == 0) {
      text.insert(at + 1, std::string(size_t{1} << Draw(16), 'n'));
    } else if (Draw(4) == 0) {
      text.insert(at + 1, 1, '\0');
    } else {
      text.insert(at + 1, kPieces[Draw(kPieces.size())]);
    }
  }

 private:
  static constexpr std::string_view kTokens{"[]{},:\"\\\n\r 0123456789.eE+-ntf\xff\xc3\x80\0", 33};

  // The first text in quotes from `at` on, without them; empty if there is none.
  static std::string_view WordFrom(std::string_view text, size_t at) {
    const size_t begin = text.find('"', at);
    if (begin == std::string_view::npos) return {};
    const size_t end = text.find('"', begin + 1);
    if (end == std::string_view::npos) return {};
    return text.substr(begin + 1, end - begin - 1);
  }

  ByteMutator bytes_;
};

}  // namespace coppice
