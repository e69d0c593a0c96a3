// One function per model; within it, one line per operation or two.

#include "tools/plan/program_models.h"

#include <algorithm>

#include "coppice/base/units.h"

#include "tools/plan/model_tape.h"

namespace coppice {
namespace {

using Id = ModelTape::Id;

constexpr int64_t kBertHidden = 1024;

// Into how many parts attention splits the cache to fill the multiprocessors of an H100.
int64_t CacheSplits(int64_t tokens, int64_t kv_heads) {
  constexpr int64_t kMultiprocessors = 132;
  constexpr int64_t kSplitsMax = 32;
  const int64_t blocks = tokens * kv_heads;
  if (10 * blocks >= 8 * kMultiprocessors) return 1;
  return std::clamp<int64_t>(kMultiprocessors / blocks, 1, kSplitsMax);
}

class FusedDecoderSteps {
 public:
  FusedDecoderSteps(const FusedDecoder& model, int64_t tokens)
      : model_(model),
        tokens_(tokens),
        heads_(model.heads / model.ranks),
        kv_heads_(std::max<int64_t>(1, model.kv_heads / model.ranks)),
        intermediate_(model.intermediate / model.ranks) {}

  std::vector<Buffer> Run() {
    const Id residual = Rows(model_.hidden * kHalfBytes);
    Id hidden = Rows(model_.hidden * kHalfBytes);
    for (int64_t layer = 0; layer < model_.layers; ++layer) {
      hidden = Attention(hidden);
      hidden = model_.experts > 0 ? Experts(hidden) : Dense(hidden);
    }
    tape_.Free(residual);
    if (model_.logits) Logits(hidden);
    return tape_.Finish();
  }

 private:
  struct Quantised {
    Id values = ModelTape::kNone;
    Id scales = ModelTape::kNone;
  };

  Id Rows(int64_t bytes) { return tape_.New(tokens_ * bytes); }

  Quantised Quantise(Id values, int64_t width) {
    if (!model_.fp8) return {.values = values};
    const Quantised quantised = {.values = Rows(width), .scales = Rows(kFloatBytes)};
    tape_.Free(values);
    return quantised;
  }

  // The projection of `width` columns to hidden ones, summed over ranks.
  Id Project(Id values, int64_t width) {
    const Quantised input = Quantise(values, width);
    const Id output = Rows(model_.hidden * kHalfBytes);
    tape_.Free(input.values, input.scales);
    return SumOverRanks(output);
  }

  Id SumOverRanks(Id part) {
    if (model_.ranks == 1) return part;
    const Id sum = Rows(model_.hidden * kHalfBytes);
    tape_.Free(part);
    return sum;
  }

  // The residual is added in place.
  Id Attention(Id hidden) {
    const Quantised input = Quantise(hidden, model_.hidden);
    const Id qkv = Rows((heads_ + 2 * kv_heads_) * model_.head_size * kHalfBytes);
    tape_.Free(input.values, input.scales);
    const Id attended = Rows(heads_ * model_.head_size * kHalfBytes);
    const Id sums = Rows(heads_ * kFloatBytes);
    Id split_attended = ModelTape::kNone;
    Id split_sums = ModelTape::kNone;
    const int64_t splits = model_.decode ? CacheSplits(tokens_, kv_heads_) : 1;
    if (splits > 1) {
      split_attended = Rows(splits * heads_ * model_.head_size * kFloatBytes);
      split_sums = Rows(splits * heads_ * kFloatBytes);
    }
    tape_.Free(sums, split_attended, split_sums, qkv);
    return Project(attended, heads_ * model_.head_size);
  }

  Id Dense(Id hidden) {
    const Quantised input = Quantise(hidden, model_.hidden);
    const Id gate_up = Rows(2 * intermediate_ * kHalfBytes);
    tape_.Free(input.values, input.scales);
    const Id activated = Rows(intermediate_ * kHalfBytes);
    tape_.Free(gate_up);
    return Project(activated, intermediate_);
  }

