// Goal: `coppice run --dump-graphs` leaves one drawing per graph in files that are named safely,
// and says in one line what it cannot write. Method: names of nodes made by hand; the command in
// this process, on small traces and the emulator.

#include "tools/run/graph_files.h"

#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/tools/command_outcome.h"

namespace coppice {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

const std::vector<std::string> kDrawnRun = {"run", "--requests", "10",   "--shrink",
                                            "64",  "--device",   "host", "--quiet"};

CommandOutcome DumpTo(const std::string& folder, const std::vector<std::string>& more = {}) {
  std::vector<std::string> arguments = kDrawnRun;
  arguments.insert(arguments.end(), {"--dump-graphs", folder});
  arguments.insert(arguments.end(), more.begin(), more.end());
  return RunCoppice(arguments);
}

// A folder that is not there, and goes with the test.
class Folder {
 public:
  Folder()
      : path_(testing::TempDir() + "/coppice_graph_files_test_" +
              testing::UnitTest::GetInstance()->current_test_info()->name()) {
    std::filesystem::remove_all(path_);
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

TEST(GraphFilesTest, NameSaysProgramVariantBucketLaneAndNumber) {
  EXPECT_EQ(GraphFileName({.program = "decode", .bucket = {8, 128}, .lane = 2, .number = 3}),
            "decode-8x128-lane2-3.dot");
  EXPECT_EQ(GraphFileName({.program = "f", .variant = "v1.5", .bucket = {}, .number = 1}),
            "f-v1.5-lane0-1.dot");
}

TEST(GraphFilesTest, NameStaysInItsFolder) {
  EXPECT_EQ(GraphFileName({.program = "../a/b c\n\xFF", .number = 1}), "_._a_b_c__-lane0-1.dot");
  EXPECT_EQ(GraphFileName({.program = "-rf", .variant = "..", .number = 1}), "_rf-_.-lane0-1.dot");
  EXPECT_LT(GraphFileName({.program = std::string(5000, 'x'),
                           .variant = std::string(5000, 'y'),
                           .bucket = std::vector<int64_t>(8, int64_t{1} << 60),
                           .number = 1})
                .size(),
            400U);
}

TEST(GraphFilesTest, NamesOfTwoRecordingsDiffer) {
  const std::set<std::string> names = {
      GraphFileName({.program = "a/b", .bucket = {4}, .lane = 0, .number = 1}),
      GraphFileName({.program = "a_b", .bucket = {4}, .lane = 0, .number = 2}),
      GraphFileName({.program = "a/b", .bucket = {4}, .lane = 1, .number = 1})};
  EXPECT_EQ(names.size(), 3U);
}

TEST(GraphFilesTest, RunWritesADrawingPerGraph) {
  const Folder folder;
  const CommandOutcome outcome = DumpTo(folder.path() + "/below/it", {"--json"});
  const nlohmann::json report = JsonOf(outcome);
  int64_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path() + "/below/it")) {
    ++files;
    EXPECT_EQ(entry.path().extension(), ".dot");
    std::ifstream file(entry.path());
    const std::string dot(std::istreambuf_iterator<char>(file), {});
    EXPECT_THAT(dot, StartsWith("digraph \""));
    EXPECT_THAT(dot, HasSubstr("subgraph cluster_0"));
  }
  EXPECT_GT(files, 0);
  EXPECT_EQ(report["graphs"], files);
}

TEST(GraphFilesTest, FolderThatIsThereIsWrittenInto) {
  const Folder folder;
  std::filesystem::create_directories(folder.path());
  std::ofstream(folder.path() + "/other.txt") << "kept";
  EXPECT_EQ(DumpTo(folder.path()).code, kExitOk);
  const auto count = [&] {
    return std::distance(std::filesystem::directory_iterator(folder.path()), {});
  };
  const auto files = count();
  EXPECT_GT(files, 1);
  EXPECT_EQ(DumpTo(folder.path()).code, kExitOk) << "over what was there before";
  EXPECT_EQ(count(), files);
}

TEST(GraphFilesTest, FolderThatCannotBeMadeIsExitCode4) {
  const Folder file;
  std::ofstream(file.path()) << "a file";
  for (const std::string& path : {file.path(), file.path() + "/below", std::string("/proc/x")}) {
    const CommandOutcome outcome = DumpTo(path);
    EXPECT_EQ(outcome.code, kExitOutput) << path;
    EXPECT_THAT(outcome.err, StartsWith("coppice run: " + path + ": the folder cannot be made: "));
  }
}

TEST(GraphFilesTest, ARefusedRunLeavesNoFolder) {
  const Folder folder;
  for (const std::vector<std::string>& wrong :
       std::vector<std::vector<std::string>>{{"--policy", "nonsense"}, {"--budget", "1"}}) {
    EXPECT_EQ(DumpTo(folder.path(), wrong).code, kExitUsage) << wrong[0];
    EXPECT_FALSE(std::filesystem::exists(folder.path())) << wrong[0];
  }
}

TEST(GraphFilesTest, DrawingThatCannotBeWrittenIsExitCode4) {
  const Folder folder;
  ASSERT_EQ(DumpTo(folder.path()).code, kExitOk);
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path()))
    paths.push_back(entry.path());
  ASSERT_FALSE(paths.empty());
  std::filesystem::remove(paths[0]);
  std::filesystem::create_directory(paths[0]);
  const CommandOutcome outcome = DumpTo(folder.path());
  EXPECT_EQ(outcome.code, kExitOutput);
  EXPECT_THAT(outcome.err, HasSubstr(paths[0].string()));
}

TEST(GraphFilesTest, DrawingIsNotWrittenOverTheRequests) {
  const Folder folder;
  std::filesystem::create_directories(folder.path());
  std::string requests = folder.path() + "/requests.csv";
  std::ofstream(requests) << "arrival_seconds,input_tokens,output_tokens\n0,1000,10\n0,1000,10\n";
  const std::string drawings = folder.path() + "/drawings";
  const auto run = [&] {
    return RunCoppice({"run", requests, "--shrink", "64", "--device", "host", "--quiet",
                       "--dump-graphs", drawings});
  };
  ASSERT_EQ(run().code, kExitOk);
  // Equal requests make equal graphs, one of them under the name of this file.
  const std::string drawn = std::filesystem::directory_iterator(drawings)->path();
  std::filesystem::copy_file(requests, drawn, std::filesystem::copy_options::overwrite_existing);
  requests = drawn;
  const auto bytes = std::filesystem::file_size(drawn);
  const CommandOutcome outcome = run();
  EXPECT_EQ(outcome.code, kExitOutput);
  EXPECT_THAT(outcome.err, HasSubstr("over an input"));
  EXPECT_EQ(std::filesystem::file_size(drawn), bytes);
}

}  // namespace
}  // namespace coppice
