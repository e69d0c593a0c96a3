// Goal: what a session of coppice.h is told beside its calls: bindings, constants, claims, traces,
// callbacks, modes of outputs.
// Method: packages of small PTX kernels on the emulator, through libcoppice.so, against sums
// computed here.

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "coppice/coppice.h"

#include "tests/capi/c_fixture.h"

namespace coppice {
namespace {

using nlohmann::json;
using package::AddStep;
using package::FloatBuffer;
using package::ScaleStep;
using testing::HasSubstr;

class CSessionTest : public CFixture {
 protected:
  void Recreate(const coppice_session_options& options) {
    coppice_session_release(session_);
    session_ = nullptr;
    ASSERT_C_OK(coppice_session_create(device_, &options, &session_));
    ASSERT_C_OK(coppice_register_package(session_, package_, "main", nullptr, &program_));
  }
  static coppice_session_options Options() {
    coppice_session_options options = {};
    options.struct_size = sizeof(options);
    return options;
  }
};

// DiamondProgram, with a cache of 64 floats that each call doubles.
json WithCache() {
  json program = DiamondProgram();
  program["inputs"] = {"x", "cache"};
  program["buffers"]["cache"] = {
      {"role", "input"}, {"dtype", "f32"}, {"shape", {64}}, {"static", true}, {"mutated", true}};
  program["steps"].push_back(ScaleStep("cache", "cache", "64", "2"));
  return program;
}

TEST_F(CSessionTest, StaticInputsAreBoundAndEqualAddressesAreOneBinding) {
  LoadAndRegister(WithCache());
  const DLTensor cache = Upload(Ramp(64));
  const DLTensor* const statics[] = {&cache};
  coppice_binding* binding = nullptr;
  coppice_binding* again = nullptr;
  ASSERT_C_OK(coppice_bind(session_, program_, statics, 1, &binding));
  ASSERT_C_OK(coppice_bind(session_, program_, statics, 1, &again));
  EXPECT_EQ(binding, again);
  const DLTensor x = Upload(Ramp(10));
  const DLTensor* const inputs[] = {&x};
  coppice_call call = CallOf(inputs);
  coppice_lease* lease = nullptr;
  EXPECT_C_ERROR(COPPICE_INVALID_ARGUMENT, "", coppice_run(session_, &call, &lease));
  call.binding = binding;
  for (int i = 0; i < 2; ++i) {
    ASSERT_C_OK(coppice_run(session_, &call, &lease));
    EXPECT_EQ(Read(lease), Ramp(10, 5));
    coppice_lease_release(lease);
  }
  EXPECT_EQ(Download(cache), Ramp(64, 4));
  ASSERT_C_OK(coppice_unbind(session_, binding));
  EXPECT_C_ERROR(COPPICE_FAILED_PRECONDITION, "", coppice_run(session_, &call, &lease));
}

TEST_F(CSessionTest, ConstantsOfTheCallerAreGivenByName) {
  json program = DiamondProgram();
  program["buffers"]["weights"] = {{"role", "constant"}, {"constant", "weights"}};
  program["steps"] = {ScaleStep("x", "twice", "n", "2"), AddStep("twice", "weights", "y", "n")};
  program["buffers"].erase("thrice");
  program["symbols"]["n"]["max"] = 64;
  package::PackageBuilder builder = package::SmallKernels();
  builder.manifest["programs"]["main"] = program;
  builder.manifest["constants"]["weights"] = {{"dtype", "f32"}, {"shape", {64}}};
  const std::string zip = builder.Zip();
  ASSERT_C_OK(coppice_package_load_memory(device_, zip.data(), static_cast<int64_t>(zip.size()),
                                          nullptr, nullptr, &package_));
  ASSERT_C_OK(coppice_session_create(device_, nullptr, &session_));
  EXPECT_C_ERROR(COPPICE_INVALID_ARGUMENT, "weights",
                 coppice_register_package(session_, package_, "main", nullptr, &program_));
  const DLTensor weights = Upload(Ramp(64, 10));
  coppice_named_tensor constant = {};
  constant.struct_size = sizeof(constant);
  constant.name = "weights";
  constant.tensor = &weights;
  coppice_package_program_options options = {};
  options.struct_size = sizeof(options);
  options.constants = &constant;
  options.constant_count = 1;
  ASSERT_C_OK(coppice_register_package(session_, package_, "main", &options, &program_));
  EXPECT_EQ(RunOn(Ramp(20)), Ramp(20, 12));
}

TEST_F(CSessionTest, AClaimOfTheCallerLetsASymbolPad) {
  json silent = DiamondProgram();
  silent["symbols"]["n"].erase("claim");
  Load(silent);
  coppice_claim claim = {};
  claim.struct_size = sizeof(claim);
  claim.symbol = "n";
  claim.padding = COPPICE_PADDING_ANY;
  coppice_package_program_options options = {};
  options.struct_size = sizeof(options);
  options.claims = &claim;
  options.claim_count = 1;
  ASSERT_C_OK(coppice_register_package(session_, package_, "main", &options, &program_));
  RunOn(Ramp(100));
  int32_t kind = -1;
  EXPECT_EQ(RunOn(Ramp(90), &kind), Ramp(90, 5));
  EXPECT_EQ(kind, COPPICE_RUN_REPLAY);
}

TEST_F(CSessionTest, CopiedOutputsStayWhenTheNextCallRuns) {
  Load(DiamondProgram());
  coppice_session_options options = Options();
  options.copy_out_bytes = int64_t{2} << 20;
  Recreate(options);
  const DLTensor x = Upload(Ramp(10));
  const DLTensor* const inputs[] = {&x};
  coppice_call call = CallOf(inputs);
  call.output_mode = COPPICE_COPY_OUT;
  coppice_lease* first = nullptr;
  coppice_lease* second = nullptr;
  ASSERT_C_OK(coppice_run(session_, &call, &first));
  ASSERT_C_OK(coppice_run(session_, &call, &second));
  EXPECT_EQ(Read(first), Ramp(10, 5));
  coppice_lease_release(first);
  coppice_lease_release(second);
}

TEST_F(CSessionTest, PoisonOfAllKindsLeavesLiveOutputsEqual) {
  LoadAndRegister(DiamondProgram());
  for (const int32_t poison :
       {COPPICE_POISON_NAN, COPPICE_POISON_PATTERN, COPPICE_POISON_NOISE, COPPICE_POISON_OFF}) {
    const DLTensor x = Upload(Ramp(70));
    const DLTensor* const inputs[] = {&x};
    coppice_call call = CallOf(inputs);
    call.poison = poison;
    coppice_lease* lease = nullptr;
    ASSERT_C_OK(coppice_run(session_, &call, &lease));
    EXPECT_EQ(Read(lease), Ramp(70, 5)) << poison;
    coppice_lease_release(lease);
  }
}

TEST_F(CSessionTest, LimitsOfMinusOneAreNoneAtAll) {
  Load(DiamondProgram());
  coppice_session_options options = Options();
  options.graphs_per_program_max = -1;
  Recreate(options);
  int32_t kind = -1;
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(RunOn(Ramp(10), &kind), Ramp(10, 5));
  EXPECT_EQ(kind, COPPICE_RUN_EAGER);
  options.on_limit = COPPICE_ON_LIMIT_ERROR;
  Recreate(options);
  const DLTensor x = Upload(Ramp(10));
  const DLTensor* const inputs[] = {&x};
  const coppice_call call = CallOf(inputs);
  coppice_lease* lease = nullptr;
  EXPECT_C_ERROR(COPPICE_RESOURCE_EXHAUSTED, "", coppice_run(session_, &call, &lease));
}

// What callbacks of a session were told.
struct Told {
  std::vector<std::string> lines;
  std::vector<std::vector<int64_t>> buckets;
  coppice_program* program = nullptr;
  int barriers = 0;
  int64_t at_least = 0;
  coppice_status answer = COPPICE_OK;
};

coppice_status VoteLarger(void* user, coppice_vote* vote) {
  auto& told = *static_cast<Told*>(user);
  told.buckets.emplace_back(vote->bucket, vote->bucket + vote->bucket_count);
  told.program = vote->program;
  if (told.answer != COPPICE_OK) coppice_set_error("rank 3 is gone");
  const bool larger = vote->bucket[0] < told.at_least;
  if (larger) vote->bucket[0] = told.at_least;
  vote->unanimous = larger ? 0 : 1;
  return told.answer;
}

TEST_F(CSessionTest, RanksVoteAndTheLogHasALinePerReason) {
  Load(DiamondProgram());
  Told told;
  told.at_least = 256;
  coppice_session_options options = Options();
  options.user = &told;
  options.log = [](void* user, const char* line) {
    static_cast<Told*>(user)->lines.emplace_back(line);
  };
  options.vote = &VoteLarger;
  options.barrier = [](void* user) -> coppice_status {
    ++static_cast<Told*>(user)->barriers;
    return COPPICE_OK;
  };
  Recreate(options);
  EXPECT_EQ(RunOn(Ramp(100)), Ramp(100, 5));
  ASSERT_FALSE(told.buckets.empty());
  EXPECT_EQ(told.buckets[0], (std::vector<int64_t>{128}));
  EXPECT_EQ(told.program, program_);
  EXPECT_EQ(told.barriers, 1);
  size_t bytes = 0;
  ASSERT_C_OK(coppice_buckets(session_, nullptr, 0, &bytes));
  std::string text(bytes, '\0');
  ASSERT_C_OK(coppice_buckets(session_, text.data(), bytes + 1, nullptr));
  EXPECT_THAT(text, HasSubstr("\"bucket\":[256]"));
  ASSERT_FALSE(told.lines.empty());
  EXPECT_THAT(told.lines[0], HasSubstr("program 'main' runs without replay: new_bucket"));
  told.answer = COPPICE_UNAVAILABLE;
  const DLTensor x = Upload(Ramp(10));
  const DLTensor* const inputs[] = {&x};
  const coppice_call call = CallOf(inputs);
  coppice_lease* lease = nullptr;
  EXPECT_C_ERROR(COPPICE_UNAVAILABLE, "vote failed with 6 (unavailable): rank 3 is gone",
                 coppice_run(session_, &call, &lease));
}

TEST_F(CSessionTest, TheTraceHasMarksOnceItIsFlushed) {
  Load(DiamondProgram());
  const std::string path = (std::filesystem::path(testing::TempDir()) / "c.trace").string();
  coppice_session_options options = Options();
  options.trace_path = path.c_str();
  Recreate(options);
  ASSERT_C_OK(coppice_mark(session_, "request 17"));
  coppice_request_times times = {};
  times.struct_size = sizeof(times);
  times.id = 17;
  times.first_token_ns = 1500;
  times.last_token_ns = 9000;
  times.input_tokens = 120;
  times.output_tokens = 30;
  ASSERT_C_OK(coppice_note_request(session_, &times));
  times.output_tokens = 0;
  EXPECT_C_ERROR(COPPICE_INVALID_ARGUMENT, "it writes at least one",
                 coppice_note_request(session_, &times));
  RunOn(Ramp(10));
  ASSERT_C_OK(coppice_flush_trace(session_));
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  EXPECT_THAT(text.str(), HasSubstr("request 17"));
  EXPECT_THAT(text.str(), HasSubstr("\"request\",-1,17,1500,9000,120,30]"));
  std::filesystem::remove(path);
}

TEST_F(CSessionTest, APageOfMetricsComesInBothFormats) {
  LoadAndRegister(DiamondProgram());
  RunOn(Ramp(10));
  RunOn(Ramp(10));
  for (const int32_t format : {COPPICE_METRICS_PROMETHEUS, COPPICE_METRICS_OPENMETRICS}) {
    size_t bytes = 0;
    ASSERT_C_OK(coppice_session_metrics_text(session_, format, nullptr, 0, &bytes));
    std::string text(bytes, '\0');
    ASSERT_C_OK(coppice_session_metrics_text(session_, format, text.data(), bytes + 1, nullptr));
    EXPECT_THAT(text, HasSubstr("\ncoppice_runs_total{path=\"replay\"} 1\n"));
    EXPECT_THAT(text, HasSubstr("\ncoppice_replays_total{program=\"main\",variant=\"\",bucket="));
    EXPECT_EQ(text.ends_with("# EOF\n"), format == COPPICE_METRICS_OPENMETRICS);
    // Cut off to fit.
    char start[8] = {};
    ASSERT_C_OK(coppice_session_metrics_text(session_, format, start, sizeof(start), &bytes));
    EXPECT_EQ(bytes, text.size());
    EXPECT_STREQ(start, "# HELP ");
  }
  EXPECT_STREQ(coppice_metrics_content_type(COPPICE_METRICS_PROMETHEUS),
               "text/plain; version=0.0.4; charset=utf-8");
  EXPECT_THAT(coppice_metrics_content_type(COPPICE_METRICS_OPENMETRICS),
              HasSubstr("openmetrics-text"));
  EXPECT_STREQ(coppice_metrics_content_type(2), "unknown");
  EXPECT_STREQ(coppice_metrics_content_type(-1), "unknown");
}

TEST_F(CSessionTest, ABudgetCountsWhatTheApplicationReports) {
  Load(DiamondProgram());
  coppice_session_options options = Options();
  options.budget_bytes = int64_t{64} << 20;
  Recreate(options);
  ASSERT_C_OK(coppice_set_external_bytes(session_, int64_t{8} << 20));
  coppice_memory_usage usage = {};
  usage.struct_size = sizeof(usage);
  ASSERT_C_OK(coppice_memory(session_, &usage));
  EXPECT_EQ(usage.budget, int64_t{64} << 20);
  EXPECT_GE(usage.total, int64_t{8} << 20);
  EXPECT_EQ(usage.bytes[usage.kind_count - 1], int64_t{8} << 20);
}

TEST_F(CSessionTest, RecordingsInTheBackgroundCanBeWaitedFor) {
  Load(DiamondProgram());
  coppice_session_options options = Options();
  options.record_in_background = 1;
  Recreate(options);
  RunOn(Ramp(10));
  ASSERT_C_OK(coppice_wait_for_recordings(session_));
  int32_t kind = -1;
  EXPECT_EQ(RunOn(Ramp(10), &kind), Ramp(10, 5));
  EXPECT_EQ(kind, COPPICE_RUN_REPLAY);
}

TEST_F(CSessionTest, ResetForgetsGraphsAndUnregisterEndsTheProgram) {
  LoadAndRegister(DiamondProgram());
  RunOn(Ramp(10));
  ASSERT_C_OK(coppice_reset(session_, program_));
  int32_t kind = -1;
  EXPECT_EQ(RunOn(Ramp(10), &kind), Ramp(10, 5));
  EXPECT_EQ(kind, COPPICE_RUN_RECORD);
  ASSERT_C_OK(coppice_unregister(session_, program_));
  coppice_program* found = nullptr;
  EXPECT_C_ERROR(COPPICE_NOT_FOUND, "main", coppice_find(session_, "main", nullptr, &found));
  EXPECT_EQ(found, nullptr);
  const DLTensor x = Upload(Ramp(10));
  const DLTensor* const inputs[] = {&x};
  const coppice_call call = CallOf(inputs);
  coppice_lease* lease = nullptr;
  EXPECT_C_ERROR(COPPICE_FAILED_PRECONDITION, "unregistered", coppice_run(session_, &call, &lease));
  ASSERT_C_OK(coppice_register_package(session_, package_, "main", nullptr, &program_));
  EXPECT_EQ(RunOn(Ramp(10)), Ramp(10, 5));
}

TEST_F(CSessionTest, ThreadsShareASessionAndReleaseEachOthersLeases) {
  Load(DiamondProgram());
  coppice_session_options options = Options();
  options.lanes = 2;
  options.record_in_background = 1;
  Recreate(options);
  const DLTensor x = Upload(Ramp(128));
  std::vector<coppice_lease*> left(4);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < left.size(); ++i) {
    threads.emplace_back([&, i] {
      ASSERT_C_OK(coppice_device_make_current(device_));
      void* stream = nullptr;
      ASSERT_C_OK(coppice_stream_create(device_, &stream));
      const DLTensor* const inputs[] = {&x};
      coppice_call call = CallOf(inputs);
      call.stream = stream;
      call.lane = static_cast<int32_t>(i % 2);
      for (int n = 0; n < 50; ++n) {
        coppice_lease_release(left[i]);
        ASSERT_C_OK(coppice_run(session_, &call, &left[i]));
        if (n % 20 == 10) {
          EXPECT_C_OK(coppice_reset(session_, program_));
        }
      }
      EXPECT_C_OK(coppice_stream_synchronize(device_, stream));
    });
  }
  for (std::thread& thread : threads)
    thread.join();
  for (coppice_lease* const lease : left)
    coppice_lease_release(lease);
  coppice_session_stats stats = {};
  stats.struct_size = sizeof(stats);
  ASSERT_C_OK(coppice_stats(session_, &stats));
  EXPECT_EQ(stats.calls, 200);
}

}  // namespace
}  // namespace coppice
