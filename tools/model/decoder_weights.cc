// Draws the decoder's weights.

#include "tools/model/decoder_weights.h"

#include <cmath>
#include <cstddef>
#include <utility>

#include "fmt/format.h"

#include "coppice/base/units.h"

#include "tools/model/decoder_params.h"

namespace coppice {
namespace {

// SplitMix64: the same weights from a seed on every platform, which <random> does not promise.
class WeightSource {
 public:
  explicit WeightSource(uint64_t seed) : state_(seed) {}

  // Uniform with mean 0 and the given standard deviation.
  float Draw(double deviation) {
    state_ += 0x9e3779b97f4a7c15;
    uint64_t bits = state_;
    bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9;
    bits = (bits ^ (bits >> 27)) * 0x94d049bb133111eb;
    bits ^= bits >> 31;
    const double unit = static_cast<double>(bits >> 11) * 0x1p-53;  // In [0, 1).
    return static_cast<float>(deviation * std::sqrt(12.0) * (unit - 0.5));
  }

 private:
  uint64_t state_;
};

Weight DrawNorm(std::string name, int64_t width, WeightSource& source) {
  constexpr double kSpread = 0.1;  // About 1, yet different in every place.
  Weight weight{.name = std::move(name), .sizes = {width}, .values = {}};
  for (int64_t i = 0; i < width; ++i)
    weight.values.push_back(1.0F + source.Draw(kSpread));
  return weight;
}

// Its deviation keeps a unit input at unit size.
Weight DrawProjection(std::string name, int64_t depth, int64_t width, WeightSource& source) {
  const int64_t stride = AlignUp(width, kProjectionColumns);
  Weight weight{.name = std::move(name), .sizes = {depth, stride}, .values = {}};
  weight.values.resize(static_cast<size_t>(depth * stride));
  const double deviation = 1 / std::sqrt(static_cast<double>(depth));
  for (int64_t row = 0; row < depth; ++row) {
    for (int64_t column = 0; column < width; ++column)
      weight.values[static_cast<size_t>(row * stride + column)] = source.Draw(deviation);
  }
  return weight;
}

Weight DrawEmbedding(const DecoderConfig& config, WeightSource& source) {
  Weight weight{.name = "embedding", .sizes = {config.vocab, config.d_model}, .values = {}};
  for (int64_t i = 0; i < config.vocab * config.d_model; ++i)
    weight.values.push_back(source.Draw(1));
  return weight;
}

// cos or sin of position / theta^(2 i / head_dim), computed in double so that kernels need no
// transcendental function of a large argument.
Weight RotaryTable(std::string name, const DecoderConfig& config, double (*function)(double)) {
  const int64_t half = config.head_dim / 2;
  Weight weight{.name = std::move(name), .sizes = {config.max_context, half}, .values = {}};
  for (int64_t position = 0; position < config.max_context; ++position) {
    for (int64_t i = 0; i < half; ++i) {
      const double exponent = static_cast<double>(i) / static_cast<double>(half);
      const double angle = static_cast<double>(position) / std::pow(config.rope_theta, exponent);
      weight.values.push_back(static_cast<float>(function(angle)));
    }
  }
  return weight;
}

}  // namespace

std::vector<Weight> DrawWeights(const DecoderConfig& config, uint64_t seed) {
  WeightSource source(seed);
  std::vector<Weight> weights;
  weights.push_back(DrawEmbedding(config, source));
  weights.push_back(DrawNorm("final_norm", config.d_model, source));
  weights.push_back(DrawProjection("vocabulary", config.d_model, config.vocab, source));
  weights.push_back(
      RotaryTable("rotary_cosines", config, [](double angle) { return std::cos(angle); }));
  weights.push_back(
      RotaryTable("rotary_sines", config, [](double angle) { return std::sin(angle); }));
  const int64_t query_width = config.heads * config.head_dim;
  const int64_t qkv_width = query_width + 2 * config.kv_row();
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    const std::string prefix = fmt::format("layer{}.", layer);
    weights.push_back(DrawNorm(prefix + "attention_norm", config.d_model, source));
    weights.push_back(DrawProjection(prefix + "qkv", config.d_model, qkv_width, source));
    weights.push_back(
        DrawProjection(prefix + "attention_out", query_width, config.d_model, source));
    weights.push_back(DrawNorm(prefix + "ffn_norm", config.d_model, source));
    weights.push_back(DrawProjection(prefix + "gate_up", config.d_model, 2 * config.ffn, source));
    weights.push_back(DrawProjection(prefix + "down", config.ffn, config.d_model, source));
  }
  return weights;
}

}  // namespace coppice
