// Goal: what PyTorch tests of limits - on recordings, on extents, on memory - holds here too;
// PEERS.md says which test answers which. Method: inputs and extents that keep changing; paths,
// counters and log lines.

#include "tests/graphs/torch_fixture.h"

namespace coppice {
namespace {

using TorchLimitsTest = TorchFixture;

TEST_F(TorchLimitsTest, CallAtTheGraphLimitRunsEagerlyIfTheInputThatMovesWasAnEarlierOutput) {
  Open({.limits = {.graphs_per_program_max = 2}});
  const Program* f = AddScale("f", 2);
  const Program* g = AddScale("g", 3);
  const Tensor x = Upload(1);
  Run(f, {x}).Release();
  Run(g, {x}).Release();
  const ChainScope chain = *session_->Chain();
  std::vector<Lease> held;
  for (int call = 0; call < 2; ++call)
    held.push_back(Run(f, {x}));
  held.push_back(Run(f, {x}));
  EXPECT_EQ(held.back().reason(), Reason::kGraphLimit);
  // g reads f's outputs where they lie, each elsewhere and behind one more.
  std::vector<Reason> reasons;
  for (size_t i = 0; i < 3; ++i) {
    held.push_back(Run(g, {At(held[i])}));
    reasons.push_back(held.back().reason());
    EXPECT_EQ(ValuesOf(held.back()), Constant(6));
  }
  EXPECT_THAT(reasons,
              ElementsAre(Reason::kNewBucket, Reason::kOtherLiveRegions, Reason::kGraphLimit));
  EXPECT_EQ(Lines({"'g'", "graph_limit"}), 1);
}

TEST_F(TorchLimitsTest, RecordingsUpToTheLargestWarmedAheadMapNothing) {
  const Program* f = AddScale("f", 2);
  const std::vector<std::vector<int64_t>> largest = {{kCount}};
  ASSERT_OK(session_->warming().Warm(*f, nullptr, largest, {}, {}));
  const MemoryUsage asked = session_->memory().usage();
  EXPECT_GT(asked.of(MemoryKind::kPlan), 0);
  Run(f, {Upload(Constant(1, 1))}).Release();
  const int64_t before = device_.ledger().calls(&DriverTable::MemMap);
  for (const int64_t extent : {1, 8, 33, 64}) {
    const Tensor x = Upload(Constant(1, extent));
    Paths(3, f, {x});
  }
  EXPECT_EQ(device_.ledger().calls(&DriverTable::MemMap), before);
  EXPECT_EQ(session_->memory().usage().of(MemoryKind::kPlan), asked.of(MemoryKind::kPlan));
  EXPECT_EQ(session_->memory().usage().height, asked.height);
  EXPECT_EQ(session_->stats().recordings, 4);
}

TEST_F(TorchLimitsTest, RecordingAHundredTimesTakesTheMemoryOfOnce) {
  Open({.memory = {.workspace_bytes = kMiB}});
  const Program* f = Add(SpecOf("f"), [this](CallContext& context) -> absl::Status {
    COPPICE_ASSIGN_OR_RETURN(const Tensor y, context.AllocateOutput(0));
    COPPICE_RETURN_IF_ERROR(Scale(context, context.input(0).data, context.workspace(), 2));
    return Scale(context, context.workspace(), y.data, 3);
  });
  const Tensor x = Upload(1);
  Paths(3, f, {x});
  const MemoryUsage once = session_->memory().usage();
  const int64_t allocated = device_.ledger().allocated_bytes();
  for (int recording = 0; recording < 100; ++recording) {
    ASSERT_EQ(*session_->Evict(f), 1);
    ASSERT_EQ(Run(f, {x}).kind(), RunKind::kRecord);
    ASSERT_EQ(ValuesOf(Run(f, {x})), Constant(6));
  }
  EXPECT_EQ(session_->memory().usage(), once);
  EXPECT_EQ(device_.ledger().allocated_bytes(), allocated);
}

}  // namespace
}  // namespace coppice
