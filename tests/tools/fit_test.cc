// Goal: `coppice fit` predicts what a session then has, and no set of buckets leaves more.
// Method: all sets of buckets of small cases; a session on the emulator that runs a program of the
// shipped decoder at every size; the command in this process.

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "coppice/padding/policy_document.h"

#include "tests/support/status_matchers.h"
#include "tests/support/test_device.h"
#include "tests/tools/command_outcome.h"
#include "tests/tools/test_folder.h"
#include "tools/fit/bucket_choice.h"
#include "tools/package/call_set.h"
#include "tools/package/package_device.h"
#include "tools/package/program_runner.h"
#include "tools/support/text_file.h"

namespace coppice {
namespace {

using testing::AllOf;
using testing::Ge;
using testing::HasSubstr;
using testing::IsSupersetOf;
using testing::Le;
using testing::Lt;
using testing::SizeIs;
using testing::UnorderedElementsAreArray;

using Json = nlohmann::json;

const std::string kDecoder = COPPICE_SAMPLES "/torch_decoder.zip";

// Of one program: what all its graphs take, and its padding in %.
struct SetFigures {
  double bytes = 0;
  double padding_pct = 0;
};

SetFigures FiguresOf(const SizedProgram& program, const std::vector<int64_t>& buckets) {
  SetFigures figures;
  double padded = 0;
  double real = 0;
  for (const SizeCount& each : program.sizes.counts()) {
    padded += each.count * static_cast<double>(*std::ranges::lower_bound(buckets, each.size));
    real += each.count * static_cast<double>(each.size);
  }
  figures.padding_pct = 100 * (padded - real) / real;
  for (const int64_t bucket : buckets)
    figures.bytes += program.graph_bytes(bucket);
  return figures;
}

// The least bytes of all sets of buckets that pad no more.
double LeastBytes(const SizedProgram& program, double padding_pct) {
  double least = std::numeric_limits<double>::infinity();
  for (uint32_t bits = 0; bits < uint32_t{1} << (program.limit - 1); ++bits) {
    std::vector<int64_t> buckets;
    for (int64_t size = 1; size < program.limit; ++size)
      if ((bits >> (size - 1) & 1) != 0) buckets.push_back(size);
    buckets.push_back(program.limit);
    const SetFigures figures = FiguresOf(program, buckets);
    if (figures.padding_pct <= padding_pct + 1e-9) least = std::min(least, figures.bytes);
  }
  return least;
}

TEST(BucketChoiceTest, NoSetOfBucketsLeavesMoreAtThePaddingOfAChoice) {
  const uint64_t seed = TestSeed();
  SCOPED_TRACE(fmt::format("seed {}", seed));
  std::mt19937_64 draw(seed);
  for (int i = 0; i < 40; ++i) {
    SizedProgram program{.name = "p.n", .limit = 4 + static_cast<int64_t>(draw() % 9)};
    for (int calls = 0; calls < 30; ++calls)
      program.sizes.Add(1 + static_cast<int64_t>(draw() % static_cast<uint64_t>(program.limit)));
    const auto each = static_cast<double>(1 + draw() % 1000);
    const auto more = static_cast<double>(draw() % 20);
    program.graph_bytes = [=](int64_t bucket) { return each + more * static_cast<double>(bucket); };
    // A card that holds little more than all graphs, so that 2 % of it is little.
    double memory = 0;
    for (int64_t bucket = 1; bucket <= program.limit; ++bucket)
      memory += 2 * program.graph_bytes(bucket);
    COPPICE_ASSERT_OK_AND_ASSIGN(const std::vector<BucketChoice> choices,
                                 ChooseBuckets({program}, {.buckets_max = 64, .prior = 0}));
    for (const BucketChoice& choice : choices) {
      const SetFigures figures = FiguresOf(program, choice.buckets[0]);
      EXPECT_NEAR(choice.padding_pct(), figures.padding_pct, 1e-9);
      const double best = memory - LeastBytes(program, figures.padding_pct);
      EXPECT_THAT(memory - figures.bytes, Ge(0.98 * best))
          << choice.name << " of case " << i << ", limit " << program.limit;
    }
  }
}

TEST(BucketChoiceTest, AGoalTakesTheBestThatIsAllowed) {
  const std::vector<ChoiceFigures> choices = {
      {.padding_pct = 50, .left_bytes = 90, .graphs = 2},
      {.padding_pct = 8, .left_bytes = 70, .graphs = 5},
      {.padding_pct = 2, .left_bytes = 40, .graphs = 9},
      {.padding_pct = 1, .left_bytes = -5, .graphs = 40},
      {.padding_pct = 0, .replay_pct = 60, .left_bytes = 99, .graphs = 1}};
  const auto best = [&](FitGoal goal, double padding, int64_t left, double replays = 99) {
    return BestOf(choices, goal,
                  {.padding_max = padding, .replays_min = replays, .left_min = left});
  };
  EXPECT_EQ(best(FitGoal::kTokens, 10, 0), 1);
  EXPECT_EQ(best(FitGoal::kTokens, 100, 0), 0);
  EXPECT_EQ(best(FitGoal::kPadding, 10, 0), 2);
  EXPECT_EQ(best(FitGoal::kPadding, 10, 60), 1);
  EXPECT_EQ(best(FitGoal::kGraphs, 5, 0), 2);
  EXPECT_EQ(best(FitGoal::kTokens, 10, 0, 50), 4);
  EXPECT_EQ(best(FitGoal::kTokens, 0.5, 0), std::nullopt);
  EXPECT_EQ(best(FitGoal::kPadding, 10, 100), std::nullopt);
}

TEST(BucketChoiceTest, OfEqualChoicesTheFewestGraphsWin) {
  const std::vector<ChoiceFigures> choices = {{.left_bytes = 9, .graphs = 80},
                                              {.left_bytes = 9, .graphs = 2}};
  for (const FitGoal goal : {FitGoal::kTokens, FitGoal::kPadding, FitGoal::kGraphs})
    EXPECT_EQ(BestOf(choices, goal, {}), 1);
}

class FitTest : public testing::Test, protected TestFolder {
 protected:
  FitTest() {
    std::string text = "decode_rows,mixed_tokens\n";
    for (int i = 0; i < 400; ++i)
      text += fmt::format("{},{}\n", 1 + i % 7 * (i % 2), 2 + i * i % 150);
    steps_ = Write("steps.csv", text);
  }
  CommandOutcome RunFit(std::vector<std::string> options) const {
    options.insert(options.begin(), {"fit", kDecoder});
    return RunCoppice(options);
  }
  Json FitJson(std::vector<std::string> options) const {
    options.insert(options.end(), {"--traffic", steps_, "--json"});
    return JsonOf(RunFit(options));
  }
  static void ExpectError(const CommandOutcome& outcome, const std::string& what) {
    EXPECT_EQ(outcome.code, kExitUsage) << outcome.err;
    EXPECT_THAT(outcome.err, AllOf(HasSubstr(what), HasSubstr("; ")));
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
  }

