// The training step: layers forward, layers backward, then one scratch buffer per gradient.

#include "tools/plan/model_tape.h"
#include "tools/plan/program_models.h"

namespace coppice {
namespace {

using Id = ModelTape::Id;

constexpr int64_t kBatch = 4;
constexpr int64_t kSequence = 1024;
constexpr int64_t kRows = kBatch * kSequence;
constexpr int64_t kHidden = 1024;
constexpr int64_t kHeads = 16;
constexpr int64_t kIntermediate = 4 * kHidden;
constexpr int64_t kVocabulary = 50304;

// What a layer's forward pass keeps for its backward pass, in the order of request.
struct Saved {
  Id input = ModelTape::kNone;
  Id normed = ModelTape::kNone;
  Id mean = ModelTape::kNone;
  Id deviation = ModelTape::kNone;
  Id qkv = ModelTape::kNone;
  Id attended = ModelTape::kNone;
  Id sums = ModelTape::kNone;
  Id random_state = ModelTape::kNone;
  Id attention_mask = ModelTape::kNone;
  Id middle = ModelTape::kNone;
  Id middle_normed = ModelTape::kNone;
  Id middle_mean = ModelTape::kNone;
  Id middle_deviation = ModelTape::kNone;
  Id up = ModelTape::kNone;
  Id activated = ModelTape::kNone;
  Id output_mask = ModelTape::kNone;
};

class GptSteps {
 public:
  std::vector<Buffer> Run(int64_t layers, bool checkpointed) {
    Id hidden = Rows(kHidden);
    std::vector<Saved> stack;
    for (int64_t layer = 0; layer < layers; ++layer) {
      Saved saved;
      hidden = Forward(hidden, saved);
      if (checkpointed) saved = Drop(saved);
      stack.push_back(saved);
    }
    Id gradient = Loss(hidden);
    for (; !stack.empty(); stack.pop_back()) {
      Saved saved = stack.back();
      if (checkpointed) tape_.Free(Forward(saved.input, saved));
      gradient = Backward(gradient, saved);
    }
    tape_.Free(gradient);
    for (const Id weight_gradient : weight_gradients_) {
      tape_.Free(tape_.New(2 * tape_.bytes(weight_gradient)));
      tape_.Free(weight_gradient);
    }
    return tape_.Finish();
  }

 private:
  Id Rows(int64_t width) { return tape_.New(kRows * width * kHalfBytes); }
  Id Statistics() { return tape_.New(kRows * kFloatBytes); }
  Id Mask() { return tape_.New(kRows * kHidden); }
  Id Sums() { return tape_.New(kBatch * kHeads * kSequence * kFloatBytes); }

  Id Weight(int64_t rows, int64_t columns) { return tape_.New(rows * columns * kHalfBytes); }

  Id Forward(Id input, Saved& saved) {
    saved.input = input;
    saved.normed = Rows(kHidden);
    saved.mean = Statistics();
    saved.deviation = Statistics();
    saved.qkv = Rows(3 * kHidden);
    saved.attended = Rows(kHidden);
    saved.sums = Sums();
    saved.random_state = tape_.New(16);
    const Id projected = Rows(kHidden);
    saved.attention_mask = Mask();
    const Id dropped = Rows(kHidden);
    tape_.Free(projected);
    saved.middle = Rows(kHidden);
    tape_.Free(dropped);
    saved.middle_normed = Rows(kHidden);
    saved.middle_mean = Statistics();
    saved.middle_deviation = Statistics();
    saved.up = Rows(kIntermediate);
    saved.activated = Rows(kIntermediate);
    const Id down = Rows(kHidden);
    saved.output_mask = Mask();
    const Id output_dropped = Rows(kHidden);
    tape_.Free(down);
    const Id output = Rows(kHidden);
    tape_.Free(output_dropped);
    return output;
  }

  // All but the input.
  Saved Drop(const Saved& saved) {
    tape_.Free(saved.normed, saved.mean, saved.deviation, saved.qkv, saved.attended, saved.sums,
               saved.random_state, saved.attention_mask, saved.middle, saved.middle_normed,
               saved.middle_mean, saved.middle_deviation, saved.up, saved.activated,
               saved.output_mask);
    return {.input = saved.input};
  }

  Id Loss(Id hidden) {
    const Id logits = Rows(kVocabulary);
    const Id logits_float = tape_.New(kRows * kVocabulary * kFloatBytes);
    const Id losses = Statistics();
    tape_.Free(logits);
    const Id logits_gradient = Rows(kVocabulary);
    tape_.Free(logits_float, losses);
    const Id gradient = Rows(kHidden);
    weight_gradients_.push_back(Weight(kVocabulary, kHidden));
    tape_.Free(logits_gradient, hidden);
    return gradient;
  }

  Id Backward(Id gradient, const Saved& saved) {
    const Id output_undropped = Rows(kHidden);
    tape_.Free(saved.output_mask);
    const Id activated = Rows(kIntermediate);
    const Id down_weight = Weight(kIntermediate, kHidden);
    tape_.Free(saved.activated, output_undropped);
    const Id up = Rows(kIntermediate);
    tape_.Free(activated, saved.up);
    const Id middle_normed = Rows(kHidden);
    const Id up_weight = Weight(kIntermediate, kHidden);
    tape_.Free(up, saved.middle_normed);
    const Id middle_norm_weight = Weight(2, kHidden);
    const Id middle_part = Rows(kHidden);
    tape_.Free(middle_normed, saved.middle_mean, saved.middle_deviation, saved.middle);
    const Id middle = Rows(kHidden);
    tape_.Free(middle_part, gradient);

    const Id undropped = Rows(kHidden);
    tape_.Free(saved.attention_mask);
    const Id attended = Rows(kHidden);
    const Id output_weight = Weight(kHidden, kHidden);
    tape_.Free(undropped);
    const Id qkv = Rows(3 * kHidden);
    const Id sums = Sums();
    const Id accumulated = tape_.New(kRows * kHidden * kFloatBytes);
    tape_.Free(accumulated, sums, attended, saved.attended, saved.sums, saved.random_state,
               saved.qkv);
    const Id normed = Rows(kHidden);
    const Id qkv_weight = Weight(3 * kHidden, kHidden);
    tape_.Free(qkv, saved.normed);
    const Id norm_weight = Weight(2, kHidden);
    const Id part = Rows(kHidden);
    tape_.Free(normed, saved.mean, saved.deviation, saved.input);
    const Id sum = Rows(kHidden);
    tape_.Free(part, middle);
    weight_gradients_.insert(
        weight_gradients_.end(),
        {down_weight, up_weight, output_weight, qkv_weight, middle_norm_weight, norm_weight});
    return sum;
  }

  ModelTape tape_;
  std::vector<Id> weight_gradients_;
};

}  // namespace

std::vector<Buffer> GptTrainingStep(int64_t layers, bool checkpointed) {
  return GptSteps().Run(layers, checkpointed);
}

}  // namespace coppice
