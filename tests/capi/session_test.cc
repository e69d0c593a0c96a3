// Goal: what a session of coppice.h is told beside its calls: bindings, constants, claims, traces,
// callbacks, modes of outputs.
// Method: packages of small PTX kernels on the emulator, through libcoppice.so, against sums
// computed here.

#include "nlohmann/json.hpp"

#include "coppice/coppice.h"

#include "tests/capi/c_fixture.h"

namespace coppice {
namespace {

using nlohmann::json;
using package::AddStep;
using package::FloatBuffer;
using package::ScaleStep;

class CSessionTest : public CFixture {
 protected:
  void Recreate(const coppice_session_options& options) {
    coppice_session_release(session_);
    session_ = nullptr;
    ASSERT_C_OK(coppice_session_create(device_, &options, &session_));
    ASSERT_C_OK(coppice_register_package(session_, package_, "main", nullptr, &program_));
  }
  static coppice_session_options Options() {
    coppice_session_options options = {.struct_size = sizeof(options)};
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
  EXPECT_C_ERROR(COPPICE_INVALID_ARGUMENT, "", Refused(x));
  const AdjustCall bound = [binding](coppice_call& call) { call.binding = binding; };
  for (int i = 0; i < 2; ++i) {
    coppice_lease* const lease = LeaseOf(program_, x, bound);
    EXPECT_EQ(Read(lease), Ramp(10, 5));
    coppice_lease_release(lease);
  }
  EXPECT_EQ(Download(cache), Ramp(64, 4));
  ASSERT_C_OK(coppice_unbind(session_, binding));
  EXPECT_C_ERROR(COPPICE_FAILED_PRECONDITION, "", Refused(x, bound));
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
  coppice_named_tensor constant = {.struct_size = sizeof(constant)};
  constant.name = "weights";
  constant.tensor = &weights;
  coppice_package_program_options options = {.struct_size = sizeof(options)};
  options.constants = &constant;
  options.constant_count = 1;
  ASSERT_C_OK(coppice_register_package(session_, package_, "main", &options, &program_));
  EXPECT_EQ(RunOn(Ramp(20)), Ramp(20, 12));
}

// What the lane's memory holds, as a borrower sees it.
class CLoanTest : public CSessionTest {
 protected:
  std::vector<float> Lent(uint64_t address, int64_t bytes) {
    std::vector<float> values(static_cast<size_t>(bytes) / sizeof(float));
    EXPECT_C_OK(coppice_copy_to_host(device_, values.data(), address, bytes, stream_));
    return values;
  }
  void RunUntilRecorded() {
    for (int i = 0; i < 2; ++i)
      EXPECT_EQ(RunOn(Ramp(100)), Ramp(100, 5));
    EXPECT_C_OK(coppice_device_synchronize(device_));
  }
};

TEST_F(CLoanTest, IdleMemoryIsLentAndGivenBack) {
  LoadAndRegister(DiamondProgram());
  RunUntilRecorded();
  coppice_loan* loan = nullptr;
  uint64_t address = 0;
  int64_t bytes = 0;
  ASSERT_C_OK(coppice_lend(session_, 0, &address, &bytes, &loan));
  EXPECT_GT(bytes, 0);
  EXPECT_C_ERROR(COPPICE_FAILED_PRECONDITION, "is lent; end the loan first",
                 Refused(Upload(Ramp(100))));
  coppice_loan* second = nullptr;
  EXPECT_C_ERROR(COPPICE_FAILED_PRECONDITION, "is lent",
                 coppice_lend(session_, 0, nullptr, nullptr, &second));
  EXPECT_EQ(second, nullptr);
  const std::vector<float> mine(static_cast<size_t>(bytes) / sizeof(float), 7);
  EXPECT_C_OK(coppice_copy_to_device(device_, address, mine.data(), bytes, stream_));
  EXPECT_EQ(Lent(address, bytes), mine);
  EXPECT_C_ERROR(COPPICE_INVALID_ARGUMENT, "legacy stream", coppice_loan_return(loan, nullptr));
  ASSERT_C_OK(coppice_loan_return(loan, stream_));
  EXPECT_C_ERROR(COPPICE_FAILED_PRECONDITION, "the loan has ended",
                 coppice_loan_return(loan, stream_));
  coppice_loan_release(loan);
  int32_t kind = -1;
  EXPECT_EQ(RunOn(Ramp(100), &kind), Ramp(100, 5));
  EXPECT_EQ(kind, COPPICE_RUN_REPLAY);
}

TEST_F(CLoanTest, ALoanKeepsItsSessionAndEndsWithItsRelease) {
  LoadAndRegister(DiamondProgram());
  RunUntilRecorded();
  coppice_loan* loan = nullptr;
  ASSERT_C_OK(coppice_lend(session_, 0, nullptr, nullptr, &loan));
  coppice_loan_release(loan);
  EXPECT_EQ(RunOn(Ramp(100)), Ramp(100, 5));
  EXPECT_C_OK(coppice_device_synchronize(device_));
  uint64_t address = 0;
  int64_t bytes = 0;
  ASSERT_C_OK(coppice_lend(session_, 0, &address, &bytes, &loan));
  coppice_session_release(session_);
  session_ = nullptr;
  EXPECT_FALSE(Lent(address, bytes).empty()) << "it is mapped";
  coppice_loan_release(loan);
}

TEST_F(CLoanTest, ScrubLeavesNothingOfEarlierCalls) {
  LoadAndRegister(DiamondProgram());
  const auto lent = [&] {
    coppice_loan* loan = nullptr;
    uint64_t address = 0;
    int64_t bytes = 0;
    EXPECT_C_OK(coppice_device_synchronize(device_));
    EXPECT_C_OK(coppice_lend(session_, 0, &address, &bytes, &loan));
    std::vector<float> values = Lent(address, bytes);
    coppice_loan_release(loan);
    return values;
  };
  RunUntilRecorded();
  EXPECT_NE(lent(), std::vector<float>(lent().size(), 0));
  ASSERT_C_OK(coppice_scrub(session_, 0, stream_));
  EXPECT_EQ(lent(), std::vector<float>(lent().size(), 0));
  EXPECT_EQ(RunOn(Ramp(100)), Ramp(100, 5));
}

TEST_F(CLoanTest, MemoryThatSomebodyUsesIsNeitherLentNorScrubbed) {
  LoadAndRegister(DiamondProgram());
  RunUntilRecorded();
  coppice_lease* const lease = LeaseOf(program_, Upload(Ramp(100)));
  EXPECT_C_OK(coppice_device_synchronize(device_));
  coppice_loan* loan = nullptr;
  EXPECT_C_ERROR(COPPICE_FAILED_PRECONDITION, "are leased",
                 coppice_lend(session_, 0, nullptr, nullptr, &loan));
  EXPECT_C_ERROR(COPPICE_FAILED_PRECONDITION, "leased", coppice_scrub(session_, 0, stream_));
  coppice_lease_release(lease);
  EXPECT_C_ERROR(COPPICE_INVALID_ARGUMENT, "legacy stream", coppice_scrub(session_, 0, nullptr));
  for (const int32_t lane : {-1, 1}) {
    EXPECT_C_ERROR(COPPICE_INVALID_ARGUMENT, "lane",
                   coppice_lend(session_, lane, nullptr, nullptr, &loan));
    EXPECT_C_ERROR(COPPICE_INVALID_ARGUMENT, "lane", coppice_scrub(session_, lane, stream_));
  }
  EXPECT_EQ(loan, nullptr);
}

// How a call of 90 runs behind one of 100, under a claim in place of the package's.
class CClaimTest : public CSessionTest {
 protected:
  int32_t KindUnder(const json& program, int32_t padding) {
    coppice_session_release(session_);
    coppice_package_release(package_);
    Load(program);
    coppice_claim claim = {.struct_size = sizeof(claim)};
    claim.symbol = "n";
    claim.padding = padding;
    coppice_package_program_options options = {.struct_size = sizeof(options)};
    options.claims = &claim;
    options.claim_count = 1;
    EXPECT_EQ(coppice_register_package(session_, package_, "main", &options, &program_),
              COPPICE_OK);
    RunOn(Ramp(100));
    int32_t kind = -1;
    EXPECT_EQ(RunOn(Ramp(90), &kind), Ramp(90, 5));
    return kind;
  }
};

TEST_F(CClaimTest, AClaimOfTheCallersTakesThePlaceOfThePackages) {
  json silent = DiamondProgram();
  silent["symbols"]["n"].erase("claim");
  EXPECT_EQ(KindUnder(silent, COPPICE_PADDING_ANY), COPPICE_RUN_REPLAY);
  EXPECT_EQ(KindUnder(DiamondProgram(), COPPICE_PADDING_NO_CLAIM), COPPICE_RUN_RECORD);
  EXPECT_EQ(KindUnder(DiamondProgram(), COPPICE_PADDING_ROW_INDEPENDENT), COPPICE_RUN_REPLAY);
}

TEST_F(CSessionTest, CopiedOutputsStayWhenTheNextCallRuns) {
  Load(DiamondProgram());
  coppice_session_options options = Options();
  options.copy_out_bytes = int64_t{2} << 20;
  Recreate(options);
  const DLTensor x = Upload(Ramp(10));
  const AdjustCall copied = [](coppice_call& call) { call.output_mode = COPPICE_COPY_OUT; };
  coppice_lease* const first = LeaseOf(program_, x, copied);
  coppice_lease* const second = LeaseOf(program_, x, copied);
  EXPECT_EQ(Read(first), Ramp(10, 5));
  coppice_lease_release(first);
  coppice_lease_release(second);
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
  EXPECT_C_ERROR(COPPICE_RESOURCE_EXHAUSTED, "", Refused(Upload(Ramp(10))));
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
  EXPECT_EQ(Buckets()[0]["bucket"], json({256}));
  ASSERT_FALSE(told.lines.empty());
  EXPECT_THAT(told.lines[0], HasSubstr("program 'main' runs without replay: new_bucket"));
  told.answer = COPPICE_UNAVAILABLE;
  EXPECT_C_ERROR(COPPICE_UNAVAILABLE, "vote failed with 6 (unavailable): rank 3 is gone",
                 Refused(Upload(Ramp(10))));
}

TEST_F(CSessionTest, TheTraceHasMarksOnceItIsFlushed) {
  Load(DiamondProgram());
  const std::string path = (std::filesystem::path(testing::TempDir()) / "c.trace").string();
  coppice_session_options options = Options();
  options.trace_path = path.c_str();
  Recreate(options);
  ASSERT_C_OK(coppice_mark(session_, "request 17"));
  coppice_request_times times = {.struct_size = sizeof(times)};
  times.id = 17;
  times.first_token_ns = 1500;
  times.last_token_ns = 9000;
  times.input_tokens = 120;
  times.output_tokens = 30;
  ASSERT_C_OK(coppice_note_request(session_, &times));
  times.output_tokens = 0;
  EXPECT_C_ERROR(COPPICE_INVALID_ARGUMENT, "must write at least one",
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
    const std::string text = TextOf([&](char* buffer, size_t room, size_t* bytes) {
      return coppice_session_metrics_text(session_, format, buffer, room, bytes);
    });
    EXPECT_THAT(text, HasSubstr("\ncoppice_runs_total{path=\"replay\"} 1\n"));
    EXPECT_THAT(text, HasSubstr("\ncoppice_replays_total{program=\"main\",variant=\"\",bucket="));
    EXPECT_EQ(text.ends_with("# EOF\n"), format == COPPICE_METRICS_OPENMETRICS);
    // Cut off to fit.
    char start[8] = {};
    size_t bytes = 0;
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

TEST_F(CSessionTest, FiguresAreThoseOfThePageOfMetrics) {
  Load(DiamondProgram());
  coppice_session_options options = Options();
  options.graphs_per_program_max = 1;
  options.on_limit = COPPICE_ON_LIMIT_EVICT;
  Recreate(options);
  for (const int64_t n : {10, 10, 100, 100, 10})
    RunOn(Ramp(n));
  coppice_session_stats stats = {.struct_size = sizeof(stats)};
  ASSERT_C_OK(coppice_stats(session_, &stats));
  EXPECT_EQ(stats.calls, 5);
  EXPECT_EQ(stats.recordings, 3);
  EXPECT_EQ(stats.evictions, 2);
  EXPECT_EQ(stats.runs[COPPICE_RUN_REPLAY], 2);
  EXPECT_EQ(stats.reasons[COPPICE_REASON_NEW_BUCKET], 2);
  EXPECT_EQ(stats.reasons[COPPICE_REASON_EVICTED], 1);
  std::string page(1 << 16, '\0');
  ASSERT_C_OK(coppice_session_metrics_text(session_, COPPICE_METRICS_PROMETHEUS, page.data(),
                                           page.size(), nullptr));
  for (const auto& [name, value] : {std::pair("captures_retried", stats.captures_retried),
                                    {"recordings_empty", stats.recordings_empty},
                                    {"evictions", stats.evictions},
                                    {"remaps", stats.remaps},
                                    {"inputs_in_place", stats.inputs_in_place},
                                    {"inputs_filled", stats.inputs_filled},
                                    {"inputs_demoted", stats.inputs_demoted},
                                    {"stream_switches", stats.stream_switches}}) {
    EXPECT_THAT(page, HasSubstr("\ncoppice_" + std::string(name) + "_total " +
                                std::to_string(value) + "\n"));
  }
}

// By the options that a trace begins with. Each differs from its default and from the others.
TEST_F(CSessionTest, OptionsArriveInTheSession) {
  Load(DiamondProgram());
  const std::string path = (std::filesystem::path(testing::TempDir()) / "options.trace").string();
  coppice_session_options options = Options();
  options.trace_path = path.c_str();
  options.stance = COPPICE_STANCE_REPLAY_ONLY;
  options.warmup_runs = 5;
  options.record_in_background = 1;
  options.gate = 1;
  options.graphs_per_program_max = 6;
  options.rerecords_per_bucket_max = 7;
  options.static_moves_max = -1;
  options.on_limit = COPPICE_ON_LIMIT_ERROR;
  options.on_budget = COPPICE_ON_LIMIT_EAGER;
  options.window_bytes = int64_t{16} << 20;
  options.workspace_bytes = int64_t{2} << 20;
  options.copy_out_bytes = int64_t{6} << 20;
  options.budget_bytes = int64_t{64} << 20;
  options.variant_timing = COPPICE_VARIANTS_NEVER;
  options.audit_keys = 1;
  options.check_addresses = 1;
  options.fill_expired = 1;
  options.keep_drawings = 1;
  options.recorder_ring_bytes = int64_t{3} << 20;
  options.recorder_calls_max = 77;
  options.recorder_outputs = 1;
  options.recorder_static_bytes_max = 9;
  options.recorder_copy_ns_max = 12;
  options.barrier = [](void*) -> coppice_status { return COPPICE_OK; };
  Recreate(options);
  ASSERT_C_OK(coppice_flush_trace(session_));
  std::string first;
  std::getline(std::ifstream(path) >> std::ws, first);
  EXPECT_EQ(json::parse(first)["options"], (json{{"lanes", 1},
                                                 {"stance", "replay_only"},
                                                 {"warmup_runs", 5},
                                                 {"record_in_background", true},
                                                 {"gate", true},
                                                 {"variant_timing", "never"},
                                                 {"graphs_per_program_max", 6},
                                                 {"rerecords_per_bucket_max", 7},
                                                 {"static_moves_max", 0},
                                                 {"on_limit", "error"},
                                                 {"window_bytes", 16 << 20},
                                                 {"workspace_bytes", 2 << 20},
                                                 {"copy_out_bytes", 6 << 20},
                                                 {"budget_bytes", 64 << 20},
                                                 {"on_budget", "eager"},
                                                 {"audit_keys", true},
                                                 {"check_addresses", true},
                                                 {"fill_expired", true},
                                                 {"keep_drawings", true},
                                                 {"recorder_ring_bytes", 3 << 20},
                                                 {"recorder_calls_max", 77},
                                                 {"recorder_outputs", true},
                                                 {"recorder_static_bytes_max", 9},
                                                 {"recorder_copy_ns_max", 12}}));
  std::filesystem::remove(path);
}

TEST_F(CSessionTest, WhatIsZeroHasItsDefault) {
  Load(DiamondProgram());
  const std::string path = (std::filesystem::path(testing::TempDir()) / "defaults.trace").string();
  coppice_session_options options = Options();
  options.trace_path = path.c_str();
  Recreate(options);
  ASSERT_C_OK(coppice_flush_trace(session_));
  std::string first;
  std::getline(std::ifstream(path) >> std::ws, first);
  const json told = json::parse(first);
  EXPECT_EQ(told["lanes"], 1);
  EXPECT_EQ(told["options"]["warmup_runs"], 1);
  EXPECT_EQ(told["options"]["graphs_per_program_max"], 1024);
  EXPECT_EQ(told["options"]["rerecords_per_bucket_max"], 128);
  EXPECT_EQ(told["options"]["static_moves_max"], 32);
  EXPECT_EQ(told["options"]["on_limit"], "eager");
  EXPECT_EQ(told["options"]["on_budget"], "evict");
  std::filesystem::remove(path);
}

TEST_F(CSessionTest, RecordingsAreTimedByTheCallersClock) {
  Load(DiamondProgram());
  int64_t now = 0;
  coppice_session_options options = Options();
  options.user = &now;
  options.now_ns = [](void* user) { return *static_cast<int64_t*>(user) += 1000; };
  Recreate(options);
  RunOn(Ramp(10));
  EXPECT_GT(now, 0);
  std::string text(4096, '\0');
  ASSERT_C_OK(coppice_buckets(session_, text.data(), text.size(), nullptr));
  const int64_t taken = json::parse(text.c_str())[0]["record_ns"];
  EXPECT_GT(taken, 0);
  EXPECT_EQ(taken % 1000, 0);
}

TEST_F(CSessionTest, ABudgetCountsWhatTheApplicationReports) {
  Load(DiamondProgram());
  coppice_session_options options = Options();
  options.budget_bytes = int64_t{64} << 20;
  Recreate(options);
  ASSERT_C_OK(coppice_set_external_bytes(session_, int64_t{8} << 20));
  coppice_memory_usage usage = {.struct_size = sizeof(usage)};
  ASSERT_C_OK(coppice_memory(session_, &usage));
  EXPECT_EQ(usage.budget, int64_t{64} << 20);
  EXPECT_GE(usage.total, int64_t{8} << 20);
  EXPECT_EQ(usage.bytes[COPPICE_MEMORY_EXTERNAL], int64_t{8} << 20);
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
  EXPECT_C_ERROR(COPPICE_FAILED_PRECONDITION, "unregistered", Refused(Upload(Ramp(10))));
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
      for (int n = 0; n < 50; ++n) {
        coppice_lease_release(left[i]);
        left[i] = LeaseOf(program_, x, [&](coppice_call& call) {
          call.stream = stream;
          call.lane = static_cast<int32_t>(i % 2);
        });
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
  coppice_session_stats stats = {.struct_size = sizeof(stats)};
  ASSERT_C_OK(coppice_stats(session_, &stats));
  EXPECT_EQ(stats.calls, 200);
}

}  // namespace
}  // namespace coppice
