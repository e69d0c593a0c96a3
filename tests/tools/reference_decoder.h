// A decoder in float64 and plain loops: the oracle that the kernels are compared with.
//
// It shares nothing with the decoder but the configuration and the weights, which it takes by name.
// One token at a time, every earlier key and value kept as it was computed.
//
// Units: positions count tokens. Threads: one at a time.

#pragma once

#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tools/model/decoder.h"

namespace coppice {

// A weight read back from the device: a matrix with padded rows, or a vector (stride 0).
struct ReferenceWeight {
  std::vector<float> values;
  int64_t stride = 0;

  double at(int64_t row, int64_t column) const {
    return values.at(static_cast<size_t>(row * stride + column));
  }
};
using ReferenceWeights = std::map<std::string, ReferenceWeight>;

// One sequence.
class ReferenceDecoder {
 public:
  ReferenceDecoder(const DecoderConfig& config, const ReferenceWeights& weights)
      : config_(config), weights_(weights), layers_(static_cast<size_t>(config.layers)) {}

  // Appends a token and returns the logits of the one after it.
  std::vector<double> Append(int32_t token) {
    Vector x(static_cast<size_t>(config_.d_model));
    for (size_t i = 0; i < x.size(); ++i)
      x[i] = weights_.at("embedding").at(token, static_cast<int64_t>(i));
    for (size_t layer = 0; layer < layers_.size(); ++layer) {
      const std::string prefix = "layer" + std::to_string(layer) + ".";
      Add(Attention(layers_[layer], prefix, Norm(x, prefix + "attention_norm")), x);
      Add(FeedForward(prefix, Norm(x, prefix + "ffn_norm")), x);
    }
    ++position_;
    return Multiply(Norm(x, "final_norm"), "vocabulary", config_.vocab);
  }

 private:
  using Vector = std::vector<double>;
  struct Layer {
    std::vector<Vector> keys;    // By position; rotated.
    std::vector<Vector> values;  // By position.
  };

  static void Add(const Vector& source, Vector& target) {
    for (size_t i = 0; i < target.size(); ++i)
      target[i] += source[i];
  }

  Vector Norm(const Vector& x, const std::string& name) const {
    double squares = 0;
    for (const double value : x)
      squares += value * value;
    const double root = std::sqrt(squares / static_cast<double>(x.size()) + config_.rms_eps);
    Vector y(x.size());
    for (size_t i = 0; i < x.size(); ++i)
      y[i] = x[i] / root * weights_.at(name).at(0, static_cast<int64_t>(i));
    return y;
  }

  Vector Multiply(const Vector& x, const std::string& name, int64_t width) const {
    const ReferenceWeight& matrix = weights_.at(name);
    Vector y(static_cast<size_t>(width));
    for (size_t i = 0; i < y.size(); ++i) {
      for (size_t k = 0; k < x.size(); ++k)
        y[i] += x[k] * matrix.at(static_cast<int64_t>(k), static_cast<int64_t>(i));
    }
    return y;
  }

  // Head `head` of `source`, turned by the position.
  Vector Rotated(const Vector& source, int64_t head) const {
    const auto dim = static_cast<size_t>(config_.head_dim);
    const size_t start = static_cast<size_t>(head) * dim;
    Vector y(dim);
    for (size_t i = 0; i < dim / 2; ++i) {
      const double exponent = -2.0 * static_cast<double>(i) / static_cast<double>(dim);
      const double angle = static_cast<double>(position_) * std::pow(config_.rope_theta, exponent);
      const double low = source[start + i];
      const double high = source[start + i + dim / 2];
      y[i] = low * std::cos(angle) - high * std::sin(angle);
      y[i + dim / 2] = low * std::sin(angle) + high * std::cos(angle);
    }
    return y;
  }

  // Softmax of q . k over all positions so far, applied to their values.
  Vector Attend(const Layer& layer, const Vector& query, int64_t kv_head) const {
    const auto dim = static_cast<size_t>(config_.head_dim);
    const size_t start = static_cast<size_t>(kv_head) * dim;
    Vector weights;
    double total = 0;
    for (const Vector& key : layer.keys) {
      double score = 0;
      for (size_t i = 0; i < dim; ++i)
        score += query[i] * key[start + i];
      weights.push_back(std::exp(score / std::sqrt(static_cast<double>(dim))));
      total += weights.back();
    }
    Vector y(dim);
    for (size_t position = 0; position < weights.size(); ++position) {
      for (size_t i = 0; i < dim; ++i)
        y[i] += weights[position] / total * layer.values[position][start + i];
    }
    return y;
  }

  Vector Attention(Layer& layer, const std::string& prefix, const Vector& x) const {
    const int64_t query_width = config_.heads * config_.head_dim;
    const Vector qkv = Multiply(x, prefix + "qkv", query_width + 2 * config_.kv_row());
    Vector keys;
    for (int64_t head = 0; head < config_.kv_heads; ++head) {
      const Vector key = Rotated(qkv, config_.heads + head);
      keys.insert(keys.end(), key.begin(), key.end());
    }
    layer.keys.push_back(std::move(keys));
    layer.values.emplace_back(qkv.end() - config_.kv_row(), qkv.end());
    Vector joined;
    for (int64_t head = 0; head < config_.heads; ++head) {
      const int64_t kv_head = head * config_.kv_heads / config_.heads;
      const Vector attended = Attend(layer, Rotated(qkv, head), kv_head);
      joined.insert(joined.end(), attended.begin(), attended.end());
    }
    return Multiply(joined, prefix + "attention_out", config_.d_model);
  }

  Vector FeedForward(const std::string& prefix, const Vector& x) const {
    const Vector gate_up = Multiply(x, prefix + "gate_up", 2 * config_.ffn);
    const auto width = static_cast<size_t>(config_.ffn);
    Vector gated(width);
    for (size_t i = 0; i < width; ++i)
      gated[i] = gate_up[i] / (1 + std::exp(-gate_up[i])) * gate_up[width + i];
    return Multiply(gated, prefix + "down", config_.d_model);
  }

  const DecoderConfig& config_;
  const ReferenceWeights& weights_;
  std::vector<Layer> layers_;
  int64_t position_ = 0;
};

}  // namespace coppice
