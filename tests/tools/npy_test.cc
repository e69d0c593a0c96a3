// Goal: arrays go to .npy files and come back, as numpy writes and reads them, and nothing else is
// taken for one. Method: bytes that numpy wrote; round trips of every type; headers with one
// defect.

#include "tools/support/npy.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/support/status_matchers.h"
#include "tests/tools/trace_builder.h"

namespace coppice {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::span<const std::byte> ElementsOf(const std::string& text) {
  return std::as_bytes(std::span(text));
}

// A file with this header, ended by a line feed, and these elements.
std::string NpyFile(const std::string& header, const std::string& elements, int major = 1) {
  std::string file = std::string("\x93NUMPY") + static_cast<char>(major) + '\0';
  const size_t length = header.size() + 1;
  for (int i = 0; i < (major == 1 ? 2 : 4); ++i)
    file += static_cast<char>(length >> (8 * i) & 0xff);
  return file + header + "\n" + elements;
}

std::string NpyHeader(const std::string& type, const std::string& shape) {
  return fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': {}, }}", type, shape);
}

std::string NpyRefusal(const std::string& file) {
  const absl::StatusOr<NpyArray> array = ParseNpy(file);
  EXPECT_THAT(array, StatusIs(kWrongArgument));
  return MessageOf(array.status());
}

TEST(NpyTest, ReadsWhatNumpyWrote) {
  // numpy.save("x.npy", numpy.array([[1, 2, 3], [4, 5, 6]], "<i2")), of numpy 2.
  const std::string file = std::string("\x93NUMPY\x01\x00\x76\x00", 10) +
                           "{'descr': '<i2', 'fortran_order': False, 'shape': (2, 3), }" +
                           std::string(58, ' ') + "\n" +
                           std::string("\x01\x00\x02\x00\x03\x00\x04\x00\x05\x00\x06\x00", 12);
  COPPICE_ASSERT_OK_AND_ASSIGN(const NpyArray array, ParseNpy(file));
  EXPECT_EQ(array.dtype, DType::kInt16);
  EXPECT_THAT(array.dims, ElementsAre(2, 3));
  EXPECT_EQ(array.bytes, file.substr(128));
  EXPECT_EQ(FormatNpy(array.dtype, array.dims, ElementsOf(array.bytes)), file);
}

TEST(NpyTest, EveryTypeComesBack) {
  const DType types[] = {DType::kFloat16, DType::kFloat32, DType::kFloat64, DType::kBool,
                         DType::kInt8,    DType::kInt16,   DType::kInt32,   DType::kInt64,
                         DType::kUInt8,   DType::kUInt16,  DType::kUInt32,  DType::kUInt64};
  for (const DType dtype : types) {
    ASSERT_TRUE(HasNpyName(dtype)) << NameOf(dtype);
    std::string bytes;
    for (int64_t i = 0; i < 6 * SizeOf(dtype); ++i)
      bytes += static_cast<char>(i);
    const std::vector<int64_t> dims = {1, 2, 3};
    COPPICE_ASSERT_OK_AND_ASSIGN(const NpyArray array,
                                 ParseNpy(FormatNpy(dtype, dims, ElementsOf(bytes))));
    EXPECT_EQ(array.dtype, dtype) << NameOf(dtype);
    EXPECT_EQ(array.dims, dims);
    EXPECT_EQ(array.bytes, bytes);
  }
}

TEST(NpyTest, BFloat16GoesAsTheU16OfItsBits) {
  const std::string bytes("\x80\x3f\x00\x40", 4);
  const std::vector<int64_t> dims = {2};
  COPPICE_ASSERT_OK_AND_ASSIGN(const NpyArray array,
                               ParseNpy(FormatNpy(DType::kBFloat16, dims, ElementsOf(bytes))));
  EXPECT_EQ(array.dtype, DType::kUInt16);
  EXPECT_EQ(array.bytes, bytes);
}

TEST(NpyTest, OtherTypesHaveNoName) {
  for (const DType dtype : {DType::kComplex64, DType::kFloat8E4M3, DType::kFloat8E5M2})
    EXPECT_FALSE(HasNpyName(dtype)) << NameOf(dtype);
}

TEST(NpyTest, EveryShapeComesBackOnABoundaryOf64Bytes) {
  std::vector<int64_t> dims;
  for (int rank = 0; rank <= 64; ++rank) {
    const std::string file = FormatNpy(DType::kInt8, dims, ElementsOf("x"));
    EXPECT_EQ(file.size() % 64, 1) << rank;
    COPPICE_ASSERT_OK_AND_ASSIGN(const NpyArray array, ParseNpy(file));
    EXPECT_EQ(array.dims, dims);
    dims.push_back(1);
  }
  const std::vector<int64_t> none = {3, 0, 4};
  COPPICE_ASSERT_OK_AND_ASSIGN(const NpyArray empty,
                               ParseNpy(FormatNpy(DType::kFloat32, none, {})));
  EXPECT_EQ(empty.dims, none);
  EXPECT_THAT(empty.bytes, IsEmpty());
}

TEST(NpyTest, ReadsTheHeadersOfEveryFormat) {
  for (const int major : {1, 2, 3}) {
    COPPICE_ASSERT_OK_AND_ASSIGN(const NpyArray array,
                                 ParseNpy(NpyFile(NpyHeader("|u1", "(3,)"), "abc", major)));
    EXPECT_THAT(array.dims, ElementsAre(3)) << major;
    EXPECT_EQ(array.bytes, "abc") << major;
  }
}

TEST(NpyTest, KeysMayComeInAnyOrderAndQuotes) {
  for (const char* header : {R"({"shape": (1, 2), "fortran_order": False, "descr": "|i1"})",
                             "{'fortran_order':False,'descr':'|i1','shape':(1,2,),}   "}) {
    COPPICE_ASSERT_OK_AND_ASSIGN(const NpyArray array, ParseNpy(NpyFile(header, "ab")));
    EXPECT_THAT(array.dims, ElementsAre(1, 2)) << header;
  }
}

TEST(NpyTest, RefusesWhatIsNoFileOfTheFormat) {
  EXPECT_THAT(NpyRefusal(""), HasSubstr("not a .npy file"));
  EXPECT_THAT(NpyRefusal("PK\x03\x04"), HasSubstr("not a .npy file"));
  const std::string good = NpyFile(NpyHeader("|u1", "(3,)"), "abc");
  for (size_t size = 6; size < good.size() - 3; ++size)
    EXPECT_THAT(NpyRefusal(good.substr(0, size)), HasSubstr("ends within its header")) << size;
  for (const int major : {0, 4, 255})
    EXPECT_THAT(NpyRefusal(NpyFile(NpyHeader("|u1", "(3,)"), "abc", major)),
                HasSubstr("format version is"));
}

TEST(NpyTest, RefusesMoreAndFewerElementsThanTheShapeHas) {
  for (const char* elements : {"", "ab", "abcd"})
    EXPECT_THAT(NpyRefusal(NpyFile(NpyHeader("|u1", "(3,)"), elements)),
                HasSubstr("bytes of elements, but an array of type u8 and shape (3) takes 3"));
}

TEST(NpyTest, RefusesOrdersAndTypesThatItCannotRead) {
  EXPECT_THAT(NpyRefusal(NpyFile(NpyHeader(">f4", "(1,)"), "abcd")), HasSubstr("x.astype('<f4')"));
  for (const char* type : {"<c8", "|O", "<M8[s]", "=f4", "<f3", "", "|V2", "|S5", "<f16"})
    EXPECT_THAT(NpyRefusal(NpyFile(NpyHeader(type, "(1,)"), "abcd")), HasSubstr("its elements are"))
        << type;
  EXPECT_THAT(NpyRefusal(NpyFile(
                  "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }", "abcd")),
              HasSubstr("fields"));
  EXPECT_THAT(
      NpyRefusal(NpyFile("{'descr': '<f4', 'fortran_order': True, 'shape': (1, 1), }", "abcd")),
      HasSubstr("numpy.ascontiguousarray(x)"));
}

TEST(NpyTest, RefusesHeadersThatNumpyDoesNotWrite) {
  const char* const headers[] = {
      "",
      "{",
      "{}",
      "{'descr'",
      "{'descr': ",
      "{'descr': '|u1",
      "{'descr': 3, 'fortran_order': False, 'shape': (1,), }",
      "{'descr': '|u1', 'fortran_order': False}",
      "{'descr': '|u1', 'shape': (1,)}",
      "{'fortran_order': False, 'shape': (1,)}",
      "{'descr': '|u1', 'fortran_order': false, 'shape': (1,), }",
      "{'descr': '|u1', 'fortran_order': 0, 'shape': (1,), }",
      "{'descr': '|u1' 'fortran_order': False, 'shape': (1,), }",
      "{'descr': '|u1', 'descr': '|u1', 'fortran_order': False, 'shape': (1,), }",
      "{'descr': '|u1', 'fortran_order': False, 'shape': (1,), 'more': 1, }",
      "{'descr': '|u1', 'fortran_order': False, 'shape': (1,), } x",
      "{'descr': '|u1', 'fortran_order': False, 'shape': (1,), }\n",
      "{'descr': '|u1', 'fortran_order': False, 'shape': (1), }",
      "{'descr': '|u1', 'fortran_order': False, 'shape': 1, }",
      "{'descr': '|u1', 'fortran_order': False, 'shape': [1], }",
      "{'descr': '|u1', 'fortran_order': False, 'shape': (1, }",
      "{'descr': '|u1', 'fortran_order': False, 'shape': (1 1), }",
      "{'descr': '|u1', 'fortran_order': False, 'shape': (,), }",
      "{'descr': '|u1', 'fortran_order': False, 'shape': (-1,), }",
      "{'descr': '|u1', 'fortran_order': False, 'shape': (1L,), }",
      "{'descr': '|u1', 'fortran_order': False, 'shape': (1.0,), }",
      "{'descr': '|u1', 'fortran_order': False, 'shape': (9223372036854775808,), }",
  };
  for (const char* header : headers)
    EXPECT_THAT(NpyRefusal(NpyFile(header, "x")), HasSubstr("its header")) << header;
}

TEST(NpyTest, RefusesMoreDimensionsThanNumpyHas) {
  std::string shape = "(";
  for (int i = 0; i < 65; ++i)
    shape += "1, ";
  EXPECT_THAT(NpyRefusal(NpyFile(NpyHeader("|u1", shape + ")"), "x")), HasSubstr("64 extents"));
}

TEST(NpyTest, WhateverAByteOfTheHeaderBecomesTheFileIsReadOrRefused) {
  const std::string good = NpyFile(NpyHeader("<i2", "(2, 3)"), "twelve bytes");
  COPPICE_ASSERT_OK_AND_ASSIGN(const NpyArray array, ParseNpy(good));
  for (size_t i = 0; i + 12 < good.size(); ++i) {
    for (int value = 0; value < 256; ++value) {
      std::string file = good;
      file[i] = static_cast<char>(value);
      const absl::StatusOr<NpyArray> read = ParseNpy(file);
      if (!read.ok()) continue;
      EXPECT_EQ(read->bytes, array.bytes) << i << " " << value;
    }
  }
}

TEST(NpyTest, SizesAreNeverMoreThanAFileMayHave) {
  EXPECT_EQ(NpyBytes(DType::kFloat32, std::vector<int64_t>{2, 3}).value_or(-1), 24);
  EXPECT_EQ(NpyBytes(DType::kFloat64, {}).value_or(-1), 8);
  EXPECT_EQ(NpyBytes(DType::kInt8, std::vector<int64_t>{kNpyBytesMax}).value_or(-1), kNpyBytesMax);
  EXPECT_THAT(NpyBytes(DType::kInt8, std::vector<int64_t>{kNpyBytesMax + 1}),
              StatusIs(kWrongArgument));
  EXPECT_THAT(NpyBytes(DType::kInt8, std::vector<int64_t>{-1}), StatusIs(kWrongArgument));
  const int64_t huge = int64_t{1} << 32;
  EXPECT_THAT(NpyBytes(DType::kInt8, std::vector<int64_t>{huge, huge, huge}),
              StatusIs(kWrongArgument));
  EXPECT_EQ(NpyBytes(DType::kInt8, std::vector<int64_t>{huge, huge, 0}).value_or(-1), 0);
  EXPECT_THAT(NpyRefusal(NpyFile(NpyHeader("|u1", "(4294967296, 4294967296)"), "")),
              HasSubstr("1 GiB"));
}

TEST(NpyTest, ErrorsOfFilesNameThem) {
  const TemporaryFile good(NpyFile(NpyHeader("|u1", "(3,)"), "abc"), "good.npy");
  COPPICE_ASSERT_OK_AND_ASSIGN(const NpyArray array, ReadNpy(good.path()));
  EXPECT_EQ(array.bytes, "abc");
  const TemporaryFile bad("text", "bad.npy");
  const absl::StatusOr<NpyArray> refused = ReadNpy(bad.path());
  EXPECT_THAT(refused, StatusIs(kWrongArgument));
  EXPECT_THAT(MessageOf(refused.status()), HasSubstr(bad.path() + ": "));
  EXPECT_THAT(ReadNpy(good.path() + ".none"), StatusIs(kWrongArgument));
  EXPECT_THAT(ReadNpy(testing::TempDir()), StatusIs(kWrongArgument));
}

TEST(NpyDeathTest, WhatIsWrittenFitsItsShape) {
  const std::vector<int64_t> dims = {2};
  EXPECT_DEATH(FormatNpy(DType::kInt8, dims, ElementsOf("abc")), "the number of bytes must match");
  EXPECT_DEATH(FormatNpy(DType::kComplex64, {}, ElementsOf("12345678")), "no name");
  const std::vector<int64_t> many(65, 1);
  EXPECT_DEATH(FormatNpy(DType::kInt8, many, ElementsOf("x")), "dimensions");
}

}  // namespace
}  // namespace coppice