  Id Experts(Id hidden) {
    constexpr int64_t kBlock = 64;  // Tokens that a block of the fused kernel takes.
    const int64_t pairs = tokens_ * model_.experts_used;
    const Id router_half = Rows(model_.experts * kHalfBytes);
    const Id router = Rows(model_.experts * kFloatBytes);
    tape_.Free(router_half);
    const Id weights = tape_.New(pairs * kFloatBytes);
    const Id choices = tape_.New(pairs * kFloatBytes);
    tape_.Free(router);
    const int64_t padded = pairs + model_.experts * (kBlock - 1);
    const Id sorted = tape_.New(padded * kFloatBytes);
    const Id block_experts = tape_.New(CeilDivide(padded, kBlock) * kFloatBytes);
    const Id padded_count = tape_.New(kFloatBytes);
    const Id gate_up = tape_.New(pairs * 2 * intermediate_ * kHalfBytes);
    const Id activated = tape_.New(pairs * intermediate_ * kHalfBytes);
    tape_.Free(gate_up);
    const Id parts = tape_.New(pairs * model_.hidden * kHalfBytes);
    tape_.Free(activated);
    const Id output = Rows(model_.hidden * kHalfBytes);
    tape_.Free(parts, sorted, block_experts, padded_count, weights, choices, hidden);
    return SumOverRanks(output);
  }

  void Logits(Id hidden) {
    Id logits = Rows(model_.vocabulary / model_.ranks * kHalfBytes);
    if (model_.ranks > 1) {
      const Id gathered = Rows(model_.vocabulary * kHalfBytes);
      tape_.Free(logits);
      logits = gathered;
    }
    Rows(model_.vocabulary * kFloatBytes);  // Lives to the end, as do the chosen tokens.
    tape_.Free(logits, hidden);
    Rows(kLongBytes);
  }

  const FusedDecoder& model_;
  const int64_t tokens_;
  const int64_t heads_;
  const int64_t kv_heads_;
  const int64_t intermediate_;
  ModelTape tape_;
};

// Root mean square normalisation of `rows` that stay, one operation at a time.
Id EagerNorm(ModelTape& tape, int64_t rows, int64_t width) {
  const Id x_float = tape.New(rows * width * kFloatBytes);
  const Id squares = tape.New(rows * width * kFloatBytes);
  const Id variance = tape.New(rows * kFloatBytes);
  tape.Free(squares);
  const Id shifted = tape.New(rows * kFloatBytes);
  tape.Free(variance);
  const Id inverse = tape.New(rows * kFloatBytes);
  tape.Free(shifted);
  const Id product = tape.New(rows * width * kFloatBytes);
  tape.Free(inverse, x_float);
  const Id rounded = tape.New(rows * width * kHalfBytes);
  tape.Free(product);
  const Id output = tape.New(rows * width * kHalfBytes);
  tape.Free(rounded);
  return output;
}

// Rotary position embedding, one operation at a time.
Id EagerRotation(ModelTape& tape, Id x, int64_t values) {
  const Id cosine_part = tape.New(values * kHalfBytes);
  const Id negated = tape.New(values);
  const Id rotated = tape.New(values * kHalfBytes);
  tape.Free(negated);
  const Id sine_part = tape.New(values * kHalfBytes);
  tape.Free(rotated);
  const Id output = tape.New(values * kHalfBytes);
  tape.Free(cosine_part, sine_part, x);
  return output;
}

class EagerDecoderSteps {
 public:
  EagerDecoderSteps(int64_t batch, int64_t context) : batch_(batch), context_(context) {}

