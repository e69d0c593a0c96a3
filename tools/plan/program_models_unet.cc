// The UNet: residual blocks and transformers on the way down and up, with skips between them.

#include <algorithm>
#include <array>
#include <cstddef>

#include "coppice/base/units.h"

#include "tools/plan/model_tape.h"
#include "tools/plan/program_models.h"

namespace coppice {
namespace {

using Id = ModelTape::Id;

constexpr std::array<int64_t, 4> kLevelChannels = {320, 640, 1280, 1280};
constexpr size_t kPlainLevel = 3;  // Has no transformers.
constexpr int64_t kEmbedding = 1280;
constexpr int64_t kGroups = 32;
constexpr int64_t kPromptTokens = 77;
constexpr int64_t kImagePerLatent = 8;       // Pixels, each way.
constexpr int64_t kScratchMax = 256 * kMiB;  // Of a convolution.

struct Image {
  Id id = ModelTape::kNone;
  int64_t channels = 0;
  int64_t height = 0;
  int64_t width = 0;
};

class UnetSteps {
 public:
  explicit UnetSteps(int64_t batch) : batch_(batch) {}

  std::vector<Buffer> Run(int64_t height, int64_t width) {
    const Id sine = tape_.New(batch_ * kLevelChannels[0] * kFloatBytes);
    const Id lifted = tape_.New(batch_ * kEmbedding * kHalfBytes);
    tape_.Free(sine);
    const Id time = tape_.New(batch_ * kEmbedding * kHalfBytes);
    tape_.Free(lifted);
    const Image latent = New({.channels = 4, .height = height, .width = width});
    const Image middle = Middle(Down(latent));
    const Image normed = Norm(Up(middle), /*keep=*/false);
    Convolve(normed, 4, /*keep=*/false);
    tape_.Free(time);
    return tape_.Finish();
  }

 private:
  int64_t BytesOf(const Image& image) const {
    return batch_ * image.channels * image.height * image.width * kHalfBytes;
  }

  // An image of the same extents.
  Image New(Image like) {
    like.id = tape_.New(BytesOf(like));
    return like;
  }
  Image New(Image like, int64_t channels) {
    like.channels = channels;
    return New(like);
  }

  // `shrink` halves the extents.
  Image Convolve(const Image& input, int64_t channels, bool keep, bool shrink = false) {
    Image output = input;
    if (shrink) {
      output.height /= 2;
      output.width /= 2;
    }
    output = New(output, channels);
    const int64_t filter_bytes = input.channels * channels * 9 * kHalfBytes;
    tape_.Free(tape_.New(std::min(2 * BytesOf(input) + filter_bytes, kScratchMax)));
    if (!keep) tape_.Free(input.id);
    return output;
  }

  // Group normalisation and activation.
  Image Norm(const Image& input, bool keep) {
    const Image normed = New(input);
    const Id mean = tape_.New(batch_ * kGroups * kFloatBytes);
    const Id deviation = tape_.New(batch_ * kGroups * kFloatBytes);
    tape_.Free(mean, deviation);
    const Image activated = New(input);
    tape_.Free(normed.id);
    if (!keep) tape_.Free(input.id);
    return activated;
  }

  Image Residual(const Image& input, int64_t channels, bool keep) {
    const Image first = Convolve(Norm(input, /*keep=*/true), channels, /*keep=*/false);
    const Id activated_time = tape_.New(batch_ * kEmbedding * kHalfBytes);
    const Id projected_time = tape_.New(batch_ * channels * kHalfBytes);
    tape_.Free(activated_time);
    const Image timed = New(first);
    tape_.Free(first.id, projected_time);
    const Image second = Convolve(Norm(timed, /*keep=*/false), channels, /*keep=*/false);
    Id shortcut = ModelTape::kNone;
    if (input.channels != channels) shortcut = Convolve(input, channels, /*keep=*/true).id;
    const Image output = New(second);
    tape_.Free(shortcut, second.id);
    if (!keep) tape_.Free(input.id);
    return output;
  }

