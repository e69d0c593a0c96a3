// Goal: `coppice run` finds no mismatch where there is none and every one that is planted, reports
// figures that add up, and refuses bad input in one line. Method: the command in this process, on
// small traces and the emulator; a driver that flips bits.

#include "tools/run/run.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "coppice/base/units.h"
#include "coppice/runtime/emulator.h"

#include "tests/support/status_matchers.h"
#include "tests/support/test_share.h"
#include "tests/support/traces.h"
#include "tests/tools/command_outcome.h"
#include "tests/tools/trace_builder.h"
#include "tools/model/served_decoder.h"
#include "tools/run/batcher.h"
#include "tools/run/replayer.h"
#include "tools/run/verifier.h"
#include "tools/support/recording_order.h"

namespace coppice {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

constexpr const char* kRunHeader = "arrival_seconds,input_tokens,output_tokens\n";

// A trace file that goes with the test.
class TraceFile {
 public:
  explicit TraceFile(const std::string& text)
      : path_(testing::TempDir() + "/coppice_run_test_" +
              testing::UnitTest::GetInstance()->current_test_info()->name() + ".csv") {
    std::replace(path_.begin() + static_cast<int64_t>(testing::TempDir().size()) + 1, path_.end(),
                 '/', '_');
    std::ofstream(path_, std::ios::binary) << text;
  }
  ~TraceFile() { std::filesystem::remove(path_); }
  TraceFile(const TraceFile&) = delete;
  TraceFile& operator=(const TraceFile&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// Runs on the emulator and returns the JSON report; the exit code must be 0.
nlohmann::json ReportOf(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "run");
  for (const char* option : {"--device", "host", "--json", "--quiet"})
    arguments.emplace_back(option);
  const CommandOutcome outcome = RunCoppice(arguments);
  EXPECT_EQ(outcome.code, kExitOk) << outcome.err << outcome.out;
  EXPECT_THAT(outcome.err, IsEmpty());
  return nlohmann::json::parse(outcome.out, nullptr, /*allow_exceptions=*/false);
}

TEST(RunTest, JsonHasTheStableKeysAsNumbers) {
  const nlohmann::json report = ReportOf({"--requests", "5", "--shrink", "64"});
  for (const char* key :
       {"calls", "replays", "eager", "prefill_buckets", "decode_buckets", "mismatches",
        "pad_waste_pct", "pool_height_bytes", "pool_mapped_bytes", "eager_peak_bytes",
        "max_bucket_live_bytes", "sum_bucket_bytes", "record_ms_p50", "replay_host_ns_p50",
        "driver_calls", "modelled_driver_us"}) {
    ASSERT_TRUE(report.contains(key)) << key;
    EXPECT_TRUE(report[key].is_number()) << key;
  }
}

TEST(RunTest, VerifiedAndPoisonedRunHasNoMismatchAndFiguresAddUp) {
  const nlohmann::json report = ReportOf(
      {"--requests", "40", "--shrink", "32", "--slots", "8", "--verify", "all", "--poison"});
  EXPECT_EQ(report["mismatches"], 0);
  EXPECT_EQ(report["requests"], 40);
  EXPECT_EQ(report["prefill_steps"], 40);
  EXPECT_EQ(report["verified_requests"], 40);
  const int64_t steps =
      report["prefill_steps"].get<int64_t>() + report["decode_steps"].get<int64_t>();
  EXPECT_EQ(report["verified_steps"], steps);
  EXPECT_EQ(report["calls"], 2 * steps);  // Each step under two poisons.
  EXPECT_EQ(report["calls"].get<int64_t>(), report["replays"].get<int64_t>() +
                                                report["records"].get<int64_t>() +
                                                report["eager"].get<int64_t>());
  EXPECT_EQ(report["eager"], report["warm_ups"]);
  EXPECT_EQ(report["replay_pct_after_record"], 100);
  EXPECT_EQ(report["records"], report["graphs"]);
  EXPECT_EQ(report["reasons"]["new_bucket"], 2 * report["graphs"].get<int64_t>());
  EXPECT_GT(report["comparisons"], 4 * steps);
  EXPECT_GE(report["sum_bucket_bytes"], report["pool_height_bytes"]);
  EXPECT_GT(report["eager_peak_bytes"], 0);
  EXPECT_GT(report["pad_waste_pct"], 0);
  EXPECT_LT(report["pad_waste_pct"], 100);
}

TEST(RunTest, DriverTimeIsModelledFromTheCallsOfTheRun) {
  const nlohmann::json few = ReportOf({"--requests", "5", "--shrink", "64"});
  const nlohmann::json more = ReportOf({"--requests", "10", "--shrink", "64"});
  EXPECT_EQ(few["latency_table"], "latency.documented.tsv");
  EXPECT_GT(few["driver_calls"], few["calls"]);
  // The cheapest call of that table costs 1 us, and a run has dearer ones.
  EXPECT_GT(few["modelled_driver_us"], few["driver_calls"]);
  EXPECT_GT(more["driver_calls"], few["driver_calls"]);
  EXPECT_GT(more["modelled_driver_us"], few["modelled_driver_us"]);
}

TEST(RunTest, ABudgetDropsGraphsAndChangesNoValue) {
  const std::vector<std::string> job = {"--requests", "40", "--shrink", "32", "--slots", "8"};
  const nlohmann::json free = ReportOf(job);
  int64_t sum = 0;
  for (const auto& [kind, bytes] : free["memory_bytes"].items())
    sum += bytes.get<int64_t>();
  EXPECT_LE(sum, free["memory_peak_bytes"]);
  EXPECT_EQ(free["budget_bytes"], 0);
  // Room for half of the graphs.
  const int64_t budget = sum - free["memory_bytes"]["graphs"].get<int64_t>() / 2;
  std::vector<std::string> bounded = job;
  bounded.insert(bounded.end(), {"--budget", std::to_string(budget), "--verify", "all"});
  const nlohmann::json report = ReportOf(bounded);
  EXPECT_EQ(report["mismatches"], 0);
  EXPECT_EQ(report["budget_bytes"], budget);
  EXPECT_LE(report["memory_peak_bytes"], budget);
  EXPECT_GT(report["evictions"].get<int64_t>() + report["remaps"].get<int64_t>(), 0);
}

TEST(RunTest, DefaultPoliciesGiveEnoughBuckets) {
  const nlohmann::json report = ReportOf({"--requests", "200", "--verify", "none"});
  EXPECT_GE(report["prefill_buckets"], 8);
  EXPECT_GE(report["decode_buckets"], 6);
  EXPECT_EQ(report["shrink"], 8);
}

class RecordingOrderRunTest : public testing::TestWithParam<const char*> {};

TEST_P(RecordingOrderRunTest, PoolIsAsLargeAsTheLargestBucket) {
  const nlohmann::json report =
      ReportOf({"--requests", "6", "--shrink", "16", "--order", GetParam(), "--verify", "all"});
  EXPECT_EQ(report["mismatches"], 0);
  EXPECT_EQ(report["order"], GetParam());
  EXPECT_EQ(report["replays"], report["calls"]);  // All was recorded ahead.
  EXPECT_EQ(report["eager"], 0);
  const double height = report["pool_height_bytes"];
  EXPECT_LE(height, 1.02 * report["max_bucket_live_bytes"].get<double>());
  EXPECT_GE(height, report["max_bucket_live_bytes"].get<double>());
  EXPECT_LE(report["pool_mapped_bytes"].get<int64_t>(),
            AlignUp(report["pool_height_bytes"].get<int64_t>(), 2 * kMiB));
  EXPECT_GE(report["pool_mapped_bytes"].get<double>(), height);
}

INSTANTIATE_TEST_SUITE_P(Orders,
                         RecordingOrderRunTest,
                         testing::Values("asc", "desc", "random:1", "random:2", "random:3"));

TEST(RunTest, EqualSeedsGiveEqualRuns) {
  const auto stable = [](const char* seed) {
    nlohmann::json report = ReportOf({"--requests", "12", "--shrink", "64", "--seed", seed});
    for (const char* key :
         {"wall_seconds", "record_ms_p50", "replay_host_ns_p50", "replay_driver_ns_p50"})
      report.erase(key);
    return report;
  };
  EXPECT_EQ(stable("3"), stable("3"));
  EXPECT_NE(stable("3")["virtual_seconds"], stable("4")["virtual_seconds"]);
}

TEST(RunTest, VerifyScopeDecidesWhatIsCompared) {
  const auto verified = [](const char* scope) {
    return ReportOf({"--requests", "10", "--shrink", "64", "--verify", scope});
  };
  EXPECT_EQ(verified("none")["comparisons"], 0);
  EXPECT_EQ(verified("sample:3")["verified_requests"], 3);
  EXPECT_EQ(verified("sample:99")["verified_requests"], 10);
  EXPECT_EQ(verified("all")["verified_requests"], 10);
}

TEST(RunTest, ReadsATraceUpToTheLimit) {
  const TraceFile trace(std::string(kRunHeader) + "0,80,16\n0.5,8,8\n1,400,24\n");
  const nlohmann::json report =
      ReportOf({trace.path(), "--limit", "2", "--shrink", "8", "--verify", "all"});
  EXPECT_EQ(report["requests"], 2);
  EXPECT_EQ(report["trace"], trace.path());
  EXPECT_EQ(report["prefill_steps"], 2);
  EXPECT_EQ(report["decode_steps"], 1);  // Answers of 2 tokens and of 1.
  EXPECT_EQ(report["mismatches"], 0);
}

TEST(RunTest, RequestsLongerThanTheContextAreCutAndCounted) {
  const TraceFile trace(std::string(kRunHeader) + "0,10000000,1\n0,64,10000000\n0,64,64\n");
  const nlohmann::json report =
      ReportOf({trace.path(), "--shrink", "64", "--verify", "all", "--slots", "2"});
  EXPECT_EQ(report["max_context"], 128);
  EXPECT_EQ(report["requests_cut"], 2);
  EXPECT_EQ(report["mismatches"], 0);
}

TEST(RunTest, SharedListGivesEachProgramWhatFits) {
  const nlohmann::json report =
      ReportOf({"--requests", "4", "--shrink", "64", "--policy", "2,4,64", "--slots", "4"});
  EXPECT_EQ(report["prefill_policy"], "2,4,64,128");
  EXPECT_EQ(report["decode_policy"], "2,4");
}

TEST(RunTest, PolicyOfAFileGivesEachProgramWhatFits) {
  const TemporaryFile file(R"({"version": 1, "buckets": [2, 4, 64], "guard": {"max_ratio": "8"}})",
                           "policy.json");
  const nlohmann::json report = ReportOf({"--requests", "4", "--shrink", "64", "--slots", "4",
                                          "--policy", file.path(), "--verify", "all"});
  EXPECT_EQ(report["prefill_policy"], "2,4,64,128");
  EXPECT_EQ(report["decode_policy"], "2,4");
  EXPECT_EQ(report["mismatches"], 0);
}

TEST(RunTest, PresetIsAPolicyOfBothPrograms) {
  const nlohmann::json report =
      ReportOf({"--requests", "4", "--shrink", "64", "--policy", "vllm", "--slots", "4"});
  EXPECT_EQ(report["decode_policy"], "vllm");
}

TEST(RunTest, OwnPolicyWinsOverTheSharedOne) {
  const nlohmann::json report = ReportOf(
      {"--requests", "4", "--shrink", "64", "--policy", "pow2", "--decode-policy", "linear:16"});
  EXPECT_EQ(report["prefill_policy"], "pow2");
  EXPECT_EQ(report["decode_policy"], "linear:16");
}

TEST(RunTest, TableIsForPeopleAndAPipeGetsNoBar) {
  const CommandOutcome outcome =
      RunCoppice({"run", "--requests", "4", "--shrink", "64", "--device", "host"});
  EXPECT_EQ(outcome.code, kExitOk) << outcome.err;
  for (const char* part :
       {"calls", "replays", "plan height", "pool, mapped", "mismatches",
        "on latency.documented.tsv", "lengths divided by 64", "a step costs", "bit for bit"})
    EXPECT_THAT(outcome.out, HasSubstr(part));
  EXPECT_EQ(outcome.err.find('\r'), std::string::npos);
}

struct BadCommand {
  const char* name;
  std::vector<std::string> arguments;
  const char* what;
};

void PrintTo(const BadCommand& bad, std::ostream* out) {
  *out << bad.name;
}

class BadCommandTest : public testing::TestWithParam<BadCommand> {};

TEST_P(BadCommandTest, GetsOneLineAndExitCode2) {
  const CommandOutcome outcome = RunCoppice(GetParam().arguments);
  EXPECT_EQ(outcome.code, kExitUsage);
  EXPECT_THAT(outcome.out, IsEmpty());
  EXPECT_THAT(outcome.err, StartsWith("coppice"));
  EXPECT_THAT(outcome.err, HasSubstr(GetParam().what));
  EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
}

INSTANTIATE_TEST_SUITE_P(
    All,
    BadCommandTest,
    testing::Values(
        BadCommand{"nothing", {}, "subcommand"},
        BadCommand{"no_command", {"walk"}, "subcommand"},
        BadCommand{"no_option", {"run", "--fast"}, "--fast"},
        BadCommand{"no_value", {"run", "--order"}, "--order"},
        BadCommand{"order", {"run", "--order", "up"}, "'up' is not a recording order"},
        BadCommand{"order_seed", {"run", "--order", "random:x"}, "'random:x'"},
        BadCommand{"verify", {"run", "--verify", "some"}, "'some' is not a scope"},
        BadCommand{"verify_none", {"run", "--verify", "sample:0"}, "'sample:0'"},
        BadCommand{"device", {"run", "--device", "tpu"}, "'tpu' is not a device"},
        BadCommand{"generate", {"run", "--generate", "chat"}, "'chat'"},
        BadCommand{"seed", {"run", "--seed", "-3"}, "'-3' is not a seed"},
        BadCommand{"limit_word", {"run", "--limit", "many"}, "--limit"},
        BadCommand{"limit_negative", {"run", "--limit", "-1"}, "--limit"},
        BadCommand{"limit_zero", {"run", "--limit", "0"}, "--limit"},
        BadCommand{"limit_huge", {"run", "--limit", "99999999999999999999"}, "--limit"},
        BadCommand{"shrink", {"run", "--shrink", "0"}, "--shrink"},
        BadCommand{"policy", {"run", "--device", "host", "--policy", "square"}, "square"},
        BadCommand{
            "policy_list", {"run", "--device", "host", "--decode-policy", "1,64"}, "64 is outside"},
        BadCommand{"policy_file",
                   {"run", "--device", "host", "--policy", "/nowhere/p.json"},
                   "/nowhere/p.json: there is no such file"},
        BadCommand{"both_sources", {"run", "t.csv", "--requests", "5"}, "--requests"},
        BadCommand{
            "missing_file", {"run", "/nowhere/t.csv"}, "/nowhere/t.csv: there is no such file"},
        BadCommand{"directory", {"run", "/"}, "/: this is a directory"},
        BadCommand{"bench", {"bench"}, "subcommand"},
        BadCommand{"iterations", {"bench", "record", "--iterations", "0"}, "--iterations"}),
    [](const auto& parameter) { return parameter.param.name; });

TEST(RunTest, BadRowNamesFileAndLine) {
  const TraceFile trace(std::string(kRunHeader) + "0,1,1\n0,1\n");
  const CommandOutcome outcome = RunCoppice({"run", trace.path()});
  EXPECT_EQ(outcome.code, kExitUsage);
  EXPECT_THAT(outcome.err, StartsWith("coppice run: " + trace.path() + ":3: "));
  EXPECT_THAT(outcome.out, IsEmpty());
}

TEST(RunTest, MissingCudaIsExitCode3) {
  if (Driver::LoadCuda().ok()) GTEST_SKIP() << "this machine has a CUDA driver";
  const CommandOutcome outcome = RunCoppice({"run", "--device", "cuda"});
  EXPECT_EQ(outcome.code, kExitDevice);
  EXPECT_THAT(outcome.err, HasSubstr("libcuda"));
}

TEST(RunTest, ReportThatCannotBeWrittenIsExitCode4) {
  std::FILE* const full = std::fopen("/dev/full", "w");
  if (full == nullptr) GTEST_SKIP() << "this machine has no /dev/full";
  const TextStream err;
  const char* const arguments[] = {"coppice", "info", "--device", "host"};
  EXPECT_EQ(RunCommandLine(4, arguments, /*program=*/"", {.out = full, .err = err.stream()}),
            kExitOutput);
  EXPECT_THAT(err.Text(), HasSubstr("cannot write to standard output"));
  std::fclose(full);
}

TEST(RunTest, TraceHoldsEveryCallOfTheReport) {
  const TraceFile out("what was there before");
  const nlohmann::json report =
      ReportOf({"--requests", "20", "--shrink", "64", "--trace-out", out.path()});
  std::ifstream file(out.path());
  std::map<std::string, int64_t> calls;
  std::string last;
  for (std::string line; std::getline(file, line); last = line) {
    const nlohmann::json parsed = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    ASSERT_FALSE(parsed.is_discarded()) << line;
    if (parsed.is_array() && parsed[1] == "call") ++calls[parsed[6]];
  }
  EXPECT_THAT(last, HasSubstr("\"end\""));
  int64_t total = 0;
  for (const auto& [path, count] : calls)
    total += count;
  EXPECT_EQ(report["calls"], total);
  EXPECT_EQ(report["replays"], calls["replay"]);
}

TEST(RunTest, TraceThatCannotBeWrittenIsExitCode4) {
  for (const char* path : {"/nowhere/run.trace", "/dev/full"}) {
    const CommandOutcome outcome = RunCoppice({"run", "--requests", "2", "--shrink", "64",
                                               "--device", "host", "--quiet", "--trace-out", path});
    EXPECT_EQ(outcome.code, kExitOutput) << path;
    EXPECT_THAT(outcome.err, HasSubstr(path));
  }
}

TEST(RunTest, TraceIsNotWrittenOverTheRequests) {
  const std::string requests = std::string(kRunHeader) + "0,30,2\n";
  const TraceFile trace(requests);
  const CommandOutcome outcome = RunCoppice({"run", trace.path(), "--trace-out", trace.path()});
  EXPECT_EQ(outcome.code, kExitUsage);
  EXPECT_THAT(outcome.err, HasSubstr("over an input"));
  std::ifstream file(trace.path());
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), requests);
}

