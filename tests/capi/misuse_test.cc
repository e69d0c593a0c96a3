// Goal: no argument of C ends the process: each is an error that says where and what, and leaves
// everything as it was.
// Method: every function with null for each of its handles and structs; structs of all sizes; what
// numbers, tensors, texts and counts can be wrong. Afterwards the session still runs.

#include "coppice/coppice.h"

#include "tests/capi/c_fixture.h"

namespace coppice {
namespace {

class MisuseTest : public CFixture {
 protected:
  void SetUp() override {
    CFixture::SetUp();
    LoadAndRegister(DiamondProgram());
    x_ = Upload(Ramp(10));
  }
  void TearDown() override {
    EXPECT_EQ(RunOn(Ramp(100)), Ramp(100, 5)) << "the session is as it was";
    CFixture::TearDown();
  }

  coppice_status RunWith(const DLTensor& x) {
    const DLTensor* const inputs[] = {&x};
    return Run(CallOf(inputs));
  }
  coppice_status Run(const coppice_call& call) {
    coppice_lease* lease = nullptr;
    const coppice_status status = coppice_run(session_, &call, &lease);
    EXPECT_EQ(lease == nullptr, status != COPPICE_OK);
    coppice_lease_release(lease);
    return status;
  }

  DLTensor x_ = {};
};

TEST_F(MisuseTest, ReleasingNothingDoesNothing) {
  coppice_device_release(nullptr);
  coppice_package_release(nullptr);
  coppice_session_release(nullptr);
  coppice_lease_release(nullptr);
  coppice_read_end(nullptr);
  coppice_kernels_release(nullptr);
  coppice_chain_end(nullptr);
  coppice_loan_release(nullptr);
  coppice_external_free(nullptr, 0, 0, nullptr);
}

TEST_F(MisuseTest, NullIsAnErrorEverywhere) {
  int64_t number = 0;
  uint64_t address = 0;
  size_t bytes = 0;
  void* stream = nullptr;
  const char* text = nullptr;
  coppice_package* package = nullptr;
  coppice_session* session = nullptr;
  coppice_program* program = nullptr;
  coppice_binding* binding = nullptr;
  coppice_lease* lease = nullptr;
  coppice_read* scope = nullptr;
  coppice_kernels* kernels = nullptr;
  coppice_kernel* kernel = nullptr;
  coppice_chain* chain = nullptr;
  coppice_loan* loan = nullptr;
  coppice_driver_function entry = nullptr;
  coppice_planned_bucket planned = {.struct_size = sizeof(planned)};
  DLManagedTensorVersioned* kept = nullptr;
  const DLTensor* const inputs[] = {&x_};
  const coppice_call call = CallOf(inputs);
  const coppice_status statuses[] = {
      coppice_device_open(nullptr, nullptr),
      coppice_device_make_current(nullptr),
      coppice_device_describe(nullptr, nullptr),
      coppice_device_describe(device_, nullptr),
      coppice_device_synchronize(nullptr),
      coppice_memory_allocate(nullptr, 8, &address),
      coppice_memory_allocate(device_, 8, nullptr),
      coppice_memory_free(nullptr, 8),
      coppice_copy_to_device(nullptr, 8, &number, 8, stream_),
      coppice_copy_to_device(device_, 8, nullptr, 8, stream_),
      coppice_copy_to_host(nullptr, &number, 8, 8, stream_),
      coppice_copy_to_host(device_, nullptr, 8, 8, stream_),
      coppice_stream_create(nullptr, &stream),
      coppice_stream_create(device_, nullptr),
      coppice_stream_destroy(nullptr, stream_),
      coppice_stream_synchronize(nullptr, stream_),
      coppice_stream_synchronize(device_, nullptr),
      coppice_package_load(nullptr, "x.zip", nullptr, &package),
      coppice_package_load(device_, nullptr, nullptr, &package),
      coppice_package_load(device_, "x.zip", nullptr, nullptr),
      coppice_package_load_memory(nullptr, "x", 1, "x", nullptr, &package),
      coppice_package_load_memory(device_, nullptr, 1, "x", nullptr, &package),
      coppice_package_manifest(nullptr, &text, &number),
      coppice_package_manifest(package_, nullptr, &number),
      coppice_package_manifest(package_, &text, nullptr),
      coppice_session_create(nullptr, nullptr, &session),
      coppice_session_create(device_, nullptr, nullptr),
      coppice_set_stance(nullptr, 0),
      coppice_set_seed(nullptr, 0),
      coppice_register_package(nullptr, package_, "main", nullptr, &program),
      coppice_register_package(session_, nullptr, "main", nullptr, &program),
      coppice_register_package(session_, package_, nullptr, nullptr, &program),
      coppice_register_package(session_, package_, "main", nullptr, nullptr),
      coppice_register_callable(nullptr, nullptr, nullptr, nullptr, nullptr, &program),
      coppice_register_callable(session_, nullptr, nullptr, nullptr, nullptr, &program),
      coppice_find(nullptr, "main", nullptr, &program),
      coppice_find(session_, nullptr, nullptr, &program),
      coppice_reset(nullptr, program_),
      coppice_reset(session_, nullptr),
      coppice_unregister(session_, nullptr),
      coppice_bind(nullptr, program_, nullptr, 0, &binding),
      coppice_bind(session_, nullptr, nullptr, 0, &binding),
      coppice_bind(session_, program_, nullptr, 1, &binding),
      coppice_unbind(session_, nullptr),
      coppice_run(nullptr, &call, &lease),
      coppice_run(session_, nullptr, &lease),
      coppice_run(session_, &call, nullptr),
      coppice_explain(nullptr, &call, nullptr, 0, &bytes),
      coppice_explain(session_, nullptr, nullptr, 0, &bytes),
      coppice_warm(nullptr, program_, &number, 1, 1, nullptr),
      coppice_warm(session_, nullptr, &number, 1, 1, nullptr),
      coppice_warm(session_, program_, nullptr, 1, 1, nullptr),
      coppice_lease_describe(nullptr, nullptr),
      coppice_lease_read(nullptr, stream_, &scope),
      coppice_read_output(nullptr, 0, nullptr),
      coppice_read_sized_output(nullptr, 0, nullptr),
      coppice_lease_detach(nullptr, stream_, &kept, 1),
      coppice_evict(nullptr, nullptr, nullptr),
      coppice_trim(nullptr),
      coppice_suspend(nullptr, nullptr),
      coppice_resume(nullptr),
      coppice_set_external_bytes(nullptr, 0),
      coppice_stats(nullptr, nullptr),
      coppice_stats(session_, nullptr),
      coppice_memory(session_, nullptr),
      coppice_buckets(nullptr, nullptr, 0, &bytes),
      coppice_session_metrics_text(nullptr, COPPICE_METRICS_PROMETHEUS, nullptr, 0, &bytes),
      coppice_session_metrics_text(session_, -1, nullptr, 0, &bytes),
      coppice_session_metrics_text(session_, 2, nullptr, 0, &bytes),
      coppice_save_profile(nullptr, "x"),
      coppice_save_profile(session_, nullptr),
      coppice_save_case(nullptr, "x", nullptr, 0, COPPICE_CASE_KEEP),
      coppice_save_case(session_, nullptr, nullptr, 0, COPPICE_CASE_KEEP),
      coppice_save_case(session_, "x", nullptr, 0, COPPICE_CASE_SPECIAL + 1),
      coppice_save_case(session_, "x", nullptr, 0, -1),
      coppice_load_profile(nullptr, "x", nullptr, nullptr),
      coppice_load_profile(session_, nullptr, nullptr, nullptr),
      coppice_mark(nullptr, "x"),
      coppice_mark(session_, nullptr),
      coppice_note_request(nullptr, nullptr),
      coppice_note_request(session_, nullptr),
      coppice_flush_trace(nullptr),
      coppice_wait_for_recordings(nullptr),
      coppice_context_describe(nullptr, nullptr),
      coppice_context_extent(nullptr, 0, &number),
      coppice_context_scalar(nullptr, 0, &number),
      coppice_context_input(nullptr, 0, nullptr),
      coppice_context_output(nullptr, 0, nullptr),
      coppice_context_alias_output(nullptr, 0, 0),
      coppice_context_allocate(nullptr, 8, &address),
      coppice_context_allocate_labelled(nullptr, 8, "x", &address),
      coppice_context_free(nullptr, 8),
      coppice_kernels_load(nullptr, "x", 1, &kernels),
      coppice_kernels_load(device_, nullptr, 1, &kernels),
      coppice_kernels_load(device_, "x", 0, &kernels),
      coppice_kernels_load(device_, "x", 1, nullptr),
      coppice_kernel_get(nullptr, "x", &kernel),
      coppice_kernel_describe(nullptr, nullptr),
      coppice_launch(nullptr, nullptr, nullptr, 0, stream_),
      coppice_include(nullptr, &call, &lease),
      coppice_include(session_, nullptr, &lease),
      coppice_include(session_, &call, nullptr),
      coppice_chain_begin(nullptr, 0, &chain),
      coppice_chain_begin(session_, 0, nullptr),
      coppice_warm_steps(nullptr, nullptr, 0, nullptr),
      coppice_warm_steps(session_, nullptr, 1, nullptr),
      coppice_plan(nullptr, program_, &number, 1, 1, nullptr, 0, &planned),
      coppice_plan(session_, nullptr, &number, 1, 1, nullptr, 0, &planned),
      coppice_plan(session_, program_, nullptr, 1, 1, nullptr, 0, &planned),
      coppice_plan(session_, program_, &number, 1, 1, nullptr, 1, &planned),
      coppice_plan(session_, program_, &number, 1, 1, nullptr, 0, nullptr),
      coppice_lease_release_after(nullptr, stream_),
      coppice_lease_split(nullptr, &lease, 1),
      coppice_read_count(nullptr, 0, nullptr),
      coppice_dump(nullptr, 0, 1, nullptr, 0, &bytes),
      coppice_driver_entry(nullptr, "cuInit", &entry),
      coppice_driver_entry(device_, nullptr, &entry),
      coppice_driver_entry(device_, "cuInit", nullptr),
      coppice_external_allocator_stats(nullptr),
      coppice_context_add_graph(nullptr, stream_),
      coppice_policy_buckets(nullptr, &number, 1, &number),
      coppice_learn_policy(nullptr, nullptr, 1, nullptr, nullptr, 0, &bytes),
      coppice_joint_policy_buckets(nullptr, &number, 1, &number),
      coppice_device_finding_count(nullptr, &number),
      coppice_device_finding_count(device_, nullptr),
      coppice_device_findings_since(nullptr, 0, nullptr, 0, &bytes),
      coppice_device_reset(nullptr),
      coppice_context_offsets(nullptr, 0, nullptr),
      coppice_context_break(nullptr, nullptr, nullptr, nullptr),
      coppice_lend(nullptr, 0, &address, &number, &loan),
      coppice_lend(session_, 0, &address, &number, nullptr),
      coppice_loan_return(nullptr, stream_),
      coppice_scrub(nullptr, 0, stream_),
      coppice_scrub(session_, 0, nullptr),
  };
  for (size_t i = 0; i < std::size(statuses); ++i)
    EXPECT_EQ(statuses[i], COPPICE_INVALID_ARGUMENT) << "number " << i;
  EXPECT_NE(LastError(), "");
}

TEST_F(MisuseTest, AStructWithoutItsSizeIsAnError) {
  const DLTensor* const inputs[] = {&x_};
  coppice_call call = CallOf(inputs);
  for (const uint32_t size : {0U, 3U, 1U << 20}) {
    call.struct_size = size;
    EXPECT_C_ERROR(COPPICE_INVALID_ARGUMENT, "sizeof(coppice_call)", Run(call));
  }
  coppice_view view = {};
  view.struct_size = sizeof(view) - 1;
  coppice_lease* lease = nullptr;
  call.struct_size = sizeof(call);
  ASSERT_C_OK(coppice_run(session_, &call, &lease));
  coppice_read* scope = nullptr;
  ASSERT_C_OK(coppice_lease_read(lease, stream_, &scope));
  EXPECT_C_ERROR(COPPICE_INVALID_ARGUMENT, "sizeof(coppice_view)",
                 coppice_read_output(scope, 0, &view));
  view.struct_size = sizeof(view);
  for (const int32_t output : {-1, 1, 1 << 30})
    EXPECT_C_ERROR(COPPICE_INVALID_ARGUMENT, "the lease has only 1",
                   coppice_read_output(scope, output, &view));
  coppice_read_end(scope);
  coppice_lease_release(lease);
}

TEST_F(MisuseTest, AShorterStructHasDefaultsAndALongerOneIsReadAsFarAsItIsKnown) {
  // What a caller has whose header knows more.
  struct Longer {
    coppice_session_options known;
    char more[64];
  };
  Longer longer = {};
  std::fill(std::begin(longer.more), std::end(longer.more), '\x7f');
  longer.known.struct_size = sizeof(longer);
  longer.known.stance = COPPICE_STANCE_STRICT;
  coppice_session* session = nullptr;
  ASSERT_C_OK(coppice_session_create(device_, &longer.known, &session));
  coppice_session_release(session);
  // One whose header ended behind `stance`: the rest is not read.
  coppice_session_options shorter = {};
  shorter.struct_size = offsetof(coppice_session_options, lanes);
  shorter.lanes = -7;
  shorter.trace_path = "no/such/folder/trace";
  ASSERT_C_OK(coppice_session_create(device_, &shorter, &session));
  coppice_session_release(session);
  struct LongerStats {
    coppice_session_stats known;
    int64_t more[4];
  };
  LongerStats stats = {};
  stats.known.struct_size = sizeof(stats);
  stats.more[0] = 77;
  ASSERT_C_OK(coppice_stats(session_, &stats.known));
  EXPECT_EQ(stats.known.struct_size, sizeof(stats));
  EXPECT_EQ(stats.more[0], 0) << "what the library does not know is 0";
  coppice_session_stats few = {};
  few.struct_size = offsetof(coppice_session_stats, runs);
  few.runs[0] = 77;
  ASSERT_C_OK(coppice_stats(session_, &few));
  EXPECT_EQ(few.runs[0], 77) << "beyond the caller's struct";
}

TEST_F(MisuseTest, TensorsThatCannotBeAreRefused) {
  DLTensor x = x_;
  x.device = {kDLCPU, 0};
  EXPECT_C_ERROR(COPPICE_INVALID_ARGUMENT, "input 0: is on device 0 of type 1", RunWith(x));
  x = x_;
  for (const int32_t rank : {-1, 9, 1 << 30}) {
    x.ndim = rank;
    EXPECT_C_ERROR(COPPICE_INVALID_ARGUMENT, "axes", RunWith(x));
  }
  x = x_;
  x.shape = nullptr;
  EXPECT_C_ERROR(COPPICE_INVALID_ARGUMENT, "shape is null", RunWith(x));
  x = x_;
  x.dtype = {kDLFloat, 32, 4};
  EXPECT_C_ERROR(COPPICE_INVALID_ARGUMENT, "coppice has no dtype", RunWith(x));
  x.dtype = {kDLFloat4_e2m1fn, 4, 1};
  EXPECT_C_ERROR(COPPICE_INVALID_ARGUMENT, "coppice has no dtype", RunWith(x));
  x = x_;
  x.byte_offset = std::numeric_limits<uint64_t>::max();
  EXPECT_C_ERROR(COPPICE_INVALID_ARGUMENT, "byte_offset", RunWith(x));
  x = x_;
  x.data = nullptr;
  EXPECT_C_ERROR(COPPICE_INVALID_ARGUMENT, "", RunWith(x));
}

TEST_F(MisuseTest, SizesAndStridesOfAnyNumberAreRefusedOrRun) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  for (const int64_t size : {int64_t{-1}, -kMost, kMost, int64_t{1} << 40, int64_t{0}}) {
    for (const int64_t stride : {int64_t{-1}, -kMost, kMost, int64_t{1} << 60, int64_t{1} << 50}) {
      int64_t shape[] = {size};
      int64_t strides[] = {stride};
      DLTensor x = x_;
      x.shape = shape;
      x.strides = strides;
      EXPECT_NE(RunWith(x), COPPICE_OK) << size << " " << stride;
      EXPECT_NE(LastError(), "");
    }
  }
  int64_t shape[] = {3, kMost, 2};
  DLTensor x = x_;
  x.ndim = 3;
  x.shape = shape;
  EXPECT_C_ERROR(COPPICE_INVALID_ARGUMENT, "address space", RunWith(x));
}

TEST_F(MisuseTest, NumbersOfACallThatAreNoneAreRefused) {
  const DLTensor* const inputs[] = {&x_};
  const coppice_call good = CallOf(inputs);
  coppice_call call = good;
  for (const int32_t lane : {-1, 1, std::numeric_limits<int32_t>::max()}) {
    call = good;
    call.lane = lane;
    EXPECT_C_ERROR(COPPICE_INVALID_ARGUMENT, "lane", Run(call));
  }
  for (const int32_t number : {-1, 4, 1 << 30}) {
    call = good;
    call.output_mode = number;
    EXPECT_C_ERROR(COPPICE_INVALID_ARGUMENT, "output_mode", Run(call));
    call = good;
    call.poison = number;
    EXPECT_C_ERROR(COPPICE_INVALID_ARGUMENT, "poison", Run(call));
  }
  for (const int64_t count : {int64_t{-1}, std::numeric_limits<int64_t>::max(), int64_t{2}}) {
    call = good;
    call.scalar_count = count;
    EXPECT_C_ERROR(COPPICE_INVALID_ARGUMENT, "scalars", Run(call));
    call = good;
    call.extent_count = count;
    EXPECT_C_ERROR(COPPICE_INVALID_ARGUMENT, "extents", Run(call));
    call = good;
    call.count_count = count;
    EXPECT_C_ERROR(COPPICE_INVALID_ARGUMENT, "counts", Run(call));
    call = good;
    call.donated_count = count;
    EXPECT_C_ERROR(COPPICE_INVALID_ARGUMENT, "donated", Run(call));
  }
  call = good;
  coppice_lease* const no_lease = nullptr;
  call.donated = &no_lease;
  call.donated_count = 1;
  EXPECT_C_ERROR(COPPICE_INVALID_ARGUMENT, "donated: an element", Run(call));
  call = good;
  call.input_count = -1;
  EXPECT_C_ERROR(COPPICE_INVALID_ARGUMENT, "input", Run(call));
  const DLTensor* const none[] = {nullptr};
  call = CallOf(none);
  EXPECT_C_ERROR(COPPICE_INVALID_ARGUMENT, "input 0: null", Run(call));
  call = good;
  call.stream = nullptr;
  EXPECT_NE(Run(call), COPPICE_OK);
}

TEST_F(MisuseTest, HandlesOfAnotherSessionAreRefused) {
  coppice_session* other = nullptr;
  ASSERT_C_OK(coppice_session_create(device_, nullptr, &other));
  const DLTensor* const inputs[] = {&x_};
  const coppice_call call = CallOf(inputs);
  coppice_lease* lease = nullptr;
  EXPECT_C_ERROR(COPPICE_INVALID_ARGUMENT, "another session", coppice_run(other, &call, &lease));
  EXPECT_C_ERROR(COPPICE_INVALID_ARGUMENT, "another session", coppice_reset(other, program_));
  EXPECT_C_ERROR(COPPICE_INVALID_ARGUMENT, "another session",
                 coppice_evict(other, program_, nullptr));
  coppice_session_release(other);
}

TEST_F(MisuseTest, WarmRefusesWhatIsNoBucket) {
  const int64_t buckets[] = {100, -1};
  for (const int64_t symbols : {int64_t{-1}, int64_t{0}, int64_t{2}, int64_t{9}})
    EXPECT_C_ERROR(COPPICE_INVALID_ARGUMENT, "",
                   coppice_warm(session_, program_, buckets, 1, symbols, nullptr));
  EXPECT_C_ERROR(COPPICE_INVALID_ARGUMENT, "",
                 coppice_warm(session_, program_, buckets, 2, 1, nullptr));
  EXPECT_C_ERROR(COPPICE_INVALID_ARGUMENT, "buckets",
                 coppice_warm(session_, program_, buckets, -1, 1, nullptr));
  coppice_warm_options options = {.struct_size = sizeof(options)};
  options.lane = 3;
  EXPECT_C_ERROR(COPPICE_INVALID_ARGUMENT, "lane 3",
                 coppice_warm(session_, program_, buckets, 1, 1, &options));
}

TEST_F(MisuseTest, StepsAndPlansThatCannotBe) {
  const int64_t bucket = 128;
  coppice_feed feed = {.struct_size = sizeof(feed)};
  coppice_warm_step step = {.struct_size = sizeof(step)};
  step.program = program_;
  step.bucket = &bucket;
  step.symbol_count = 1;
  step.feeds = &feed;
  step.feed_count = 1;
  EXPECT_C_ERROR(COPPICE_INVALID_ARGUMENT, "", coppice_warm_steps(session_, &step, 1, nullptr));
  feed.output = -1;
  EXPECT_C_ERROR(COPPICE_INVALID_ARGUMENT, "feeds: input 0, step 0, output -1",
                 coppice_warm_steps(session_, &step, 1, nullptr));
  step.feed_count = -1;
  EXPECT_C_ERROR(COPPICE_INVALID_ARGUMENT, "coppice_feed",
                 coppice_warm_steps(session_, &step, 1, nullptr));
  step.feed_count = 0;
  for (const int64_t symbols : {int64_t{-1}, int64_t{9}}) {
    step.symbol_count = symbols;
    EXPECT_C_ERROR(COPPICE_INVALID_ARGUMENT,
                   "bucket: ", coppice_warm_steps(session_, &step, 1, nullptr));
  }
  step.struct_size = 0;
  EXPECT_C_ERROR(COPPICE_INVALID_ARGUMENT, "sizeof(coppice_warm_step)",
                 coppice_warm_steps(session_, &step, 1, nullptr));
  coppice_planned_bucket planned[2] = {};
  EXPECT_C_ERROR(COPPICE_INVALID_ARGUMENT, "sizeof(coppice_planned_bucket)",
                 coppice_plan(session_, program_, &bucket, 1, 1, nullptr, 0, planned));
  planned[0].struct_size = sizeof(planned[0]);
  EXPECT_C_ERROR(COPPICE_INVALID_ARGUMENT, "",
                 coppice_plan(session_, program_, &bucket, 1, 0, nullptr, 0, planned));
  for (const int64_t symbols : {int64_t{-1}, int64_t{9}})
    EXPECT_C_ERROR(COPPICE_INVALID_ARGUMENT, "symbols",
                   coppice_plan(session_, program_, &bucket, 1, symbols, nullptr, 0, planned));
  const int64_t buckets[] = {64, 128};
  EXPECT_C_ERROR(COPPICE_INVALID_ARGUMENT, "struct_size",
                 coppice_plan(session_, program_, buckets, 2, 1, nullptr, 0, planned));
  coppice_chain* chain = nullptr;
  for (const int32_t lane : {-1, 1})
    EXPECT_C_ERROR(COPPICE_INVALID_ARGUMENT, "lane", coppice_chain_begin(session_, lane, &chain));
  coppice_driver_function entry = nullptr;
  EXPECT_C_ERROR(COPPICE_NOT_FOUND, "cuNothing",
                 coppice_driver_entry(device_, "cuNothing", &entry));
}

TEST_F(MisuseTest, OptionsOfADeviceAndASessionThatCannotBe) {
  coppice_device* device = nullptr;
  coppice_device_options options = {.struct_size = sizeof(options)};
  options.kind = COPPICE_DEVICE_EMULATOR;
  EXPECT_C_ERROR(COPPICE_FAILED_PRECONDITION, "emulator", coppice_device_open(&options, &device));
  options.kind = 17;
  EXPECT_C_ERROR(COPPICE_INVALID_ARGUMENT, "kind 17", coppice_device_open(&options, &device));
  EXPECT_EQ(device, nullptr);
  coppice_session* session = nullptr;
  coppice_session_options given = {.struct_size = sizeof(given)};
  given.lanes = -1;
  EXPECT_C_ERROR(COPPICE_INVALID_ARGUMENT, "lanes",
                 coppice_session_create(device_, &given, &session));
  given.lanes = 0;
  given.budget_bytes = -5;
  EXPECT_C_ERROR(COPPICE_INVALID_ARGUMENT, "", coppice_session_create(device_, &given, &session));
  given.budget_bytes = 0;
  given.variant_timing = 3;
  EXPECT_C_ERROR(COPPICE_INVALID_ARGUMENT, "variant_timing",
                 coppice_session_create(device_, &given, &session));
  given.variant_timing = COPPICE_VARIANTS_NEVER;
  given.on_limit = 9;
  EXPECT_C_ERROR(COPPICE_INVALID_ARGUMENT, "on_limit",
                 coppice_session_create(device_, &given, &session));
  EXPECT_EQ(session, nullptr);
  EXPECT_C_ERROR(COPPICE_INVALID_ARGUMENT, "stance", coppice_set_stance(session_, 4));
}

TEST_F(MisuseTest, MemoryAndStreamsThatAreNotOnesOwn) {
  uint64_t address = 0;
  EXPECT_C_ERROR(COPPICE_INVALID_ARGUMENT, "0 bytes",
                 coppice_memory_allocate(device_, 0, &address));
  EXPECT_C_ERROR(COPPICE_RESOURCE_EXHAUSTED, "",
                 coppice_memory_allocate(device_, int64_t{1} << 50, &address));
  EXPECT_C_ERROR(COPPICE_INVALID_ARGUMENT, "coppice_memory_allocate",
                 coppice_memory_free(device_, 4096));
  EXPECT_C_ERROR(COPPICE_INVALID_ARGUMENT, "coppice_stream_create",
                 coppice_stream_destroy(device_, &address));
  EXPECT_C_ERROR(COPPICE_INVALID_ARGUMENT, "-1 bytes",
                 coppice_copy_to_host(device_, &address, 4096, -1, stream_));
}

TEST_F(MisuseTest, PoliciesAndClaimsThatSayNothingAreRefused) {
  coppice_policy policy = {.struct_size = sizeof(policy)};
  policy.symbol = "n";
  coppice_package_program_options options = {.struct_size = sizeof(options)};
  options.variant = "other";
  options.policies = &policy;
  options.policy_count = 1;
  coppice_program* program = nullptr;
  struct Case {
    const char* text;
    const char* part;
    coppice_status status;
  };
  for (const Case& one :
       {Case{"pow2", "maximum", COPPICE_INVALID_ARGUMENT},
        Case{"{", "JSON cannot continue", COPPICE_INVALID_ARGUMENT},
        Case{R"({"version": 2, "buckets": [1]})", "version 2", COPPICE_UNIMPLEMENTED}}) {
    policy.text = one.text;
    EXPECT_C_ERROR(one.status, one.part,
                   coppice_register_package(session_, package_, "main", &options, &program))
        << one.text;
    EXPECT_EQ(program, nullptr);
  }
  options.policies = nullptr;
  options.policy_count = 0;
  for (const int32_t exact : {-1, 3}) {
    options.exact = exact;
    EXPECT_C_ERROR(COPPICE_INVALID_ARGUMENT, "exact",
                   coppice_register_package(session_, package_, "main", &options, &program));
  }
  options.exact = COPPICE_EXACT_NEVER;
  coppice_claim claim = {.struct_size = sizeof(claim)};
  claim.symbol = "n";
  claim.padding = 9;
  options.claims = &claim;
  options.claim_count = 1;
  EXPECT_C_ERROR(COPPICE_INVALID_ARGUMENT, "padding",
                 coppice_register_package(session_, package_, "main", &options, &program));
}

TEST_F(MisuseTest, FilesThatAreNoPackages) {
  coppice_package* package = nullptr;
  EXPECT_C_ERROR(COPPICE_NOT_FOUND, "no_such_file",
                 coppice_package_load(device_, "no_such_file.zip", nullptr, &package));
  EXPECT_C_ERROR(COPPICE_INVALID_ARGUMENT, "bytes.zip",
                 coppice_package_load_memory(device_, "PK", 2, "bytes.zip", nullptr, &package));
  coppice_package_options options = {.struct_size = sizeof(options)};
  options.trusted_key_count = 1;
  EXPECT_C_ERROR(COPPICE_INVALID_ARGUMENT, "trusted_keys",
                 coppice_package_load(device_, "x.zip", &options, &package));
  EXPECT_EQ(package, nullptr);
}

TEST_F(MisuseTest, AMessageIsCutOffToFitAndIsTheThreadsOwn) {
  EXPECT_EQ(coppice_trim(nullptr), COPPICE_INVALID_ARGUMENT);
  const std::string whole = LastError();
  char few[8] = {};
  EXPECT_EQ(coppice_last_error(few, sizeof(few)), whole.size());
  EXPECT_EQ(std::string(few), whole.substr(0, 7));
  char none = 'x';
  EXPECT_EQ(coppice_last_error(&none, 0), whole.size());
  EXPECT_EQ(none, 'x');
  std::thread([] { EXPECT_EQ(LastError(), ""); }).join();
  EXPECT_EQ(LastError(), whole);
}

TEST_F(MisuseTest, AThreadNeedsNoContext) {
  std::thread([&] {
    uint64_t address = 0;
    EXPECT_C_OK(coppice_memory_allocate(device_, 8, &address));
    EXPECT_C_OK(coppice_memory_free(device_, address));
  }).join();
}

}  // namespace
}  // namespace coppice
