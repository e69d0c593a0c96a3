// Goal: coppice_embed_text gives a target the whole text of a file, and nothing after it.
// Method: this file is embedded in its own test, which reads it from the disk as well.

#include <fstream>
#include <sstream>
#include <string>

#include "gtest/gtest.h"

extern "C" const char embedded_text_test_source[];

namespace {

TEST(EmbeddedTextTest, TextIsThatOfTheFileUpToAClosingNul) {
  std::ostringstream text;
  text << std::ifstream(COPPICE_EMBEDDED_FILE, std::ios::binary).rdbuf();
  ASSERT_GT(text.str().size(), 100U) << COPPICE_EMBEDDED_FILE;
  EXPECT_EQ(std::string(embedded_text_test_source), text.str());
}

}  // namespace
