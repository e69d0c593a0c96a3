// Goal: `coppice-probe` fills every table, with a row for all that it promises to try, reports what
// the emulator documents, gives everything back, and survives a driver that fails. Method: each
// survey in this process, on an emulator that counts what is alive; the ledger makes calls fail;
// the command line as a user types it.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/support/status_matchers.h"
#include "tests/support/test_device.h"
#include "tests/tools/command_outcome.h"
#include "tools/probe/command_line.h"
#include "tools/probe/survey.h"

namespace coppice {
namespace {

using testing::AnyOf;
using testing::Contains;
using testing::Each;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;
using testing::StartsWith;

using Cells = std::vector<std::string>;

Cells Split(const std::string& line) {
  Cells cells;
  std::istringstream stream(line);
  for (std::string cell; std::getline(stream, cell, '\t');)
    cells.push_back(cell);
  return cells;
}

// A table as a reader takes it apart.
struct TableRead {
  absl::Status status;
  Cells comments;  // Without the leading "# ".
  Cells columns;
  std::string text;
  std::vector<Cells> rows;
};

TableRead ReadTable(const std::string& text) {
  TableRead read{.text = text};
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    if (line.starts_with("# ")) {
      read.comments.push_back(line.substr(2));
    } else if (read.columns.empty()) {
      read.columns = Split(line);
    } else {
      read.rows.push_back(Split(line));
    }
  }
  return read;
}

using Fill = absl::Status (*)(const SurveyRun& run);

TableRead TableOf(const TestDevice& device, Fill fill) {
  const TextStream out;
  const TextStream err;
  absl::StatusOr<Subject> subject = Subject::Create(device.driver());
  if (!subject.ok()) return {.status = subject.status()};
  Progress progress(err.stream(), /*enabled=*/true, "survey");
  const absl::Status status =
      fill({.subject = *subject, .out = out.stream(), .progress = progress});
  EXPECT_THAT(err.Text(), IsEmpty());  // A bar is for terminals.
  TableRead read = ReadTable(out.Text());
  read.status = status;
  return read;
}

// The table of a survey that nothing disturbs; each survey runs once per process.
const TableRead& SurveyTableOf(Fill fill) {
  static std::map<Fill, TableRead> tables;
  const auto [found, is_new] = tables.try_emplace(fill);
  if (is_new) {
    found->second = TableOf(TestDevice(), fill);
    EXPECT_OK(found->second.status);
  }
  return found->second;
}

class SurveyTest : public testing::TestWithParam<Fill> {};

TEST_P(SurveyTest, EveryRowHasOneCellPerColumn) {
  const TableRead& table = SurveyTableOf(GetParam());
  EXPECT_THAT(table.rows, Not(IsEmpty()));
  for (const Cells& row : table.rows) {
    EXPECT_EQ(row.size(), table.columns.size()) << testing::PrintToString(row);
    EXPECT_THAT(row, Each(Not(IsEmpty())));
  }
}

TEST_P(SurveyTest, FailureLeavesNothingBehind) {
  int failures = 0;
  for (const auto& [entry, nth] : std::map<int, int64_t>{
           {DriverLedger::IndexOf(&DriverTable::LaunchKernel), 8},
           {DriverLedger::IndexOf(&DriverTable::StreamSynchronize), 3},
           {DriverLedger::IndexOf(&DriverTable::MemGetInfo), 2},
           {DriverLedger::IndexOf(&DriverTable::MemMap), 5},
           {DriverLedger::IndexOf(&DriverTable::StreamBeginCapture), 5},
           {DriverLedger::IndexOf(&DriverTable::GraphInstantiateWithFlags), 8}}) {
    TestDevice device(TestEmulatorOptions(), DriverLedger::Options());
    device.ledger().Inject(
        {.entry = entry, .nth = nth, .result = CuResult::kOutOfMemory, .forever = true});
    failures += TableOf(device, GetParam()).status.ok() ? 0 : 1;
    device.ledger().ClearFaults();
  }  // The device checks that nothing is left.
  EXPECT_GE(failures, 3);
}

INSTANTIATE_TEST_SUITE_P(Surveys, SurveyTest, testing::Values(&FillLegality, &FillMemory));

TEST(ProbeTest, LegalityTableHasARowForEveryEntry) {
  std::set<std::string> named = {"cuInit", "cuDevicePrimaryCtxRelease"};
  for (const Cells& row : SurveyTableOf(&FillLegality).rows)
    named.insert(row[0]);
  for (int entry = 0; entry < kDriverEntryCount; ++entry)
    EXPECT_TRUE(named.contains(DriverEntryAt(entry).symbol)) << DriverEntryAt(entry).symbol;
}

TEST(ProbeTest, LegalityTableHasEachCallOnceInEveryModeOnBothThreads) {
  std::map<std::string, std::set<std::string>> places;
  for (const Cells& row : SurveyTableOf(&FillLegality).rows) {
    EXPECT_THAT(row[1], AnyOf("global", "thread_local", "relaxed"));
    EXPECT_THAT(row[2], AnyOf("same", "other"));
    EXPECT_TRUE(places[row[0]].insert(row[1] + "/" + row[2]).second) << row[0] << " comes twice";
    EXPECT_THAT(row[4], AnyOf("active", "invalidated")) << row[0];
    EXPECT_EQ(row[5], "measured");
  }
  for (const auto& [call, found] : places)
    EXPECT_THAT(found, SizeIs(6)) << call;
  EXPECT_EQ(SurveyTableOf(&FillLegality).columns,
            (Cells{"call", "mode", "thread", "result", "capture", "evidence"}));
}

// "result/capture" of one call, by "mode/thread".
std::map<std::string, std::string> VerdictsOf(const std::string& call) {
  std::map<std::string, std::string> verdicts;
  for (const Cells& row : SurveyTableOf(&FillLegality).rows)
    if (row[0] == call) verdicts[row[1] + "/" + row[2]] = row[3] + "/" + row[4];
  return verdicts;
}

TEST(ProbeTest, UnsafeCallIsRefusedByModeAndThread) {
  const std::map<std::string, std::string> expected = {{"global/same", "900/invalidated"},
                                                       {"global/other", "900/invalidated"},
                                                       {"thread_local/same", "900/invalidated"},
                                                       {"thread_local/other", "0/active"},
                                                       {"relaxed/same", "0/active"},
                                                       {"relaxed/other", "0/active"}};
  EXPECT_EQ(VerdictsOf("cuMemAlloc"), expected);
  EXPECT_EQ(VerdictsOf("cuGraphExecDestroy"), expected);
}

TEST(ProbeTest, HarmlessCallIsAllowedInEveryMode) {
  for (const char* call : {"cuLaunchKernel", "cuGraphCreate", "cuStreamWaitEvent"}) {
    EXPECT_THAT(VerdictsOf(call), SizeIs(6)) << call;
    for (const auto& [place, verdict] : VerdictsOf(call))
      EXPECT_EQ(verdict, "0/active") << call << " " << place;
  }
}

TEST(ProbeTest, EmulatorThatReadsATableAnswersAsItSays) {
  const std::string forbidden = "cuMemAlloc\tglobal\tsame\t900\tinvalidated";
  std::string text = SurveyTableOf(&FillLegality).text;
  const size_t position = text.find(forbidden);
  ASSERT_NE(position, std::string::npos);
  text.replace(position, forbidden.size(), "cuMemAlloc\tglobal\tsame\t0\tactive");
  Emulator::Options options = TestEmulatorOptions();
  options.capture_legality = text;
  const TestDevice device(options);
  const TableRead table = TableOf(device, &FillLegality);
  EXPECT_OK(table.status);
  EXPECT_EQ(table.rows, ReadTable(text).rows);
  EXPECT_NE(table.rows, SurveyTableOf(&FillLegality).rows);
}

TEST(ProbeTest, MemoryTableHasEveryKindAndCountAndTheEmulatorWeighsNothing) {
  std::set<std::string> kinds;
  for (const Cells& row : SurveyTableOf(&FillMemory).rows) {
    kinds.insert(row[0] + "/" + row[1]);
    EXPECT_EQ(row[2], row[1] == "1" || row[1] == "10" ? "400" : "20");
    for (size_t column = 3; column < row.size(); ++column)
      EXPECT_EQ(std::atof(row[column].c_str()), 0) << row[0] << " " << row[1];
  }
  EXPECT_THAT(kinds, SizeIs(7 * 4));
  EXPECT_THAT(kinds, Contains("kernel_3k/1000"));
}

CommandOutcome RunProgram(const std::vector<std::string>& arguments) {
  return OutcomeOf("coppice-probe", arguments, &RunProbe);
}

TEST(ProbeCommandTest, PrintsTheSurveysAskedFor) {
  const CommandOutcome outcome = RunProgram({"--device=host", "memory"});
  EXPECT_EQ(outcome.code, kExitOk) << outcome.err;
  EXPECT_THAT(outcome.err, IsEmpty());
  const TableRead table = ReadTable(outcome.out);
  EXPECT_THAT(table.comments[0], StartsWith("coppice-probe memory: "));
  EXPECT_EQ(table.comments[1], "device: coppice emulator");
  EXPECT_EQ(table.comments[2], "driver: emulator, version 13000");
  EXPECT_THAT(outcome.out, Not(HasSubstr("# coppice-probe legality: ")));
}

TEST(ProbeCommandTest, OutputFolderGetsAFilePerSurvey) {
  const std::string folder = testing::TempDir() + "/coppice_probe_test";
  const CommandOutcome outcome = RunProgram({"--device=host", "--output=" + folder + "/tables"});
  EXPECT_EQ(outcome.code, kExitOk) << outcome.err;
  EXPECT_THAT(outcome.out, IsEmpty());
  for (const char* name : {"capture_legality.tsv", "graph_memory.tsv"}) {
    std::ifstream file(folder + "/tables/" + name);
    std::stringstream text;
    text << file.rdbuf();
    EXPECT_THAT(ReadTable(text.str()).rows, Not(IsEmpty())) << name;
  }
  std::filesystem::remove_all(folder);
}

TEST(ProbeCommandTest, WrongArgumentIsRefusedInOneLine) {
  for (const char* argument : {"bandwidth", "--device=gpu", "--output=", "--unknown"}) {
    const CommandOutcome outcome = RunProgram({argument});
    EXPECT_EQ(outcome.code, kExitUsage) << argument;
    EXPECT_THAT(outcome.out, IsEmpty());
    EXPECT_THAT(outcome.err, StartsWith("coppice-probe: "));
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
  }
}

TEST(ProbeCommandTest, FolderThatCannotBeMadeEndsEverySurveyAlone) {
  const std::string file = testing::TempDir() + "/coppice_probe_test_file";
  std::ofstream(file) << "no folder";
  const CommandOutcome outcome = RunProgram({"--device=host", "--output=" + file + "/tables"});
  EXPECT_EQ(outcome.code, kExitOutput);
  EXPECT_THAT(outcome.err, HasSubstr("coppice-probe legality: "));
  EXPECT_THAT(outcome.err, HasSubstr("coppice-probe memory: "));
  std::filesystem::remove(file);
}

TEST(ProbeCommandTest, OutputThatTakesNothingIsAFailure) {
  std::FILE* const full = std::fopen("/dev/full", "w");
  ASSERT_NE(full, nullptr);
  const TextStream err;
  const char* const arguments[] = {"coppice-probe", "--device=host", "memory"};
  EXPECT_EQ(RunProbe(3, arguments, {.out = full, .err = err.stream()}), kExitOutput);
  EXPECT_THAT(err.Text(), HasSubstr("cannot be written"));
  std::fclose(full);
}

TEST(ProbeCommandTest, DeviceThatIsAbsentFailsTheSurveys) {
  if (Driver::LoadCuda().ok()) GTEST_SKIP() << "this machine has a CUDA device";
  const CommandOutcome outcome = RunProgram({"--device=cuda", "memory"});
  EXPECT_EQ(outcome.code, kExitDevice);
  EXPECT_THAT(outcome.err, StartsWith("coppice-probe memory: "));
}

}  // namespace
}  // namespace coppice
