// Goal: files are read and written whole or refused with their path, no output is an input or two
// of a kind, and what a message quotes fits one line. Method: files in the test's own folder.

#include "tools/support/text_file.h"

#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include <sys/resource.h>

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

TEST(TextFileTest, AFileCutShortIsRemoved) {
  const std::string path = testing::TempDir() + "/coppice_text_file_test_cut";
  ASSERT_OK(WriteTextFile(path, "what was there"));
  // As a full disk does, and without the signal that says so.
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const absl::Cleanup restore = [&] {
    setrlimit(RLIMIT_FSIZE, &before);
    std::signal(SIGXFSZ, handler);
  };
  const rlimit small = {.rlim_cur = 4096, .rlim_max = before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const absl::Status status = WriteTextFile(path, std::string(100'000, 'x'));
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_THAT(MessageOf(status), HasSubstr("the incomplete file is removed"));
  EXPECT_FALSE(std::filesystem::exists(path));
}

class CheckOutputsTest : public testing::Test {
 protected:
  CheckOutputsTest()
      : folder_(testing::TempDir() + "/coppice_check_outputs_test_" +
                testing::UnitTest::GetInstance()->current_test_info()->name()) {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_ + "/sub");
    std::ofstream(Path("in")) << "input";
  }
  ~CheckOutputsTest() override { std::filesystem::remove_all(folder_); }

  std::string Path(const std::string& name) const { return folder_ + "/" + name; }

  // Whether an output at `path` is refused beside the input `in`.
  bool IsRefused(const std::string& path) const {
    const std::vector<std::string> inputs = {Path("in")};
    const std::vector<std::string> outputs = {path};
    return !CheckOutputs(inputs, outputs).ok();
  }

  // Whether the two are refused as outputs of one command.
  static bool AreOne(const std::string& a, const std::string& b) {
    const std::vector<std::string> outputs = {a, b};
    return !CheckOutputs({}, outputs).ok();
  }

  const std::string folder_;
};

TEST_F(CheckOutputsTest, RefusesAnInputByWhateverPath) {
  std::filesystem::create_symlink("in", Path("soft"));
  std::filesystem::create_symlink("soft", Path("softer"));
  std::filesystem::create_hard_link(Path("in"), Path("hard"));
  std::filesystem::create_symlink(".", Path("here"));
  for (const char* name : {"in", "./in", "sub/../in", "soft", "softer", "hard", "here/in"})
    EXPECT_TRUE(IsRefused(Path(name))) << name;
  EXPECT_TRUE(IsRefused(std::filesystem::relative(Path("in")).string()));
  for (const char* name : {"out", "sub/in", "in2"})
    EXPECT_FALSE(IsRefused(Path(name))) << name;
}

TEST_F(CheckOutputsTest, RefusesTwoOutputsThatAreOneFileAlsoBeforeItIsThere) {
  std::filesystem::create_symlink("later", Path("dangling"));
  std::filesystem::create_symlink("sub", Path("folder"));
  EXPECT_TRUE(AreOne(Path("out"), Path("out")));
  EXPECT_TRUE(AreOne(Path("out"), Path("./out")));
  EXPECT_TRUE(AreOne(Path("later"), Path("dangling")));
  EXPECT_TRUE(AreOne(Path("sub/out"), Path("folder/out")));
  EXPECT_TRUE(AreOne("coppice_out", "./coppice_out"));
  EXPECT_TRUE(AreOne("coppice_out", std::filesystem::absolute("coppice_out").string()));
  EXPECT_FALSE(AreOne(Path("out"), Path("sub/out")));
  EXPECT_FALSE(AreOne("", ""));
}

TEST_F(CheckOutputsTest, NamesTheOutput) {
  const std::vector<std::string> files = {Path("in")};
  const absl::Status status = CheckOutputs(files, files);
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(MessageOf(status), StartsWith(Path("in") + ": "));
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
