// A place in PTX text, with the token there: what the parser asks and takes.
//
// What fails notes the first error and returns false; nothing is worth reading behind it.
//
// Threads: one thread at a time.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"

#include "runtime/emulator/ptx/lexer.h"

namespace coppice::ptx {

class Cursor {
 public:
  explicit Cursor(std::string_view text) : lexer_(text), token_(lexer_.Next()) {}

  const Token& token() const { return token_; }
  int line() const { return token_.line; }
  bool AtEnd() const { return token_.kind == Token::Kind::kEnd; }
  bool At(Token::Kind kind) const { return token_.kind == kind; }
  bool At(char mark) const { return At(Token::Kind::kMark) && token_.text.front() == mark; }
  bool At(std::string_view text) const {
    return (At(Token::Kind::kWord) || At(Token::Kind::kDirective)) && token_.text == text;
  }

  // Takes the token, and gives what it says.
  std::string_view Take();
  // The same of the word here with its modifiers.
  std::string_view TakeOpcode();

  // Takes what is here if it is that.
  template <typename What>
  bool Accept(What what) {
    if (!At(what)) return false;
    Take();
    return true;
  }
  bool Expect(char mark);
  bool ExpectName(std::string_view* name);
  // A number with its sign and sums of numbers: "4", "-1", "8+4"; behind a minus if `negative`.
  bool ExpectNumber(Number* number, bool negative = false);
  // An integer of at least `least` and at most `most`.
  bool ExpectInteger(int64_t least, int64_t most, int64_t* value);

  // Goes past what is between the marks that open here and close, and may be in one another.
  bool SkipEnclosed(char open, char close);

  // Notes "line 12: found X, expected `expected`". Returns false.
  bool Fail(std::string_view expected);
  // Notes "line 12: `what`", of the line here or the one given. Returns false.
  bool Refuse(const std::string& what) { return Refuse(token_.line, what); }
  bool Refuse(int line, const std::string& what);

  // kInvalidArgument, of the first error.
  absl::Status status() const;

 private:
  bool ExpectTerm(Number* number, bool negative = false);

  Lexer lexer_;
  Token token_;
  std::optional<std::string> error_;
};

}  // namespace coppice::ptx
