// Goal: coppice.h does what it says: sessions, programs, calls, leases, functions of the host, as
// the C++ headers have them.
// Method: a package of small PTX kernels and callables of C, on the emulator, through libcoppice.so
// alone, against sums computed here; the emulator finds nothing.

#include "coppice/coppice.h"

#include "tests/capi/callable_fixture.h"

namespace coppice {
namespace {

using CoppiceTest = CallableFixture;

TEST_F(CoppiceTest, VersionIsTheHeaders) {
  EXPECT_EQ(coppice_api_version(), COPPICE_API_MAJOR * 1000 + COPPICE_API_MINOR);
  EXPECT_STREQ(coppice_version(), "0.1.0");
}

TEST_F(CoppiceTest, TheTableHasTheFunctions) {
  EXPECT_EQ(coppice_get_api(COPPICE_API_MAJOR + 1), nullptr);
  const coppice_api* const api = coppice_get_api(COPPICE_API_MAJOR);
  ASSERT_NE(api, nullptr);
  EXPECT_EQ(api->struct_size, sizeof(coppice_api));
#define COPPICE_MEMBER(name) EXPECT_EQ(api->name, &coppice_##name) << #name;
  COPPICE_FUNCTIONS(COPPICE_MEMBER)
#undef COPPICE_MEMBER
}

TEST_F(CoppiceTest, NamesAreThoseOfTheLibrary) {
  EXPECT_STREQ(coppice_status_name(COPPICE_OUT_OF_RANGE), "out of range");
  EXPECT_STREQ(coppice_status_name(99), "unknown");
  EXPECT_STREQ(coppice_run_kind_name(COPPICE_RUN_REPLAY), "replay");
  EXPECT_STREQ(coppice_run_kind_name(-1), "unknown");
  EXPECT_STREQ(coppice_reason_name(0), "none");
  EXPECT_STREQ(coppice_reason_name(1000), "unknown");
  EXPECT_STREQ(coppice_memory_kind_name(0), "nodes");
  EXPECT_STREQ(coppice_memory_kind_name(99), "unknown");
  EXPECT_STREQ(coppice_rebucket_outcome_name(COPPICE_REBUCKET_NOT_DUE), "not due");
  EXPECT_STREQ(coppice_rebucket_outcome_name(-1), "unknown");
  EXPECT_STREQ(coppice_rebucket_outcome_name(6), "unknown");
}

TEST_F(CoppiceTest, ADeviceDescribesItself) {
  coppice_device_info info = {.struct_size = sizeof(info)};
  ASSERT_C_OK(coppice_device_describe(device_, &info));
  EXPECT_EQ(info.kind, COPPICE_DEVICE_EMULATOR);
  EXPECT_EQ(info.dl_device_type, kDLExtDev);
  EXPECT_EQ(info.total_bytes, int64_t{256} << 20);
  EXPECT_STRNE(info.name, "");
}

TEST_F(CoppiceTest, TheFirstCallRecordsAndLaterOnesReplayPadded) {
  LoadAndRegister(DiamondProgram());
  int32_t kind = -1;
  EXPECT_EQ(RunOn(Ramp(100), &kind), Ramp(100, 5));
  EXPECT_EQ(kind, COPPICE_RUN_RECORD);
  for (const int64_t n : {100, 128, 65}) {
    EXPECT_EQ(RunOn(Ramp(n), &kind), Ramp(n, 5)) << n;
    EXPECT_EQ(kind, COPPICE_RUN_REPLAY);
  }
  coppice_session_stats stats = {.struct_size = sizeof(stats)};
  ASSERT_C_OK(coppice_stats(session_, &stats));
  EXPECT_EQ(stats.calls, 4);
  EXPECT_EQ(stats.runs[COPPICE_RUN_REPLAY], 3);
  EXPECT_EQ(stats.recordings, 1);
  EXPECT_EQ(stats.real_elements, 100 + 100 + 128 + 65);
  EXPECT_EQ(stats.padded_elements, 4 * 128);
}

TEST_F(CoppiceTest, PoliciesOfTheCallerTakeThePlaceOfThePackages) {
  Load(DiamondProgram());
  coppice_policy policy = {.struct_size = sizeof(policy)};
  policy.symbol = "n";
  coppice_package_program_options options = {.struct_size = sizeof(options)};
  options.policies = &policy;
  options.policy_count = 1;
  struct Case {
    const char* text;
    int64_t maximum;
    int64_t bucket;  // Of 100.
  };
  for (const Case& one : {Case{"linear:24", 240, 120}, Case{"vllm", 0, 104},
                          Case{R"({"version": 1, "buckets": [60, 104]})", 0, 104}}) {
    options.variant = one.text;
    policy.text = one.text;
    policy.maximum = one.maximum;
    ASSERT_C_OK(coppice_register_package(session_, package_, "main", &options, &program_));
    EXPECT_EQ(RunOn(Ramp(100)), Ramp(100, 5));
    const nlohmann::json last = Buckets().back();
    EXPECT_EQ(last["variant"], one.text);
    EXPECT_EQ(last["bucket"], nlohmann::json({one.bucket})) << one.text;
    EXPECT_EQ(last["recorded"], true);
  }
}

TEST_F(CoppiceTest, ReplaysAtExactSizesShareAnExecutableAndComputeNoPadding) {
  Load(DiamondProgram());
  coppice_package_program_options options = {.struct_size = sizeof(options)};
  options.exact = COPPICE_EXACT_ALWAYS;
  ASSERT_C_OK(coppice_register_package(session_, package_, "main", &options, &program_));
  for (const int64_t n : {100, 65, 5, 128, 5, 64})
    EXPECT_EQ(RunOn(Ramp(n)), Ramp(n, 5)) << n;
  coppice_session_stats stats = {.struct_size = sizeof(stats)};
  ASSERT_C_OK(coppice_stats(session_, &stats));
  EXPECT_EQ(stats.exact_replays, 6);
  EXPECT_GT(stats.patched_nodes, 0);
  EXPECT_EQ(stats.real_elements, stats.padded_elements);
  EXPECT_GT(Buckets().size(), 2U);
  for (const nlohmann::json& bucket : Buckets())
    EXPECT_EQ(bucket["family"], 1);
}

TEST_F(CoppiceTest, WarmRecordsAheadAndTellsHowFarItIs) {
  LoadAndRegister(DiamondProgram());
  const int64_t buckets[] = {64, 128, 256};
  std::vector<std::pair<int64_t, int64_t>> told;
  coppice_warm_options options = {.struct_size = sizeof(options)};
  options.user = &told;
  options.progress = [](void* user, int64_t done, int64_t total) {
    static_cast<std::vector<std::pair<int64_t, int64_t>>*>(user)->emplace_back(done, total);
  };
  ASSERT_C_OK(coppice_warm(session_, program_, buckets, 3, 1, &options));
  EXPECT_EQ(told, (std::vector<std::pair<int64_t, int64_t>>{{1, 3}, {2, 3}, {3, 3}}));
  int32_t kind = -1;
  EXPECT_EQ(RunOn(Ramp(200), &kind), Ramp(200, 5));
  EXPECT_EQ(kind, COPPICE_RUN_REPLAY);
  int64_t dropped = 0;
  ASSERT_C_OK(coppice_evict(session_, program_, &dropped));
  EXPECT_EQ(dropped, 3);
}

TEST_F(CoppiceTest, ExplainSaysInWordsWhatACallWouldDo) {
  LoadAndRegister(DiamondProgram());
  const DLTensor x = Upload(Ramp(10));
  const DLTensor* const inputs[] = {&x};
  coppice_call call = CallOf(inputs);
  const auto explain = [&](char* buffer, size_t room, size_t* bytes) {
    return coppice_explain(session_, &call, buffer, room, bytes);
  };
  EXPECT_THAT(TextOf(explain), HasSubstr("record"));
  call.input_count = 0;
  EXPECT_THAT(TextOf(explain), HasSubstr("1"));
}

TEST_F(CoppiceTest, OutputsMayGoIntoTheCallersMemory) {
  LoadAndRegister(DiamondProgram());
  const DLTensor y = Upload(Ramp(10, 0));
  const DLTensor* const targets[] = {&y};
  coppice_lease_release(LeaseOf(program_, Upload(Ramp(10)), [&](coppice_call& call) {
    call.output_mode = COPPICE_WRITE_INTO;
    call.targets = targets;
    call.target_count = 1;
  }));
  EXPECT_EQ(Download(y), Ramp(10, 5));
}

TEST_F(CoppiceTest, AStaleLeaseSaysWhichCallWroteOverIt) {
  LoadAndRegister(DiamondProgram());
  RunOn(Ramp(10));
  const DLTensor x = Upload(Ramp(10));
  coppice_lease* const first = LeaseOf(program_, x);
  coppice_lease* const second = LeaseOf(program_, x);
  coppice_read* scope = nullptr;
  EXPECT_C_ERROR(COPPICE_FAILED_PRECONDITION, "call 3", coppice_lease_read(first, stream_, &scope));
  EXPECT_EQ(scope, nullptr);
  ASSERT_C_OK(coppice_lease_read(second, stream_, &scope));
  EXPECT_C_ERROR(COPPICE_FAILED_PRECONDITION, "", Refused(x));
  coppice_read_end(scope);
  coppice_lease_release(first);
  coppice_lease_release(second);
}

TEST_F(CoppiceTest, DetachedOutputsOutliveTheirSession) {
  LoadAndRegister(DiamondProgram());
  coppice_lease* const lease = LeaseOf(program_, Upload(Ramp(10)));
  DLManagedTensorVersioned* kept = nullptr;
  EXPECT_C_ERROR(COPPICE_INVALID_ARGUMENT, "out_count must be 1, the number of outputs, but is 2",
                 coppice_lease_detach(lease, stream_, &kept, 2));
  ASSERT_C_OK(coppice_lease_detach(lease, stream_, &kept, 1));
  coppice_lease_release(lease);
  coppice_session_release(session_);
  session_ = nullptr;
  ASSERT_NE(kept, nullptr);
  EXPECT_EQ(kept->flags & DLPACK_FLAG_BITMASK_IS_COPIED, DLPACK_FLAG_BITMASK_IS_COPIED);
  EXPECT_EQ(Download(kept->dl_tensor), Ramp(10, 5));
  std::thread([kept] { kept->deleter(kept); }).join();
}

// What a function of the host was called with.
struct Seen {
  int calls = 0;
  std::vector<int64_t> sizes;
  std::string options;
  bool has_stream = false;
  coppice_status answer = COPPICE_OK;
  bool released = false;
};

// Adds 1 to each element.
coppice_status AddOne(void* user, const coppice_function_call* call) {
  auto& seen = *static_cast<Seen*>(user);
  ++seen.calls;
  seen.sizes.push_back(call->inputs[0].shape[0]);
  seen.options.clear();
  for (int32_t i = 0; i < call->option_count; ++i)
    seen.options += std::string(call->option_names[i]) + "=" + call->option_values[i] + " ";
  seen.has_stream = call->stream != nullptr;
  if (seen.answer != COPPICE_OK) {
    coppice_set_error("no ones are left");
    return seen.answer;
  }
  const auto* const x = static_cast<const float*>(call->inputs[0].data);
  auto* const y = static_cast<float*>(call->outputs[0].data);
  std::transform(x, x + call->inputs[0].shape[0], y, [](float value) { return value + 1; });
  return COPPICE_OK;
}

class HostFunctionTest : public CFixture {
 protected:
  void RegisterWith(int32_t when) {
    RegisterFunction("add_one", when, &AddOne, &seen_,
                     [](void* user) { static_cast<Seen*>(user)->released = true; });
  }

