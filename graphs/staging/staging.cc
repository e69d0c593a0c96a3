// Staging: the description of one copy, and the launch.

#include "coppice/graphs/staging.h"

#include <algorithm>
#include <array>
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

static_assert(kStagingRankMax == kRankMax);
static_assert(kStagingCountsMax == kSymbolsMax);
static_assert(kStagingRaggedMax == kRaggedMax);
static_assert(kParameterWordsMax == kSymbolsMax + kScalarsMax + 2);
static_assert(sizeof(StagingParamsOf<kSmallStagingBytes>) == kSmallStagingBytes);
static_assert(sizeof(StagingParamsOf<kMediumStagingBytes>) == kMediumStagingBytes);
static_assert(sizeof(StagingParamsOf<kWideStagingBytes>) == kWideStagingBytes);

StagedPadding PaddingOf(const Fill& fill) {
  if (IsConstant(fill.kind)) return StagedPadding::kFill;
  return fill.kind == FillKind::kRepeatLast ? StagedPadding::kRepeatLast : StagedPadding::kSkip;
}

// The bytes of the smallest kernel's parameters that hold `bytes`.
int64_t ParameterBytesFor(int64_t bytes) {
  if (bytes <= kSmallStagingBytes) return kSmallStagingBytes;
  if (bytes <= kMediumStagingBytes) return kMediumStagingBytes;
  return std::max<int64_t>(bytes, kWideStagingBytes);
}

}  // namespace

StagingArguments::StagingArguments(int rank)
    : rank_(std::max(rank, 1)),
      copy_words_(static_cast<int>(StagedCopyBytes(rank_) / kWordBytes)),
      words_(static_cast<size_t>(kSmallStagingBytes / kWordBytes)) {
  COPPICE_CHECK(rank <= kRankMax, "staging does not support this rank");
  new (words_.data()) StagingHeader();
  Clear();
}

int StagingArguments::AddTarget(const Tensor& target, const Fill& fill) {
  COPPICE_CHECK(target.rank <= rank_, "the copy has more axes than its arguments");
  bytes_ += StagedCopyBytes(rank_);
  const auto words = static_cast<size_t>(ParameterBytesFor(bytes_) / kWordBytes);
  if (words > words_.size()) words_.resize(std::max(words, words_.size() * 5 / 4));
  StagedCopy& copy = CopyAt(copy_count_);
  // A tensor without axes is one element.
  copy = {.fill = FillPattern(fill, target.dtype),
          .rank = std::max<int8_t>(target.rank, 1),
          .element_bytes = static_cast<int8_t>(SizeOf(target.dtype)),
          .padding = PaddingOf(fill)};
  AxesOf(copy)[0] = {.size = 1, .padded = 1};
  SetTarget(copy_count_, target);
  ++copy_count_;
  fits_ = bytes_ <= kWideStagingBytes && copy_count_ <= kStagingCopiesMax;
  header().copy_count = static_cast<int16_t>(std::min(copy_count_, kStagingCopiesMax));
  return copy_count_ - 1;
}

void StagingArguments::SetTarget(int index, const Tensor& target) {
  StagedCopy& copy = CopyAt(index);
  copy.target = target.data;
  StagedAxis* const axes = AxesOf(copy);
  for (size_t axis = 0; axis < static_cast<size_t>(target.rank); ++axis) {
    axes[axis].padded = target.sizes[axis];
    axes[axis].target_stride = target.strides[axis];
  }
  blocks_ += TilesFor(target.element_count(), copy.element_bytes);
  copy.end_tile = blocks_;
}

void StagingArguments::Add(const Tensor& source, const Tensor& target, const Fill& fill) {
  COPPICE_CHECK(source.dtype == target.dtype, "staging cannot convert a dtype");
  COPPICE_CHECK(source.rank == target.rank, "staging cannot change the rank");
  for (size_t axis = 0; axis < static_cast<size_t>(source.rank); ++axis)
    COPPICE_CHECK(source.sizes[axis] <= target.sizes[axis], "the source is larger than its target");
  SetSource(AddTarget(target, fill), source);
}

void StagingArguments::AddRows(const Tensor& target, const Fill& fill, int ragged, bool rectangle) {
  COPPICE_CHECK(target.rank >= (rectangle ? 2 : 1), "the target has no axis for its rows");
  COPPICE_CHECK(!rectangle || fill.kind != FillKind::kRepeatLast,
                "a rectangle must not repeat a row of another sequence");
  StagedCopy& copy = CopyAt(AddTarget(target, fill));
  copy.rows = rectangle ? StagedRows::kRectangle : StagedRows::kPacked;
  copy.ragged = static_cast<int8_t>(ragged);
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
  CopyAt(index).source = 0;
}

void StagingArguments::SetFill(int index, uint64_t pattern) {
  StagedCopy& copy = CopyAt(index);
  copy.fill = pattern;
  copy.padding = StagedPadding::kFill;
}

void StagingArguments::SetNoise(int index, DType dtype, PaddingContents contents, uint64_t seed) {
  COPPICE_CHECK(MayPoison(contents, dtype), "the claim allows only the fill");
  const NoiseBits held = NoiseBitsOf(dtype, contents);
  StagedCopy& copy = CopyAt(index);
  COPPICE_CHECK(copy.element_bytes == SizeOf(dtype), "the copy has another dtype");
  copy.fill = seed;
  copy.noise_set = held.set;
  copy.noise_clear = held.clear;
  copy.padding = StagedPadding::kNoise;
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
  StagedAxis* const axes = AxesOf(CopyAt(copy));
  for (size_t axis = 0; axis < dims.size(); ++axis)
    if (dims[axis] == Dim::Symbol(symbol)) axes[axis].size = -1 - symbol;
}

