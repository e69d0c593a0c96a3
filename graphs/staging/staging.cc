// Staging: bit patterns of padding, the description of one copy, and the launch.

#include "coppice/graphs/staging.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <optional>

#include "coppice/base/check.h"
#include "coppice/base/status.h"
#include "coppice/runtime/stream.h"

namespace coppice {

extern const KernelImage staging_image;  // kernels/staging.cu.

namespace {

using SmallStagingParams = StagingParamsOf<kSmallStagingCopies>;

static_assert(kStagingRank == kRankMax);
static_assert(kLargeStagingCopies == kCopyInputsMax);
static_assert(kParameterWordsMax == kSymbolsMax + kScalarsMax + 2);

// The small kernel's parameters are a prefix of the large one's, so both launch from one struct.
static_assert(offsetof(SmallStagingParams, header) == offsetof(StagingParams, header));
static_assert(offsetof(SmallStagingParams, copies) == offsetof(StagingParams, copies));
static_assert(sizeof(SmallStagingParams) ==
              offsetof(StagingParams, copies) + kSmallStagingCopies * sizeof(StagedCopy));

// A binary float: what lies above the largest finite number, and what stands for no number.
struct FloatFormat {
  int exponent_bits;
  int mantissa_bits;
  uint64_t overflow;
  uint64_t nan;
};

constexpr FloatFormat Ieee(int exponent_bits, int mantissa_bits) {
  const uint64_t infinity = ((uint64_t{1} << exponent_bits) - 1) << mantissa_bits;
  return {exponent_bits, mantissa_bits, infinity, infinity | uint64_t{1} << (mantissa_bits - 1)};
}

// Its last exponent holds numbers, and all ones are NaN (OCP 8-bit floating point, 1.0).
constexpr FloatFormat kE4M3 = {4, 3, 0x7F, 0x7F};

// Nothing for what is no float.
std::optional<FloatFormat> FormatOf(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
    case DType::kComplex64:  // Of each part.
      return Ieee(8, 23);
    case DType::kFloat16:
      return Ieee(5, 10);
    case DType::kBFloat16:
      return Ieee(8, 7);
    case DType::kFloat64:
      return Ieee(11, 52);
    case DType::kFloat8E5M2:
      return Ieee(5, 2);
    case DType::kFloat8E4M3:
      return kE4M3;
    default:
      return std::nullopt;
  }
}

// `value` rounded to the nearest of the format, ties to even.
uint64_t FloatPattern(double value, const FloatFormat& format) {
  const int bias = (1 << (format.exponent_bits - 1)) - 1;
  const uint64_t sign = uint64_t{std::signbit(value)}
                        << (format.exponent_bits + format.mantissa_bits);
  if (std::isnan(value)) return sign | format.nan;
  if (std::isinf(value)) return sign | format.overflow;
  const double magnitude = std::fabs(value);
  // Subnormals share the smallest exponent. The implicit bit of a normal number is part of
  // `last_places` and carries into the exponent field, and so does rounding up.
  const int exponent = std::max(std::ilogb(magnitude), 1 - bias);
  const double last_places = std::nearbyint(std::ldexp(magnitude, format.mantissa_bits - exponent));
  // Far beyond the range a pattern would not fit its field.
  if (exponent > bias + 1) return sign | format.overflow;
  const uint64_t pattern = (static_cast<uint64_t>(exponent + bias - 1) << format.mantissa_bits) +
                           static_cast<uint64_t>(last_places);
  return sign | std::min(pattern, format.overflow);
}

// `value` rounded to the nearest integer, ties to even, and held to the range of Integer.
template <typename Integer>
uint64_t IntegerPattern(double value) {
  using Limits = std::numeric_limits<Integer>;
  // The first power of two above the range is a double even where its largest integer is not.
  const double end = std::ldexp(1.0, Limits::digits);
  const double rounded = std::nearbyint(value);
  Integer integer = 0;
  if (rounded >= end)
    integer = Limits::max();
  else if (rounded <= static_cast<double>(Limits::min()))
    integer = Limits::min();
  else if (!std::isnan(rounded))
    integer = static_cast<Integer>(rounded);
  return static_cast<uint64_t>(integer);
}

// The bits of `pattern` that one element has.
uint64_t Truncate(uint64_t pattern, DType dtype) {
  return pattern & ~uint64_t{0} >> (64 - 8 * SizeOf(dtype));
}

uint64_t ValuePattern(double value, DType dtype) {
  if (const std::optional<FloatFormat> format = FormatOf(dtype))
    return FloatPattern(value, *format);  // A complex number's other part is 0.
  switch (dtype) {
    case DType::kBool:
      return value != 0 ? 1 : 0;
    case DType::kInt8:
      return Truncate(IntegerPattern<int8_t>(value), dtype);
    case DType::kInt16:
      return Truncate(IntegerPattern<int16_t>(value), dtype);
    case DType::kInt32:
      return Truncate(IntegerPattern<int32_t>(value), dtype);
    case DType::kInt64:
      return IntegerPattern<int64_t>(value);
    case DType::kUInt8:
      return IntegerPattern<uint8_t>(value);
    case DType::kUInt16:
      return IntegerPattern<uint16_t>(value);
    case DType::kUInt32:
      return IntegerPattern<uint32_t>(value);
    case DType::kUInt64:
      return IntegerPattern<uint64_t>(value);
    default:
      return 0;
  }
}

StagedCopy::Padding PaddingOf(const Fill& fill) {
  switch (fill.kind) {
    case Fill::Kind::kRepeatLast:
      return StagedCopy::kRepeatLast;
    case Fill::Kind::kUndefined:
      return StagedCopy::kSkip;
    case Fill::Kind::kZero:
    case Fill::Kind::kValue:
    case Fill::Kind::kSentinel:
      return StagedCopy::kFill;
  }
  return StagedCopy::kFill;
}

}  // namespace

