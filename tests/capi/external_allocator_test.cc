// Goal: the allocator for other libraries is as coppice.h says, in runs and elsewhere.
// Method: callables whose temporaries come from it, on the emulator, beside such as ask their
// context; blocks that are left, freed late, freed elsewhere; counts of each.

#include "coppice/coppice.h"

#include "tests/capi/callable_fixture.h"

namespace coppice {
namespace {

class ExternalAllocatorTest : public CallableFixture {
 protected:
  void SetUp() override {
    CallableFixture::SetUp();
    LoadKernels();
    before_ = Stats();
  }
  void TearDown() override {
    EXPECT_C_OK(coppice_external_allocator_use(nullptr));
    CallableFixture::TearDown();
  }

  static coppice_external_stats Stats() {
    coppice_external_stats stats = {.struct_size = sizeof(stats)};
    EXPECT_C_OK(coppice_external_allocator_stats(&stats));
    return stats;
  }
  // Since the test began: blocks of runs, of these left, blocks of the device, late frees.
  std::vector<int64_t> Counts() const {
    const coppice_external_stats now = Stats();
    return {now.run_blocks - before_.run_blocks, now.left_blocks - before_.left_blocks,
            now.device_blocks - before_.device_blocks, now.late_frees - before_.late_frees};
  }

  using Allocate = std::function<uint64_t(coppice_context* context, int64_t bytes)>;
  using Free = std::function<void(coppice_context* context, uint64_t block)>;
  static uint64_t External(coppice_context* context, int64_t bytes) {
    return reinterpret_cast<uint64_t>(coppice_external_allocate(bytes, 0, InfoOf(context).stream));
  }
  static void FreeExternal(coppice_context*, uint64_t block) {
    coppice_external_free(reinterpret_cast<void*>(block), 0, 0, nullptr);
  }

  // y = 64 * x by temporaries, each of which is freed when the next was written.
  coppice_program* RegisterPowers(const char* name,
                                  const Allocate& allocate,
                                  const Free& free,
                                  const Adjust& adjust = {}) {
    const Body body = [this, allocate, free](coppice_context* context) -> coppice_status {
      const uint32_t n = ExtentOf(context);
      void* const stream = InfoOf(context).stream;
      uint64_t from = InputOf(context);
      for (int i = 0; i < 5; ++i) {
        const uint64_t to = allocate(context, int64_t{4} * n);
        if (to == 0) return COPPICE_RESOURCE_EXHAUSTED;
        EXPECT_C_OK(LaunchScale(from, to, n, 2, stream));
        if (i > 0) free(context, from);
        from = to;
      }
      const coppice_status last = LaunchScale(from, OutputOf(context), n, 2, stream);
      free(context, from);
      return last;
    };
    return RegisterBody(name, body, {"y"}, adjust);
  }

