// Goal: the decoder's PTX predicts what its host code does, over the steps of the main job, and
// nothing is found wrong with it. Method: the first requests of the job's generated trace, batched
// and padded as `coppice run` does: first as host code, then as PTX, fed the tokens that the host
// code predicted, so that the two do not drift apart.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

#include "coppice/padding/padding_policy.h"

#include "tests/support/status_matchers.h"
#include "tests/support/test_device.h"
#include "tools/model/decoder.h"
#include "tools/model/served_decoder.h"
#include "tools/model/step_runner.h"
#include "tools/run/batcher.h"
#include "tools/run/request_trace.h"

namespace coppice {

extern const KernelImage decoder_image;

namespace {

constexpr int64_t kRequests = 10;
constexpr int64_t kShrink = 8;
// For logits of unit size: nvcc contracts to fused multiply-adds, has an expf of its own, and CUB
// sums in another order.
constexpr float kTolerance = 1e-5F;

// One of the two sides.
class Side {
 public:
  Side(bool compiled, const DecoderConfig& config) : device_(OptionsFor(compiled)) {
    decoder_.emplace(device_.driver(), *Decoder::Create(device_.driver(), config, {}));
    runner_ = *StepRunner::Create(
        device_.context(), *decoder_,
        {.prefill_policy = *PaddingPolicy::Parse("geometric:1.25:16", config.max_context),
         .decode_policy = *PaddingPolicy::Parse("ramp:1:4", config.slots)});
  }

  StepRunner& runner() { return *runner_; }

 private:
  static Emulator::Options OptionsFor(bool compiled) {
    Emulator::Options options = TestEmulatorOptions();
    options.compiled_kernels = compiled;
    return options;
  }

  TestDevice device_;  // Fails the test if there is anything to report.
  std::optional<ServedDecoder> decoder_;
  std::unique_ptr<StepRunner> runner_;
};

struct RecordedStep {
  StepInputs inputs;
  StepResult result;
};

// The job by host code; prompts are drawn.
std::vector<RecordedStep> RunOnHost(const DecoderConfig& config) {
  std::vector<Request> requests = GenerateRequests(TraceKind::kMix, kRequests, /*seed=*/1);
  FitRequests(kShrink, config.max_context, requests);
  Side host(/*compiled=*/false, config);
  std::mt19937_64 random(TestSeed());
  std::vector<int32_t> next(requests.size());
  std::vector<RecordedStep> steps;
  Batcher batcher(requests,
                  {.slots = config.slots,
                   .cost = {.step_seconds = 0.006 * kShrink, .row_seconds = 0.0000125 * kShrink}});
  for (Step step; batcher.Next(step);) {
    StepInputs inputs{.prefill = step.prefill};
    for (const StepRow& row : step.rows) {
      inputs.slots.push_back(static_cast<int32_t>(row.slot));
      if (!step.prefill) {
        inputs.tokens.push_back(next[static_cast<size_t>(row.request)]);
        inputs.positions.push_back(static_cast<int32_t>(row.position));
      }
      for (int64_t i = 0; step.prefill && i < row.tokens; ++i)
        inputs.tokens.push_back(
            static_cast<int32_t>(random() % static_cast<uint64_t>(config.vocab)));
    }
    StepResult result;
    EXPECT_OK(host.runner().Run(inputs, Poison::kOff, /*want_logits=*/true, result));
    for (size_t row = 0; row < step.rows.size(); ++row)
      next[static_cast<size_t>(step.rows[row].request)] = result.next_tokens[row];
    steps.push_back({std::move(inputs), std::move(result)});
  }
  return steps;
}

TEST(DecoderPtxTest, PredictsWhatHostCodeDoesOverTheMainJobsSteps) {
  if (decoder_image.fatbin == nullptr) GTEST_SKIP() << "built without nvcc: no PTX";
  const DecoderConfig config = {.slots = 32, .max_context = 1024};
  const std::vector<RecordedStep> steps = RunOnHost(config);
  Side ptx(/*compiled=*/true, config);
  int64_t prefills = 0;
  size_t most_rows = 0;
  float farthest = 0;
  for (const auto& [inputs, expected] : steps) {
    StepResult actual;
    ASSERT_OK(ptx.runner().Run(inputs, Poison::kOff, /*want_logits=*/true, actual));
    ASSERT_EQ(actual.logits.size(), expected.logits.size());
    for (size_t i = 0; i < expected.logits.size(); ++i)
      farthest = std::max(farthest, std::abs(actual.logits[i] - expected.logits[i]));
    ASSERT_LE(farthest, kTolerance)
        << (inputs.prefill ? "prefill of " : "decode of ") << inputs.tokens.size();
    for (size_t row = 0; row < expected.next_tokens.size(); ++row) {
      // Two logits that are as good as equal may change places.
      const std::span<const float> logits = expected.RowLogits(row);
      const float best = logits[static_cast<size_t>(expected.next_tokens[row])];
      ASSERT_GE(logits[static_cast<size_t>(actual.next_tokens[row])], best - 2 * kTolerance);
    }
    prefills += inputs.prefill ? 1 : 0;
    most_rows = std::max(most_rows, inputs.slots.size());
  }
  EXPECT_EQ(prefills, kRequests);
  EXPECT_GT(most_rows, 1U);
  EXPECT_GT(farthest, 0.0F);  // The two sides are not the same code.
}

}  // namespace
}  // namespace coppice
