// Taking tokens, and saying what was expected.

#include "runtime/emulator/ptx/cursor.h"

#include <algorithm>
#include <bit>

#include "fmt/format.h"

namespace coppice::ptx {
namespace {

constexpr size_t kQuoteMax = 60;  // Characters of the text in a message.

std::string Describe(const Token& token) {
  if (token.kind == Token::Kind::kEnd) return "the end of the text";
  std::string quote(token.text.substr(0, kQuoteMax));
  // Messages are one line of plain text, whatever bytes the PTX has.
  for (char& c : quote)
    if (c < ' ' || c > '~') c = '?';
  const std::string_view more = token.text.size() > kQuoteMax ? "..." : "";
  const char mark = token.kind == Token::Kind::kString ? '"' : '\'';
  return fmt::format("{0}{1}{2}{0}", mark, quote, more);
}

Number Negative(Number number) {
  constexpr uint64_t kOne = 1;
  switch (number.kind) {
    case Number::Kind::kInteger:
      number.bits = 0 - number.bits;
      break;
    case Number::Kind::kFloat32:
      number.bits ^= kOne << 31;
      break;
    case Number::Kind::kFloat64:
      number.bits ^= kOne << 63;
      break;
  }
  return number;
}

}  // namespace

std::string_view Cursor::Take() {
  const std::string_view text = token_.text;
  token_ = lexer_.Next();
  return text;
}

std::string_view Cursor::TakeOpcode() {
  const std::string_view text = lexer_.WithModifiers(token_).text;
  token_ = lexer_.Next();
  return text;
}

bool Cursor::Expect(char mark) {
  return Accept(mark) || Fail(fmt::format("'{}'", mark));
}

bool Cursor::ExpectName(std::string_view* name) {
  if (!At(Token::Kind::kWord)) return Fail("a name");
  *name = Take();
  return true;
}

bool Cursor::ExpectTerm(Number* number, bool negative) {
  while (At('-') || At('+'))
    negative ^= Take() == "-";
  if (!At(Token::Kind::kNumber)) return Fail("a number");
  const auto parsed = ParseNumber(token_.text);
  if (!parsed.has_value()) return Fail("a number of at most 64 bits");
  Take();
  *number = negative ? Negative(*parsed) : *parsed;
  return true;
}

bool Cursor::ExpectNumber(Number* number, bool negative) {
  if (!ExpectTerm(number, negative)) return false;
  while (number->kind == Number::Kind::kInteger && (At('+') || At('-'))) {
    Number term;
    if (!ExpectTerm(&term)) return false;
    if (term.kind != Number::Kind::kInteger)
      return Refuse("cannot add an integer and a floating-point number");
    number->bits += term.bits;
  }
  return true;
}

bool Cursor::ExpectInteger(int64_t least, int64_t most, int64_t* value) {
  const int line = this->line();
  Number number;
  if (!ExpectNumber(&number)) return false;
  *value = std::bit_cast<int64_t>(number.bits);
  if (number.kind != Number::Kind::kInteger || *value < least || *value > most)
    return Refuse(line, fmt::format("expected an integer from {} to {}", least, most));
  return true;
}

bool Cursor::SkipEnclosed(char open, char close) {
  if (!Expect(open)) return false;
  for (int64_t depth = 1; depth > 0;) {
    if (AtEnd()) return Fail(fmt::format("'{}'", close));
    if (At(open)) ++depth;
    if (At(close)) --depth;
    Take();
  }
  return true;
}

bool Cursor::Fail(std::string_view expected) {
  return Refuse(fmt::format("found {}, expected {}", Describe(token_), expected));
}

bool Cursor::Refuse(int line, const std::string& what) {
  if (!error_.has_value()) error_ = fmt::format("line {}: {}", line, what);
  return false;
}

absl::Status Cursor::status() const {
  return error_.has_value() ? absl::InvalidArgumentError(*error_) : absl::OkStatus();
}

}  // namespace coppice::ptx