void StagingArguments::Clear() {
  copy_count_ = 0;
  bytes_ = sizeof(StagingHeader);
  blocks_ = 0;
  fits_ = true;
  header() = {.copy_bytes = static_cast<int16_t>(StagedCopyBytes(rank_))};
}

absl::StatusOr<StagingKernels> StagingKernels::Load(const Driver& driver) {
  COPPICE_ASSIGN_OR_RETURN(KernelLibrary library, KernelLibrary::Load(driver, staging_image));
  constexpr const char* kNames[] = {"StageSmall",       "StageMedium",       "StageWide",
                                    "StageRaggedSmall", "StageRaggedMedium", "StageRaggedWide"};
  Kernels loaded;
  for (size_t i = 0; i < loaded.size(); ++i) {
    COPPICE_ASSIGN_OR_RETURN(loaded[i], library.Get(kNames[i]));
  }
  COPPICE_ASSIGN_OR_RETURN(KernelLibrary packing, KernelLibrary::Load(driver, pack_image));
  COPPICE_ASSIGN_OR_RETURN(const Kernel pack, packing.Get("PackRows"));
  StagingKernels kernels(driver, std::move(library), loaded, std::move(packing), pack);
  // A driver may load a kernel at its first launch, and Session::Include captures them.
  const RelaxedCaptureScope relaxed(driver);
  COPPICE_ASSIGN_OR_RETURN(const Stream stream, Stream::Create(driver));
  const std::vector<int64_t> nothing(kWideStagingBytes / kWordBytes);
  for (const Kernel& kernel : loaded)
    COPPICE_RETURN_IF_ERROR(kernels.LaunchKernel(kernel, stream.handle(), nothing.data(), 1));
  COPPICE_RETURN_IF_ERROR(kernels.LaunchPack(stream.handle(), {.unit_bytes = 1}));
  COPPICE_RETURN_IF_ERROR(stream.Synchronize());
  return kernels;
}

inline absl::Status StagingKernels::LaunchKernel(const Kernel& kernel,
                                                 CuStream stream,
                                                 const int64_t* words,
                                                 int64_t blocks) const {
  COPPICE_CHECK(blocks <= std::numeric_limits<int32_t>::max(), "the grid has too many blocks");
  void* parameters[] = {const_cast<int64_t*>(words)};
  return driver_->Call<&DriverTable::LaunchKernel>(
      kernel.function, static_cast<unsigned>(blocks), 1U, 1U, kernel.block_threads, 1U, 1U, 0U,
      stream, static_cast<void**>(parameters), static_cast<void**>(nullptr));
}

// Reads as many words as the kernel has, of which those behind `bytes` mean nothing.
inline absl::Status StagingKernels::LaunchOne(
    CuStream stream, const int64_t* words, int64_t bytes, bool ragged, int64_t blocks) const {
  const size_t size = bytes <= kSmallStagingBytes ? 0 : bytes <= kMediumStagingBytes ? 1 : 2;
  return LaunchKernel(kernels_[ragged ? size + kSizes : size], stream, words, blocks);
}

// The words go with the first part.
absl::Status StagingKernels::LaunchInParts(CuStream stream,
                                           const StagingArguments& arguments) const {
  StagingParamsOf<kWideStagingBytes> part;  // NOLINT: filled as far as it is read.
  part.header = arguments.header();
  const int64_t copy_bytes = part.header.copy_bytes;
  const int64_t fit =
      std::min<int64_t>(static_cast<int64_t>(sizeof(part.copies)) / copy_bytes, kStagingCopiesMax);
  const auto* copies =
      reinterpret_cast<const unsigned char*>(arguments.words()) + sizeof(part.header);
  int64_t staged = 0;  // Tiles of the parts before.
  for (int64_t left = arguments.copy_count(); left > 0; left -= part.header.copy_count) {
    part.header.copy_count = static_cast<int16_t>(std::min(left, fit));
    const int64_t bytes = part.header.copy_count * copy_bytes;
    std::memcpy(part.copies, copies, static_cast<size_t>(bytes));
    int64_t blocks = 0;
    for (int64_t at = 0; at < bytes; at += copy_bytes)
      blocks = reinterpret_cast<StagedCopy*>(part.copies + at)->end_tile -= staged;
    staged += blocks;
    if (part.header.word_count > 0) blocks = std::max<int64_t>(blocks, 1);
    if (blocks > 0)
      COPPICE_RETURN_IF_ERROR(LaunchOne(stream, reinterpret_cast<const int64_t*>(&part),
                                        static_cast<int64_t>(sizeof(part.header)) + bytes,
                                        part.header.ragged_count > 0, blocks));
    copies += bytes;
    part.header.word_count = 0;
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
  return LaunchOne(stream, arguments.words(), arguments.bytes(), header.ragged_count > 0, blocks);
}

absl::Status StagingKernels::LaunchPack(CuStream stream, const PackParams& params) const {
  const int64_t units = params.rows * params.row_units;
  const int64_t tiles = std::max<int64_t>((units + kPackUnitsPerBlock - 1) / kPackUnitsPerBlock, 1);
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
                "a rectangle has one axis more than the packed tensor");
  COPPICE_CHECK(offsets.rank == 1 && offsets.sizes[0] == rectangle.sizes[0] + 1,
                "there is one offset per sequence, and one for the end");
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