  Seen seen_;
};

TEST_F(HostFunctionTest, RunsInEveryReplayAtThePaddedSizes) {
  RegisterWith(COPPICE_ON_HOST);
  for (const int64_t n : {100, 70, 128}) {
    std::vector<float> expected = Ramp(n, 2);
    for (float& value : expected)
      value += 1;
    EXPECT_EQ(RunOn(Ramp(n)), expected);
  }
  EXPECT_EQ(seen_.sizes, (std::vector<int64_t>{128, 128, 128}));
  EXPECT_EQ(seen_.options, "by=7 mode=fast ");
  EXPECT_FALSE(seen_.has_stream);
  EXPECT_FALSE(seen_.released);
  coppice_session_release(session_);
  session_ = nullptr;
  EXPECT_TRUE(seen_.released);
}

TEST_F(HostFunctionTest, AnUnregisteredProgramLetsGoOfItsFunctionsAndPackage) {
  RegisterWith(COPPICE_ON_HOST);
  EXPECT_EQ(RunOn(Ramp(3)).size(), 3U);
  coppice_package_release(package_);  // The program holds it.
  package_ = nullptr;
  EXPECT_EQ(RunOn(Ramp(3)).size(), 3U);
  EXPECT_FALSE(seen_.released);
  ASSERT_C_OK(coppice_unregister(session_, program_));
  EXPECT_TRUE(seen_.released);
}

TEST_F(HostFunctionTest, AFailureOnTheHostIsToldByTheNextSynchronisationAndOnce) {
  RegisterWith(COPPICE_ON_HOST);
  seen_.answer = COPPICE_OUT_OF_RANGE;
  coppice_lease* const lease = LeaseOf(program_, Upload(Ramp(10)));
  EXPECT_C_ERROR(COPPICE_OUT_OF_RANGE, "function add_one failed with 2 (out of range): no ones",
                 coppice_stream_synchronize(device_, stream_));
  EXPECT_C_OK(coppice_device_synchronize(device_));
  coppice_lease_release(lease);
  expected_findings_ = Findings();
  EXPECT_THAT(expected_findings_, HasSubstr("no ones are left"));
}

TEST_F(HostFunctionTest, OneThatLaunchesRunsWhenItIsRecordedAndNotInReplays) {
  RegisterWith(COPPICE_LAUNCHES);
  seen_.answer = COPPICE_ABORTED;  // It must not touch memory here.
  EXPECT_C_ERROR(COPPICE_ABORTED, "no ones are left", Refused(Upload(Ramp(10))));
  EXPECT_TRUE(seen_.has_stream);
}

// Counts its copies.
class Copy {
 public:
  explicit Copy(int* count) : count_(count) { ++*count_; }
  Copy(const Copy& other) : Copy(other.count_) {}
  Copy& operator=(const Copy&) = delete;
  ~Copy() { --*count_; }

