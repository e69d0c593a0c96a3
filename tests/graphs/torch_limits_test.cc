// Goal: what PyTorch tests of limits - on recordings, on extents, on memory - holds here too;
// PEERS.md says which test answers which. Method: static inputs and extents that keep
// changing; paths, counters and log lines.

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/graphs/torch_fixture.h"

namespace coppice {
namespace {

using testing::Each;

class TorchLimitsTest : public TorchFixture {
 protected:
  // A program of `axes` symbols of their own, each an axis of x and y; y = 2 * x.
  const Program* AddDynamic(const std::string& name, int axes) {
    ProgramSpec spec{.name = name};
    Dims dims;
    for (int axis = 0; axis < axes; ++axis)
      dims.push_back(
          Dim::Symbol(spec.AddSymbol(fmt::format("n{}", axis), *PaddingPolicy::Exact(kCount))));
    spec.inputs = {{.name = "x", .dims = dims}};
    spec.outputs = {{.name = "y", .dims = dims}};
    return Add(spec, [this](CallContext& context) -> absl::Status {
      COPPICE_ASSIGN_OR_RETURN(const Tensor y, context.AllocateOutput(0));
      return ScaleOn(context.stream(), context.input(0).data, y.data, 2, y.element_count());
    });
  }

  Tensor UploadOf(const std::vector<int64_t>& dims, float value) {
    Tensor tensor = Tensor::Dense(0, DType::kFloat32, dims);
    tensor.data = Upload(Constant(value, tensor.element_count())).data;
    return tensor;
  }

  // Calls a program of so many axes twice on each of these extents and expects its values.
  void CallTwiceOnEach(const Program* program, const std::vector<std::vector<int64_t>>& extents) {
    for (const std::vector<int64_t>& dims : extents) {
      const Tensor x = UploadOf(dims, 3);
      for (int call = 0; call < 2; ++call)
        EXPECT_EQ(ValuesOf(Run(program, {x})), Constant(6, x.element_count()));
    }
  }