  std::vector<Buffer> Run() {
    Id hidden = tape_.New(batch_ * kHidden * kHalfBytes);
    const Id frequencies = tape_.New(kHeadSize / 2 * kFloatBytes * batch_);
    const Id angles = tape_.New(batch_ * kHeadSize / 2 * kFloatBytes);
    const Id joined = tape_.New(batch_ * kHeadSize * kFloatBytes);
    tape_.Free(angles, frequencies);
    const Id cosine_float = tape_.New(batch_ * kHeadSize * kFloatBytes);
    const Id sine_float = tape_.New(batch_ * kHeadSize * kFloatBytes);
    tape_.Free(joined);
    const Id cosine = tape_.New(batch_ * kHeadSize * kHalfBytes);
    const Id sine = tape_.New(batch_ * kHeadSize * kHalfBytes);
    tape_.Free(cosine_float, sine_float);
    const Id mask = tape_.New(batch_ * context_ * kHalfBytes);
    for (int layer = 0; layer < kLayers; ++layer)
      hidden = Mlp(Attention(hidden));
    const Id normed = EagerNorm(tape_, batch_, kHidden);
    tape_.Free(hidden, cosine, sine, mask);
    const Id logits = tape_.New(batch_ * kVocabulary * kHalfBytes);
    tape_.Free(normed);
    tape_.New(batch_ * kVocabulary * kFloatBytes);
    tape_.Free(logits);
    return tape_.Finish();
  }

 private:
  static constexpr int kLayers = 32;
  static constexpr int64_t kHidden = 4096;
  static constexpr int64_t kHeads = 32;
  static constexpr int64_t kKvHeads = 8;
  static constexpr int64_t kHeadSize = 128;
  static constexpr int64_t kIntermediate = 14336;
  static constexpr int64_t kVocabulary = 128256;

  Id Attention(Id hidden) {
    const Id normed = EagerNorm(tape_, batch_, kHidden);
    Id queries = tape_.New(batch_ * kHeads * kHeadSize * kHalfBytes);
    Id keys = tape_.New(batch_ * kKvHeads * kHeadSize * kHalfBytes);
    const Id values = tape_.New(batch_ * kKvHeads * kHeadSize * kHalfBytes);
    tape_.Free(normed);
    queries = EagerRotation(tape_, queries, batch_ * kHeads * kHeadSize);
    keys = EagerRotation(tape_, keys, batch_ * kKvHeads * kHeadSize);
    tape_.Free(keys, values);
    const int64_t scores = batch_ * kHeads * context_;
    const Id repeated_keys = tape_.New(scores * kHeadSize * kHalfBytes);
    const Id repeated_values = tape_.New(scores * kHeadSize * kHalfBytes);
    const Id raw = tape_.New(scores * kHalfBytes);
    const Id scaled = tape_.New(scores * kHalfBytes);
    tape_.Free(raw, repeated_keys, queries);
    const Id masked = tape_.New(scores * kHalfBytes);
    tape_.Free(scaled);
    const Id softmax = tape_.New(scores * kFloatBytes);
    tape_.Free(masked);
    const Id weights = tape_.New(scores * kHalfBytes);
    tape_.Free(softmax);
    const Id attended = tape_.New(batch_ * kHeads * kHeadSize * kHalfBytes);
    tape_.Free(weights, repeated_values);
    const Id contiguous = tape_.New(batch_ * kHeads * kHeadSize * kHalfBytes);
    tape_.Free(attended);
    const Id output = tape_.New(batch_ * kHidden * kHalfBytes);
    tape_.Free(contiguous);
    const Id sum = tape_.New(batch_ * kHidden * kHalfBytes);
    tape_.Free(output, hidden);
    return sum;
  }

  Id Mlp(Id hidden) {
    const Id normed = EagerNorm(tape_, batch_, kHidden);
    const Id gate = tape_.New(batch_ * kIntermediate * kHalfBytes);
    const Id activated = tape_.New(batch_ * kIntermediate * kHalfBytes);
    tape_.Free(gate);
    const Id up = tape_.New(batch_ * kIntermediate * kHalfBytes);
    const Id product = tape_.New(batch_ * kIntermediate * kHalfBytes);
    tape_.Free(activated, up, normed);
    const Id down = tape_.New(batch_ * kHidden * kHalfBytes);
    tape_.Free(product);
    const Id sum = tape_.New(batch_ * kHidden * kHalfBytes);
    tape_.Free(down, hidden);
    return sum;
  }

