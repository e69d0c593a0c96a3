// Goal: the decoder computes what a float64 decoder computes, each row on its own, whatever the
// padding. Method: its callables run on the emulator, eagerly and without a session, in a context
// that poisons every temporary and takes it back as soon as it is freed.

#include "tools/model/decoder.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "coppice/base/status.h"
#include "coppice/graphs/program.h"

#include "tests/support/status_matchers.h"
#include "tests/support/test_device.h"
#include "tests/tools/decoder_fixture.h"
#include "tests/tools/reference_decoder.h"
#include "tools/model/decoder_params.h"

namespace coppice {

extern const KernelImage decoder_image;

namespace {

using testing::Each;
using testing::HasSubstr;

// Float rounding through two or three layers, for logits of unit size.
constexpr double kLogitTolerance = 1e-5;

std::vector<uint32_t> BitsOf(const std::vector<float>& values) {
  std::vector<uint32_t> bits;
  for (const float value : values)
    bits.push_back(std::bit_cast<uint32_t>(value));
  return bits;
}

DecoderConfig SmallConfig() {
  DecoderConfig config;
  config.slots = 4;
  config.max_context = 192;
  return config;
}

// Nothing is a multiple of anything.
DecoderConfig OddConfig() {
  return {.layers = 3,
          .d_model = 37,
          .heads = 6,
          .kv_heads = 2,
          .head_dim = 12,
          .ffn = 71,
          .vocab = 131,
          .rope_theta = 500,
          .rms_eps = 1e-3,
          .slots = 3,
          .max_context = 150};
}

// Heads as wide as they may be.
DecoderConfig WideHeadConfig() {
  return {.layers = 1,
          .d_model = 48,
          .heads = 2,
          .kv_heads = 1,
          .head_dim = 256,
          .ffn = 64,
          .vocab = 70,
          .slots = 2,
          .max_context = 70};
}

void ExpectClose(const std::vector<float>& actual, const std::vector<double>& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i)
    ASSERT_NEAR(actual[i], expected[i], kLogitTolerance) << "logit " << i;
}

void ExpectSameBits(const CacheContents& actual, const CacheContents& expected) {
  EXPECT_EQ(BitsOf(actual.keys), BitsOf(expected.keys));
  EXPECT_EQ(BitsOf(actual.values), BitsOf(expected.values));
}

TEST(DecoderConfigTest, AcceptsTheDefaultsAndRejectsEveryFieldOutOfItsRange) {
  EXPECT_OK(ValidateConfig(DecoderConfig()));
  const struct {
    const char* field;
    int64_t DecoderConfig::*member;
    int64_t value;
  } integers[] = {
      {"layers", &DecoderConfig::layers, 0},
      {"layers", &DecoderConfig::layers, 257},
      {"d_model", &DecoderConfig::d_model, 0},
      {"d_model", &DecoderConfig::d_model, 65537},
      {"heads", &DecoderConfig::heads, 0},
      {"heads", &DecoderConfig::heads, 258},
      {"heads", &DecoderConfig::heads, 5},  // Not a multiple of kv_heads.
      {"kv_heads", &DecoderConfig::kv_heads, 0},
      {"kv_heads", &DecoderConfig::kv_heads, 8},
      {"head_dim", &DecoderConfig::head_dim, 0},
      {"head_dim", &DecoderConfig::head_dim, 6},
      {"head_dim", &DecoderConfig::head_dim, 260},
      {"ffn", &DecoderConfig::ffn, 0},
      {"ffn", &DecoderConfig::ffn, 262145},
      {"vocab", &DecoderConfig::vocab, 1},
      {"vocab", &DecoderConfig::vocab, 1048577},
      {"slots", &DecoderConfig::slots, 0},
      {"slots", &DecoderConfig::slots, 4097},
      {"max_context", &DecoderConfig::max_context, 0},
      {"max_context", &DecoderConfig::max_context, 1048577},
  };
  for (const auto& [field, member, value] : integers) {
    DecoderConfig config;
    config.*member = value;
    const absl::Status status = ValidateConfig(config);
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kInvalidArgument)) << field << " " << value;
    EXPECT_THAT(MessageOf(status), HasSubstr(field)) << value;
  }
  for (const double value : {0.0, -1.0, std::numeric_limits<double>::infinity(), std::nan("")}) {
    EXPECT_THAT(ValidateConfig({.rope_theta = value}),
                StatusIs(absl::StatusCode::kInvalidArgument));
    EXPECT_THAT(ValidateConfig({.rms_eps = value}), StatusIs(absl::StatusCode::kInvalidArgument));
  }
}