TEST(RunTest, TraceIsNotWrittenOverAPolicy) {
  const std::string text = R"({"version": 1, "buckets": [2, 4, 64]})";
  const TemporaryFile policy(text, "policy.json");
  const std::string link = policy.path() + ".trace";
  std::filesystem::remove(link);
  std::filesystem::create_symlink(policy.path(), link);
  for (const char* option : {"--policy", "--prefill-policy", "--decode-policy"}) {
    for (const std::string& out : {policy.path(), link}) {
      const CommandOutcome outcome =
          RunCoppice({"run", "--requests", "2", "--shrink", "64", "--device", "host", "--quiet",
                      option, policy.path(), "--trace-out", out});
      EXPECT_EQ(outcome.code, kExitUsage) << option;
      EXPECT_THAT(outcome.err, HasSubstr("would be written over an input"));
      EXPECT_EQ(policy.Read(), text);
    }
  }
  std::filesystem::remove(link);
}

TEST(RunTest, ARefusedRunLeavesNoTrace) {
  const std::string path = testing::TempDir() + "/coppice_run_test_refused.trace";
  std::filesystem::remove(path);
  for (const std::vector<std::string>& wrong : std::vector<std::vector<std::string>>{
           {"--policy", "nonsense"}, {"--decode-policy", "1,64"}, {"--budget", "1"}}) {
    std::vector<std::string> arguments = {"run",      "--requests", "2",       "--shrink",    "64",
                                          "--device", "host",       "--quiet", "--trace-out", path};
    arguments.insert(arguments.end(), wrong.begin(), wrong.end());
    const CommandOutcome outcome = RunCoppice(arguments);
    EXPECT_EQ(outcome.code, kExitUsage) << wrong[0] << outcome.err;
    EXPECT_FALSE(std::filesystem::exists(path)) << wrong[0];
  }
}

