// Staging: the description of one copy, and the launch.

#include "coppice/graphs/staging.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstring>
#include <limits>
#include <new>

#include "coppice/base/check.h"
#include "coppice/base/status.h"
#include "coppice/runtime/stream.h"

namespace coppice {

extern const KernelImage staging_image;  // staging.cu.
extern const KernelImage pack_image;     // pack.cu.

namespace {

constexpr int64_t kWordBytes = sizeof(int64_t);
constexpr int kTilesWord = 3;  // Of a copy.

static_assert(kStagingRankMax == kRankMax);
static_assert(kStagingCountsMax == kSymbolsMax);
static_assert(kStagingRaggedMax == kRaggedMax);
static_assert(kParameterWordsMax == kSymbolsMax + kScalarsMax + 2);
static_assert(sizeof(StagingParamsOf<kSmallStagingBytes>) == kSmallStagingBytes);
static_assert(sizeof(StagingParamsOf<kMediumStagingBytes>) == kMediumStagingBytes);
static_assert(sizeof(StagingParamsOf<kWideStagingBytes>) == kWideStagingBytes);
static_assert(offsetof(StagedCopyOf<1>, source) == 0);
static_assert(offsetof(StagedCopyOf<1>, tiles) == kTilesWord * kWordBytes);
static_assert(offsetof(StagedCopyOf<1>, sizes) == 40);
static_assert(offsetof(StagedCopyOf<1>, strides) == 48);

StagedPadding PaddingOf(const Fill& fill) {
  switch (fill.kind) {
    case FillKind::kRepeatLast:
      return StagedPadding::kRepeatLast;
    case FillKind::kUndefined:
      return StagedPadding::kSkip;
    case FillKind::kZero:
    case FillKind::kValue:
    case FillKind::kSentinel:
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

// The copy without a source.
template <int kRank>
StagedCopyOf<kRank> CopyTo(const Tensor& target, const Fill& fill) {
  StagedCopyOf<kRank> copy{};
  copy.target = target.data;
  std::fill_n(copy.sizes, kRank, 1);
  std::fill_n(copy.padded, kRank, 1);
  for (int axis = 0; axis < target.rank; ++axis) {
    const auto from = static_cast<size_t>(axis);
    const int to = kRank - target.rank + axis;
    copy.sizes[to] = 0;
    copy.padded[to] = target.sizes[from];
    copy.target_strides[to] = target.strides[from];
  }
  copy.fill = FillPattern(fill, target.dtype);
  copy.tiles = TilesFor(target.element_count());
  copy.element_bytes = static_cast<int16_t>(SizeOf(target.dtype));
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

int StagingArguments::AddTarget(const Tensor& target, const Fill& fill) {
  COPPICE_CHECK(target.rank <= rank_, "the copy has more axes than its arguments");
  bytes_ += StagedCopyBytes(rank_);
  const auto words = static_cast<size_t>(ParameterBytesFor(bytes_) / kWordBytes);
  if (words > words_.size()) words_.resize(std::max(words, words_.size() * 5 / 4));
  WithCopyAt(CopyAt(copy_count_), rank_, [&]<int kRank>(StagedCopyOf<kRank>& copy) {
    copy = CopyTo<kRank>(target, fill);
    blocks_ += copy.tiles;
  });
  ++copy_count_;
  fits_ = bytes_ <= kWideStagingBytes && copy_count_ <= kStagingCopiesMax;
  header().copy_count = static_cast<int16_t>(std::min(copy_count_, kStagingCopiesMax));
  return copy_count_ - 1;
}

void StagingArguments::Add(const Tensor& source, const Tensor& target, const Fill& fill) {
  COPPICE_CHECK(source.dtype == target.dtype, "staging converts no dtype");
  COPPICE_CHECK(source.rank == target.rank, "staging changes no rank");
  for (size_t axis = 0; axis < static_cast<size_t>(source.rank); ++axis)
    COPPICE_CHECK(source.sizes[axis] <= target.sizes[axis], "the source is larger than its place");
  SetSource(AddTarget(target, fill), source);
}

void StagingArguments::AddRows(const Tensor& target, const Fill& fill, int ragged, bool rectangle) {
  COPPICE_CHECK(target.rank >= (rectangle ? 2 : 1), "the target has no axis for its rows");
  COPPICE_CHECK(!rectangle || fill.kind != FillKind::kRepeatLast,
                "a rectangle repeats no row of another sequence");
  WithCopyAt(CopyAt(AddTarget(target, fill)), rank_, [&]<int kRank>(StagedCopyOf<kRank>& copy) {
    copy.rows = rectangle ? StagedRows::kRectangle : StagedRows::kPacked;
    copy.rows_axis = static_cast<int8_t>(kRank - target.rank);
    copy.ragged = static_cast<int8_t>(ragged);
  });
}

void StagingArguments::SetSequences(int index, const Tensor& offsets, RaggedBy by, int total_word) {
  COPPICE_CHECK(index < kStagingRaggedMax, "there are no such sequences");
  COPPICE_CHECK(offsets.rank == 1 && offsets.sizes[0] >= 1, "offsets have one axis and an end");
  header().ragged[index] = {.offsets = offsets.data,
                            .slots = offsets.sizes[0] - 1,
                            .total_word = static_cast<int16_t>(total_word),
                            .narrow = SizeOf(offsets.dtype) == sizeof(int32_t),
                            .by_offsets = by == RaggedBy::kOffsets};
  header().ragged_count = std::max(header().ragged_count, static_cast<uint8_t>(index + 1));
}

void StagingArguments::SetLengths(int index, const Tensor& lengths, int64_t count, int64_t rows) {
  StagedRagged& ragged = header().ragged[index];
  ragged.lengths = lengths.data;
  ragged.stride = lengths.strides[0];
  ragged.count = count;
  // So that what a block of threads adds up stays an integer of 64 bits.
  constexpr int64_t kRowsMax = int64_t{1} << 50;
  constexpr int64_t kNarrowMax = std::numeric_limits<int32_t>::max();
  ragged.rows = std::min(rows, ragged.narrow ? kNarrowMax : kRowsMax);
}

int64_t StagingArguments::SetPackedSource(int index,
                                          const Tensor& packed,
                                          int64_t count,
                                          int64_t length) {
  // As a rectangle whose sequences all begin at the first row; the kernel knows where they do.
  Tensor rectangle = packed;
  rectangle.rank = static_cast<int8_t>(packed.rank + 1);
  std::copy_backward(packed.sizes.begin(), packed.sizes.end() - 1, rectangle.sizes.end());
  std::copy_backward(packed.strides.begin(), packed.strides.end() - 1, rectangle.strides.end());
  rectangle.sizes[0] = count;
  rectangle.sizes[1] = length;
  rectangle.strides[0] = 0;
  SetSource(index, rectangle);
  return packed.element_count();
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

void StagingArguments::SetNoise(int index, DType dtype, PaddingContents contents, uint64_t seed) {
  COPPICE_CHECK(MayPoison(contents, dtype), "the claim lets nothing but the fill in");
  const NoiseBits held = NoiseBitsOf(dtype, contents);
  WithCopyAt(CopyAt(index), rank_, [&]<int kRank>(StagedCopyOf<kRank>& copy) {
    COPPICE_CHECK(copy.element_bytes == SizeOf(dtype), "the copy has another dtype");
    copy.fill = seed;
    copy.noise_set = held.set;
    copy.noise_clear = held.clear;
    copy.padding = StagedPadding::kNoise;
  });
}

void StagingArguments::SetCount(int index, const Tensor& count) {
  COPPICE_CHECK(index < kStagingCountsMax, "the word has no count");
  const unsigned bit = 1U << index;
  const bool narrow = SizeOf(count.dtype) == sizeof(int32_t);
  header().counts[index] = count.data;
  header().narrow_counts =
      static_cast<uint8_t>(narrow ? header().narrow_counts | bit : header().narrow_counts & ~bit);
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

absl::StatusOr<StagingKernels> StagingKernels::Load(const Driver& driver) {
  COPPICE_ASSIGN_OR_RETURN(KernelLibrary library, KernelLibrary::Load(driver, staging_image));
  COPPICE_ASSIGN_OR_RETURN(const Kernel small, library.Get("StageSmall"));
  COPPICE_ASSIGN_OR_RETURN(const Kernel medium, library.Get("StageMedium"));
  COPPICE_ASSIGN_OR_RETURN(const Kernel wide, library.Get("StageWide"));
  COPPICE_ASSIGN_OR_RETURN(KernelLibrary packing, KernelLibrary::Load(driver, pack_image));
  COPPICE_ASSIGN_OR_RETURN(const Kernel pack, packing.Get("PackRows"));
  StagingKernels kernels(driver, std::move(library), {small, medium, wide}, std::move(packing),
                         pack);
  // A driver may load a kernel at its first launch, and Session::Include captures them.
  const RelaxedCaptureScope relaxed(driver);
  COPPICE_ASSIGN_OR_RETURN(const Stream stream, Stream::Create(driver));
  const std::vector<int64_t> nothing(kWideStagingBytes / kWordBytes);
  for (const int64_t bytes : {kSmallStagingBytes, kMediumStagingBytes, kWideStagingBytes})
    COPPICE_RETURN_IF_ERROR(kernels.LaunchOne(stream.handle(), nothing.data(), bytes, 1));
  COPPICE_RETURN_IF_ERROR(kernels.LaunchPack(stream.handle(), {.unit_bytes = 1}));
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
  std::array<int64_t, kWideStagingBytes / kWordBytes> part;  // NOLINT: filled as far as it is read.
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

absl::Status StagingKernels::LaunchPack(CuStream stream, const PackParams& params) const {
  const int64_t tiles = std::max<int64_t>(TilesFor(params.rows * params.row_units), 1);
  COPPICE_CHECK(tiles <= std::numeric_limits<int32_t>::max(), "the grid has too many blocks");
  void* parameters[] = {const_cast<PackParams*>(&params)};
  return driver_->Call<&DriverTable::LaunchKernel>(
      pack_.function, static_cast<unsigned>(tiles), 1U, 1U, pack_.block_threads, 1U, 1U, 0U, stream,
      static_cast<void**>(parameters), static_cast<void**>(nullptr));
}

absl::Status StagingKernels::Pack(CuStream stream,
                                  const Tensor& rectangle,
                                  const Tensor& offsets,
                                  DeviceAddress limit,
                                  const Tensor& packed) const {
  COPPICE_CHECK(rectangle.rank == packed.rank + 1 && rectangle.dtype == packed.dtype,
                "a rectangle has one axis more than what is packed");
  COPPICE_CHECK(offsets.rank == 1 && offsets.sizes[0] == rectangle.sizes[0] + 1,
                "there is an offset for each sequence, and one behind them");
  if (packed.element_count() == 0) return absl::OkStatus();
  const int64_t row_bytes = packed.element_count() / packed.sizes[0] * SizeOf(packed.dtype);
  constexpr uint64_t kUnitMax = 16;
  const uint64_t bits = rectangle.data | packed.data | static_cast<uint64_t>(row_bytes) | kUnitMax;
  const auto unit = static_cast<int32_t>(bits & (~bits + 1));
  return LaunchPack(stream, {.source = rectangle.data,
                             .target = packed.data,
                             .offsets = offsets.data,
                             .limit = limit,
                             .sequences = rectangle.sizes[0],
                             .length = rectangle.sizes[1],
                             .rows = packed.sizes[0],
                             .row_units = row_bytes / unit,
                             .unit_bytes = unit,
                             .offset_bytes = static_cast<int32_t>(SizeOf(offsets.dtype))});
}

}  // namespace coppice
