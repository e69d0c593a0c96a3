// Goal: an image of device code is told by how it starts, and one that was cut off is found out.
// Method: headers built by hand, and the fatbin of the test kernels where nvcc made one.

#include "runtime/device_image.h"

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gtest/gtest.h"

#include "coppice/runtime/kernel_image.h"

#include "tests/support/status_matchers.h"
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

}  // namespace
}  // namespace coppice::internal