TEST(RunTest, EmptyTextIsNotTheDefault) {
  for (const std::vector<std::string>& arguments :
       std::vector<std::vector<std::string>>{{"run", ""},
                                             {"run", "--policy", ""},
                                             {"run", "--trace-out", ""},
                                             {"run", "--requests", "0x5"}}) {
    EXPECT_EQ(RunCoppice(arguments).code, kExitUsage) << arguments.back();
  }
}

TEST(RunTest, HelpAndVersionSucceed) {
  for (const char* command : {"run", "info", "bench"}) {
    const CommandOutcome outcome = RunCoppice({command, "--help"});
    EXPECT_EQ(outcome.code, kExitOk);
    EXPECT_THAT(outcome.out, HasSubstr("--help"));
  }
  EXPECT_THAT(RunCoppice({"run", "--help"}).out, HasSubstr("Exit codes: 0 success"));
  EXPECT_THAT(RunCoppice({"run", "--help"}).out, HasSubstr("Examples:"));
  EXPECT_THAT(RunCoppice({"--version"}).out, StartsWith("coppice "));
}

TEST(InfoTest, JsonNamesDriverAndBuild) {
  const CommandOutcome outcome = RunCoppice({"info", "--device", "host", "--json"});
  ASSERT_EQ(outcome.code, kExitOk) << outcome.err;
  const nlohmann::json info = nlohmann::json::parse(outcome.out, nullptr, false);
  EXPECT_EQ(info["driver"], "emulator");
  EXPECT_EQ(info["driver_entries"], kDriverEntryCount);
  EXPECT_EQ(info["granularity_bytes"], 2 * kMiB);
  EXPECT_GT(info["memory_bytes"], 0);
  EXPECT_TRUE(info["device_code"].is_boolean());
  EXPECT_TRUE(info["nvtx"].is_boolean());
}

