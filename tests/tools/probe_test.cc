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

#include "coppice/base/units.h"

#include "tests/support/status_matchers.h"
#include "tests/support/test_device.h"
#include "tests/tools/command_outcome.h"
#include "tools/probe/command_line.h"
#include "tools/probe/legality_calls.h"
#include "tools/probe/survey.h"
#include "tools/probe/vmm_misuse.h"

namespace coppice {
namespace {

using testing::AnyOf;
using testing::Contains;
using testing::Each;
using testing::ElementsAre;
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

const Survey& SurveyNamed(const std::string& name) {
  const auto found = std::find_if(Surveys().begin(), Surveys().end(),
                                  [&](const Survey& survey) { return name == survey.name; });
  EXPECT_NE(found, Surveys().end()) << name;
  return *found;
}

// Runs a survey on `device`.
TableRead Fill(const TestDevice& device, const std::string& name) {
  const TextStream out;
  const TextStream err;
  absl::StatusOr<Subject> subject = Subject::Create(device.driver());
  if (!subject.ok()) return {.status = subject.status()};
  const ProbeOptions options = {.copies = 3, .repetitions = 2};
  Table table(out.stream());
  Progress progress(err.stream(), /*enabled=*/true, name);
  const absl::Status status =
      RunSurvey(SurveyNamed(name),
                {.subject = *subject, .options = options, .table = table, .progress = progress});
  EXPECT_THAT(err.Text(), IsEmpty());  // A bar is for terminals.
  TableRead read = ReadTable(out.Text());
  read.status = status;
  return read;
}

Emulator::Options SmallMemory() {
  Emulator::Options options = TestEmulatorOptions();
  options.memory_bytes = 96 * kMiB;
  return options;
}

// The table of a survey that nothing disturbs; each survey runs once per process.
const TableRead& SurveyTableOf(const std::string& name) {
  static std::map<std::string, TableRead> tables;
  const auto [found, is_new] = tables.try_emplace(name);
  if (is_new) {
    const TestDevice device(SmallMemory());
    found->second = Fill(device, name);
    EXPECT_OK(found->second.status);
  }
  return found->second;
}

class SurveyTest : public testing::TestWithParam<const char*> {};

TEST_P(SurveyTest, TableBeginsWithDeviceDriverAndColumns) {
  const TableRead& table = SurveyTableOf(GetParam());
  ASSERT_GE(table.comments.size(), 4U);
  EXPECT_THAT(table.comments[0], HasSubstr(GetParam()));
  EXPECT_EQ(table.comments[1], "device: coppice emulator");
  EXPECT_EQ(table.comments[2], "driver: emulator, version 13000");
  EXPECT_GE(table.columns.size(), 4U);
}

TEST_P(SurveyTest, EveryRowHasOneCellPerColumn) {
  const TableRead& table = SurveyTableOf(GetParam());
  EXPECT_THAT(table.rows, Not(IsEmpty()));
  for (const Cells& row : table.rows) {
    EXPECT_EQ(row.size(), table.columns.size()) << testing::PrintToString(row);
    EXPECT_THAT(row, Each(Not(IsEmpty())));
  }
}

TEST_P(SurveyTest, FailureEndsTheTableAndLeavesNothingBehind) {
  struct Case {
    int entry;
    int64_t nth;  // From which call on it fails.
  };
  int failures = 0;
  for (const Case& failing :
       {Case{DriverLedger::IndexOf(&DriverTable::LaunchKernel), 1},
        Case{DriverLedger::IndexOf(&DriverTable::LaunchKernel), 8},
        Case{DriverLedger::IndexOf(&DriverTable::StreamSynchronize), 3},
        Case{DriverLedger::IndexOf(&DriverTable::MemGetInfo), 2},
        Case{DriverLedger::IndexOf(&DriverTable::MemMap), 5},
        Case{DriverLedger::IndexOf(&DriverTable::StreamBeginCapture), 5},
        Case{DriverLedger::IndexOf(&DriverTable::GraphInstantiateWithFlags), 8}}) {
    TestDevice device(SmallMemory(), DriverLedger::Options());
    device.ledger().Inject({.entry = failing.entry,
                            .nth = failing.nth,
                            .result = CuResult::kOutOfMemory,
                            .forever = true});
    const TableRead table = Fill(device, GetParam());
    device.ledger().ClearFaults();
    const bool begun = !table.comments.empty();
    const bool incomplete = begun && table.comments.back().starts_with("incomplete: ");
    EXPECT_EQ(incomplete, begun && !table.status.ok());
    EXPECT_TRUE(begun || !table.status.ok());
    failures += table.status.ok() ? 0 : 1;
  }  // The device checks that nothing is left.
  EXPECT_GE(failures, 3);
}

INSTANTIATE_TEST_SUITE_P(Surveys,
                         SurveyTest,
                         testing::Values("graphs", "memory", "legality", "orders", "vmm"),
                         [](const auto& instance) { return std::string(instance.param); });

TEST(ProbeTest, SuiteCoversEverySurvey) {
  EXPECT_THAT(Surveys(), SizeIs(5));
}

TEST(ProbeTest, LegalityTableHasARowOrAReasonForEveryEntry) {
  std::set<std::string> named;
  for (const Cells& row : SurveyTableOf("legality").rows)
    named.insert(row[0]);
  for (const UntriedCall& untried : UntriedCalls()) {
    EXPECT_FALSE(named.contains(untried.name)) << untried.name << " is tried";
    named.insert(untried.name);
    EXPECT_THAT(SurveyTableOf("legality").comments,
                Contains("not tried: " + untried.name + ": " + untried.reason));
  }
  for (int entry = 0; entry < kDriverEntryCount; ++entry)
    EXPECT_TRUE(named.contains(DriverEntryAt(entry).symbol)) << DriverEntryAt(entry).symbol;
}

TEST(ProbeTest, LegalityTableHasEachCallOnceInEveryModeOnBothThreads) {
  std::map<std::string, std::set<std::string>> places;
  for (const Cells& row : SurveyTableOf("legality").rows) {
    EXPECT_THAT(row[1], AnyOf("global", "thread_local", "relaxed"));
    EXPECT_THAT(row[2], AnyOf("same", "other"));
    EXPECT_TRUE(places[row[0]].insert(row[1] + "/" + row[2]).second) << row[0] << " comes twice";
    EXPECT_THAT(row[4], AnyOf("active", "invalidated")) << row[0];
    EXPECT_EQ(row[5], "measured");
  }
  for (const auto& [call, found] : places)
    EXPECT_THAT(found, SizeIs(6)) << call;
  EXPECT_EQ(SurveyTableOf("legality").columns,
            (Cells{"call", "mode", "thread", "result", "capture", "evidence"}));
}

// "result/capture" of one call, by "mode/thread".
std::map<std::string, std::string> VerdictsOf(const std::string& call) {
  std::map<std::string, std::string> verdicts;
  for (const Cells& row : SurveyTableOf("legality").rows)
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

TEST(ProbeTest, CallOnTheCaptureItselfIsRefusedInEveryMode) {
  for (const auto& [place, verdict] : VerdictsOf("cuStreamQuery(capturing)"))
    EXPECT_EQ(verdict, "900/invalidated") << place;
  for (const auto& [place, verdict] : VerdictsOf("cuEventQuery(captured)"))
    EXPECT_EQ(verdict, "907/invalidated") << place;
  for (const auto& [place, verdict] : VerdictsOf("cuStreamBeginCapture(capturing)"))
    EXPECT_EQ(verdict, "401/active") << place;
}

TEST(ProbeTest, HarmlessCallIsAllowedInEveryMode) {
  for (const char* call : {"cuLaunchKernel", "cuLaunchKernel(capturing)", "cuGraphCreate",
                           "cuStreamWaitEvent(captured)", "cuEventRecord(capturing)"}) {
    EXPECT_THAT(VerdictsOf(call), SizeIs(6)) << call;
    for (const auto& [place, verdict] : VerdictsOf(call))
      EXPECT_EQ(verdict, "0/active") << call << " " << place;
  }
}

TEST(ProbeTest, EmulatorThatReadsATableAnswersAsItSays) {
  const std::string forbidden = "cuMemAlloc\tglobal\tsame\t900\tinvalidated";
  std::string text = SurveyTableOf("legality").text;
  const size_t position = text.find(forbidden);
  ASSERT_NE(position, std::string::npos);
  text.replace(position, forbidden.size(), "cuMemAlloc\tglobal\tsame\t0\tactive");
  Emulator::Options options = SmallMemory();
  options.capture_legality = text;
  const TestDevice device(options);
  const TableRead table = Fill(device, "legality");
  EXPECT_OK(table.status);
  EXPECT_EQ(table.rows, ReadTable(text).rows);
  EXPECT_NE(table.rows, SurveyTableOf("legality").rows);
}

// "result/status" of the steps of a case.
Cells StepsOf(const std::string& order) {
  Cells steps;
  for (const Cells& row : SurveyTableOf("orders").rows)
    if (row[0] == order) steps.push_back(row[2] + "/" + row[3]);
  return steps;
}

TEST(ProbeTest, OddEndsHaveTheResultsThatTheEmulatorDocuments) {
  EXPECT_THAT(StepsOf("end on another thread, global"), ElementsAre("908/active", "0/none"));
  EXPECT_THAT(StepsOf("end on another thread, thread_local"), ElementsAre("908/active", "0/none"));
  EXPECT_THAT(StepsOf("end on another thread, relaxed"), ElementsAre("0/none", "401/none"));
  EXPECT_THAT(StepsOf("end on a forked stream, then join"),
              ElementsAre("0/active", "0/active", "0/active", "903/active", "0/active", "0/active",
                          "0/none"));
  EXPECT_THAT(StepsOf("query a captured event after the capture"),
              ElementsAre("0/active", "0/none", "907/none", "0/none", "0/none"));
  EXPECT_THAT(StepsOf("wait for an event that was never recorded"),
              ElementsAre("905/invalidated", "901/invalidated", "901/none"));
  EXPECT_THAT(StepsOf("fork with work, not joined"),
              ElementsAre("0/active", "0/active", "0/active", "904/none", "0/none"));
  EXPECT_THAT(StepsOf("destroy a capturing stream"),
              ElementsAre("900/invalidated", "901/none", "0/none"));
}

// The values of the rows whose first cell is `what`, by the second.
std::map<std::string, std::string> VmmValues(const std::string& what) {
  std::map<std::string, std::string> values;
  for (const Cells& row : SurveyTableOf("vmm").rows)
    if (row[0] == what) values[row[1] + " " + row[3]] = row[2];
  return values;
}

TEST(ProbeTest, MisusesReturnTheDocumentedCodes) {
  const std::map<std::string, std::string> codes = VmmValues("misuse");
  const std::set<std::string> allowed = {"map a prefix of the memory",
                                         "map one memory at two addresses",
                                         "synchronize after that copy"};
  EXPECT_THAT(codes, SizeIs(VmmMisuses().size() + 2));
  for (const auto& [misuse, code] : codes) {
    const std::string name = misuse.substr(0, misuse.rfind(' '));
    EXPECT_EQ(code, allowed.contains(name) ? "0" : "1") << name;
  }
}

TEST(ProbeTest, SizesBeyondFreeMemoryAreLeftOutAndNamed) {
  for (const char* step : {"create", "map", "set access", "unmap", "release"}) {
    const std::map<std::string, std::string> times = VmmValues(step);
    EXPECT_THAT(times, SizeIs(3)) << step;  // 2, 16 and 64 MiB fit into 96.
    for (const auto& [size, time] : times)
      EXPECT_GT(std::atof(time.c_str()), 0) << step << " " << size;
  }
  EXPECT_THAT(SurveyTableOf("vmm").comments, Contains(StartsWith("256 MiB left out: ")));
  EXPECT_THAT(SurveyTableOf("vmm").comments, Contains(StartsWith("1024 MiB left out: ")));
}

TEST(ProbeTest, TellsHowOftenSettingAccessAndUnmappingWait) {
  for (const std::string call : {"set access", "unmap"}) {
    const std::map<std::string, std::string> values = VmmValues(call + " while a kernel runs");
    EXPECT_THAT(values, SizeIs(6));
    EXPECT_THAT(values.at("waits of 2"), AnyOf("0", "1", "2"));
    EXPECT_THAT(values.at("waited yes or no"), AnyOf("yes", "no"));
    EXPECT_EQ(values.at(call + " CUresult"), "0");
  }
  EXPECT_EQ(VmmValues("granularity")["minimum bytes"], std::to_string(2 * kMiB));
}

TEST(ProbeTest, MemoryTableHasEveryKindAndCountAndTheEmulatorWeighsNothing) {
  std::set<std::string> kinds;
  for (const Cells& row : SurveyTableOf("memory").rows) {
    kinds.insert(row[0] + "/" + row[1]);
    EXPECT_EQ(row[2], row[1] == "1" || row[1] == "10" ? "60" : "3");
    for (size_t column = 3; column < row.size(); ++column)
      EXPECT_EQ(std::atof(row[column].c_str()), 0) << row[0] << " " << row[1];
  }
  EXPECT_THAT(kinds, SizeIs(7 * 4));
  EXPECT_THAT(kinds, Contains("kernel_3k/1000"));
}

TEST(ProbeTest, GraphTableHasEveryShapeAndEveryTime) {
  std::set<std::string> shapes;
  for (const Cells& row : SurveyTableOf("graphs").rows) {
    shapes.insert(row[0] + "/" + row[1]);
    for (size_t column = 2; column < row.size() && row[0] != "launch"; ++column)
      EXPECT_GT(std::atof(row[column].c_str()), 0)
          << row[0] << " " << SurveyTableOf("graphs").columns[column];
  }
  EXPECT_THAT(shapes, SizeIs(1 + 2 * 5));
  EXPECT_THAT(shapes, Contains("launch/1"));
  EXPECT_THAT(shapes, Contains("wide8/4000"));
}

CommandOutcome RunProgram(const std::vector<std::string>& arguments) {
  return OutcomeOf("coppice-probe", arguments, &RunProbe);
}

TEST(ProbeCommandTest, PrintsTheSurveysAskedFor) {
  const CommandOutcome outcome = RunProgram({"--device=host", "--copies=1", "orders", "memory"});
  EXPECT_EQ(outcome.code, kExitOk) << outcome.err;
  EXPECT_THAT(outcome.err, IsEmpty());
  EXPECT_THAT(outcome.out, HasSubstr("# coppice-probe orders: "));
  EXPECT_THAT(outcome.out, HasSubstr("# coppice-probe memory: "));
  EXPECT_THAT(outcome.out, Not(HasSubstr("# coppice-probe vmm: ")));
}

TEST(ProbeCommandTest, OutputFolderGetsAFilePerSurvey) {
  const std::string folder = testing::TempDir() + "/coppice_probe_test/tables";
  const CommandOutcome outcome = RunProgram({"--device=host", "--output=" + folder, "orders"});
  EXPECT_EQ(outcome.code, kExitOk) << outcome.err;
  EXPECT_THAT(outcome.out, IsEmpty());
  std::ifstream file(folder + "/orders.tsv");
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_THAT(ReadTable(text.str()).rows, Not(IsEmpty()));
  std::filesystem::remove_all(testing::TempDir() + "/coppice_probe_test");
}

TEST(ProbeCommandTest, LegalityFileIsNamedAfterTheDriver) {
  const Survey& legality = SurveyNamed("legality");
  EXPECT_EQ(FileNameOf(legality, DriverKind::kCuda, 12040), "capture_legality.12040.tsv");
  EXPECT_EQ(FileNameOf(legality, DriverKind::kEmulator, 13000), "capture_legality.emulator.tsv");
  EXPECT_EQ(FileNameOf(SurveyNamed("vmm"), DriverKind::kCuda, 12040), "vmm.tsv");
}

TEST(ProbeCommandTest, WrongArgumentIsRefusedInOneLine) {
  for (const std::vector<std::string>& arguments : {std::vector<std::string>{"bandwidth"},
                                                    {"--device=gpu"},
                                                    {"--copies=0"},
                                                    {"--repetitions=many"},
                                                    {"--output="},
                                                    {"--unknown"}}) {
    const CommandOutcome outcome = RunProgram(arguments);
    EXPECT_EQ(outcome.code, kExitUsage) << arguments[0];
    EXPECT_THAT(outcome.out, IsEmpty());
    EXPECT_THAT(outcome.err, StartsWith("coppice-probe: "));
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
  }
}

TEST(ProbeCommandTest, FolderThatCannotBeMadeEndsEverySurveyAlone) {
  const std::string file = testing::TempDir() + "/coppice_probe_test_file";
  std::ofstream(file) << "no folder";
  const CommandOutcome outcome =
      RunProgram({"--device=host", "--output=" + file + "/tables", "orders", "vmm"});
  EXPECT_EQ(outcome.code, kExitOutput);
  EXPECT_THAT(outcome.err, HasSubstr("coppice-probe orders: "));
  EXPECT_THAT(outcome.err, HasSubstr("coppice-probe vmm: "));
  std::filesystem::remove(file);
}

TEST(ProbeCommandTest, OutputThatTakesNothingIsAFailure) {
  std::FILE* const full = std::fopen("/dev/full", "w");
  ASSERT_NE(full, nullptr);
  const TextStream err;
  const char* const arguments[] = {"coppice-probe", "--device=host", "orders"};
  EXPECT_EQ(RunProbe(3, arguments, {.out = full, .err = err.stream()}), kExitOutput);
  EXPECT_THAT(err.Text(), HasSubstr("cannot be written"));
  std::fclose(full);
}

TEST(ProbeCommandTest, DeviceThatIsAbsentFailsTheSurveys) {
  if (Driver::LoadCuda().ok()) GTEST_SKIP() << "this machine has a CUDA device";
  const CommandOutcome outcome = RunProgram({"--device=cuda", "orders"});
  EXPECT_EQ(outcome.code, kExitDevice);
  EXPECT_THAT(outcome.err, StartsWith("coppice-probe orders: "));
}

TEST(ProbeCommandTest, HelpNamesSurveysOptionsAndExamples) {
  const CommandOutcome outcome = RunProgram({"--help"});
  EXPECT_EQ(outcome.code, kExitOk);
  for (const Survey& survey : Surveys())
    EXPECT_THAT(outcome.out, HasSubstr(survey.summary));
  for (const char* text : {"--device", "--output", "--copies", "--repetitions",
                           "Examples:", "Exit codes:", "capture_legality.VERSION.tsv"})
    EXPECT_THAT(outcome.out, HasSubstr(text));
}

}  // namespace
}  // namespace coppice