 private:
  int* count_;
};

TEST_F(CoppiceTest, ACallableOfCWarmsUpRecordsAndReplays) {
  std::vector<int32_t> phases;
  int copies = 0;
  program_ = RegisterBody("echo", [&, copy = Copy(&copies)](coppice_context* context) {
    const coppice_context_info info = InfoOf(context);
    phases.push_back(info.phase);
    EXPECT_NE(info.stream, nullptr);
    EXPECT_NE(info.parameters, 0U);
    EXPECT_EQ(ExtentOf(context), 16U);
    int64_t absent = 0;
    EXPECT_C_ERROR(COPPICE_INVALID_ARGUMENT, "", coppice_context_extent(context, 1, &absent));
    EXPECT_C_ERROR(COPPICE_INVALID_ARGUMENT, "", coppice_context_scalar(context, 0, &absent));
    coppice_view view = {.struct_size = sizeof(view)};
    EXPECT_C_ERROR(COPPICE_INVALID_ARGUMENT, "", coppice_context_input(context, 1, &view));
    uint64_t scratch = 0;
    EXPECT_C_OK(coppice_context_allocate(context, 512, &scratch));
    EXPECT_C_OK(coppice_context_free(context, scratch));
    EXPECT_C_ERROR(COPPICE_INVALID_ARGUMENT, "",
                   coppice_context_allocate_labelled(context, 512, nullptr, &scratch));
    EXPECT_C_OK(coppice_context_allocate_labelled(context, 512, "scores", &scratch));
    EXPECT_C_OK(coppice_context_free(context, scratch));
    return coppice_context_alias_output(context, 0, InputOf(context));
  });
  coppice_program* found = nullptr;
  ASSERT_C_OK(coppice_find(session_, "echo", nullptr, &found));
  EXPECT_EQ(found, program_);
  for (const int32_t kind : {COPPICE_RUN_WARM_UP, COPPICE_RUN_RECORD, COPPICE_RUN_REPLAY}) {
    int32_t ran = -1;
    EXPECT_EQ(RunOn(Ramp(10), &ran), Ramp(10));
    EXPECT_EQ(ran, kind);
  }
  EXPECT_EQ(phases, (std::vector<int32_t>{COPPICE_PHASE_WARM_UP, COPPICE_PHASE_RECORD}));
  EXPECT_EQ(copies, 1);
  ASSERT_C_OK(coppice_unregister(session_, program_));
  EXPECT_EQ(copies, 0);
}

TEST_F(CoppiceTest, ASpecThatIsRefusedStillReleasesItsUser) {
  ASSERT_C_OK(coppice_session_create(device_, nullptr, &session_));
  const coppice_program_spec spec = {.struct_size = sizeof(spec)};
  bool released = false;
  EXPECT_C_ERROR(
      COPPICE_INVALID_ARGUMENT, "name",
      coppice_register_callable(
          session_, &spec, [](void*, coppice_context*) -> coppice_status { return COPPICE_OK; },
          &released, [](void* user) { *static_cast<bool*>(user) = true; }, &program_));
  EXPECT_TRUE(released);
}

TEST_F(CoppiceTest, MemoryIsToldByKindAndGivenBackWhenSuspended) {
  LoadAndRegister(DiamondProgram());
  RunOn(Ramp(100));
  coppice_memory_usage usage = {.struct_size = sizeof(usage)};
  ASSERT_C_OK(coppice_memory(session_, &usage));
  EXPECT_GT(usage.bytes[0], 0);
  EXPECT_GT(usage.height, 0);
  ASSERT_C_OK(coppice_suspend(session_, nullptr));
  ASSERT_C_OK(coppice_memory(session_, &usage));
  EXPECT_EQ(usage.bytes[0], 0);
  ASSERT_C_OK(coppice_resume(session_));
  int32_t kind = -1;
  EXPECT_EQ(RunOn(Ramp(100), &kind), Ramp(100, 5));
  EXPECT_EQ(kind, COPPICE_RUN_REPLAY);
  ASSERT_C_OK(coppice_trim(session_));
}

TEST_F(CoppiceTest, AProfileOfOneSessionWarmsAnother) {
  LoadAndRegister(DiamondProgram());
  RunOn(Ramp(100));
  const std::string path =
      (std::filesystem::temp_directory_path() / "coppice_c_profile.json").string();
  ASSERT_C_OK(coppice_save_profile(session_, path.c_str()));
  coppice_session_release(session_);
  ASSERT_C_OK(coppice_session_create(device_, nullptr, &session_));
  ASSERT_C_OK(coppice_register_package(session_, package_, "main", nullptr, &program_));
  coppice_loaded_profile loaded = {.struct_size = sizeof(loaded)};
  ASSERT_C_OK(coppice_load_profile(session_, path.c_str(), nullptr, &loaded));
  EXPECT_EQ(loaded.recorded, 1);
  EXPECT_EQ(loaded.skipped, 0);
  int32_t kind = -1;
  RunOn(Ramp(100), &kind);
  EXPECT_EQ(kind, COPPICE_RUN_REPLAY);
  std::filesystem::remove(path);
}

TEST_F(CoppiceTest, ACaseIsSavedWhereAFlightRecorderIs) {
  LoadAndRegister(DiamondProgram());
  RunOn(Ramp(100));
  const std::string path =
      (std::filesystem::temp_directory_path() / "coppice_c.coppice-case").string();
  EXPECT_C_ERROR(COPPICE_FAILED_PRECONDITION, "recorder",
                 coppice_save_case(session_, path.c_str(), nullptr, 0, COPPICE_CASE_KEEP));
  EXPECT_FALSE(std::filesystem::exists(path));
  coppice_session_release(session_);
  const coppice_session_options options = {.struct_size = sizeof(options),
                                           .recorder_ring_bytes = 1 << 20};
  ASSERT_C_OK(coppice_session_create(device_, &options, &session_));
  ASSERT_C_OK(coppice_register_package(session_, package_, "main", nullptr, &program_));
  RunOn(Ramp(100));
  ASSERT_C_OK(coppice_save_case(session_, path.c_str(), "a test", 0, COPPICE_CASE_NOISE));
  EXPECT_GT(std::filesystem::file_size(path), 1000U);  // coppice replay reads it.
  std::filesystem::remove(path);
}

TEST_F(CoppiceTest, StrictSaysWhyItRunsNothing) {
  LoadAndRegister(DiamondProgram());
  ASSERT_C_OK(coppice_set_stance(session_, COPPICE_STANCE_STRICT));
  EXPECT_C_ERROR(COPPICE_FAILED_PRECONDITION, "new_bucket", Refused(Upload(Ramp(10))));
}

TEST_F(CoppiceTest, TheManifestIsJson) {
  Load(DiamondProgram());
  const char* text = nullptr;
  int64_t bytes = 0;
  ASSERT_C_OK(coppice_package_manifest(package_, &text, &bytes));
  const auto manifest = nlohmann::json::parse(text, text + bytes);
  EXPECT_TRUE(manifest["programs"].contains("main"));
}

TEST_F(CoppiceTest, HandlesMayBeReleasedInAnyOrder) {
  LoadAndRegister(DiamondProgram());
  coppice_lease* const lease = LeaseOf(program_, Upload(Ramp(10)));
  coppice_read* scope = nullptr;
  ASSERT_C_OK(coppice_lease_read(lease, stream_, &scope));
  coppice_lease_release(lease);
  coppice_package_release(package_);
  coppice_session_release(session_);
  package_ = nullptr;
  session_ = nullptr;
  coppice_view view = {.struct_size = sizeof(view)};
  ASSERT_C_OK(coppice_read_output(scope, 0, &view));
  EXPECT_EQ(Download(view.tensor), Ramp(10, 5));
  coppice_read_end(scope);
}

TEST_F(CoppiceTest, ALeaseThatOutlivesItsSessionIsEmpty) {
  LoadAndRegister(DiamondProgram());
  coppice_lease* const lease = LeaseOf(program_, Upload(Ramp(10)));
  coppice_session_release(session_);
  session_ = nullptr;
  coppice_read* scope = nullptr;
  EXPECT_C_ERROR(COPPICE_FAILED_PRECONDITION, "", coppice_lease_read(lease, stream_, &scope));
  EXPECT_EQ(InfoOf(lease).output_count, 0);
  coppice_lease_release(lease);
}

}  // namespace
}  // namespace coppice