class RealTraceTest : public testing::TestWithParam<const char*> {};

TEST_P(RealTraceTest, ReplaysWithoutMismatchUnderPoison) {
  const std::string folder = TraceFolder();
  if (folder.empty()) GTEST_SKIP() << "COPPICE_DATA names no folder with the real traces";
  const int64_t limit = 200 / TestShare();
  const nlohmann::json report = ReportOf(
      {folder + "/" + GetParam(), "--limit", std::to_string(limit), "--verify", "all", "--poison"});
  EXPECT_EQ(report["requests"], limit);
  EXPECT_EQ(report["verified_requests"], limit);
  EXPECT_EQ(report["mismatches"], 0);
}

INSTANTIATE_TEST_SUITE_P(Azure,
                         RealTraceTest,
                         testing::Values("azure23_conv.csv", "azure23_code.csv"));

// A driver that flips a bit in every fifth large copy to the host: logits, keys or values.
constexpr size_t kLargeCopyBytes = 1024;
DriverTable unflipped_table;
int64_t large_copies = 0;
int64_t flips = 0;

CuResult FlipSometimes(void* target, CuDeviceAddress source, size_t bytes, CuStream stream) {
  const CuResult result = unflipped_table.MemcpyDtoHAsync(target, source, bytes, stream);
  if (bytes < kLargeCopyBytes || ++large_copies % 5 != 0) return result;
  ++flips;
  const CuResult waited = unflipped_table.StreamSynchronize(stream);
  static_cast<unsigned char*>(target)[bytes / 2] ^= 1;
  return result == CuResult::kSuccess ? waited : result;
}

