// The header is a dictionary of Python: read token by token, with nothing but what numpy writes.

#include "tools/support/npy.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

#include "fmt/format.h"
#include "fmt/ranges.h"

#include "coppice/base/check.h"
#include "coppice/base/status.h"

#include "tools/support/text_file.h"

namespace coppice {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr size_t kAlignment = 64;  // Of the elements in a file.
constexpr size_t kDimensionsMax = 64;

struct NpyType {
  std::string_view name;
  DType dtype;
};

// The first of each DType is the one that is written.
constexpr std::array<NpyType, 13> kNpyTypes = {{{"<f4", DType::kFloat32},
                                                {"<f2", DType::kFloat16},
                                                {"<f8", DType::kFloat64},
                                                {"|b1", DType::kBool},
                                                {"|i1", DType::kInt8},
                                                {"<i2", DType::kInt16},
                                                {"<i4", DType::kInt32},
                                                {"<i8", DType::kInt64},
                                                {"|u1", DType::kUInt8},
                                                {"<u2", DType::kUInt16},
                                                {"<u4", DType::kUInt32},
                                                {"<u8", DType::kUInt64},
                                                {"<u2", DType::kBFloat16}}};

const NpyType* FindType(DType dtype) {
  const auto* const found = std::find_if(kNpyTypes.begin(), kNpyTypes.end(),
                                         [&](const NpyType& type) { return type.dtype == dtype; });
  return found == kNpyTypes.end() ? nullptr : found;
}

absl::StatusOr<DType> ParseType(std::string_view name) {
  for (const NpyType& type : kNpyTypes)
    if (type.name == name) return type.dtype;
  if (name.starts_with('>'))
    return InvalidArgument("its elements are big-endian ({}); save it with x.astype({})",
                           Quote(name), Quote(fmt::format("<{}", name.substr(1))));
  return InvalidArgument(
      "its elements are {}; save bool, integers of 8 to 64 bits, float16, float32 or float64, and "
      "other types of 16 bits as x.view('u2')",
      Quote(name));
}

class HeaderReader {
 public:
  explicit HeaderReader(std::string_view text) : rest_(text) {}

  absl::StatusOr<NpyArray> Read() {
    NpyArray array;
    COPPICE_RETURN_IF_ERROR(Take('{'));
    while (!TakeIf('}')) {
      COPPICE_RETURN_IF_ERROR(ReadEntry());
      if (!TakeIf(',') && !StartsWith('}')) return Unexpected("',' or '}'");
    }
    if (!dtype_ || !fortran_order_ || !shape_)
      return InvalidArgument("its header lacks descr, fortran_order or shape; save it with numpy");
    Skip();
    if (rest_ != "\n") return Unexpected("spaces and a line feed");
    if (*fortran_order_)
      return InvalidArgument(
          "the array is column-major (fortran_order); save numpy.ascontiguousarray(x)");
    array.dtype = *dtype_;
    array.dims = *std::move(shape_);
    return array;
  }

 private:
  absl::Status ReadEntry() {
    COPPICE_ASSIGN_OR_RETURN(const std::string_view key, ReadText());
    COPPICE_RETURN_IF_ERROR(Take(':'));
    if (key == "descr" && !dtype_) return ReadType();
    if (key == "fortran_order" && !fortran_order_) return ReadOrder();
    if (key == "shape" && !shape_) return ReadShape();
    return InvalidArgument(
        "its header has an unknown or repeated {}; save it with numpy, which writes descr, "
        "fortran_order and "
        "shape once",
        Quote(key));
  }

  absl::Status ReadType() {
    if (StartsWith('['))
      return InvalidArgument("its elements have fields; save each field as an array of its own");
    COPPICE_ASSIGN_OR_RETURN(const std::string_view name, ReadText());
    COPPICE_ASSIGN_OR_RETURN(dtype_, ParseType(name));
    return absl::OkStatus();
  }

  absl::Status ReadOrder() {
    Skip();
    for (const bool order : {false, true}) {
      const std::string_view word = order ? "True" : "False";
      if (!rest_.starts_with(word)) continue;
      rest_.remove_prefix(word.size());
      fortran_order_ = order;
      return absl::OkStatus();
    }
    return Unexpected("True or False");
  }

  absl::Status ReadShape() {
    std::vector<int64_t> dims;
    COPPICE_RETURN_IF_ERROR(Take('('));
    bool comma = true;  // Behind the last extent.
    while (!TakeIf(')')) {
      int64_t extent = 0;
      const char* const first = rest_.data();
      const auto [end, error] = std::from_chars(first, first + rest_.size(), extent);
      // (3) is a number, not a shape.
      if (error != std::errc() || extent < 0 || !comma || dims.size() == kDimensionsMax)
        return Unexpected(fmt::format("a shape of at most {} extents below 2^63", kDimensionsMax));
      rest_.remove_prefix(static_cast<size_t>(end - first));
      dims.push_back(extent);
      comma = TakeIf(',');
      Skip();
    }
    if (dims.size() == 1 && !comma) return Unexpected("',' after the only extent of a shape");
    shape_ = std::move(dims);
    return absl::OkStatus();
  }

  absl::StatusOr<std::string_view> ReadText() {
    const char quote = StartsWith('"') ? '"' : '\'';
    COPPICE_RETURN_IF_ERROR(Take(quote));
    const size_t end = rest_.find(quote);
    if (end == std::string_view::npos) return Unexpected("a text in quotes");
    const std::string_view text = rest_.substr(0, end);
    rest_.remove_prefix(end + 1);
    return text;
  }

