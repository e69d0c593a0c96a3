// Goal: kernels are found by name in the half of an image that a driver understands, or in an image
// of the caller's own.
// Method: the test kernels on an emulated device, and tables that record what they are given.

#include "coppice/runtime/kernel_library.h"

#include <unistd.h>

#include "tests/support/succeeding_table.h"
#include "tests/support/test.h"
#include "tests/support/test_device.h"
#include "tests/support/test_kernels.h"

namespace coppice {
namespace {

const void* loaded_image = nullptr;
std::string loaded_text;  // The same as far as a NUL.

// A driver that remembers the image it was asked to load.
Driver RecordingDriver(DriverKind kind) {
  DriverTable table = SucceedingTable();
  table.LibraryLoadData = [](CuLibrary*, const void* image, CuJitOption*, void**, unsigned, int*,
                             void**, unsigned) {
    loaded_image = image;
    loaded_text = static_cast<const char*>(image);
    return CuResult::kSuccess;
  };
  return Driver(table, kind);
}

TEST(KernelLibraryTest, CudaGetsTheFatbinAndTheEmulatorTheImage) {
  const char fatbin[] = "a fatbin";
  KernelImage image = test_kernels_image;
  image.fatbin = fatbin;
  const Driver emulator = RecordingDriver(DriverKind::kEmulator);
  EXPECT_OK(KernelLibrary::Load(emulator, image));
  EXPECT_EQ(loaded_image, &image);
  const Driver cuda = RecordingDriver(DriverKind::kCuda);
  EXPECT_OK(KernelLibrary::Load(cuda, image));
  EXPECT_EQ(loaded_image, fatbin);
}

TEST(KernelLibraryTest, ImageWithoutDeviceCodeIsUnavailableOnCuda) {
  const Driver cuda = RecordingDriver(DriverKind::kCuda);
  EXPECT_THAT(KernelLibrary::Load(cuda, KernelImage{}), StatusIs(absl::StatusCode::kUnavailable));
}

TEST(KernelLibraryTest, IsUnloadedOnceHoweverOftenItMoves) {
  TestDevice device;
  {
    COPPICE_ASSERT_OK_AND_ASSIGN(KernelLibrary first,
                                 KernelLibrary::Load(device.driver(), test_kernels_image));
    const KernelLibrary second = std::move(first);
    EXPECT_OK(second.Get("Fill"));
    EXPECT_EQ(device.emulator().live().libraries, 1);
  }
  EXPECT_EQ(device.emulator().live().libraries, 0);
}

TEST(KernelLibraryTest, FindsEveryKernelWithItsBlockSize) {
  TestDevice device;
  COPPICE_ASSERT_OK_AND_ASSIGN(const KernelLibrary library,
                               KernelLibrary::Load(device.driver(), test_kernels_image));
  for (const char* name : {"Fill", "Scale", "Add", "MaskedScale", "Store", "Collectives"}) {
    COPPICE_ASSERT_OK_AND_ASSIGN(const Kernel kernel, library.Get(name));
    EXPECT_NE(kernel.function, nullptr) << name;
    EXPECT_EQ(kernel.block_threads, static_cast<unsigned>(kTestThreads)) << name;
  }
}

TEST(KernelLibraryTest, AbsentKernelIsNotFound) {
  TestDevice device;
  COPPICE_ASSERT_OK_AND_ASSIGN(const KernelLibrary library,
                               KernelLibrary::Load(device.driver(), test_kernels_image));
  EXPECT_THAT(library.Get("Fil"), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(library.Get("fill"), StatusIs(absl::StatusCode::kNotFound));
}

TEST(KernelLibraryTest, DoesNotBreakACaptureOfTheApplication) {
  TestDevice device;
  const Driver& driver = device.driver();
  ASSERT_OK(driver.Call<&DriverTable::StreamBeginCapture>(device.stream(), CuCaptureMode::kGlobal));
  {
    COPPICE_ASSERT_OK_AND_ASSIGN(const KernelLibrary library,
                                 KernelLibrary::Load(driver, test_kernels_image));
    EXPECT_OK(library.Get("Fill"));
  }
  CuGraph graph = nullptr;
  EXPECT_OK(driver.Call<&DriverTable::StreamEndCapture>(device.stream(), &graph));
  EXPECT_OK(driver.Call<&DriverTable::GraphDestroy>(graph));
}

// A driver with one library of one kernel, "Own", of two parameters.
DriverTable OwnKernelTable() {
  DriverTable table = SucceedingTable();
  table.LibraryLoadData = RecordingDriver(DriverKind::kCuda).table().LibraryLoadData;
  table.LibraryGetKernel = [](CuKernel*, CuLibrary, const char* name) {
    return std::string_view(name) == "Own" ? CuResult::kSuccess : CuResult::kNotFound;
  };
  table.LibraryGetKernelCount = [](unsigned* count, CuLibrary) {
    *count = 1;
    return CuResult::kSuccess;
  };
  table.FuncGetName = [](const char** name, CuFunction) {
    *name = "Own";
    return CuResult::kSuccess;
  };
  table.FuncGetParamInfo = [](CuFunction, size_t index, size_t* offset, size_t* bytes) {
    *offset = 8 * index;
    *bytes = 8 - 4 * index;
    return index < 2 ? CuResult::kSuccess : CuResult::kInvalidValue;
  };
  return table;
}

constexpr char kPtx[] = ".version 8.0\n.target sm_80\n.address_size 64\n";

std::span<const std::byte> PtxBytes() {
  return std::as_bytes(std::span(kPtx, sizeof(kPtx) - 1));  // Without the NUL.
}

// A folder that is gone after the test.
class LoadFileTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "coppice_load_file_" + std::to_string(getpid());
    std::filesystem::create_directory(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string folder_;
};

TEST_F(LoadFileTest, LoadsTheBytesOfTheFile) {
  const std::string path = folder_ + "/own.ptx";
  std::ofstream(path) << kPtx;
  const Driver driver(OwnKernelTable(), DriverKind::kCuda);
  loaded_text.clear();
  COPPICE_ASSERT_OK_AND_ASSIGN(const KernelLibrary library, KernelLibrary::LoadFile(driver, path));
  EXPECT_EQ(loaded_text, kPtx);
  EXPECT_OK(library.Get("Own"));
}

TEST_F(LoadFileTest, FileThatCannotBeReadOrLoadedIsNamed) {
  const Driver driver(OwnKernelTable(), DriverKind::kCuda);
  EXPECT_THAT(KernelLibrary::LoadFile(driver, folder_ + "/absent"),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr(folder_ + "/absent")));
  EXPECT_FALSE(KernelLibrary::LoadFile(driver, folder_).ok()) << "a folder";
  std::ofstream(folder_ + "/empty").flush();
  EXPECT_THAT(KernelLibrary::LoadFile(driver, folder_ + "/empty"),
              StatusIs(kWrongArgument, HasSubstr(folder_ + "/empty")));
}

TEST(OwnImageTest, DriverReadsTheCallersBytesAndPtxUpToANul) {
  const Driver driver(OwnKernelTable(), DriverKind::kCuda);
  loaded_text.clear();
  ASSERT_OK(KernelLibrary::Load(driver, PtxBytes()));
  EXPECT_EQ(loaded_text, kPtx);
  std::array<std::byte, 64> cubin{std::byte{0x7F}, std::byte{'E'}, std::byte{'L'}, std::byte{'F'}};
  cubin[18] = std::byte{190};
  ASSERT_OK(KernelLibrary::Load(driver, cubin));
  EXPECT_EQ(loaded_image, cubin.data());
}

TEST(OwnImageTest, WhatIsNoImageIsRefusedBeforeTheDriver) {
  const Driver driver(OwnKernelTable(), DriverKind::kCuda);
  loaded_image = nullptr;
  const std::array<std::byte, 16> zeros{};
  EXPECT_THAT(KernelLibrary::Load(driver, zeros), StatusIs(kWrongArgument));
  EXPECT_EQ(loaded_image, nullptr);
}

TEST(OwnImageTest, RefusalOfTheDriverSaysWhatItRefused) {
  DriverTable table = OwnKernelTable();
  const auto refuse = [&table](auto load) {
    table.LibraryLoadData = load;
    const Driver driver(table, DriverKind::kCuda);
    return KernelLibrary::Load(driver, PtxBytes()).status();
  };
  const absl::Status wrong = refuse([](CuLibrary*, const void*, CuJitOption*, void**, unsigned,
                                       int*, void**, unsigned) { return CuResult::kInvalidPtx; });
  EXPECT_THAT(wrong, StatusIs(kWrongArgument));
  EXPECT_EQ(CuResultOf(wrong), CuResult::kInvalidPtx);
  EXPECT_THAT(std::string(wrong.message()), HasSubstr("PTX"));
  EXPECT_THAT(refuse([](CuLibrary*, const void*, CuJitOption*, void**, unsigned, int*, void**,
                        unsigned) { return CuResult::kNoBinaryForGpu; }),
              StatusIs(absl::StatusCode::kUnimplemented));
  EXPECT_THAT(refuse([](CuLibrary*, const void*, CuJitOption*, void**, unsigned, int*, void**,
                        unsigned) { return CuResult::kUnsupportedPtxVersion; }),
              StatusIs(absl::StatusCode::kUnimplemented));
}

TEST(OwnImageTest, RefusalHasWhatTheDriversCompilerSays) {
  DriverTable table = OwnKernelTable();
  table.LibraryLoadData = [](CuLibrary*, const void*, CuJitOption* options, void** values,
                             unsigned count, int*, void**, unsigned) {
    EXPECT_EQ(count, 2U);
    EXPECT_EQ(options[0], CuJitOption::kErrorLog);
    EXPECT_EQ(options[1], CuJitOption::kErrorLogBytes);
    EXPECT_GT(reinterpret_cast<uintptr_t>(values[1]), 100U);
    std::strcpy(static_cast<char*>(values[0]), "line 3: no such thing\n");
    return CuResult::kInvalidPtx;
  };
  const Driver driver(table, DriverKind::kCuda);
  const absl::Status refused = KernelLibrary::Load(driver, PtxBytes()).status();
  EXPECT_EQ(CuResultOf(refused), CuResult::kInvalidPtx);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("line 3: no such thing"));
}

TEST(OwnImageTest, EmulatorRefusesACubin) {
  TestDevice device;
  std::vector<std::byte> cubin(64);
  std::memcpy(cubin.data(), "\x7f\x45LF", 4);
  cubin[18] = std::byte{190};
  EXPECT_THAT(KernelLibrary::Load(device.driver(), cubin),
              StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("PTX")));
}