TEST(ReplayerTest, EveryFlippedBitIsAMismatch) {
  COPPICE_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Emulator> emulator, Emulator::Create());
  unflipped_table = emulator->driver().table();
  large_copies = 0;
  flips = 0;
  DriverTable table = unflipped_table;
  table.MemcpyDtoHAsync = &FlipSometimes;
  const Driver driver(table, DriverKind::kEmulator);
  COPPICE_ASSERT_OK_AND_ASSIGN(const Context context, Context::Create(driver));
  DecoderConfig config;
  config.slots = 4;
  config.max_context = 64;
  COPPICE_ASSERT_OK_AND_ASSIGN(std::unique_ptr<Decoder> decoder,
                               Decoder::Create(driver, config, {}));
  const ServedDecoder model(driver, std::move(decoder));
  COPPICE_ASSERT_OK_AND_ASSIGN(const PaddingPolicy prefill, PaddingPolicy::Pow2(64));
  COPPICE_ASSERT_OK_AND_ASSIGN(const PaddingPolicy decode, PaddingPolicy::Pow2(4));
  std::vector<Request> requests = GenerateRequests(TraceKind::kMix, 10, 1);
  FitRequests(64, 64, requests);
  COPPICE_ASSERT_OK_AND_ASSIGN(
      const std::unique_ptr<Replayer> replayer,
      Replayer::Create(context, model,
                       {.prefill_policy = prefill,
                        .decode_policy = decode,
                        .followed = std::vector<bool>(requests.size(), true)}));
  Batcher batcher(requests, {.slots = 4, .cost = {.step_seconds = 0.4, .row_seconds = 0.001}});
  for (Step step; batcher.Next(step);)
    ASSERT_OK(replayer->Replay(step));
  EXPECT_GT(flips, Verifier::kDescriptionsMax);
  // Each comparison needs at most four copies, so that no two flips meet in one.
  EXPECT_EQ(replayer->verifier().mismatches(), flips);
}

