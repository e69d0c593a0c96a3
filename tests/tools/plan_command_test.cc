// Goal: `coppice plan` writes plans that the validator accepts, says whether they fit, and refuses
// bad input in one line without writing anything. Method: the command in this process, on files in
// the test's own folder.

#include "tools/plan/plan_command.h"

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "coppice/allocator/plan.h"

#include "tests/support/status_matchers.h"
#include "tests/tools/command_outcome.h"
#include "tests/tools/test_folder.h"
#include "tools/plan/lifetime_csv.h"

namespace coppice {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

// Twelve bytes at most are live at once, and twelve suffice.
constexpr const char* kSmall =
    "id,lower,upper,size\nb1,0,3,4\nb2,3,9,4\nb3,0,9,4\nb4,9,21,4\nb5,0,21,4\n";

class PlanCommandTest : public testing::Test, protected TestFolder {
 protected:
  static CommandOutcome Plan(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "plan");
    return RunCoppice(arguments);
  }

  static nlohmann::json JsonOf(const CommandOutcome& outcome) {
    EXPECT_THAT(outcome.err, IsEmpty());
    return nlohmann::json::parse(outcome.out, nullptr, /*allow_exceptions=*/false);
  }

  // One line on standard error that holds `what`, and nothing else.
  static void ExpectError(const CommandOutcome& outcome, ExitCode code, const std::string& what) {
    EXPECT_EQ(outcome.code, code) << outcome.err;
    EXPECT_THAT(outcome.err, StartsWith("coppice plan: "));
    EXPECT_THAT(outcome.err, HasSubstr(what));
    EXPECT_THAT(outcome.err, HasSubstr("; "));
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
  }
};

TEST_F(PlanCommandTest, TheOutputIsAValidPlanOfTheInput) {
  const std::string input = Write("in.csv", kSmall);
  const CommandOutcome outcome = Plan({input, "-o", Path("out.csv")});
  EXPECT_EQ(outcome.code, kExitOk) << outcome.err;
  COPPICE_ASSERT_OK_AND_ASSIGN(const LifetimeTable before, ReadLifetimes(input));
  COPPICE_ASSERT_OK_AND_ASSIGN(const LifetimeTable after, ReadLifetimes(Path("out.csv")));
  EXPECT_EQ(after.ids, before.ids);
  EXPECT_EQ(after.rows, before.rows);
  struct Plan plan = {.height = 12};
  for (const Buffer& buffer : after.buffers)
    plan.offsets.push_back(buffer.fixed_offset.value());
  EXPECT_THAT(ValidatePlan(before.buffers, plan), IsOk());
}

TEST_F(PlanCommandTest, TheTableSaysHeightBoundGapMethodAndTime) {
  const CommandOutcome outcome = Plan({Write("in.csv", kSmall)});
  EXPECT_EQ(outcome.code, kExitOk) << outcome.err;
  EXPECT_THAT(outcome.out,
              testing::ContainsRegex("file +buffers +height +bound +/ bound +time +method"));
  EXPECT_THAT(outcome.out, testing::ContainsRegex("in.csv +5 +12 +12 +1.0000 +[0-9.]+ ms +size"));
}

TEST_F(PlanCommandTest, JsonHasTheStableKeys) {
  const nlohmann::json json = JsonOf(Plan({Write("in.csv", kSmall), "--json"}));
  ASSERT_EQ(json["files"].size(), 1U);
  const nlohmann::json& file = json["files"][0];
  EXPECT_EQ(file["file"], Path("in.csv"));
  EXPECT_EQ(file["buffers"], 5);
  EXPECT_EQ(file["height_bytes"], 12);
  EXPECT_EQ(file["bound_bytes"], 12);
  EXPECT_EQ(file["gap"], 1.0);
  EXPECT_TRUE(file["method"].is_string());
  EXPECT_GE(file["ms"], 0);
  EXPECT_EQ(file["solved"], true);
  EXPECT_EQ(json["arena"]["height_bytes"], 12);
  EXPECT_EQ(json["arena"]["bound_bytes"], 12);
  EXPECT_TRUE(json["capacity_bytes"].is_null());
  EXPECT_EQ(json["solved"], true);
}

TEST_F(PlanCommandTest, APlanWithinTheCapacityIsSolved) {
  const nlohmann::json json = JsonOf(Plan({Write("in.csv", kSmall), "--capacity", "12", "--json"}));
  EXPECT_EQ(json["capacity_bytes"], 12);
  EXPECT_EQ(json["solved"], true);
}

TEST_F(PlanCommandTest, APlanAboveTheCapacityIsReportedAndStillWritten) {
  const CommandOutcome outcome = Plan({Write("in.csv", kSmall), "--capacity", "11", "--time-limit",
                                       "0.01", "-o", Path("out.csv"), "--svg", Path("out.svg")});
  EXPECT_EQ(outcome.code, kExitMismatch);
  EXPECT_THAT(outcome.err, IsEmpty());
  EXPECT_THAT(
      outcome.out,
      HasSubstr(
          "the plan does not fit into the capacity of 11 bytes: the best height is 12 bytes"));
  EXPECT_THAT(Read(Path("out.csv")), StartsWith("id,lower,upper,size,offset\nb1,0,3,4,"));
  EXPECT_THAT(Read(Path("out.svg")), EndsWith("</svg>\n"));
}

