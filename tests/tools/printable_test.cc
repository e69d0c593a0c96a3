// Goal: every sentence of tools/support/printable.h. Method: texts by hand, with every way not to
// be UTF-8.

#include "tools/support/printable.h"

#include <string_view>

#include "gtest/gtest.h"

namespace coppice {
namespace {

TEST(PrintableTest, PrintableTextIsUtf8WithoutOrders) {
  EXPECT_EQ(Printable("plain ~"), "plain ~");
  EXPECT_EQ(Printable("d\xC3\xA9j\xC3\xA0 \xE6\xBC\xA2 \xF0\x9F\x8C\xB3"),
            "d\xC3\xA9j\xC3\xA0 \xE6\xBC\xA2 \xF0\x9F\x8C\xB3");
  EXPECT_EQ(Printable("a\tb\nc\033[1m\x7f"), "a?b?c?[1m?");
  EXPECT_EQ(Printable(std::string_view("\0", 1)), "?");
  EXPECT_EQ(Printable("\xC2\x9B"), "?");             // A control character of its own.
  EXPECT_EQ(Printable("\xE2\x80\xAE"), "?");         // Turns the direction.
  EXPECT_EQ(Printable("\xC0\xAF"), "??");            // Longer than it need be.
  EXPECT_EQ(Printable("\xED\xA0\x80"), "???");       // Half a pair.
  EXPECT_EQ(Printable("\xF4\x90\x80\x80"), "????");  // Beyond the last.
  EXPECT_EQ(Printable("\xE6\xBC"), "??");            // Cut off.
  EXPECT_EQ(Printable("\xE6"
                      "a"),
            "?a");
  EXPECT_EQ(Printable("\x80\xFF"), "??");
}

TEST(PrintableTest, CharactersAreTakenOneByOne) {
  std::string_view text = "a\xC3\xA9\xE6\xBC\xA2\xF0\x9F\x8C\xB3\xFF.";
  for (const char32_t expected : {U'a', U'\u00E9', U'\u6F22', U'\U0001F333', U'\0', U'.'})
    EXPECT_EQ(TakeCharacter(text), expected);
  EXPECT_TRUE(text.empty());
}

}  // namespace
}  // namespace coppice