constexpr Comparison kSomewhere = {
    .step = 7, .request = 3, .program = "decode", .bucket = 8, .what = "logits"};

TEST(VerifierTest, BitsMustBeEqualOnTheHost) {
  Verifier verifier(/*bound=*/0);
  verifier.CompareFloats(kSomewhere, std::vector<float>{1, 2}, std::vector<float>{1, 2});
  EXPECT_EQ(verifier.mismatches(), 0);
  verifier.CompareFloats(kSomewhere, std::vector<float>{1, 2},
                         std::vector<float>{1, std::nextafter(2.0F, 3.0F)});
  verifier.CompareFloats(kSomewhere, std::vector<float>{0.0F}, std::vector<float>{-0.0F});
  EXPECT_EQ(verifier.mismatches(), 2);
  EXPECT_EQ(verifier.comparisons(), 3);
}

TEST(VerifierTest, DescribesPlaceIndexAndValues) {
  Verifier verifier(0);
  verifier.CompareFloats(kSomewhere, std::vector<float>{1, 2}, std::vector<float>{1, 4});
  ASSERT_EQ(verifier.descriptions().size(), 1U);
  EXPECT_EQ(verifier.descriptions()[0],
            "step 7, request 3, decode bucket 8, logits: index 1: 4 (0x40800000) for 2 "
            "(0x40000000)");
}