TEST(OwnImageTest, KernelIsKnownByWhatTheDriverTells) {
  const Driver driver(OwnKernelTable(), DriverKind::kCuda);
  COPPICE_ASSERT_OK_AND_ASSIGN(const KernelLibrary library,
                               KernelLibrary::Load(driver, PtxBytes()));
  COPPICE_ASSERT_OK_AND_ASSIGN(const Kernel own, library.Get("Own"));
  EXPECT_STREQ(own.name, "Own");
  EXPECT_EQ(own.block_threads, 0U) << "each launch names a block";
  EXPECT_EQ(own.parameter_count, 2);
  EXPECT_EQ(own.parameter_bytes, 12);
}

TEST(OwnImageTest, OlderDriverKnowsNeitherParametersNorNames) {
  DriverTable table = OwnKernelTable();
  table.LibraryGetKernelCount = [](unsigned*, CuLibrary) { return CuResult::kNotSupported; };
  table.FuncGetParamInfo = [](CuFunction, size_t, size_t*, size_t*) {
    return CuResult::kNotSupported;
  };
  const Driver driver(table, DriverKind::kCuda);
  COPPICE_ASSERT_OK_AND_ASSIGN(const KernelLibrary library,
                               KernelLibrary::Load(driver, PtxBytes()));
  COPPICE_ASSERT_OK_AND_ASSIGN(const Kernel own, library.Get("Own"));
  EXPECT_EQ(own.parameter_count, -1);
  EXPECT_EQ(own.parameter_bytes, -1);
  EXPECT_THAT(ParametersOf(driver, own.function), StatusIs(absl::StatusCode::kUnimplemented));
  EXPECT_THAT(library.GetNames(), StatusIs(absl::StatusCode::kUnimplemented));
  EXPECT_THAT(library.Get("Other"), StatusIs(absl::StatusCode::kNotFound));
}

