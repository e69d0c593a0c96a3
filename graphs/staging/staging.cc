// Staging: bit patterns of padding, the description of one copy, and the launch.

#include "coppice/graphs/staging.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>
#include <new>
#include <optional>

#include "coppice/base/check.h"
#include "coppice/base/status.h"
#include "coppice/runtime/stream.h"

namespace coppice {

extern const KernelImage staging_image;  // staging.cu.

namespace {

constexpr int64_t kWordBytes = sizeof(int64_t);
constexpr int kTilesWord = 3;  // Of a copy.

static_assert(kStagingRankMax == kRankMax);
static_assert(kStagingCountsMax == kSymbolsMax);
static_assert(kParameterWordsMax == kSymbolsMax + kScalarsMax + 2);
static_assert(sizeof(StagingParamsOf<kSmallStagingBytes>) == kSmallStagingBytes);
static_assert(sizeof(StagingParamsOf<kMediumStagingBytes>) == kMediumStagingBytes);
static_assert(sizeof(StagingParamsOf<kWideStagingBytes>) == kWideStagingBytes);
static_assert(offsetof(StagedCopyOf<1>, source) == 0);
static_assert(offsetof(StagedCopyOf<1>, tiles) == kTilesWord * kWordBytes);
static_assert(offsetof(StagedCopyOf<1>, sizes) == 40);
static_assert(offsetof(StagedCopyOf<1>, strides) == 48);

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

StagedPadding PaddingOf(const Fill& fill) {
  switch (fill.kind) {
    case Fill::Kind::kRepeatLast:
      return StagedPadding::kRepeatLast;
    case Fill::Kind::kUndefined:
      return StagedPadding::kSkip;
    case Fill::Kind::kZero:
    case Fill::Kind::kValue:
    case Fill::Kind::kSentinel:
      return StagedPadding::kFill;
  }
  return StagedPadding::kFill;
}

// The bytes of the smallest kernel's parameters that hold `bytes`.
int64_t ParameterBytesFor(int64_t bytes) {
  if (bytes <= kSmallStagingBytes) return kSmallStagingBytes;
  if (bytes <= kMediumStagingBytes) return kMediumStagingBytes;
  return std::max<int64_t>(bytes, kWideStagingBytes);
}

template <int kRank>
StagedCopyOf<kRank> CopyOf(const Tensor& source, const Tensor& target, const Fill& fill) {
  StagedCopyOf<kRank> copy{};
  copy.source = source.data;
  copy.target = target.data;
  std::fill_n(copy.sizes, kRank, 1);
  std::fill_n(copy.padded, kRank, 1);
  for (int axis = 0; axis < source.rank; ++axis) {
    const auto from = static_cast<size_t>(axis);
    const int to = kRank - source.rank + axis;
    COPPICE_CHECK(source.sizes[from] <= target.sizes[from], "the source is larger than its place");
    copy.sizes[to] = source.sizes[from];
    copy.strides[to] = source.strides[from];
    copy.padded[to] = target.sizes[from];
    copy.target_strides[to] = target.strides[from];
  }
  copy.fill = FillPattern(fill, source.dtype);
  copy.tiles = TilesFor(target.element_count());
  copy.element_bytes = static_cast<int32_t>(SizeOf(source.dtype));
  copy.padding = PaddingOf(fill);
  return copy;
}

// The copy in place `at`, of whatever rank.
template <typename Visit>
void WithCopyAt(int64_t* at, int rank, const Visit& visit) {
  switch (rank) {
    case 1:
      return visit(*reinterpret_cast<StagedCopyOf<1>*>(at));
    case 2:
      return visit(*reinterpret_cast<StagedCopyOf<2>*>(at));
    case 4:
      return visit(*reinterpret_cast<StagedCopyOf<4>*>(at));
    default:
      return visit(*reinterpret_cast<StagedCopyOf<kStagingRankMax>*>(at));
  }
}

}  // namespace

StagingArguments::StagingArguments(int rank)
    : rank_(static_cast<int>(std::bit_ceil(static_cast<unsigned>(std::max(rank, 1))))),
      copy_words_(static_cast<int>(StagedCopyBytes(rank_) / kWordBytes)),
      words_(static_cast<size_t>(kSmallStagingBytes / kWordBytes)) {
  COPPICE_CHECK(rank <= kRankMax, "staging knows no such rank");
  new (words_.data()) StagingHeader{.rank = static_cast<int16_t>(rank_)};
}

void StagingArguments::Add(const Tensor& source, const Tensor& target, const Fill& fill) {
  COPPICE_CHECK(source.dtype == target.dtype, "staging converts no dtype");
  COPPICE_CHECK(source.rank == target.rank, "staging changes no rank");
  COPPICE_CHECK(source.rank <= rank_, "the copy has more axes than its arguments");
  bytes_ += StagedCopyBytes(rank_);
  const auto words = static_cast<size_t>(ParameterBytesFor(bytes_) / kWordBytes);
  if (words > words_.size()) words_.resize(std::max(words, words_.size() * 5 / 4));
  WithCopyAt(CopyAt(copy_count_), rank_, [&]<int kRank>(StagedCopyOf<kRank>& copy) {
    copy = CopyOf<kRank>(source, target, fill);
    blocks_ += copy.tiles;
  });
  ++copy_count_;
  fits_ = bytes_ <= kWideStagingBytes && copy_count_ <= kStagingCopiesMax;
  header().copy_count = static_cast<int16_t>(std::min(copy_count_, kStagingCopiesMax));
}

void StagingArguments::DropSource(int index) {
  WithCopyAt(CopyAt(index), rank_, []<int kRank>(StagedCopyOf<kRank>& copy) {
    copy.source = 0;
    std::fill_n(copy.sizes, kRank, 0);
  });
}

void StagingArguments::SetFill(int index, uint64_t pattern) {
  WithCopyAt(CopyAt(index), rank_, [pattern]<int kRank>(StagedCopyOf<kRank>& copy) {
    copy.fill = pattern;
    copy.padding = StagedPadding::kFill;
  });
}

void StagingArguments::SetCount(int index, const Tensor& count) {
  COPPICE_CHECK(index < kStagingCountsMax, "the word has no count");
  const unsigned bit = 1U << index;
  const bool narrow = SizeOf(count.dtype) == sizeof(int32_t);
  header().counts[index] = count.data;
  header().narrow_counts =
      static_cast<uint16_t>(narrow ? header().narrow_counts | bit : header().narrow_counts & ~bit);
}

void StagingArguments::CountSizes(int copy, const Dims& dims, int symbol) {
  int64_t* const sizes = CopyAt(copy) + kCopyHeadWords + rank_ - static_cast<int>(dims.size());
  for (size_t axis = 0; axis < dims.size(); ++axis)
    if (dims[axis].symbol == symbol) sizes[axis] = -1 - symbol;
}

void StagingArguments::Clear() {
  copy_count_ = 0;
  bytes_ = sizeof(StagingHeader);
  blocks_ = 0;
  fits_ = true;
  header() = {.rank = static_cast<int16_t>(rank_)};
}

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

absl::StatusOr<StagingKernels> StagingKernels::Load(const Driver& driver) {
  COPPICE_ASSIGN_OR_RETURN(KernelLibrary library, KernelLibrary::Load(driver, staging_image));
  COPPICE_ASSIGN_OR_RETURN(const Kernel small, library.Get("StageSmall"));
  COPPICE_ASSIGN_OR_RETURN(const Kernel medium, library.Get("StageMedium"));
  COPPICE_ASSIGN_OR_RETURN(const Kernel wide, library.Get("StageWide"));
  StagingKernels kernels(driver, std::move(library), {small, medium, wide});
  // A driver may load a kernel at its first launch, and Session::Include captures them.
  const RelaxedCaptureScope relaxed(driver);
  COPPICE_ASSIGN_OR_RETURN(const Stream stream, Stream::Create(driver));
  const std::vector<int64_t> nothing(kWideStagingBytes / kWordBytes);
  for (const int64_t bytes : {kSmallStagingBytes, kMediumStagingBytes, kWideStagingBytes})
    COPPICE_RETURN_IF_ERROR(kernels.LaunchOne(stream.handle(), nothing.data(), bytes, 1));
  COPPICE_RETURN_IF_ERROR(stream.Synchronize());
  return kernels;
}

// Reads as many words as the kernel has, of which those behind `bytes` mean nothing.
inline absl::Status StagingKernels::LaunchOne(CuStream stream,
                                              const int64_t* words,
                                              int64_t bytes,
                                              int64_t blocks) const {
  COPPICE_CHECK(blocks <= std::numeric_limits<int32_t>::max(), "the grid has too many blocks");
  const size_t size = bytes <= kSmallStagingBytes ? 0 : bytes <= kMediumStagingBytes ? 1 : 2;
  const Kernel& kernel = kernels_[size];
  void* parameters[] = {const_cast<int64_t*>(words)};
  return driver_->Call<&DriverTable::LaunchKernel>(
      kernel.function, static_cast<unsigned>(blocks), 1U, 1U, kernel.block_threads, 1U, 1U, 0U,
      stream, static_cast<void**>(parameters), static_cast<void**>(nullptr));
}

// The words go with the first part.
absl::Status StagingKernels::LaunchInParts(CuStream stream,
                                           const StagingArguments& arguments) const {
  std::array<int64_t, kWideStagingBytes / kWordBytes> part;
  const int64_t copy_bytes = StagedCopyBytes(arguments.rank());
  const auto header_bytes = static_cast<int64_t>(sizeof(StagingHeader));
  const int64_t fit =
      std::min<int64_t>((kWideStagingBytes - header_bytes) / copy_bytes, kStagingCopiesMax);
  StagingHeader header = arguments.header();
  const int64_t* copies = arguments.words() + header_bytes / kWordBytes;
  for (int64_t left = arguments.copy_count(); left > 0;) {
    header.copy_count = static_cast<int16_t>(std::min(left, fit));
    const int64_t bytes = header.copy_count * copy_bytes;
    std::memcpy(part.data(), &header, sizeof(header));
    std::memcpy(part.data() + header_bytes / kWordBytes, copies, static_cast<size_t>(bytes));
    int64_t blocks = 0;
    for (int i = 0; i < header.copy_count; ++i)
      blocks += copies[i * copy_bytes / kWordBytes + kTilesWord];
    if (header.word_count > 0) blocks = std::max<int64_t>(blocks, 1);
    if (blocks > 0)
      COPPICE_RETURN_IF_ERROR(LaunchOne(stream, part.data(), header_bytes + bytes, blocks));
    copies += bytes / kWordBytes;
    left -= header.copy_count;
    header.word_count = 0;
  }
  return absl::OkStatus();
}

absl::Status StagingKernels::Launch(CuStream stream, const StagingArguments& arguments) const {
  const StagingHeader& header = arguments.header();
  COPPICE_CHECK(static_cast<unsigned>(header.word_count) <= unsigned{kParameterWordsMax},
                "too many words for one parameter block");
  int64_t blocks = arguments.blocks();
  if (blocks == 0) [[unlikely]] {
    if (header.word_count == 0) return absl::OkStatus();
    blocks = 1;  // The first block writes the words, so there must be one.
  }
  if (!arguments.fits()) [[unlikely]]
    return LaunchInParts(stream, arguments);
  return LaunchOne(stream, arguments.words(), arguments.bytes(), blocks);
}

}  // namespace coppice