TEST(VerifierTest, KeepsTheFirstFewDescriptionsAndCountsAll) {
  Verifier verifier(0);
  for (int i = 0; i < 2 * Verifier::kDescriptionsMax; ++i)
    verifier.CompareToken(kSomewhere, {}, 1, 2);
  EXPECT_EQ(verifier.mismatches(), 2 * Verifier::kDescriptionsMax);
  EXPECT_EQ(verifier.descriptions().size(), static_cast<size_t>(Verifier::kDescriptionsMax));
}

TEST(VerifierTest, BoundIsRelativeToTheReference) {
  Verifier verifier(/*bound=*/0.01);
  verifier.CompareFloats(kSomewhere, std::vector<float>{99}, std::vector<float>{99.99F});
  EXPECT_EQ(verifier.mismatches(), 0);
  verifier.CompareFloats(kSomewhere, std::vector<float>{99}, std::vector<float>{100.1F});
  EXPECT_EQ(verifier.mismatches(), 1);
}

TEST(VerifierTest, ExactComparisonIgnoresTheBound) {
  Verifier verifier(/*bound=*/0.5);
  Comparison exact = kSomewhere;
  exact.exact = true;
  verifier.CompareFloats(exact, std::vector<float>{1}, std::vector<float>{1.1F});
  verifier.CompareToken(exact, std::vector<float>{1, 1}, 0, 1);
  EXPECT_EQ(verifier.mismatches(), 2);
}

TEST(VerifierTest, ResultsAgreeWithinWhatTheProgramClaims) {
  Verifier verifier(/*bound=*/0);
  Comparison claimed = kSomewhere;
  claimed.claimed = {.bits = false, .relative = 0.1};
  verifier.CompareFloats(claimed, std::vector<float>{10}, std::vector<float>{11});
  verifier.CompareToken(claimed, std::vector<float>{10, 9}, 0, 1);
  claimed.exact = true;
  verifier.CompareFloats(claimed, std::vector<float>{10}, std::vector<float>{11});
  EXPECT_EQ(verifier.mismatches(), 0);
  verifier.CompareFloats(claimed, std::vector<float>{10}, std::vector<float>{11.1F});
  verifier.CompareToken(claimed, std::vector<float>{10, 8}, 0, 1);
  EXPECT_EQ(verifier.mismatches(), 2);
}