TEST_F(PlanCommandTest, WithoutACapacityAPlanAboveTheBoundIsASuccess) {
  // The fixed buffer leaves nothing of 8 bytes below it.
  const CommandOutcome outcome =
      Plan({Write("in.csv", "id,lower,upper,size,offset\nfixed,0,2,4,4\nfree,0,2,8,\n"),
            "--time-limit", "0.01", "--json"});
  EXPECT_EQ(outcome.code, kExitOk);
  EXPECT_EQ(JsonOf(outcome)["files"][0]["height_bytes"], 16);
  EXPECT_EQ(JsonOf(outcome)["files"][0]["bound_bytes"], 12);
}

TEST_F(PlanCommandTest, GapsAreUsed) {
  const std::string input =
      Write("in.csv", "id,lower,upper,size,gaps\na,0,9,100,3-6\nb,3,6,100,\n");
  EXPECT_EQ(JsonOf(Plan({input, "--json"}))["arena"]["height_bytes"], 100);
}

TEST_F(PlanCommandTest, AGapThatKeepsBytesIsNoted) {
  const CommandOutcome outcome =
      Plan({Write("in.csv", "id,lower,upper,size,gaps\na,0,9,100,3-6@0:8\nb,3,6,100,\n")});
  EXPECT_EQ(outcome.code, kExitOk);
  EXPECT_THAT(outcome.err,
              HasSubstr("gaps that keep some bytes in use are ignored; this file has 1"));
  EXPECT_THAT(outcome.out, HasSubstr(" 200 "));
}

TEST_F(PlanCommandTest, APlanIsItsOwnPlan) {
  const std::string input = Write("in.csv", kSmall);
  ASSERT_EQ(Plan({input, "-o", Path("out.csv")}).code, kExitOk);
  ASSERT_EQ(Plan({Path("out.csv"), "-o", Path("again.csv")}).code, kExitOk);
  EXPECT_EQ(Read(Path("again.csv")), Read(Path("out.csv")));
}

TEST_F(PlanCommandTest, SeveralFilesAreRowsOfOneArena) {
  const std::string low = Write("low.csv", "id,lower,upper,size\na,0,1,5\n");
  const std::string high = Write("high.csv", kSmall);
  const nlohmann::json json = JsonOf(Plan({low, high, "--json"}));
  ASSERT_EQ(json["files"].size(), 2U);
  EXPECT_EQ(json["files"][0]["height_bytes"], 5);
  EXPECT_EQ(json["files"][1]["height_bytes"], 12);
  EXPECT_EQ(json["arena"]["height_bytes"], 12);
  EXPECT_EQ(json["arena"]["bound_bytes"], 12);
  EXPECT_THAT(Plan({low, high}).out, testing::ContainsRegex("arena +12 +12 +1.0000"));
}

TEST_F(PlanCommandTest, SeveralFilesAreWrittenToFolders) {
  const std::string a = Write("a.csv", kSmall);
  const std::string b = Write("b.csv", kSmall);
  const CommandOutcome outcome = Plan({a, b, "-o", Path("plans"), "--svg", Path("maps/all")});
  EXPECT_EQ(outcome.code, kExitOk) << outcome.err;
  EXPECT_EQ(Read(Path("plans/a.csv")), Read(Path("plans/b.csv")));
  EXPECT_THAT(Read(Path("maps/all/a.svg")), HasSubstr("a.csv: 5 buffers"));
  EXPECT_THAT(Read(Path("maps/all/b.svg")), HasSubstr("b.csv: 5 buffers"));
}

TEST_F(PlanCommandTest, NothingIsWrittenOverAnInputOrTwice) {
  const std::string a = Write("a.csv", kSmall);
  std::filesystem::create_directories(Path("other"));
  const std::string namesake = Write("other/a.csv", kSmall);
  const std::string b = Write("b.csv", kSmall);
  ExpectError(Plan({a, "-o", a}), kExitUsage, "over an input");
  ExpectError(Plan({a, b, "-o", path()}), kExitUsage, "over an input");
  ExpectError(Plan({a, namesake, "-o", Path("plans")}), kExitUsage, "written twice");
  ExpectError(Plan({a, "-o", Path("out"), "--svg", Path("out")}), kExitUsage, "written twice");
  ExpectError(Plan({a, "-o", Path("out"), "--svg", Path("./out")}), kExitUsage, "written twice");
  EXPECT_EQ(Read(a), kSmall);
}

