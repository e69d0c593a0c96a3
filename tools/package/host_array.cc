// Elements move one by one: files of a debugging tool are small.

#include "tools/package/host_array.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "fmt/format.h"
#include "fmt/ranges.h"

#include "coppice/base/float_format.h"
#include "coppice/base/status.h"

#include "tools/support/npy.h"
#include "tools/support/text_file.h"

namespace coppice {
namespace {

// How a file holds elements of a type.
struct FileForm {
  DType dtype;
  bool pairs;  // One more axis, of 2.
};

FileForm FormOf(DType dtype) {
  switch (dtype) {
    case DType::kBFloat16:
      return {DType::kUInt16, false};
    case DType::kFloat8E4M3:
    case DType::kFloat8E5M2:
      return {DType::kUInt8, false};
    case DType::kComplex64:
      return {DType::kFloat32, true};
    default:
      return {dtype, false};
  }
}

// The bits of a number as near to 0 as the format has one; what is too large becomes the largest.
uint64_t BitsOfNumber(double number, const FloatFormat& format) {
  const uint64_t sign = std::signbit(number) ? uint64_t{1} << format.sign_bit() : 0;
  int exponent = 0;
  const double fraction = std::frexp(std::fabs(number), &exponent);  // In [0.5, 1).
  const int biased = exponent - 1 + format.bias();
  if (fraction == 0 || biased < 1) return sign;
  const auto mantissa = static_cast<uint64_t>(std::ldexp(2 * fraction - 1, format.mantissa_bits));
  const uint64_t bits = (static_cast<uint64_t>(biased) << format.mantissa_bits) | mantissa;
  return sign | std::min(bits, format.overflow - 1);
}

uint64_t DrawBits(DType dtype, uint64_t word, double low, double high) {
  const double unit = static_cast<double>(word >> 11) * 0x1p-53;
  const double number = low + (high - low) * unit;
  if (const std::optional<FloatFormat> format = FloatFormat::Of(dtype))
    return BitsOfNumber(number, *format);
  return static_cast<uint64_t>(static_cast<int64_t>(std::floor(number)));
}

// Calls `visit(element of the array, offset in elements)` row by row.
template <typename Visit>
void ForEachElement(const Tensor& tensor, Visit visit) {
  const int64_t count = tensor.element_count();
  std::array<int64_t, kRankMax> index{};
  int64_t offset = 0;
  for (int64_t element = 0; element < count; ++element) {
    visit(element, offset);
    for (int axis = tensor.rank - 1; axis >= 0; --axis) {
      const auto at = static_cast<size_t>(axis);
      offset += tensor.strides[at];
      if (++index[at] < tensor.sizes[at]) break;
      offset -= tensor.strides[at] * tensor.sizes[at];
      index[at] = 0;
    }
  }
}

}  // namespace

absl::StatusOr<HostArray> ReadArray(const std::string& path, DType dtype) {
  COPPICE_ASSIGN_OR_RETURN(NpyArray file, ReadNpy(path));
  const FileForm form = FormOf(dtype);
  const bool pairs = !form.pairs || (!file.dims.empty() && file.dims.back() == 2);
  if (file.dtype != form.dtype || !pairs)
    return InvalidArgument("{}: the file holds {}, but {} is needed; save it as {}{}", path,
                           ShapeText(file.dtype, file.dims), NameOf(dtype), NameOf(form.dtype),
                           form.pairs ? " with a last axis of 2" : "");
  if (form.pairs) file.dims.pop_back();
  return HostArray{dtype, std::move(file.dims), std::move(file.bytes)};
}

absl::Status WriteArray(const std::string& path, const HostArray& array) {
  const FileForm form = FormOf(array.dtype);
  std::vector<int64_t> dims = array.dims;
  if (form.pairs) dims.push_back(2);
  const auto bytes = std::as_bytes(std::span(array.bytes.data(), array.bytes.size()));
  return WriteTextFile(path, FormatNpy(form.dtype, dims, bytes));
}

absl::StatusOr<HostArray> ZeroArray(DType dtype, std::span<const int64_t> dims) {
  COPPICE_ASSIGN_OR_RETURN(const int64_t bytes, NpyBytes(dtype, dims));
  return HostArray{dtype, {dims.begin(), dims.end()}, std::string(static_cast<size_t>(bytes), 0)};
}

absl::StatusOr<HostArray> DrawArray(DType dtype,
                                    std::span<const int64_t> dims,
                                    const DrawnRange& range) {
  COPPICE_ASSIGN_OR_RETURN(HostArray array, ZeroArray(dtype, dims));
  const double low = range.low.value_or(FloatFormat::Of(dtype) ? -1 : 0);
  const double high = range.high.value_or(FloatFormat::Of(dtype) ? 1 : 2);
  const DType part = dtype == DType::kComplex64 ? DType::kFloat32 : dtype;
  const auto size = static_cast<size_t>(SizeOf(part));
  for (size_t i = 0; i < array.bytes.size() / size; ++i) {
    const uint64_t bits = DrawBits(part, SplitMixWord(range.seed, i), low, high);
    std::memcpy(array.bytes.data() + i * size, &bits, size);
  }
  return array;
}

uint64_t SplitMixWord(uint64_t seed, uint64_t index) {
  uint64_t word = seed + (index + 1) * 0x9E3779B97F4A7C15U;
  word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9U;
  word = (word ^ (word >> 27)) * 0x94D049BB133111EBU;
  return word ^ (word >> 31);
}

std::string Spread(const HostArray& array, const Tensor& tensor) {
  const auto size = static_cast<size_t>(SizeOf(tensor.dtype));
  std::string bytes(static_cast<size_t>(tensor.span()) * size, 0);
  ForEachElement(tensor, [&](int64_t element, int64_t offset) {
    std::memcpy(bytes.data() + static_cast<size_t>(offset) * size,
                array.bytes.data() + static_cast<size_t>(element) * size, size);
  });
  return bytes;
}

HostArray Gather(std::span<const std::byte> bytes, const Tensor& tensor) {
  const auto size = static_cast<size_t>(SizeOf(tensor.dtype));
  HostArray array{tensor.dtype, {}, {}};
  array.dims.assign(tensor.sizes.begin(), tensor.sizes.begin() + tensor.rank);
  array.bytes.resize(static_cast<size_t>(tensor.element_count()) * size);
  ForEachElement(tensor, [&](int64_t element, int64_t offset) {
    std::memcpy(array.bytes.data() + static_cast<size_t>(element) * size,
                bytes.data() + static_cast<size_t>(offset) * size, size);
  });
  return array;
}

std::string ShapeText(DType dtype, std::span<const int64_t> dims) {
  return fmt::format("{} [{}]", NameOf(dtype), fmt::join(dims, ", "));
}

}  // namespace coppice