  coppice_external_stats before_ = {};
};

TEST_F(ExternalAllocatorTest, BlocksOfARunArePlannedAsTemporariesOfItsContext) {
  coppice_program* const external = RegisterPowers("external", &External, &FreeExternal);
  coppice_program* const own = RegisterPowers(
      "own",
      [](coppice_context* context, int64_t bytes) {
        uint64_t address = 0;
        EXPECT_C_OK(coppice_context_allocate(context, bytes, &address));
        return address;
      },
      [](coppice_context* context, uint64_t block) {
        EXPECT_C_OK(coppice_context_free(context, block));
      });
  for (coppice_program* const program : {external, own}) {
    program_ = program;
    for (const int32_t kind : {COPPICE_RUN_WARM_UP, COPPICE_RUN_RECORD, COPPICE_RUN_REPLAY}) {
      int32_t ran = -1;
      EXPECT_EQ(RunOn(Ramp(200), &ran), Ramp(200, 64));
      EXPECT_EQ(ran, kind);
    }
  }
  const nlohmann::json buckets = Buckets();
  ASSERT_EQ(buckets.size(), 2U);
  EXPECT_EQ(buckets[0]["plan_height"], buckets[1]["plan_height"]);
  EXPECT_LE(buckets[0]["plan_height"], 3 * 1024) << "of six buffers three live at once";
  program_ = external;
  EXPECT_EQ(RunOn(Ramp(300)), Ramp(300, 64)) << "without a graph";
  EXPECT_EQ(Counts(), (std::vector<int64_t>{15, 0, 0, 0}));
}

TEST_F(ExternalAllocatorTest, ABlockThatIsLeftLivesToTheEndOfTheRunAndIsFreedLateByAnybody) {
  std::vector<uint64_t> left;
  program_ = RegisterPowers("left", &External,
                            [&](coppice_context*, uint64_t block) { left.push_back(block); });
  for (int i = 0; i < 4; ++i)
    EXPECT_EQ(RunOn(Ramp(200)), Ramp(200, 64));
  EXPECT_GE(Buckets()[0]["plan_height"], 6 * 1024) << "no two share bytes";
  EXPECT_EQ(Counts(), (std::vector<int64_t>{10, 10, 0, 0}));
  for (const uint64_t block : left)
    FreeExternal(nullptr, block);
  std::thread([&] { FreeExternal(nullptr, left[0]); }).join();
  EXPECT_EQ(Counts(), (std::vector<int64_t>{10, 10, 0, 11}));
  EXPECT_EQ(RunOn(Ramp(200)), Ramp(200, 64));
}

TEST_F(ExternalAllocatorTest, AFreeOnAnotherThreadThanTheRunsIsLate) {
  program_ = RegisterPowers("elsewhere", &External, [](coppice_context* context, uint64_t block) {
    std::thread([&] { FreeExternal(context, block); }).join();
  });
  EXPECT_EQ(RunOn(Ramp(200)), Ramp(200, 64));
  EXPECT_EQ(Counts(), (std::vector<int64_t>{5, 5, 0, 5}));
}

TEST_F(ExternalAllocatorTest, BlocksOfAnotherDeviceOrOfNoSizeAreNone) {
  program_ = RegisterBody("none", [this](coppice_context* context) {
    EXPECT_EQ(coppice_external_allocate(8, 1, nullptr), nullptr);
    EXPECT_THAT(LastError(),
                HasSubstr("memory of device 1 was requested, but coppice allocates on device 0"));
    EXPECT_EQ(coppice_external_allocate(0, 0, nullptr), nullptr);
    EXPECT_EQ(coppice_external_allocate(-1, 0, nullptr), nullptr);
    return ScaleInput(context, 2);
  });
  EXPECT_EQ(RunOn(Ramp(20)), Ramp(20, 2));
  EXPECT_EQ(coppice_external_allocate(8, 0, nullptr), nullptr);
  EXPECT_THAT(LastError(), HasSubstr("no device is set"));
  ASSERT_C_OK(coppice_external_allocator_use(device_));
  EXPECT_EQ(coppice_external_allocate(8, 1, nullptr), nullptr);
  EXPECT_THAT(LastError(),
              HasSubstr("memory of device 1 was requested, but coppice allocates on device 0"));
  EXPECT_EQ(coppice_external_allocate(int64_t{1} << 50, 0, nullptr), nullptr);
  EXPECT_EQ(Counts(), (std::vector<int64_t>{0, 0, 0, 0}));
}

TEST_F(ExternalAllocatorTest, ElsewhereABlockIsOfTheDeviceThatWasNamed) {
  ASSERT_C_OK(coppice_external_allocator_use(device_));
  const DLTensor x = Upload(Ramp(200));
  uint64_t block = 0;
  std::thread([&] {
    block = reinterpret_cast<uint64_t>(coppice_external_allocate(800, 0, stream_));
  }).join();
  ASSERT_NE(block, 0U);
  ASSERT_C_OK(LaunchScale(AddressOf(x), block, 200, 2, stream_));
  DLTensor y = x;
  y.data = reinterpret_cast<void*>(block);
  EXPECT_EQ(Download(y), Ramp(200, 2));
  EXPECT_C_ERROR(COPPICE_INVALID_ARGUMENT, "", coppice_memory_free(device_, block));
  ASSERT_C_OK(coppice_external_allocator_use(nullptr));
  FreeExternal(nullptr, block);
  EXPECT_EQ(Counts(), (std::vector<int64_t>{0, 0, 1, 0}));
  FreeExternal(nullptr, block);
  EXPECT_EQ(Counts(), (std::vector<int64_t>{0, 0, 1, 1}));
}

TEST_F(ExternalAllocatorTest, ABlockKeepsItsDevice) {
  ASSERT_C_OK(coppice_external_allocator_use(device_));
  void* const block = coppice_external_allocate(800, 0, stream_);
  ASSERT_NE(block, nullptr);
  ASSERT_C_OK(coppice_external_allocator_use(nullptr));
  coppice_kernels_release(kernels_);
  kernels_ = nullptr;
  coppice_device_release(device_);
  coppice_device_options options = {.struct_size = sizeof(options)};
  options.kind = COPPICE_DEVICE_EMULATOR;
  coppice_device* second = nullptr;
  EXPECT_C_ERROR(COPPICE_FAILED_PRECONDITION, "emulator", coppice_device_open(&options, &second));
  coppice_external_free(block, 800, 0, stream_);
  ASSERT_C_OK(coppice_device_open(&options, &device_));
}

TEST_F(ExternalAllocatorTest, ThreadsHaveRunsKernelsAndBlocksOfTheirOwn) {
  coppice_session_options options = {.struct_size = sizeof(options)};
  options.lanes = 2;
  options.record_in_background = 1;
  ASSERT_C_OK(coppice_session_create(device_, &options, &session_));
  ASSERT_C_OK(coppice_external_allocator_use(device_));
  program_ = RegisterPowers("shared", &External, &FreeExternal,
                            [](Spec& spec) { spec.program.thread_safe = 1; });
  const DLTensor x = Upload(Ramp(200));
  std::vector<std::thread> threads;
  for (int32_t lane : {0, 1, 0, 1}) {
    threads.emplace_back([&, lane] {
      ASSERT_C_OK(coppice_device_make_current(device_));
      void* stream = nullptr;
      ASSERT_C_OK(coppice_stream_create(device_, &stream));
      for (int i = 0; i < 20; ++i) {
        coppice_lease* const lease = LeaseOf(program_, x, [&](coppice_call& call) {
          call.stream = stream;
          call.lane = lane;
        });
        void* const block = coppice_external_allocate(800, 0, stream);
        EXPECT_C_OK(LaunchScale(AddressOf(x), reinterpret_cast<uint64_t>(block), 200, 2, stream));
        EXPECT_C_OK(coppice_stream_synchronize(device_, stream));
        coppice_external_free(block, 800, 0, stream);
        coppice_lease_release(lease);
      }
    });
  }
  for (std::thread& thread : threads)
    thread.join();
  EXPECT_C_OK(coppice_wait_for_recordings(session_));
  EXPECT_EQ(Counts()[1], 0);
  EXPECT_EQ(Counts()[2], 80);
  EXPECT_EQ(Counts()[3], 0);
  EXPECT_EQ(RunOn(Ramp(200)), Ramp(200, 64));
}

TEST_F(ExternalAllocatorTest, AFunctionOfAStepIsNoRun) {
  std::string said;
  RegisterFunction(
      "twice", COPPICE_LAUNCHES,
      [](void* user, const coppice_function_call*) -> coppice_status {
        EXPECT_EQ(coppice_external_allocate(8, 0, nullptr), nullptr);
        *static_cast<std::string*>(user) = LastError();
        return COPPICE_ABORTED;
      },
      &said);
  EXPECT_C_ERROR(COPPICE_ABORTED, "", Refused(Upload(Ramp(10))));
  EXPECT_THAT(said, HasSubstr("no device is set"));
}

TEST_F(ExternalAllocatorTest, ARunThatFreesOtherwiseThanItsWarmUpDidIsNotRecorded) {
  int runs = 0;
  program_ = RegisterBody("fickle", [&](coppice_context* context) -> coppice_status {
    const int64_t bytes = int64_t{4} * ExtentOf(context);
    const uint64_t first = External(context, bytes);
    const uint64_t second = External(context, bytes);
    FreeExternal(context, ++runs % 2 == 0 ? second : first);
    FreeExternal(context, runs % 2 == 0 ? first : second);
    return ScaleInput(context, 2);
  });
  int32_t ran = -1;
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(RunOn(Ramp(20), &ran), Ramp(20, 2));
    EXPECT_NE(ran, COPPICE_RUN_REPLAY);
  }
  EXPECT_NE(ran, COPPICE_RUN_RECORD);
}

}  // namespace
}  // namespace coppice