  std::string steps_;
};

TEST_F(FitTest, PredictsTheSessionThatRunsTheCalls) {
  const std::string written = Path("chosen");
  const Json fit = FitJson({"--size", "decode.batch=decode_rows", "--write", written});
  const std::vector<int64_t> buckets = fit["buckets"]["decode.batch"];
  COPPICE_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<PackageDevice> device,
                               PackageDevice::Create({}));
  COPPICE_ASSERT_OK_AND_ASSIGN(package::Package package, PackageDevice::OpenPackage(kDecoder, {}));
  ASSERT_OK(device->Load(std::move(package)));
  COPPICE_ASSERT_OK_AND_ASSIGN(const int index, FindProgram(device->manifest(), "decode"));
  ASSERT_OK(device->TakeConstants(index, ""));
  const package::Program& program = device->manifest().programs[static_cast<size_t>(index)];
  COPPICE_ASSERT_OK_AND_ASSIGN(const std::string text,
                               ReadTextFile(written + "/decode.batch.json", "a policy"));
  COPPICE_ASSERT_OK_AND_ASSIGN(const PolicyDocument document, ReadPolicyDocument(text, "policy"));
  COPPICE_ASSERT_OK_AND_ASSIGN(const std::vector<HostArray> statics, MakeStatics(program, {}));
  COPPICE_ASSERT_OK_AND_ASSIGN(
      const std::unique_ptr<ProgramRunner> runner,
      ProgramRunner::Create(*device, {.program = index, .policies = {{"batch", document.policy}}},
                            statics));
  // Twice: the first call of a bucket may run without a graph.
  for (const int64_t size : {7, 1, 2, 3, 4, 5, 6, 7, 1, 2, 3, 4, 5, 6}) {
    COPPICE_ASSERT_OK_AND_ASSIGN(
        const std::vector<CallSet> sets,
        MakeCallSets(program, {.extents = {fmt::format("batch={}", size)}}));
    ASSERT_OK(runner->Run(sets[0]));
  }
  const MemoryUsage books = runner->session().memory().books();
  EXPECT_EQ(fit["recordings"], std::ssize(runner->session().nodes()));
  EXPECT_EQ(fit["pool_bytes"], books.of(MemoryKind::kPlan) + books.of(MemoryKind::kEager) +
                                   books.of(MemoryKind::kSpare));
  EXPECT_EQ(fit["staging_bytes"], books.of(MemoryKind::kStaging));
  EXPECT_EQ(fit["exec_bytes"], books.of(MemoryKind::kGraphs));
  std::vector<int64_t> recorded;
  for (const NodeInfo& node : runner->session().nodes())
    recorded.push_back(node.bucket[0]);
  EXPECT_THAT(recorded, UnorderedElementsAreArray(buckets));
}

TEST_F(FitTest, SumsUpToTheCard) {
  const Json fit =
      FitJson({"--memory", "1GiB", "--weights", "100MiB", "--kv-bytes-per-token", "64KiB"});
  const int64_t sum = fit["pool_bytes"].get<int64_t>() + fit["exec_bytes"].get<int64_t>() +
                      fit["staging_bytes"].get<int64_t>() + fit["constants_bytes"].get<int64_t>() +
                      fit["weights_bytes"].get<int64_t>() + fit["left_bytes"].get<int64_t>();
  EXPECT_EQ(sum, int64_t{1} << 30);
  EXPECT_EQ(fit["kv_tokens"], fit["left_bytes"].get<int64_t>() / (64 << 10));
  EXPECT_THAT(fit["frontier"], SizeIs(Ge(5)));
}

TEST_F(FitTest, TheFrontierFallsInPaddingAndInWhatIsLeft) {
  const Json frontier = FitJson({})["frontier"];
  for (size_t i = 1; i < frontier.size(); ++i) {
    EXPECT_THAT(frontier[i]["padding_pct"].get<double>(),
                Le(frontier[i - 1]["padding_pct"].get<double>()));
    EXPECT_THAT(frontier[i]["left_bytes"].get<int64_t>(),
                Le(frontier[i - 1]["left_bytes"].get<int64_t>()));
  }
}

TEST_F(FitTest, LanesAndExactReplayCountInTheBooks) {
  const std::vector<std::string> one = {"--padding-max", "3", "--prior", "0"};
  const Json alone = FitJson(one);
  std::vector<std::string> many = one;
  many.insert(many.end(), {"--lanes", "3"});
  const Json lanes = FitJson(many);
  EXPECT_EQ(lanes["pool_bytes"], 3 * alone["pool_bytes"].get<int64_t>());
  std::vector<std::string> sized = one;
  sized.insert(sized.end(), {"--exact", "always"});
  const Json exact = FitJson(sized);
  EXPECT_EQ(exact["padding_pct"], 0);
  EXPECT_THAT(exact["families"], Ge(1));
  EXPECT_THAT(exact["exec_bytes"].get<int64_t>(), Lt(alone["exec_bytes"].get<int64_t>()));
}

TEST_F(FitTest, ThirdAndLaterLanesAreAsTheSecond) {
  const Json one = FitJson({"--padding-max", "3"});
  const Json many = FitJson({"--padding-max", "3", "--lanes", "64"});
  for (const char* figure : {"pool_bytes", "exec_bytes", "staging_bytes", "recordings"})
    EXPECT_EQ(many[figure], 64 * one[figure].get<int64_t>()) << figure;
  EXPECT_EQ(many["constants_bytes"], one["constants_bytes"]);
}

TEST_F(FitTest, CallsAboveAllBucketsCountAsTheyRun) {
  const std::vector<std::string> cut = {"--limit", "prefill.length=40"};
  const Json alone = FitJson(cut);
  EXPECT_FALSE(alone["fits"]) << "too few calls have a bucket";
  EXPECT_THAT(alone["why"].get<std::string>(), HasSubstr("--replays-min"));
  std::vector<std::string> few = cut;
  few.insert(few.end(), {"--replays-min", "10"});
  const Json fit = FitJson(few);
  EXPECT_THAT(fit["replay_pct"].get<double>(), Lt(99));
  // An eager run of the largest size takes as much as its plan.
  EXPECT_THAT(fit["pool_bytes"].get<int64_t>(), Ge(FitJson({})["pool_bytes"].get<int64_t>()));
}

TEST_F(FitTest, SizesThatThePackageDoesNotAllowAreRefusedCalls) {
  const std::string steps = Write("large.csv", "decode_rows\n0\n3\n17\n4000\n");
  const CommandOutcome outcome = RunFit({"--traffic", steps, "--size", "decode.batch=decode_rows"});
  EXPECT_THAT(outcome.out,
              AllOf(HasSubstr("1 call of sizes 3 to 3, buckets up to 3"),
                    HasSubstr("the package does not allow the sizes of another 3 calls"),
                    HasSubstr("not counted: prefill")));
}

TEST_F(FitTest, OutputsThatWouldReplaceInputsAreRefused) {
  const std::string log = Write("decode.batch.json", "{\"decode_rows\": 3}\n");
  ExpectError(RunFit({"--traffic", log, "--size", "decode.batch=decode_rows", "--write", path()}),
              "decode.batch.json");
  ExpectError(RunFit({"--traffic", log, "--size", "decode.batch=decode_rows", "--plot", log}),
              "decode.batch.json");
  EXPECT_EQ(Read(log), "{\"decode_rows\": 3}\n");
  ExpectError(RunFit({"--traffic", steps_, "--write", kDecoder + "/chosen"}),
              "lies in the package");
}

TEST_F(FitTest, LaddersOfOthersStandBesideTheLearned) {
  const Json frontier = FitJson({"--compare", "pow2", "--compare", "vllm"})["frontier"];
  std::vector<std::string> names;
  for (const Json& each : frontier)
    names.push_back(each["name"]);
  EXPECT_THAT(names, IsSupersetOf({"learned 1", "pow2", "vllm"}));
  EXPECT_EQ(frontier.back()["buckets"]["decode.batch"], Json({1, 2, 4, 7}));
}

TEST_F(FitTest, RequestsAreServedBySimulation) {
  std::string text = "input_tokens,output_tokens\n";
  for (int i = 0; i < 50; ++i)
    text += fmt::format("{},{}\n", 20 + i, 5 + i % 9);
  const Json fit = JsonOf(RunFit({"--traffic", Write("r.csv", text), "--steps", "500", "--json"}));
  EXPECT_THAT(fit["buckets"]["decode.batch"].back(), Le(16));
  EXPECT_THAT(fit["replay_pct"], 100);
}

TEST_F(FitTest, CheckFailsAModelThatNoLongerFits) {
  const std::vector<std::string> asked = {
      "--traffic", steps_,    "--kv-bytes-per-token", "1MiB", "--kv-tokens-min", "900",
      "--check",   "--memory"};
  std::vector<std::string> small = asked;
  small.push_back("900MiB");
  const CommandOutcome fails = RunFit(small);
  EXPECT_EQ(fails.code, kExitMismatch);
  EXPECT_THAT(fails.out, HasSubstr("of memory; give more --memory"));
  std::vector<std::string> large = asked;
  large.push_back("1GiB");
  EXPECT_EQ(RunFit(large).code, kExitOk);
}

TEST_F(FitTest, WritesAProfileInWhichBucketsHaveTheirShareOfTheCalls) {
  const std::string written = Path("chosen");
  FitJson({"--write", written, "--prior", "0"});
  COPPICE_ASSERT_OK_AND_ASSIGN(const std::string text,
                               ReadTextFile(written + "/profile.json", "a profile"));
  const Json profile = Json::parse(text);
  int64_t launches = 0;
  for (const Json& program : profile["programs"])
    for (const Json& bucket : program["buckets"])
      launches += bucket["launches"].get<int64_t>();
  EXPECT_THAT(launches, AllOf(Ge(1000), Le(1100)));
  EXPECT_TRUE(std::filesystem::exists(written + "/prefill.length.json"));
}

TEST_F(FitTest, WrongOptionsAreOneLineEach) {
  ExpectError(RunFit({"--traffic", steps_, "--size", "decode.rows=decode_rows"}),
              "the package has decode.batch, prefill.batch, prefill.length");
  ExpectError(RunFit({"--traffic", steps_, "--size", "decode.batch"}), "PROGRAM.SYMBOL=VALUE");
  ExpectError(RunFit({"--traffic", steps_, "--limit", "decode.batch=17"}), "from 1 to 16");
  ExpectError(
      RunFit({"--traffic", steps_, "--limit", "prefill.length=2", "--at", "prefill.length=8"}),
      "leave --at out");
  ExpectError(RunFit({"--traffic", steps_, "--kv-tokens-min", "5"}), "--kv-bytes-per-token");
  ExpectError(RunFit({"--traffic", Write("rows.csv", "decode_rows\n3\n")}), "mixed_tokens");
  ExpectError(RunFit({"--traffic", steps_, "--size", "prefill.length=mixed_tokens", "--size",
                      "prefill.batch=decode_rows"}),
              "fit learns one symbol per program");
  ExpectError(RunFit({"--traffic", steps_, "--compare", "vlm"}), "--compare vlm");
  ExpectError(RunFit({"--traffic", steps_, "--size", "decode.batch=rows"}), "rows");
  ExpectError(RunCoppice({"fit", steps_, "--traffic", steps_}), "coppice fit");
}

TEST_F(FitTest, DrawsEveryChoice) {
  const std::string plot = Path("fit.svg");
  const Json fit = FitJson({"--plot", plot, "--compare", "pow2"});
  COPPICE_ASSERT_OK_AND_ASSIGN(const std::string svg, ReadTextFile(plot, "a picture"));
  for (const Json& each : fit["frontier"])
    EXPECT_THAT(svg, HasSubstr(each["name"].get<std::string>() + ": "));
}

}  // namespace
}  // namespace coppice
