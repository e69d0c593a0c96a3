// Seeded scenes for the staging kernels: tensors of every rank, stride, dtype and fill.
//
// A scene names places by their offsets in two memory areas, so that one scene can be staged in
// several memories: copy both areas there and take ParamsOf() for where they lie.
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

inline StagingParams ParamsOf(const Scene& scene, DeviceAddress sources, DeviceAddress targets) {
  StagingParams params;
  params.header.parameter_block = targets + static_cast<DeviceAddress>(scene.word_offset);
  params.header.word_count = static_cast<int32_t>(scene.words.size());
  params.header.copy_count = static_cast<int32_t>(scene.pieces.size());
  std::copy(scene.words.begin(), scene.words.end(), params.header.words);
  for (size_t i = 0; i < scene.pieces.size(); ++i) {
    const Piece& piece = scene.pieces[i];
    const Tensor source =
        piece.source.element_count() == 0 ? piece.source : Moved(piece.source, sources);
    params.copies[i] = MakeStagedCopy(source, Moved(piece.target, targets), piece.fill);
  }
  return params;
}

// Draws scenes: areas of random bytes, tensors of every kind in them, and bytes between.
class SceneSource {
 public:
  explicit SceneSource(uint64_t seed) : random_(seed) {}

  Scene Draw(int copies, int words) {
    Scene scene;
    for (int i = 0; i < copies; ++i)
      scene.pieces.push_back(DrawPiece(scene));
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

  Piece DrawPiece(Scene& scene) {
    const DType dtype = kDTypes[Below(std::ssize(kDTypes))];
    std::vector<int64_t> sizes;
    std::vector<int64_t> padded;
    for (int64_t axis = Below(kRankMax + 1); axis > 0; --axis) {
      // Long last axes make several tiles; a size of 0 makes nothing, or nothing but padding.
      padded.push_back(axis == 1 && Below(8) == 0 ? Below(3000) : Below(12));
      sizes.push_back(Below(3) == 0 ? padded.back() : Below(padded.back() + 1));
    }
    Piece piece;
    piece.source = DrawSource(scene.sources, dtype, sizes);
    piece.target = Tensor::Dense(0, dtype, padded);
    piece.target.data = static_cast<DeviceAddress>(
        Reserve(scene.targets, piece.target.element_count() * SizeOf(dtype), SizeOf(dtype)));
    piece.fill = DrawFill();
    return piece;
  }

  // A tensor with its axes in any order in memory, gaps between rows, and some axes repeated.
  Tensor DrawSource(std::vector<uint8_t>& area, DType dtype, const std::vector<int64_t>& sizes) {
    Tensor tensor = Tensor::Dense(0, dtype, sizes);
    if (tensor.element_count() == 0) return tensor;  // The address stays 0.
    std::vector<int> order(sizes.size());
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), random_);
    int64_t span = 1;
    for (const int axis : order) {
      tensor.strides[axis] = Below(5) == 0 ? 0 : span + Below(3);
      span += (tensor.sizes[axis] - 1) * tensor.strides[axis];
    }
    tensor.data = static_cast<DeviceAddress>(Reserve(area, span * SizeOf(dtype), SizeOf(dtype)));
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