TEST(KvCacheTest, StartsAsZerosAndRowsOfASlotFollowEachOther) {
  const Model model(OddConfig());
  const CacheContents contents = model.ReadCache();
  EXPECT_EQ(contents.keys.size(), 3U * 3U * 150U * 24U);
  EXPECT_THAT(contents.keys, Each(0.0F));
  EXPECT_THAT(contents.values, Each(0.0F));
  const KvCache& cache = model.cache();
  EXPECT_EQ(cache.RowOffset(0, 0, 0), 0);
  EXPECT_EQ(cache.RowOffset(0, 0, 1), 24);
  EXPECT_EQ(cache.RowOffset(0, 1, 0), 150 * 24);
  EXPECT_EQ(cache.RowOffset(2, 1, 3), ((2 * 3 + 1) * 150 + 3) * 24);
  EXPECT_DEATH(cache.RowOffset(0, 0, 150), "position beyond the context");
}

TEST(KvCacheTest, RejectsABadConfig) {
  const TestDevice device;
  EXPECT_THAT(KvCache::Create(device.driver(), {.slots = 0}),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(DecoderTest, CreateRejectsABadConfig) {
  const TestDevice device;
  EXPECT_THAT(Decoder::Create(device.driver(), {.layers = 0}, {}),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(DecoderTest, SpecsAreValidAndMatchTheStaticInputs) {
  const Model model(OddConfig());
  const std::vector<Tensor> tensors = model.decoder().StaticInputs(model.cache());
  for (const ProgramSpec* spec : {&model.prefill(), &model.decode()}) {
    EXPECT_OK(ValidateSpec(*spec));
    EXPECT_EQ(ExtentWord(*spec, 0), 0);
    const size_t copied = spec->inputs.size() - tensors.size();
    for (size_t i = 0; i < spec->inputs.size(); ++i) {
      const InputSpec& input = spec->inputs[i];
      EXPECT_EQ(input.role, i < copied ? InputRole::kCopy : InputRole::kStatic) << input.name;
      EXPECT_EQ(input.mutated, input.name == "keys" || input.name == "values") << input.name;
      if (i < copied) continue;
      const Tensor& tensor = tensors[i - copied];
      EXPECT_EQ(input.dtype, tensor.dtype) << input.name;
      ASSERT_EQ(static_cast<int>(input.dims.size()), tensor.rank) << input.name;
      for (size_t axis = 0; axis < input.dims.size(); ++axis)
        EXPECT_EQ(input.dims[axis], Dim::Fixed(tensor.sizes[axis])) << input.name;
    }
  }
}

TEST(DecoderTest, SpecsRefuseBucketsThatTheCacheCannotHold) {
  const Model model(OddConfig());
  EXPECT_DEATH(model.decoder().PrefillSpec(*PaddingPolicy::Exact(151)), "longer than the context");
  EXPECT_DEATH(model.decoder().DecodeSpec(*PaddingPolicy::Exact(4)), "number of slots");
}

TEST(DecoderTest, SeedsDrawTheWeights) {
  std::vector<std::vector<float>> embeddings;
  for (const uint64_t seed : {1, 1, 2}) {
    const Model model(OddConfig(), seed);
    embeddings.push_back(model.ReadWeights().at("embedding").values);
  }
  EXPECT_EQ(embeddings[0], embeddings[1]);
  EXPECT_NE(embeddings[0], embeddings[2]);
}

TEST(DecoderTest, LongPromptsAndBatchesAreOutOfRange) {
  Model model(OddConfig());
  const std::vector<int32_t> prompt = model.RandomTokens(151, 1);
  EXPECT_THAT(model.TryRun(model.prefill(), model.decoder().PrefillCallable(), {prompt, {0}}, 151),
              StatusIs(absl::StatusCode::kOutOfRange));
  const std::vector<int32_t> four = {0, 1, 2, 3};
  EXPECT_THAT(model.TryRun(model.decode(), model.decoder().DecodeCallable(), {four, four, four}, 4),
              StatusIs(absl::StatusCode::kOutOfRange));
}

class DecoderAccuracyTest : public testing::TestWithParam<DecoderConfig> {};

INSTANTIATE_TEST_SUITE_P(Configs,
                         DecoderAccuracyTest,
                         testing::Values(SmallConfig(), OddConfig(), WideHeadConfig()),
                         [](const testing::TestParamInfo<DecoderConfig>& suite) {
                           return "HeadDim" + std::to_string(suite.param.head_dim);
                         });

TEST_P(DecoderAccuracyTest, PrefillAndDecodeMatchTheReference) {
  Model model(GetParam());
  const ReferenceWeights weights = model.ReadWeights();
  // One token; fewer than a tile of keys; exactly one tile; more than one.
  for (const int64_t length : {1, 7, 64, 66}) {
    SCOPED_TRACE(length);
    ReferenceDecoder reference(model.config(), weights);
    const std::vector<int32_t> prompt = model.RandomTokens(length, 5);
    std::vector<double> expected;
    for (const int32_t token : prompt)
      expected = reference.Append(token);
    Prediction prediction = model.Prefill(prompt, 1);
    ExpectClose(prediction.logits, expected);
    for (int64_t position = length; position < length + 3; ++position) {
      const int32_t token = prediction.tokens.front();
      prediction = model.Decode({{token, static_cast<int32_t>(position), 1}});
      ExpectClose(prediction.logits, reference.Append(token));
    }
  }
}

TEST_P(DecoderAccuracyTest, PrefillThenDecodeEqualsTheLongerPrefill) {
  Model model(GetParam());
  const std::vector<int32_t> prompt = model.RandomTokens(66, 9);
  const Prediction whole = model.Prefill(prompt, 0);
  const CacheContents cache = model.ReadCache();
  model.Prefill({prompt.begin(), prompt.end() - 1}, 0);
  const Prediction step = model.Decode({{prompt.back(), 65, 0}});
  EXPECT_EQ(BitsOf(step.logits), BitsOf(whole.logits));
  EXPECT_EQ(step.tokens, whole.tokens);
  ExpectSameBits(model.ReadCache(), cache);
}

TEST_P(DecoderAccuracyTest, NextTokenIsTheLargestLogit) {
  Model model(GetParam());
  std::set<int32_t> seen;
  for (uint32_t seed = 0; seed < 16; ++seed) {
    const Prediction prediction = model.Prefill(model.RandomTokens(5, seed), 0);
    const auto largest = std::ranges::max_element(prediction.logits);
    EXPECT_EQ(prediction.tokens.front(), largest - prediction.logits.begin());
    seen.insert(prediction.tokens.front());
  }
  EXPECT_GE(seen.size(), 8U) << "the weights make every prompt predict the same token";
}

// Runs one block of a kernel on host memory.
template <typename Parameters>
void RunKernel(const std::string& name, const Parameters& params) {
  const std::span kernels(decoder_image.kernels, decoder_image.kernel_count);
  const auto kernel = std::ranges::find(kernels, name, &HostKernel::name);
  ASSERT_NE(kernel, kernels.end()) << name;
  ASSERT_EQ((*kernel)->parameter_bytes, sizeof(Parameters)) << name;
  (*kernel)->run(&params, HostBlock());
}

TEST(DecoderKernelTest, SampleBreaksTiesByTheLowestIndex) {
  const std::vector<int64_t> tied[] = {
      {0, 1}, {5, 130}, {3, 131, 259}, {127, 128}, {255, 256, 299}};
  for (const std::vector<int64_t>& indices : tied) {
    std::vector<float> logits(300, -2.0F);
    for (const int64_t index : indices)
      logits[static_cast<size_t>(index)] = -1.0F;
    int32_t token = -1;
    const int64_t live_rows = 1;
    RunKernel(
        "Sample",
        SampleParams{
            .logits = logits.data(), .tokens = &token, .live_rows = &live_rows, .width = 300});
    EXPECT_EQ(token, indices.front());
  }
}

// Null pointers stand for everything that a block of padding must not touch.
TEST(DecoderKernelTest, BlocksOfPaddingTouchNothing) {
  const int64_t none = 0;
  const AttentionParams attention{
      .live_rows = &none, .heads = 1, .kv_heads = 1, .head_dim = 4, .max_context = 8};
  RunKernel("Embed", EmbedParams{.live_rows = &none, .width = 4});
  RunKernel("Norm", NormParams{.live_rows = &none, .width = 4});
  RunKernel("Norm", NormParams{.live_rows = &none, .width = 4, .last_row_only = 1});
  RunKernel("Project", ProjectParams{.live_rows = &none, .row_count = 4, .depth = 4, .width = 64});
  RunKernel("Rotate", RotateParams{.attention = attention});
  RunKernel("Attend", AttendParams{.attention = attention});
  RunKernel("Gate", GateParams{.live_rows = &none, .width = 4});
  RunKernel("Sample", SampleParams{.live_rows = &none, .width = 4});
}

TEST(DecoderTest, DecodeRowsDoNotDependOnEachOther) {
  Model model(OddConfig());
  std::vector<DecodeStep> steps;
  for (int32_t slot = 0; slot < 3; ++slot) {
    const int32_t length = 3 + 61 * slot;
    model.Prefill(model.RandomTokens(length, static_cast<uint32_t>(slot)), slot);
    steps.push_back({.token = 10 + slot, .position = length, .slot = slot});
  }
  const CacheContents before = model.ReadCache();
  const Prediction together = model.Decode(steps);
  const CacheContents after = model.ReadCache();
  model.WriteCache(before);
  for (const size_t row : {2U, 0U, 1U}) {
    const Prediction alone = model.Decode({steps[row]});
    EXPECT_EQ(BitsOf(alone.logits), BitsOf(together.row(row))) << row;
    EXPECT_EQ(alone.tokens.front(), together.tokens[row]) << row;
  }
  ExpectSameBits(model.ReadCache(), after);
}

TEST(DecoderTest, ProgramsWriteOnlyTheirOwnRowsOfTheCache) {
  Model model(OddConfig());
  CacheContents contents = model.ReadCache();
  std::ranges::fill(contents.keys, 7.0F);
  std::ranges::fill(contents.values, 7.0F);
  model.WriteCache(contents);
  model.Prefill(model.RandomTokens(5, 3), 1, 8);
  model.Decode({{.token = 4, .position = 9, .slot = 2}}, 3);

  const CacheContents written = model.ReadCache();
  for (int64_t layer = 0; layer < 3; ++layer) {
    for (int64_t slot = 0; slot < 3; ++slot) {
      for (int64_t position = 0; position < 150; ++position) {
        const bool own = slot == 1 ? position < 5 : slot == 2 && position == 9;
        const auto first = static_cast<size_t>(model.cache().RowOffset(layer, slot, position));
        for (size_t i = first; i < first + 24; ++i) {
          ASSERT_EQ(written.keys[i] != 7.0F, own) << layer << " " << slot << " " << position;
          ASSERT_EQ(written.values[i] != 7.0F, own) << layer << " " << slot << " " << position;
        }
      }
    }
  }
}

// Padding, temporaries and outputs all start as this pattern.
class DecoderPaddingTest : public testing::TestWithParam<uint32_t> {};

INSTANTIATE_TEST_SUITE_P(Patterns,
                         DecoderPaddingTest,
                         testing::Values(kNanPattern, kBytePattern, 0xFFFFFFFFU),
                         testing::PrintToStringParamName());

TEST_P(DecoderPaddingTest, NeverReachesALivePrefill) {
  Model model(OddConfig());
  for (const int64_t length : {1, 3, 17, 63}) {
    SCOPED_TRACE(length);
    const std::vector<int32_t> prompt = model.RandomTokens(length, 2);
    const CacheContents before = model.ReadCache();
    model.set_garbage(0);
    const Prediction exact = model.Prefill(prompt, 1);
    const CacheContents after = model.ReadCache();
    model.set_garbage(GetParam());
    for (const int64_t padded : {length + 1, length + 3, int64_t{150}}) {
      model.WriteCache(before);
      const Prediction prediction = model.Prefill(prompt, 1, padded);
      EXPECT_EQ(BitsOf(prediction.logits), BitsOf(exact.logits)) << padded;
      EXPECT_EQ(prediction.tokens, exact.tokens) << padded;
      ExpectSameBits(model.ReadCache(), after);
    }
  }
}

TEST_P(DecoderPaddingTest, NeverReachesALiveDecodeAndIsNotWritten) {
  DecoderConfig config = OddConfig();
  config.slots = 16;
  Model model(config);
  std::vector<DecodeStep> steps;
  for (int32_t slot = 0; slot < 5; ++slot) {
    const int32_t length = 2 + 5 * slot;
    model.Prefill(model.RandomTokens(length, static_cast<uint32_t>(slot)), slot);
    steps.push_back({.token = slot, .position = length, .slot = slot});
  }
  const CacheContents before = model.ReadCache();
  model.set_garbage(0);
  const Prediction exact = model.Decode(steps);
  const CacheContents after = model.ReadCache();
  model.set_garbage(GetParam());
  for (const int64_t padded : {6, 8, 16}) {
    model.WriteCache(before);
    const Prediction prediction = model.Decode(steps, padded);
    for (size_t row = 0; row < static_cast<size_t>(padded); ++row) {
      if (row < steps.size()) {
        EXPECT_EQ(BitsOf(prediction.row(row)), BitsOf(exact.row(row))) << padded << " " << row;
        EXPECT_EQ(prediction.tokens[row], exact.tokens[row]) << padded << " " << row;
      } else {
        EXPECT_THAT(BitsOf(prediction.row(row)), Each(GetParam())) << padded << " " << row;
        EXPECT_EQ(std::bit_cast<uint32_t>(prediction.tokens[row]), GetParam());
      }
    }
    ExpectSameBits(model.ReadCache(), after);
  }
}

}  // namespace
}  // namespace coppice
