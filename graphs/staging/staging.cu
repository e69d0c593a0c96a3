// The staging kernel: copies and pads every copied input of a call and writes the parameter block.
//
// The padded elements of every copy are cut into tiles, the last one of a copy perhaps short, and
// the tiles of all copies are laid end to end: block x does tile x. Block 0 also writes the words.
//
//   copy        0        1  (empty)  2
//   tiles    |--|--|-|           |--|--|--|-|
//   block     0  1  2             3  4  5  6

#include "coppice/graphs/staging_params.h"
#include "coppice/runtime/block_kernel.h"

namespace coppice {
namespace {

constexpr int kThreads = 256;
constexpr int kNoCopy = -1;

template <typename T>
COPPICE_ANYWHERE T* PointerTo(unsigned long long address) {
  return reinterpret_cast<T*>(static_cast<uintptr_t>(address));
}

COPPICE_ANYWHERE int64_t PaddedElements(const StagedCopy& copy) {
  int64_t count = 1;
  for (int axis = 0; axis < kStagingRank; ++axis)
    count *= copy.padded[axis];
  return count;
}

// The place of one element in the padded tensor, outermost axis first.
struct Place {
  int64_t index[kStagingRank] = {};

  // Moves `count` elements on. Divides only where that leaves the row.
  COPPICE_DEVICE void Advance(int64_t count, const StagedCopy& copy) {
    index[kStagingRank - 1] += count;
    for (int axis = kStagingRank - 1; axis > 0; --axis) {
      if (index[axis] < copy.padded[axis]) return;
      const int64_t rows = index[axis] / copy.padded[axis];
      index[axis] -= rows * copy.padded[axis];
      index[axis - 1] += rows;
    }
  }
};

template <typename Element>
COPPICE_DEVICE void StageElement(const StagedCopy& copy, const Place& place, int64_t element) {
  bool readable = copy.source != 0;  // There is a real element to take or to repeat.
  bool real = true;                  // This is one.
  int64_t offset = 0;
  for (int axis = 0; axis < kStagingRank; ++axis) {
    const bool inside = place.index[axis] < copy.sizes[axis];
    readable = readable && copy.sizes[axis] > 0;
    real = real && inside;
    offset += (inside ? place.index[axis] : copy.sizes[axis] - 1) * copy.strides[axis];
  }
  Element* target = PointerTo<Element>(copy.target) + element;
  if (readable && (real || copy.padding == StagedCopy::kRepeatLast))
    *target = PointerTo<const Element>(copy.source)[offset];
  else if (copy.padding != StagedCopy::kSkip)
    *target = static_cast<Element>(copy.fill);
}

template <typename Element, typename Block>
COPPICE_DEVICE void StageTile(const Block& block, const StagedCopy& copy, int64_t tile) {
  const int64_t begin = tile * kStagingElementsPerBlock;
  const int64_t count = PaddedElements(copy);
  Place first;
  first.Advance(begin, copy);
  block.ForEach([&](int thread) {
    for (int i = thread; i < kStagingElementsPerBlock && begin + i < count; i += Block::kThreads) {
      Place place = first;
      place.Advance(i, copy);
      StageElement<Element>(copy, place, begin + i);
    }
  });
}

template <typename Block, typename Params>
COPPICE_DEVICE void Stage(const Block& block, const Params& params) {
  const StagingHeader& header = params.header;
  COPPICE_SHARED(int32_t, shared_copy, 1);
  COPPICE_SHARED(int64_t, shared_tile, 1);
  auto first_tiles = block.template Register<int64_t>();
  block.ForEach([&](int thread) {
    if (thread == 0) shared_copy[0] = kNoCopy;
    if (thread < header.copy_count) first_tiles[thread] = params.copies[thread].tiles;
    if (block.x() == 0 && thread < header.word_count)
      PointerTo<int64_t>(header.parameter_block)[thread] = header.words[thread];
  });
  block.ExclusiveScan(first_tiles);
  block.ForEach([&](int thread) {
    if (thread >= header.copy_count) return;
    const int64_t tile = block.x() - first_tiles[thread];
    if (tile < 0 || tile >= params.copies[thread].tiles) return;
    shared_copy[0] = thread;
    shared_tile[0] = tile;
  });
  block.Sync();
  if (shared_copy[0] == kNoCopy) return;
  const StagedCopy& copy = params.copies[shared_copy[0]];
  switch (copy.element_bytes) {
    case 1:
      return StageTile<uint8_t>(block, copy, shared_tile[0]);
    case 2:
      return StageTile<uint16_t>(block, copy, shared_tile[0]);
    case 4:
      return StageTile<uint32_t>(block, copy, shared_tile[0]);
    case 8:
      return StageTile<uint64_t>(block, copy, shared_tile[0]);
    default:
      return;
  }
}

// Bytes from the first to behind the last real element of the source, whose strides may be any.
inline void DeclareSource(const StagedCopy& copy, KernelAccesses& accesses) {
  int64_t before = 0;  // Elements that the first one in memory lies before `source`.
  int64_t behind = 1;
  for (int axis = 0; axis < kStagingRank; ++axis) {
    if (copy.sizes[axis] == 0) return;
    const int64_t span = (copy.sizes[axis] - 1) * copy.strides[axis];
    (span < 0 ? before : behind) += span;
  }
  accesses.Reads(PointerTo<const char>(copy.source) + before * copy.element_bytes,
                 (behind - before) * copy.element_bytes);
}

template <typename Params>
void DeclareStaging(const Params& params, KernelAccesses& accesses) {
  const StagingHeader& header = params.header;
  accesses.Writes(PointerTo<int64_t>(header.parameter_block), header.word_count);
  for (int i = 0; i < header.copy_count; ++i) {
    const StagedCopy& copy = params.copies[i];
    if (copy.source != 0) DeclareSource(copy, accesses);
    accesses.Writes(PointerTo<char>(copy.target), PaddedElements(copy) * copy.element_bytes);
  }
}

}  // namespace

COPPICE_KERNEL(StageSmall, kThreads, StagingParamsOf<kSmallStagingCopies>) {
  Stage(block, params);
}

COPPICE_ACCESSES(StageSmall, StagingParamsOf<kSmallStagingCopies>) {
  DeclareStaging(params, accesses);
}

COPPICE_KERNEL(StageLarge, kThreads, StagingParamsOf<kLargeStagingCopies>) {
  Stage(block, params);
}

COPPICE_ACCESSES(StageLarge, StagingParamsOf<kLargeStagingCopies>) {
  DeclareStaging(params, accesses);
}

COPPICE_KERNEL_IMAGE(staging, &StageSmallHostKernel, &StageLargeHostKernel);

}  // namespace coppice
