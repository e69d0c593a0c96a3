// Staging: copies and pads every copied input of a call and writes the parameter block, in one
// launch (several for programs with very many inputs).
//
// A graph reads its inputs at fixed addresses. The staging kernel fills them in stream order. All
// that it needs is in its by-value arguments, so the host never writes memory that a queued replay
// may still read.
//
//   call's tensors (any strides) --+                 +-- staged inputs (padded)
//   real extents, device scalars --+-- one launch -->+-- parameter block
//   lengths of ragged sequences  --+                 +-- their offsets
//
// The kernel's arguments are declared in staging_params.h, which nvcc compiles, too.
//
// Units: sizes and strides in elements, addresses in bytes. Threads: plain values; StagingKernels
// is immutable once loaded.

#pragma once

#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "coppice/base/tensor.h"
#include "coppice/graphs/poison.h"
#include "coppice/graphs/program.h"
#include "coppice/graphs/staging_params.h"
#include "coppice/runtime/driver.h"
#include "coppice/runtime/kernel_library.h"

namespace coppice {

// Bit pattern of one element for `fill` in `dtype`. A value rounds to the nearest value of the
// dtype, ties to even. Out of range, a float becomes infinity (NaN in f8e4m3, which has no
// infinity), and an integer becomes its nearest value; a NaN becomes the integer 0. A complex
// number gets the value as its real part; a bool is 1 for every value except 0. The result is 0 for
// kRepeatLast and kUndefined.
uint64_t FillPattern(const Fill& fill, DType dtype);

// The arguments of one staging: words of a parameter block, and copies of tensors. They are stored
// in the layout of the kernel's arguments, so a later call only changes the sources and launches.
class StagingArguments {
 public:
  // Arguments for copies of up to `rank` axes. Requires: rank <= kRankMax (checked).
  explicit StagingArguments(int rank);
  StagingArguments() : StagingArguments(1) {}

  StagingHeader& header() { return *reinterpret_cast<StagingHeader*>(words_.data()); }
  const StagingHeader& header() const {
    return *reinterpret_cast<const StagingHeader*>(words_.data());
  }
  int rank() const { return rank_; }  // Axes that a copy may have, at least 1.
  int copy_count() const { return copy_count_; }

  // Appends a copy of `source` to `target`, padded to the sizes of `target` as `fill` says. Both
  // may have any strides, but no two elements of the target may share a byte. Requires: both have
  // the same dtype and the same rank, which is at most rank(), and no size of the source is larger
  // (checked). Allocates.
  void Add(const Tensor& source, const Tensor& target, const Fill& fill);

  // Describes set `index` of ragged sequences. Their offsets are written to `offsets`, which has
  // one element more than there are slots for sequences. The lengths have the same dtype. Word
  // `total_word` becomes the rows of all sequences. Requires: index < kStagingRaggedMax, one axis
  // (checked).
  void SetSequences(int index, const Tensor& offsets, RaggedBy by, int total_word);
  // Sets the number of sequences, and the tensor of one axis that has their lengths or their
  // offsets (one element more). If its address is 0, all sequences are empty. `rows` is the number
  // of rows of the packed tensors; at most 2^50 are used, or 2^31 - 1 with lengths of 32 bits.
  void SetLengths(int index, const Tensor& lengths, int64_t count, int64_t rows);
  // Appends a copy to `target`, without a source yet. The first axis of `target` has the packed
  // rows of set `ragged`. With a rectangle, the first two axes are the slots for sequences and the
  // rows of each. Requires: such axes, and a fill other than kRepeatLast in a rectangle (checked).
  // Allocates.
  void AddRows(const Tensor& target, const Fill& fill, int ragged, bool rectangle);
  // Sets the source of rectangle `index` to packed rows, which have one axis less; at most `length`
  // rows of each sequence are copied. Returns its elements. For packed rows without a rectangle use
  // SetSource.
  int64_t SetPackedSource(int index, const Tensor& packed, int64_t count, int64_t length);

  // Sets the source of copy `index`. It must have the rank of the source that was passed to Add.
  // Returns its elements. Allocates nothing.
  int64_t SetSource(int index, const Tensor& source) {
    StagedCopy& copy = CopyAt(index);
    copy.source = source.data;
    StagedAxis* const axes = AxesOf(copy);
    int64_t elements = 1;
    for (size_t axis = 0; axis < static_cast<size_t>(source.rank); ++axis) {
      elements *= axes[axis].size = source.sizes[axis];
      axes[axis].stride = source.strides[axis];
    }
    return elements;
  }
  // To give the copies other targets with the same dtypes and ranks, call ClearTiles, then
  // SetTarget for each copy in order. Neither allocates.
  void ClearTiles() { blocks_ = 0; }
  void SetTarget(int index, const Tensor& target);
  // Removes the source of copy `index`: all of its target becomes padding. Sequences keep their
  // lengths.
  void DropSource(int index);
  // Fills the padding of copy `index` with elements of these bits.
  void SetFill(int index, uint64_t pattern);
  // Fills the padding of copy `index` with noise: PoisonElement(i), where i is the distance in
  // elements from the start of the target. Requires: MayPoison(contents, dtype), and `dtype` is
  // that of the copy (checked by size).
  void SetNoise(int index, DType dtype, PaddingContents contents, uint64_t seed);

