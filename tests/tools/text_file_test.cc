// Goal: files are read and written whole or refused with their path, and what a message quotes fits
// one line. Method: files in the test's own folder.

#include "tools/support/text_file.h"

#include <filesystem>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "coppice/base/status.h"

#include "tests/support/status_matchers.h"

namespace coppice {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

TEST(TextFileTest, ReadsWhatWasWritten) {
  const std::string path = testing::TempDir() + "/coppice_text_file_test.txt";
  const std::string text = std::string("a\r\n\0b", 5) + std::string(100'000, 'x');
  ASSERT_OK(WriteTextFile(path, "something longer that is replaced" + text));
  ASSERT_OK(WriteTextFile(path, text));
  COPPICE_ASSERT_OK_AND_ASSIGN(const std::string read, ReadTextFile(path, "a file"));
  EXPECT_EQ(read, text);
  std::filesystem::remove(path);
}

TEST(TextFileTest, RefusesToReadWhatIsNoFileAndSaysWhatBelongsThere) {
  const std::string folder = testing::TempDir();
  const auto read = ReadTextFile(folder, "a file of lifetimes");
  EXPECT_THAT(read, StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(MessageOf(read.status()), StartsWith(folder + ": this is a directory; "));
  EXPECT_THAT(MessageOf(read.status()), HasSubstr("a file of lifetimes"));
  EXPECT_THAT(ReadTextFile(folder + "/coppice_no_such_file", "a file"),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(TextFileTest, SaysWhereItCannotWrite) {
  const std::string path = testing::TempDir() + "/coppice_no_such_folder/file";
  const absl::Status status = WriteTextFile(path, "text");
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_THAT(MessageOf(status), StartsWith(path));
}

TEST(TextFileTest, SaysThatADeviceIsFull) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "there is no full device here";
  EXPECT_THAT(WriteTextFile("/dev/full", "text"), StatusIs(absl::StatusCode::kFailedPrecondition));
}

TEST(TextFileTest, TakesLinesWithoutTheirEnds) {
  std::string_view text = "one\ntwo\r\n\nlast";
  EXPECT_EQ(TakeLine(text), "one");
  EXPECT_EQ(TakeLine(text), "two");
  EXPECT_EQ(TakeLine(text), "");
  EXPECT_EQ(TakeLine(text), "last");
  EXPECT_TRUE(text.empty());
}

TEST(TextFileTest, QuotesInOnePrintableLine) {
  EXPECT_EQ(Quote("size"), "'size'");
  EXPECT_EQ(Quote("a\n\x7f"), "'a\\x0a\\x7f'");
  EXPECT_EQ(Quote(std::string(41, 'a')), "'" + std::string(40, 'a') + "...'");
}

}  // namespace
}  // namespace coppice
