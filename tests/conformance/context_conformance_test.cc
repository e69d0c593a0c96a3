// Goal: driver, device and context behave as CUDA documents: what they report, refuse and count.
// Method: one small test per documented rule, on every driver. Cases after which the process has no
// context end a child process.

#include "tests/conformance/child_process.h"
#include "tests/conformance/conformance_fixture.h"

namespace coppice {
namespace {

// A driver that nobody has initialised.

class InitConformanceTest : public ConformanceTest {
 protected:
  void SetUp() override {
    if (GetParam().kind == DriverKind::kCuda)
      GTEST_SKIP() << "the process has initialised CUDA to see whether there is a device";
    OpenDriver();
  }
};
COPPICE_CONFORMANCE_SUITE(InitConformanceTest);

TEST_P(InitConformanceTest, NothingWorksBeforeInit) {
  int count = 0;
  CuDevice device = 0;
  DeviceAddress address = 0;
  CuStream stream = nullptr;
  CuContext current = nullptr;
  EXPECT_CU(kNotInitialized, cu.DeviceGetCount(&count));
  EXPECT_CU(kNotInitialized, cu.DeviceGet(&device, 0));
  EXPECT_CU(kNotInitialized, cu.CtxGetCurrent(&current));
  EXPECT_CU(kNotInitialized, cu.DevicePrimaryCtxRetain(&current, 0));
  EXPECT_CU(kNotInitialized, cu.MemAlloc(&address, 1));
  EXPECT_CU(kNotInitialized, cu.StreamCreate(&stream, 0));
  EXPECT_CU(kSuccess, cu.Init(0));
  EXPECT_CU(kSuccess, cu.DeviceGetCount(&count));
}

// The driver and the device: the documentation of each call names these results.

class DeviceConformanceTest : public ConformanceTest {};
COPPICE_CONFORMANCE_SUITE(DeviceConformanceTest);

TEST_P(DeviceConformanceTest, InitTakesNoFlags) {
  EXPECT_CU(kInvalidValue, cu.Init(1));
}

TEST_P(DeviceConformanceTest, ErrorNamesAreCudasAndUnknownErrorsHaveNone) {
  const char* name = nullptr;
  EXPECT_CU(kSuccess, cu.GetErrorName(CuResult::kIllegalAddress, &name));
  EXPECT_STREQ(name, "CUDA_ERROR_ILLEGAL_ADDRESS");
  EXPECT_CU(kInvalidValue, cu.GetErrorName(static_cast<CuResult>(123456), &name));
  EXPECT_EQ(name, nullptr);
}

TEST_P(DeviceConformanceTest, OrdinalsOutsideTheCountAreInvalidDevices) {
  int count = 0;
  ASSERT_CU(kSuccess, cu.DeviceGetCount(&count));
  CuDevice device = 0;
  EXPECT_CU(kSuccess, cu.DeviceGet(&device, count - 1));
  EXPECT_CU(kInvalidDevice, cu.DeviceGet(&device, count));
  EXPECT_CU(kInvalidDevice, cu.DeviceGet(&device, -1));
}

TEST_P(DeviceConformanceTest, DeviceNameIsCutToTheCapacity) {
  char name[4] = {'x', 'x', 'x', 'x'};
  ASSERT_CU(kSuccess, cu.DeviceGetName(name, 3, 0));
  EXPECT_EQ(std::string(name).size(), 2U);
  EXPECT_EQ(name[3], 'x');
}

TEST_P(DeviceConformanceTest, ReportsWhatCoppiceNeedsOfADevice) {
  int value = 0;
  ASSERT_CU(kSuccess,
            cu.DeviceGetAttribute(&value, CuDeviceAttribute::kVirtualMemoryManagementSupported, 0));
  EXPECT_EQ(value, 1);
  ASSERT_CU(kSuccess, cu.DriverGetVersion(&value));
  EXPECT_GE(value, 12030);
}

TEST_P(DeviceConformanceTest, EveryResultThatCoppiceNamesHasItsCudaName) {
  for (const int result :
       {0,   1,   2,   3,   4,   34,  100, 101, 200, 201, 209, 400, 401, 402, 500, 600, 700,
        701, 719, 800, 801, 900, 901, 902, 903, 904, 905, 906, 907, 908, 909, 910, 999}) {
    const char* name = nullptr;
    EXPECT_CU(kSuccess, cu.GetErrorName(static_cast<CuResult>(result), &name)) << result;
    EXPECT_EQ(name, NameOf(static_cast<CuResult>(result)));
  }
}

TEST_P(DeviceConformanceTest, EveryAnswerNeedsAPlaceToGo) {
  EXPECT_CU(kInvalidValue, cu.GetErrorName(CuResult::kSuccess, nullptr));
  EXPECT_CU(kInvalidValue, cu.DriverGetVersion(nullptr));
  EXPECT_CU(kInvalidValue, cu.DeviceGetCount(nullptr));
  EXPECT_CU(kInvalidValue, cu.DeviceGet(nullptr, 0));
  EXPECT_CU(kInvalidValue, cu.DeviceTotalMem(nullptr, 0));
  EXPECT_CU(kInvalidValue,
            cu.DeviceGetAttribute(nullptr, CuDeviceAttribute::kMultiprocessorCount, 0));
}

TEST_P(DeviceConformanceTest, UnknownAttributesAreRefused) {
  int value = 0;
  EXPECT_CU(kInvalidValue,
            cu.DeviceGetAttribute(&value, static_cast<CuDeviceAttribute>(100000), 0));
}

TEST_P(DeviceConformanceTest, QueriesOfADeviceThatIsNotThereAreInvalidDevices) {
  int count = 0;
  ASSERT_CU(kSuccess, cu.DeviceGetCount(&count));
  int value = 0;
  size_t bytes = 0;
  char name[8] = {};
  EXPECT_CU(kInvalidDevice,
            cu.DeviceGetAttribute(&value, CuDeviceAttribute::kMultiprocessorCount, count));
  EXPECT_CU(kInvalidDevice, cu.DeviceTotalMem(&bytes, count));
  EXPECT_CU(kInvalidDevice, cu.DeviceGetName(name, sizeof(name), count));
}

TEST_P(DeviceConformanceTest, LimitsAreThoseOfEveryDeviceWithVirtualMemory) {
  int value = 0;
  ASSERT_CU(kSuccess, cu.DeviceGetAttribute(&value, CuDeviceAttribute::kMaxThreadsPerBlock, 0));
  EXPECT_EQ(value, 1024);
  ASSERT_CU(kSuccess,
            cu.DeviceGetAttribute(&value, CuDeviceAttribute::kMaxSharedMemoryPerBlock, 0));
  EXPECT_EQ(value, 49152);
  ASSERT_CU(kSuccess, cu.DeviceGetAttribute(&value, CuDeviceAttribute::kMultiprocessorCount, 0));
  EXPECT_GE(value, 1);
  ASSERT_CU(kSuccess, cu.DeviceGetAttribute(&value, CuDeviceAttribute::kComputeCapabilityMajor, 0));
  EXPECT_GE(value, 6);
}

TEST_P(DeviceConformanceTest, FreeMemoryIsPartOfTheTotal) {
  size_t total = 0;
  size_t free_bytes = 0;
  size_t total_bytes = 0;
  ASSERT_CU(kSuccess, cu.DeviceTotalMem(&total, 0));
  ASSERT_CU(kSuccess, cu.MemGetInfo(&free_bytes, &total_bytes));
  EXPECT_GE(total, kGranule);
  EXPECT_LE(free_bytes, total_bytes);
  EXPECT_LE(total_bytes, total);
}

TEST_P(DeviceConformanceTest, QueriesOfTheDeviceNeedNoContext) {
  std::thread([&] {
    CuDevice device = 0;
    int value = 0;
    size_t bytes = 0;
    char name[8] = {};
    EXPECT_CU(kSuccess, cu.DeviceGet(&device, 0));
    EXPECT_CU(kSuccess, cu.DeviceGetCount(&value));
    EXPECT_CU(kSuccess, cu.DeviceTotalMem(&bytes, device));
    EXPECT_CU(kSuccess, cu.DeviceGetName(name, sizeof(name), device));
    EXPECT_CU(kSuccess,
              cu.DeviceGetAttribute(&value, CuDeviceAttribute::kMultiprocessorCount, device));
  }).join();
}

TEST_P(DeviceConformanceTest, RepeatedInitIsHarmless) {
  const DeviceAddress word = NewWords(1);
  EXPECT_CU(kSuccess, cu.Init(0));
  EXPECT_CU(kSuccess, Store(a, word, 2));
  EXPECT_EQ(Word(word), 2);
}

// The context: what the driver API's chapters on primary and current contexts say.

class ContextConformanceTest : public ConformanceTest {};
COPPICE_CONFORMANCE_SUITE(ContextConformanceTest);

TEST_P(ContextConformanceTest, ThreadWithoutContextIsRefused) {
  std::thread([&] {
    DeviceAddress address = 0;
    CuStream stream = nullptr;
    EXPECT_CU(kInvalidContext, cu.MemAlloc(&address, 1));
    EXPECT_CU(kInvalidContext, cu.StreamCreate(&stream, 0));
    EXPECT_CU(kInvalidContext, cu.CtxSynchronize());
  }).join();
}

TEST_P(ContextConformanceTest, CurrentContextBelongsToTheThread) {
  std::thread([&] {
    CuContext current = context;
    EXPECT_CU(kSuccess, cu.CtxGetCurrent(&current));
    EXPECT_EQ(current, nullptr);
    EXPECT_CU(kSuccess, cu.CtxSetCurrent(context));
    EXPECT_CU(kSuccess, cu.CtxGetCurrent(&current));
    EXPECT_EQ(current, context);
  }).join();
}

TEST_P(ContextConformanceTest, PrimaryContextIsCounted) {
  CuContext again = nullptr;
  ASSERT_CU(kSuccess, cu.DevicePrimaryCtxRetain(&again, 0));
  EXPECT_EQ(again, context);
  EXPECT_CU(kSuccess, cu.DevicePrimaryCtxRelease(0));
  EXPECT_CU(kSuccess, cu.CtxSynchronize());
}

TEST_P(ContextConformanceTest, CreationAndQueriesNeedACurrentContext) {
  CuKernel kernel = nullptr;
  ASSERT_CU(kSuccess, cu.LibraryGetKernel(&kernel, library, "Store"));
  std::thread([&] {
    size_t bytes = 0;
    CuEvent event = nullptr;
    CuFunction function = nullptr;
    EXPECT_CU(kInvalidContext, cu.MemGetInfo(&bytes, &bytes));
    EXPECT_CU(kInvalidContext, cu.EventCreate(&event, 0));
    EXPECT_CU(kInvalidContext, cu.KernelGetFunction(&function, kernel));
  }).join();
}

TEST_P(ContextConformanceTest, ContextCanBeTakenFromAThread) {
  DeviceAddress address = 0;
  ASSERT_CU(kSuccess, cu.CtxSetCurrent(nullptr));
  CuContext current = context;
  EXPECT_CU(kSuccess, cu.CtxGetCurrent(&current));
  EXPECT_EQ(current, nullptr);
  EXPECT_CU(kInvalidContext, cu.MemAlloc(&address, 1));
  ASSERT_CU(kSuccess, cu.CtxSetCurrent(context));
  EXPECT_CU(kSuccess, cu.CtxSynchronize());
}

TEST_P(ContextConformanceTest, RetainDoesNotMakeCurrent) {
  std::thread([&] {
    CuContext retained = nullptr;
    CuContext current = context;
    EXPECT_CU(kSuccess, cu.DevicePrimaryCtxRetain(&retained, 0));
    EXPECT_CU(kSuccess, cu.CtxGetCurrent(&current));
    EXPECT_EQ(current, nullptr);
    EXPECT_CU(kSuccess, cu.DevicePrimaryCtxRelease(0));
  }).join();
}

TEST_P(ContextConformanceTest, ReleaseOfOneRetainLeavesTheContextCurrentAndItsObjectsAlive) {
  const DeviceAddress word = NewWords(1);
  CuContext again = nullptr;
  ASSERT_CU(kSuccess, cu.DevicePrimaryCtxRetain(&again, 0));
  ASSERT_CU(kSuccess, cu.DevicePrimaryCtxRelease(0));
  CuContext current = nullptr;
  EXPECT_CU(kSuccess, cu.CtxGetCurrent(&current));
  EXPECT_EQ(current, context);
  EXPECT_CU(kSuccess, Store(a, word, 3));
  EXPECT_EQ(Word(word), 3);
}

TEST_P(ContextConformanceTest, RetainAndReleaseCheckTheirArguments) {
  int count = 0;
  ASSERT_CU(kSuccess, cu.DeviceGetCount(&count));
  CuContext retained = nullptr;
  EXPECT_CU(kInvalidValue, cu.DevicePrimaryCtxRetain(nullptr, 0));
  EXPECT_CU(kInvalidDevice, cu.DevicePrimaryCtxRetain(&retained, count));
  EXPECT_CU(kInvalidDevice, cu.DevicePrimaryCtxRelease(count));
}

TEST_P(ContextConformanceTest, SynchronizeWaitsForEveryStream) {
  const DeviceAddress words = NewWords(2);
  int64_t first = 0;
  int64_t second = 0;
  EXPECT_CU(kSuccess, Store(a, words, 1));
  EXPECT_CU(kSuccess, cu.MemcpyDtoHAsync(&first, words, sizeof(first), a));
  EXPECT_CU(kSuccess, Store(b, words + 8, 2));
  EXPECT_CU(kSuccess, cu.MemcpyDtoHAsync(&second, words + 8, sizeof(second), b));
  EXPECT_CU(kSuccess, cu.CtxSynchronize());
  EXPECT_EQ(first, 1);
  EXPECT_EQ(second, 2);
}

TEST_P(ContextConformanceTest, ObjectsOfOneThreadServeEveryThreadOfTheContext) {
  const DeviceAddress word = NewWords(1);
  OnThread([&] {
    EXPECT_CU(kSuccess, Store(a, word, 4));
    EXPECT_CU(kSuccess, cu.StreamSynchronize(a));
  });
  EXPECT_EQ(Word(word), 4);
}

// What a suite relies on where each test has the context for itself.
TEST_P(ContextConformanceTest, ContextThatTheProcessKeepsOutlivesATestsRelease) {
  EXPECT_IN_CHILD({
    const DeviceAddress word = NewWords(1);
    KeepCudaContext(cu);
    KeepCudaContext(cu);
    EXPECT_CU(kSuccess, cu.DevicePrimaryCtxRelease(0));
    EXPECT_CU(kSuccess, Store(a, word, 5));
    EXPECT_EQ(Word(word), 5);
    GiveBackCudaContext(cu);
    EXPECT_NE(cu.CtxSynchronize(), CuResult::kSuccess);
  });
}

TEST_P(ContextConformanceTest, ReleaseWithoutRetainIsAnInvalidContext) {
  EXPECT_IN_CHILD({
    GiveBackCudaContext(cu);
    EXPECT_CU(kSuccess, cu.DevicePrimaryCtxRelease(0));
    EXPECT_CU(kInvalidContext, cu.DevicePrimaryCtxRelease(0));
  });
}

// Whether it is 201 or 709 depends on how the driver remembers the dead context.
TEST_P(ContextConformanceTest, LastReleaseEndsTheContextForItsThreads) {
  EXPECT_IN_CHILD({
    GiveBackCudaContext(cu);
    EXPECT_CU(kSuccess, cu.DevicePrimaryCtxRelease(0));
    DeviceAddress address = 0;
    EXPECT_NE(cu.MemAlloc(&address, 64), CuResult::kSuccess);
    EXPECT_NE(cu.CtxSynchronize(), CuResult::kSuccess);
    CuContext again = nullptr;
    EXPECT_CU(kSuccess, cu.DevicePrimaryCtxRetain(&again, 0));
    EXPECT_CU(kSuccess, cu.CtxSetCurrent(again));
    EXPECT_CU(kSuccess, cu.MemAlloc(&address, 64));
    EXPECT_CU(kSuccess, cu.MemFree(address));
  });
}

}  // namespace
}  // namespace coppice
