// Staging: copies and pads every copied input of a call and writes the parameter block, in one
// launch but for the widest programs.
//
// A graph reads its inputs at fixed addresses. The staging kernel fills them in stream order, from
// its own by-value arguments, so the host never writes memory that a queued replay may still read.
//
//   call's tensors (any strides) --+                 +-- staged inputs (padded)
//   real extents, device scalars --+-- one launch -->+-- parameter block
//   lengths of ragged sequences  --+                 +-- their offsets
//
// The kernel's arguments are in staging_params.h, which nvcc compiles too.
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

// Bit pattern of one element for `fill` in `dtype`. A value rounds to the nearest that the dtype
// has, ties to even; beyond its range a float becomes infinite (f8e4m3, which has no infinity, NaN)
// and an integer the nearest it can hold, and a NaN makes the integer 0. A complex number gets the
// value as its real part; a bool is 1 for all but 0. kRepeatLast and kUndefined give 0.
uint64_t FillPattern(const Fill& fill, DType dtype);

// The arguments of one staging: words of a parameter block, and copies of tensors. As many of these
// as one launch takes lie as it takes them, so that a call that has staged before changes its
// sources and launches.
class StagingArguments {
 public:
  // Of copies of up to `rank` axes. Requires: rank <= kRankMax (checked).
  explicit StagingArguments(int rank);
  StagingArguments() : StagingArguments(1) {}

  StagingHeader& header() { return *reinterpret_cast<StagingHeader*>(words_.data()); }
  const StagingHeader& header() const {
    return *reinterpret_cast<const StagingHeader*>(words_.data());
  }
  int rank() const { return rank_; }  // Of the copies: 1, 2, 4 or 8.
  int copy_count() const { return copy_count_; }

  // Appends a copy of `source` (its sizes and strides) to `target`, padded there to its sizes as
  // `fill` says. Strides of both may be any, if no two elements of the target share a byte.
  // Requires: one dtype and rank, at most rank(), and no size of the source larger (checked).
  // Allocates.
  void Add(const Tensor& source, const Tensor& target, const Fill& fill);

  // Sets what sequences `index` of the header are: their places, where their offsets go (as many
  // and one; of what dtype, the lengths have, too), and which word becomes the rows of all.
  // Requires: index < kStagingRaggedMax, one axis (checked).
  void SetSequences(int index, const Tensor& offsets, RaggedBy by, int total_word);
  // Says how many there are, and what reads their lengths, or offsets (one more), from a tensor of
  // one axis; at address 0 all are empty. `rows` are those of the packed tensors, of which at most
  // 2^50 count, and 2^31 - 1 by lengths of 32 bits.
  void SetLengths(int index, const Tensor& lengths, int64_t count, int64_t rows);
  // Appends a copy to `target`, whose first axis has the packed rows of sequences `ragged`, or with
  // a rectangle the first two its places and rows of each. Without source. Requires: such axes,
  // `fill` repeats nothing in a rectangle (checked). Allocates.
  void AddRows(const Tensor& target, const Fill& fill, int ragged, bool rectangle);
  // Points rectangle `index` at packed rows of as many axes but one, `length` of each sequence at
  // most. Returns its elements. Packed rows without a rectangle take SetSource.
  int64_t SetPackedSource(int index, const Tensor& packed, int64_t count, int64_t length);

  // Points copy `index` at this tensor, of the rank of the one that it was added with. Returns its
  // elements. Allocates nothing.
  int64_t SetSource(int index, const Tensor& source) {
    int64_t* const copy = CopyAt(index);
    copy[0] = static_cast<int64_t>(source.data);
    int64_t* const sizes = copy + kCopyHeadWords + rank_ - source.rank;
    int64_t* const strides = sizes + rank_;
    int64_t elements = 1;
    for (size_t axis = 0; axis < static_cast<size_t>(source.rank); ++axis) {
      elements *= sizes[axis] = source.sizes[axis];
      strides[axis] = source.strides[axis];
    }
    return elements;
  }
  // Gives copy `index` no source: all of it is padding. Sequences keep their lengths.
  void DropSource(int index);
  // Makes the padding of copy `index` elements of these bits.
  void SetFill(int index, uint64_t pattern);
  // Makes it noise: PoisonElement, by the distance in elements from where the copy goes. Requires:
  // MayPoison(contents, dtype), and `dtype` that of the copy (checked by size).
  void SetNoise(int index, DType dtype, PaddingContents contents, uint64_t seed);

  // Makes word `index` what `count` holds when the launch runs, held to [0, word]; if its address
  // is 0, the word itself again. Requires: index < kStagingCountsMax (checked); one i32 or i64.
  void SetCount(int index, const Tensor& count);
  // Makes the source of copy `copy`, a tensor of these dims, as long as word `symbol` becomes along
  // each axis that names this symbol, until SetSource.
  void CountSizes(int copy, const Dims& dims, int symbol);

  // Takes all copies, words and counts out. Keeps the memory.
  void Clear();

  // What a launch passes: a prefix of these words, at least as many as its kernel's parameters.
  const int64_t* words() const { return words_.data(); }
  int64_t bytes() const { return bytes_; }    // Of the header and the copies.
  int64_t blocks() const { return blocks_; }  // That stage all copies.
  bool fits() const { return fits_; }         // One launch takes all.

 private:
  static constexpr int kHeaderWords = sizeof(StagingHeader) / sizeof(int64_t);
  static constexpr int kCopyHeadWords = 5;

  int AddTarget(const Tensor& target, const Fill& fill);  // Returns the copy's index.
  int64_t* CopyAt(int index) {
    return words_.data() + kHeaderWords + ptrdiff_t{index} * copy_words_;
  }

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
  // Loads the kernels and launches each once, with nothing to do, so that none is loaded while it
  // is captured. Errors: as KernelLibrary::Load; the driver's.
  static absl::StatusOr<StagingKernels> Load(const Driver& driver);

  // Stages on `stream`. Makes no call if there is nothing to copy and no word. Cost: one driver
  // call for up to 256 copies of rank 2, 192 of rank 4 and 109 of rank 8; allocates nothing.
  absl::Status Launch(CuStream stream, const StagingArguments& arguments) const;

  // Packs a rectangle, [sequences, length, ...], into `packed`, [rows, ...], by the offsets that
  // staging has written there; of each sequence as many rows as the word at `limit` says. Makes no
  // call if nothing is packed. Requires: row-major tensors of one dtype and row, offsets of one
  // axis (checked). Cost: one driver call; allocates nothing.
  absl::Status Pack(CuStream stream,
                    const Tensor& rectangle,
                    const Tensor& offsets,
                    DeviceAddress limit,
                    const Tensor& packed) const;

 private:
  StagingKernels(const Driver& driver,
                 KernelLibrary library,
                 const std::array<Kernel, 3>& kernels,
                 KernelLibrary packing,
                 const Kernel& pack)
      : driver_(&driver),
        library_(std::move(library)),
        kernels_(kernels),
        packing_(std::move(packing)),
        pack_(pack) {}

  absl::Status LaunchOne(CuStream stream,
                         const int64_t* words,
                         int64_t bytes,
                         int64_t blocks) const;
  absl::Status LaunchInParts(CuStream stream, const StagingArguments& arguments) const;
  absl::Status LaunchPack(CuStream stream, const PackParams& params) const;

  const Driver* driver_;
  KernelLibrary library_;
  std::array<Kernel, 3> kernels_;  // By the bytes of their parameters.
  KernelLibrary packing_;
  Kernel pack_;
};

}  // namespace coppice
