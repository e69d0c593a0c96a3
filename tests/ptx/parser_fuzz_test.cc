// Goal: whatever the text, there is a module or an error with a line, never a crash. Method: what a
// compiler made is cut, and its tokens are deleted, doubled, swapped and replaced, from a seed.

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "runtime/emulator/ptx/lexer.h"
#include "runtime/emulator/ptx/parser.h"
#include "tests/ptx/fixtures.h"
#include "tests/support/status_matchers.h"
#include "tests/support/test_device.h"
#include "tests/support/test_share.h"

namespace coppice::ptx {
namespace {

using testing::StartsWith;

// What no compiler writes where it stands.
constexpr std::string_view kOddities[] = {"{",
                                          "}",
                                          "(",
                                          ")",
                                          "[",
                                          "]",
                                          ",",
                                          ";",
                                          ":",
                                          "@",
                                          "!",
                                          "|",
                                          "<",
                                          ">",
                                          "-",
                                          "=",
                                          ".reg",
                                          ".param",
                                          ".b8",
                                          ".v4",
                                          "_",
                                          "\"",
                                          "/*",
                                          "//",
                                          "0f1",
                                          "99999999999999999999",
                                          "%r",
                                          "%r99999999",
                                          "$L",
                                          ".loc",
                                          ".section",
                                          ".align",
                                          "\x80",
                                          "generic",
                                          ".callprototype",
                                          ".branchtargets",
                                          "call"};

class Mutator {
 public:
  Mutator(std::string text, uint64_t seed) : text_(std::move(text)), random_(seed) {
    Lexer lexer(text_);
    for (Token token = lexer.Next(); token.kind != Token::Kind::kEnd; token = lexer.Next())
      tokens_.push_back(token.text);
  }

  std::string Mutate() {
    switch (Draw(6)) {
      case 0:
        return text_.substr(0, Draw(text_.size()));
      case 1:
        return text_.substr(Draw(text_.size()));
      case 2: {
        std::string text = text_;
        text[Draw(text.size())] = static_cast<char>(Draw(256));
        return text;
      }
      default:
        return MutateTokens(1 + Draw(4));
    }
  }

 private:
  size_t Draw(size_t end) { return std::uniform_int_distribution<size_t>(0, end - 1)(random_); }

  std::string MutateTokens(size_t times) {
    std::vector<std::pair<std::string_view, std::string_view>> edits;  // What to say for a token.
    for (; times > 0; --times) {
      const std::string_view token = tokens_[Draw(tokens_.size())];
      const std::string_view other = tokens_[Draw(tokens_.size())];
      switch (Draw(4)) {
        case 0:
          edits.emplace_back(token, "");
          break;
        case 1:
          edits.emplace_back(token, other);
          edits.emplace_back(other, token);
          break;
        case 2:
          edits.emplace_back(token, other);
          break;
        default:
          edits.emplace_back(token, kOddities[Draw(std::size(kOddities))]);
      }
    }
    std::string text = text_;
    std::sort(edits.begin(), edits.end(),
              [](const auto& a, const auto& b) { return a.first.data() > b.first.data(); });
    size_t end = text_.size();
    for (const auto& [token, said] : edits) {
      const auto at = static_cast<size_t>(token.data() - text_.data());
      if (at + token.size() > end) continue;  // Edited already.
      text.replace(at, token.size(), said);
      end = at;
    }
    return text;
  }

  std::string text_;
  std::vector<std::string_view> tokens_;
  std::mt19937_64 random_;
};

TEST(ParserFuzzTest, ChangedTextIsAModuleOrAnErrorWithItsLine) {
  constexpr int kTextsPerFixture = 100;
  const uint64_t seed = TestSeed();
  int64_t refused = 0;
  for (const std::string& name : PtxFixtureNames()) {
    Mutator mutator(ReadFixture(name), seed);
    for (int64_t i = 0; i < kTextsPerFixture / TestShare(); ++i) {
      const auto module = Parse(mutator.Mutate());
      if (module.ok()) continue;
      ++refused;
      ASSERT_THAT(module, StatusIs(absl::StatusCode::kInvalidArgument)) << name;
      ASSERT_THAT(std::string(module.status().message()), StartsWith("line ")) << name;
    }
  }
  EXPECT_GT(refused, 0);
}

}  // namespace
}  // namespace coppice::ptx
