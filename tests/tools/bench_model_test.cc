// Goal: the model of the benches has 67 batch sizes, every step predicts the same tokens in every
// session and however it runs, and nothing of it is counted in a session's pool. Method: the tiny
// model on the emulator.

#include "tools/bench/bench_model.h"

#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "tests/support/status_matchers.h"

namespace coppice {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

class BenchModelTest : public testing::Test {
 protected:
  std::unique_ptr<DecodeSession> NewSession(const SessionOptions& options = {}) const {
    auto session = DecodeSession::Create(*model_, options);
    EXPECT_OK(session);
    return *std::move(session);
  }

  // Runs a step, and expects it to take a path.
  std::vector<int32_t> Tokens(const DecodeSession& decode, int64_t batch, RunKind path) const {
    const auto lease = decode.Run(batch);
    EXPECT_OK(lease);
    if (!lease.ok()) return {};
    EXPECT_EQ(lease->kind(), path) << "batch " << batch;
    const auto tokens = decode.ReadTokens(*lease);
    EXPECT_OK(tokens);
    return tokens.ok() ? *tokens : std::vector<int32_t>();
  }

  const std::unique_ptr<BenchModel> model_ =
      *BenchModel::Open(ModelSize::kSmall, DeviceChoice::kHost);
};

TEST_F(BenchModelTest, HasSixtySevenBatchSizesUpToEverySlot) {
  const std::vector<int64_t> batches = model_->batches().buckets();
  EXPECT_THAT(batches, SizeIs(67));
  EXPECT_EQ(batches.front(), 1);
  EXPECT_EQ(batches.back(), model_->config().slots);
  for (int64_t batch = 1; batch <= 256; batch *= 2)
    EXPECT_EQ(model_->batches().Find(batch), batch);
}

TEST_F(BenchModelTest, ConfigIsPrintedUnderTheNamesOfItsFields) {
  const nlohmann::ordered_json json = ToJson(model_->config());
  std::vector<std::string> names;
  for (const auto& [name, value] : json.items())
    names.push_back(name);
  EXPECT_THAT(names, ElementsAre("layers", "d_model", "heads", "kv_heads", "head_dim", "ffn",
                                 "vocab", "slots", "max_context", "rope_theta", "rms_eps"));
}

TEST_F(BenchModelTest, StepPredictsTheSameEagerlyWarmedUpRecordedAndReplayed) {
  const auto eager = NewSession({.stance = Stance::kEager});
  const auto replayed = NewSession();
  for (const int64_t batch : {1, 24, 512}) {
    const std::vector<int32_t> expected = Tokens(*eager, batch, RunKind::kEager);
    EXPECT_THAT(expected, SizeIs(static_cast<size_t>(batch)));
    for (const RunKind path : {RunKind::kWarmUp, RunKind::kRecord, RunKind::kReplay})
      EXPECT_EQ(Tokens(*replayed, batch, path), expected);
  }
  EXPECT_THAT(model_->reports(), IsEmpty());
}

TEST_F(BenchModelTest, EagerTokensAreThoseOfAnyOtherRun) {
  const std::vector<int64_t> batches = {2, 40};
  const auto tokens = EagerTokens(*model_, batches);
  ASSERT_OK(tokens);
  EXPECT_THAT(*tokens, SizeIs(2));
  const auto decode = NewSession();
  for (const int64_t batch : batches)
    EXPECT_EQ(tokens->at(batch), Tokens(*decode, batch, RunKind::kWarmUp));
}

TEST_F(BenchModelTest, StepOnAnotherPathThanExpectedIsAnError) {
  const auto decode = NewSession();
  EXPECT_THAT(decode->RunExpecting(RunKind::kReplay, 8), StatusIs(absl::StatusCode::kInternal));
  EXPECT_OK(decode->RunExpecting(RunKind::kRecord, 8));
}

TEST_F(BenchModelTest, TitleNamesDeviceAndSizes) {
  EXPECT_THAT(model_->Title(), HasSubstr("host: coppice emulator"));
  EXPECT_THAT(model_->Title(), HasSubstr("vocabulary 32"));
}

TEST_F(BenchModelTest, RowsOfAStepPredictDifferentTokens) {
  const std::vector<int32_t> tokens = Tokens(*NewSession(), 512, RunKind::kWarmUp);
  EXPECT_FALSE(std::equal(tokens.begin() + 1, tokens.end(), tokens.begin()));
}

TEST_F(BenchModelTest, WarmRecordsWithoutRunning) {
  const auto decode = NewSession();
  const auto scratch = KvCache::Create(model_->driver(), model_->config());
  ASSERT_OK(scratch);
  ASSERT_FALSE(Tokens(*decode, 8, RunKind::kWarmUp).empty());
  const std::vector<int64_t> batches = {8, 16};
  ASSERT_OK(decode->Warm(batches, *scratch));
  const std::vector<NodeInfo> nodes = decode->session().nodes();
  ASSERT_THAT(nodes, SizeIs(2));
  for (const NodeInfo& node : nodes) {
    EXPECT_TRUE(node.recorded);
    EXPECT_EQ(node.replays, 0);
  }
  EXPECT_FALSE(Tokens(*decode, 16, RunKind::kReplay).empty());
}

TEST_F(BenchModelTest, WeightsAndCacheAreInNoPool) {
  EXPECT_EQ(NewSession()->session().memory().usage().total, 0);
}

TEST_F(BenchModelTest, FreeBytesFallByWhatIsAllocated) {
  const auto before = model_->FreeBytes();
  ASSERT_OK(before);
  const auto memory = DeviceMemory::Create(model_->driver(), 1 << 24);
  ASSERT_OK(memory);
  const auto after = model_->FreeBytes();
  ASSERT_OK(after);
  EXPECT_EQ(*before - *after, 1 << 24);
}

}  // namespace
}  // namespace coppice