TEST(KernelLibraryTest, AbsentKernelIsAnsweredWithThoseThatAreThere) {
  TestDevice device;
  COPPICE_ASSERT_OK_AND_ASSIGN(const KernelLibrary library,
                               KernelLibrary::Load(device.driver(), test_kernels_image));
  COPPICE_ASSERT_OK_AND_ASSIGN(const std::vector<std::string> names, library.GetNames());
  EXPECT_THAT(names, ElementsAre("Add", "Collectives", "Compact", "Cube", "Fill", "MaskedScale",
                                 "Philox", "RaggedRows", "Scale", "Store"));
  EXPECT_THAT(std::string(library.Get("Fil").status().message()),
              HasSubstr("Add, Collectives, Compact, Cube, Fill"));
}

TEST(KernelLibraryTest, KernelOfTheBuildIsKnownWithoutTheDriver) {
  TestDevice device;
  COPPICE_ASSERT_OK_AND_ASSIGN(const KernelLibrary library,
                               KernelLibrary::Load(device.driver(), test_kernels_image));
  COPPICE_ASSERT_OK_AND_ASSIGN(const Kernel fill, library.Get("Fill"));
  EXPECT_STREQ(fill.name, "Fill");
  EXPECT_EQ(fill.parameter_count, 1);
  EXPECT_EQ(fill.parameter_bytes, static_cast<int64_t>(sizeof(FillParams)));
}

