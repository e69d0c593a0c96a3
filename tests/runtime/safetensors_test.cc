// Goal: tensors are found with dtype, shape and bytes, and a file that breaks the format is
// refused. Method: a file that PyPI's safetensors wrote, and files written here with one thing
// wrong.

#include "coppice/runtime/safetensors.h"

#include "tests/package/package_builder.h"
#include "tests/support/test.h"

namespace coppice::package {
namespace {

constexpr const char* kPython = COPPICE_PACKAGE_FIXTURES "/tensors.safetensors";

// A file with this header, of `length` bytes unless it is less than 0, and `data` bytes.
std::string FileOf(const std::string& header, size_t data, int64_t length = -1) {
  const uint64_t number = length < 0 ? header.size() : static_cast<uint64_t>(length);
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &number, 8);
  return bytes + header + std::string(data, 'd');
}

absl::Status StatusOfFile(const std::string& bytes) {
  return Safetensors::FromMemory(BytesOf(bytes), "test.safetensors").status();
}

template <typename Element>
std::string Bytes(std::initializer_list<Element> elements) {
  return std::string(reinterpret_cast<const char*>(elements.begin()),
                     elements.size() * sizeof(Element));
}

template <typename Element>
void ExpectElements(const Safetensors& file, const std::string& name, DType dtype) {
  COPPICE_ASSERT_OK_AND_ASSIGN(const SafeTensor tensor, file.Get(name));
  EXPECT_EQ(tensor.name, name);
  EXPECT_EQ(tensor.dtype, dtype) << name;
  EXPECT_THAT(tensor.shape, ElementsAre(3, 2)) << name;
  EXPECT_EQ(TextOf(tensor.bytes), Bytes<Element>({0, 1, 1, 0, 1, 1})) << name;
}

TEST(SafetensorsTest, ReadsWhatPythonWrites) {
  COPPICE_ASSERT_OK_AND_ASSIGN(const Safetensors file, Safetensors::Open(kPython));
  ExpectElements<float>(file, "float32", DType::kFloat32);
  ExpectElements<double>(file, "float64", DType::kFloat64);
  ExpectElements<bool>(file, "bool", DType::kBool);
  ExpectElements<int8_t>(file, "int8", DType::kInt8);
  ExpectElements<int16_t>(file, "int16", DType::kInt16);
  ExpectElements<int32_t>(file, "int32", DType::kInt32);
  ExpectElements<int64_t>(file, "int64", DType::kInt64);
  ExpectElements<uint8_t>(file, "uint8", DType::kUInt8);
  ExpectElements<uint16_t>(file, "uint16", DType::kUInt16);
  ExpectElements<uint32_t>(file, "uint32", DType::kUInt32);
  ExpectElements<uint64_t>(file, "uint64", DType::kUInt64);
  COPPICE_ASSERT_OK_AND_ASSIGN(const SafeTensor half, file.Get("float16"));
  EXPECT_EQ(TextOf(half.bytes), Bytes<uint16_t>({0, 0x3c00, 0x3c00, 0, 0x3c00, 0x3c00}));
  COPPICE_ASSERT_OK_AND_ASSIGN(const SafeTensor complex, file.Get("complex64"));
  EXPECT_EQ(complex.dtype, DType::kComplex64);
  EXPECT_EQ(TextOf(complex.bytes), Bytes<float>({0, 0, 1, 0, 1, 0, 0, 0, 1, 0, 1, 0}));
}

TEST(SafetensorsTest, ReadsTensorsWithoutDimensionsAndWithoutElements) {
  COPPICE_ASSERT_OK_AND_ASSIGN(const Safetensors file, Safetensors::Open(kPython));
  COPPICE_ASSERT_OK_AND_ASSIGN(const SafeTensor scalar, file.Get("scalar"));
  EXPECT_THAT(scalar.shape, IsEmpty());
  EXPECT_EQ(TextOf(scalar.bytes), Bytes<int32_t>({7}));
  COPPICE_ASSERT_OK_AND_ASSIGN(const SafeTensor empty, file.Get("empty"));
  EXPECT_THAT(empty.shape, ElementsAre(0, 4));
  EXPECT_THAT(empty.bytes, IsEmpty());
}

TEST(SafetensorsTest, NamesAreSortedAndOfAnyText) {
  COPPICE_ASSERT_OK_AND_ASSIGN(const Safetensors file, Safetensors::Open(kPython));
  const std::vector<std::string> names = file.names();
  EXPECT_THAT(names, SizeIs(16));
  EXPECT_TRUE(std::is_sorted(names.begin(), names.end()));
  EXPECT_OK(file.Get("\u00e9 \"quoted\""));
}

TEST(SafetensorsTest, ATensorThatIsNotThereIsNotFound) {
  COPPICE_ASSERT_OK_AND_ASSIGN(const Safetensors file, Safetensors::Open(kPython));
  EXPECT_THAT(file.Get("other"), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(file.Get("__metadata__"), StatusIs(absl::StatusCode::kNotFound));
}

TEST(SafetensorsTest, BytesAreInPlaceAndOutliveTheObjectsMove) {
  COPPICE_ASSERT_OK_AND_ASSIGN(Safetensors file, Safetensors::Open(kPython));
  COPPICE_ASSERT_OK_AND_ASSIGN(const SafeTensor before, file.Get("int8"));
  const Safetensors moved = std::move(file);
  COPPICE_ASSERT_OK_AND_ASSIGN(const SafeTensor after, moved.Get("int8"));
  EXPECT_EQ(before.bytes.data(), after.bytes.data());
  const std::string text = ReadBytes(kPython);
  COPPICE_ASSERT_OK_AND_ASSIGN(const Safetensors memory,
                               Safetensors::FromMemory(BytesOf(text), "memory"));
  COPPICE_ASSERT_OK_AND_ASSIGN(const SafeTensor inside, memory.Get("int8"));
  EXPECT_GT(reinterpret_cast<const char*>(inside.bytes.data()), text.data());
  EXPECT_LT(reinterpret_cast<const char*>(inside.bytes.data()), text.data() + text.size());
}

TEST(SafetensorsTest, AnUnknownDTypeIsAnErrorWhenItIsAskedFor) {
  const std::string bytes = FileOf(R"({"a":{"dtype":"F4","shape":[3],"data_offsets":[0,2]},)"
                                   R"("b":{"dtype":"U8","shape":[1],"data_offsets":[2,3]}})",
                                   3);
  COPPICE_ASSERT_OK_AND_ASSIGN(const Safetensors file,
                               Safetensors::FromMemory(BytesOf(bytes), "test.safetensors"));
  EXPECT_OK(file.Get("b"));
  EXPECT_THAT(file.Get("a"), StatusIs(absl::StatusCode::kUnimplemented));
}

TEST(SafetensorsTest, EveryTruncationIsRefused) {
  const std::string bytes = ReadBytes(kPython);
  for (size_t size = 0; size < bytes.size(); ++size)
    ASSERT_THAT(StatusOfFile(std::string(bytes.data(), size)), StatusIs(kWrongArgument)) << size;
  EXPECT_THAT(StatusOfFile(bytes + "x"), StatusIs(kWrongArgument));
}

TEST(SafetensorsTest, AMissingFileIsNotFound) {
  EXPECT_THAT(Safetensors::Open(std::string(kPython) + ".none"),
              StatusIs(absl::StatusCode::kNotFound));
}

TEST(SafetensorsTest, ErrorsSayWhichTensor) {
  const struct {
    const char* header;
    size_t data;
    const char* says;
  } kCases[] = {
      {"[]", 0, "not a JSON object"},
      {" {}", 0, "not a JSON object"},
      {"{", 0, "JSON"},
      {"{} x", 0, "JSON"},
      {R"({"a":3})", 0, "/a"},
      {R"({"a":{"dtype":"U8","shape":[1]}})", 1, "data_offsets"},
      {R"({"a":{"dtype":8,"shape":[1],"data_offsets":[0,1]}})", 1, "/a/dtype"},
      {R"({"a":{"dtype":"U8","shape":1,"data_offsets":[0,1]}})", 1, "/a/shape"},
      {R"({"a":{"dtype":"U8","shape":[-1],"data_offsets":[0,1]}})", 1, "/a/shape/0"},
      {R"({"a":{"dtype":"U8","shape":[1.0],"data_offsets":[0,1]}})", 1, "not a 64-bit integer"},
      {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0]}})", 1, "/a/data_offsets"},
      {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,2]}})", 1, "/a/data_offsets/1"},
      {R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[1,0]}})", 1, "/a/data_offsets/1"},
      {R"({"a":{"dtype":"U16","shape":[1],"data_offsets":[0,1]}})", 1, "/a: has 1 bytes"},
      {R"({"a":{"dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,0]}})", 0, "/a: "},
      {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", 2, "end at byte 1"},
      {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})", 2, "/a: begins at byte 1"},
      {R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
       R"("b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})",
       3, "/b: begins at byte 1"},
      {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
       R"("a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
       2, "\"a\" occurs twice"},
      {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"more":1}})", 1, "/a/more"},
  };
  for (const auto& each : kCases) {
    const absl::Status status = StatusOfFile(FileOf(each.header, each.data));
    EXPECT_THAT(status, StatusIs(kWrongArgument)) << each.header;
    EXPECT_THAT(MessageOf(status), HasSubstr("test.safetensors")) << each.header;
    EXPECT_THAT(MessageOf(status), HasSubstr(each.says)) << each.header;
  }
}

TEST(SafetensorsTest, AHeaderThatReachesBehindTheFileIsRefused) {
  EXPECT_THAT(StatusOfFile(FileOf("{}", 0, 3)), StatusIs(kWrongArgument));
  EXPECT_THAT(StatusOfFile(FileOf("{}", 0, INT64_MAX)), StatusIs(kWrongArgument));
}

TEST(SafetensorsTest, AFileWithoutTensorsHasNone) {
  const std::string bytes = FileOf("{\"__metadata__\":{}}   ", 0);
  COPPICE_ASSERT_OK_AND_ASSIGN(const Safetensors file,
                               Safetensors::FromMemory(BytesOf(bytes), "none"));
  EXPECT_THAT(file.names(), IsEmpty());
}

}  // namespace
}  // namespace coppice::package