TEST(VerifierTest, ClaimAndBoundAddUp) {
  Verifier verifier(/*bound=*/0.05);
  Comparison claimed = kSomewhere;
  claimed.claimed = {.bits = false, .absolute = 1};
  verifier.CompareFloats(claimed, std::vector<float>{99}, std::vector<float>{104.9F});
  EXPECT_EQ(verifier.mismatches(), 0);
  verifier.CompareFloats(claimed, std::vector<float>{99}, std::vector<float>{105.1F});
  EXPECT_EQ(verifier.mismatches(), 1);
}

TEST(VerifierTest, NanIsAMismatchWhateverTheBound) {
  Verifier verifier(/*bound=*/1e9);
  verifier.CompareFloats(kSomewhere, std::vector<float>{1}, std::vector<float>{std::nanf("")});
  EXPECT_EQ(verifier.mismatches(), 1);
}

TEST(VerifierTest, TokenIsRightWithinTheBoundOfTheBestLogit) {
  const std::vector<float> logits = {5.0F, 4.999F, 1.0F};
  Verifier exact(0);
  exact.CompareToken(kSomewhere, logits, 0, 1);
  EXPECT_EQ(exact.mismatches(), 1);
  Verifier bounded(0.01);
  bounded.CompareToken(kSomewhere, logits, 0, 1);
  EXPECT_EQ(bounded.mismatches(), 0);
  bounded.CompareToken(kSomewhere, logits, 0, 2);
  bounded.CompareToken(kSomewhere, logits, 0, -1);
  bounded.CompareToken(kSomewhere, logits, 0, 3);
  EXPECT_EQ(bounded.mismatches(), 3);
}

TEST(RecordingOrderTest, CoversEveryBucketOnceInItsOrder) {
  COPPICE_ASSERT_OK_AND_ASSIGN(const PaddingPolicy prefill, PaddingPolicy::Pow2(64));
  COPPICE_ASSERT_OK_AND_ASSIGN(const PaddingPolicy decode, PaddingPolicy::Pow2(8));
  const auto order = [&](const char* text) {
    return OrderBuckets(prefill, decode, *ParseRecordingOrder(text));
  };
  const std::vector<ProgramBucket> ascending = order("asc");
  ASSERT_EQ(ascending.size(), 11U);
  const auto by_extent = [](const ProgramBucket& a, const ProgramBucket& b) {
    return a.extent < b.extent;
  };
  EXPECT_TRUE(std::is_sorted(ascending.begin(), ascending.end(), by_extent));
  std::vector<ProgramBucket> descending = order("desc");
  std::reverse(descending.begin(), descending.end());
  EXPECT_EQ(descending, ascending);
  EXPECT_THAT(order("random:1"), testing::UnorderedElementsAreArray(ascending));
  EXPECT_EQ(order("random:1"), order("random:1"));
  EXPECT_NE(order("random:1"), order("random:2"));
}

TEST(RunTest, ABudgetThatHoldsNoStepIsAWrongOption) {
  const CommandOutcome outcome = RunCoppice({"run", "--requests", "2", "--budget", "1MiB"});
  EXPECT_EQ(outcome.code, kExitUsage);
  EXPECT_THAT(outcome.err, HasSubstr("--budget 1.00 MiB is too small"));
}

// A caching allocator keeps what it took; a pool of plans is as large as the largest.
TEST(RunTest, ACachingAllocatorReservesForTheGraphsOfTheRun) {
  const std::vector<std::string> job = {"--requests", "20", "--shrink", "16", "--slots", "8"};
  std::vector<std::string> one = job;
  one.insert(one.end(), {"--policy", "512"});
  const nlohmann::json several = ReportOf(job);
  const nlohmann::json single = ReportOf(one);
  EXPECT_GE(single["caching_allocator_bytes"], single["max_bucket_live_bytes"]);
  EXPECT_GE(several["caching_allocator_bytes"], several["max_bucket_live_bytes"]);
  EXPECT_EQ(several["caching_allocator_bytes"].get<int64_t>() % (2 << 20), 0);
  const nlohmann::json& padding = several["prefill_padding_pct"];
  EXPECT_LT(padding["served"], padding["pow2"]);
  EXPECT_LT(several["replay_driver_ns_p50"], several["replay_host_ns_p50"]);
}

}  // namespace
}  // namespace coppice