  void Skip() { rest_.remove_prefix(std::min(rest_.find_first_not_of(' '), rest_.size())); }
  bool StartsWith(char c) {
    Skip();
    return rest_.starts_with(c);
  }
  bool TakeIf(char c) {
    if (!StartsWith(c)) return false;
    rest_.remove_prefix(1);
    return true;
  }
  absl::Status Take(char c) {
    return TakeIf(c) ? absl::OkStatus() : Unexpected(fmt::format("'{}'", c));
  }
  absl::Status Unexpected(const std::string& wanted) const {
    return InvalidArgument("its header has {} where {} belongs; save it with numpy", Quote(rest_),
                           wanted);
  }

  std::string_view rest_;
  std::optional<DType> dtype_;
  std::optional<bool> fortran_order_;
  std::optional<std::vector<int64_t>> shape_;
};

// Takes the magic, the version and the length off `content`, and returns the header.
absl::StatusOr<std::string_view> TakeHeader(std::string_view& content) {
  if (!content.starts_with(kMagic))
    return InvalidArgument("this is not a .npy file; save the array with numpy.save");
  constexpr auto kCut = "the file ends within its header; save it again";
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(content[i]); };
  if (content.size() < kMagic.size() + 2) return InvalidArgument(kCut);
  const int major = byte(kMagic.size());
  const int minor = byte(kMagic.size() + 1);
  if (major < 1 || major > 3 || minor != 0)
    return InvalidArgument("its format version is {}.{}; save it as version 1.0, 2.0 or 3.0", major,
                           minor);
  const size_t width = major == 1 ? 2 : 4;
  const size_t first = kMagic.size() + 2;
  if (content.size() < first + width) return InvalidArgument(kCut);
  size_t length = 0;
  for (size_t i = 0; i < width; ++i)
    length |= size_t{byte(first + i)} << (8 * i);
  content.remove_prefix(first + width);
  if (content.size() < length) return InvalidArgument(kCut);
  const std::string_view header = content.substr(0, length);
  content.remove_prefix(length);
  return header;
}

}  // namespace

absl::StatusOr<int64_t> NpyBytes(DType dtype, std::span<const int64_t> dims) {
  int64_t bytes = SizeOf(dtype);
  bool overflow = false;
  for (const int64_t extent : dims) {
    if (extent < 0) return InvalidArgument("an extent is {}; give 0 or more", extent);
    overflow |= __builtin_mul_overflow(bytes, std::max(extent, int64_t{1}), &bytes);
  }
  if (std::find(dims.begin(), dims.end(), 0) != dims.end()) return 0;
  if (overflow || bytes > kNpyBytesMax)
    return InvalidArgument(
        "an array of type {} and shape {} takes more than 1 GiB; give a smaller shape",
        NameOf(dtype), fmt::join(dims, "x"));
  return bytes;
}

absl::StatusOr<NpyArray> ParseNpy(std::string_view content) {
  COPPICE_ASSIGN_OR_RETURN(const std::string_view header, TakeHeader(content));
  COPPICE_ASSIGN_OR_RETURN(NpyArray array, HeaderReader(header).Read());
  COPPICE_ASSIGN_OR_RETURN(const int64_t bytes, NpyBytes(array.dtype, array.dims));
  if (std::ssize(content) != bytes)
    return InvalidArgument(
        "it has {} bytes of elements, but an array of type {} and shape ({}) takes {}; save it "
        "again",
        content.size(), NameOf(array.dtype), fmt::join(array.dims, ", "), bytes);
  array.bytes = std::string(content);
  return array;
}

absl::StatusOr<NpyArray> ReadNpy(const std::string& path) {
  COPPICE_ASSIGN_OR_RETURN(const std::string content,
                           ReadTextFile(path, "an array in a .npy file"));
  absl::StatusOr<NpyArray> array = ParseNpy(content);
  if (!array.ok()) return InvalidArgument("{}: {}", path, MessageOf(array.status()));
  return array;
}

bool HasNpyName(DType dtype) {
  return FindType(dtype) != nullptr;
}

std::string FormatNpy(DType dtype,
                      std::span<const int64_t> dims,
                      std::span<const std::byte> bytes) {
  const NpyType* const type = FindType(dtype);
  COPPICE_CHECK(type != nullptr, "the format has no name for the type");
  COPPICE_CHECK(dims.size() <= kDimensionsMax, "there are too many dimensions");
  const absl::StatusOr<int64_t> wanted = NpyBytes(dtype, dims);
  COPPICE_CHECK(wanted.ok() && *wanted == std::ssize(bytes),
                "the number of bytes must match the shape");
  std::string header = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}{}), }}",
                                   type->name, fmt::join(dims, ", "), dims.size() == 1 ? "," : "");
  const size_t before = kMagic.size() + 4;
  const size_t end = (before + header.size() + 1 + kAlignment - 1) / kAlignment * kAlignment;
  header.resize(end - before - 1, ' ');
  header += '\n';
  std::string content(kMagic);
  content += {'\x01', '\x00', static_cast<char>(header.size() & 0xff),
              static_cast<char>(header.size() >> 8)};
  content += header;
  content.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return content;
}

}  // namespace coppice