  Id Attention(Id hidden, int64_t rows, int64_t key_rows, int64_t channels) {
    constexpr int64_t kHeads = 8;
    const Id normed = tape_.New(rows * channels * kHalfBytes);
    const Id queries = tape_.New(rows * channels * kHalfBytes);
    const Id keys = tape_.New(key_rows * channels * kHalfBytes);
    const Id values = tape_.New(key_rows * channels * kHalfBytes);
    tape_.Free(normed);
    const Id attended = tape_.New(rows * channels * kHalfBytes);
    const Id sums = tape_.New(rows * kHeads * kFloatBytes);
    tape_.Free(queries, keys, values, sums);
    return Add(attended, hidden, rows * channels * kHalfBytes);
  }

  // Projects `input` and adds the result to `hidden`.
  Id Add(Id input, Id hidden, int64_t bytes) {
    const Id projected = tape_.New(bytes);
    tape_.Free(input);
    const Id sum = tape_.New(bytes);
    tape_.Free(projected, hidden);
    return sum;
  }

  Image Transform(const Image& input) {
    const int64_t rows = batch_ * input.height * input.width;
    const int64_t bytes = BytesOf(input);
    const Image projected = Convolve(Norm(input, /*keep=*/true), input.channels, /*keep=*/false);
    Image hidden = New(input);
    tape_.Free(projected.id);
    hidden.id = Attention(hidden.id, rows, rows, input.channels);
    hidden.id = Attention(hidden.id, rows, batch_ * kPromptTokens, input.channels);
    const Id normed = tape_.New(bytes);
    const Id gated = tape_.New(8 * bytes);
    tape_.Free(normed);
    const Id activated = tape_.New(4 * bytes);
    tape_.Free(gated);
    hidden.id = Add(activated, hidden.id, bytes);
    const Image back = Convolve(hidden, input.channels, /*keep=*/false);
    const Image output = New(input);
    tape_.Free(back.id, input.id);
    return output;
  }

  Image Down(const Image& latent) {
    Image hidden = Convolve(latent, kLevelChannels[0], /*keep=*/false);
    skips_ = {hidden};
    for (size_t level = 0; level < kLevelChannels.size(); ++level) {
      for (int block = 0; block < 2; ++block) {
        hidden = Residual(hidden, kLevelChannels[level], /*keep=*/true);
        if (level < kPlainLevel) hidden = Transform(hidden);
        skips_.push_back(hidden);
      }
      if (level == kPlainLevel) continue;
      hidden = Convolve(hidden, hidden.channels, /*keep=*/true, /*shrink=*/true);
      skips_.push_back(hidden);
    }
    return hidden;
  }

  Image Middle(const Image& input) {
    const Image first = Transform(Residual(input, input.channels, /*keep=*/true));
    return Residual(first, first.channels, /*keep=*/false);
  }

  Image Up(Image hidden) {
    for (size_t level = kLevelChannels.size(); level-- > 0;) {
      for (int block = 0; block < 3; ++block) {
        const Image skip = skips_.back();
        skips_.pop_back();
        const Image joined = New(hidden, hidden.channels + skip.channels);
        tape_.Free(hidden.id, skip.id);
        hidden = Residual(joined, kLevelChannels[level], /*keep=*/false);
        if (level < kPlainLevel) hidden = Transform(hidden);
      }
      if (level == 0) continue;
      Image larger = hidden;
      larger.height *= 2;
      larger.width *= 2;
      larger = New(larger);
      tape_.Free(hidden.id);
      hidden = Convolve(larger, larger.channels, /*keep=*/false);
    }
    return hidden;
  }

  const int64_t batch_;
  ModelTape tape_;
  std::vector<Image> skips_;  // Of the way down, for the way up.
};

}  // namespace

std::vector<Buffer> DiffusionUnet(int64_t batch, int64_t height, int64_t width) {
  return UnetSteps(batch).Run(height / kImagePerLatent, width / kImagePerLatent);
}

}  // namespace coppice