  const int64_t batch_;
  const int64_t context_;
  ModelTape tape_;
};

// A layer of BERT large: 16 heads, 1024 hidden units, 4096 intermediate ones.
Id BertLayer(ModelTape& tape, Id hidden, int64_t batch, int64_t sequence, bool eager) {
  constexpr int64_t kHeads = 16;
  constexpr int64_t kIntermediate = 4096;
  const int64_t rows = batch * sequence;
  const auto half_rows = [&] { return tape.New(rows * kBertHidden * kHalfBytes); };
  const auto statistics = [&] { return tape.New(rows * kFloatBytes); };
  const Id queries = half_rows();
  const Id keys = half_rows();
  const Id values = half_rows();
  Id context = ModelTape::kNone;
  if (eager) {
    const int64_t score_bytes = batch * kHeads * sequence * sequence * kHalfBytes;
    const Id raw = tape.New(score_bytes);
    tape.Free(queries, keys);
    const Id scaled = tape.New(score_bytes);
    tape.Free(raw);
    const Id masked = tape.New(score_bytes);
    tape.Free(scaled);
    const Id weights = tape.New(score_bytes);
    tape.Free(masked);
    const Id attended = half_rows();
    tape.Free(weights, values);
    context = half_rows();
    tape.Free(attended);
  } else {
    context = half_rows();
    const Id sums = tape.New(batch * kHeads * sequence * kFloatBytes);
    const Id random_state = tape.New(16);
    tape.Free(sums, random_state, queries, keys, values);
  }
  const Id projected = half_rows();
  tape.Free(context);
  const Id attention_sum = half_rows();
  tape.Free(projected, hidden);
  const Id normed = half_rows();
  const Id mean = statistics();
  const Id deviation = statistics();
  tape.Free(attention_sum, mean, deviation);
  const Id up = tape.New(rows * kIntermediate * kHalfBytes);
  const Id activated = tape.New(rows * kIntermediate * kHalfBytes);
  tape.Free(up);
  const Id down = half_rows();
  tape.Free(activated);
  const Id sum = half_rows();
  tape.Free(down, normed);
  const Id output = half_rows();
  const Id output_mean = statistics();
  const Id output_deviation = statistics();
  tape.Free(sum, output_mean, output_deviation);
  return output;
}

class T5Steps {
 public:
  explicit T5Steps(int64_t batch) : batch_(batch) {}

  std::vector<Buffer> Run(int64_t sequence, int64_t decoded) {
    Id hidden = tape_.New(batch_ * sequence * kHidden * kHalfBytes);
    Id bias = ModelTape::kNone;
    for (int layer = 0; layer < kLayers; ++layer) {
      hidden = Attention(hidden, {sequence, sequence, /*cross=*/false}, bias);
      hidden = FeedForward(hidden, sequence);
    }
    tape_.Free(bias);
    const Id encoded = EagerNorm(tape_, batch_ * sequence, kHidden);
    tape_.Free(hidden);

    hidden = tape_.New(batch_ * decoded * kHidden * kHalfBytes);
    Id self_bias = ModelTape::kNone;
    Id cross_bias = ModelTape::kNone;
    for (int layer = 0; layer < kLayers; ++layer) {
      hidden = Attention(hidden, {decoded, decoded, /*cross=*/false}, self_bias);
      hidden = Attention(hidden, {decoded, sequence, /*cross=*/true}, cross_bias);
      hidden = FeedForward(hidden, decoded);
    }
    tape_.Free(self_bias, cross_bias);
    const Id normed = EagerNorm(tape_, batch_ * decoded, kHidden);
    tape_.Free(hidden);
    const Id logits = tape_.New(batch_ * decoded * kVocabulary * kHalfBytes);
    tape_.Free(normed, encoded);
    tape_.New(batch_ * decoded * kVocabulary * kFloatBytes);
    tape_.Free(logits);
    return tape_.Finish();
  }

 private:
  static constexpr int kLayers = 12;
  static constexpr int64_t kHidden = 768;  // Twelve heads of 64.
  static constexpr int64_t kHeads = 12;
  static constexpr int64_t kIntermediate = 3072;
  static constexpr int64_t kVocabulary = 32128;

  struct Extents {
    int64_t queries = 0;
    int64_t keys = 0;
    bool cross = false;  // Keys and values are of the encoder.
  };

