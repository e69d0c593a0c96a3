// Characters to tokens, and the forms of numbers.

#include "runtime/emulator/ptx/lexer.h"

#include <array>
#include <bit>
#include <charconv>
#include <cstddef>
#include <limits>
#include <system_error>

namespace coppice::ptx {
namespace {

enum CharacterClass : uint8_t {
  kBlank = 1,
  kDigit = 2,
  kNameStart = 4,  // Letters, _, $ and %.
  kNameBody = 8,   // What a name goes on with: % no more.
};

constexpr std::array<uint8_t, 256> kClasses = [] {
  std::array<uint8_t, 256> classes{};
  const auto add = [&](std::string_view characters, int bits) {
    for (const char c : characters)
      classes[static_cast<unsigned char>(c)] |= static_cast<uint8_t>(bits);
  };
  add(" \t\r\v\f", kBlank);
  add("0123456789", kDigit | kNameBody);
  add("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_$", kNameStart | kNameBody);
  add("%", kNameStart);
  return classes;
}();

bool Is(char c, int bits) {
  return (kClasses[static_cast<unsigned char>(c)] & bits) != 0;
}

template <typename T>
std::optional<uint64_t> ParseDigits(std::string_view digits, int base) {
  T value = 0;
  const auto [end, error] = std::from_chars(digits.begin(), digits.end(), value, base);
  if (error != std::errc() || end != digits.end()) return std::nullopt;
  return value;
}

std::optional<Number> ParsePattern(std::string_view digits, size_t length, Number::Kind kind) {
  if (digits.size() != length) return std::nullopt;
  const auto bits = ParseDigits<uint64_t>(digits, 16);
  if (!bits.has_value()) return std::nullopt;
  return Number{kind, *bits};
}

std::optional<Number> ParseDecimalFloat(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.begin(), text.end(), value);
  if (end != text.end() || error == std::errc::invalid_argument) return std::nullopt;
  // What is out of range is as good as infinite, or as zero: from_chars does not say which.
  if (error == std::errc::result_out_of_range) return std::nullopt;
  return Number{Number::Kind::kFloat64, std::bit_cast<uint64_t>(value)};
}

}  // namespace

std::optional<Number> ParseNumber(std::string_view text) {
  const char radix = text.size() > 1 && text[0] == '0' ? text[1] : '\0';
  if (radix == 'f' || radix == 'F') return ParsePattern(text.substr(2), 8, Number::Kind::kFloat32);
  if (radix == 'd' || radix == 'D') return ParsePattern(text.substr(2), 16, Number::Kind::kFloat64);
  const bool hexadecimal = radix == 'x' || radix == 'X';
  if (!hexadecimal && text.find_first_of(".eE") != std::string_view::npos)
    return ParseDecimalFloat(text);

  std::string_view digits = text;
  if (digits.ends_with('U') || digits.ends_with('u')) digits.remove_suffix(1);
  int base = 10;
  if (hexadecimal || radix == 'b' || radix == 'B') {
    base = hexadecimal ? 16 : 2;
    digits.remove_prefix(2);
  } else if (digits.size() > 1 && digits[0] == '0') {
    base = 8;
    digits.remove_prefix(1);
  }
  const auto bits = ParseDigits<uint64_t>(digits, base);
  if (!bits.has_value()) return std::nullopt;
  return Number{Number::Kind::kInteger, *bits};
}

void Lexer::SkipBlanks() {
  bool line_start = at_ == 0;
  while (at_ < text_.size()) {
    const char c = text_[at_];
    if (c == '\n') {
      ++line_;
      ++at_;
      line_start = true;
    } else if (Is(c, kBlank)) {
      ++at_;
    } else if (text_.substr(at_, 2) == "//" || (c == '#' && line_start)) {
      at_ = std::min(text_.find('\n', at_), text_.size());
    } else if (text_.substr(at_, 2) == "/*") {
      const size_t close = text_.find("*/", at_ + 2);
      if (close == std::string_view::npos) return;  // Marks that no grammar has.
      for (; at_ < close + 2; ++at_)
        line_ += text_[at_] == '\n' ? 1 : 0;
    } else {
      return;
    }
  }
}

// Numbers take letters too (0x1F, 12U), a dot, and the sign behind the e of a decimal.
size_t Lexer::EndOfNumber() const {
  const bool has_radix = text_[at_] == '0' && at_ + 1 < text_.size() &&
                         !Is(text_[at_ + 1], kDigit) && text_[at_ + 1] != 'e' &&
                         text_[at_ + 1] != 'E';
  size_t end = at_;
  while (end < text_.size()) {
    const char c = text_[end];
    const bool sign =
        (c == '+' || c == '-') && !has_radix && (text_[end - 1] == 'e' || text_[end - 1] == 'E');
    if (!Is(c, kNameBody) && c != '.' && !sign) break;
    ++end;
  }
  return end;
}

Token Lexer::Next() {
  SkipBlanks();
  if (at_ >= text_.size()) return {Token::Kind::kEnd, text_.substr(text_.size()), line_};
  const int line = line_;
  const size_t begin = at_;
  const char c = text_[begin];
  const char next = begin + 1 < text_.size() ? text_[begin + 1] : '\0';
  const auto token = [&](Token::Kind kind) {
    return Token{kind, text_.substr(begin, at_ - begin), line};
  };

  if (Is(c, kNameStart) || (c == '.' && Is(next, kNameStart))) {
    for (++at_; at_ < text_.size() && Is(text_[at_], kNameBody); ++at_) {
    }
    return token(c == '.' ? Token::Kind::kDirective : Token::Kind::kWord);
  }
  if (Is(c, kDigit) || (c == '.' && Is(next, kDigit))) {
    at_ = EndOfNumber();
    return token(Token::Kind::kNumber);
  }
  if (c == '"') {
    const size_t close = text_.find('"', begin + 1);
    if (close == std::string_view::npos) {
      ++at_;
      return token(Token::Kind::kMark);
    }
    for (; at_ <= close; ++at_)
      line_ += text_[at_] == '\n' ? 1 : 0;
    return {Token::Kind::kString, text_.substr(begin + 1, close - begin - 1), line};
  }
  ++at_;
  return token(Token::Kind::kMark);
}

Token Lexer::WithModifiers(const Token& word) {
  const size_t begin = at_ - word.text.size();
  while (at_ < text_.size()) {
    const bool scope = text_.substr(at_, 2) == "::";
    if (!scope && text_[at_] != '.' && !Is(text_[at_], kNameBody)) break;
    at_ += scope ? 2 : 1;
  }
  return {Token::Kind::kWord, text_.substr(begin, at_ - begin), word.line};
}

}  // namespace coppice::ptx
