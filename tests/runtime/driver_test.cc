// Goal: the driver table, the translation of results, and the loader keep what driver.h promises.
// Method: tables made of test functions, and this program itself in the place of libcuda.

#include "coppice/runtime/driver.h"

#include "tests/support/succeeding_table.h"
#include "tests/support/test.h"

namespace coppice {
namespace {

// What the driver library of this program does. The functions below are plain, so it is a global.
struct FakeLibrary {
  struct Request {
    std::string symbol;
    int version = 0;
    uint64_t flags = 0;
  };

  CuResult look_up_result = CuResult::kSuccess;
  std::map<std::string, CuResult> failing;  // Symbols whose look-up fails.
  std::vector<std::string> null;            // Symbols whose look-up succeeds with null.
  CuResult init_result = CuResult::kSuccess;
  int device_count = 1;
  int version = 12'030;
  std::vector<Request> requests;
};

FakeLibrary* fake = nullptr;

class FakeLibraryScope {
 public:
  FakeLibraryScope() { fake = &library_; }
  ~FakeLibraryScope() { fake = nullptr; }
  FakeLibrary* operator->() { return &library_; }

 private:
  FakeLibrary library_;
};

Driver SucceedingDriver() {
  return Driver(SucceedingTable(), DriverKind::kEmulator);
}

void* FakeEntry(std::string_view symbol) {
  static DriverTable table = [] {
    DriverTable entries = SucceedingTable();
    entries.DriverGetVersion = [](int* version) {
      *version = fake->version;
      return CuResult::kSuccess;
    };
    entries.Init = [](unsigned) { return fake->init_result; };
    entries.DeviceGetCount = [](int* count) {
      *count = fake->device_count;
      return CuResult::kSuccess;
    };
    return entries;
  }();
#define X(member, version, parameters) \
  if (symbol == "cu" #member) return reinterpret_cast<void*>(table.member);
#include "coppice/runtime/driver_entries.inc"
#undef X
  return nullptr;
}

absl::StatusOr<Driver> LoadFake() {
  return Driver::LoadCuda(nullptr);  // Null opens the program itself.
}

TEST(DriverEntryTest, NamesAreCudaNamesInTableOrder) {
  EXPECT_EQ(std::string(DriverEntryAt(0).symbol), "cuGetErrorName");
  EXPECT_EQ(std::string(DriverEntryAt(kDriverEntryCount - 1).symbol), "cuGraphExecDestroy");
  const int map = DriverEntryIndex(offsetof(DriverTable, MemMap));
  EXPECT_EQ(std::string(DriverEntryAt(map).symbol), "cuMemMap");
  EXPECT_EQ(FindDriverEntry("cuMemMap"), map);
  EXPECT_EQ(FindDriverEntry("cuMem"), std::nullopt);
  EXPECT_EQ(DriverEntryAt(map).version, 10020);
}

TEST(DriverEntryDeathTest, IndexOutsideTheTableIsAnError) {
  EXPECT_DEATH(DriverEntryAt(-1), "no such driver entry");
  EXPECT_DEATH(DriverEntryAt(kDriverEntryCount), "no such driver entry");
  EXPECT_DEATH(DriverEntryIndex(sizeof(DriverTable)), "outside the driver table");
}

TEST(DriverDeathTest, IncompleteTableIsAnError) {
  DriverTable table = SucceedingTable();
  table.MemMap = nullptr;
  EXPECT_DEATH(Driver(table, DriverKind::kEmulator), "lacks cuMemMap");
}

TEST(DriverTest, KeepsItsKind) {
  EXPECT_EQ(Driver(SucceedingTable(), DriverKind::kCuda).kind(), DriverKind::kCuda);
  EXPECT_EQ(Driver(SucceedingTable(), DriverKind::kEmulator).kind(), DriverKind::kEmulator);
}

TEST(DriverTest, CallPassesArgumentsAndReturnsOk) {
  DriverTable table = SucceedingTable();
  table.DeviceGetCount = [](int* count) {
    *count = 7;
    return CuResult::kSuccess;
  };
  int count = 0;
  EXPECT_OK(Driver(table, DriverKind::kEmulator).Call<&DriverTable::DeviceGetCount>(&count));
  EXPECT_EQ(count, 7);
}

TEST(DriverTest, FailedCallNamesTheEntryAndTheResult) {
  DriverTable table = SucceedingTable();
  table.MemUnmap = [](CuDeviceAddress, size_t) { return CuResult::kInvalidValue; };
  const Driver driver(table, DriverKind::kEmulator);
  const absl::Status status = driver.Call<&DriverTable::MemUnmap>(CuDeviceAddress{1}, size_t{2});
  EXPECT_EQ(MessageOf(status), "cuMemUnmap: CUDA_ERROR_INVALID_VALUE (1)");
  EXPECT_EQ(CuResultOf(status), CuResult::kInvalidValue);
  EXPECT_EQ(DriverFailureOf(status)->entry, "cuMemUnmap");
}

TEST(DriverTest, EveryResultHasTheCodeThatTheHeaderStates) {
  const std::map<absl::StatusCode, std::vector<int>> expected = {
      {absl::StatusCode::kInvalidArgument, {1, 200, 218, 400, 720, 912}},
      {absl::StatusCode::kResourceExhausted, {2}},
      {absl::StatusCode::kNotFound, {500}},
      {absl::StatusCode::kAborted, {401, 900, 901, 902, 903, 904, 905, 906, 907}},
      {absl::StatusCode::kUnavailable, {100}},
      {absl::StatusCode::kUnimplemented, {209, 222, 801}},
      {absl::StatusCode::kFailedPrecondition, {800}},
      {absl::StatusCode::kInternal, {3, 34, 201, 600, 700, 719, 908, 909, 910, 999}},
  };
  const Driver driver = SucceedingDriver();
  for (const auto& [code, results] : expected) {
    for (const int result : results) {
      const absl::Status status = driver.ErrorOf(static_cast<CuResult>(result), "cuTest");
      EXPECT_THAT(status, StatusIs(code)) << result;
      EXPECT_EQ(CuResultOf(status), static_cast<CuResult>(result));
    }
  }
}

TEST(DriverTest, AsksTheDriverForNamesItDoesNotKnow) {
  DriverTable table = SucceedingTable();
  table.GetErrorName = [](CuResult, const char** text) {
    *text = "CUDA_ERROR_MISALIGNED_ADDRESS";
    return CuResult::kSuccess;
  };
  const Driver driver(table, DriverKind::kCuda);
  const absl::Status status = driver.ErrorOf(static_cast<CuResult>(716), "cuTest");
  EXPECT_EQ(MessageOf(status), "cuTest: CUDA_ERROR_MISALIGNED_ADDRESS (716)");
}

TEST(DriverTest, NamesAResultThatNobodyKnowsByItsNumber) {
  DriverTable table = SucceedingTable();
  table.GetErrorName = [](CuResult, const char**) { return CuResult::kInvalidValue; };
  const Driver driver(table, DriverKind::kCuda);
  const absl::Status status = driver.ErrorOf(static_cast<CuResult>(777), "cuTest");
  EXPECT_EQ(MessageOf(status), "cuTest: CUDA_ERROR_777 (777)");
}

TEST(CuResultTest, OnlyStatusesOfCallsCarryOne) {
  EXPECT_EQ(CuResultOf(absl::OkStatus()), std::nullopt);
  EXPECT_EQ(CuResultOf(absl::InternalError("other")), std::nullopt);
}

TEST(CuResultTest, AStatusThatSaysMoreCarriesWhatItsCauseDoes) {
  const absl::Status cause =
      SucceedingDriver().ErrorOf(CuResult::kStreamCaptureUnjoined, "cuStreamEndCapture");
  const absl::Status status = WithFailureOf(cause, absl::AbortedError("why"));
  EXPECT_EQ(status.code(), absl::StatusCode::kAborted);
  EXPECT_EQ(MessageOf(status), "why");
  ASSERT_TRUE(DriverFailureOf(status));
  EXPECT_EQ(DriverFailureOf(status)->entry, "cuStreamEndCapture");
  EXPECT_EQ(DriverFailureOf(status)->result, CuResult::kStreamCaptureUnjoined);
  EXPECT_FALSE(
      DriverFailureOf(WithFailureOf(absl::InternalError("other"), absl::AbortedError(""))));
}

TEST(CuResultTest, NamesAreCudaNames) {
  EXPECT_EQ(NameOf(CuResult::kSuccess), "CUDA_SUCCESS");
  EXPECT_EQ(NameOf(CuResult::kIllegalAddress), "CUDA_ERROR_ILLEGAL_ADDRESS");
  EXPECT_EQ(NameOf(CuResult::kStreamCaptureUnjoined), "CUDA_ERROR_STREAM_CAPTURE_UNJOINED");
  EXPECT_EQ(NameOf(static_cast<CuResult>(777)), "CUDA_ERROR_777");
}

TEST(CuResultTest, StickyResultsAreThoseThatEndAllWork) {
  for (const int result : {226, 700, 702, 710, 714, 715, 716, 717, 718, 719}) {
    EXPECT_TRUE(IsSticky(static_cast<CuResult>(result))) << result;
  }
  for (const int result : {0, 1, 2, 34, 201, 400, 600, 701, 801, 900, 901, 910, 999}) {
    EXPECT_FALSE(IsSticky(static_cast<CuResult>(result))) << result;
  }
}

TEST(LoadCudaTest, AbsentLibraryIsUnavailable) {
  EXPECT_THAT(
      Driver::LoadCuda("libcoppice-no-such-library.so.1"),
      StatusIs(absl::StatusCode::kUnavailable, HasSubstr("libcoppice-no-such-library.so.1")));
}

TEST(LoadCudaTest, LibraryThatIsNoDriverIsUnimplemented) {
  EXPECT_THAT(Driver::LoadCuda("libm.so.6"),
              StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("cuGetProcAddress_v2")));
}

TEST(LoadCudaTest, ToolkitStubIsUnavailable) {
  const char* const stub = "/usr/local/cuda/lib64/stubs/libcuda.so";
  if (!std::filesystem::exists(stub)) GTEST_SKIP() << "no CUDA Toolkit here: " << stub;
  EXPECT_THAT(Driver::LoadCuda(stub), StatusIs(absl::StatusCode::kUnavailable, HasSubstr("stub")));
}

TEST(LoadCudaTest, ResolvesEverySymbolAtItsOwnVersionWithTheLegacyStreamFlag) {
  FakeLibraryScope library;
  const auto driver = LoadFake();
  ASSERT_OK(driver);
  EXPECT_EQ(driver->kind(), DriverKind::kCuda);
  ASSERT_EQ(library->requests.size(), static_cast<size_t>(kDriverEntryCount));
  for (int i = 0; i < kDriverEntryCount; ++i) {
    const FakeLibrary::Request& request = library->requests[static_cast<size_t>(i)];
    EXPECT_EQ(request.symbol, DriverEntryAt(i).symbol);
    EXPECT_EQ(request.version, DriverEntryAt(i).version) << request.symbol;
    EXPECT_EQ(request.flags, kGetProcAddressLegacyStream) << request.symbol;
  }
}

TEST(LoadCudaTest, PutsEveryFunctionInItsPlace) {
  const FakeLibraryScope library;
  const auto driver = LoadFake();
  ASSERT_OK(driver);
#define X(member, version, parameters) \
  EXPECT_EQ(reinterpret_cast<void*>(driver->table().member), FakeEntry("cu" #member));
#include "coppice/runtime/driver_entries.inc"
#undef X
}

TEST(LoadCudaTest, ListsEveryMissingEntryAndTheDriversVersion) {
  FakeLibraryScope library;
  library->failing["cuGraphGetEdges"] = CuResult::kInvalidValue;  // Newer than the driver.
  library->failing["cuGraphUpload"] = CuResult::kNotFound;
  library->null = {"cuMemMap"};  // Success with null means missing.
  const auto driver = LoadFake();
  EXPECT_THAT(driver, StatusIs(absl::StatusCode::kUnimplemented));
  const std::string message = MessageOf(driver.status());
  EXPECT_THAT(message, HasSubstr("CUDA 12.3"));
  EXPECT_THAT(message, HasSubstr("cuGraphGetEdges (version 12030)"));
  EXPECT_THAT(message, HasSubstr("cuGraphUpload"));
  EXPECT_THAT(message, HasSubstr("cuMemMap"));
  EXPECT_THAT(message, Not(HasSubstr("cuMemUnmap")));
}

TEST(LoadCudaTest, OptionalEntryThatIsMissingIsNotSupported) {
  FakeLibraryScope library;
  library->failing["cuFuncGetParamInfo"] = CuResult::kInvalidValue;  // Newer than the driver.
  size_t offset = 0;
  size_t bytes = 0;
  const auto driver = LoadFake();
  ASSERT_OK(driver);
  const absl::Status status =
      driver->Call<&DriverTable::FuncGetParamInfo>(CuFunction(), size_t{0}, &offset, &bytes);
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kUnimplemented));
  EXPECT_EQ(MessageOf(status), "cuFuncGetParamInfo: CUDA_ERROR_NOT_SUPPORTED (801)");
  library->failing.clear();
  const auto newer = LoadFake();
  ASSERT_OK(newer);
  EXPECT_OK(newer->Call<&DriverTable::FuncGetParamInfo>(CuFunction(), size_t{0}, &offset, &bytes));
}

TEST(LoadCudaTest, MissingVersionEntryIsReportedToo) {
  FakeLibraryScope library;
  library->null = {"cuDriverGetVersion"};
  EXPECT_THAT(LoadFake(), StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("CUDA unknown")));
}

TEST(LoadCudaTest, AnOlderDriverIsRefusedThoughItHasEveryEntry) {
  FakeLibraryScope library;
  library->version = 12'020;
  const auto driver = LoadFake();
  EXPECT_THAT(driver, StatusIs(absl::StatusCode::kUnimplemented,
                               HasSubstr("the driver is for CUDA 12.2; upgrade it to CUDA 12.3")));
}

TEST(LoadCudaTest, StubResultIsUnavailable) {
  FakeLibraryScope library;
  library->look_up_result = CuResult::kStubLibrary;
  EXPECT_THAT(LoadFake(), StatusIs(absl::StatusCode::kUnavailable));
}

TEST(LoadCudaTest, NoDeviceIsUnavailable) {
  FakeLibraryScope library;
  library->device_count = 0;
  EXPECT_THAT(LoadFake(), StatusIs(absl::StatusCode::kUnavailable));
  library->init_result = CuResult::kNoDevice;
  const auto driver = LoadFake();
  EXPECT_THAT(driver, StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_EQ(CuResultOf(driver.status()), CuResult::kNoDevice);
}

}  // namespace

// What the loader finds when it opens this program: libcuda's one exported look-up.
extern "C" CuResult cuGetProcAddress_v2(  // NOLINT(readability-identifier-naming): CUDA's name.
    const char* symbol,
    void** function,
    int version,
    uint64_t flags,
    int* query_result) {
  *query_result = 0;
  fake->requests.push_back({.symbol = symbol, .version = version, .flags = flags});
  if (fake->look_up_result != CuResult::kSuccess) return fake->look_up_result;
  if (const auto found = fake->failing.find(symbol); found != fake->failing.end()) {
    return found->second;
  }
  const bool is_null = std::ranges::find(fake->null, symbol) != fake->null.end();
  *function = is_null ? nullptr : FakeEntry(symbol);
  return CuResult::kSuccess;
}

}  // namespace coppice