  // The first layer makes `bias`, the others share it.
  Id Attention(Id hidden, const Extents& extents, Id& bias) {
    const int64_t rows = batch_ * extents.queries;
    const int64_t key_rows = extents.cross ? batch_ * extents.keys : rows;
    const int64_t scores = batch_ * kHeads * extents.queries * extents.keys;
    const Id normed = EagerNorm(tape_, rows, kHidden);
    const Id queries = tape_.New(rows * kHidden * kHalfBytes);
    const Id keys = tape_.New(key_rows * kHidden * kHalfBytes);
    const Id values = tape_.New(key_rows * kHidden * kHalfBytes);
    tape_.Free(normed);
    const Id raw = tape_.New(scores * kHalfBytes);
    tape_.Free(queries, keys);
    if (bias == ModelTape::kNone) {
      const Id distances = tape_.New(extents.queries * extents.keys * kLongBytes);
      const Id bucketed = tape_.New(extents.queries * extents.keys * kLongBytes);
      tape_.Free(distances);
      const Id looked_up = tape_.New(extents.queries * extents.keys * kHeads * kHalfBytes);
      tape_.Free(bucketed);
      bias = tape_.New(scores * kHalfBytes);
      tape_.Free(looked_up);
    }
    const Id biased = tape_.New(scores * kHalfBytes);
    tape_.Free(raw);
    const Id softmax = tape_.New(scores * kFloatBytes);
    tape_.Free(biased);
    const Id weights = tape_.New(scores * kHalfBytes);
    tape_.Free(softmax);
    const Id attended = tape_.New(rows * kHidden * kHalfBytes);
    tape_.Free(weights, values);
    const Id contiguous = tape_.New(rows * kHidden * kHalfBytes);
    tape_.Free(attended);
    return Add(contiguous, hidden, rows);
  }

  Id FeedForward(Id hidden, int64_t length) {
    const int64_t rows = batch_ * length;
    const Id normed = EagerNorm(tape_, rows, kHidden);
    const Id up = tape_.New(rows * kIntermediate * kHalfBytes);
    tape_.Free(normed);
    const Id activated = tape_.New(rows * kIntermediate * kHalfBytes);
    tape_.Free(up);
    return Add(activated, hidden, rows);
  }

  // Projects `input` and adds the result to `hidden`.
  Id Add(Id input, Id hidden, int64_t rows) {
    const Id projected = tape_.New(rows * kHidden * kHalfBytes);
    tape_.Free(input);
    const Id sum = tape_.New(rows * kHidden * kHalfBytes);
    tape_.Free(projected, hidden);
    return sum;
  }

  const int64_t batch_;
  ModelTape tape_;
};

}  // namespace

std::vector<Buffer> FusedDecoderStep(const FusedDecoder& model, int64_t tokens) {
  return FusedDecoderSteps(model, tokens).Run();
}

std::vector<Buffer> EagerDecoderStep(int64_t batch, int64_t context) {
  return EagerDecoderSteps(batch, context).Run();
}

std::vector<Buffer> BertLarge(int64_t batch, int64_t sequence, bool eager) {
  constexpr int kLayers = 24;
  ModelTape tape;
  const int64_t rows = batch * sequence;
  const Id mask = tape.New(rows * kHalfBytes);
  tape.New(rows * kFloatBytes);  // The additive mask lives to the end.
  tape.Free(mask);
  const Id words = tape.New(rows * kBertHidden * kHalfBytes);
  const Id positions = tape.New(sequence * kBertHidden * kHalfBytes);
  const Id embedded = tape.New(rows * kBertHidden * kHalfBytes);
  tape.Free(words, positions);
  Id hidden = tape.New(rows * kBertHidden * kHalfBytes);
  tape.Free(embedded);
  for (int layer = 0; layer < kLayers; ++layer)
    hidden = BertLayer(tape, hidden, batch, sequence, eager);
  const Id pooled = tape.New(batch * kBertHidden * kHalfBytes);
  tape.New(batch * kBertHidden * kHalfBytes);
  tape.Free(pooled);
  return tape.Finish();
}

std::vector<Buffer> T5Base(int64_t batch, int64_t sequence, int64_t decoded) {
  return T5Steps(batch).Run(sequence, decoded);
}

}  // namespace coppice
