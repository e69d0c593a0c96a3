// The decoder's weights: their order, their shapes, and how they are drawn from a seed.
//
// Units: sizes count elements. Threads: any.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/model/decoder.h"

namespace coppice {

// Weights of the whole model come first, then those of each layer.
enum class ModelWeight : int { kEmbedding, kFinalNorm, kVocabulary, kCosines, kSines, kCount };
enum class LayerWeight : int {
  kAttentionNorm,
  kQkv,
  kAttentionOut,
  kFfnNorm,
  kGateUp,
  kDown,
  kCount
};

constexpr int WeightIndex(ModelWeight weight) {
  return static_cast<int>(weight);
}

constexpr int WeightIndex(int64_t layer, LayerWeight weight) {
  return WeightIndex(ModelWeight::kCount) +
         static_cast<int>(layer) * static_cast<int>(LayerWeight::kCount) + static_cast<int>(weight);
}

// A weight on the host: a vector, or a matrix [depth, width] with rows padded with zeros to whole
// tiles of a projection.
struct Weight {
  std::string name;
  std::vector<int64_t> sizes;
  std::vector<float> values;
};

// The weights of the model, then of layer 0, 1, ... in the order of the enums. Equal seeds draw
// equal weights on every platform.
std::vector<Weight> DrawWeights(const DecoderConfig& config, uint64_t seed);

}  // namespace coppice