TEST(KernelLibraryTest, NeedsAreGrantedOnceAndStay) {
  TestDevice device{DriverLedger::Options{}};
  COPPICE_ASSERT_OK_AND_ASSIGN(const KernelLibrary library,
                               KernelLibrary::Load(device.driver(), test_kernels_image));
  const auto sets = [&] { return device.ledger().calls(&DriverTable::FuncSetAttribute); };
  ASSERT_OK(library.Get("Cube", {.shared_bytes = 48 * 1024}));
  EXPECT_EQ(sets(), 0) << "48 KiB need no leave";
  ASSERT_OK(library.Get("Cube", {.shared_bytes = 200 * 1024}));
  EXPECT_EQ(sets(), 1);
  ASSERT_OK(library.Get("Cube", {.shared_bytes = 100 * 1024}));
  EXPECT_EQ(sets(), 1) << "it has more";
  ASSERT_OK(library.Get("Cube", {.large_clusters = true}));
  EXPECT_EQ(sets(), 2);
}

TEST(KernelLibraryTest, NeedBeyondTheDeviceIsAnInvalidArgument) {
  TestDevice device;
  COPPICE_ASSERT_OK_AND_ASSIGN(const KernelLibrary library,
                               KernelLibrary::Load(device.driver(), test_kernels_image));
  EXPECT_THAT(library.Get("Cube", {.shared_bytes = 256 * 1024}),
              StatusIs(kWrongArgument, HasSubstr("262144")));
}

}  // namespace
}  // namespace coppice