  // When the launch runs, replaces word `index` with the value in `count`, clamped to [0, word]; if
  // the address of `count` is 0, the word is no longer replaced. Requires: index <
  // kStagingCountsMax (checked); `count` is one i32 or i64.
  void SetCount(int index, const Tensor& count);
  // Until SetSource is called, the source of copy `copy` has the final value of word `symbol` as
  // its size along each axis of `dims` that names this symbol.
  void CountSizes(int copy, const Dims& dims, int symbol);

  // Removes all copies, words and counts. Keeps the memory.
  void Clear();

  // The words. A launch passes a prefix of them. There are at least as many as its kernel has
  // parameters.
  const int64_t* words() const { return words_.data(); }
  int64_t bytes() const { return bytes_; }    // Bytes of the header and the copies.
  int64_t blocks() const { return blocks_; }  // Blocks that stage all copies.
  bool fits() const { return fits_; }         // Whether one launch can take all copies.

 private:
  static constexpr int kHeaderWords = sizeof(StagingHeader) / sizeof(int64_t);

  int AddTarget(const Tensor& target, const Fill& fill);  // Returns the copy's index.
  StagedCopy& CopyAt(int index) {
    return *reinterpret_cast<StagedCopy*>(words_.data() + kHeaderWords +
                                          ptrdiff_t{index} * copy_words_);
  }
  static StagedAxis* AxesOf(StagedCopy& copy) { return reinterpret_cast<StagedAxis*>(&copy + 1); }

  int rank_;
  int copy_words_;
  int copy_count_ = 0;
  bool fits_ = true;
  int64_t bytes_ = sizeof(StagingHeader);
  int64_t blocks_ = 0;
  std::vector<int64_t> words_;
};

class StagingKernels {
 public:
  // Loads the kernels and launches each once, with nothing to do, so that the driver loads none
  // during a capture. Errors: as KernelLibrary::Load; the driver's.
  static absl::StatusOr<StagingKernels> Load(const Driver& driver);

  // Stages on `stream`. Makes no driver call if there is nothing to copy and no word to write.
  // Cost: one driver call for up to 256 copies of rank 2, 192 of rank 4 or 109 of rank 8; allocates
  // nothing.
  absl::Status Launch(CuStream stream, const StagingArguments& arguments) const;

  // Packs a rectangle, [sequences, length, ...], into `packed`, [rows, ...], by the offsets that
  // staging wrote to `offsets`; it copies at most as many rows of each sequence as the word at
  // `limit` says. Makes no driver call if there is nothing to pack. Requires: row-major tensors
  // with the same dtype and row shape, offsets of one axis (checked). Cost: one driver call;
  // allocates nothing.
  absl::Status Pack(CuStream stream,
                    const Tensor& rectangle,
                    const Tensor& offsets,
                    DeviceAddress limit,
                    const Tensor& packed) const;

 private:
  // Kernels by the bytes of their parameters; then the same for ragged sequences.
  static constexpr size_t kSizes = 3;
  using Kernels = std::array<Kernel, 2 * kSizes>;

  StagingKernels(const Driver& driver,
                 KernelLibrary library,
                 const Kernels& kernels,
                 KernelLibrary packing,
                 const Kernel& pack)
      : driver_(&driver),
        library_(std::move(library)),
        kernels_(kernels),
        packing_(std::move(packing)),
        pack_(pack) {}

  absl::Status LaunchKernel(const Kernel& kernel,
                            CuStream stream,
                            const int64_t* words,
                            int64_t blocks) const;
  absl::Status LaunchOne(
      CuStream stream, const int64_t* words, int64_t bytes, bool ragged, int64_t blocks) const;
  absl::Status LaunchInParts(CuStream stream, const StagingArguments& arguments) const;
  absl::Status LaunchPack(CuStream stream, const PackParams& params) const;

  const Driver* driver_;
  KernelLibrary library_;
  Kernels kernels_;
  KernelLibrary packing_;
  Kernel pack_;
};

}  // namespace coppice
