// The tokens of PTX text.
//
// A word is an identifier, a directive an identifier with its dot (".reg"); other marks are tokens
// of one character. An opcode with its modifiers looks like a word and directives, so who expects
// one asks for the whole. Comments and lines that begin with # are skipped.
//
// Units: lines from 1. Threads: plain values. Texts point into the source.

#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace coppice::ptx {

struct Token {
  enum class Kind : uint8_t { kEnd, kWord, kDirective, kNumber, kString, kMark };
  Kind kind = Kind::kEnd;
  std::string_view text;  // Of a string, without its quotes.
  int line = 1;
};

struct Number {
  enum class Kind : uint8_t { kInteger, kFloat32, kFloat64 };
  Kind kind = Kind::kInteger;
  uint64_t bits = 0;  // The integer, or the pattern of the float.
};

// 12, 12U, 0x1F, 017, 0b101, 0f3F800000, 0d3FF0000000000000, 1.5e-3. Nothing: none of these, or
// more than 64 bits.
std::optional<Number> ParseNumber(std::string_view text);

class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) {}

  // The next token; kEnd for ever at the end. What opens a comment or string that is
  // never closed is a mark.
  Token Next();
  // `word`, which Next has just given, with the modifiers that follow it at once.
  Token WithModifiers(const Token& word);

 private:
  void SkipBlanks();
  size_t EndOfNumber() const;

  std::string_view text_;
  size_t at_ = 0;
  int line_ = 1;
};

}  // namespace coppice::ptx