uint64_t FillPattern(const Fill& fill, DType dtype) {
  switch (fill.kind) {
    case Fill::Kind::kValue:
      return ValuePattern(fill.value, dtype);
    case Fill::Kind::kSentinel:
      return dtype == DType::kBool ? 1 : Truncate(~uint64_t{0}, dtype);
    case Fill::Kind::kZero:
    case Fill::Kind::kRepeatLast:
    case Fill::Kind::kUndefined:
      return 0;
  }
  return 0;
}

uint64_t PoisonPattern(Poison poison, DType dtype) {
  switch (poison) {
    case Poison::kOff:
      return 0;
    case Poison::kNan:
      if (const std::optional<FloatFormat> format = FormatOf(dtype))
        return dtype == DType::kComplex64 ? format->nan << 32 | format->nan : format->nan;
      return uint64_t{1} << (8 * SizeOf(dtype) - 1);
    case Poison::kPattern:
      return Truncate(0x5A5A'5A5A'5A5A'5A5A, dtype);
  }
  return 0;
}

StagedCopy MakeStagedCopy(const Tensor& source, const Tensor& target, const Fill& fill) {
  COPPICE_CHECK(source.dtype == target.dtype, "staging converts no dtype");
  COPPICE_CHECK(source.rank == target.rank, "staging changes no rank");
  StagedCopy copy;
  copy.source = source.data;
  copy.target = target.data;
  for (int axis = 0; axis < source.rank; ++axis) {
    const auto from = static_cast<size_t>(axis);
    const int to = kStagingRank - source.rank + axis;
    COPPICE_CHECK(source.sizes[from] <= target.sizes[from], "the source is larger than its place");
    copy.sizes[to] = source.sizes[from];
    copy.padded[to] = target.sizes[from];
    copy.strides[to] = source.strides[from];
  }
  copy.fill = FillPattern(fill, source.dtype);
  copy.tiles = TilesFor(target.element_count());
  copy.element_bytes = static_cast<int32_t>(SizeOf(source.dtype));
  copy.padding = PaddingOf(fill);
  return copy;
}

absl::StatusOr<StagingKernels> StagingKernels::Load(const Driver& driver) {
  COPPICE_ASSIGN_OR_RETURN(KernelLibrary library, KernelLibrary::Load(driver, staging_image));
  COPPICE_ASSIGN_OR_RETURN(const Kernel small, library.Get("StageSmall"));
  COPPICE_ASSIGN_OR_RETURN(const Kernel large, library.Get("StageLarge"));
  // A driver may load a kernel at its first launch, and Session::Include captures them.
  const RelaxedCaptureScope relaxed(driver);
  COPPICE_ASSIGN_OR_RETURN(const Stream stream, Stream::Create(driver));
  for (const Kernel& kernel : {small, large})
    COPPICE_RETURN_IF_ERROR(coppice::Launch(driver, kernel, stream.handle(), StagingParams(), 1));
  COPPICE_RETURN_IF_ERROR(stream.Synchronize());
  return StagingKernels(driver, std::move(library), small, large);
}

absl::Status StagingKernels::Launch(CuStream stream, const StagingParams& params) const {
  const StagingHeader& header = params.header;
  COPPICE_CHECK(header.copy_count >= 0 && header.copy_count <= kCopyInputsMax,
                "too many copies for one staging kernel");
  COPPICE_CHECK(header.word_count >= 0 && header.word_count <= kParameterWordsMax,
                "too many words for one parameter block");
  int64_t tiles = 0;
  for (int i = 0; i < header.copy_count; ++i)
    tiles += params.copies[i].tiles;
  // The first block writes the words, so there must be one.
  const int64_t blocks = std::max<int64_t>(tiles, header.word_count > 0 ? 1 : 0);
  if (blocks == 0) return absl::OkStatus();
  COPPICE_CHECK(blocks <= std::numeric_limits<int32_t>::max(), "the grid has too many blocks");
  const Kernel& kernel = header.copy_count <= kSmallStagingCopies ? small_ : large_;
  return coppice::Launch(*driver_, kernel, stream, params, static_cast<unsigned>(blocks));
}

}  // namespace coppice