TEST_F(PlanCommandTest, TargetsThatDifferInSpellingAloneAreRefused) {
  const std::string input = Write("in.csv", kSmall);
  std::filesystem::create_hard_link(input, Path("hard.csv"));
  ExpectError(Plan({input, "--svg", Path("hard.csv")}), kExitUsage, "over an input");
  ExpectError(Plan({input, "-o", "coppice_out", "--svg", "./coppice_out"}), kExitUsage,
              "written twice");
  EXPECT_FALSE(std::filesystem::exists("coppice_out"));
  EXPECT_EQ(Read(input), kSmall);
}

TEST_F(PlanCommandTest, APictureOfManyGapsGrowsWithThem) {
  std::string row = "id,lower,upper,size,gaps\na,0,16001,64,";
  for (int i = 0; i < 8000; ++i)
    row += fmt::format("{}-{} ", 2 * i + 1, 2 * i + 2);
  const std::string input = Write("in.csv", row + "\n");
  EXPECT_EQ(Plan({input, "--svg", Path("out.svg")}).code, kExitOk);
  EXPECT_LT(std::filesystem::file_size(Path("out.svg")), 8'000'000U);
}

TEST_F(PlanCommandTest, BadInputIsNamedByFileAndLineAndNothingIsWritten) {
  const std::string good = Write("good.csv", kSmall);
  const std::string bad = Write("bad.csv", "id,lower,upper,size\na,0,1,1\nb,0,1,-1\n");
  ExpectError(Plan({good, bad, "-o", Path("plans")}), kExitUsage, bad + ":3: size is '-1'");
  EXPECT_FALSE(std::filesystem::exists(Path("plans")));
  ExpectError(Plan({Path("missing.csv")}), kExitUsage, "there is no such file");
  ExpectError(Plan({path()}), kExitUsage, "this is a directory");
  ExpectError(Plan({Write("empty.csv", "")}), kExitUsage, "empty.csv:1: the file is empty");
}

TEST_F(PlanCommandTest, FixedBuffersThatOverlapAreNamedByLine) {
  const std::string bad = Write(
      "bad.csv",
      "id,lower,upper,size,offset\nfree,0,9,1,\na,0,5,8,0\nlater,5,9,8,0\nb,4,6,8,12\nc,4,9,8,4\n");
  ExpectError(Plan({bad}), kExitUsage,
              bad + ":6: the fixed buffer overlaps the fixed buffer of line 3");
}

TEST_F(PlanCommandTest, SaysWhatCannotBeWritten) {
  const std::string input = Write("in.csv", kSmall);
  ExpectError(Plan({input, "-o", Path("none/out.csv")}), kExitOutput, "none/out.csv");
  ExpectError(Plan({input, "--svg", Path("none/out.svg")}), kExitOutput, "none/out.svg");
  const std::string other = Write("other.csv", kSmall);
  ExpectError(Plan({input, other, "-o", Path("in.csv/plans")}), kExitOutput, "in.csv/plans");
}

TEST_F(PlanCommandTest, OptionsOutOfRangeAreRefused) {
  const std::string input = Write("in.csv", kSmall);
  for (const std::vector<std::string>& options :
       std::vector<std::vector<std::string>>{{"--capacity", "0"},
                                             {"--capacity", "-5"},
                                             {"--capacity", "1MB"},
                                             {"--capacity", "9223372036854775808"},
                                             {"--time-limit", "0"},
                                             {"--time-limit", "nan"},
                                             {"--time-limit", "-1"},
                                             {"--time-limit", "soon"},
                                             {"--seed", "-1"},
                                             {"--tries", "0"},
                                             {"-o", ""},
                                             {"--svg", ""}}) {
    std::vector<std::string> arguments = {input};
    arguments.insert(arguments.end(), options.begin(), options.end());
    const CommandOutcome outcome = Plan(arguments);
    EXPECT_EQ(outcome.code, kExitUsage) << options[0] << " " << options[1];
    EXPECT_THAT(outcome.out, IsEmpty());
  }
  EXPECT_EQ(Plan({}).code, kExitUsage);
}

TEST_F(PlanCommandTest, HelpNamesColumnsExamplesAndExitCodes) {
  const CommandOutcome outcome = Plan({"--help"});
  EXPECT_EQ(outcome.code, kExitOk);
  for (const char* part : {"alignment", "gaps", "offset", "coppice plan model.csv", "Exit codes"})
    EXPECT_THAT(outcome.out, HasSubstr(part));
}

TEST_F(PlanCommandTest, EqualSeedsGiveEqualPlans) {
  const std::string input = Write("in.csv", kSmall);
  ASSERT_EQ(Plan({input, "--seed", "7", "--tries", "99", "-o", Path("a.csv")}).code, kExitOk);
  ASSERT_EQ(Plan({input, "--seed", "7", "--tries", "99", "-o", Path("b.csv")}).code, kExitOk);
  EXPECT_EQ(Read(Path("a.csv")), Read(Path("b.csv")));
}

}  // namespace
}  // namespace coppice