  // Records the listed extents ahead and nothing else, then calls on each and on all `others`.
  void ExpectOnlyListedAreGraphed(const std::vector<std::vector<int64_t>>& listed,
                                  const std::vector<std::vector<int64_t>>& others) {
    const Program* f = AddDynamic("f", static_cast<int>(listed[0].size()));
    ASSERT_OK(session_->Warm(*f, nullptr, listed, {}, {}));
    session_->SetStance(Stance::kReplayOnly);
    CallTwiceOnEach(f, listed);
    EXPECT_EQ(Count(RunKind::kReplay), 2 * static_cast<int64_t>(listed.size()));
    CallTwiceOnEach(f, others);
    EXPECT_EQ(Count(RunKind::kEager), 2 * static_cast<int64_t>(others.size()));
    EXPECT_EQ(Recorded().size(), listed.size());
  }
};

// Static inputs moved so often that the limit on re-records is met, before an input is demoted.
TEST_F(TorchLimitsTest, CallAtTheReRecordLimitRunsEagerlyAndRightAndIsCounted) {
  Open({.limits = {.rerecords_per_bucket_max = 2}});
  const Program* f = AddWeighted("f");
  const Tensor x = Upload(1);
  std::vector<RunKind> paths;
  for (int move = 0; move < 4; ++move) {
    const Binding* binding = Bind(f, {Upload(static_cast<float>(move))});
    for (int call = 0; call < 3; ++call) {
      const Lease lease = Run(f, {x}, {.binding = binding});
      EXPECT_EQ(ValuesOf(lease), Constant(1 + static_cast<float>(move)));
      if (move == 3) paths.push_back(lease.kind());
    }
  }
  EXPECT_THAT(paths, Each(RunKind::kEager));
  EXPECT_EQ(Count(Reason::kGraphLimit), 3);
  EXPECT_EQ(session_->stats().recordings, 3);
}

TEST_F(TorchLimitsTest, MeetingTheReRecordLimitIsReportedOncePerProgram) {
  Open({.limits = {.rerecords_per_bucket_max = 1}});
  const Tensor x = Upload(1);
  for (const char* name : {"f", "g"}) {
    const Program* program = AddWeighted(name);
    for (int move = 0; move < 4; ++move)
      Paths(3, program, {x}, {.binding = Bind(program, {Upload(1)})});
    EXPECT_EQ(Lines({fmt::format("'{}'", name), "graph_limit"}), 1);
  }
  EXPECT_EQ(Count(Reason::kGraphLimit), 12);
}

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
  EXPECT_THAT(reasons, testing::ElementsAre(Reason::kNewBucket, Reason::kOtherLiveRegions,
                                            Reason::kGraphLimit));
  EXPECT_EQ(Lines({"'g'", "graph_limit"}), 1);
}

TEST_F(TorchLimitsTest, BelowTheReRecordLimitNothingRunsEagerly) {
  Open({.limits = {.rerecords_per_bucket_max = 3}});
  const Program* f = AddWeighted("f");
  const Tensor x = Upload(1);
  for (int move = 0; move < 4; ++move) {
    const Binding* binding = Bind(f, {Upload(static_cast<float>(move))});
    for (int call = 0; call < 3; ++call) {
      EXPECT_EQ(ValuesOf(Run(f, {x}, {.binding = binding})),
                Constant(1 + static_cast<float>(move)));
    }
  }
  EXPECT_EQ(Count(RunKind::kEager), 0);
  EXPECT_EQ(Lines({"graph_limit"}), 0);
}

TEST_F(TorchLimitsTest, MoreExtentsThanTheLimitAreReportedWithTheNumberOfGraphs) {
  Open({.limits = {.graphs_per_program_max = 3}});
  const Program* f = AddDynamic("f", 1);
  CallTwiceOnEach(f, {{8}, {16}, {24}, {32}, {40}});
  EXPECT_EQ(Recorded().size(), 3U);
  EXPECT_EQ(Count(Reason::kGraphLimit), 4);
  EXPECT_EQ(Lines({"'f'", "graph_limit: 3 graphs in 3 buckets"}), 1);
}

TEST_F(TorchLimitsTest, MorePairsOfExtentsThanTheLimitAreReportedWithTheNumberOfGraphs) {
  Open({.limits = {.graphs_per_program_max = 2}});
  const Program* f = AddDynamic("f", 2);
  CallTwiceOnEach(f, {{2, 3}, {3, 2}, {2, 2}, {3, 3}});
  EXPECT_EQ(Recorded().size(), 2U);
  EXPECT_EQ(Count(Reason::kGraphLimit), 4);
  EXPECT_EQ(Lines({"'f'", "graph_limit: 2 graphs in 2 buckets"}), 1);
}

TEST_F(TorchLimitsTest, ExtentsBeyondTheLimitAreReportedOnceHoweverManyFollow) {
  Open({.limits = {.graphs_per_program_max = 1}});
  const Program* f = AddDynamic("f", 1);
  std::vector<std::vector<int64_t>> extents;
  for (int64_t extent = 1; extent <= kCount; ++extent)
    extents.push_back({extent});
  CallTwiceOnEach(f, extents);
  EXPECT_EQ(Count(Reason::kGraphLimit), 2 * (kCount - 1));
  EXPECT_EQ(Lines({"graph_limit"}), 1);
}

TEST_F(TorchLimitsTest, ExtentsAboveTheOnlyBucketRunEagerlyAndAreReportedOnce) {
  const int64_t only[] = {1};
  const Program* f =
      Add(SpecOf("f", 1, *PaddingPolicy::List(only, 1)), [this](CallContext& context) {
        const absl::StatusOr<Tensor> y = context.AllocateOutput(0);
        return y.ok() ? Scale(context, context.input(0).data, y->data, 2) : y.status();
      });
  for (const int64_t count : {8, 9, 8, 9, 8, 9})
    EXPECT_EQ(ValuesOf(Run(f, {Upload(Constant(1, count))})), Constant(2, count));
  EXPECT_EQ(Count(Reason::kOverLargestBucket), 6);
  EXPECT_EQ(Lines({"'f'", "over_largest_bucket"}), 1);
  EXPECT_TRUE(Recorded().empty());
}

TEST_F(TorchLimitsTest, OfExtentsOnlyTheListedThreeAreGraphed) {
  ExpectOnlyListedAreGraphed({{8}, {16}, {32}}, {{4}, {9}, {33}});
}

TEST_F(TorchLimitsTest, OfPairsOfExtentsOnlyTheListedFourAreGraphed) {
  ExpectOnlyListedAreGraphed({{2, 3}, {3, 2}, {4, 4}, {8, 8}}, {{2, 2}, {3, 3}, {4, 8}});
}

TEST_F(TorchLimitsTest, OfTriplesOfExtentsOnlyTheListedFourAreGraphed) {
  ExpectOnlyListedAreGraphed({{1, 2, 3}, {3, 2, 1}, {4, 4, 4}, {2, 2, 2}},
                             {{1, 2, 2}, {2, 1, 3}, {4, 4, 2}});
}

TEST_F(TorchLimitsTest, RecordingsUpToTheLargestWarmedAheadMapNothing) {
  const Program* f = AddDynamic("f", 1);
  const std::vector<std::vector<int64_t>> largest = {{kCount}};
  ASSERT_OK(session_->Warm(*f, nullptr, largest, {}, {}));
  const MemoryUsage asked = session_->memory().usage();
  EXPECT_GT(asked.of(MemoryKind::kPlan), 0);
  Run(f, {UploadOf({1}, 1)}).Release();
  const int64_t before = device_.ledger().calls(&DriverTable::MemMap);
  for (const int64_t extent : {1, 8, 33, 64}) {
    const Tensor x = UploadOf({extent}, 1);
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
