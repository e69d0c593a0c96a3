// Seeded scenes for the staging kernels: tensors of every rank, stride, dtype and fill.
//
// A scene names places by their offsets in two memory areas, so that one scene can be staged in
// several memories: copy both areas there and take ArgumentsOf() for where they lie.
//
// Units: bytes in offsets, elements in sizes and strides. Threads: plain values.

#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <numeric>
#include <random>
#include <vector>

#include "coppice/base/units.h"
#include "coppice/graphs/staging.h"

namespace coppice {

inline constexpr DType kDTypes[] = {
    DType::kFloat32,    DType::kFloat16,    DType::kBFloat16,  DType::kFloat64,
    DType::kFloat8E4M3, DType::kFloat8E5M2, DType::kComplex64, DType::kBool,
    DType::kInt8,       DType::kInt16,      DType::kInt32,     DType::kInt64,
    DType::kUInt8,      DType::kUInt16,     DType::kUInt32,    DType::kUInt64};

// A tensor whose data address is an offset into one of the areas of a Scene.
struct Piece {
  Tensor source;
  Tensor target;
  Fill fill;
};

// What one launch reads and writes: two memory areas, so that the test sees stray writes as well.
struct Scene {
  std::vector<uint8_t> sources;
  std::vector<uint8_t> targets;  // Before the launch.
  std::vector<Piece> pieces;
  std::vector<int64_t> words;
  int64_t word_offset = 0;  // Of the parameter block, in `targets`.
};

inline Tensor Moved(Tensor tensor, DeviceAddress base) {
  tensor.data += base;
  return tensor;
}

inline StagingArguments ArgumentsOf(const Scene& scene,
                                    DeviceAddress sources,
                                    DeviceAddress targets) {
  int rank = 0;
  for (const Piece& piece : scene.pieces)
    rank = std::max<int>(rank, piece.source.rank);
  StagingArguments arguments(rank);
  arguments.header().parameter_block = targets + static_cast<DeviceAddress>(scene.word_offset);
  arguments.header().word_count = static_cast<int16_t>(scene.words.size());
  std::copy(scene.words.begin(), scene.words.end(), arguments.header().words);
  for (const Piece& piece : scene.pieces) {
    const Tensor source =
        piece.source.element_count() == 0 ? piece.source : Moved(piece.source, sources);
    arguments.Add(source, Moved(piece.target, targets), piece.fill);
  }
  return arguments;
}

// Draws scenes: areas of random bytes, tensors of every kind in them, and bytes between.
class SceneSource {
 public:
  explicit SceneSource(uint64_t seed) : random_(seed) {}

  // Of copies of up to `rank_max` axes.
  Scene Draw(int copies, int words, int rank_max = kRankMax) {
    Scene scene;
    for (int i = 0; i < copies; ++i)
      scene.pieces.push_back(DrawPiece(scene, rank_max));
    scene.word_offset = Reserve(scene.targets, words * kWordBytes, kWordBytes);
    for (int i = 0; i < words; ++i)
      scene.words.push_back(static_cast<int64_t>(random_()));
    Reserve(scene.targets, 1, 1);
    for (std::vector<uint8_t>* area : {&scene.sources, &scene.targets})
      std::generate(area->begin(), area->end(), [this] { return static_cast<uint8_t>(random_()); });
    return scene;
  }

  int64_t Below(int64_t end) {
    return static_cast<int64_t>(random_() % static_cast<uint64_t>(end));
  }

 private:
  static constexpr int64_t kWordBytes = 8;

  // Appends room for `bytes` to an area, after a gap; returns its offset.
  int64_t Reserve(std::vector<uint8_t>& area, int64_t bytes, int64_t alignment) {
    const int64_t offset = AlignUp(static_cast<int64_t>(area.size()) + Below(32), alignment);
    area.resize(static_cast<size_t>(offset + bytes));
    return offset;
  }

  Piece DrawPiece(Scene& scene, int rank_max) {
    const DType dtype = kDTypes[Below(std::ssize(kDTypes))];
    // Half of them are laid out so that rows can be moved in large units.
    const bool wide = Below(2) == 0;
    std::vector<int64_t> sizes;
    std::vector<int64_t> padded;
    int64_t elements = 1;
    for (int64_t axis = Below(rank_max + 1); axis > 0; --axis) {
      // Long last axes make several tiles; a size of 0 makes nothing, or nothing but padding.
      int64_t size = axis == 1 && Below(8) == 0 ? Below(3000) : Below(12);
      if (elements > 500) size = Below(3);
      if (wide && axis == 1) size = AlignUp(size, 16);
      padded.push_back(size);
      sizes.push_back(Below(3) == 0 ? size : Below(size + 1));
      if (wide && axis == 1) sizes.back() &= ~int64_t{15};
      elements *= std::max<int64_t>(size, 1);
    }
    Piece piece;
    piece.source = DrawTensor(dtype, sizes, wide, /*repeats=*/true);
    if (piece.source.element_count() > 0) {  // Else the address stays 0.
      piece.source.data = Place(scene.sources, piece.source, wide);
    }
    piece.target = DrawTensor(dtype, padded, wide, /*repeats=*/false);
    piece.target.data = Place(scene.targets, piece.target, wide);
    piece.fill = DrawFill();
    return piece;
  }

  DeviceAddress Place(std::vector<uint8_t>& area, const Tensor& tensor, bool wide) {
    const int64_t element = SizeOf(tensor.dtype);
    return static_cast<DeviceAddress>(
        Reserve(area, tensor.span() * element, wide && Below(4) > 0 ? 16 : element));
  }

  // A tensor with its axes in any order in memory, and gaps between rows; some axes repeat. If it
  // is to have large units, rows are whole and begin at multiples of 16 elements.
  Tensor DrawTensor(DType dtype, const std::vector<int64_t>& sizes, bool wide, bool repeats) {
    Tensor tensor = Tensor::Dense(0, dtype, sizes);
    if (tensor.element_count() == 0) return tensor;
    std::vector<int> order(sizes.size());
    std::iota(order.begin(), order.end(), 0);
    if (wide)
      std::reverse(order.begin(), order.end());
    else
      std::shuffle(order.begin(), order.end(), random_);
    int64_t span = 1;
    for (const int axis : order) {
      const bool last = axis + 1 == tensor.rank;
      int64_t stride = span;
      if (wide && !last)
        stride = AlignUp(span, 16) + 16 * Below(2);
      else if (!wide)
        stride += Below(3);
      if (repeats && Below(5) == 0) stride = 0;
      tensor.strides[axis] = stride;
      span += (tensor.sizes[axis] - 1) * stride;
    }
    return tensor;
  }

  Fill DrawFill() {
    switch (Below(5)) {
      case 0:
        return Fill::Zero();
      case 1:
        return Fill::Value(static_cast<double>(Below(400)) - 100.5);
      case 2:
        return Fill::Sentinel();
      case 3:
        return Fill::RepeatLast();
      default:
        return Fill::Undefined();
    }
  }

  std::mt19937_64 random_;
};

}  // namespace coppice
