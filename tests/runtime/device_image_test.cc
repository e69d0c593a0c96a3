// Goal: an image of device code is told by how it starts, and one that was cut off is found out.
// Method: headers built by hand, and the fatbin of the test kernels where nvcc made one.

#include "runtime/device_image.h"

#include "coppice/runtime/kernel_image.h"

#include "tests/support/test.h"
#include "tests/support/test_kernels.h"

namespace coppice::internal {
namespace {

using Bytes = std::vector<std::byte>;

template <typename T>
void Put(Bytes& bytes, size_t offset, T value) {
  std::memcpy(bytes.data() + offset, &value, sizeof(value));
}

// A cubin of one section table and one segment table, each of 2 entries, the latter at the end.
Bytes Cubin() {
  constexpr size_t kSections = 64;
  constexpr size_t kSegments = kSections + 2 * 64;
  Bytes bytes(kSegments + 2 * 56);
  std::memcpy(bytes.data(), "\x7f\x45LF", 4);
  Put<uint16_t>(bytes, 18, 190);
  Put<uint64_t>(bytes, 32, kSegments);
  Put<uint64_t>(bytes, 40, kSections);
  Put<uint16_t>(bytes, 54, 56);
  Put<uint16_t>(bytes, 56, 2);
  Put<uint16_t>(bytes, 58, 64);
  Put<uint16_t>(bytes, 60, 2);
  return bytes;
}

Bytes Fatbin() {
  Bytes bytes(16 + 100);
  Put<uint32_t>(bytes, 0, 0xBA55ED50);
  Put<uint16_t>(bytes, 6, 16);
  Put<uint64_t>(bytes, 8, 100);
  return bytes;
}

Bytes Text(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

void ExpectKind(const Bytes& image, DeviceImageKind kind) {
  COPPICE_ASSERT_OK_AND_ASSIGN(const DeviceImageKind found, ClassifyDeviceImage(image));
  EXPECT_EQ(found, kind);
}

// `image` is whole, and no shorter piece of it is.
void ExpectWhole(const Bytes& image, DeviceImageKind kind) {
  ExpectKind(image, kind);
  for (size_t size = 0; size < image.size(); ++size)
    EXPECT_THAT(ClassifyDeviceImage(std::span(image).first(size)), StatusIs(kWrongArgument))
        << size;
}

TEST(DeviceImageTest, CubinEndsWhereItsTablesDo) {
  ExpectWhole(Cubin(), DeviceImageKind::kCubin);
}

TEST(DeviceImageTest, CubinMayEndBehindItsTables) {
  Bytes cubin = Cubin();
  cubin.resize(cubin.size() + 100);
  ExpectKind(cubin, DeviceImageKind::kCubin);
}

TEST(DeviceImageTest, ProgramOfTheHostIsNoCubin) {
  Bytes program = Cubin();
  Put<uint16_t>(program, 18, 62);
  EXPECT_THAT(ClassifyDeviceImage(program), StatusIs(kWrongArgument));
}

TEST(DeviceImageTest, FatbinEndsWhereItsHeaderSays) {
  ExpectWhole(Fatbin(), DeviceImageKind::kFatbin);
}

TEST(DeviceImageTest, SizesThatAreTooLargeForAnyImageAreRefused) {
  Bytes fatbin = Fatbin();
  Put<uint64_t>(fatbin, 8, UINT64_MAX - 15);
  EXPECT_THAT(ClassifyDeviceImage(fatbin), StatusIs(kWrongArgument));
  Bytes cubin = Cubin();
  Put<uint64_t>(cubin, 40, UINT64_MAX - 127);
  EXPECT_THAT(ClassifyDeviceImage(cubin), StatusIs(kWrongArgument));
}

TEST(DeviceImageTest, FatbinOfNvccIsOne) {
  if (test_kernels_image.fatbin == nullptr) GTEST_SKIP() << "built without nvcc: no fatbin";
  const auto* const first = static_cast<const std::byte*>(test_kernels_image.fatbin);
  uint16_t header = 0;
  uint64_t body = 0;
  std::memcpy(&header, first + 6, sizeof(header));
  std::memcpy(&body, first + 8, sizeof(body));
  const std::span<const std::byte> image(first, header + body);
  COPPICE_ASSERT_OK_AND_ASSIGN(const DeviceImageKind kind, ClassifyDeviceImage(image));
  EXPECT_EQ(kind, DeviceImageKind::kFatbin);
  EXPECT_THAT(ClassifyDeviceImage(image.first(image.size() - 1)), StatusIs(kWrongArgument));
}

TEST(DeviceImageTest, TextWithDirectivesIsPtx) {
  ExpectKind(Text("// A comment\n.version 8.3\n.target sm_90a\n"), DeviceImageKind::kPtx);
  ExpectKind(Text(std::string_view(".version 8.3\n.target sm_80\n\0", 28)), DeviceImageKind::kPtx);
}

TEST(DeviceImageTest, WhatIsNoneOfThemIsRefused) {
  const std::string_view nul_inside(".version 8.3\n\0.target sm_80\n", 28);
  for (const Bytes& image : {Bytes(), Bytes(3), Bytes(100), Text("this is not a program"),
                             Text(".version 8.3\n"), Text(nul_inside), Text("CoceImg1 and more")})
    EXPECT_THAT(ClassifyDeviceImage(image), StatusIs(kWrongArgument));
  Bytes wrapper(24);
  Put<uint32_t>(wrapper, 0, 0x466243B1);
  EXPECT_THAT(ClassifyDeviceImage(wrapper), StatusIs(kWrongArgument));
}

TEST(DeviceImageTest, KindsHaveNames) {
  EXPECT_STREQ(NameOf(DeviceImageKind::kCubin), "a cubin");
  EXPECT_STREQ(NameOf(DeviceImageKind::kFatbin), "a fatbin");
  EXPECT_STREQ(NameOf(DeviceImageKind::kPtx), "PTX");
}

// An entry of a fatbin: what it is, for which architecture, with which flags, and its bytes.
struct FatbinEntry {
  uint16_t kind = 1;  // PTX; 2: a cubin.
  uint32_t architecture = 80;
  uint64_t flags = 0x11;
  std::string_view bytes = ".version 7.0";
};

Bytes FatbinOf(const std::vector<FatbinEntry>& entries) {
  constexpr size_t kEntryHeaderBytes = 80;
  Bytes fatbin(16);
  Put<uint32_t>(fatbin, 0, 0xBA55ED50);
  Put<uint16_t>(fatbin, 6, 16);
  for (const FatbinEntry& entry : entries) {
    const size_t begin = fatbin.size();
    const size_t padded = (entry.bytes.size() + 7) / 8 * 8;
    fatbin.resize(begin + kEntryHeaderBytes + padded);
    Put<uint16_t>(fatbin, begin, entry.kind);
    Put<uint32_t>(fatbin, begin + 4, kEntryHeaderBytes);
    Put<uint64_t>(fatbin, begin + 8, padded);
    Put<uint32_t>(fatbin, begin + 28, entry.architecture);
    Put<uint64_t>(fatbin, begin + 40, entry.flags);
    std::memcpy(fatbin.data() + begin + kEntryHeaderBytes, entry.bytes.data(), entry.bytes.size());
  }
  Put<uint64_t>(fatbin, 8, fatbin.size() - 16);
  return fatbin;
}

TEST(FindPtxTest, TakesTheNewestThatTheDeviceTakes) {
  const Bytes fatbin = FatbinOf({{.architecture = 80, .bytes = "old"},
                                 {.architecture = 90, .bytes = "too new"},
                                 {.architecture = 89, .bytes = "right"},
                                 {.kind = 2, .architecture = 89, .bytes = "a cubin"},
                                 {.architecture = 75, .bytes = "older"}});
  COPPICE_ASSERT_OK_AND_ASSIGN(const std::string_view found, FindPtx(fatbin, 89));
  EXPECT_EQ(found, "right");
  COPPICE_ASSERT_OK_AND_ASSIGN(const std::string_view newer, FindPtx(fatbin, 90));
  EXPECT_EQ(newer, "too new");
}

TEST(FindPtxTest, SaysWhyThereIsNone) {
  EXPECT_THAT(
      FindPtx(FatbinOf({{.kind = 2}, {.architecture = 90}}), 89),
      StatusIs(absl::StatusCode::kNotFound, HasSubstr("any PTX for compute capability 8.9")));
  for (const uint64_t compressed : {0x2011, 0x8011}) {
    EXPECT_THAT(FindPtx(FatbinOf({{.flags = compressed}}), 89),
                StatusIs(absl::StatusCode::kNotFound, HasSubstr("--no-compress")));
  }
}

TEST(FindPtxTest, EntriesEndInsideTheFatbin) {
  const Bytes whole = FatbinOf({{.bytes = "0123456789"}});
  for (size_t bytes = 17; bytes < whole.size(); ++bytes)
    EXPECT_THAT(FindPtx(std::span(whole).first(bytes), 89), StatusIs(kWrongArgument)) << bytes;
  Bytes endless = whole;
  Put<uint64_t>(endless, 16 + 8, UINT64_MAX);
  EXPECT_THAT(FindPtx(endless, 89), StatusIs(kWrongArgument));
  Bytes empty = whole;
  Put<uint32_t>(empty, 16 + 4, 0);
  EXPECT_THAT(FindPtx(empty, 89), StatusIs(kWrongArgument));
}

TEST(FindPtxTest, FindsThatOfTheTestKernels) {
  if (test_kernels_image.fatbin == nullptr) GTEST_SKIP() << "built without nvcc: no fatbin";
  const std::span fatbin(static_cast<const std::byte*>(test_kernels_image.fatbin),
                         FatbinBytes(test_kernels_image.fatbin));
  COPPICE_ASSERT_OK_AND_ASSIGN(const std::string_view text, FindPtx(fatbin, 90));
  EXPECT_THAT(std::string(text), HasSubstr(".entry Store("));
}

TEST(FatbinBytesTest, AreThoseOfItsHeaderOrNone) {
  const Bytes fatbin = FatbinOf({{}});
  EXPECT_EQ(FatbinBytes(fatbin.data()), fatbin.size());
  EXPECT_EQ(FatbinBytes(Cubin().data()), 0U);
}

}  // namespace
}  // namespace coppice::internal
